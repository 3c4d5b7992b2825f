"""EI, EI per second and MCMS on one problem until a deadline, and what they reached."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float

from analysis.incumbent import at_budgets, incumbents
from datasets.files import write_atomically
from harness.acquisitions import CostRule, Utility
from harness.acquisitions.cost_rules import Ignore, Power
from harness.acquisitions.ei import ExpectedImprovement
from harness.acquisitions.rollouts import MonteCarloMultiStep
from harness.cost_models import CostModel
from harness.loop import run
from harness.optimizer import Optimizer
from harness.problem import Problem
from harness.records import spec_hash
from harness.study import COST_SD, ENGINE, LOOK_AHEAD
from harness.surrogates.gp import GaussianProcess

METHODS: dict[str, Callable[[], tuple[Utility, CostRule]]] = {
    "EI": lambda: (ExpectedImprovement(), Ignore()),
    "EI/s": lambda: (ExpectedImprovement(), Power(1.0)),
    "MCMS": lambda: (MonteCarloMultiStep(), Ignore()),
}
MOST = 400  # evaluations, whatever the deadline


@dataclass(frozen=True)
class Timed:
    """One run: errors and seconds of the evaluations, of which the first `done` end within the deadline; X: where."""

    errors: Float[np.ndarray, " t"]
    cost_s: Float[np.ndarray, " t"]
    done: int
    X: Float[np.ndarray, "t d"]

    def best_at(self, seconds: Float[np.ndarray, " s"]) -> Float[np.ndarray, " s"]:
        """Return the lowest error found by each time, a step function; NaN before the first evaluation has ended."""
        return at_budgets(incumbents(self.errors[None]), self.cost_s[None], seconds[None])[0]

    @property
    def best(self) -> float:
        """The lowest error found in time; NaN if nothing was."""
        return float(np.nanmin(self.errors[: self.done])) if self.done else float("nan")

    @property
    def capped(self) -> bool:
        """Whether the run made its last evaluation before the deadline."""
        return self.done == len(self.errors) >= MOST

    @property
    def seconds(self) -> float:
        """The mean seconds of an evaluation in time; NaN if there is none."""
        return float(self.cost_s[: self.done].mean()) if self.done else float("nan")


def sequences(
    make: Callable[[int], Problem],
    cost_model: Callable[[], CostModel],
    deadline_s: float,
    seeds: Sequence[int],
    n_initial: int,
    folder: Path | None = None,
    about: Mapping[str, object] | None = None,
) -> dict[str, list[Timed]]:
    """Return each method's runs, one per seed; `make` opens the problem of a seed.

    The initial design counts in time and evaluations; an evaluation that ends after the deadline does not count.
    folder: in a folder of it named by the hash of `settings`, every run is kept as soon as it is over, and taken from
    if it is there; None keeps nothing. about: what else makes the runs what they are, such as the problem's settings.
    """
    if folder is not None:
        spec = settings(cost_model(), deadline_s, n_initial, about or {})
        folder = folder / spec_hash(spec)
        write_atomically(folder / "spec.json", f"{json.dumps(spec, indent=1, sort_keys=True)}\n".encode())
    found: dict[str, list[Timed]] = {name: [] for name in METHODS}
    for seed in seeds:  # method by method within a seed, so that what an interruption leaves is balanced
        for name in METHODS:
            path = None if folder is None else folder / f"{name.replace('/', '_per_')}-{seed}.csv"
            run_of = partial(_sequence, name, make, cost_model, deadline_s, seed, n_initial)
            found[name].append(run_of() if path is None else _kept(path, deadline_s, run_of))
    return found


def settings(
    cost_model: CostModel, deadline_s: float, n_initial: int, about: Mapping[str, object]
) -> dict[str, object]:
    """Return all that determines runs kept, but for the seed, as plain values: a run of other settings is another."""
    methods = {name: [_described(part) for part in make()] for name, make in METHODS.items()}
    own = {"deadline_s": deadline_s, "n_initial": n_initial, "evaluations": MOST, "engine": ENGINE}
    models = {"surrogate": GaussianProcess.__name__, "cost_model": type(cost_model).__name__}
    return {"methods": methods, **models, **own, "about": dict(about)}


def _described(part: Utility | CostRule) -> dict[str, object]:
    """Return class and settings of a part of a method."""
    version = {"look_ahead": LOOK_AHEAD} if getattr(part, "looks_ahead", False) else {}
    if getattr(part, "weighs_cost_sd", False):
        version["cost_sd"] = COST_SD
    own = {k: v for k, v in vars(part).items() if not k.startswith("_")}
    return {"class": type(part).__name__, **own, **version}


def _sequence(
    name: str,
    make: Callable[[int], Problem],
    cost_model: Callable[[], CostModel],
    deadline_s: float,
    seed: int,
    n_initial: int,
) -> Timed:
    utility, rule = METHODS[name]()
    optimizer = Optimizer(
        GaussianProcess(), cost_model(), utility, rule, iterations=MOST, n_initial=n_initial, tau=deadline_s, seed=seed
    )
    problem = make(seed)
    trace = run(problem, optimizer, seed, MOST, n_initial, deadline_s).columns
    X = np.array([trace[parameter] for parameter in problem.space.names], dtype=float).T
    return _timed(np.array(trace["error"], dtype=float), np.array(trace["cost_s"], dtype=float), X, deadline_s)


def _timed(errors: np.ndarray, cost_s: np.ndarray, X: np.ndarray, deadline_s: float) -> Timed:
    return Timed(errors, cost_s, int((np.cumsum(cost_s) <= deadline_s + 1e-9).sum()), X)


def _kept(path: Path, deadline_s: float, make: Callable[[], Timed]) -> Timed:
    """Return the run kept at `path`; if there is none, make it and keep it, to the last digit."""
    if not path.is_file():
        one = make()
        columns = {"error": one.errors, "cost_s": one.cost_s, **{f"x{k}": x for k, x in enumerate(one.X.T)}}
        text = pd.DataFrame(columns).to_csv(index=False, float_format="%.17g", lineterminator="\n")
        write_atomically(path, text.encode())
    values = np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)
    return _timed(values[:, 0], values[:, 1], values[:, 2:], deadline_s)


def summary(runs: Sequence[Timed]) -> dict[str, str]:
    """Return means with standard errors over seeds: evaluations in time, seconds of each, lowest error.

    For one seed, its own numbers. Runs without an evaluation in time have neither seconds nor error: the means are of
    the others, and how many there were is said.
    """

    def shown(values: Sequence[float]) -> str:
        x = np.array(values, dtype=float)
        none = int(np.isnan(x).sum())
        x = x[~np.isnan(x)]
        if len(x) == 0:
            return "none in time"
        text = f"{x[0]:.4g}" if len(x) == 1 else f"{x.mean():.4g} ± {x.std(ddof=1) / np.sqrt(len(x)):.2g}"
        return f"{text} ({none} of {len(values)} runs had none in time)" if none else text

    return {
        "evaluations": shown([r.done for r in runs]),
        "seconds each": shown([r.seconds for r in runs]),
        "best": shown([r.best for r in runs]),
    }

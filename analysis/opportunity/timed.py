"""EI, EI per second and MCMS on one problem until a deadline, and what they reached."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from harness.acquisitions.ei import ExpectedImprovement
from harness.acquisitions.ignore import Ignore
from harness.acquisitions.mcms import MonteCarloMultiStep
from harness.acquisitions.power import Power
from harness.acquisitions.protocol import CostRule, Utility
from harness.cost_models.protocol import CostModel
from harness.optimizer import Optimizer
from harness.problem import Problem
from harness.run import run
from harness.surrogates.gp import GaussianProcess

METHODS: dict[str, Callable[[], tuple[Utility, CostRule]]] = {
    "EI": lambda: (ExpectedImprovement(), Ignore()),
    "EI/s": lambda: (ExpectedImprovement(), Power(1.0)),
    "MCMS": lambda: (MonteCarloMultiStep(), Ignore()),
}
_MOST = 400  # evaluations, whatever the deadline


@dataclass(frozen=True)
class Timed:
    """One run: errors and seconds of the evaluations, of which the first `done` end within the deadline."""

    errors: Float[np.ndarray, " t"]
    cost_s: Float[np.ndarray, " t"]
    done: int

    @property
    def best(self) -> float:
        """The lowest error found in time; NaN if nothing was."""
        return float(np.nanmin(self.errors[: self.done])) if self.done else float("nan")

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
) -> dict[str, list[Timed]]:
    """Return each method's runs, one per seed; `make` opens the problem of a seed.

    The initial design counts in time and evaluations; an evaluation that ends after the deadline does not count.
    """
    found: dict[str, list[Timed]] = {}
    for name, parts in METHODS.items():
        for seed in seeds:
            utility, rule = parts()
            optimizer = Optimizer(
                GaussianProcess(), cost_model(), utility, rule,
                iterations=_MOST, n_initial=n_initial, tau=deadline_s, seed=seed,
            )  # fmt: skip
            trace = run(make(seed), optimizer, seed, _MOST, n_initial, deadline_s).columns
            errors, cost = np.array(trace["error"], dtype=float), np.array(trace["cost_s"], dtype=float)
            done = int((np.cumsum(cost) <= deadline_s + 1e-9).sum())
            found.setdefault(name, []).append(Timed(errors, cost, done))
    return found


def summary(runs: Sequence[Timed]) -> dict[str, str]:
    """Return means with standard errors over seeds: evaluations in time, seconds of each, lowest error."""

    def shown(values: Sequence[float]) -> str:
        x = np.array(values, dtype=float)
        error = x.std(ddof=1) / np.sqrt(len(x)) if len(x) > 1 else float("nan")
        return f"{x.mean():.4g} ± {error:.2g}"

    return {
        "evaluations": shown([r.done for r in runs]),
        "seconds each": shown([r.seconds for r in runs]),
        "best": shown([r.best for r in runs]),
    }

"""Milliseconds per step of every utility, of MCMS's paths alone, and what studies of all utilities will take.

CPU time of one thread, so that a busy machine tells the same.
"""

import time
from collections import Counter
from collections.abc import Callable

import numpy as np
from hydra.utils import instantiate
from omegaconf import OmegaConf
from rich.console import Console
from rich.table import Table
from sequence import CANDIDATES, FEATURES, Sequence, sequence

from harness.acquisitions.cost_rules import Ignore
from harness.acquisitions.rollouts import RemainingBudget, rollout_values
from harness.config import CONFIGS
from harness.cost_models.linear import LowVariance
from harness.optimizer import Optimizer
from harness.problem import Evaluation
from harness.surrogates.gp import GaussianProcess
from tabular_cache.table import TABLES, read_manifest

SIZES, ROUNDS = (20, 50, 100), 5
STUDIES, SEEDS, EVALUATIONS = ("utilities", "deadlines"), 3, 100
_AT, _OFFERED = (6, 35, 70, 100), (300, 1000, CANDIDATES)  # evaluations and candidates between which is interpolated


def table(console: Console) -> None:
    """Print ms per step, fit included, at each n."""
    data = sequence(SIZES[-1])
    out = Table("CPU ms per step", *(f"n = {n}" for n in SIZES))
    for name in names():
        out.add_row(name, *(f"{_step(data, name, n, CANDIDATES):.1f}" for n in SIZES))
    console.print(out)
    console.print(f"{CANDIDATES} candidates; medians of {ROUNDS} steps.")
    _paths(console, data)
    _studies(console, data)


def names() -> list[str]:
    """Return the utilities that there are."""
    return sorted(path.stem for path in (CONFIGS / "utility").glob("*.yaml"))


def _step(data: Sequence, name: str, n: int, candidates: int, deadline: bool = False) -> float:
    """Return the median CPU ms of the last steps up to n evaluations, each with a fit to data that are new to it.

    deadline: as much time is left as has been spent.
    """
    utility = instantiate(OmegaConf.to_container(OmegaConf.load(CONFIGS / "utility" / f"{name}.yaml")))
    tau = 2.0 * float(data.cost_s[:n].sum()) if deadline else None
    iterations = max(EVALUATIONS, n) + 20
    optimizer = Optimizer(GaussianProcess(), LowVariance(FEATURES), utility, Ignore(), iterations=iterations, tau=tau)
    spent, first = [], max(5, n - ROUNDS)  # before, a design is on offer
    for i in range(n):
        if i >= first:
            spent.append(_milliseconds(lambda at=i: optimizer.ask(data.candidates[at][:candidates])))
        optimizer.tell(data.X[i], Evaluation(data.y[i], data.cost_s[i], 0.0, 0.0))
        if i + 1 == first:
            optimizer.ask(data.candidates[first][:candidates])  # compiles
    return float(np.median(spent))


def _median(call: Callable[[], object]) -> float:
    call()  # compiles
    return float(np.median([_milliseconds(call) for _ in range(ROUNDS)]))


def _milliseconds(call: Callable[[], object]) -> float:
    start = time.thread_time()
    call()
    return 1e3 * (time.thread_time() - start)


def _paths(console: Console, data: Sequence) -> None:
    n = 50
    posterior = GaussianProcess().fit(data.X[:n], data.y[:n])
    joint, clock = posterior.joint(data.candidates[n][:100]), RemainingBudget(10.0, np.zeros(100), np.zeros(100))
    normals, best = np.random.default_rng(0).standard_normal((32, 100, 3)), float(data.y[:n].min())
    ms = _median(lambda: rollout_values(joint, clock, np.arange(20), best, normals, 10))
    console.print(f"MCMS, 20 candidates x 32 paths x 10 steps over a pool of 100, n = 50: {ms:.0f} ms.")


def _studies(console: Console, data: Sequence) -> None:
    """Print the CPU hours of the shipped studies of utilities over all problems with a table."""
    offered = np.array([min(entry["rows"], CANDIDATES) for entry in read_manifest(TABLES)["tables"].values()])
    out = Table("CPU hours", "ms per step", *(h for study in STUDIES for h in (f"{study}: rules", "hours")))
    rows: dict[str, list[float]] = {}
    for study in STUDIES:
        methods = OmegaConf.to_container(OmegaConf.load(CONFIGS / "study" / f"{study}.yaml"))["methods"]  # type: ignore[index,call-overload]
        rules = Counter(name for method in methods for name in method["utility"])
        for name, count in rules.items():
            ms = _mean(data, name, offered, study == "deadlines")
            hours = ms * count * len(offered) * SEEDS * (EVALUATIONS - 5) / 3.6e6
            rows.setdefault(name, [ms]).extend([count, hours])
    for name, (ms, *numbers) in sorted(rows.items(), key=lambda row: -row[1][2]):
        out.add_row(name, f"{ms:.1f}", *(f"{v:.2f}" if k % 2 else f"{v:.0f}" for k, v in enumerate(numbers)))
    totals = [sum(row[k] for row in rows.values()) for k in range(1, 5)]
    out.add_row("all", "", *(f"{v:.2f}" if k % 2 else f"{v:.0f}" for k, v in enumerate(totals)), style="bold")
    console.print(out)
    console.print(
        f"{len(offered)} problems, as many rows as their tables have (at most {CANDIDATES}), {SEEDS} seeds, "
        f"{EVALUATIONS} evaluations, also with deadlines, where runs may be shorter or, of cheap methods, up to "
        "three times as long. Starting workers not included."
    )


def _mean(data: Sequence, name: str, offered: np.ndarray, deadline: bool) -> float:
    """Return the mean CPU ms of a step over the problems and the steps of a run, between what is measured."""
    ms = [[_step(data, name, n, m, deadline) for m in _OFFERED] for n in _AT]
    by_problem = np.array([np.interp(offered, _OFFERED, row).mean() for row in ms])
    return float(np.interp(np.arange(5, EVALUATIONS), _AT, by_problem).mean())

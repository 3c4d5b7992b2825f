"""Milliseconds per step of every utility: CPU time of one thread, so that a busy machine says the same."""

import time
from collections.abc import Callable

import numpy as np
from hydra.utils import instantiate
from omegaconf import OmegaConf
from rich.console import Console
from rich.table import Table
from sequence import CANDIDATES, FEATURES, Sequence, sequence

from harness.acquisitions.cost_rules import Ignore
from harness.config import CONFIGS
from harness.cost_models.linear import LowVariance
from harness.optimizer import Optimizer
from harness.problem import Evaluation
from harness.surrogates.gp import GaussianProcess

SIZES, ROUNDS = (20, 50, 100), 5


def table(console: Console) -> None:
    """Print ms per step, fit included, at each n."""
    data = sequence(SIZES[-1])
    out = Table("CPU ms per step", *(f"n = {n}" for n in SIZES))
    for name in names():
        out.add_row(name, *(f"{_step(data, name, n):.1f}" for n in SIZES))
    console.print(out)
    console.print(
        f"{CANDIDATES} candidates; medians of {ROUNDS} steps. Left out: what scores all candidates (mcms_paper)."
    )


def names() -> list[str]:
    """Return the utilities that there are, but for those that could score fewer candidates and score all.

    These take minutes a step (`mcms_paper`).
    """
    paths = (CONFIGS / "utility").glob("*.yaml")
    return sorted(path.stem for path in paths if OmegaConf.load(path).get("shortlist", 0) is not None)


def _step(data: Sequence, name: str, n: int) -> float:
    """Return the median CPU ms of the last steps up to n evaluations, each with a fit to data that are new to it."""
    utility = instantiate(OmegaConf.to_container(OmegaConf.load(CONFIGS / "utility" / f"{name}.yaml")))
    optimizer = Optimizer(GaussianProcess(), LowVariance(FEATURES), utility, Ignore(), iterations=SIZES[-1] + 20)
    spent, first = [], max(5, n - ROUNDS)  # before, a design is on offer
    for i in range(n):
        if i >= first:
            spent.append(_milliseconds(lambda at=i: optimizer.ask(data.candidates[at][:CANDIDATES])))
        optimizer.tell(data.X[i], Evaluation(data.y[i], data.cost_s[i], 0.0, 0.0))
        if i + 1 == first:
            optimizer.ask(data.candidates[first][:CANDIDATES])  # compiles
    return float(np.median(spent))


def _milliseconds(call: Callable[[], object]) -> float:
    start = time.thread_time()
    call()
    return 1e3 * (time.thread_time() - start)

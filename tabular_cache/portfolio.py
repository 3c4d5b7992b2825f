"""A design of configurations that were good on other data sets: the start `design=portfolio`.

Chosen greedily, costs in mind. With r_p(x) the regret of configuration x on problem p, in units of its median's, plus
0.01 (`transfer.log_regret`) and at most 3, and c_p(x) its cost in units of the problem's median, each next
configuration is the one of the highest

    mean over p of max(0, b_p - r_p(x)) / (mean over p of c_p(x))^alpha,  b_p the lowest r_p chosen so far, at first 3.

Tables share their first configurations. Those of the problem's own data set, or of related ones, are never used.
Source: greedy portfolios as in Xu, Hoos and Leyton-Brown 2010 (Hydra); and Feurer et al. 2022 (auto-sklearn 2.0).
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from datasets.errors import BadInput
from harness.acquisitions.designs import Design
from harness.arrays import Points
from harness.errors import folder, number
from harness.normal import exp, log
from harness.problem import Problem
from tabular_cache.schema import digest_of
from tabular_cache.table import TABLES, load_unchanged
from tabular_cache.transfer import Entries, described, log_regret, other_tables

VERSION = 1  # raise it when the same tables give other points
_WORST = 3.0  # regret at which a configuration counts for nothing


class Portfolio(Design):
    """Points of the greedy portfolio; alpha: the power of the cost; tables: their folder, None for the shipped ones."""

    def __init__(self, alpha: float = 1.0, tables: str | None = None) -> None:
        self._alpha = number("design.alpha", alpha, "a number >= 0", 0.0)
        self._folder = TABLES if tables is None else folder("design.tables", tables)

    def points(self, problem: Problem, n: int) -> Points:
        """Return the first `n` of the portfolio for this problem; raises BadInput where there is nothing to learn."""
        entries = self._entries(problem)
        known = tuple((name, str(entry["sha256"])) for name, entry in entries.items())
        unit, regret, cost = _shared(known, self._folder)
        return unit[greedy(regret, cost, self._alpha, n)]

    def fingerprint(self, problem: Problem) -> str:
        """Return the digest of the tables that the portfolio is chosen on."""
        tables = {name: str(entry["sha256"]) for name, entry in self._entries(problem).items()}
        return digest_of({"version": VERSION, "alpha": self._alpha, "tables": tables})

    def _entries(self, problem: Problem) -> Entries:
        return other_tables(described(problem), self._folder, related=False)


def greedy(regret: Float[np.ndarray, "p x"], cost: Float[np.ndarray, "p x"], alpha: float, n: int) -> Any:
    """Return the indices of the first n configurations of the portfolio; ties go to the lower index.

    regret, cost: as above, in units of each problem's. Stops early where no configuration adds anything.
    """
    price, best = exp(alpha * log(cost.mean(axis=0))), np.full(len(regret), _WORST)
    chosen: list[int] = []
    while len(chosen) < min(n, regret.shape[1]):
        gain = np.maximum(best[:, None] - regret, 0.0).mean(axis=0) / price
        gain[chosen] = -1.0
        i = int(gain.argmax())
        if chosen and gain[i] <= 0.0:
            break
        chosen.append(i)
        best = np.minimum(best, regret[:, i])
    return np.array(chosen, dtype=np.intp)


@lru_cache(maxsize=4)
def _shared(
    tables: tuple[tuple[str, str], ...], folder: Path
) -> tuple[Float[np.ndarray, "x 7"], Float[np.ndarray, "p x"], Float[np.ndarray, "p x"]]:
    """Return the points that all of the tables have measured, and regret and cost there; raises BadInput for none."""
    rows = [_measured(problem, sha256, folder) for problem, sha256 in tables]
    common = sorted(set.intersection(*(set(found) for found, _, _ in rows)))
    if not common:
        raise BadInput(f"the tables in {folder} share no configuration: a portfolio needs some")
    at = [[found[key] for key in common] for found, _, _ in rows]
    unit = np.array([np.frombuffer(key) for key in common])
    regret = np.array([regret[i] for i, (_, regret, _) in zip(at, rows, strict=True)])
    cost = np.array([cost[i] / np.median(cost[i]) for i, (_, _, cost) in zip(at, rows, strict=True)])
    return unit, regret, cost


@lru_cache(maxsize=256)
def _measured(problem: str, sha256: str, folder: Path) -> tuple[dict[bytes, int], np.ndarray, np.ndarray]:
    """Return places of the measured rows by the bytes of their points, their regret and their cost in seconds."""
    table = load_unchanged(problem, sha256, folder)
    measured = np.flatnonzero(table.measured & np.isfinite(table["val_error"]))
    if not len(measured):
        raise BadInput(f"the table of {problem}: no training succeeded")
    regret = np.minimum(exp(log_regret(table["val_error"][measured].astype(np.float64))), _WORST)
    keys = {point.tobytes(): i for i, point in enumerate(np.ascontiguousarray(table.unit[measured]))}
    return keys, regret, table["scaled_s"][measured].astype(np.float64)

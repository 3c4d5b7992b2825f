"""Ranks of methods by the best error reached within a budget (STUDY: F4, F6).

Notation: C cells (problem and seed), B budget multiples, S shares of a budget, M methods.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float
from scipy.stats import rankdata

from analysis.bootstrap import Scheme, bootstrap
from analysis.budgets import MULTIPLES
from analysis.incumbent import best_within, spent
from analysis.traces import CELL, PROBLEM, Traces
from harness.errors import BadInput

SHARES = np.linspace(0, 1, 41)


@dataclass(frozen=True)
class Ranks:
    """Ranks (1 = best) of M methods in every cell in which all of them have a run.

    capped: runs that ended before the budget was spent, which count with their final incumbent.
    unfinished: runs with no successful evaluation within the budget, which rank last (ties).
    left_out: cells in which some method has no run, or whose problem has no minimal budget.
    """

    methods: list[str]
    cells: pd.DataFrame
    multiples: Float[np.ndarray, " B"]
    shares: Float[np.ndarray, " S"]
    rank: Float[np.ndarray, "C B S M"]
    capped: Bool[np.ndarray, "C B M"]
    unfinished: Bool[np.ndarray, "C B M"]
    left_out: int

    def wide(self) -> pd.DataFrame:
        """Return ranks with one row per cell and columns (multiple, share, method)."""
        columns = pd.MultiIndex.from_product(
            [self.multiples, self.shares, self.methods], names=["multiple", "share", "method"]
        )
        flat = self.rank.reshape(len(self.cells), -1)
        return pd.DataFrame(flat, index=pd.MultiIndex.from_frame(self.cells), columns=columns)


def ranks(
    traces: Traces,
    budgets: pd.DataFrame,
    methods: list[str],
    multiples: tuple[float, ...] = MULTIPLES,
    shares: Float[np.ndarray, " S"] = SHARES,
    what: str = "ranking",
) -> Ranks:
    """Rank `methods` at every share of every multiple of each problem's minimal budget.

    Ranking is by the best error among evaluations that end within share x multiple x budget; ties share the
    mean rank. `traces`: one run per (problem, method, seed), of any length. Raises BadInput when fewer than
    two methods are asked for, or when no cell has them all.
    """
    if len(methods) < 2:
        raise BadInput(f"{what} needs two methods or more, got: {', '.join(methods) or 'none'}")
    row = traces.runs.assign(row=np.arange(len(traces.runs))).pivot(index=CELL, columns="method", values="row")
    row = row.reindex(columns=methods)
    budget = budgets["budget_s"].reindex(pd.MultiIndex.from_frame(row.index.to_frame()[PROBLEM])).to_numpy()
    complete = row.notna().all(axis=1).to_numpy() & ~np.isnan(budget)
    if not complete.any():
        raise BadInput(f"{what}: no problem and seed has runs of all of {', '.join(methods)}")
    rows, budget = row[complete].to_numpy(dtype=int), budget[complete]
    whole = budget[:, None] * np.asarray(multiples)
    error, capped, unfinished = _reached(traces, rows, whole, np.asarray(shares))
    rank = rankdata(np.where(np.isnan(error), np.inf, error), method="average", axis=-1)
    cells = row.index[complete].to_frame(index=False)
    return Ranks(methods, cells, np.asarray(multiples), np.asarray(shares), rank, capped, unfinished,
                 int((~complete).sum()))  # fmt: skip


def _reached(
    traces: Traces, rows: np.ndarray, whole: np.ndarray, shares: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Best error (C, B, S, M) at every share; capped and unfinished (C, B, M) at the whole budgets (C, B)."""
    points = (whole[:, :, None] * shares).reshape(len(whole), -1)
    error, capped, unfinished = [], [], []
    for column in rows.T:
        run_error, run_cost = traces.error[column], traces.cost_s[column]
        error.append(best_within(run_error, run_cost, points).reshape(*whole.shape, len(shares)))
        total = np.nanmax(spent(run_cost), axis=1)
        capped.append(total[:, None] < whole)
        unfinished.append(np.isnan(best_within(run_error, run_cost, whole)))
    return np.stack(error, -1), np.stack(capped, -1), np.stack(unfinished, -1)


def rank_curves(ranked: Ranks, scheme: Scheme = "hierarchical") -> pd.DataFrame:
    """Return the mean rank over cells with its interval: multiple, share, method, value, low, high, n."""
    return bootstrap(ranked.wide(), "mean", scheme).reset_index()

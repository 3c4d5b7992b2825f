"""Ranks of methods by the best error reached within a budget (STUDY: F4, F6).

Notation: C cells (problem and seed), B budget multiples, S shares of a budget, M methods. The methods of EI^alpha and
CEI do not look at the budget, so one long run serves all; EI-cool plans for one, and has a run for each.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float
from scipy.stats import rankdata

from analysis.bootstrap import Scheme, bootstrap
from analysis.budgets import MULTIPLES
from analysis.incumbent import at_budgets, spent
from analysis.methods import PREFIX_FAMILIES
from analysis.traces import CELL, PROBLEM, Traces
from harness.errors import BadInput

SHARES = np.linspace(0, 1, 41)
CAP = 300  # iterations that a run of the time study goes on for at most (STUDY: "Minimal budget")
_SAME = 1e-6  # relative: a planned budget is one of the study's, up to rounding


@dataclass(frozen=True)
class Ranks:
    """Ranks (1 = best) of M methods in every cell in which all of them have a run.

    present: which methods take part at which budget: a method that plans with its budget (EI-cool) has one run for
    each, and takes part where every cell has that run; elsewhere its ranks are NaN.
    capped: runs that ended before the budget was spent, which count with their final incumbent; short: those of
    them that did so because they were planned for fewer iterations than `CAP`.
    unfinished: runs with no successful evaluation within the budget, which rank last (ties).
    left_out: cells in which some method has no run, or whose problem has no minimal budget.
    """

    methods: list[str]
    cells: pd.DataFrame
    multiples: Float[np.ndarray, " B"]
    shares: Float[np.ndarray, " S"]
    rank: Float[np.ndarray, "C B S M"]
    present: Bool[np.ndarray, "B M"]
    capped: Bool[np.ndarray, "C B M"]
    short: Bool[np.ndarray, "C B M"]
    unfinished: Bool[np.ndarray, "C B M"]
    left_out: int

    def wide(self) -> pd.DataFrame:
        """Return ranks with one row per cell and columns (multiple, share, method)."""
        columns = pd.MultiIndex.from_product(
            [self.multiples, self.shares, self.methods], names=["multiple", "share", "method"]
        )
        flat = self.rank.reshape(len(self.cells), -1)
        return pd.DataFrame(flat, index=pd.MultiIndex.from_frame(self.cells), columns=columns)

    def part(self, which: Bool[np.ndarray, "C B M"]) -> Float[np.ndarray, " B"]:
        """Return, per budget, the share of the runs taking part for which `which` holds."""
        return np.asarray(np.where(self.present, which, False).sum((0, 2)) / (len(self.cells) * self.present.sum(1)))


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
    mean rank. `traces`: one run per (problem, method, seed), of any length, and of methods that plan one per budget
    (`selection.for_budgets`). Raises BadInput when fewer than two methods are asked for, or when no cell has them all.
    """
    if len(methods) < 2:
        raise BadInput(f"{what} needs two methods or more, got: {', '.join(methods) or 'none'}")
    runs = traces.runs.assign(row=np.arange(len(traces.runs)))
    plans = ~runs["acq"].isin(PREFIX_FAMILIES)
    planning = [m for m in methods if m in set(runs.loc[plans, "method"])]
    row = runs[~plans].pivot(index=CELL, columns="method", values="row")
    row = row.reindex(columns=[m for m in methods if m not in planning])
    budget = budgets["budget_s"].reindex(pd.MultiIndex.from_frame(row.index.to_frame()[PROBLEM])).to_numpy()
    complete = row.notna().all(axis=1).to_numpy() & ~np.isnan(budget)
    if row.shape[1] < 2 or not complete.any():
        raise BadInput(f"{what}: no problem and seed has runs of all of {', '.join(row.columns) or 'those methods'}")
    row, budget = row[complete], budget[complete]
    whole = budget[:, None] * np.asarray(multiples)
    rows = np.stack([_rows(runs, row, method, whole) for method in methods], axis=-1)
    present = np.asarray((rows >= 0).all(axis=0))
    error, capped, short, unfinished = _reached(traces, rows, whole, np.asarray(shares))
    rank = rankdata(np.where(np.isnan(error), np.inf, error), method="average", axis=-1)
    if not present.all():
        rank = _rank_present(error, present)
    cells = row.index.to_frame(index=False)
    return Ranks(methods, cells, np.asarray(multiples), np.asarray(shares), rank, present, capped, short, unfinished,
                 left_out=int((~complete).sum()))  # fmt: skip


def _rows(runs: pd.DataFrame, row: pd.DataFrame, method: str, whole: Float[np.ndarray, "C B"]) -> np.ndarray:
    """Return (C, B) positions of a method's runs; -1 where a method that plans has none for that budget."""
    if method in row:
        return np.repeat(row[method].to_numpy(dtype=int)[:, None], whole.shape[1], axis=1)
    found = np.full(whole.shape, -1)
    place = {tuple(cell): c for c, cell in enumerate(row.index)}
    own = runs.loc[runs["method"] == method, [*CELL, "tau", "row"]]
    for *cell, tau, at in own.itertuples(index=False, name=None):
        c = place.get(tuple(cell))
        if c is not None:
            found[c, np.isclose(whole[c], tau, rtol=_SAME)] = at
    return found


def _reached(
    traces: Traces, rows: np.ndarray, whole: np.ndarray, shares: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Error (C, B, S, M) at every share; capped, short and unfinished (C, B, M) at the whole budgets (C, B)."""
    error = np.full((*whole.shape, len(shares), rows.shape[-1]), np.nan)
    capped, short, unfinished = (np.zeros(rows.shape, dtype=bool) for _ in range(3))
    curve, planned = traces.incumbent, traces.runs["iterations"].to_numpy()
    for b, m in np.ndindex(rows.shape[1:]):
        at = rows[:, b, m]
        if (at < 0).any():
            continue
        points = whole[:, [b]] * shares
        error[:, b, :, m] = at_budgets(curve[at], traces.cost_s[at], points)
        unfinished[:, b, m] = np.isnan(at_budgets(curve[at], traces.cost_s[at], whole[:, [b]]))[:, 0]
        capped[:, b, m] = np.nanmax(spent(traces.cost_s[at]), axis=1) < whole[:, b]
        short[:, b, m] = capped[:, b, m] & (planned[at] < CAP)
    return error, capped, short, unfinished


def _rank_present(error: np.ndarray, present: np.ndarray) -> np.ndarray:
    rank = np.full(error.shape, np.nan)
    for b, there in enumerate(present):
        part = error[:, b][..., there]
        rank[:, b][..., there] = rankdata(np.where(np.isnan(part), np.inf, part), method="average", axis=-1)
    return rank


def rank_curves(ranked: Ranks, scheme: Scheme | None = None) -> pd.DataFrame:
    """Return the mean rank over cells with its interval: multiple, share, method, value, low, high, n.

    A method has no rows at a budget at which it takes no part.
    """
    curves = bootstrap(ranked.wide(), "mean", scheme).reset_index()
    return curves[curves["n"] > 0].reset_index(drop=True)

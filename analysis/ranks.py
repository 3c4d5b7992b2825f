"""Ranks of methods by the best error reached within a budget (STUDY: F4, F6).

Notation: C cells (problem and seed), B budget multiples, S shares of a budget, M methods. The methods of EI^alpha and
CEI do not look at the budget, so one long run serves all; EI-cool plans for one, and has a run for each.
"""

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.stats import rankdata

from analysis.bootstrap import Scheme, bootstrap
from analysis.budgets import MULTIPLES
from analysis.coverage import sparse
from analysis.endings import SAME, budgets_that_count, cells_that_count, endings
from analysis.incumbent import at_budgets
from analysis.ranked import Ranks
from analysis.selection import for_budgets
from analysis.traces import CELL, PROBLEM, Traces
from datasets.errors import BadInput

SHARES = np.linspace(0, 1, 41)
MOST_LACKING = 0.1  # share of a budget's cells that may lack the run of a method that plans, for it to take part


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
    mean rank. Of several runs of a method on a problem and seed `selection.for_budgets` takes one, of methods that
    plan one per budget. Methods with too few runs are left out (`coverage.sparse`). Raises BadInput when fewer than
    two methods are asked for, or when no cell has them all.
    """
    if len(methods) < 2:
        raise BadInput(f"{what} needs two methods or more, got: {', '.join(methods) or 'none'}")
    traces = for_budgets(traces, budgets)
    runs = traces.runs.assign(row=np.arange(len(traces.runs)))
    plans = runs["plans"]
    planning = [m for m in methods if m in set(runs.loc[plans, "method"])]
    row = runs[~plans].pivot(index=CELL, columns="method", values="row")
    row = row.reindex(columns=[m for m in methods if m not in planning])
    few = sparse(runs[runs["method"].isin(row.columns) & ~plans])
    row, methods = row.drop(columns=few, errors="ignore"), [m for m in methods if m not in few]
    budget = budgets["budget_s"].reindex(pd.MultiIndex.from_frame(row.index.to_frame()[PROBLEM])).to_numpy()
    complete = row.notna().all(axis=1).to_numpy() & ~np.isnan(budget)
    if row.shape[1] < 2 or not complete.any():
        who = ", ".join(row.columns) or "those methods"
        raise BadInput(f"{what} needs a problem and seed with runs of all of {who}")
    row, budget = row[complete], budget[complete]
    whole = budget[:, None] * np.asarray(multiples)
    rows = np.stack([_rows(runs, row, method, whole) for method in methods], axis=-1)
    cells = row.index.to_frame(index=False)
    present = _taking_part(traces, rows, whole, cells)
    rows[:, ~present] = -1
    there = ((rows >= 0) | ~present).all(axis=2)
    error, unfinished = _reached(traces, rows, whole, np.asarray(shares))
    rank = rankdata(np.where(np.isnan(error), np.inf, error), method="average", axis=-1)
    if not present.all():
        rank = _rank_present(error, present)
    return Ranks(methods, cells, np.asarray(multiples), np.asarray(shares), rank, present,
                 *endings(traces, rows, whole), unfinished, there, int((~complete).sum()), few)  # fmt: skip


def _taking_part(traces: Traces, rows: np.ndarray, whole: np.ndarray, cells: pd.DataFrame) -> np.ndarray:
    """Return (B, M): which methods have runs in all cells; where they plan, in 90 % of those that the others count in.

    A cell in which a run for the budget is missing then does not count at that budget.
    """
    steady = (rows >= 0).all(axis=(0, 1))
    counts = cells_that_count(*endings(traces, rows[:, :, steady], whole))
    counts |= ~budgets_that_count(counts, cells)
    lacking = ((rows < 0) & counts[:, :, None]).sum(axis=0) / counts.sum(axis=0)[:, None]
    return np.asarray((rows >= 0).any(axis=0) & (lacking <= MOST_LACKING))


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
            found[c, np.isclose(whole[c], tau, rtol=SAME)] = at
    return found


def _reached(traces: Traces, rows: np.ndarray, whole: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Error (C, B, S, M) at every share, and which runs (C, B, M) have none at the whole budgets (C, B)."""
    error = np.full((*whole.shape, len(shares), rows.shape[-1]), np.nan)
    unfinished = np.zeros(rows.shape, dtype=bool)
    curve = traces.incumbent
    for b, m in np.ndindex(rows.shape[1:]):
        at = rows[:, b, m]
        has = at >= 0
        if not has.any():
            continue
        curves, costs, budget = curve[at[has]], traces.cost_s[at[has]], whole[has][:, [b]]
        error[has, b, :, m] = at_budgets(curves, costs, budget * shares)
        unfinished[has, b, m] = np.isnan(at_budgets(curves, costs, budget))[:, 0]
    return error, unfinished


def _rank_present(error: np.ndarray, present: np.ndarray) -> np.ndarray:
    rank = np.full(error.shape, np.nan)
    for b, there in enumerate(present):
        part = error[:, b][..., there]
        rank[:, b][..., there] = rankdata(np.where(np.isnan(part), np.inf, part), method="average", axis=-1)
    return rank


def rank_curves(ranked: Ranks, scheme: Scheme | None = None) -> pd.DataFrame:
    """Return the mean rank over the cells used, with its interval: multiple, share, method, value, low, high, n.

    counts: whether the budget does (`Ranks.counting`). A method has no rows at a budget at which it takes no part.
    """
    parts = []
    for b, (multiple, counts) in enumerate(zip(ranked.multiples, ranked.counting, strict=True)):
        part = bootstrap(ranked.over(b), "mean", scheme).reset_index()
        part.insert(0, "multiple", multiple)
        parts.append(part.assign(counts=counts))
    curves = pd.concat(parts, ignore_index=True)
    return curves[curves["n"] > 0].reset_index(drop=True)

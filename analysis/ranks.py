"""Ranks of methods by the best error reached within a budget (STUDY: F4, F6), and the minimal budget of a problem.

Notation: C cells (problem and seed), B budget multiples, S shares of a budget, M methods. The methods of EI^alpha and
CEI do not look at the budget, so one long run serves all; EI-cool plans for one, and has a run for each.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from scipy.stats import rankdata

from analysis.evaluations import CELL
from analysis.methods import EI, EIPU, PROBLEM, ordered
from analysis.selection import (
    BUDGET_MULTIPLES,
    LEAST_SHARE,
    LEAST_SPENT,
    SAME,
    SHORT,
    SPENT,
    budgets_that_count,
    cells_that_count,
    endings,
    for_budgets,
    on_papers_grid,
    sparse_methods,
)
from analysis.statistics import with_intervals
from analysis.traces import Traces, at_budgets
from analysis.tradeoffs import finals
from datasets.errors import BadInput

# The minimal budget of a problem, the unit of the time-allocation study (STUDY: "Minimal budget").


def minimal_budgets(traces: Traces, what: str = "the minimal budget") -> pd.DataFrame:
    """Return budget_s, the method that attains it, and how many methods and runs it was taken over.

    budget = min over the EI^alpha methods present, alpha in [0, 1], of the median over seeds of c*, the total cost in
    seconds of runs of equal length (`traces`: N iterations each). Methods with less than half of the seeds that another
    one has on that problem do not count: a single cheap run is no median. One row per (dataset, pipeline). Raises
    BadInput without a run of such a method.
    """
    runs = finals(traces)
    runs = runs[on_papers_grid(runs)]
    if runs.empty:
        raise BadInput(f"{what} needs a method of EI^alpha: the records hold no ei, eialpha or eipu")
    each = runs.groupby([*PROBLEM, "method"])["total_cost_s"].transform("size")
    most = each.groupby([runs[name] for name in PROBLEM]).transform("max")
    runs = runs[each >= LEAST_SHARE * most]
    medians = runs.groupby([*PROBLEM, "method"], as_index=False)["total_cost_s"].median()
    least = medians.loc[medians.groupby(PROBLEM)["total_cost_s"].idxmin()].set_index(PROBLEM)
    taken = runs.groupby(PROBLEM)["method"]
    return pd.DataFrame(
        {
            "budget_s": least["total_cost_s"],
            "method": least["method"],
            "methods": taken.nunique(),
            "runs": taken.size(),
        }
    )


# Ranks within budgets, and which of the cells and budgets count (`selection.RULE`).


@dataclass(frozen=True)
class Ranks:
    """Ranks (1 = best) of M methods in every cell in which all of them have a run.

    present: which methods take part at which budget: a method that plans with its budget (EI-cool) has one run for
    each, and takes part where nearly every cell has those runs; elsewhere its ranks are NaN. there: cells in which all
    that take part have a run; the others count nowhere.
    ending: how each run ended against the budget (`endings`); runs that ended before it was spent count with their
    final incumbent. brief: runs that could have gone on. unfinished: runs with no successful evaluation within the
    budget, which rank last (ties).
    left_out: cells in which some method has no run, or whose problem has no minimal budget. sparse: methods asked for
    and left out, for want of runs. equal_money: whether all runs of a cell are cut at what the cheapest of them spent;
    money: the share of the budget that this is (1 without).
    """

    methods: list[str]
    cells: pd.DataFrame
    multiples: Float[np.ndarray, " B"]
    shares: Float[np.ndarray, " S"]
    rank: Float[np.ndarray, "C B S M"]
    present: Bool[np.ndarray, "B M"]
    ending: Int[np.ndarray, "C B M"]
    brief: Bool[np.ndarray, "C B M"]
    unfinished: Bool[np.ndarray, "C B M"]
    there: Bool[np.ndarray, "C B"]
    left_out: int
    sparse: list[str]
    equal_money: bool
    money: Float[np.ndarray, "C B"]

    @property
    def capped(self) -> Bool[np.ndarray, "C B M"]:
        """Runs that ended before the budget was spent."""
        return np.asarray(self.ending != SPENT)

    @property
    def short(self) -> Bool[np.ndarray, "C B M"]:
        """Those of them that were planned too short for it."""
        return np.asarray(self.ending == SHORT)

    @cached_property
    def counting(self) -> Bool[np.ndarray, " B"]:
        """Budgets that count: enough data sets are left, and nine in ten runs use it up (at equal money, all do)."""
        return self.long_enough & (self.equal_money | (self.using_up >= LEAST_SPENT))

    @cached_property
    def long_enough(self) -> Bool[np.ndarray, " B"]:
        """Budgets for which runs of enough data sets were planned long enough."""
        return budgets_that_count(self._kept, self.cells)

    @cached_property
    def using_up(self) -> Float[np.ndarray, " B"]:
        """Share of the runs of all methods together, over the cells used, that use each budget up."""
        return self.part(self.ending == SPENT)

    @cached_property
    def _kept(self) -> Bool[np.ndarray, "C B"]:
        return cells_that_count(self.ending, self.brief) & self.there

    @cached_property
    def used(self) -> Bool[np.ndarray, "C B"]:
        """Cells that numbers are taken over: without a run too short for the budget (`selection.RULE`) or missing.

        At a budget for which too few runs were planned long enough, all that have every run.
        """
        return self._kept | (self.there & ~self.long_enough)

    @cached_property
    def too_short(self) -> Int[np.ndarray, " B"]:
        """How many cells are left out of each budget because a run was planned too short for it."""
        return np.asarray((~self.used & self.there).sum(axis=0))

    @cached_property
    def cut_at(self) -> Float[np.ndarray, " B"]:
        """The share of each budget that runs are cut at, in the median over the cells used; NaN where there is none."""
        cells = self.used.T
        return np.array([np.median(self.money[used, b]) if used.any() else np.nan for b, used in enumerate(cells)])

    @property
    def taking_part(self) -> list[str]:
        """The methods that take part at some budget."""
        return [method for k, method in enumerate(self.methods) if self.present[:, k].any()]

    @property
    def cells_used(self) -> pd.DataFrame:
        """The cells that some number is taken over."""
        return self.cells.iloc[np.flatnonzero(self.used.any(axis=1))]

    def over(self, budget: int) -> pd.DataFrame:
        """Return the ranks at a budget, by its position: one row per cell used, columns (share, method)."""
        columns = pd.MultiIndex.from_product([self.shares, self.methods], names=["share", "method"])
        used = self.used[:, budget]
        flat = self.rank[used, budget].reshape(int(used.sum()), -1)
        return pd.DataFrame(flat, index=pd.MultiIndex.from_frame(self.cells[used]), columns=columns)

    def at(self, multiple: float) -> pd.DataFrame:
        """Return the ranks at one whole budget: one row per cell used, one column per method."""
        whole = self.over(int(np.flatnonzero(self.multiples == multiple)[0]))
        return whole.loc[:, self.shares[-1]]

    def named(self, multiple: float) -> str:
        """Return a budget as claims name it: at equal money with what the runs are cut at in fact, in the median."""
        share = float(self.cut_at[self.multiples == multiple][0]) if self.equal_money else np.nan
        return f"{multiple:.0%}" if np.isnan(share) else f"{multiple:.0%} (cut at {multiple * share:.0%})"

    def part(self, which: Bool[np.ndarray, "C B M"]) -> Float[np.ndarray, " B"]:
        """Return, per budget, the share of the runs taking part for which `which` holds, over the cells used."""
        taking = self.used[:, :, None] & self.present
        return np.asarray((taking & which).sum((0, 2)) / taking.sum((0, 2)))


FAMILIES: dict[str, Callable[[pd.DataFrame], list[str]]] = {
    "cei": lambda runs: ordered(runs[runs["lam"].notna() | runs["method"].isin([EI, EIPU])]),
    "eialpha": lambda runs: ordered(runs[on_papers_grid(runs)]),
}
"""The methods of F6 and F4, of those among the runs."""

RANK_CURVE_SHARES = np.linspace(0, 1, 41)
MOST_LACKING = 0.1  # share of a budget's cells that may lack the run of some method that plans and takes part


def ranks(
    traces: Traces,
    budgets: pd.DataFrame,
    methods: list[str],
    multiples: tuple[float, ...] = BUDGET_MULTIPLES,
    shares: Float[np.ndarray, " S"] = RANK_CURVE_SHARES,
    what: str = "ranking",
    equal_money: bool = False,
) -> Ranks:
    """Rank `methods` at every share of every multiple of each problem's minimal budget.

    Ranking is by the best error among evaluations that end within share x multiple x budget (the last share is 1);
    ties share the mean rank. Of several runs of a method on a problem and seed `selection.for_budgets` takes one,
    of methods that plan one per budget. Methods with too few runs are left out (`selection.sparse_methods`). Raises
    BadInput when fewer than two methods are asked for, or when no cell has them all.

    equal_money: of a budget that some run of a cell (problem and seed) does not use up, only what the cheapest of
    that cell's runs spent is given to all of them. Without, runs that end early at 300 evaluations are compared
    with others at equal lengths rather than at equal money.
    """
    if len(methods) < 2:
        raise BadInput(f"{what} needs two methods or more, got: {', '.join(methods) or 'none'}")
    if len(set(methods)) < len(methods):
        raise BadInput(f"{what} takes each method once, got: {', '.join(methods)}")
    traces = for_budgets(traces, budgets)
    runs = traces.runs.assign(row=np.arange(len(traces.runs)))
    if without := sorted(set(methods) - set(runs["method"])):
        raise BadInput(f"{what} needs runs planned for a budget (tau): {', '.join(without)} has none")
    plans = runs["plans"]
    planning = set(runs.loc[plans, "method"])
    row = runs[~plans].pivot(index=CELL, columns="method", values="row")
    row = row.reindex(columns=[m for m in methods if m not in planning])
    few = sparse_methods(runs[runs["method"].isin(row.columns) & ~plans])
    row, methods = row.drop(columns=few, errors="ignore"), [m for m in methods if m not in few]
    budget = budgets["budget_s"].reindex(pd.MultiIndex.from_frame(row.index.to_frame()[PROBLEM])).to_numpy()
    complete = row.notna().all(axis=1).to_numpy() & ~np.isnan(budget)
    if row.shape[1] < 2 or not complete.any():
        who = ", ".join(row.columns) or "those methods"
        raise BadInput(f"{what} needs a problem and seed with runs of all of {who}")
    row = row[complete]
    whole = budget[complete][:, None] * np.asarray(multiples)
    rows = np.stack([_rows(runs, row, method, whole) for method in methods], axis=-1)
    cells = row.index.to_frame(index=False)
    present = _taking_part(traces, rows, whole, cells)
    rows[:, ~present] = -1
    given = np.minimum(whole, _least_spent(traces, rows)) if equal_money else whole
    error = _reached(traces, rows, given, np.asarray(shares))
    unfinished = (rows >= 0) & np.isnan(error[:, :, -1])
    there = ((rows >= 0) | ~present).all(axis=2)
    return Ranks(methods, cells, np.asarray(multiples), np.asarray(shares), _rank(error, present), present,
                 *endings(traces, rows, whole), unfinished, there, int((~complete).sum()), few, equal_money,
                 given / whole)  # fmt: skip


def _least_spent(traces: Traces, rows: np.ndarray) -> np.ndarray:
    """Return (C, B): the least total cost in seconds of the runs at `rows` (C, B, M; -1: none)."""
    return np.asarray(np.where(rows >= 0, traces.total_s[rows], np.inf).min(axis=2))


def _taking_part(traces: Traces, rows: np.ndarray, whole: np.ndarray, cells: pd.DataFrame) -> np.ndarray:
    """Return (B, M): which methods have runs in all cells; and of those that plan, beginning with the most complete, as
    many as together lack a run in at most a tenth of the cells that the others count in.

    A cell in which a run for the budget is missing then does not count at that budget.
    """
    steady = np.asarray((rows >= 0).all(axis=(0, 1)))
    counts = cells_that_count(*endings(traces, rows[:, :, steady], whole))
    counts |= ~budgets_that_count(counts, cells)
    lacking = np.asarray((rows < 0) & counts[:, :, None])
    there: Bool[np.ndarray, "B M"] = np.tile(steady, (rows.shape[1], 1))
    for b in range(rows.shape[1]):
        gone = np.zeros(len(rows), dtype=bool)
        for m in np.argsort(lacking[:, b].sum(axis=0), kind="stable"):
            if not steady[m] and (rows[:, b, m] >= 0).any():
                union = gone | lacking[:, b, m]
                there[b, m] = union.sum() <= MOST_LACKING * counts[:, b].sum()
                gone = union if there[b, m] else gone
    return there


def _rows(runs: pd.DataFrame, row: pd.DataFrame, method: str, whole: Float[np.ndarray, "C B"]) -> np.ndarray:
    """Return (C, B) positions of a method's runs; -1 where a method that plans has none for that budget."""
    if method in row:
        return np.repeat(row[method].to_numpy(dtype=int)[:, None], whole.shape[1], axis=1)
    found = np.full(whole.shape, -1)
    own = runs.loc[runs["method"] == method, [*CELL, "tau", "row"]]
    cell = row.index.get_indexer(pd.MultiIndex.from_frame(own[CELL]))
    own, cell = own[cell >= 0], cell[cell >= 0]
    run, budget = np.nonzero(np.isclose(whole[cell], own["tau"].to_numpy(float)[:, None], rtol=SAME))
    found[cell[run], budget] = own["row"].to_numpy()[run]
    return found


def _reached(traces: Traces, rows: np.ndarray, whole: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return the best error (C, B, S, M) within every share of the budgets (C, B); NaN without one or without a run."""
    error = np.full((*whole.shape, len(shares), rows.shape[-1]), np.nan)
    for b, m in np.ndindex(rows.shape[1:]):
        has = rows[:, b, m] >= 0
        at = rows[has, b, m]
        if len(at):
            error[has, b, :, m] = at_budgets(traces.incumbent, traces.cost_s, whole[has][:, [b]] * shares, at)
    return error


def _rank(error: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Return the ranks (C, B, S, M) among the methods present at each budget; NaN for the others."""
    rank = np.full(error.shape, np.nan)
    for b, there in enumerate(present):
        part = error[:, b][..., there]
        rank[:, b][..., there] = rankdata(np.where(np.isnan(part), np.inf, part), method="average", axis=-1)
    return rank


def rank_curves(ranked: Ranks) -> pd.DataFrame:
    """Return the mean rank over the cells used, with its interval: multiple, share, method, value, low, high, n.

    counts: whether the budget does (`Ranks.counting`). A method has no rows at a budget at which it takes no part.
    """
    parts = []
    for b, (multiple, counts) in enumerate(zip(ranked.multiples, ranked.counting, strict=True)):
        part = with_intervals(ranked.over(b)).reset_index()
        part.insert(0, "multiple", multiple)
        parts.append(part.assign(counts=counts))
    curves = pd.concat(parts, ignore_index=True)
    return curves[curves["n"] > 0].reset_index(drop=True)

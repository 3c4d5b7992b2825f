"""Analyses of recorded runs: incumbents, relative cost and error, ranks, intervals, claims, figures, the report."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import harness  # noqa: F401 - limits BLAS to one thread before numpy is imported

if TYPE_CHECKING:
    import pandas as pd

    from analysis.traces import Judge

REFERENCE = {
    "evaluator": "replay",
    "utility": "ei",
    "surrogate": "gp",
    "cost_model": "lv3",
    "cost_statistic": "exp_mean",
}
"""The components of the study's own runs, by kind."""


# From Python (harness/API.md): tables of traces (`harness.run`, `harness.read`), with 95 % intervals over
# data sets (NaN for one alone; `analysis.statistics.resampling` chooses others).


def tradeoff(traces: "pd.DataFrame", judge: "Judge" = "validation", mixed: bool = False) -> "pd.DataFrame":
    """Return total cost and final error of every method in percent of EI's on the same problem.

    Means are of sums over the seeds of a problem, medians of single runs (`analysis.statistics.ratios_of_sums`).
    One row per method and statistic (mean, median): alpha, lam, n (pairs), cost_pct and error_pct with _low and _high.
    Runs count with their first N iterations, N of `analysis.selection.horizon`; judge: the error that counts,
    ``validation`` or ``test``; mixed: see `analysis.traces.collect`. Raises BadInput without runs of EI.
    """
    from analysis.methods import ordered
    from analysis.selection import at_horizon, horizon
    from analysis.traces import collect
    from analysis.tradeoffs import relative_to_ei
    from analysis.tradeoffs import tradeoff as of_pairs

    runs = collect(traces, judge=judge, mixed=mixed)
    equal, _ = at_horizon(runs, horizon(runs))
    return of_pairs(relative_to_ei(equal), ordered(equal.runs))


def anytime(
    traces: "pd.DataFrame",
    budgets: Iterable[float] | None = None,
    judge: "Judge" = "validation",
    mixed: bool = False,
) -> "pd.DataFrame":
    """Return errors at equal cost of every family of methods, and of EI stopped by rule, beside EI stopped early.

    budgets: in percent of what EI's evaluations cost on the same problem and seed; None: 10, 20, 40, 60, 80 and 100.
    Rows and columns: `analysis.equal_cost.at_equal_cost`; intervals are t intervals over the means of data sets.
    Regret, and which data sets are flat, come of the shipped tables, where these are what was replayed; otherwise the
    rows that need them are missing. judge, mixed: as in `tradeoff`. Raises BadInput without runs of EI.
    """
    from analysis.equal_cost import BUDGETS, at_equal_cost, pair_runs
    from analysis.traces import collect

    runs = pair_runs(collect(traces, judge=judge, mixed=mixed))
    return at_equal_cost(runs, BUDGETS if budgets is None else budgets)


def mean_ranks(
    traces: "pd.DataFrame",
    methods: Sequence[str] | None = None,
    judge: "Judge" = "validation",
    mixed: bool = False,
) -> "pd.DataFrame":
    """Return the mean rank (1 = best) of methods by the best error within multiples of each problem's minimal budget.

    One row per budget and method: multiple, method, rank, low, high, n (problems and seeds), counts (whether the budget
    does: enough runs were planned long enough for it, and nine in ten use it up). methods: those to rank, None for all.
    judge, mixed: as in `tradeoff`. Of a method that plans with its length, EI-cool, only runs planned for a budget are
    ranked (tau). Raises BadInput for a method that has no such runs, for fewer than two, and without runs of EI^alpha,
    which define the budget.
    """
    import numpy as np

    from analysis.methods import ordered, require
    from analysis.ranks import minimal_budgets, rank_curves, ranks
    from analysis.selection import at_horizon, for_budgets, horizon, select_families
    from analysis.traces import collect

    runs = collect(traces, judge=judge, mixed=mixed)
    for method in methods or ():
        require(runs.runs, method, "ranking")
    equal, _ = at_horizon(runs, horizon(runs))
    budgets = minimal_budgets(select_families(equal, "alpha"))
    chosen = ordered(for_budgets(runs, budgets).runs) if methods is None else list(methods)
    curves = rank_curves(ranks(runs, budgets, chosen, shares=np.ones(1)))
    columns = ["multiple", "method", "value", "low", "high", "n", "counts"]
    return curves[columns].rename(columns={"value": "rank"})


def verdicts(
    traces: "pd.DataFrame",
    costs: "pd.DataFrame | None" = None,
    fronts: "pd.DataFrame | None" = None,
    judge: "Judge" = "validation",
    mixed: bool = False,
) -> "pd.DataFrame":
    """Return a row for each of the paper's twelve claims: what was claimed, our estimates, the verdict and its reason.

    low, high: the interval of the first estimate. What the traces do not suffice for is undecided, and `why` says what
    is missing. costs, fronts, judge, mixed: see `analysis.claims.evaluate`.
    """
    from analysis.claims import evaluate, frame

    return frame(evaluate(traces, costs, fronts, judge, mixed))

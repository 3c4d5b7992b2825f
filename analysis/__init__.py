"""Analyses of recorded runs: incumbents, relative cost and error, ranks, intervals, claims, figures, the report."""

from collections.abc import Sequence
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
    """Return total cost and final error of every method in percent of EI's on the same problem and seed.

    One row per method and statistic (mean, median): alpha, lam, n (pairs), cost_pct and error_pct with _low and _high.
    Runs count with their first N iterations, N of `analysis.selection.horizon`; judge: the error that counts,
    ``validation`` or ``test``; mixed: see `analysis.traces.collect`. Raises BadInput without runs of EI.
    """
    from analysis.selection import at_horizon, horizon
    from analysis.traces import collect, ordered
    from analysis.tradeoffs import relative_to_ei
    from analysis.tradeoffs import tradeoff as of_pairs

    runs = collect(traces, judge=judge, mixed=mixed)
    equal, _ = at_horizon(runs, horizon(runs))
    return of_pairs(relative_to_ei(equal), ordered(equal.runs))


def mean_ranks(
    traces: "pd.DataFrame",
    methods: Sequence[str] | None = None,
    judge: "Judge" = "validation",
    mixed: bool = False,
) -> "pd.DataFrame":
    """Return the mean rank (1 = best) of methods by the best error within multiples of each problem's minimal budget.

    One row per budget and method: multiple, method, rank, low, high, n (problems and seeds), counts (whether the budget
    does: enough runs were planned long enough for it). methods: those to rank, None for all. judge, mixed: as in
    `tradeoff`. Raises BadInput for a method that has no runs, for fewer than two, and without runs of EI^alpha, which
    define the budget.
    """
    import numpy as np

    from analysis.ranks import minimal_budgets, rank_curves, ranks
    from analysis.selection import at_horizon, horizon, of_families
    from analysis.traces import collect, ordered, require

    runs = collect(traces, judge=judge, mixed=mixed)
    chosen = ordered(runs.runs) if methods is None else list(methods)
    for method in chosen:
        require(runs.runs, method, "ranking")
    equal, _ = at_horizon(runs, horizon(runs))
    budgets = minimal_budgets(of_families(equal, "alpha"))
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

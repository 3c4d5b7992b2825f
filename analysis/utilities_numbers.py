"""Utilities and cost rules in numbers: cost and error relative to EI, and mean ranks, with intervals."""

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from analysis.bootstrap import bootstrap
from analysis.incumbent import at_budgets
from analysis.traces import PROBLEM
from analysis.utilities_matched import Complete
from analysis.utilities_runs import REFERENCE, Runs, thinking_counted

_ROUNDED = 1 + 1e-9  # a run ends within its own total, whatever order the sums were taken in
SHARES = (0.25, 0.5, 1.0)  # of the mean time of `REFERENCE` on the problem


def relative(found: Complete) -> pd.DataFrame:
    """Return label, measure (cost, error, both: percent of the reference's, same problem and seed), value, low, high.

    Pairs in which either run has no successful evaluation, or the reference's error is 0, are left out of `error`.
    """
    runs, out = found.runs, []
    both = runs.training_s + runs.thought_s
    for measure, values in (("cost", runs.training_s), ("error", runs.final), ("both", both)):
        wide = runs.wide(values)[found.labels]
        base = wide[REFERENCE].where(wide[REFERENCE] > 0)
        percent = 100.0 * wide.div(base, axis=0)
        out.append(bootstrap(percent).rename_axis("label").reset_index().assign(measure=measure))
    return pd.concat(out, ignore_index=True)


def ranks(found: Complete) -> pd.DataFrame:
    """Return label, measure (when the rank is taken), value, low, high, n: mean ranks with their intervals."""
    score = {"at the end": found.runs.wide(found.runs.final)}
    for share in SHARES:
        score[f"within {share:.0%} of EI's training"] = _within(found.runs, share)
    score["within EI's training + thinking"] = _within(thinking_counted(found.runs), 1.0)
    return rank_means({name: wide[found.labels] for name, wide in score.items()})


def ended_before(found: Complete) -> pd.DataFrame:
    """Return, methods x SHARES, which share of the runs had made all of their evaluations before that was spent."""
    spent = found.runs.wide(found.runs.training_s)[found.labels]
    budget = _reference_time(found.runs, spent.index.to_frame(index=False))
    return pd.DataFrame({share: spent.lt(share * budget / _ROUNDED, axis=0).mean() for share in SHARES})


def _reference_time(runs: Runs, cells: pd.DataFrame) -> np.ndarray:
    """Return the reference's mean training seconds on the problem of each cell."""
    total = runs.table.assign(total=runs.training_s)
    budget = total[total["label"] == REFERENCE].groupby(PROBLEM)["total"].mean()
    return budget.reindex(pd.MultiIndex.from_frame(cells[PROBLEM])).to_numpy(float)


def _within(runs: Runs, share: float) -> pd.DataFrame:
    """Return the best error, cells x methods, within a share of the reference's mean time on the problem."""
    own = _reference_time(runs, runs.table)
    return runs.wide(at_budgets(runs.curve, runs.cost_s, share * own[:, None] * _ROUNDED)[:, 0])


def rank_means(score: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Return label, measure, value, low, high, n: mean ranks of each measure's scores, cells x methods; low is good.

    A run that has nothing is last; ties share. off_value, off_low, off_high: the rank minus the reference's, cell by
    cell, which tells more of two methods than whether their own intervals overlap.
    """
    out = []
    for name, wide in score.items():
        values = wide.to_numpy(float)
        rank = rankdata(np.where(np.isnan(values), np.inf, values), method="average", axis=1)
        own = pd.DataFrame(rank, index=wide.index, columns=wide.columns)
        off = bootstrap(own.sub(own[REFERENCE], axis=0)).drop(columns="n").add_prefix("off_")
        out.append(bootstrap(own).join(off).rename_axis("label").reset_index().assign(measure=name))
    return pd.concat(out, ignore_index=True)

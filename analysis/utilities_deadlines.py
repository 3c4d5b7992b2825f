"""Runs of utilities up to a deadline: which runs serve which, and what of them ends in time.

A method that does not plan with the deadline makes the same choices whatever it is: one long run of it serves every
deadline within the run. Utilities that plan (all but `methods.MYOPIC`) need runs of their own for each.
"""

import numpy as np
import pandas as pd

from analysis.budgets import MULTIPLES
from analysis.scope import plural
from analysis.traces import CELL, PROBLEM
from analysis.utilities_matched import plans
from analysis.utilities_runs import Runs

NAMELESS = ""
_SAME = 1e-6  # relative: budgets are written as text


def with_deadlines(runs: Runs, budgets: pd.Series | None = None) -> dict[str, Runs]:
    """Return, by the deadline's name, the runs that serve it, cut after what ends in time.

    budgets: the minimal budget in seconds by (dataset, pipeline), if it is known; deadlines that are a multiple of it
    are named by that, others by their seconds, but for those that `of_other_budgets` tells of. A deadline is there
    where a run of another utility than EI was made for it, and every multiple of the budget up to the longest deadline
    of such runs that do not plan. A run serves the deadline that it was made for; of a method that does not plan, so
    does one with a later deadline, or with none if it goes on that long. The table's column `capped` says which runs
    ended before the deadline: they have no more iterations.
    """
    table, found = runs.table, dict[str, Runs]()
    tau = table["tau"].to_numpy(float)
    spent = np.cumsum(np.where(np.isnan(runs.cost_s), np.inf, runs.cost_s), axis=1)
    for name, deadline in _deadlines(table, budgets).items():
        end = deadline.reindex(pd.MultiIndex.from_frame(table[PROBLEM])).to_numpy(float)
        covers = runs.training_s >= end
        serves = np.isclose(tau, end, rtol=_SAME, atol=0.0)
        serves |= ~plans(table).to_numpy() & ((tau > end) | (np.isnan(tau) & covers))
        own = table.assign(capped=~covers)[serves]
        own = own.sort_values(["capped", "iterations", "acq"], ascending=[True, False, True], kind="stable")
        rows = np.sort(own.drop_duplicates([*CELL, "label"]).index.to_numpy())
        if set(table["utility"].iloc[rows]) > {"ei"}:
            part = runs.select(rows).cut((spent[rows] <= end[rows, None]).sum(axis=1))
            part.table["capped"] = ~covers[rows]
            found[name] = part
    return found


def _deadlines(table: pd.DataFrame, budgets: pd.Series | None) -> dict[str, pd.Series]:
    """Return, by name, seconds by (dataset, pipeline): multiples of the budget first, then others, shortest first."""
    timed = _timed(table, budgets)
    timed = timed[timed["name"] != NAMELESS]
    rows = [timed[[*PROBLEM, "name"]].assign(seconds=timed["tau"])]
    if budgets is not None:
        longest = timed[~plans(timed)].groupby(PROBLEM)["tau"].max()
        base = budgets.reindex(longest.index)
        for multiple in MULTIPLES:
            within = (multiple * base)[multiple * base <= longest * (1.0 + _SAME)]
            rows.append(within.rename("seconds").reset_index().assign(name=_multiple(multiple)))
    every = pd.concat(rows).drop_duplicates([*PROBLEM, "name"])
    order = [_multiple(m) for m in MULTIPLES] + list(dict.fromkeys(every["name"]))
    series = {str(name): part.set_index(PROBLEM)["seconds"] for name, part in every.groupby("name", sort=False)}
    return {name: series[name] for name in dict.fromkeys(order) if name in series}


def of_other_budgets(runs: Runs, budgets: pd.Series | None) -> str:
    """Return the sentence on deadlines that `with_deadlines` leaves out, "" for none: those that have no name."""
    timed = _timed(runs.table, budgets)
    gone = timed[timed["name"] == NAMELESS]
    if gone.empty:
        return ""
    return (
        f"Left out: {plural(len(gone), 'run')} on {plural(len(gone[PROBLEM].drop_duplicates()), 'problem')} with "
        "deadlines that are no multiple of the minimal budget, such as those made with the budgets of other runs: "
        "`python -m analysis budgets`, then study=deadlines with these."
    )


def _timed(table: pd.DataFrame, budgets: pd.Series | None) -> pd.DataFrame:
    """Return the runs of other utilities than EI that were made for a deadline, shortest first, and its `name`."""
    timed = table[table["tau"].notna() & (table["utility"] != "ei")].sort_values("tau", kind="stable")
    return timed.assign(name=_names(timed, budgets))


def _multiple(multiple: float) -> str:
    return f"{multiple:.0%} of the minimal budget"


def _names(table: pd.DataFrame, budgets: pd.Series | None) -> np.ndarray:
    """Return the name of each run's deadline.

    NAMELESS where several problems have several in seconds: each would be a part of its own, on one problem.
    """
    tau = table["tau"].to_numpy(float)
    names = np.array([f"{t:g} s" for t in tau], dtype=object)
    if budgets is not None and len(table):
        share = tau / budgets.reindex(pd.MultiIndex.from_frame(table[PROBLEM])).to_numpy(float)
        for multiple in MULTIPLES:
            names[np.isclose(share, multiple, rtol=_SAME)] = _multiple(multiple)
    loose = np.array([str(name).endswith(" s") for name in names], dtype=bool)
    per_problem = table[loose].assign(name=names[loose]).groupby(PROBLEM)["name"].nunique()
    if len(per_problem) > 1 and per_problem.max() == 1 and len(set(names[loose])) == len(per_problem):
        names[loose] = "each problem's own deadline"
    elif budgets is not None and len(per_problem) > 1 and per_problem.max() > 1:
        names[loose] = NAMELESS
    return names

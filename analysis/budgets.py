"""The minimal budget of a problem, the unit of the time-allocation study (STUDY: "Minimal budget")."""

import pandas as pd

from analysis.coverage import LEAST_SHARE
from analysis.relative import finals
from analysis.traces import PROBLEM, Traces
from datasets.errors import BadInput

MULTIPLES = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
"""The budgets of the study: 50, 100, 200, 500, 1000 and 2000 % of the minimal budget."""


def minimal_budgets(traces: Traces, what: str = "the minimal budget") -> pd.DataFrame:
    """Return budget_s, the method that attains it, and how many methods and runs it was taken over.

    budget = min over the EI^alpha methods present of the median over seeds of c*, the total cost in seconds
    of runs of equal length (`traces`: N iterations each). Methods with less than half of the seeds that another one
    has on that problem do not count: a single cheap run is no median. One row per (dataset, pipeline). Raises
    BadInput without a run of EI^alpha.
    """
    runs = finals(traces)
    runs = runs[runs["alpha"].notna()]
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

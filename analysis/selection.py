"""Which runs an analysis looks at: N iterations for the bi-optimization study, the time study's for budgets."""

import math

import numpy as np
import pandas as pd

from analysis.budgets import MULTIPLES
from analysis.coverage import LEAST_SHARE
from analysis.endings import CAP, SAME
from analysis.methods import EI, EICOOL
from analysis.traces import CELL, PROBLEM, STUDY_ITERATIONS, Traces
from datasets.errors import BadInput


def horizon(traces: Traces) -> int:
    """Return N: the study's 100 iterations, or the most that runs have of which `at_horizon` could take them.

    Of EI's runs, where there are any: nothing longer can be compared with them. Half of their cells (problem and seed)
    reach N, so that one longer run does not hide the others.
    Raises BadInput where there is none: every run was planned for a budget tau, or ended before its planned length.
    """
    runs = traces.runs
    whole = ~runs["plans"] | (runs["tau"].isna() & (runs["evaluations"] == runs["iterations"]))
    ei = whole & (runs["method"] == EI)
    whole = ei if ei.any() else whole
    if not whole.any():
        raise BadInput("no run was planned for a number of iterations and reached it: run one without tau")
    lengths = np.sort(runs[whole].groupby(CELL)["evaluations"].max())[::-1]
    return int(min(STUDY_ITERATIONS, lengths[math.ceil(LEAST_SHARE * len(lengths)) - 1]))


def at_horizon(traces: Traces, n: int) -> tuple[Traces, int]:
    """Return one run per (problem, method, seed), cut after `n` iterations, and how many have none.

    A longer run of EI, EI^alpha or CEI begins with the shorter one, so its first `n` steps count. A method that may
    plan with its length (EI-cool, any rule with a utility that looks ahead) must be planned for exactly `n` steps,
    without tau.
    Raises BadInput if no run is left.
    """
    runs = traces.runs
    planned = (runs["iterations"] == n) & runs["tau"].isna()
    fits = (runs["evaluations"] >= n) & (~runs["plans"] | planned)
    if not fits.any():
        raise BadInput(f"no recorded run has {n} iterations; the longest has {runs['evaluations'].max()}")
    chosen = _one_each(runs[fits], runs.loc[fits, "iterations"])
    kept = pd.MultiIndex.from_frame(runs.loc[chosen, [*CELL, "method"]])
    every = pd.MultiIndex.from_frame(runs[[*CELL, "method"]].drop_duplicates())
    return traces.select(chosen).first(n), len(every.difference(kept))


def for_budgets(traces: Traces, budgets: pd.DataFrame) -> Traces:
    """Return what ranks within the minimal `budgets` (by problem, budget_s) are taken over.

    Of the methods that do not plan with a length one run per (problem, method, seed): one of the time study (planned
    for 300 iterations and the largest budget, or none), if there is one, else that with the most evaluations. A run of
    another plan may have more than the time study's, since its costs are high; taken for that it would not count
    (`endings.RULE`). Of methods that plan, the runs planned for a budget; of several for the same, the longest plan.
    """
    runs = traces.runs
    own = runs[runs["plans"] & runs["tau"].notna()]
    own = own.sort_values("iterations", ascending=False, kind="stable").drop_duplicates([*CELL, "method", "tau"])
    prefix = runs[~runs["plans"]]
    largest = MULTIPLES[-1] * budgets["budget_s"].reindex(pd.MultiIndex.from_frame(prefix[PROBLEM])).to_numpy(float)
    studied = (prefix["iterations"] >= CAP) & (prefix["tau"].fillna(np.inf) >= largest * (1 - SAME))
    chosen = _one_each(prefix, ~studied, -prefix["evaluations"])
    return traces.select(np.sort(np.concatenate([chosen, own.index.to_numpy()])))


def of_families(traces: Traces, *axes: str) -> Traces:
    """Return the runs that lie on one of the parameter axes, ``alpha`` (EI^alpha) or ``lam`` (CEI)."""
    return traces.select(traces.runs[list(axes)].notna().any(axis=1).to_numpy())


def and_cool(traces: Traces, n: int, *axes: str) -> Traces:
    """Return the runs of `of_families`, and beside them those of EI-cool without tau, if one was planned for `n`
    iterations and made them: `at_horizon` takes these and counts the others.
    """
    runs = traces.runs
    cool = (runs["method"] == EICOOL) & runs["tau"].isna()
    found = bool((cool & (runs["iterations"] == n) & (runs["evaluations"] >= n)).any())
    return traces.select((runs[list(axes)].notna().any(axis=1) | (cool & found)).to_numpy())


def _one_each(runs: pd.DataFrame, *order: pd.Series) -> np.ndarray:
    """Positions of one run per (problem, method, seed), the first in `order`; `ei` and `eipu` go before eialpha."""
    keys = [*order, runs["acq"] == "eialpha"]
    first = runs.iloc[np.lexsort([key.to_numpy() for key in reversed(keys)])]
    return np.sort(first.drop_duplicates([*CELL, "method"]).index.to_numpy())

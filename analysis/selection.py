"""Which runs an analysis looks at: N iterations for the bi-optimization study, the longest for budgets."""

import numpy as np
import pandas as pd

from analysis.methods import EI, EICOOL
from analysis.traces import CELL, STUDY_ITERATIONS, Traces
from harness.errors import BadInput


def horizon(traces: Traces) -> int:
    """Return N: the study's 100 iterations, or the most that some run has of which `at_horizon` could take them.

    Of EI's runs, where there are any: nothing longer can be compared with them.
    Raises BadInput where there is none: every run was planned for a budget tau, or ended before its planned length.
    """
    runs = traces.runs
    whole = ~runs["plans"] | (runs["tau"].isna() & (runs["evaluations"] == runs["iterations"]))
    ei = whole & (runs["method"] == EI)
    whole = ei if ei.any() else whole
    if not whole.any():
        raise BadInput("no run was planned for a number of iterations and reached it: run one without tau")
    return int(min(STUDY_ITERATIONS, runs.loc[whole, "evaluations"].max()))


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
    chosen = _one_each(runs[fits], by_length=True)
    kept = pd.MultiIndex.from_frame(runs.loc[chosen, [*CELL, "method"]])
    every = pd.MultiIndex.from_frame(runs[[*CELL, "method"]].drop_duplicates())
    return traces.select(chosen).first(n), len(every.difference(kept))


def longest(traces: Traces) -> Traces:
    """Return the longest run per (problem, method, seed) of the methods that do not plan with a length."""
    runs = traces.runs[~traces.runs["plans"]]
    return traces.select(_one_each(runs, by_length=False))


def for_budgets(traces: Traces) -> Traces:
    """Return what budgets are judged by: the `longest` runs, and of methods that plan, those planned for a budget.

    Of several runs of one method planned for the same budget, that of the longest plan.
    """
    runs = traces.runs
    own = runs[runs["plans"] & runs["tau"].notna()]
    own = own.sort_values("iterations", ascending=False, kind="stable").drop_duplicates([*CELL, "method", "tau"])
    prefix = runs[~runs["plans"]]
    return traces.select(np.sort(np.concatenate([_one_each(prefix, by_length=False), own.index.to_numpy()])))


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


def _one_each(runs: pd.DataFrame, by_length: bool) -> np.ndarray:
    """Positions of one run per (problem, method, seed).

    The shortest plan (`by_length`) or the most evaluations; `ei` and `eipu` by name go before eialpha.
    """
    order = runs.assign(indirect=runs["acq"] == "eialpha", fewest=-runs["evaluations"])
    order = order.sort_values(["iterations" if by_length else "fewest", "indirect"], kind="stable")
    return np.sort(order.drop_duplicates([*CELL, "method"]).index.to_numpy())

"""Which runs an analysis looks at: methods with runs enough, N iterations, and the cells and budgets that count."""

import math

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from analysis.evaluations import CELL
from analysis.methods import EI, PROBLEM, name_in_text
from analysis.traces import STUDY_ITERATIONS, Traces
from datasets.errors import BadInput

# Which methods have runs enough to be compared: one that was tried on a few problems must not hide the others.
#
# Comparisons are paired, so they are taken over the cells (problem and seed) that all methods have.

LEAST_SHARE = 0.5  # of the cells that EI has, or if that is fewer, the best covered other method


def sparse_methods(runs: pd.DataFrame) -> list[str]:
    """Return the methods with runs in less than half of EI's cells, in order of their names.

    Where EI itself is ahead of all others, the best covered of those is the measure. runs: columns of `CELL`, method.
    """
    cells = runs[[*CELL, "method"]].drop_duplicates()["method"].value_counts()
    others = cells.drop(EI, errors="ignore")
    most = int(others.max()) if len(others) else 0
    whole = min(int(cells.get(EI, most)), most)
    return sorted(str(name) for name, n in cells.items() if n < LEAST_SHARE * whole)


def sentence_on_sparse_methods(methods: list[str], clause: bool = False) -> str:
    """Return the sentence (or the clause that ends one) on the methods that `sparse_methods` found; "" for none."""
    if not methods:
        return ""
    start, end = ("; not", "") if clause else (" Not", ".")
    names = ", ".join(map(name_in_text, methods))
    return f"{start} compared, for want of runs on half of EI's problem-seed pairs: {names}{end}"


# How runs ended against a budget, and which cells and budgets of a time study count.
#
# Notation: C cells (problem and seed), B budgets, M methods. A run is *brief* if it would have gone on had it been
# planned for the study's 300 iterations (or for a larger budget of its own), and *short* for a budget if it is brief
# and ended before that budget was spent.

BUDGET_MULTIPLES = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)  # of a problem's minimal budget
CAP = 300  # iterations that a run of the time study goes on for at most (STUDY: "Minimal budget")
FEWEST_DATASETS, FEWEST_SEEDS = 12, 10  # with fewer of either there is no verdict (STUDY: "Rules of the verdicts")
MOST_SHORT = 0.1  # share of cells with a short run of any method beyond which what is left is a choice by cost
LEAST_SPENT = 0.9  # share of all methods' runs that have to use a budget up: else lengths are compared, not money
SAME = 1e-6  # relative: a planned budget is one of the study's, up to rounding
SPENT, REACHED, USED_UP, SHORT = range(4)
"""Endings: the budget was spent; 300 iterations were reached; nothing was left to evaluate; planned too short."""

RULE = (
    f"of a budget, the cells (problem and seed) with a run planned too short for it are left out, and with them, where "
    f"these are more than {MOST_SHORT:.0%} of the cells, every cell planned for fewer than {CAP} iterations; a budget "
    f"counts if cells of {FEWEST_DATASETS} data sets or more are left (of all, where the records hold fewer), and "
    f"{LEAST_SPENT:.0%} of all methods' runs use it up; at equal money, with every run of a cell cut at what the "
    f"cheapest of them spent, all use it up"
)


def endings(
    traces: Traces, rows: Int[np.ndarray, "C B M"], whole: Float[np.ndarray, "C B"]
) -> tuple[Int[np.ndarray, "C B M"], Bool[np.ndarray, "C B M"]]:
    """Return how the runs at `rows` (-1: none) ended against the budgets `whole` in seconds, and which are brief."""
    runs, there = traces.runs, rows >= 0
    planned, done = runs["iterations"].to_numpy(), runs["evaluations"].to_numpy()
    own = runs["tau"].fillna(np.inf).to_numpy(dtype=float)[rows]
    cost, budget = traces.total_s[rows], whole[:, :, None]
    stopped = (own < budget * (1 - SAME)) & (cost >= own)  # by a smaller budget of its own
    brief = there & (stopped | ((planned < CAP) & (done >= planned))[rows])
    early = np.select([brief, (done < planned)[rows]], [SHORT, USED_UP], REACHED)
    return np.where(there & (cost < budget), early, SPENT), brief


def cells_that_count(ending: Int[np.ndarray, "C B M"], brief: Bool[np.ndarray, "C B M"]) -> Bool[np.ndarray, "C B"]:
    """Return which cells count at which budget: those in which no method's run is short for it.

    Where more than a tenth of the cells have a short run, the brief cells without one are those whose runs happened to
    cost much: none of them counts.
    """
    short = (ending == SHORT).any(axis=2)
    return np.asarray(~short & ~(brief.any(axis=2) & (short.mean(axis=0) > MOST_SHORT)))


def budgets_that_count(kept: Bool[np.ndarray, "C B"], cells: pd.DataFrame) -> Bool[np.ndarray, " B"]:
    """Return at which budgets the cells kept are of twelve data sets or more, or of all where there are fewer."""
    names = cells["dataset"].to_numpy()
    enough = min(FEWEST_DATASETS, len(set(names)))
    return np.array([len(set(names[rows])) >= enough for rows in kept.T], dtype=bool)


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
    return min(STUDY_ITERATIONS, most_reached(runs[whole]))


def most_reached(runs: pd.DataFrame) -> int:
    """Return the number of evaluations that half of the runs' cells (problem and seed) reach, by their longest run."""
    lengths = np.sort(runs.groupby(CELL)["evaluations"].max())[::-1]
    return int(lengths[math.ceil(LEAST_SHARE * len(lengths)) - 1])


def at_horizon(traces: Traces, n: int) -> tuple[Traces, int]:
    """Return one run per (problem, method, seed), cut after `n` iterations, and how many have none.

    A longer run of EI, EI^alpha or CEI begins with the shorter one, so its first `n` steps count. A method that may
    plan with its length (EI-cool, any rule with a utility that looks ahead) must be planned for exactly `n` steps,
    without tau.
    Raises BadInput if no run is left.
    """
    runs = _reaching(traces, n)
    chosen = _one_each(runs, runs["iterations"])
    return traces.select(chosen).first(n), _without(traces, chosen)


def whole_runs(traces: Traces, n: int, spent_s: pd.Series | None = None) -> tuple[Traces, int]:
    """Return one run per (problem, method, seed) as `at_horizon`, but the longest there is, and all of it.

    spent_s: by cell; a shorter run, of a method that does not plan, that has spent as much counts as well. Without it
    the cells in which a method is dear would drop out.
    """
    runs = _reaching(traces, n, spent_s)
    chosen = _one_each(runs, -runs["evaluations"])
    return traces.select(chosen), _without(traces, chosen)


def _reaching(traces: Traces, n: int, spent_s: pd.Series | None = None) -> pd.DataFrame:
    """Return the runs of `n` iterations or more, those of a method that plans being planned for exactly `n`.

    spent_s: as for `whole_runs`.
    """
    runs = traces.runs
    planned = (runs["iterations"] == n) & runs["tau"].isna()
    fits = (runs["evaluations"] >= n) & (~runs["plans"] | planned)
    if spent_s is not None:
        enough_s = spent_s.reindex(pd.MultiIndex.from_frame(runs[CELL])).to_numpy()
        fits |= ~runs["plans"] & (traces.total_s >= enough_s)
    if not fits.any():
        raise BadInput(f"no recorded run has {n} iterations; the longest has {runs['evaluations'].max()}")
    return runs[fits]


def _without(traces: Traces, chosen: np.ndarray) -> int:
    """Count the (problem, method, seed) of which none of the runs at positions `chosen` is."""
    runs = traces.runs
    kept = pd.MultiIndex.from_frame(runs.loc[chosen, [*CELL, "method"]])
    every = pd.MultiIndex.from_frame(runs[[*CELL, "method"]].drop_duplicates())
    return len(every.difference(kept))


def for_budgets(traces: Traces, budgets: pd.DataFrame) -> Traces:
    """Return what ranks within the minimal `budgets` (by problem, budget_s) are taken over.

    Of the methods that do not plan with a length one run per (problem, method, seed): one of the time study (planned
    for 300 iterations and the largest budget, or none), if there is one, else that with the most evaluations. A run of
    another plan may have more than the time study's, since its costs are high; taken for that it would not count
    (`RULE`). Of methods that plan, the runs planned for a budget; of several for the same, the longest plan.
    """
    runs = traces.runs
    own = runs[runs["plans"] & runs["tau"].notna()]
    own = own.sort_values("iterations", ascending=False, kind="stable").drop_duplicates([*CELL, "method", "tau"])
    prefix = runs[~runs["plans"]]
    problems = pd.MultiIndex.from_frame(prefix[PROBLEM])
    largest = BUDGET_MULTIPLES[-1] * budgets["budget_s"].reindex(problems).to_numpy(float)
    studied = (prefix["iterations"] >= CAP) & (prefix["tau"].fillna(np.inf) >= largest * (1 - SAME))
    chosen = _one_each(prefix, ~studied, -prefix["evaluations"])
    return traces.select(np.sort(np.concatenate([chosen, own.index.to_numpy()])))


def select_families(traces: Traces, *axes: str) -> Traces:
    """Return the runs that lie on one of the parameter axes, ``alpha`` (EI^alpha) or ``lam`` (CEI)."""
    return traces.select(traces.runs[list(axes)].notna().any(axis=1).to_numpy())


LARGEST_ALPHA = 1.0  # of the paper's grid


def on_papers_grid(runs: pd.DataFrame) -> pd.Series:
    """Return which runs are of EI^alpha with alpha in [0, 1], EI and EIpu included.

    These define the minimal budget and have runs of the time study. Larger alphas are there for trade-offs after N
    iterations, which reach as far as CEI's then (STUDY: "Minimal budget").
    """
    return runs["alpha"] <= LARGEST_ALPHA


def select_families_and_rivals(traces: Traces, n: int, *axes: str) -> Traces:
    """Return the runs of `select_families`, and beside them those on neither axis (EI-cool, random search, ...) without
    tau, of methods that have runs of `n` iterations for `at_horizon` to take.
    """
    runs = traces.runs
    off = runs["alpha"].isna() & runs["lam"].isna() & runs["tau"].isna()
    fits = off & (runs["evaluations"] >= n) & (~runs["plans"] | (runs["iterations"] == n))
    rivals = off & runs["method"].isin(runs.loc[fits, "method"])
    return traces.select((runs[list(axes)].notna().any(axis=1) | rivals).to_numpy())


def rivals_within_budgets(traces: Traces, budgets: pd.DataFrame) -> list[str]:
    """Return the methods on neither axis that can be ranked within the minimal `budgets`, in order of their names.

    Those that plan with a budget and have runs for one, and others whose runs were planned for as many iterations as
    EI's on nine in ten of EI's cells: shorter ones would make budgets leave out most cells.
    """
    runs = for_budgets(traces, budgets).runs
    off = runs["alpha"].isna() & runs["lam"].isna()
    planned = runs.loc[off & runs["plans"], "method"]
    ei = runs[runs["method"] == EI].set_index(CELL)["iterations"]
    own = runs[off & ~runs["plans"]].join(ei.rename("of_ei"), on=CELL)
    long = (own["iterations"] >= own["of_ei"]).groupby(own["method"]).sum()
    return sorted({*planned, *long.index[long >= (1 - MOST_SHORT) * len(ei)]})


def _one_each(runs: pd.DataFrame, *order: pd.Series) -> np.ndarray:
    """Return the positions of one run per (problem, method, seed), the first in `order`.

    `ei` and `eipu` go before eialpha.
    """
    keys = [*order, runs["acq"] == "eialpha"]
    first = runs.iloc[np.lexsort([key.to_numpy() for key in reversed(keys)])]
    return np.sort(first.drop_duplicates([*CELL, "method"]).index.to_numpy())

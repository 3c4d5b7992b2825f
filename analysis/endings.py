"""How runs ended against a budget, and which cells and budgets of a time study count.

Notation: C cells (problem and seed), B budgets, M methods. A run is *brief* if it would have gone on had it been
planned for the study's 300 iterations (or for a larger budget of its own), and *short* for a budget if it is brief and
ended before that budget was spent.
"""

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from analysis.incumbent import spent
from analysis.traces import Traces

CAP = 300  # iterations that a run of the time study goes on for at most (STUDY: "Minimal budget")
FEWEST_DATASETS = 5  # with fewer, resampling data sets says nothing of other data sets
MOST_SHORT = 0.1  # share of a method's runs that may be short before what is left is a choice by cost
SAME = 1e-6  # relative: a planned budget is one of the study's, up to rounding
SPENT, REACHED, USED_UP, SHORT = range(4)
"""Endings: the budget was spent; 300 iterations were reached; nothing was left to evaluate; planned too short."""

RULE = (
    f"of a budget, the cells (problem and seed) with a run planned too short for it are left out, and with them, where "
    f"these are more than {MOST_SHORT:.0%} of a method's runs, every cell planned for fewer than {CAP} iterations; a "
    f"budget counts if cells of {FEWEST_DATASETS} data sets or more are left (of all, where the records hold fewer)"
)


def endings(
    traces: Traces, rows: Int[np.ndarray, "C B M"], whole: Float[np.ndarray, "C B"]
) -> tuple[Int[np.ndarray, "C B M"], Bool[np.ndarray, "C B M"]]:
    """Return how the runs at `rows` (-1: none) ended against the budgets `whole` in seconds, and which are brief."""
    runs, there = traces.runs, rows >= 0
    planned, done = runs["iterations"].to_numpy(), runs["evaluations"].to_numpy()
    own = runs["tau"].fillna(np.inf).to_numpy(dtype=float)[rows]
    cost, budget = np.nanmax(spent(traces.cost_s), axis=1)[rows], whole[:, :, None]
    stopped = (own < budget * (1 - SAME)) & (cost >= own)  # by a smaller budget of its own
    brief = there & (stopped | ((planned < CAP) & (done >= planned))[rows])
    early = np.select([brief, (done < planned)[rows]], [SHORT, USED_UP], REACHED)
    return np.where(there & (cost < budget), early, SPENT), brief


def cells_that_count(ending: Int[np.ndarray, "C B M"], brief: Bool[np.ndarray, "C B M"]) -> Bool[np.ndarray, "C B"]:
    """Return which cells count at which budget: those in which no method's run is short for it.

    Where more than a tenth of a method's runs are short, the brief cells without one are those whose runs happened to
    cost much: none of them counts.
    """
    short = ending == SHORT
    many = short.mean(axis=0).max(axis=1) > MOST_SHORT
    return np.asarray(~short.any(axis=2) & ~(brief.any(axis=2) & many))


def budgets_that_count(kept: Bool[np.ndarray, "C B"], cells: pd.DataFrame) -> Bool[np.ndarray, " B"]:
    """Return at which budgets the cells kept are of five data sets or more, or of all where there are fewer."""
    names = cells["dataset"].to_numpy()
    enough = min(FEWEST_DATASETS, len(set(names)))
    return np.array([len(set(names[rows])) >= enough for rows in kept.T], dtype=bool)

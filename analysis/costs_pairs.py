"""The bi-optimization of EI^alpha under several cost models, paired: the numbers of F9 (STUDY: F9)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pandas as pd

from analysis.components import choose
from analysis.coverage import LEAST_SHARE
from analysis.methods import EI, alpha_axis, ordered, require
from analysis.relative import Relative, relative
from analysis.selection import at_horizon, horizon, of_families
from analysis.traces import CELL, Judge, Traces, collect
from analysis.tradeoff import tradeoff
from datasets.errors import BadInput

ORDER = ("lv3", "gp", "transfer_linear", "hybrid", "oracle")  # others follow by name


@dataclass(frozen=True)
class Compared:
    """EI^alpha under several cost models, on the cells (problem, seed) that all of them have, method by method.

    numbers: of F9. pairs: of each cost model; their counts (zero, failed, unpaired) and `short`, the runs that are too
    short or planned for another length, are of these cells only. dropped: the cells that some cost model lacks.
    n: iterations. components: of all the runs (`components.choose`). few: cost models left out, with runs on less
    than half of the cells that another one has.
    """

    numbers: pd.DataFrame
    pairs: dict[str, Relative]
    short: dict[str, int]
    dropped: int
    n: int
    components: Mapping[str, str]
    few: list[str]


def compare(frame: pd.DataFrame, judge: Judge = "validation", mixed: bool = False) -> Compared:
    """Compare the cost models that the frame has runs of.

    EI does not look at cost, so its runs under whichever cost model serve all of them. Only cells (problem, seed)
    that every cost model has are taken, and of everything but cost models one choice (`components.choose`).
    judge: whose error counts; mixed: as for `collect`. Raises BadInput with fewer than two cost models, or without EI.
    """
    frame, components = choose(frame, {}, free=("cost_model",))
    frame, few = _models_with_runs_enough(frame)
    traces = _traces(frame, judge, mixed)
    n = min(horizon(own.select((own.runs["method"] != EI).to_numpy())) for own in traces.values())
    every = _union(_cells(own.runs) for own in traces.values())
    shared = _common(_cells(at_horizon(own, n)[0].runs) for own in traces.values())
    cut = {name: at_horizon(own.select(_rows_of(own.runs, shared)), n) for name, own in traces.items()}
    found = {name: relative(own, "F9") for name, (own, _) in cut.items()}
    paired = [_cells(pairs.table) for pairs in found.values()]
    kept = _common(paired)
    tables = _alike({name: pairs.table[_rows_of(pairs.table, kept)] for name, pairs in found.items()})
    found = {name: replace(pairs, table=tables[name]) for name, pairs in found.items()}
    return Compared(
        pd.concat([tradeoff(p, ordered(p.table)).assign(cost_model=m) for m, p in found.items()], ignore_index=True),
        found,
        {name: short for name, (_, short) in cut.items()},
        len(every) - len(shared) + len(_union(paired)) - len(kept),
        n,
        components,
        few,
    )


def _models_with_runs_enough(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows of the cost models to compare, and the names of the others; all where too few would be left."""
    of_alpha = frame[alpha_axis(frame["acq"], frame["alpha"]) > 0.0]
    cells = of_alpha[[*CELL, "cost_model"]].drop_duplicates()["cost_model"].astype(str).value_counts()
    few = sorted(cells.index[cells < LEAST_SHARE * cells.max()])
    if len(cells) - len(few) < 2:
        return frame, []
    return frame[~frame["cost_model"].isin(few) | (frame["acq"] == EI)], few


def _traces(frame: pd.DataFrame, judge: Judge, mixed: bool) -> dict[str, Traces]:
    """Return the runs of EI^alpha under each cost model, those of EI in all of them."""
    of_alpha = frame[alpha_axis(frame["acq"], frame["alpha"]) > 0.0]
    names = sorted(set(of_alpha["cost_model"]), key=lambda m: (ORDER.index(m) if m in ORDER else len(ORDER), m))
    if len(names) < 2:
        there = ", ".join(names) or "none"
        raise BadInput(f"F9 needs records of EI^alpha under two cost models or more; there are: {there}")
    require(frame, EI, "F9")
    ei = frame[frame["acq"] == EI].sort_values("cost_model", key=lambda m: m != "lv3", kind="stable")
    ei = ei.drop_duplicates([*CELL, "step", "iterations", "tau"])
    found = {}
    for name in names:
        every = pd.concat([of_alpha[of_alpha["cost_model"] == name], ei.assign(cost_model=name)])
        found[name] = of_families(collect(every, {"cost_model": name}, judge, mixed), "alpha")
    return found


def _alike(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the pairs of every method that all cost models have on the cells where all have it; others as they are."""
    keys = [*CELL, "method"]
    own = {name: pd.MultiIndex.from_frame(table[keys]) for name, table in tables.items()}
    shared = reduce(lambda one, other: one.intersection(other), own.values())
    methods = set(shared.get_level_values("method"))
    return {
        name: table[~table["method"].isin(methods).to_numpy() | own[name].isin(shared)].reset_index(drop=True)
        for name, table in tables.items()
    }


def _cells(runs: pd.DataFrame) -> pd.MultiIndex:
    """Return the cells that have a run of another method than EI."""
    return pd.MultiIndex.from_frame(runs.loc[runs["method"] != EI, CELL].drop_duplicates())


def _rows_of(runs: pd.DataFrame, cells: pd.Index) -> np.ndarray:
    return np.asarray(pd.MultiIndex.from_frame(runs[CELL]).isin(cells))


def _union(parts: Iterable[pd.Index]) -> pd.Index:
    return reduce(lambda one, other: one.union(other), parts)


def _common(parts: Iterable[pd.Index]) -> pd.Index:
    """Return the cells that are in all of the parts; raises BadInput where there is none."""
    shared = reduce(lambda one, other: one.intersection(other), parts)
    if not len(shared):
        raise BadInput("F9: no problem and seed was run under every cost model")
    return shared

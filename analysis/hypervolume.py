"""Hypervolume of (cost, error): how much of what EI leaves to be won a family of methods wins, per problem.

For each problem and seed, cost and error after N iterations are put on a scale that EI's run fixes:

    cost = c* / c*_EI,   error = (y* - y_best) / (y_initial - y_best),

y_initial the best error of the initial design, which all methods share, and y_best the best that any method found
there. The reference point is (1, 1): EI's total cost, and nothing gained over the initial design; the ideal one is
(0, 0). A method that gets all that can be got at half of EI's cost has 0.5, EI itself 0.
Source: Zitzler and Thiele 1998 (hypervolume); the scale is our reading (STUDY is silent).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

from analysis.relative import finals
from analysis.traces import CELL, PROBLEM, Traces
from datasets.errors import BadInput


def hypervolume(points: Float[np.ndarray, "n 2"], reference: Float[np.ndarray, "2"]) -> float:
    """Return the area that lies between the points and the reference: of all (a, b) <= reference with a point <= it.

    Both coordinates are minimised; points beyond the reference add nothing. Raises ValueError for NaN.
    """
    if np.isnan(points).any() or np.isnan(reference).any():
        raise ValueError("a hypervolume needs numbers, got NaN")
    inside = points[(points < reference).all(axis=1)]
    area, height = 0.0, float(reference[1])
    for a, b in inside[np.lexsort((inside[:, 1], inside[:, 0]))]:
        area += (float(reference[0]) - a) * max(0.0, height - b)
        height = min(height, float(b))
    return area


@dataclass(frozen=True)
class Hypervolumes:
    """per_problem: index (dataset, pipeline), one column per family. flat: cells left out, where no method gains on
    the initial design; incomplete: cells left out in which some method has no successful run, or the design none.
    """

    per_problem: pd.DataFrame
    cells: pd.DataFrame
    flat: int
    incomplete: int


def scaled(traces: Traces) -> tuple[pd.DataFrame, int, int]:
    """Return cost and error of every run on EI's scale, and how many cells are flat and incomplete.

    `traces`: runs of equal length. Raises BadInput where no cell is left.
    """
    table = finals(traces)
    proposed = traces.proposed.argmax(axis=1)
    design = np.maximum(np.where(traces.proposed.any(axis=1), proposed, table["evaluations"].to_numpy()) - 1, 0)
    table["initial"] = traces.incumbent[np.arange(len(table)), design]
    ei = table.loc[table["method"] == "ei"].set_index(CELL)[["total_cost_s", "initial"]]
    best = table.groupby(CELL)["final_error"].min().rename("best")
    methods = table["method"].nunique()
    whole = table[table["final_error"].notna()].groupby(CELL)["method"].nunique() == methods
    known = ei.join(best).join(whole.rename("whole"), how="outer")
    complete = known["whole"].fillna(False).astype(bool) & known["total_cost_s"].notna() & known["initial"].notna()
    flat = complete & ~(known["initial"] > known["best"])
    known = known[complete & ~flat].drop(columns="whole").add_suffix("_of_cell")
    if known.empty:
        raise BadInput("no problem and seed in which every method ran and one gained on the initial design")
    rows = table.join(known, on=CELL, how="inner")
    room = rows["initial_of_cell"] - rows["best_of_cell"]
    rows["cost"] = rows["total_cost_s"] / rows["total_cost_s_of_cell"]
    rows["loss"] = (rows["final_error"] - rows["best_of_cell"]) / room
    return rows[[*CELL, "method", "cost", "loss"]], int(flat.sum()), int((~complete).sum())


def hypervolumes(traces: Traces, families: Mapping[str, Sequence[str]]) -> Hypervolumes:
    """Return the hypervolume of each family's methods per problem, of their means over seeds.

    Means first, so that the best of many noisy runs is no gain.
    """
    rows, flat, incomplete = scaled(traces)
    means = rows.groupby([*PROBLEM, "method"])[["cost", "loss"]].mean()
    found = {}
    for name, methods in families.items():
        part = means[means.index.get_level_values("method").isin(methods)].groupby(level=PROBLEM)
        found[name] = part.apply(lambda points: hypervolume(points.to_numpy(), np.ones(2)))
    cells = rows[CELL].drop_duplicates().reset_index(drop=True)
    return Hypervolumes(pd.DataFrame(found), cells, flat, incomplete)

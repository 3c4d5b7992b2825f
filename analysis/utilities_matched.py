"""Which runs of utilities can be compared: as long as the others, and on the cells that every method has."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis import methods
from analysis.traces import CELL, STUDY_ITERATIONS
from analysis.utilities_runs import REFERENCE, Runs
from datasets.errors import BadInput


def at_horizon(runs: Runs) -> tuple[Runs, int, dict[str, int]]:
    """Return one run per method and cell, cut after N evaluations without a deadline, and N: 100, or fewer.

    Last: how many runs of each method (label) are shorter or planned for another length, where no other serves a cell.

    Of a method that does not plan, the first N steps of a longer run count, as far as its deadline allowed it.
    Raises BadInput where no utility but EI has such runs.
    """
    table = runs.table
    own = table[(table["utility"] != "ei") & table["tau"].isna()]
    if own.empty:
        raise BadInput("the runs of utilities other than ei all have a deadline")
    n = int(min(STUDY_ITERATIONS, own["evaluations"].max()))
    fits = (table["evaluations"] >= n) & (~plans(table) | (table["tau"].isna() & (table["iterations"] == n)))
    if REFERENCE not in set(table.loc[fits, "label"]):
        raise BadInput(f"comparing utilities needs runs of {REFERENCE} with {n} evaluations: run study=utilities")
    kept = table[fits].sort_values(["iterations", "acq"], kind="stable").drop_duplicates([*CELL, "label"])
    found = runs.select(np.sort(kept.index.to_numpy()))
    served, short = pd.MultiIndex.from_frame(kept[[*CELL, "label"]]), table[~fits].drop_duplicates([*CELL, "label"])
    short = short[~pd.MultiIndex.from_frame(short[[*CELL, "label"]]).isin(served)]
    return (
        found.cut(np.full(len(found.table), n)),
        n,
        {str(k): int(v) for k, v in short["label"].value_counts().items()},
    )


def plans(table: pd.DataFrame) -> pd.Series:
    """Return which runs' choices depend on the length or the deadline that they were planned for."""
    return methods.plans(table["acq"], table["utility"])


@dataclass(frozen=True)
class Complete:
    """The runs of `labels` on the cells that have them all; missing: methods left out, with how many cells they have.

    partial: cells left out, since they lack one of `labels`.
    """

    runs: Runs
    labels: list[str]
    missing: dict[str, int]
    partial: int


def complete(runs: Runs) -> Complete:
    """Choose methods and cells so that every cell has every method, and as many runs as possible are compared.

    Methods go in the order of their number of cells, fewest first; the reference stays. Raises BadInput without it.
    """
    present = runs.wide(np.ones(len(runs.table))).notna()
    if REFERENCE not in present:
        raise BadInput(f"comparing utilities needs runs of {REFERENCE}: run study=utilities")
    cells = {str(name): int(n) for name, n in present.sum().items()}
    order = sorted((name for name in cells if name != REFERENCE), key=lambda name: (cells[name], name))
    best: tuple[int, int] | None = None
    for gone in range(len(order)):
        size = int(present[[REFERENCE, *order[gone:]]].all(axis=1).sum()) * (1 + len(order) - gone)
        if size and (best is None or size > best[0]):
            best = (size, gone)
    if best is None:
        raise BadInput(f"no problem and seed has runs of {REFERENCE} and of another utility")
    labels = sorted([REFERENCE, *order[best[1] :]])
    whole = present[labels].all(axis=1)
    rows = runs.table["label"].isin(labels) & pd.MultiIndex.from_frame(runs.table[CELL]).isin(whole[whole].index)
    missing = {name: cells[name] for name in order[: best[1]]}
    return Complete(runs.select(rows.to_numpy()), labels, missing, int((~whole & present.any(axis=1)).sum()))

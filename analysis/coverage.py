"""Which methods have runs enough to be compared: one that was tried on a few problems must not hide the others.

Comparisons are paired, so they are taken over the cells (problem and seed) that all methods have.
"""

import pandas as pd

from analysis.methods import EI
from analysis.traces import CELL

LEAST_SHARE = 0.5  # of the cells that EI has, or if that is fewer, the best covered other method


def sparse(runs: pd.DataFrame) -> list[str]:
    """Return the methods with runs in less than half of EI's cells, in order of their names.

    Where EI itself is ahead of all others, the best covered of those is the measure. runs: columns of `CELL`, method.
    """
    cells = runs[[*CELL, "method"]].drop_duplicates()["method"].value_counts()
    others = cells.drop(EI, errors="ignore")
    most = int(others.max()) if len(others) else 0
    whole = min(int(cells.get(EI, most)), most)
    return sorted(str(name) for name, n in cells.items() if n < LEAST_SHARE * whole)


def left_aside(methods: list[str], clause: bool = False) -> str:
    """Return the sentence (or the clause that ends one) on the methods that `sparse` found; "" for none."""
    if not methods:
        return ""
    start, end = ("; not", "") if clause else (" Not", ".")
    return f"{start} compared, for want of runs on half of EI's problem-seed pairs: {', '.join(methods)}{end}"

"""What F1 and F7 share: which data sets, seed and steps of the recorded fronts are drawn, and the axes."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.fronts import reference
from analysis.scope import plural
from datasets.errors import BadInput


def chosen(fronts: pd.DataFrame, names: tuple[str, ...], what: str) -> dict[str, pd.DataFrame]:
    """Return the fronts of one run (lowest seed, first pipeline) for each of the data sets `names`, by data set.

    Where the records hold none of these, their first data sets instead. Raises BadInput, naming the asker `what`,
    without fronts.
    """
    if fronts.empty:
        raise BadInput(f"{what} needs fronts: run `python -m harness +acq=ei fronts=true`")
    own = reference(fronts)
    held = sorted(set(own["dataset"]))
    there = [name for name in names if name in held] or held[: len(names)]
    found = {}
    for name in there:
        part = own[own["dataset"] == name]
        part = part[part["pipeline"] == part["pipeline"].min()]
        found[name] = part[part["seed"] == part["seed"].min()]
    return found


def steps(run: pd.DataFrame, shares: tuple[float, ...]) -> list[int]:
    """Return the recorded steps at these shares of a run's proposals, each with a step before it; 0-based.

    Raises BadInput for a run of fewer than two proposals.
    """
    every = np.unique(run["step"].to_numpy())
    later = every[np.isin(every - 1, every)]
    if not len(later):
        raise BadInput("a front needs the one before it: run two iterations or more past the initial design")
    return sorted({int(later[round(share * (len(later) - 1))]) for share in shares})


def place(points: pd.DataFrame, top: float, prefix: str = "") -> pd.DataFrame:
    """Return predicted seconds `x` and EI relative to exp(top) `y` of points, by cost."""
    y = np.exp(points[f"{prefix}log_ei"].to_numpy(float) - top)
    x = np.exp(points[f"{prefix}log_cost"].to_numpy(float))
    return points.assign(x=x, y=y).sort_values(["x", "y"])


def finish(axes: Axes, title: str) -> None:
    """Name and scale the axes."""
    axes.set_xscale("log")
    axes.margins(x=0.09, y=0.16)
    axes.set_xlabel("predicted cost (s)")
    axes.set_title(title, fontsize=9)


def described(runs: dict[str, pd.DataFrame], names: tuple[str, ...]) -> str:
    """Return which runs are drawn, and which data sets of the study's figure are not."""
    parts = []
    for name, run in runs.items():
        first: Any = run.iloc[0]
        evaluator = f"{first['evaluator']}, {plural(int(first['iterations']), 'iteration')}"
        parts.append(f"{name}/{first['pipeline']} (seed {first['seed']}, {evaluator})")
    missing = [name for name in names if name not in runs]
    gone = f" Not in the records: {', '.join(missing)}." if missing else ""
    return f"One run of EI on each of {', '.join(parts)}.{gone}"

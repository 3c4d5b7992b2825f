"""The bi-optimization trade-off of a family of methods: mean and median cost and error relative to EI."""

from typing import cast

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.bootstrap import Scheme, Statistic, bootstrap
from analysis.labels import THINNED, label_points, thin_labels
from analysis.methods import EICOOL
from analysis.plotting import GREEN
from analysis.relative import MEASURES, Relative

__all__ = ["THINNED", "and_of_cool", "finish", "label_points", "plot", "plot_cool", "thin_labels", "tradeoff"]

STATISTICS: tuple[Statistic, ...] = ("mean", "median")


def tradeoff(pairs: Relative, methods: list[str], scheme: Scheme | None = None) -> pd.DataFrame:
    """Return one row per method and statistic: alpha, lam, n (pairs), cost_pct and error_pct with intervals.

    Columns cost_pct, cost_pct_low, cost_pct_high and the same for error_pct, in percent of EI (EI = 100).
    All methods and both measures share the resamples.
    """
    axis = pairs.table.drop_duplicates("method").set_index("method")[["alpha", "lam"]].reindex(methods)
    rows = []
    for statistic in STATISTICS:
        row = axis.assign(statistic=statistic)
        for measure in MEASURES:
            estimate = bootstrap(pairs.wide(measure, methods), statistic, scheme)
            row["n"], row[measure] = estimate["n"], estimate["value"]
            row[f"{measure}_low"], row[f"{measure}_high"] = estimate["low"], estimate["high"]
        rows.append(row.reset_index())
    return pd.concat(rows, ignore_index=True)


def plot(axes: Axes, rows: pd.DataFrame, colour: str, label: str) -> None:
    """Draw one curve with intervals in both directions: circles for the mean, crosses for the median."""
    statistic = cast(str, rows["statistic"].iloc[0])
    marker, size, line = ("o", 5.0, "-") if statistic == "mean" else ("x", 5.5, "--")
    x, y = rows["cost_pct"].to_numpy(), rows["error_pct"].to_numpy()
    arms = [_arms(rows, measure) for measure in MEASURES]
    axes.errorbar(x, y, xerr=arms[0], yerr=arms[1], fmt="none", ecolor=colour, alpha=0.35, elinewidth=0.9)
    axes.plot(x, y, color=colour, linewidth=1.1, linestyle=line, marker=marker, markersize=size,
              label=f"{label}, {statistic}")  # fmt: skip


def plot_cool(axes: Axes, numbers: pd.DataFrame) -> None:
    """Draw EI-cool's mean as a diamond, with its intervals, where it is among the methods."""
    rows = numbers[(numbers["method"] == EICOOL) & (numbers["statistic"] == "mean")]
    if len(rows):
        x, y = rows["cost_pct"].to_numpy(), rows["error_pct"].to_numpy()
        arms = [_arms(rows, measure) for measure in MEASURES]
        axes.errorbar(x, y, xerr=arms[0], yerr=arms[1], fmt="D", color=GREEN, markersize=5.5, elinewidth=0.9,
                      label="EI-cool, mean")  # fmt: skip


def and_of_cool(numbers: pd.DataFrame) -> str:
    """Return the words for EI-cool beside another family; "" where it has no runs."""
    return " and of EI-cool, by the share of iterations left" if EICOOL in set(numbers["method"]) else ""


def _arms(rows: pd.DataFrame, measure: str) -> np.ndarray:
    """Lengths of the error bars' two arms; none where an interval misses its own point."""
    value, low, high = (rows[c].to_numpy() for c in (measure, f"{measure}_low", f"{measure}_high"))
    return np.maximum([value - low, high - value], 0.0)


def finish(axes: Axes, n: int) -> None:
    """Name the axes and draw the lines through EI's own point."""
    axes.axhline(100, color="0.6", linewidth=0.8, zorder=0)
    axes.axvline(100, color="0.6", linewidth=0.8, zorder=0)
    axes.set_xlabel(f"total cost of {n} iterations (% of EI's)")
    axes.set_ylabel(f"best error after {n} iterations (% of EI's)")

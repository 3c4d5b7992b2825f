"""Figures about censored costs: C2 (treatments over slack factors) and C3 (box plots of configured solvers)."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.censored import TREATMENTS
from analysis.configurator import SIGNIFICANT, medians
from analysis.marks import footnote
from analysis.plotting import BLUE, GREEN, ORANGE, RED, Drawn, new_figure, save, style
from analysis.scope import intervals, plural, scope, sentence
from datasets.errors import BadInput

_LOOK = {
    "sampled": ("Algorithm 1", BLUE, "o"),
    "mean": ("mean imputation", GREEN, "s"),
    "dropped": ("dropped", ORANGE, "v"),
    "bound": ("bound as value", RED, "^"),
}


def factor(slack: float) -> str:
    """Return a slack factor as figures and tables write it."""
    return "none" if np.isinf(slack) else f"{slack:g}"


def c2(found: pd.DataFrame, numbers: pd.DataFrame, out_dir: Path) -> Drawn:
    """Draw C2: RMSE and log-likelihood of the four treatments over slack factors, at the largest n."""
    if numbers.empty:
        raise BadInput("C2 needs records of the experiment slack")
    n = int(numbers["n"].max())
    part = numbers[numbers["n"] == n]
    cells = found[(found["experiment"] == "slack") & (found["n"] == n)]
    caption = sentence(
        f"C2. A random forest on log cost learned from {n} evaluations, each stopped at the slack factor times the",
        "lowest cost so far: RMSE (mean) and mean log-likelihood (median over cells), on configurations held out:",
        f"{scope(cells, 'tables')}.",
        f"Bars: {intervals(cells)}",
        "Above each factor: the share of evaluations that was stopped.",
        footnote(cells["dataset"]),
    )
    slacks = sorted(part["slack"].unique())
    with style():
        figure, plots = new_figure(9.6, 3.6, caption)
        axes: Any = plots.subplots(1, 2)
        for k, treatment in enumerate(TREATMENTS):
            own = part[part["treatment"] == treatment].sort_values("slack")
            label, colour, marker = _LOOK[treatment]
            x = np.arange(len(own)) + 0.12 * (k - 1.5)
            bars = np.array([own["rmse"] - own["low"], own["high"] - own["rmse"]]).clip(0)
            axes[0].errorbar(x, own["rmse"], bars, color=colour, marker=marker, linestyle="", markersize=5, label=label)
            axes[1].plot(x, own["log_likelihood"], color=colour, marker=marker, linestyle="", markersize=5, label=label)
        for axis, name in zip(axes, ("RMSE of log cost", "log-likelihood (median over cells)"), strict=True):
            axis.set_xticks(range(len(slacks)), [factor(s) for s in slacks])
            axis.set_xlabel("slack factor")
            axis.set_ylabel(name)
        axes[0].set_ylim(bottom=0)
        axes[1].set_yscale("symlog", linthresh=1.0)
        axes[1].set_ylim(min(-1.0, 2.0 * part["log_likelihood"].min()), max(0.0, 2.0 * part["log_likelihood"].max()))
        for k, s in enumerate(slacks):
            share = part.loc[part["slack"] == s, "censored"].iloc[0]
            axes[0].annotate(f"{100 * share:.0f} %", (k, axes[0].get_ylim()[1]), ha="center", fontsize=7, color="0.35")
        axes[0].legend(fontsize=7.5, loc="lower left")
        return save(figure, "c2", caption, part, out_dir)


def _range(runs: pd.Series) -> str:
    low, high = int(runs.min()), int(runs.max())
    return plural(high, "run") if low == high else f"{low} to {plural(high, 'run')}"


def c3(times: pd.DataFrame, out_dir: Path) -> Drawn:
    """Draw C3: box plots of mean test runtime per slack factor, one panel per scenario; the best group is filled."""
    table = medians(times)
    if table.empty:
        raise BadInput("C3 needs configuration runs: python -m harness.configurator")
    names = list(dict.fromkeys(table["scenario"]))
    one = times.dropna(subset="budget_s").iloc[0]
    runs = table["runs"]
    caption = sentence(
        "C3. Mean CPU seconds on test instances of what was configured under each slack factor;",
        f"{_range(runs)} per group (dots), {one['budget_s']:g} s of configuration each, the",
        f"configurator's own time included; a run of a solver may take {one['kappa_max_s']:g} s, and counts for that",
        "if it does or fails. Dashed: the solver's defaults. Filled: the lowest median and the groups not",
        f"significantly different from it (Mann-Whitney U, p >= {SIGNIFICANT:g}).",
    )
    with style():
        figure, plots = new_figure(9.6, 3.4, caption)
        axes: Any = plots.subplots(1, len(names), squeeze=False)[0]
        for axis, name in zip(axes, names, strict=True):
            own = table[table["scenario"] == name].sort_values("slack")
            data = [
                times.loc[(times["scenario"] == name) & (times["slack"] == slack), "test_s"].to_numpy()
                for slack in own["slack"]
            ]
            labels = [factor(s) for s in own["slack"]]
            drawn = axis.boxplot(data, widths=0.6, patch_artist=True, tick_labels=labels, showfliers=False)
            for box, best in zip(drawn["boxes"], own["best"], strict=True):
                box.set(facecolor=BLUE if best else "white", alpha=0.45 if best else 1.0)
            for median in drawn["medians"]:
                median.set(color="black")
            for place, seconds in enumerate(data):
                axis.plot(place + 1 + np.linspace(-0.15, 0.15, len(seconds) + 2)[1:-1], seconds, ".", color="0.3")
            axis.axhline(own["default_s"].iloc[0], color="0.4", linestyle="--", linewidth=1)
            axis.set_ylim(bottom=0)
            axis.set_title(name.replace("_", " "), fontsize=10)
            axis.set_xlabel("slack factor")
        axes[0].set_ylabel("mean test runtime (CPU s)")
        return save(figure, "c3", caption, times, out_dir)

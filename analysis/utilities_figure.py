"""U: every utility under every cost rule, cost against error, without and with the time that thinking takes."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from analysis.marks import footnote
from analysis.plotting import Drawn, new_figure, save, style
from analysis.scope import intervals, scope, sentence
from analysis.traces import PROBLEM
from analysis.utilities_matched import Complete, at_horizon, complete
from analysis.utilities_numbers import ranks, relative
from analysis.utilities_runs import REFERENCE, Runs

PALETTE = ("#000000", "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#7A5195", "#8C6D31", "#7F7F7F")
MARKERS = ("o", "s", "D", "^", "v", "P", "X")


def draw(runs: Runs, out_dir: Path) -> Drawn:
    """Draw the figure `utilities`; raises BadInput where the runs do not suffice (`utilities.complete`)."""
    whole, n, _ = at_horizon(runs)
    found = complete(whole)
    methods = found.runs.table.drop_duplicates("label").set_index("label").loc[found.labels, ["utility", "rule"]]
    numbers = pd.concat([relative(found), ranks(found)], ignore_index=True).merge(methods, on="label")
    caption = _caption(found, n)
    with style():
        figure, plots = new_figure(11.0, 5.4, caption)
        panels = plots.subplots(1, 3, width_ratios=(1.0, 1.0, 0.9))
        looks = _looks(methods)
        for axes, measure in zip(panels, ("cost", "both"), strict=False):
            _front(axes, numbers, measure, looks)
        panels[0].set(xlabel="training cost (% of EI's)", ylabel=f"best error after {n} evaluations (% of EI's)")
        panels[1].set(xlabel="training + thinking (% of EI's)")
        panels[1].sharey(panels[0])
        _ranks(panels[2], numbers, looks)
        plots.legend(handles=_legend(looks, methods), loc="outside lower center", ncols=7)
        return save(figure, "utilities", caption, numbers, out_dir)


def _looks(methods: pd.DataFrame) -> dict[str, tuple[str, str]]:
    """Return colour (of the utility) and marker (of the rule) of every method."""
    utilities = ["ei", *sorted(set(methods["utility"]) - {"ei"})]
    rules = ["ei", *sorted(set(methods["rule"]) - {"ei"})]
    return {
        str(label): (
            PALETTE[utilities.index(row["utility"]) % len(PALETTE)],
            MARKERS[rules.index(row["rule"]) % len(MARKERS)],
        )
        for label, row in methods.iterrows()
    }


def _front(axes: Axes, numbers: pd.DataFrame, measure: str, looks: dict[str, tuple[str, str]]) -> None:
    x, y = (numbers[numbers["measure"] == name].set_index("label") for name in (measure, "error"))
    for utility, rows in x.groupby("utility"):
        rows = rows.sort_values("value")
        axes.plot(rows["value"], y.loc[rows.index, "value"], color=looks[str(rows.index[0])][0], linewidth=0.7,
                  alpha=0.6, label=str(utility))  # fmt: skip
    for label, (colour, marker) in looks.items():
        at = [part.loc[label, ["value", "low", "high"]].to_numpy(dtype=float) for part in (x, y)]
        arms = [np.maximum([[v - low], [high - v]], 0.0) for v, low, high in at]
        a, b = at[0][0], at[1][0]
        axes.errorbar(a, b, yerr=arms[1], xerr=arms[0], fmt="none", ecolor=colour, elinewidth=0.7, alpha=0.3)
        axes.plot(a, b, marker, color=colour, markersize=5)
    axes.axhline(100, color="0.6", linewidth=0.8, zorder=0)
    axes.axvline(100, color="0.6", linewidth=0.8, zorder=0)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())


def _ranks(axes: Axes, numbers: pd.DataFrame, looks: dict[str, tuple[str, str]]) -> None:
    """Mean rank at the end, best on top, filled; hollow: within EI's training and thinking time."""
    end, timed = (
        numbers[numbers["measure"] == name].set_index("label")
        for name in ("at the end", "within EI's training + thinking")
    )
    order = end.sort_values("value", ascending=False).index
    for place, label in enumerate(order):
        colour, marker = looks[str(label)]
        for part, filled, shift in ((end, True, 0.14), (timed, False, -0.14)):
            value, low, high = part.loc[label, ["value", "low", "high"]].to_numpy(dtype=float)
            axes.plot([low, high], [place + shift] * 2, color=colour, linewidth=0.8, alpha=0.6)
            axes.plot(value, place + shift, marker, color=colour, markersize=3.8,
                      markerfacecolor=colour if filled else "white")  # fmt: skip
    axes.set_yticks(range(len(order)), [str(label) for label in order], fontsize=6.5)
    axes.set_ylim(-0.7, len(order) - 0.3)
    axes.set_xlabel("mean rank (1 = best)")


def _legend(looks: dict[str, tuple[str, str]], methods: pd.DataFrame) -> list[Line2D]:
    first = methods.reset_index().drop_duplicates("utility").set_index("utility")["label"]
    utilities = sorted(first.index, key=lambda u: (u != "ei", u))
    colours = [Line2D([], [], color=looks[first[u]][0], label=str(u)) for u in utilities]
    rules = methods.reset_index().drop_duplicates("rule").set_index("rule")["label"]
    names = {"ei": "no cost", "eipu": "per cost"}
    marks = [
        Line2D([], [], color="0.3", marker=looks[rules[r]][1], linestyle="", label=f"{names.get(str(r), r)}")
        for r in sorted(rules.index, key=lambda r: (r != "ei", r))
    ]
    return colours + marks


def _caption(found: Complete, n: int) -> str:
    cells = found.runs.table[[*PROBLEM, "seed"]].drop_duplicates()
    gone = ", ".join(sorted(found.missing))
    return sentence(
        f"Utilities (colour) under cost rules (marker). Left: training cost and best error after {n} evaluations, in",
        f"percent of EI's ({REFERENCE}) on the same problem and seed. Middle: the same with the optimizer's own time",
        "added to the training's, on the host that made the records. Right: mean rank of the best error at the end",
        "(filled), and within EI's training and thinking time, thinking counted (hollow). Means over",
        f"{scope(cells, found.runs.evaluator)}, {len(found.labels)} methods, {len(cells)} cells that have them all.",
        f"Left out, with fewer cells: {gone}." if gone else "",
        intervals(cells),
        footnote(cells["dataset"]),
    )

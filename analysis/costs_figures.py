"""F2 (how fast online cost models learn) and F8 (transferred against online ones)."""

from pathlib import Path
from typing import Any

import pandas as pd

from analysis import costs as numbers_of
from analysis.costs_boxes import PANELS, boxes_of, caption, in_every_box
from analysis.marks import footnote
from analysis.plotting import BLACK, BLUE, GREEN, ORANGE, RED, Drawn, new_figure, save, style
from analysis.scope import intervals, plural, scope, sentence
from analysis.traces import PROBLEM
from datasets.errors import BadInput

FEW = 12  # evaluations: the second panel of F2
_LOOK = {
    "lv1": (ORANGE, ":"),
    "lv2": (ORANGE, "--"),
    "lv3": (ORANGE, "-"),
    "gp": (BLUE, "-"),
    "gp3": (BLUE, ":"),
    "warped_gp": (RED, "-"),
    "gp_lv": (GREEN, "-"),
    "hybrid": (BLACK, "-"),
}


def f2(costs: pd.DataFrame, out_dir: Path) -> Drawn:
    """Draw F2: mean RMSE of log cost against the number of evaluations, all of them and few of them."""
    online = costs[costs["cost_model"].isin([*numbers_of.ONLINE, "hybrid"])]
    curves = numbers_of.learning_curves(numbers_of.comparable(online)[0])
    if curves.empty:
        raise BadInput("F2 needs records of online cost models with problems and a number of evaluations in common")
    text = _caption_f2(online, curves)
    with style():
        figure, plots = new_figure(9.6, 4.2, text)
        axes = plots.subplots(1, 2)
        for axis, part in zip(axes, (curves, curves[curves["n"] <= FEW]), strict=True):
            _curves(axis, part)
        axes[0].set_xscale("log", base=2)
        sizes = set(curves["n"])
        ticks = [n for n in (4, 8, 16, 32, 64, 100) if min(sizes) <= n <= max(sizes)] or sorted(sizes)
        axes[0].set_xticks(ticks, [str(n) for n in ticks])
        axes[0].minorticks_off()
        axes[0].set_ylim(bottom=0)
        axes[0].set_title("all online cost models", fontsize=10)
        axes[1].set_title("few evaluations", fontsize=10)
        axes[1 if min(sizes) <= FEW else 0].legend(fontsize=7.5)
        return save(figure, "f2", text, curves, out_dir)


def _curves(axis: Any, curves: pd.DataFrame) -> None:
    for name in dict.fromkeys(curves["cost_model"]):
        label, (colour, line) = numbers_of.NAMES.get(name, name), _LOOK.get(name, ("0.5", "-"))
        part = curves[curves["cost_model"] == name].sort_values("n")
        axis.plot(part["n"], part["value"], color=colour, linestyle=line, marker="o", markersize=2.5, label=label)
        axis.fill_between(part["n"], part["low"], part["high"], color=colour, alpha=0.13, linewidth=0)
    axis.set_xlabel("evaluations learned from")
    axis.set_ylabel("RMSE of log cost (natural log)")


def _caption_f2(costs: pd.DataFrame, curves: pd.DataFrame) -> str:
    cells = numbers_of.taken(numbers_of.comparable(costs)[0])[0]
    first, last = int(curves["n"].min()), int(curves["n"].max())
    fewer = curves.loc[curves["cells"] < curves.loc[curves["n"] == first, "cells"].iloc[0], "n"]
    problems = int(curves.loc[curves["n"] == last, "problems"].iloc[0])
    left = f"Fewer, those whose tables are long enough, from n = {fewer.min()} on: {plural(problems, 'problem')} at"
    left += f" {last}, so that steps of a curve are not of learning only."
    return sentence(
        "F2. Root mean square error of predicted log cost on configurations not learned from (up to 1,000 per problem,",
        "the same for every n), against the number of evaluations learned from, drawn at random from the same table;",
        f"mean over {scope(cells, 'tables')}{f', at n = {first}' if len(fewer) else ''}.",
        f"Bands: {intervals(cells)}",
        left if len(fewer) else "",
        numbers_of.left_out(costs),
        footnote(cells["dataset"]),
    )


def f8(costs: pd.DataFrame, out_dir: Path) -> Drawn:
    """Draw F8: box plots over problems of the RMSE of online and transferred models, regression and classification."""
    boxes = boxes_of(costs)
    text, order = caption(costs, boxes), list(dict.fromkeys(boxes["box"]))
    with style():
        figure, plots = new_figure(9.6, 0.27 * len(order) + 1.2, text)
        axes = plots.subplots(1, 2, sharex=True)
        for axis, panel in zip(axes, dict.fromkeys(PANELS.values()), strict=True):
            part = boxes[boxes["panel"] == panel]
            _panel(axis, part, order, part[pd.MultiIndex.from_frame(part[PROBLEM]).isin(in_every_box(boxes))])
            problems = len(part[PROBLEM].drop_duplicates())
            axis.set_title(f"{panel} ({plural(problems, 'problem')})", fontsize=10)
        return save(figure, "f8", text, boxes, out_dir)


def _panel(axis: Any, part: pd.DataFrame, order: list[str], common: pd.DataFrame) -> None:
    """Draw one panel's boxes, those that it has no problem of left empty; common: the problems of the diamonds."""
    data = [part.loc[part["box"] == box, "rmse"].to_numpy() for box in order]
    drawn = axis.boxplot(data, orientation="horizontal", widths=0.6, patch_artist=True, flierprops=_FLIERS)
    named = part.drop_duplicates("box").set_index("box")
    for box, patch in zip(order, drawn["boxes"], strict=True):
        transferred = box in named.index and named.loc[box, "transferred"]
        patch.set(facecolor=BLUE if transferred else ORANGE, alpha=0.45)
    for median in drawn["medians"]:
        median.set(color=BLACK)
    medians = common.groupby("box")["rmse"].median()
    places = [k for k, box in enumerate(order, start=1) if box in medians]
    axis.plot([medians[order[k - 1]] for k in places], places, "D", color=BLACK, markersize=4, zorder=4)
    axis.set_xlabel("RMSE of log cost (natural log)")
    axis.set_xscale("log")
    axis.set_xticks([0.1, 0.2, 0.5, 1, 2, 5], ["0.1", "0.2", "0.5", "1", "2", "5"])
    axis.minorticks_off()
    labels = [named.loc[box, "label"] if box in named.index else f"{box}, 0" for box in order]
    axis.set_yticks(range(1, len(order) + 1), labels)
    axis.invert_yaxis()


_FLIERS = {"marker": ".", "markersize": 3, "markerfacecolor": "0.4", "markeredgecolor": "none"}

"""F2 (how fast online cost models learn) and F8 (transferred against online ones)."""

from pathlib import Path
from typing import Any

import pandas as pd

from analysis import costs as numbers_of
from analysis.marks import footnote
from analysis.plotting import BLACK, BLUE, GREEN, ORANGE, RED, Drawn, new_figure, save, style
from analysis.scope import intervals, plural, scope, sentence
from analysis.traces import PROBLEM
from harness.errors import BadInput

FEW = 12  # evaluations: the second panel of F2
_LOOK = {
    "lv1": ("LV-1", ORANGE, ":"),
    "lv2": ("LV-2", ORANGE, "--"),
    "lv3": ("LV-3", ORANGE, "-"),
    "gp": ("GP", BLUE, "-"),
    "gp3": ("GP on 3 features", BLUE, ":"),
    "warped_gp": ("warped GP", RED, "-"),
    "gp_lv": ("GP on LV-3's residuals", GREEN, "-"),
    "hybrid": ("hybrid", BLACK, "-"),
}


def f2(costs: pd.DataFrame, out_dir: Path) -> Drawn:
    """Draw F2: mean RMSE of log cost against the number of evaluations, all of them and few of them."""
    online = costs[costs["cost_model"].isin([*numbers_of.ONLINE, "hybrid"])]
    curves = numbers_of.learning_curves(online)
    if curves.empty:
        raise BadInput("F2 needs records of online cost models with a number of evaluations in common")
    caption = _caption_f2(online, curves)
    with style():
        figure, plots = new_figure(9.6, 4.2, caption)
        axes = plots.subplots(1, 2)
        for axis, part in zip(axes, (curves, curves[curves["n"] <= FEW]), strict=True):
            _curves(axis, part)
        axes[0].set_xscale("log", base=2)
        ticks = [n for n in (4, 8, 16, 32, 64, 100) if n <= curves["n"].max()]
        axes[0].set_xticks(ticks, [str(n) for n in ticks])
        axes[0].minorticks_off()
        axes[0].set_ylim(bottom=0)
        axes[0].set_title("all online cost models", fontsize=10)
        axes[1].set_title("few evaluations", fontsize=10)
        axes[1].legend(fontsize=7.5)
        return save(figure, "f2", caption, curves, out_dir)


def _curves(axis: Any, curves: pd.DataFrame) -> None:
    for name in dict.fromkeys(curves["cost_model"]):
        label, colour, line = _LOOK.get(name, (name, "0.5", "-"))
        part = curves[curves["cost_model"] == name].sort_values("n")
        axis.plot(part["n"], part["value"], color=colour, linestyle=line, marker="o", markersize=2.5, label=label)
        axis.fill_between(part["n"], part["low"], part["high"], color=colour, alpha=0.13, linewidth=0)
    axis.set_xlabel("evaluations learned from")
    axis.set_ylabel("RMSE of log cost (natural log)")


def _caption_f2(costs: pd.DataFrame, curves: pd.DataFrame) -> str:
    most = int(curves["cells"].max())
    fewer = curves[curves["cells"] < most].groupby("n")["cells"].max()
    last = int(curves["n"].max())
    long = costs.loc[costs["n"] == last, ["dataset", "pipeline"]].drop_duplicates()
    left = f"Fewer, those whose tables are long enough, from n = {fewer.index.min()} on: {len(long)} at {last}, so that"
    left += " steps of a curve are not of learning only."
    return sentence(
        "F2. Root mean square error of predicted log cost on configurations not learned from (up to 1,000 per problem,",
        "the same for every n), against the number of evaluations learned from, drawn at random from the same table;",
        "mean over",
        f"{scope(costs, 'tables')}.",
        f"Bands: {intervals(costs)}",
        left if len(fewer) else "",
        footnote(costs["dataset"]),
    )


def f8(costs: pd.DataFrame, out_dir: Path) -> Drawn:
    """Draw F8: box plots over problems of the RMSE of online and transferred models, regression and classification."""
    boxes = _boxes(costs)
    if not boxes["transferred"].any():
        raise BadInput("F8 needs records of transferred models: cost_models=[transfer_xgboost,...]")
    caption = _caption_f8(costs, boxes)
    order = list(dict.fromkeys(boxes["box"]))
    with style():
        figure, plots = new_figure(9.6, 0.27 * len(order) + 1.2, caption)
        axes = plots.subplots(1, 2, sharey=True)
        for axis, (title, kinds) in zip(axes, _TASKS.items(), strict=True):
            part = boxes[boxes["task"].isin(kinds)]
            data = [part.loc[part["box"] == box, "rmse"].to_numpy() for box in order]
            drawn = axis.boxplot(data, orientation="horizontal", widths=0.6, patch_artist=True, flierprops=_FLIERS)
            online = [not boxes.loc[boxes["box"] == box, "transferred"].any() for box in order]
            for patch, is_online in zip(drawn["boxes"], online, strict=True):
                patch.set(facecolor=ORANGE if is_online else BLUE, alpha=0.45)
            for median in drawn["medians"]:
                median.set(color=BLACK)
            own = part[pd.MultiIndex.from_frame(part[PROBLEM]).isin(_in_every_box(boxes))]
            medians = own.groupby("box")["rmse"].median()
            places = [k for k, box in enumerate(order, start=1) if box in medians]
            axis.plot([medians[order[k - 1]] for k in places], places, "D", color=BLACK, markersize=4, zorder=4)
            problems = len(part[["dataset", "pipeline"]].drop_duplicates())
            axis.set_title(f"{title} ({plural(problems, 'problem')})", fontsize=10)
            axis.set_xlabel("RMSE of log cost (natural log)")
            axis.set_xscale("log")
            axis.set_xticks([0.1, 0.2, 0.5, 1, 2, 5], ["0.1", "0.2", "0.5", "1", "2", "5"])
            axis.minorticks_off()
        axes[0].set_yticks(range(1, len(order) + 1), order)
        axes[0].invert_yaxis()
        return save(figure, "f8", caption, boxes, out_dir)


_TASKS = {"regression": ("regression",), "classification": ("binary", "multiclass")}
_FLIERS = {"marker": ".", "markersize": 3, "markerfacecolor": "0.4", "markeredgecolor": "none"}
_BOXES = (("lv3", 4), ("lv3", 10), ("lv3", 100), ("gp", 4), ("gp", 10), ("gp", 100), ("hybrid", 4), ("hybrid", 10))
_TRANSFER = "transfer_"


def _boxes(costs: pd.DataFrame) -> pd.DataFrame:
    """Return RMSE per problem of the models compared, with the name of its box: model and training size."""
    parts = []
    present = set(zip(costs["cost_model"], costs["n"], strict=True))
    transferred = [(m, None) for m in numbers_of.models(costs) if m.startswith(_TRANSFER)]
    for name, n in [*((m, n) for m, n in _BOXES if (m, n) in present), *transferred]:
        own = costs[costs["cost_model"] == name]
        rows = numbers_of.per_problem(own, n)
        size = f"{n}" if n is not None else f"{own['trained_on'].median():,.0f}"
        label = _LOOK[name][0] if name in _LOOK else name.removeprefix(_TRANSFER).replace("_", " ")
        parts.append(rows.assign(box=f"{label} [{size}], {len(rows)}", transferred=n is None))
    return pd.concat(parts, ignore_index=True)


def _in_every_box(boxes: pd.DataFrame) -> pd.Index:
    """Return the problems (dataset, pipeline) that every box has."""
    count = boxes.groupby(PROBLEM)["box"].nunique()
    return count.index[count == boxes["box"].nunique()]


def _caption_f8(costs: pd.DataFrame, boxes: pd.DataFrame) -> str:
    cells = costs[costs["cost_model"].isin(set(boxes["cost_model"]))]
    return sentence(
        "F8. Online (orange) and transferred (blue) cost models: RMSE of predicted log cost per problem, mean over",
        "seeds, as in F2. In brackets the training size: evaluations of the problem itself, or rows of the tables of",
        "the other data sets (median); then the number of problems, those whose tables are long enough.",
        f"{scope(cells, 'tables')}, box: quartiles, whiskers: 1.5 times their distance. Diamonds: medians over the",
        f"{plural(len(_in_every_box(boxes)), 'problem')} that every box has.",
        footnote(cells["dataset"]),
    )

"""F2, F8, F9, on cost models: learning curves, transferred against online ones, and EI^alpha under several."""

from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.text import Text

from analysis import cost_models as numbers_of
from analysis.captions import MEANS_OF_SUMS, footnote, intervals, pairs_left_out, plural, scope, sentence, span
from analysis.cost_models import NAMES, Compared, compare_cost_models, models, per_problem
from analysis.evaluations import Recorded
from analysis.figures.f3_f5 import THINNED, label_points, label_tradeoff, limit_axes, plot
from analysis.methods import PROBLEM
from analysis.plotting import BLACK, BLUE, GREEN, ORANGE, RED, Drawn, drawn_from, new_figure, place_labels, save, style
from analysis.traces import Judge
from datasets.catalogue import KINDS
from datasets.errors import BadInput

# F2: how fast online cost models learn.

FEW = 12  # evaluations: the second panel of F2
_LOOK = {
    "lv1": (ORANGE, ":"), "lv2": (ORANGE, "--"), "lv3": (ORANGE, "-"), "gp": (BLUE, "-"), "gp3": (BLUE, ":"),
    "warped_gp": (RED, "-"), "gp_lv": (GREEN, "-"), "hybrid": (BLACK, "-"),
}  # fmt: skip


@drawn_from("costs", "How fast cost models learn")
def f2(costs: pd.DataFrame, out_dir: Path) -> Drawn:
    """Draw F2: mean RMSE of log cost against the number of evaluations, all of them and few of them."""
    online = costs[costs["cost_model"].isin([*numbers_of.ONLINE, "hybrid"])]
    comparable = numbers_of.comparable(online)[0]
    curves = numbers_of.learning_curves(comparable)
    if curves.empty:
        raise BadInput("F2 needs records of online cost models with problems and a number of evaluations in common")
    caption = _caption_f2(online, numbers_of.taken(comparable)[0], curves)
    with style():
        figure, plots = new_figure(9.6, 4.2, caption)
        axes = plots.subplots(1, 2)
        for axis, part in zip(axes, (curves, curves[curves["n"] <= FEW]), strict=True):
            _draw_curves(axis, part)
        axes[0].set_xscale("log", base=2)
        sizes = set(curves["n"])
        ticks = [n for n in (4, 8, 16, 32, 64, 100) if min(sizes) <= n <= max(sizes)] or sorted(sizes)
        axes[0].set_xticks(ticks, [str(n) for n in ticks])
        axes[0].minorticks_off()
        axes[0].set_ylim(bottom=0)
        axes[0].set_title("all online cost models", fontsize=10)
        axes[1].set_title("few evaluations", fontsize=10)
        axes[1 if min(sizes) <= FEW else 0].legend(fontsize=7.5)
        return save(figure, "f2", caption, curves, out_dir)


def _draw_curves(axis: Any, curves: pd.DataFrame) -> None:
    for name, part in curves.groupby("cost_model", sort=False):
        part, (colour, line) = part.sort_values("n"), _LOOK.get(str(name), ("0.5", "-"))
        label = NAMES.get(str(name), str(name))
        axis.plot(part["n"], part["value"], color=colour, linestyle=line, marker="o", markersize=2.5, label=label)
        axis.fill_between(part["n"], part["low"], part["high"], color=colour, alpha=0.13, linewidth=0)
    axis.set_xlabel("evaluations learned from")
    axis.set_ylabel("RMSE of log cost (natural log)")


def _caption_f2(online: pd.DataFrame, cells: pd.DataFrame, curves: pd.DataFrame) -> str:
    first, last = int(curves["n"].min()), int(curves["n"].max())
    fewer = curves.loc[curves["cells"] < curves.loc[curves["n"] == first, "cells"].iloc[0], "n"]
    problems = int(curves.loc[curves["n"] == last, "problems"].iloc[0])
    left = f"Fewer, those whose tables are long enough, from n = {fewer.min()} on: {plural(problems, 'problem')} at"
    left += f" {last}, so that steps of a curve are not of learning only."
    return sentence(
        "F2. Root mean square error of predicted log cost on configurations not learned from (up to 1,000 per problem,",
        "the same for every n), against the number of evaluations learned from, drawn at random from the same table;",
        f"mean over {scope(cells, 'tables')}{f', at n = {first}' if len(fewer) else ''}.",
        f"Bands: {intervals(cells, medians=False)}",
        left if len(fewer) else "",
        numbers_of.left_out(online),
        footnote(cells["dataset"]),
    )


# F8: transferred against online cost models, one box per model and number of evaluations.

_ONLINE = (("lv3", 4), ("lv3", 10), ("lv3", 100), ("gp", 4), ("gp", 10), ("gp", 100), ("hybrid", 4), ("hybrid", 10))
_TRANSFER = "transfer_"
_FLIERS = {"marker": ".", "markersize": 3, "markerfacecolor": "0.4", "markeredgecolor": "none"}


@drawn_from("costs", "Transferred against online cost models")
def f8(costs: pd.DataFrame, out_dir: Path) -> Drawn:
    """Draw F8: box plots over problems of the RMSE of online and transferred models, regression and classification.

    Raises BadInput without records of transferred models.
    """
    transferred = [(m, None) for m in models(costs) if m.startswith(_TRANSFER)]
    if not transferred:
        raise BadInput("F8 needs records of transferred models: cost_models=[transfer_xgboost,...]")
    present = set(costs[["cost_model", "n"]].drop_duplicates().itertuples(index=False, name=None))
    online = [(m, n) for m, n in _ONLINE if (m, n) in present]
    parts = [_box(costs[costs["cost_model"] == m], m, n) for m, n in [*online, *transferred]]
    boxes = pd.concat(parts, ignore_index=True)
    order, count = list(dict.fromkeys(boxes["box"])), boxes.groupby(PROBLEM)["box"].nunique()
    in_every_box = count.index[count == len(order)]
    cells = costs[costs["cost_model"].isin(set(boxes["cost_model"]))]
    caption = sentence(
        "F8. Online (orange) and transferred (blue) cost models: RMSE of predicted log cost per problem, mean over",
        "seeds, as in F2. In brackets the training size: evaluations of the problem itself, or rows of the tables of",
        "the other data sets (median over the panel's problems); then the panel's number of problems, those whose",
        f"tables are long enough. {scope(cells, 'tables')}, box: quartiles, whiskers: 1.5 times their distance.",
        f"Diamonds: medians over the {plural(len(in_every_box), 'problem')} that every box has, of both panels.",
        footnote(cells["dataset"]),
    )
    with style():
        figure, plots = new_figure(9.6, 0.27 * len(order) + 1.2, caption)
        axes = plots.subplots(1, 2, sharex=True)
        for axis, panel in zip(axes, dict.fromkeys(KINDS.values()), strict=True):
            part = boxes[boxes["panel"] == panel]
            _draw_boxes(axis, part, order, part[pd.MultiIndex.from_frame(part[PROBLEM]).isin(in_every_box)])
            axis.set_title(f"{panel} ({plural(len(part[PROBLEM].drop_duplicates()), 'problem')})", fontsize=10)
        return save(figure, "f8", caption, boxes, out_dir)


def _box(own: pd.DataFrame, name: str, n: int | None) -> pd.DataFrame:
    """Return one row per problem of one model after n evaluations; None: of a transferred one, whatever n.

    Columns: rmse (mean over seeds), panel, box, transferred, and label: model, training size and number of problems as
    they are in that panel.
    """
    label = NAMES.get(name, name.removeprefix(_TRANSFER).replace("_", " "))
    rows = per_problem(own, n)
    rows = rows.assign(
        panel=rows["task"].map(KINDS), box=label if n is None else f"{label} [{n}]", transferred=n is None
    )
    trained_on = own.groupby(own["task"].map(KINDS))["trained_on"].median()
    labels = {
        panel: f"{label} [{float(trained_on[panel]) if n is None else n:,.0f}], {(rows['panel'] == panel).sum()}"
        for panel in rows["panel"].unique()
    }
    return rows.assign(label=rows["panel"].map(labels))


def _draw_boxes(axis: Any, part: pd.DataFrame, order: list[str], common: pd.DataFrame) -> None:
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


# F9: what the cost model does to the bi-optimization trade-off of EI^alpha (STUDY: F9).

_FRONT_LOOK = {
    "lv3": ("LV-3", ORANGE),
    "gp": ("GP", BLUE),
    "transfer_linear": ("transferred linear", GREEN),
    "hybrid": ("hybrid", RED),
    "oracle": ("true cost", BLACK),
}


@drawn_from("runs", "EI^alpha under several cost models")
def f9(recorded: Recorded, out_dir: Path, judge: Judge = "validation", mixed: bool = False) -> Drawn:
    """Draw F9: mean cost and error per alpha, one curve per cost model."""
    found = compare_cost_models(recorded, judge, mixed)
    caption = _caption_f9(found, judge)
    with style():
        figure, plots = new_figure(6.4, 4.4, caption)
        axes, labels = plots.subplots(), list[Text]()
        numbers = found.numbers[found.numbers["statistic"] == "mean"]
        for name in found.pairs:
            label, colour = _FRONT_LOOK.get(name, (name, "0.5"))
            rows = numbers[numbers["cost_model"] == name]
            plot(axes, rows, colour, label)
            labels += label_points(axes, rows, "alpha", colour)
        limit_axes(axes, numbers)
        label_tradeoff(axes, found.n)
        axes.set_title("EI$^\\alpha$ under several cost models (numbers: $\\alpha$)", fontsize=10)
        plots.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
        place_labels(axes, labels)
        return save(figure, "f9", caption, found.numbers, out_dir)


def _caption_f9(found: Compared, judge: Judge) -> str:
    table = next(iter(found.pairs.values())).table
    dropped = plural(found.dropped, "problem-seed pair")
    return sentence(
        f"F9. Total cost and best {judge} error of {found.n} iterations of EI^alpha under several cost models, in",
        f"percent of EI's on the same problem, mean over {scope(table, found.components['evaluator'])},",
        f"{span(found.numbers['n'], 'pair')}; only problems and seeds that were run under every cost model"
        + (f" ({dropped} were not), alpha by alpha." if found.dropped else ", alpha by alpha."),
        MEANS_OF_SUMS,
        f"Not compared, for want of runs: {', '.join(found.few)}." if found.few else "",
        f"Bars: {intervals(table, medians=False)} Wide ones are cut off.",
        THINNED,
        *(
            f"{_FRONT_LOOK.get(name, (name,))[0]}: {pairs_left_out(pairs, found.short[name], found.n)}"
            for name, pairs in found.pairs.items()
            if found.short[name] or pairs.zero or pairs.failed or pairs.unpaired
        ),
        footnote(table["dataset"]),
    )

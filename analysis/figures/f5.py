"""F5: contextual EI, its bi-optimization beside EI^alpha's, and the alpha it amounts to (STUDY: F5)."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.effective import Effective, effective_alpha, unsupported_sentence
from analysis.labels import THINNED, label_points, thin_labels
from analysis.marks import footnote
from analysis.methods import EI, ordered, require
from analysis.plotting import BLUE, RED, Drawn, drawn_from, new_figure, save, sequence, spread, style
from analysis.relative import Relative, relative
from analysis.scope import intervals, pairs_left_out, scope, sentence, span
from analysis.selection import and_cool, at_horizon, horizon, of_families
from analysis.traces import Traces
from analysis.tradeoff import and_of_cool, finish, plot, plot_cool, tradeoff
from datasets.errors import BadInput


@drawn_from("traces")
def draw(traces: Traces, out_dir: Path) -> Drawn:
    """Draw F5, left: CEI over lambda beside EI^alpha; right: CEI's mean and median effective alpha per iteration.

    Raises BadInput without runs of `ei`, or of `cei`.
    """
    require(traces.runs, EI, "F5")
    n = horizon(traces)
    equal, short = at_horizon(and_cool(traces, n, "alpha", "lam"), n)
    if equal.runs["lam"].isna().all():
        raise BadInput(f"F5 needs a method cei of {n} iterations: the records hold {', '.join(ordered(equal.runs))}")
    pairs = relative(equal, "F5")
    if pairs.table["lam"].isna().all():
        raise BadInput("F5: no run of cei can be compared with EI's on the same problem and seed")
    numbers = tradeoff(pairs, ordered(pairs.table))
    effective = effective_alpha(of_families(equal, "lam"))
    caption = _caption(traces, pairs, numbers, effective, n, short)
    with style():
        figure, plots = new_figure(11.0, 4.4, caption)
        left, right = plots.subplots(1, 2, width_ratios=(1.15, 1))
        _draw_tradeoffs(left, numbers, n)
        _draw_effective(right, effective.curve)
        plots.legend(*left.get_legend_handles_labels(), loc="outside lower left", ncols=5)
        thin_labels(left)
        both = pd.concat([numbers.assign(panel="left"), effective.curve.assign(panel="right")])
        return save(figure, "f5", caption, both, out_dir)


def _draw_tradeoffs(axes: Axes, numbers: pd.DataFrame, n: int) -> None:
    for parameter, colour, name in (("alpha", BLUE, "EI$^\\alpha$"), ("lam", RED, "CEI")):
        family = numbers[numbers[parameter].notna()]
        for statistic in ("mean", "median"):
            rows = family[family["statistic"] == statistic]
            plot(axes, rows, colour, name)
            if statistic == "mean":
                label_points(axes, rows, parameter, colour, above=parameter == "lam")
    plot_cool(axes, numbers)
    finish(axes, n)
    axes.set_title("CEI beside EI$^\\alpha$ (numbers: $\\lambda$, $\\alpha$)", fontsize=10)


def _draw_effective(axes: Axes, curve: pd.DataFrame) -> None:
    curve = curve[curve["value"].notna()]
    lams = sorted(curve["lam"].unique())
    ends = []
    for lam, colour in zip(lams, sequence(len(lams)), strict=True):
        rows = curve[curve["lam"] == lam]
        axes.plot(rows["iteration"], rows["value"], color=colour, linewidth=1.3)
        axes.plot(rows["iteration"], rows["median"], ":", color=colour, linewidth=0.8)
        axes.fill_between(rows["iteration"], rows["low"], rows["high"], color=colour, alpha=0.15, linewidth=0)
        ends.append(rows["value"].iloc[-1])
    axes.set_yscale("symlog", linthresh=1.0)  # near-equal costs make single alphas of hundreds
    axes.set_ylim(0.0, max(1.0, axes.get_ylim()[1]))
    axes.axhline(1.0, color="0.6", linewidth=0.8, zorder=0)
    points = np.column_stack([np.ones(len(ends)), ends])
    heights = axes.transLimits.transform(axes.transScale.transform(points))[:, 1]
    for lam, colour, y in zip(lams, sequence(len(lams)), spread(heights, 1 / 24), strict=True):
        axes.annotate(f"$\\lambda$ = {lam:g}", (1.0, y), xycoords="axes fraction", xytext=(4, 0),
                      textcoords="offset points", fontsize=7.5, color=colour, va="center")  # fmt: skip
    axes.set_xlabel("iteration (initial design included)")
    axes.set_ylabel("effective $\\alpha$ of CEI (log scale above 1)")
    axes.set_title("the $\\alpha$ that CEI amounts to", fontsize=10)


def _caption(traces: Traces, pairs: Relative, numbers: pd.DataFrame, effective: Effective, n: int, short: int) -> str:
    return sentence(
        f"F5. Left: total cost and best {traces.judge} error of {n} iterations of CEI over lambda and of",
        f"EI^alpha{and_of_cool(numbers)}, in percent of EI's on the same problem and seed (EI = 100), mean and",
        f"median over {scope(pairs.table, traces.evaluator)}, {span(numbers['n'], 'pair')}.",
        pairs_left_out(pairs, short, n),
        "Right: mean (lines) and median (thin, dotted) over problems and seeds of the least alpha with which EI^alpha",
        "would have made CEI's choice; where costs are nearly equal that alpha can be in the hundreds, and a single",
        "such choice drives the mean, but not the median.",
        unsupported_sentence(effective),
        f"Bars and bands: {intervals(pairs.table)}",
        THINNED,
        footnote(pairs.table["dataset"]),
    )

"""F3 and F5: cost and error relative to EI, of EI^alpha and of contextual EI, and the alpha that this amounts to."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

from analysis.captions import footnote, intervals, pairs_left_out, scope, sentence, span
from analysis.plotting import BLUE, GREEN, RED, Drawn, drawn_from, new_figure, save, sequence, spread, style
from analysis.selection import and_cool, at_horizon, horizon, of_families
from analysis.statistics import Scheme, bootstrap
from analysis.traces import CELL, EI, EICOOL, Traces, ordered, require
from analysis.tradeoffs import MEASURES, Relative, relative_to_ei, tradeoff
from datasets.errors import BadInput

# The alpha that CEI amounts to, iteration by iteration (STUDY: F5, right half).


@dataclass(frozen=True)
class Effective:
    """curve: method, lam, iteration (1-based), value (mean effective alpha), low, high, n (runs), median,
    unsupported (share).

    unsupported: the share of the proposed points for which no alpha exists, over all and by lambda; they are
    left out of the mean.
    """

    curve: pd.DataFrame
    unsupported: float
    by_lambda: pd.Series


def effective_alpha(traces: Traces, scheme: Scheme | None = None) -> Effective:
    """Average the effective alpha over runs, for every method and iteration with at least one proposal.

    Points of the initial design were not proposed and do not count, nor do alphas that are not finite.
    """
    runs, supported = traces.runs, np.isfinite(traces.effective_alpha) & traces.proposed
    alpha = np.where(supported, traces.effective_alpha, np.nan)
    axis = runs.drop_duplicates("method").set_index("method")["lam"]
    parts = []
    for method in ordered(runs):
        rows = np.flatnonzero(runs["method"] == method)
        steps = np.flatnonzero(traces.proposed[rows].any(axis=0))
        values = pd.DataFrame(alpha[np.ix_(rows, steps)], index=pd.MultiIndex.from_frame(runs.loc[rows, CELL]))
        mean = bootstrap(values, "mean", scheme)
        part = mean.assign(method=method, lam=axis[method], iteration=steps + 1)
        proposed = traces.proposed[np.ix_(rows, steps)].sum(axis=0)
        parts.append(part.assign(median=values.median().to_numpy(), unsupported=1 - part["n"] / proposed))
    columns = ["method", "lam", "iteration", "value", "low", "high", "n", "median", "unsupported"]
    counts = pd.DataFrame({"proposed": traces.proposed.sum(axis=1), "supported": supported.sum(axis=1)})
    by_lambda = counts.groupby(runs["lam"]).sum()
    total = by_lambda.sum()
    return Effective(
        pd.concat(parts, ignore_index=True)[columns],
        float(1 - total["supported"] / total["proposed"]) if total["proposed"] else 0.0,
        1 - by_lambda["supported"] / by_lambda["proposed"],
    )


def unsupported_sentence(effective: Effective) -> str:
    """Return the sentence on the choices that no alpha would make, over all and by lambda."""
    shares = [f"{share:.0%} at {lam:g}" for lam, share in effective.by_lambda.dropna().items()]
    return (
        f"Left out are the {effective.unsupported:.1%} of CEI's choices that lie on no supported part of the "
        f"EI-cost front, which no alpha would make (by lambda: {', '.join(shares) or 'none proposed'})."
    )


# Labels beside the points of a curve, placed so that they can be read.

THINNED = (
    "Labels that would lie on one another or on a marker are left out; the CSV beside the figure has every number."
)
_PLACES = (((4, 4), "left"), ((-4, -10), "right"), ((-4, 4), "right"), ((4, -10), "left"))
"""Offsets in points, and the side that is aligned: above and right, below and left, above and left, below and right."""
_HALO = 1.8  # points


def label_points(axes: Axes, rows: pd.DataFrame, parameter: str, colour: str, above: bool) -> None:
    """Write the parameter's value beside each point, above and to the right or below and to the left."""
    offset, side = _PLACES[0] if above else _PLACES[1]
    for x, y, value in rows[["cost_pct", "error_pct", parameter]].itertuples(index=False):
        text = axes.annotate(f"{value:g}", (x, y), xytext=offset, textcoords="offset points", ha=side, fontsize=7)
        text.set(color=colour, zorder=6, path_effects=[withStroke(linewidth=_HALO, foreground="white")])


def thin_labels(axes: Axes) -> None:
    """Move labels off one another and off markers, to another side of their point; hide those that find no place.

    Of two, the one farther from EI's point goes first. The figure's layout has to be what is saved: call it last.
    """
    axes.figure.canvas.draw()
    taken = markers(axes)
    labels = [text for text in axes.texts if isinstance(text, Annotation)]
    for label in sorted(labels, key=lambda t: -float(np.abs(np.array(t.xy) - 100.0).sum())):
        box = _place(label, taken)
        label.set_visible(box is not None)
        if box is not None:
            taken.append(box)


def markers(axes: Axes) -> list[Bbox]:
    """Return the boxes, in pixels, of all markers of the curves."""
    found = []
    for line in axes.lines:
        if line.get_marker() not in ("None", None, "", " "):
            half = line.get_markersize() * axes.figure.dpi / 72 / 2
            points = line.get_transform().transform(np.asarray(line.get_xydata(), dtype=float))
            found += [Bbox.from_extents(x - half, y - half, x + half, y + half) for x, y in points]
    return found


def _place(label: Annotation, taken: Sequence[Bbox]) -> Bbox | None:
    """Put the label where it lies on nothing that is taken, its own place first; return its box, None without one."""
    own = (label.xyann, label.get_horizontalalignment())
    moved = _PLACES if label.anncoords == "offset points" else ()
    for offset, side in (own, *moved):
        label.xyann = offset
        label.set_horizontalalignment(side)
        box = label.get_window_extent()
        if not any(box.overlaps(other) for other in taken):
            return box
    return None


# F3: bi-optimization of EI^alpha, cost against error relative to EI (STUDY: F3).


@drawn_from("traces")
def f3(traces: Traces, out_dir: Path) -> Drawn:
    """Draw F3: mean (circles) and median (crosses) per alpha, with 95 % intervals in both directions.

    Raises BadInput without runs of `ei`.
    """
    require(traces.runs, EI, "F3")
    n = horizon(traces)
    equal, short = at_horizon(and_cool(traces, n, "alpha"), n)
    pairs = relative_to_ei(equal, "F3")
    numbers = tradeoff(pairs, ordered(pairs.table))
    caption = _caption_f3(traces, pairs, numbers, n, short)
    with style():
        figure, plots = new_figure(6.4, 4.4, caption)
        axes = plots.subplots()
        for statistic, colour in (("mean", BLUE), ("median", RED)):
            rows = numbers[(numbers["statistic"] == statistic) & numbers["alpha"].notna()]
            plot(axes, rows, colour, "EI$^\\alpha$")
            label_points(axes, rows, "alpha", colour, above=statistic == "mean")
        plot_cool(axes, numbers)
        finish(axes, n)
        axes.set_title("EI$^\\alpha$: cost saved against error lost (numbers: $\\alpha$)", fontsize=10)
        plots.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)
        thin_labels(axes)
        return save(figure, "f3", caption, numbers, out_dir)


def _caption_f3(traces: Traces, pairs: Relative, numbers: pd.DataFrame, n: int, short: int) -> str:
    return sentence(
        f"F3. Total cost and best {traces.judge} error of {n} iterations of EI^alpha{and_of_cool(numbers)}, in percent",
        "of EI's on the same problem and seed (EI = 100), mean and median over",
        f"{scope(pairs.table, traces.evaluator)}, {span(numbers['n'], 'pair')}.",
        f"Bars: {intervals(pairs.table)}",
        THINNED,
        pairs_left_out(pairs, short, n),
        footnote(pairs.table["dataset"]),
    )


# F5: contextual EI, its bi-optimization beside EI^alpha's, and the alpha it amounts to (STUDY: F5).


@drawn_from("traces")
def f5(traces: Traces, out_dir: Path) -> Drawn:
    """Draw F5, left: CEI over lambda beside EI^alpha; right: CEI's mean and median effective alpha per iteration.

    Raises BadInput without runs of `ei`, or of `cei`.
    """
    require(traces.runs, EI, "F5")
    n = horizon(traces)
    equal, short = at_horizon(and_cool(traces, n, "alpha", "lam"), n)
    if equal.runs["lam"].isna().all():
        raise BadInput(f"F5 needs a method cei of {n} iterations: the records hold {', '.join(ordered(equal.runs))}")
    pairs = relative_to_ei(equal, "F5")
    if pairs.table["lam"].isna().all():
        raise BadInput("F5: no run of cei can be compared with EI's on the same problem and seed")
    numbers = tradeoff(pairs, ordered(pairs.table))
    effective = effective_alpha(of_families(equal, "lam"))
    caption = _caption_f5(traces, pairs, numbers, effective, n, short)
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


def _caption_f5(
    traces: Traces, pairs: Relative, numbers: pd.DataFrame, effective: Effective, n: int, short: int
) -> str:
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

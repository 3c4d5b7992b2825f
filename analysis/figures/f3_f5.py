"""F3 and F5: cost and error relative to EI, of EI^alpha and of contextual EI, and the alpha that this amounts to."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.text import Text

from analysis.captions import footnote, intervals, pairs_left_out, scope, sentence, span
from analysis.plotting import BLUE, GREEN, RED, Drawn, drawn_from, new_figure, place_labels, save, sequence, style
from analysis.selection import and_cool, at_horizon, horizon, of_families
from analysis.statistics import bootstrap
from analysis.traces import CELL, EI, EICOOL, Traces, ordered, require
from analysis.tradeoffs import MEASURES, relative_to_ei, tradeoff
from datasets.errors import BadInput

# What F3, F5 and F9 share: curves of relative cost and error with intervals, and labels beside their points.

THINNED = "Labels that find no room are left out; the CSV beside the figure has every number."
_HALO = [withStroke(linewidth=1.8, foreground="white")]  # parts letters from lines


def plot(axes: Axes, rows: pd.DataFrame, colour: str, label: str) -> None:
    """Draw one curve with intervals in both directions: circles for the mean, crosses for the median."""
    statistic = str(rows["statistic"].iloc[0])
    marker, size, line = ("o", 5.0, "-") if statistic == "mean" else ("x", 5.5, "--")
    x, y, across, along = _with_arms(rows)
    axes.errorbar(x, y, xerr=across, yerr=along, fmt="none", ecolor=colour, alpha=0.35, elinewidth=0.9)
    axes.plot(x, y, color=colour, linewidth=1.1, linestyle=line, marker=marker, markersize=size,
              label=f"{label}, {statistic}")  # fmt: skip


def plot_cool(axes: Axes, numbers: pd.DataFrame) -> None:
    """Draw EI-cool's mean as a diamond, with its intervals, where it is among the methods."""
    rows = numbers[(numbers["method"] == EICOOL) & (numbers["statistic"] == "mean")]
    if len(rows):
        x, y, across, along = _with_arms(rows)
        axes.errorbar(x, y, xerr=across, yerr=along, fmt="D", color=GREEN, markersize=5.5, elinewidth=0.9,
                      label="EI-cool, mean")  # fmt: skip


def _with_arms(rows: pd.DataFrame) -> list[np.ndarray]:
    """Return cost, error, and their intervals as two arms; an arm is 0 where an interval misses its own point."""
    values, arms = [], []
    for measure in MEASURES:
        value, low, high = (rows[c].to_numpy() for c in (measure, f"{measure}_low", f"{measure}_high"))
        values.append(value)
        arms.append(np.maximum([value - low, high - value], 0.0))
    return [*values, *arms]


def label_points(axes: Axes, rows: pd.DataFrame, parameter: str, colour: str) -> list[Text]:
    """Write the parameter's value at each point, for `place_labels` to move."""
    return [
        axes.text(x, y, f"{value:g}", fontsize=7, color=colour, zorder=6, path_effects=_HALO)
        for x, y, value in rows[[*MEASURES, parameter]].itertuples(index=False)
    ]


def finish(axes: Axes, n: int) -> None:
    """Name the axes and draw the lines through EI's own point."""
    axes.axhline(100, color="0.6", linewidth=0.8, zorder=0)
    axes.axvline(100, color="0.6", linewidth=0.8, zorder=0)
    axes.set_xlabel(f"total cost of {n} iterations (% of EI's)")
    axes.set_ylabel(f"best error after {n} iterations (% of EI's)")


def _and_of_cool(numbers: pd.DataFrame) -> str:
    """Return the words for EI-cool beside another family; "" where it has no runs."""
    return " and of EI-cool, by the share of iterations left" if EICOOL in set(numbers["method"]) else ""


# F3: bi-optimization of EI^alpha, cost against error relative to EI (STUDY: F3).


@drawn_from("traces", "EI^alpha: cost saved against error lost")
def f3(traces: Traces, out_dir: Path) -> Drawn:
    """Draw F3: mean (circles) and median (crosses) per alpha, with 95 % intervals in both directions.

    Raises BadInput without runs of `ei`.
    """
    require(traces.runs, EI, "F3")
    n = horizon(traces)
    equal, short = at_horizon(and_cool(traces, n, "alpha"), n)
    pairs = relative_to_ei(equal, "F3")
    numbers = tradeoff(pairs, ordered(pairs.table))
    caption = sentence(
        f"F3. Total cost and best {traces.judge} error of {n} iterations of EI^alpha{_and_of_cool(numbers)}, in",
        "percent of EI's on the same problem and seed (EI = 100), mean and median over",
        f"{scope(pairs.table, traces.evaluator)}, {span(numbers['n'], 'pair')}.",
        f"Bars: {intervals(pairs.table)}",
        THINNED,
        pairs_left_out(pairs, short, n),
        footnote(pairs.table["dataset"]),
    )
    with style():
        figure, plots = new_figure(6.4, 4.4, caption)
        axes, labels = plots.subplots(), list[Text]()
        for statistic, colour in (("mean", BLUE), ("median", RED)):
            rows = numbers[(numbers["statistic"] == statistic) & numbers["alpha"].notna()]
            plot(axes, rows, colour, "EI$^\\alpha$")
            labels += label_points(axes, rows, "alpha", colour)
        plot_cool(axes, numbers)
        finish(axes, n)
        axes.set_title("EI$^\\alpha$: cost saved against error lost (numbers: $\\alpha$)", fontsize=10)
        plots.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)
        place_labels(axes, labels)
        return save(figure, "f3", caption, numbers, out_dir)


# F5: contextual EI, its bi-optimization beside EI^alpha's, and the alpha it amounts to (STUDY: F5).


_RESAMPLES = 400  # of each of hundreds of medians


def effective_alpha(traces: Traces) -> tuple[pd.DataFrame, str]:
    """Return the median over runs of the alpha that CEI amounts to, for every method and iteration with a proposal.

    Points of the initial design were not proposed and do not count. Those for which no alpha exists are left out of the
    median. Returns method, lam, iteration (1-based), value (median of the least alpha that makes the choice), low,
    high, n (runs), mean, upper (median of the largest such alpha; NaN where that is not recorded), unsupported (the
    share left out), and the sentence on that share, over all and by lambda.
    """
    runs, supported = traces.runs, np.isfinite(traces.effective_alpha) & traces.proposed
    alpha = np.where(supported, traces.effective_alpha, np.nan)
    largest = np.where(supported, traces.effective_alpha_high, np.nan)
    parts = []
    for method in ordered(runs):
        rows = np.flatnonzero(runs["method"] == method)
        steps = np.flatnonzero(traces.proposed[rows].any(axis=0))
        index = pd.MultiIndex.from_frame(runs.loc[rows, CELL])
        values, upper = (pd.DataFrame(ends[np.ix_(rows, steps)], index=index) for ends in (alpha, largest))
        part = bootstrap(values, "median", resamples=_RESAMPLES)
        part = part.assign(method=method, lam=runs.loc[rows[0], "lam"], iteration=steps + 1)
        proposed = traces.proposed[np.ix_(rows, steps)].sum(axis=0)
        part = part.assign(mean=values.mean().to_numpy(), upper=upper.median().to_numpy())
        parts.append(part.assign(unsupported=1 - part["n"] / proposed))
    columns = ["method", "lam", "iteration", "value", "low", "high", "n", "mean", "upper", "unsupported"]
    counts = pd.DataFrame({"proposed": traces.proposed.sum(axis=1), "supported": supported.sum(axis=1)})
    counts = counts.groupby(runs["lam"]).sum()
    by_lambda = (1 - counts["supported"] / counts["proposed"]).dropna()
    overall = 1 - counts["supported"].sum() / max(counts["proposed"].sum(), 1) if len(by_lambda) else 0.0
    shares = ", ".join(f"{share:.0%} at {lam:g}" for lam, share in by_lambda.items()) or "none proposed"
    left_out = (
        f"Left out are the {overall:.1%} of CEI's choices that lie on no supported part of the EI-cost front, which no "
        f"alpha would make (by lambda: {shares})."
    )
    return pd.concat(parts, ignore_index=True)[columns], left_out


@drawn_from("traces", "Contextual EI beside EI^alpha, and the alpha it amounts to")
def f5(traces: Traces, out_dir: Path) -> Drawn:
    """Draw F5, left: CEI over lambda beside EI^alpha; right: the median alpha that CEI amounts to, per iteration.

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
    curve, unsupported = effective_alpha(of_families(equal, "lam"))
    caption = sentence(
        f"F5. Left: total cost and best {traces.judge} error of {n} iterations of CEI over lambda and of",
        f"EI^alpha{_and_of_cool(numbers)}, in percent of EI's on the same problem and seed (EI = 100), mean and",
        f"median over {scope(pairs.table, traces.evaluator)}, {span(numbers['n'], 'pair')}.",
        pairs_left_out(pairs, short, n),
        "Right: median over problems and seeds of the least alpha with which EI^alpha would have made CEI's choice",
        f"(lines){', and of the largest (thin, dotted)' if curve['upper'].notna().any() else ''}; where costs are",
        "nearly equal it can be in the hundreds, which drives a mean but no median.",
        unsupported,
        f"Bars and bands: {intervals(pairs.table)}",
        THINNED,
        footnote(pairs.table["dataset"]),
    )
    with style():
        figure, plots = new_figure(11.0, 4.4, caption)
        left, right = plots.subplots(1, 2, width_ratios=(1.15, 1))
        labels = _draw_tradeoffs(left, numbers, n)
        _draw_effective(right, curve)
        plots.legend(*left.get_legend_handles_labels(), loc="outside lower left", ncols=5)
        place_labels(left, labels)
        both = pd.concat([numbers.assign(panel="left"), curve.assign(panel="right")])
        return save(figure, "f5", caption, both, out_dir)


def _draw_tradeoffs(axes: Axes, numbers: pd.DataFrame, n: int) -> list[Text]:
    labels = list[Text]()
    for parameter, colour, name in (("alpha", BLUE, "EI$^\\alpha$"), ("lam", RED, "CEI")):
        for statistic in ("mean", "median"):
            rows = numbers[numbers[parameter].notna() & (numbers["statistic"] == statistic)]
            plot(axes, rows, colour, name)
            labels += label_points(axes, rows, parameter, colour) if statistic == "mean" else []
    plot_cool(axes, numbers)
    finish(axes, n)
    axes.set_title("CEI beside EI$^\\alpha$ (numbers: $\\lambda$, $\\alpha$)", fontsize=10)
    return labels


def _draw_effective(axes: Axes, curve: pd.DataFrame) -> None:
    curve = curve[curve["value"].notna()]
    lams = sorted(curve["lam"].unique())
    for lam, colour in zip(lams, sequence(len(lams)), strict=True):
        rows = curve[curve["lam"] == lam]
        axes.plot(rows["iteration"], rows["value"], color=colour, linewidth=1.3, label=f"$\\lambda$ = {lam:g}")
        axes.plot(rows["iteration"], rows["upper"], ":", color=colour, linewidth=0.8)
        axes.fill_between(rows["iteration"], rows["low"], rows["high"], color=colour, alpha=0.15, linewidth=0)
    axes.set_yscale("symlog", linthresh=1.0)  # near-equal costs make single alphas of hundreds
    axes.set_ylim(0.0, max(1.0, axes.get_ylim()[1]))
    axes.axhline(1.0, color="0.6", linewidth=0.8, zorder=0)
    if lams:
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=7.5, handlelength=1.0, reverse=True)
    axes.set_xlabel("iteration (initial design included)")
    axes.set_ylabel("median effective $\\alpha$ of CEI (log scale above 1)")
    axes.set_title("the $\\alpha$ that CEI amounts to", fontsize=10)

"""F3 and F5: cost and error relative to EI, of EI^alpha and of contextual EI, and the alpha that this amounts to."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.text import Text

from analysis.captions import OF_SUMS, footnote, intervals, pairs_left_out, scope, sentence, span
from analysis.equal_cost import PRICED, PRICES, priced
from analysis.evaluations import CELL
from analysis.methods import EI, EICOOL, by_method, name_in_figures, ordered, require
from analysis.plotting import (
    BLACK,
    FAMILY_COLOURS,
    Drawn,
    colour_of,
    drawn_from,
    label_ends,
    lay_out,
    new_figure,
    place_labels,
    save,
    stacked,
    style,
)
from analysis.selection import at_horizon, horizon, select_families, select_families_and_rivals
from analysis.statistics import with_intervals
from analysis.traces import Traces
from analysis.tradeoffs import (
    EI_STOPPED,
    MEASURES,
    STATISTICS,
    Relative,
    finals,
    relative_to_ei,
    stopped_early,
    tenths,
    tradeoff,
)
from datasets.errors import BadInput

# What F3, F5 and F9 share: curves of relative cost and error with intervals, and labels beside their points.

THINNED = "Thin lines lead from labels to their points."
CLIPPED = "Points of EI stopped early that lie beyond the other methods' are cut off, and so are wide intervals."
_HALO = [withStroke(linewidth=1.8, foreground="white")]  # parts letters from lines


def plot(axes: Axes, rows: pd.DataFrame, colour: str, label: str) -> None:
    """Draw one curve with intervals in both directions: circles for the mean, crosses for the median."""
    statistic = str(rows["statistic"].iloc[0])
    marker, size, line = ("o", 5.0, "-") if statistic == "mean" else ("x", 5.5, "--")
    x, y, across, along = _with_arms(rows)
    axes.errorbar(x, y, xerr=across, yerr=along, fmt="none", ecolor=colour, alpha=0.35, elinewidth=0.9)
    axes.plot(x, y, color=colour, linewidth=1.1, linestyle=line, marker=marker, markersize=size,
              label=f"{label}, {statistic}")  # fmt: skip


def _plot_rivals(axes: Axes, numbers: pd.DataFrame, curves: tuple[str, ...] = (EI_STOPPED, PRICED)) -> list[Text]:
    """Draw the means of the methods on neither axis: EI stopped early as `curves`, the others as points with intervals.

    The axes keep the limits that the curves gave them, and the rivals within them; returns EI-n's labels.
    """
    rows = numbers[(numbers["statistic"] == "mean") & numbers[["alpha", "lam"]].isna().all(axis=1)]
    cut, labels = rows["acq"].isin(_CURVES), list[Text]()
    for k, (_, own) in enumerate(rows[~cut].groupby("method", sort=True)):
        x, y, across, along = _with_arms(own)
        axes.errorbar(x, y, xerr=across, yerr=along, fmt=_MARKS[k % len(_MARKS)], markersize=5.5, elinewidth=0.9,
                      color=colour_of(own["method"].iloc[0]), ecolor=(colour_of(own["method"].iloc[0]), 0.45),
                      label=f"{name_in_figures(own['method'].iloc[0])}, mean")  # fmt: skip
    limits = axes.axis()
    for acq in curves:
        line, name = _CURVES[acq]
        own = rows[rows["acq"] == acq].sort_values("cost_pct")
        if len(own):
            axes.plot(own["cost_pct"], own["error_pct"], line, color=BLACK, linewidth=0.8, markersize=2.6, label=name)
        if acq == EI_STOPPED:
            inside = own[own["error_pct"].between(*limits[2:]) & own["cost_pct"].between(*limits[:2])]
            inside = inside.assign(n=inside["method"].str.extract(r"(\d+)$", expand=False).astype(int))
            labels += label_points(axes, inside[(inside["n"] // 10) % 2 == 0], "n", BLACK, "n = ")
    axes.axis(limits)
    return labels


_MARKS = "DsPv^X"
_CURVES = {  # EI stopped early: line and name
    EI_STOPPED: ("o-", "EI after n evaluations, mean"),
    PRICED: ("+:", "EI stopped at a price, mean"),
}


def _beside(equal: Traces, n: int) -> pd.DataFrame:
    """Return the `finals` of EI's runs stopped early: after tenths of n evaluations, and to each of `PRICES`."""
    ei = equal.select((equal.runs["method"] == EI).to_numpy())
    design = int(ei.proposed.argmax(axis=1).max())
    lengths = [length for length in tenths(n) if length > design]
    found = [stopped_early(equal, EI, lengths)] if lengths else []
    if np.isfinite(ei.log_ei).any():
        for price, stop in zip(PRICES, priced(ei, PRICES).T, strict=True):
            ended = finals(ei, stop)
            found.append(ended.assign(method=f"price={price:g}", acq=PRICED, alpha=np.nan, lam=np.nan))
    return pd.concat(found, ignore_index=True) if found else finals(ei).iloc[:0]


def _relative(traces: Traces, what: str, *axes: str) -> tuple[Traces, Relative, pd.DataFrame, int]:
    """Return runs after N iterations on the axes and off both, relative to EI, their numbers, and how many have none.

    EI stopped early is among the pairs and the numbers, not among the runs.
    """
    require(traces.runs, EI, what)
    n = horizon(traces)
    equal, short_ones = at_horizon(select_families_and_rivals(traces, n, *axes), n)
    pairs = relative_to_ei(equal, what, _beside(equal, n))
    numbers = tradeoff(pairs, ordered(pairs.table))
    acq = by_method(pairs.table)["acq"]
    return equal, pairs, numbers.assign(acq=numbers["method"].map(acq)), short_ones


def _rivals_named(numbers: pd.DataFrame) -> str:
    """Return the words for the methods on neither axis that are drawn; "" where there are none."""
    rows = numbers[numbers[["alpha", "lam"]].isna().all(axis=1)]
    own = [name_in_figures(method) for method in sorted(set(rows.loc[~rows["acq"].isin(_CURVES), "method"]))]
    stopped = {EI_STOPPED: "EI after n evaluations", PRICED: "EI stopped where no choice pays at a price"}
    own += [name for acq, name in stopped.items() if acq in set(rows["acq"])]
    cooled = " and ".join(name_in_figures(method) for method in (EICOOL, "carbo") if method in set(rows["method"]))
    cool = f" ({cooled} by the share of iterations left)" if cooled else ""
    return f" and, means only, of {', '.join(own)}{cool}" if own else ""


def _with_arms(rows: pd.DataFrame) -> list[np.ndarray]:
    """Return cost, error, and their intervals as two arms; an arm is 0 where an interval misses its own point."""
    values, arms = [], []
    for measure in MEASURES:
        value, low, high = (rows[c].to_numpy() for c in (measure, f"{measure}_low", f"{measure}_high"))
        values.append(value)
        arms.append(np.maximum([value - low, high - value], 0.0))
    return [*values, *arms]


def label_points(axes: Axes, rows: pd.DataFrame, parameter: str, colour: str, before: str = "") -> list[Text]:
    """Write the parameter's value at each point, for `place_labels` to move."""
    return [
        axes.text(x, y, f"{before}{value:g}", fontsize=7.5, color=colour, zorder=6, path_effects=_HALO)
        for x, y, value in rows[[*MEASURES, parameter]].itertuples(index=False)
    ]


def limit_axes(axes: Axes, rows: pd.DataFrame) -> None:
    """Limit the axes to the rows' points, and to their intervals as far as half of what the points span.

    A single wide interval would leave no room for the points, and their labels.
    """
    for measure, axis in zip(MEASURES, (axes.xaxis, axes.yaxis), strict=True):
        points = np.array([*rows[measure].dropna(), 100.0])
        ends = rows[[f"{measure}_low", f"{measure}_high"]].to_numpy(dtype=float)
        room = (points.max() - points.min()) / 2 or 1.0
        low = max(np.nanmin([points.min(), *ends[:, 0]]), points.min() - room)
        high = min(np.nanmax([points.max(), *ends[:, 1]]), points.max() + room)
        axis.set_view_interval(low - 0.06 * (high - low), high + 0.06 * (high - low), ignore=True)


def label_tradeoff(axes: Axes, n: int) -> None:
    """Name the axes and draw the lines through EI's own point."""
    axes.axhline(100, color="0.6", linewidth=0.8, zorder=0)
    axes.axvline(100, color="0.6", linewidth=0.8, zorder=0)
    axes.set_xlabel(f"total cost of {n} iterations (% of EI's)")
    axes.set_ylabel(f"best error after {n} iterations (% of EI's)")


# F3: bi-optimization of EI^alpha, cost against error relative to EI (STUDY: F3).


@drawn_from("traces", "EI^alpha: cost saved against error lost")
def f3(traces: Traces, out_dir: Path) -> Drawn:
    """Draw F3: mean (circles) and median (crosses) per alpha, with 95 % intervals in both directions.

    Raises BadInput without runs of `ei`.
    """
    _, pairs, numbers, lacking = _relative(traces, "F3", "alpha")
    n = horizon(traces)
    caption = sentence(
        f"F3. Total cost and best {traces.judge} error of {n} iterations of EI^alpha{_rivals_named(numbers)}, in",
        "percent of EI's on the same problem (EI = 100), mean and median over",
        f"{scope(pairs.table, traces.evaluator)}, {span(numbers['n'], 'pair')}.",
        OF_SUMS,
        f"Bars: {intervals(pairs.table)}",
        THINNED,
        CLIPPED,
        pairs_left_out(pairs, lacking, n),
        footnote(pairs.table["dataset"]),
    )
    with style():
        figure, plots = new_figure(7.2, 5.0, caption)
        axes, labels = plots.subplots(), list[Text]()
        for statistic in ("mean", "median"):
            rows = numbers[(numbers["statistic"] == statistic) & numbers["alpha"].notna()]
            plot(axes, rows, FAMILY_COLOURS["EI^alpha"], "EI$^\\alpha$")
            # EI, alpha = 0, is at (100, 100) by either statistic: one label does
            shown = rows if statistic == "mean" else rows[rows["alpha"] > 0]
            labels += label_points(axes, shown, "alpha", FAMILY_COLOURS["EI^alpha"])
        limit_axes(axes, numbers[~numbers["acq"].isin(_CURVES)])
        labels += _plot_rivals(axes, numbers)
        label_tradeoff(axes, n)
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
        part = with_intervals(values, "median", resamples=_RESAMPLES)
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


FEWEST_CHOICES = 10  # supported ones, from which the median of an iteration is drawn (of half of the runs, if fewer)


def enough(curve: pd.DataFrame, runs: pd.DataFrame) -> pd.Series:
    """Return which rows of `effective_alpha` are drawn: those of ten supported choices or more.

    Of methods with fewer than twenty runs, those of half of these.
    """
    fewest = (runs["method"].value_counts() / 2).apply(np.ceil).clip(upper=FEWEST_CHOICES)
    return curve["n"] >= curve["method"].map(fewest)


def _too_few(curve: pd.DataFrame) -> str:
    """Return the sentence on the iterations that are not drawn."""
    gone = (~curve["drawn"]).groupby(curve["lam"]).agg(["sum", "size"])
    said = ", ".join(f"{few} of {of} at {lam:g}" for lam, few, of in gone[gone["sum"] > 0].itertuples())
    return (
        f"Not drawn: iterations with fewer such choices than {FEWEST_CHOICES}, or than half of the runs ({said})."
        if said
        else ""
    )


@drawn_from("traces", "Contextual EI beside EI^alpha, and the alpha it amounts to")
def f5(traces: Traces, out_dir: Path) -> Drawn:
    """Draw F5, above: CEI over lambda beside EI^alpha, means and medians; below: the median alpha that CEI amounts to.

    Raises BadInput without runs of `ei`, or of `cei`.
    """
    equal, pairs, numbers, lacking = _relative(traces, "F5", "alpha", "lam")
    numbers = numbers[numbers["acq"] != PRICED]  # in F3 and in the figure of errors at equal cost
    n = horizon(traces)
    if equal.runs["lam"].isna().all():
        raise BadInput(f"F5 needs a method cei of {n} iterations: the records hold {', '.join(ordered(equal.runs))}")
    if pairs.table["lam"].isna().all():
        raise BadInput("F5: no run of cei can be compared with EI's on the same problem and seed")
    own = select_families(equal, "lam")
    curve, unsupported = effective_alpha(own)
    curve, dotted = curve.assign(drawn=enough(curve, own.runs)), "thin, dotted, cut off where it leaves the axis"
    caption = sentence(
        f"F5. Above: total cost and best {traces.judge} error of {n} iterations of CEI over lambda and of",
        f"EI^alpha{_rivals_named(numbers)}, in percent of EI's on the same problem (EI = 100), mean (left)",
        f"and median (right) over {scope(pairs.table, traces.evaluator)}, {span(numbers['n'], 'pair')}.",
        OF_SUMS,
        pairs_left_out(pairs, lacking, n),
        "Below: median over problems and seeds of the least alpha with which EI^alpha would have made CEI's choice",
        f"(lines){f', and of the largest ({dotted})' if curve['upper'].notna().any() else ''}; where costs are",
        "nearly equal it can be in the hundreds, which drives a mean but no median.",
        unsupported,
        _too_few(curve),
        f"Bars and bands: {intervals(pairs.table)}",
        THINNED,
        CLIPPED,
        footnote(pairs.table["dataset"]),
    )
    with style():
        figure, plots = new_figure(9.0, 7.6, caption)
        above, below = stacked(plots, 1.25, 1.0)
        panels = above.subplots(1, 2)
        labels = [_draw_tradeoffs(axes, numbers, n, what) for axes, what in zip(panels, STATISTICS, strict=True)]
        curves = below.subplots()
        ends = _draw_effective(curves, curve)
        above.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
        lay_out(figure)
        own_place = curves.get_position()
        curves.set_position((own_place.x0, own_place.y0, 0.8, own_place.height))  # labels stand on the right
        for axes, texts in zip(panels, labels, strict=True):
            place_labels(axes, texts)
        label_ends(curves, ends)
        both = pd.concat([numbers.assign(panel="above"), curve.assign(panel="below")])
        return save(figure, "f5", caption, both, out_dir)


def _draw_tradeoffs(axes: Axes, numbers: pd.DataFrame, n: int, statistic: str) -> list[Text]:
    """Draw both families' curves by one statistic; with the means stand the rivals."""
    labels = list[Text]()
    for parameter, colour, name in (("alpha", FAMILY_COLOURS["EI^alpha"], "EI$^\\alpha$"),
                                    ("lam", FAMILY_COLOURS["CEI"], "CEI")):  # fmt: skip
        rows = numbers[numbers[parameter].notna() & (numbers["statistic"] == statistic)]
        plot(axes, rows, colour, name)
        labels += label_points(axes, rows, parameter, colour)
    drawn = numbers[(numbers["statistic"] == statistic) & ~numbers["acq"].isin(_CURVES)]
    limit_axes(axes, drawn if statistic == "mean" else drawn[drawn[["alpha", "lam"]].notna().any(axis=1)])
    labels += _plot_rivals(axes, numbers, (EI_STOPPED,)) if statistic == "mean" else []
    label_tradeoff(axes, n)
    axes.set_title(f"{statistic}s (numbers: $\\lambda$ of CEI, $\\alpha$)", fontsize=10)
    return labels


def _draw_effective(axes: Axes, curve: pd.DataFrame) -> list[tuple[float, float, str, str]]:
    """Draw a line and its band per lambda where `drawn`; return the lines' ends (x, y, label, colour)."""
    curve, ends = curve[curve["value"].notna()], []
    for lam in sorted(curve.loc[curve["drawn"], "lam"].unique()):
        rows = curve[curve["lam"] == lam]
        rows = rows.set_index("iteration").reindex(range(rows["iteration"].min(), rows["iteration"].max() + 1))
        # an iteration that is left out parts the line
        value, upper, low, high = (
            rows[name].where(rows["drawn"].eq(True)) for name in ("value", "upper", "low", "high")
        )
        colour = colour_of(f"cei(lam={lam:g})")
        axes.plot(rows.index, value, color=colour, linewidth=1.4, marker=".", markersize=2.5)  # lone points, too
        axes.plot(rows.index, upper, ":", color=colour, linewidth=0.8)
        axes.fill_between(rows.index, low, high, color=colour, alpha=0.15, linewidth=0)
        last = value.last_valid_index()
        ends.append((float(last), float(value[last]), f"$\\lambda$ = {lam:g}", colour))
    axes.set_yscale("symlog", linthresh=1.0)  # near-equal costs make single alphas of hundreds
    shown = curve.loc[curve["drawn"], ["value", "high"]].to_numpy(float)
    top = max([1.0, *1.2 * shown[np.isfinite(shown)]])
    decades = [step * 10.0**power for power in range(9) for step in (1, 2, 5)]
    ticks = [tick for tick in (0, 0.25, 0.5, 0.75, *decades) if tick <= top]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_ylim(0.0, top)
    axes.axhline(1.0, color="0.6", linewidth=0.8, zorder=0)
    if len(curve):
        axes.set_xlim(right=curve["iteration"].max() + 1)
    axes.set_xlabel("iteration (initial design included)")
    axes.set_ylabel("median effective $\\alpha$\nof CEI (log above 1)")
    axes.set_title("the $\\alpha$ that CEI amounts to", fontsize=10)
    return ends

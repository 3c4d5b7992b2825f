"""Errors at equal cost by family of methods, as figure and tables; also what the same money buys from EI cut short."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.captions import footnote, format_interval, left_out, markdown_table, plural, scope, sentence, write_page
from analysis.equal_cost import (
    AFTER,
    BUDGETS,
    EI_N,
    ERROR,
    HELD_OUT,
    MEAN,
    MEDIAN,
    NOT_FLAT,
    PRICED,
    REGRET,
    RULES,
    SPENT,
    WHOLE,
    EqualCost,
    at_equal_cost,
    pair_runs,
)
from analysis.methods import name_in_figures, name_in_text
from analysis.plotting import Drawn, colour_of, drawn_from, new_figure, save, style
from analysis.selection import LEAST_SPENT, sentence_on_sparse_methods
from analysis.traces import Traces
from tabular_cache.card import FLAT

_STEP = 5.0  # percent of EI's cost between two points of a curve
_LINES_FROM, _BANDS_FROM = 10.0, 20.0  # percent from which they set an axis' limits: before, errors can be anything
_WORDS = {ERROR: "best error (% of EI's final)", REGRET: "gap to the table's best\n(1: random search's at its end)"}
_OFF = {ERROR: "error minus EI-n's\n(points of EI's final, %)", REGRET: "that gap\nminus EI-n's"}
STATISTICS = (MEAN, HELD_OUT, NOT_FLAT, SPENT, MEDIAN)


@drawn_from("traces", "errors at equal cost, against EI stopped early")
def anytime(traces: Traces, out_dir: Path) -> Drawn:
    """Draw the figure `anytime`; raises BadInput without runs of EI (`analysis.equal_cost.pair_runs`)."""
    runs = pair_runs(traces)
    numbers = at_equal_cost(runs, sorted({*BUDGETS, *np.arange(_STEP, 100 + _STEP, _STEP)}))
    measures = list(runs.measures())
    caption = caption_of(runs, numbers)
    with style():
        figure, plots = new_figure(10.0, 0.5 + 2.9 * len(measures), caption)
        panels = plots.subplots(len(measures), 2, sharex=True, squeeze=False)
        for (left, right), measure in zip(panels, measures, strict=True):
            _draw(left, numbers, measure, "value")
            _draw(right, numbers, measure, "off")
        for axes, title in zip(panels[0], ("error at equal cost", "paired difference to EI-n"), strict=True):
            axes.set_title(title, fontsize=10)
        for axes in panels[-1]:
            axes.set_xlabel("cost spent (% of EI's on the same problem and seed)")
        handles, names = panels[0][0].get_legend_handles_labels()
        plots.legend(
            handles, names, loc="outside lower center", ncols=len(names) if len(names) <= 6 else -(-len(names) // 2)
        )
        return save(figure, "anytime", caption, numbers, out_dir)


def _draw(axes: Axes, numbers: pd.DataFrame, measure: str, column: str) -> None:
    """Draw a line with its band per family: the mean with one parameter for all; dotted: chosen on the others."""
    rows = numbers[(numbers["measure"] == measure)]
    low, high = ("low", "high") if column == "value" else ("off_low", "off_high")
    rules = rows["family"].isin(RULES)
    for k, (family, own) in enumerate(rows[~rules].groupby("family", sort=False)):
        colour, look = colour_of(str(family)), ("-", (0, (6, 1)), (0, (4, 1, 1, 1)), (0, (2, 1)))[k % 4]
        one, held = (own[own["statistic"] == statistic].sort_values("cost_pct") for statistic in (MEAN, HELD_OUT))
        axes.plot(one["cost_pct"], one[column], linestyle=look, color=colour, linewidth=1.5, label=_name(str(family)))
        axes.fill_between(one["cost_pct"], one[low], one[high], color=colour, alpha=0.12, linewidth=0)
        if family != EI_N:
            axes.plot(held["cost_pct"], held[column], ":", color=colour, linewidth=0.9)
    shown = rows[~rules & (rows["statistic"] == MEAN)]
    ends = [
        shown.loc[shown["cost_pct"] >= _LINES_FROM, [column]],
        shown.loc[shown["cost_pct"] >= _BANDS_FROM, [low, high]],
    ]
    limits = np.concatenate([part.to_numpy(float).ravel() for part in ends])
    if np.isfinite(limits).any():
        bottom, top = np.nanmin(limits), np.nanmax(limits)
        room = 0.05 * (top - bottom) or 1.0
        axes.set_ylim(bottom - room, top + room)
    axes.axhline(100 if (measure, column) == (ERROR, "value") else 0, color="0.6", linewidth=0.8, zorder=0)
    for family, marker in ((AFTER, "o"), (PRICED, "x")):  # last, when the limits are known: whole or not at all
        own = rows[(rows["family"] == family) & (rows["statistic"] == MEAN)]
        own = own[own[column].between(*axes.get_ylim())]
        axes.plot(*own[["cost_pct", column]].T.to_numpy(), marker, c="0.35", ms=4, label=_name(family), clip_on=False)
    axes.set_xlim(0, 102)
    axes.set_ylabel(_WORDS[measure] if column == "value" else _OFF[measure])


def _name(family: str) -> str:
    names = {"EI^alpha": "EI$^\\alpha$", AFTER: "EI after n evaluations", PRICED: "EI stopped at a price"}
    return names.get(family, name_in_figures(family))


def caption_of(runs: EqualCost, numbers: pd.DataFrame) -> str:
    """Return what was averaged, how parameters were chosen, and what was left out."""
    means = numbers[(numbers["measure"] == ERROR) & (numbers["statistic"] == MEAN)]
    fronts = means[~means["family"].isin(RULES)].groupby("cost_pct")[["n", "used_up", "datasets"]].first()
    gone = [f"{len(runs.cells) - n:,} ({cost:.0f} %)" for cost, n in fronts["n"].items() if n < len(runs.cells)]
    refused = [f"{cost:.0f}" for cost, used in fronts["used_up"].items() if used < LEAST_SPENT]
    datasets = int(fronts["datasets"].max())
    return sentence(
        f"Best {runs.traces.judge} error of each family of methods when so much is spent, in percent of what EI's",
        f"{runs.n} evaluations cost on the same problem and seed; what ends past the budget does not count.",
        f"{'Errors' if isinstance(runs.scale, str) else 'Upper'}: in percent of EI's after {runs.n}, its mean over",
        f"seeds. {_scale(runs)}",
        "Lines: of a family's parameters the one of the lowest mean at each budget, one choice for all problems, which",
        "flatters families with many; thin, dotted: for each data set what was chosen on the others. EI-n is EI cut at",
        "the budget, and EI is in no other family. Marks: EI stopped after the same number of evaluations on all",
        "problems, or before the first choice whose expected improvement is not worth its predicted cost at one price",
        "(which, and what lies outside a panel: in the CSV), at its mean cost (of sums over a problem's seeds), and",
        "beside EI cut at that cost.",
        f"Means over data sets of their means, over {scope(runs.cells, runs.traces.evaluator)}; bands: 95 % t",
        f"intervals over {plural(datasets, 'data set')}{', which one alone does not have' if datasets < 2 else ''}.",
        "Runs that ended before a budget was spent count with their last error"
        + (f"; more than {1 - LEAST_SPENT:.0%} of all runs, whatever their parameter, did so at {_spans(refused)} %."
           if refused else "."),
        left_out(
            (runs.absent, "problem-seed pair", "without runs of every method"),
            (runs.zero, "pair", "in which EI's error is 0"),
            (runs.failed, "pair", "in which all evaluations of EI failed"),
            (runs.short, "run", f"under {runs.n} iterations and EI's cost, or planned for another length or budget"),
        ),
        f"Pairs in which some method had no successful evaluation within a budget: {', '.join(gone)}." if gone else "",
        sentence_on_sparse_methods(runs.sparse).strip(),
        footnote(runs.cells["dataset"]),
    )  # fmt: skip


def _spans(budgets: list[str]) -> str:
    """Return e.g. ``15 to 100``: budgets that runs do not use up are the largest ones."""
    return budgets[0] if len(budgets) == 1 else f"{budgets[0]} to {budgets[-1]}"


def _scale(runs: EqualCost) -> str:
    """Return what the second measure is, or why it is not known, and which data sets are flat."""
    flat = (
        f"Flat data sets, on which {FLAT:.0%} or more of the random configurations of the initial designs have one and "
        f"the same error: {', '.join(runs.flat) or 'none'}."
    )
    if isinstance(runs.scale, str):
        return f"No share of what there was to gain: {runs.scale}. {flat}"
    no_room = int((runs.scale["random"] <= runs.scale["best"]).sum())
    changed = int(runs.scale["best"].isna().sum())
    apart = f"; {plural(no_room, 'problem')} without such a gap left out" if no_room else ""
    apart += f"; {plural(changed, 'problem')} left out whose tables have changed since" if changed else ""
    return (
        f"Lower: (error - b) / (r - b), b the best of the table and r the median of what {runs.n} evaluations of "
        f"random search find in it{apart}. {flat}"
    )


# The same numbers as Markdown, for the report and for anytime.md.


def tables(numbers: pd.DataFrame) -> list[tuple[str, list[str]]]:
    """Return (heading, Markdown) of the numbers of `at_equal_cost`: families, then stopping rules."""
    rules = numbers["family"].isin(RULES)
    found = []
    for measure in numbers["measure"].unique():
        own = numbers[~rules & (numbers["measure"] == measure) & numbers["cost_pct"].isin(BUDGETS)]
        lead = (
            f"EI-n: {_said(measure)}. The others: their paired difference to it at the same cost. 95 % t intervals "
            f"over data sets. A star: more than {1 - LEAST_SPENT:.0%} of the runs of the parameter chosen had ended "
            "before that was spent; beside EI at what was spent: with what each run itself had spent by then."
        )
        found.append((f"Families: {_heading(measure)}", [lead, markdown_table(_differences(own))]))
        if measure == ERROR:
            text = "The parameter of the lowest mean, one for all problems, and the share of problems that it wins."
            found.append(("Families: parameters chosen and problems won", [text, markdown_table(_choices(own))]))
    for measure in numbers["measure"].unique():
        own = numbers[rules & (numbers["measure"] == measure)]
        each = own["family"] == WHOLE
        lead = (
            f"One rule for all problems: {_said(measure)}, and the difference to EI cut in every problem and seed at "
            f"the rule's mean cost (a star: more than {1 - LEAST_SPENT:.0%} of EI's runs had ended before)."
        )
        price = (
            " A price is how many standard deviations of the errors so far an evaluation of the initial design's mean "
            "cost is worth."
        )
        if each.any():
            heading = f"Each method after all its evaluations: {_heading(measure)}"
            found.append((heading, [lead + _without(own[each]), markdown_table(_rules(own[each]))]))
        heading = f"EI stopped by rule: {_heading(measure)}"
        found.append((heading, [lead + price + _without(own[~each]), markdown_table(_rules(own[~each]))]))
    return found


def _without(own: pd.DataFrame) -> str:
    """Return the sentence on rules at whose cost EI, or which themselves, have no value yet in some pairs."""
    means = own[own["statistic"] == MEAN]
    fewer = means[means["n"] < means["n"].max()]
    said = ", ".join(f"{method} {n:,}" for method, n in zip(fewer["method"], fewer["n"], strict=True))
    return f" Of {means['n'].max():,} problem-seed pairs, these rules count those with a value: {said}." if said else ""


def _heading(measure: str) -> str:
    return {ERROR: "error in percent of EI's final", REGRET: "share of the gain still missing"}[measure]


def _said(measure: str) -> str:
    return {
        ERROR: "the error in percent of EI's final one, of means its mean over seeds",
        REGRET: "(error - best of the table) / (random search's error - best of the table)",
    }[measure]


def _digits(rows: pd.DataFrame) -> int:
    return 2 if (rows["measure"] == ERROR).all() else 3


def _differences(own: pd.DataFrame) -> pd.DataFrame:
    """Return a row per family and statistic, a column per budget."""
    rows, most = [], own.groupby("family")[["members", "ended"]].max()
    pointless = {HELD_OUT: most["members"] == 1, SPENT: most["ended"] == 0}  # the mean's numbers again
    for family in own["family"].unique():
        for statistic in STATISTICS:
            part = own[(own["family"] == family) & (own["statistic"] == statistic)].set_index("cost_pct")
            if len(part) and not (statistic in pointless and pointless[statistic][family]):
                named = {"family": name_in_text(family), "statistic": statistic}
                rows.append(named | _cells(part, "" if family == EI_N else "off_"))
    return pd.DataFrame(rows)


def _cells(part: pd.DataFrame, prefix: str) -> dict[str, str]:
    value = "off" if prefix else "value"
    return {
        f"{budget:.0f} %": _interval(row, value, prefix, _digits(part)) + _star(row) for budget, row in part.iterrows()
    }


def _star(row: pd.Series) -> str:
    return " *" if row["ended"] > 1 - LEAST_SPENT else ""


def _interval(row: pd.Series, value: str, prefix: str, digits: int) -> str:
    if np.isnan(row[f"{prefix}low"]):
        return "-" if np.isnan(row[value]) else f"{row[value]:.{digits}f}"
    return format_interval(row[value], row[f"{prefix}low"], row[f"{prefix}high"], digits)


def _choices(own: pd.DataFrame) -> pd.DataFrame:
    part = own[own["statistic"] == MEAN]
    text = part["method"].map(name_in_text)
    part = part.assign(text=text + ", " + part["won"].map("{:.0%}".format))
    table = part.pivot(index="family", columns="cost_pct", values="text").reindex(part["family"].unique())
    return table.rename(columns="{:.0f} %".format, index=name_in_text).reset_index()


def _rules(own: pd.DataFrame) -> pd.DataFrame:
    rows, digits = [], _digits(own)
    for method in own["method"].unique():
        parts = own[own["method"] == method].set_index("statistic")
        usual = parts.loc[MEAN]
        row = {
            "rule": name_in_text(str(method)),
            "mean cost (%)": f"{usual['cost_pct']:.1f}",
            "evaluations": f"{usual['evaluations']:.0f}",
        }
        for statistic in (MEAN, NOT_FLAT, MEDIAN):
            if statistic in parts.index:
                row[statistic] = _interval(parts.loc[statistic], "value", "", digits)
                off = _interval(parts.loc[statistic], "off", "off_", digits)
                row[f"{statistic}, minus EI's"] = off + _star(parts.loc[statistic])
        rows.append(row)
    return pd.DataFrame(rows)


def write(drawn: Drawn, out_dir: Path) -> Path:
    """Write anytime.md, the tables of a drawn figure's numbers under its caption; return the path."""
    parts = ["# Errors at equal cost", "![ANYTIME](anytime.png)", drawn.caption]
    for heading, text in tables(drawn.numbers):
        parts += [f"## {heading}", *text]
    return write_page(out_dir / "anytime.md", parts)

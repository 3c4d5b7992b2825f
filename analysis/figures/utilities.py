"""Utilities under cost rules, as figure U and as tables: cost and error, without and with the optimizer's time."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from analysis.captions import (
    MEANS_OF_SUMS,
    footnote,
    format_intervals,
    intervals,
    markdown_table,
    plural,
    scope,
    sentence,
    write_csv,
    write_page,
)
from analysis.evaluations import CELL
from analysis.methods import name_in_figures
from analysis.plotting import Drawn, new_figure, save, style
from analysis.utilities import (
    REFERENCE_METHOD,
    Complete,
    Runs,
    complete,
    ended_before,
    of_other_budgets,
    rank_means,
    relative,
    undefined,
    utilities_at_horizon,
    utility_ranks,
    with_deadlines,
)
from datasets.errors import BadInput

PALETTE = ("#000000", "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#7A5195", "#8C6D31", "#7F7F7F")
MARKERS = ("o", "s", "D", "^", "v", "P", "X")


Looks = dict[str, tuple[str, str]]
"""Colour (of the utility) and marker (of the rule) of every method, by its label."""


def draw_utilities(runs: Runs, out_dir: Path) -> Drawn:
    """Draw the figure `utilities`; raises BadInput where the runs do not suffice (`utilities.complete`)."""
    whole, n, _ = utilities_at_horizon(runs)
    found = complete(whole)
    methods = found.runs.table.drop_duplicates("label").set_index("label").loc[found.labels, ["utility", "rule"]]
    numbers = pd.concat([relative(found), utility_ranks(found)], ignore_index=True).merge(methods, on="label")
    cells, gone = _cells(found), ", ".join(sorted(found.missing))
    caption = sentence(
        f"Utilities (colour) under cost rules (marker). Left: training cost and best error after {n} evaluations, in",
        f"percent of EI's ({REFERENCE_METHOD}) on the same problem. Middle: the same with the optimizer's own",
        "time added to the training's, on the host that made the records. Right: mean rank of the best error at the",
        "end (filled), and within EI's training and thinking time, thinking counted (hollow). Means over",
        f"{scope(cells, found.runs.evaluator)}, {len(found.labels)} methods, {len(cells)} cells that have them all.",
        MEANS_OF_SUMS,
        "Thin lines join a utility's cost rules.",
        f"Left out, with fewer cells: {gone}." if gone else "",
        intervals(cells, medians=False),
        footnote(cells["dataset"]),
    )
    utilities, rules = (sorted(set(methods[kind]), key=lambda name: (name != "ei", name)) for kind in methods)
    colours = {name: PALETTE[k % len(PALETTE)] for k, name in enumerate(utilities)}
    markers = {name: MARKERS[k % len(MARKERS)] for k, name in enumerate(rules)}
    looks = {str(label): (colours[utility], markers[rule]) for label, utility, rule in methods.itertuples(name=None)}
    with style():
        figure, plots = new_figure(11.0, 5.4, caption)
        panels = plots.subplots(1, 3, width_ratios=(1.0, 1.0, 0.9))
        for axes, measure in zip(panels, ("cost", "both"), strict=False):
            _front(axes, numbers, measure, looks)
        panels[0].set(xlabel="training cost (% of EI's)", ylabel=f"best error after {n} evaluations (% of EI's)")
        panels[1].set(xlabel="training + thinking (% of EI's)")
        panels[1].sharey(panels[0])
        _ranks(panels[2], numbers, looks)
        names = {"ei": "no cost", "eipu": "per cost"}
        handles = [Line2D([], [], color=colour, label=name_in_figures(name)) for name, colour in colours.items()]
        handles += [
            Line2D([], [], color="0.3", marker=marker, linestyle="", label=names.get(name, name_in_figures(name)))
            for name, marker in markers.items()
        ]
        plots.legend(handles=handles, loc="outside lower center", ncols=7)
        return save(figure, "utilities", caption, numbers, out_dir)


def _cells(found: Complete) -> pd.DataFrame:
    return found.runs.table[CELL].drop_duplicates()


def _front(axes: Axes, numbers: pd.DataFrame, measure: str, looks: Looks) -> None:
    x, y = (numbers[numbers["measure"] == name].set_index("label") for name in (measure, "error"))
    for _, rows in x.groupby("utility"):
        rows = rows.sort_values("value")
        colour = looks[str(rows.index[0])][0]
        axes.plot(rows["value"], y.loc[rows.index, "value"], color=colour, linewidth=0.7, alpha=0.6)
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


def _ranks(axes: Axes, numbers: pd.DataFrame, looks: Looks) -> None:
    """Draw the mean rank at the end, best on top, filled; hollow: within EI's training and thinking time."""
    end, timed = (
        numbers[numbers["measure"] == name].set_index("label")
        for name in ("at the end", "within EI's training + thinking")
    )
    order = [str(label) for label in end.sort_values("value", ascending=False).index]
    for place, label in enumerate(order):
        colour, marker = looks[label]
        for part, face, shift in ((end, colour, 0.14), (timed, "white", -0.14)):
            value, low, high = part.loc[label, ["value", "low", "high"]].to_numpy(dtype=float)
            axes.plot([low, high], [place + shift] * 2, color=colour, linewidth=0.8, alpha=0.6)
            axes.plot(value, place + shift, marker, color=colour, markersize=3.8, markerfacecolor=face)
    axes.set_yticks(range(len(order)), [name_in_figures(label) for label in order], fontsize=6.5)
    axes.set_ylim(-0.7, len(order) - 0.3)
    axes.set_xlabel("mean rank (1 = best)")


# The tables: cost and error relative to EI, ranks, and what thinking adds to training.
#
# A method that saves ten seconds of training and thinks for twenty has saved nothing: both totals are shown, and
# budgets are counted without and with the optimizer's own time.


def tables(runs: Runs, budgets: pd.Series | None = None) -> tuple[list[tuple[str, list[str]]], pd.DataFrame]:
    """Return titled parts of Markdown and all their numbers; a part that cannot be made says why.

    budgets: as for `with_deadlines`.
    """
    parts: list[tuple[str, list[str]]] = []
    numbers: list[pd.DataFrame] = []
    try:
        whole, n, short = utilities_at_horizon(runs)
        found = complete(whole)
        front, ranked = relative(found), utility_ranks(found)
        numbers += [front.assign(part="relative"), ranked.assign(part="ranks")]
        lead = _scope(found, f"after {n} evaluations")
        lead += undefined(whole, deadline=False)
        if short:
            gone = ", ".join(f"{name} ({plural(count, 'run')})" for name, count in sorted(short.items()))
            lead.append(f"Left out, shorter than {n} evaluations or planned for another length: {gone}.")
        shown = [RANKS, _rank_table(ranked), ENDED, _ended_table(found, ranked)]
        parts += [
            ("Utilities and cost rules: cost, error and thinking time", [*lead, _front_table(found, front), TIMES]),
            ("Utilities and cost rules: mean ranks", shown),
        ]
    except BadInput as error:
        parts.append(("Utilities and cost rules", [f"Not computed: {error}."]))
    if odd := of_other_budgets(runs, budgets):
        parts.append(("Utilities and cost rules within other deadlines", [odd]))
    for name, part in with_deadlines(runs, budgets).items():
        title = f"Utilities and cost rules within a deadline: {name}"
        try:
            found = complete(part)
        except BadInput as error:
            parts.append((title, [f"Not computed: {error}."]))
            continue
        ranked = rank_means({"best error in time": found.runs.wide(found.runs.final)})
        numbers.append(ranked.assign(part=f"deadline {name}"))
        lead = [*_scope(found, "by what ends in time"), *undefined(part, deadline=True)]
        capped = int(found.runs.table["capped"].sum())
        if capped:
            lead.append(f"{plural(capped, 'run')} made the last iteration before the deadline.")
        parts.append((title, [*lead, _deadline_table(found, ranked)]))
    return parts, pd.concat(numbers, ignore_index=True) if numbers else pd.DataFrame()


TIMES = (
    "Times are means per run. Thinking is fitting both models and choosing, on the host that made the records (ms per "
    "step: mean of the runs' medians; a step counts for at most 10 times its run's median, since compiling and stalls "
    "of the host are not thinking); cost + thinking: what both take together, in percent of EI's."
)
RANKS = (
    "Mean rank of the best error (1 is best, ties share): at the end, within shares of EI's mean training time on the "
    "problem, and within EI's training and thinking time together, where every method's thinking counts as well. Minus "
    "EI's: the mean of the differences, problem by problem and seed by seed."
)
ENDED = "Runs that had made all their evaluations before that, and count there with what they had found by then:"


def _totals(found: Complete, order: list[str]) -> pd.DataFrame:
    """Return the means per run of each method, in the columns that tables end with."""
    runs = found.runs
    totals = runs.table.rename(columns={"ms_per_step": "ms per step"})
    totals = totals.assign(**{"training (s)": runs.training_s, "thinking (s)": runs.thought_s})
    mean = totals.groupby("label")[["evaluations", "ms per step", "training (s)", "thinking (s)"]].mean().loc[order]
    return mean.assign(**{"both (s)": mean["training (s)"] + mean["thinking (s)"]})


def _shown(numbers: pd.DataFrame, labels: list[str]) -> pd.DataFrame:
    """Return ``value [low, high]``, labels x measures."""
    out = pd.DataFrame(index=labels)
    for measure, rows in numbers.groupby("measure", sort=False):
        out[measure] = format_intervals(rows.set_index("label").loc[labels, ["value", "low", "high"]])
    return out


def _front_table(found: Complete, numbers: pd.DataFrame) -> str:
    end = numbers[numbers["measure"] == "error"].sort_values(["value", "label"])
    order, cells = end["label"].tolist(), len(_cells(found))
    text, totals = _shown(numbers, order), _totals(found, order).drop(columns="evaluations")
    fewer = ["" if n == cells else f" ({n} cells)" for n in end["n"].astype(int)]
    out = pd.DataFrame({"method": order, "cost (%)": text["cost"], "error (%)": text["error"] + fewer}, index=order)
    return markdown_table(out.join(totals).assign(**{"cost + thinking (%)": text["both"]}))


def _rank_table(numbers: pd.DataFrame) -> str:
    end = _best_first(numbers)
    out = _shown(numbers, end["label"].tolist())
    out.insert(1, f"{end['measure'].iloc[0]}, minus EI's", _off(end))
    return markdown_table(out.rename_axis("method").reset_index())


def _ended_table(found: Complete, numbers: pd.DataFrame) -> str:
    part = ended_before(found).loc[_best_first(numbers)["label"]]
    out = part.map("{:.0%}".format).rename(columns="{:.0%} of EI's training".format)
    return markdown_table(out.rename_axis("method").reset_index())


def _best_first(numbers: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the first measure, the lowest value first."""
    return numbers[numbers["measure"] == numbers["measure"].iloc[0]].sort_values(["value", "label"])


def _off(numbers: pd.DataFrame) -> list[str]:
    """Return the differences to the reference's ranks in the order of the rows; the reference itself has none."""
    shown = format_intervals(numbers[["off_value", "off_low", "off_high"]])
    return ["" if name == REFERENCE_METHOD else text for name, text in zip(numbers["label"], shown, strict=True)]


def _deadline_table(found: Complete, numbers: pd.DataFrame) -> str:
    numbers = numbers.sort_values(["value", "label"])
    order = numbers["label"].tolist()
    out = pd.DataFrame({"method": order, "mean rank": _shown(numbers, order).iloc[:, 0]}, index=order)
    out["minus EI's"] = _off(numbers)
    return markdown_table(out.join(_totals(found, order).rename(columns={"evaluations": "evaluations in time"})))


def _scope(found: Complete, what: str) -> list[str]:
    """Return which part of the study the numbers are about: methods, problems, seeds, and what was left out."""
    cells = _cells(found)
    gone = ", ".join(f"{name} ({plural(n, 'cell')})" for name, n in sorted(found.missing.items()))
    parts = sentence(
        f"{plural(len(found.labels), 'method')} {what}, over {scope(cells, found.runs.evaluator)}, "
        f"{plural(len(cells), 'cell')} with every one of them.",
        f"Left out: {plural(found.partial, 'cell')} that lack one." if found.partial else "",
        f"Left out, with fewer cells: {gone}." if gone else "",
        intervals(cells, medians=False),
        footnote(cells["dataset"]),
    )
    return [parts]


def write(parts: Sequence[tuple[str, list[str]]], numbers: pd.DataFrame, out_dir: Path) -> Path:
    """Write utilities.md, and utilities_numbers.csv where there is something in it; return the page's path."""
    if len(numbers):
        columns = ["part", "measure", "label", "value", "low", "high", "n", "off_value", "off_low", "off_high"]
        write_csv(numbers.reindex(columns=columns), out_dir / "utilities_numbers.csv")
    page = ["# Utilities", *("\n\n".join([f"## {title}", *body]) for title, body in parts)]
    return write_page(out_dir / "utilities.md", page)

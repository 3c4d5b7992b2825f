"""Utilities under cost rules, as figure U and as tables: cost and error, without and with the optimizer's time."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from analysis import captions
from analysis.captions import footnote, intervals, plural, scope, sentence
from analysis.plotting import Drawn, new_figure, save, style
from analysis.traces import CELL, PROBLEM
from analysis.utilities import (
    REFERENCE,
    Complete,
    Runs,
    at_horizon,
    complete,
    ended_before,
    of_other_budgets,
    rank_means,
    ranks,
    relative,
    undefined,
    with_deadlines,
)
from datasets.errors import BadInput
from datasets.files import write_atomically

PALETTE = ("#000000", "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#7A5195", "#8C6D31", "#7F7F7F")
MARKERS = ("o", "s", "D", "^", "v", "P", "X")


def draw_utilities(runs: Runs, out_dir: Path) -> Drawn:
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
        whole, n, short = at_horizon(runs)
        found = complete(whole)
        front, ranked = relative(found), ranks(found)
        numbers += [front.assign(part="relative"), ranked.assign(part="ranks")]
        lead = _scope(found, f"after {n} evaluations")
        lead += undefined(whole, deadline=False)
        if short:
            gone = ", ".join(f"{name} ({plural(count, 'run')})" for name, count in sorted(short.items()))
            lead.append(f"Left out, shorter than {n} evaluations or planned for another length: {gone}.")
        parts += [
            ("Utilities and cost rules: cost, error and thinking time", [*lead, _front_table(found, front), TIMES]),
            (
                "Utilities and cost rules: mean ranks",
                [RANKS, _rank_table(found, ranked), ENDED, _ended_table(found, ranked)],
            ),
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


def _totals(found: Complete) -> pd.DataFrame:
    runs = found.runs
    totals = runs.table.assign(training=runs.training_s, thinking=runs.thought_s)
    mean = totals.groupby("label")[["evaluations", "ms_per_step", "training", "thinking"]].mean()
    return mean.rename(columns={"ms_per_step": "ms per step", "training": "training (s)", "thinking": "thinking (s)"})


def _shown(numbers: pd.DataFrame, labels: Sequence[str], digits: int) -> pd.DataFrame:
    """Return ``value [low, high]``, labels x measures."""
    out = pd.DataFrame(index=list(labels))
    for measure, rows in numbers.groupby("measure", sort=False):
        triples = rows.set_index("label").loc[list(labels), ["value", "low", "high"]].to_numpy(float)
        out[measure] = [captions.format_interval(v, low, high, digits) for v, low, high in triples]
    return out


def _front_table(found: Complete, numbers: pd.DataFrame) -> str:
    order = numbers[numbers["measure"] == "error"].sort_values(["value", "label"])["label"].tolist()
    totals, text = _totals(found).loc[order], _shown(numbers, order, 1)
    out = pd.DataFrame({"method": order, "cost (%)": text["cost"].to_numpy()})
    pairs = numbers[numbers["measure"] == "error"].set_index("label").loc[order, "n"].astype(int)
    cells = len(found.runs.table[CELL].drop_duplicates())
    own = [f"{v} ({n} cells)" if n < cells else v for v, n in zip(text["error"], pairs, strict=True)]
    out["error (%)"], out["ms per step"] = own, totals["ms per step"].to_numpy()
    for name in ("training (s)", "thinking (s)"):
        out[name] = totals[name].to_numpy()
    out["both (s)"] = out["training (s)"] + out["thinking (s)"]
    out["cost + thinking (%)"] = text["both"].to_numpy()
    return captions.markdown_table(out)


def _rank_table(found: Complete, numbers: pd.DataFrame) -> str:
    end = _best_first(numbers)
    out = _shown(numbers, end["label"].tolist(), 1)
    out.insert(1, f"{end['measure'].iloc[0]}, minus EI's", _off(end))
    return captions.markdown_table(out.rename_axis("method").reset_index())


def _ended_table(found: Complete, numbers: pd.DataFrame) -> str:
    part = ended_before(found).loc[_best_first(numbers)["label"]]
    out = part.map("{:.0%}".format).rename(columns="{:.0%} of EI's training".format)
    return captions.markdown_table(out.rename_axis("method").reset_index())


def _best_first(numbers: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the first measure, the lowest value first."""
    return numbers[numbers["measure"] == numbers["measure"].iloc[0]].sort_values(["value", "label"])


def _off(numbers: pd.DataFrame) -> list[str]:
    """Return the differences to the reference's ranks in the order of the rows; the reference itself has none."""
    rows = numbers[["label", "off_value", "off_low", "off_high"]].itertuples(index=False, name=None)
    return ["" if name == REFERENCE else captions.format_interval(v, low, high, 1) for name, v, low, high in rows]


def _deadline_table(found: Complete, numbers: pd.DataFrame) -> str:
    numbers = numbers.sort_values(["value", "label"])
    order = numbers["label"].tolist()
    totals = _totals(found).loc[order]
    out = pd.DataFrame({"method": order, "mean rank": _shown(numbers, order, 1).iloc[:, 0].to_numpy()})
    out["minus EI's"] = _off(numbers)
    for name in ("evaluations", "ms per step", "training (s)", "thinking (s)"):
        out["evaluations in time" if name == "evaluations" else name] = totals[name].to_numpy()
    out["both (s)"] = out["training (s)"] + out["thinking (s)"]
    return captions.markdown_table(out)


def _scope(found: Complete, what: str) -> list[str]:
    """Return which part of the study the numbers are about: methods, problems, seeds, and what was left out."""
    cells = found.runs.table[[*PROBLEM, "seed"]].drop_duplicates()
    gone = ", ".join(f"{name} ({plural(n, 'cell')})" for name, n in sorted(found.missing.items()))
    parts = [
        f"{plural(len(found.labels), 'method')} {what}, over {scope(cells, found.runs.evaluator)}, "
        f"{plural(len(cells), 'cell')} with every one of them.",
        f"Left out: {plural(found.partial, 'cell')} that lack one." if found.partial else "",
        f"Left out, with fewer cells: {gone}." if gone else "",
        intervals(cells),
        footnote(cells["dataset"]),
    ]
    return [" ".join(part for part in parts if part)]


def write(parts: Sequence[tuple[str, list[str]]], numbers: pd.DataFrame, out_dir: Path) -> Path:
    """Write utilities.md, and utilities_numbers.csv where there is something in it; return the page's path."""
    text = "\n\n".join(["# Utilities", *(f"## {title}\n\n" + "\n\n".join(body) for title, body in parts)])
    path = out_dir / "utilities.md"
    write_atomically(path, f"{text}\n".encode())
    if len(numbers):
        columns = ["part", "measure", "label", "value", "low", "high", "n", "off_value", "off_low", "off_high"]
        table = numbers.reindex(columns=columns)
        text = table.to_csv(index=False, float_format="%.6g", lineterminator="\n")
        write_atomically(out_dir / "utilities_numbers.csv", text.encode())
    return path

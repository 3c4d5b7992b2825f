"""F4 and F6: mean rank under time budgets, of EI^alpha and of EI, EIpu and contextual EI."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.captions import footnote, intervals, ranks_left_out, scope, sentence, too_short_marks
from analysis.plotting import BLACK, BLUE, RED, Drawn, drawn_from, new_figure, save, sequence, style
from analysis.ranks import Ranks, minimal_budgets, rank_curves, ranks
from analysis.selection import at_horizon, horizon, of_families
from analysis.traces import EI, EICOOL, EIPU, Traces, ordered, require

# What both share: panels of mean ranks of a family of methods.

Colours = dict[str, tuple[Any, str]]
_FAINT = "0.45"
_NAMES = {EI: "EI", EIPU: "EIpu", EICOOL: "EI-cool"}


@dataclass(frozen=True)
class Family:
    """Methods ranked against each other. title: of the figure; axis: alpha or lam; label: of a value on that axis."""

    title: str
    who: str
    axis: str
    label: Callable[[float], str]


def draw_rank_panels(traces: Traces, out_dir: Path, family: Family, methods: list[str]) -> Drawn:
    """Draw mean rank against the share of the budget spent, one panel per multiple of the minimal budget.

    EI-cool, which plans with its budget, is ranked with the others where it has runs for that budget. Raises BadInput
    without runs of `ei`, or with fewer than two methods.
    """
    methods = methods + planning(traces)
    require(traces.runs, EI, family.title)
    n = horizon(traces)
    equal, _ = at_horizon(of_families(traces, "alpha"), n)
    budgets = minimal_budgets(equal, family.title)
    ranked = ranks(traces, budgets, methods, what=family.title)
    methods = ranked.taking_part
    values = traces.runs.drop_duplicates("method").set_index("method")[family.axis]
    curves = rank_curves(ranked)
    curves = curves.assign(**{family.axis: curves["method"].map(values)})
    caption = _caption(traces, ranked, budgets, n, family)
    with style():
        figure, plots = new_figure(10.0, 6.2, caption)
        panels = plots.subplots(2, 3, sharex=True, sharey=True).ravel()
        colours = _colours(methods)
        for axes, multiple, mark in zip(panels, ranked.multiples, too_short_marks(ranked), strict=True):
            _draw_panel(axes, curves[curves["multiple"] == multiple], colours, family)
            _entitle(axes, multiple, mark)
        for axes in panels[3:]:
            axes.set_xlabel("share of the budget spent")
        for axes in panels[::3]:
            axes.set_ylabel("mean rank (1 = best)")
        entries = {
            name: handle
            for axes in panels[::-1]  # those of the first panel, whose budget counts if any does
            for handle, name in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        plots.legend(
            list(entries.values()),
            list(entries),
            loc="outside lower center",
            ncols=len(methods) if len(methods) <= 9 else -(-len(methods) // 2),
        )
        return save(figure, family.title.lower(), caption, curves, out_dir)


def planning(traces: Traces) -> list[str]:
    """Return the methods that plan with a budget and have runs for one: EI-cool, or none."""
    runs = traces.runs
    return [EICOOL] if ((runs["method"] == EICOOL) & runs["tau"].notna()).any() else []


def _colours(methods: list[str]) -> Colours:
    """EI black, EIpu red and dashed, EI-cool blue and dash-dotted, the others dark to light with their parameter."""
    fixed: Colours = {EI: (BLACK, "-"), EIPU: (RED, "--"), EICOOL: (BLUE, "-.")}
    inner = [m for m in methods if m not in fixed]
    return fixed | {m: (c, "-") for m, c in zip(inner, sequence(len(inner)), strict=True)}


def _entitle(axes: Axes, multiple: float, mark: str) -> None:
    """Write which budget a panel is of; one that does not count is grey, its curves are faint and `mark` says why."""
    title = f"{multiple:.0%} of the minimal budget"
    axes.set_title(f"{title}\n({mark})" if mark else title, fontsize=9, color=_FAINT if mark else BLACK)
    if mark:
        axes.set_facecolor("0.93")
        axes.grid(color="1.0")
        for artist in (*axes.lines, *axes.collections):
            artist.set_alpha(0.35 * (artist.get_alpha() or 1.0))


def _draw_panel(axes: Axes, curves: pd.DataFrame, colours: Colours, family: Family) -> None:
    """Curves, faint bands for the methods with a name; beside the panel, all intervals at the whole budget."""
    for place, (method, rows) in enumerate(curves.groupby("method", sort=False)):
        colour, line = colours[str(method)]
        name = _NAMES.get(str(method)) or family.label(float(rows[family.axis].iloc[0]))
        axes.plot(rows["share"], rows["value"], line, color=colour, linewidth=1.4, label=name)
        if method in _NAMES:
            axes.fill_between(rows["share"], rows["low"], rows["high"], color=colour, alpha=0.12, linewidth=0)
        whole = rows.iloc[-1]
        x = 1.03 + 0.02 * place
        axes.plot([x, x], [whole["low"], whole["high"]], line, color=colour, linewidth=1.2)
        axes.plot([x], [whole["value"]], ".", color=colour, markersize=4)
    axes.set_xlim(0, 1.04 + 0.02 * len(colours))
    axes.set_xticks(np.linspace(0, 1, 6))


def _cool(traces: Traces, ranked: Ranks) -> str:
    if EICOOL in ranked.taking_part:
        return " and EI-cool"
    if planning(traces):
        return " (EI-cool has too few runs)"
    left = " (EI-cool, which plans with its budget, has no runs for these budgets)"
    return left if (traces.runs["method"] == EICOOL).any() else ""


def _caption(traces: Traces, ranked: Ranks, budgets: pd.DataFrame, n: int, family: Family) -> str:
    fewest, most = int(budgets["methods"].min()), int(budgets["methods"].max())
    over = f"{most}" if fewest == most else f"{fewest} to {most}"
    banded = ", ".join(name for method, name in _NAMES.items() if method in ranked.taking_part)
    return sentence(
        f"{family.title}. Mean rank of {family.who}{_cool(traces, ranked)} by the best {traces.judge} error among the",
        "evaluations that end within the spent share of the budget; ties share the mean rank. Minimal budget",
        f"of a problem: least median (over seeds) total cost of {n} iterations, over {over} EI^alpha",
        "methods. Mean over",
        f"{scope(ranked.cells_used, traces.evaluator)}; bands ({banded}), and bars",
        f"for the whole budget: {intervals(ranked.cells_used)}",
        ranks_left_out(ranked),
        footnote(ranked.cells_used["dataset"]),
    )


# F4: mean rank of EI^alpha over alpha under time budgets (STUDY: F4).

ALPHA_FAMILY = Family(
    "F4", "EI^alpha (number: alpha; EI is 0, EIpu is 1)", "alpha", lambda alpha: f"$\\alpha$ = {alpha:g}"
)


@drawn_from("traces")
def f4(traces: Traces, out_dir: Path) -> Drawn:
    """Draw F4; raises BadInput without runs of `ei`, or with EI as the only alpha."""
    runs = traces.runs
    return draw_rank_panels(traces, out_dir, ALPHA_FAMILY, ordered(runs[runs["alpha"].notna()]))


# F6: mean rank of EI, EIpu and CEI under time budgets (STUDY: F6).

CONTEXTUAL_FAMILY = Family("F6", "EI, EIpu and CEI (number: lambda)", "lam", lambda lam: f"CEI {lam:g}")


@drawn_from("traces")
def f6(traces: Traces, out_dir: Path) -> Drawn:
    """Draw F6; raises BadInput without runs of `ei`, or with fewer than two of the methods EI, EIpu and CEI."""
    runs = traces.runs
    methods = ordered(runs[runs["method"].isin([EI, EIPU]) | runs["lam"].notna()])
    return draw_rank_panels(traces, out_dir, CONTEXTUAL_FAMILY, methods)

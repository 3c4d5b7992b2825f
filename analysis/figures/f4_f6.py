"""F4 and F6: mean rank under time budgets, of EI^alpha and of EI, EIpu and contextual EI."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.captions import footnote, intervals, ranks_left_out, scope, sentence, too_short_notes
from analysis.plotting import BLACK, BLUE, RED, Drawn, drawn_from, new_figure, save, sequence, style
from analysis.ranks import Ranks, minimal_budgets, rank_curves, ranks
from analysis.selection import at_horizon, horizon, of_families, on_papers_grid
from analysis.traces import EI, EICOOL, EIPU, Traces, ordered, require

_FAINT = "0.45"
_NAMES = {EI: "EI", EIPU: "EIpu", EICOOL: "EI-cool"}


@drawn_from("traces", "EI^alpha under time budgets")
def f4(traces: Traces, out_dir: Path) -> Drawn:
    """Draw F4, mean rank of EI^alpha over alpha (STUDY: F4); raises BadInput without `ei`, or with EI alone."""
    methods = ordered(traces.runs[on_papers_grid(traces.runs)])
    who = "EI^alpha (number: alpha; EI is 0, EIpu is 1)"
    return _draw_panels(traces, out_dir, "F4", who, methods, "alpha", "$\\alpha$ = {:g}".format)


@drawn_from("traces", "Contextual EI under time budgets")
def f6(traces: Traces, out_dir: Path) -> Drawn:
    """Draw F6, mean rank of EI, EIpu and CEI (STUDY: F6); raises BadInput without `ei`, or with fewer than two."""
    runs = traces.runs
    methods = ordered(runs[runs["method"].isin([EI, EIPU]) | runs["lam"].notna()])
    return _draw_panels(traces, out_dir, "F6", "EI, EIpu and CEI (number: lambda)", methods, "lam", "CEI {:g}".format)


def _draw_panels(
    traces: Traces, out_dir: Path, title: str, who: str, methods: list[str], axis: str, label: Callable[[float], str]
) -> Drawn:
    """Draw mean rank against the share of the budget spent, one panel per multiple of the minimal budget.

    methods: ranked against each other, and with EI-cool, which plans with its budget, where it has runs for that
    budget; who: their name. axis: alpha or lam; label: of a method by its value on that axis.
    """
    require(traces.runs, EI, title)
    cool = traces.runs[traces.runs["method"] == EICOOL]
    planned = bool(cool["tau"].notna().any())
    n = horizon(traces)
    equal, _ = at_horizon(of_families(traces, "alpha"), n)
    budgets = minimal_budgets(equal, title)
    ranked = ranks(traces, budgets, methods + ([EICOOL] if planned else []), what=title)
    methods = ranked.taking_part
    if EICOOL in methods:
        who += " and EI-cool"
    elif planned:
        who += " (EI-cool has too few runs)"
    elif len(cool):
        who += " (EI-cool, which plans with its budget, has no runs for these budgets)"
    values = traces.runs.drop_duplicates("method").set_index("method")[axis]
    curves = rank_curves(ranked)
    curves = curves.assign(**{axis: curves["method"].map(values)})
    caption = _caption(traces, ranked, budgets, n, f"{title}. Mean rank of {who}")
    names = {method: _NAMES.get(method) or label(float(values[method])) for method in methods}
    with style():
        figure, plots = new_figure(10.0, 6.2, caption)
        panels = plots.subplots(2, 3, sharex=True, sharey=True).ravel()
        for axes, multiple, note in zip(panels, ranked.multiples, too_short_notes(ranked), strict=True):
            _draw_panel(axes, curves[curves["multiple"] == multiple], names)
            _entitle(axes, multiple, note)
        for axes in panels[3:]:
            axes.set_xlabel("share of the budget spent")
        for axes in panels[::3]:
            axes.set_ylabel("mean rank (1 = best)")
        entries = {  # of the first panel, whose budget counts if any does
            name: handle
            for axes in panels[::-1]
            for handle, name in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        columns = len(methods) if len(methods) <= 9 else -(-len(methods) // 2)
        plots.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=columns)
        return save(figure, title.lower(), caption, curves, out_dir)


def _draw_panel(axes: Axes, curves: pd.DataFrame, names: dict[str, str]) -> None:
    """Draw curves, and faint bands for EI, EIpu and EI-cool; beside the panel, all intervals at the whole budget."""
    looks: dict[str, tuple[Any, str]] = {EI: (BLACK, "-"), EIPU: (RED, "--"), EICOOL: (BLUE, "-.")}
    inner = [method for method in names if method not in looks]  # dark to light with their parameter
    looks |= {method: (colour, "-") for method, colour in zip(inner, sequence(len(inner)), strict=True)}
    for place, (method, rows) in enumerate(curves.groupby("method", sort=False)):
        colour, line = looks[str(method)]
        axes.plot(rows["share"], rows["value"], line, color=colour, linewidth=1.4, label=names[str(method)])
        if method in _NAMES:
            axes.fill_between(rows["share"], rows["low"], rows["high"], color=colour, alpha=0.12, linewidth=0)
        whole = rows.iloc[-1]
        x = 1.03 + 0.02 * place
        axes.plot([x, x], [whole["low"], whole["high"]], line, color=colour, linewidth=1.2)
        axes.plot([x], [whole["value"]], ".", color=colour, markersize=4)
    axes.set_xlim(0, 1.04 + 0.02 * len(looks))
    axes.set_xticks(np.linspace(0, 1, 6))


def _entitle(axes: Axes, multiple: float, note: str) -> None:
    """Write which budget a panel is of; one that does not count is grey, its curves are faint and `note` says why."""
    title = f"{multiple:.0%} of the minimal budget"
    axes.set_title(f"{title}\n({note})" if note else title, fontsize=9, color=_FAINT if note else BLACK)
    if note:
        axes.set_facecolor("0.93")
        axes.grid(color="1.0")
        for artist in (*axes.lines, *axes.collections):
            artist.set_alpha(0.35 * (artist.get_alpha() or 1.0))


def _caption(traces: Traces, ranked: Ranks, budgets: pd.DataFrame, n: int, lead: str) -> str:
    fewest, most = int(budgets["methods"].min()), int(budgets["methods"].max())
    over = f"{most}" if fewest == most else f"{fewest} to {most}"
    banded = ", ".join(name for method, name in _NAMES.items() if method in ranked.taking_part)
    return sentence(
        f"{lead} by the best {traces.judge} error among the",
        "evaluations that end within the spent share of the budget; ties share the mean rank. Minimal budget",
        f"of a problem: least median (over seeds) total cost of {n} iterations, over {over} EI^alpha",
        "methods. Mean over",
        f"{scope(ranked.cells_used, traces.evaluator)}; bands ({banded}), and bars",
        f"for the whole budget: {intervals(ranked.cells_used)}",
        ranks_left_out(ranked),
        footnote(ranked.cells_used["dataset"]),
    )

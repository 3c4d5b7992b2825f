"""F4 and F6: mean rank under time budgets, of EI^alpha and of EI, EIpu and contextual EI, beside their rivals."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.captions import ended_early, footnote, intervals, ranks_left_out, scope, sentence, too_short_notes
from analysis.methods import EI, EIPU, by_method, name_in_figures, name_in_text, ordered, require
from analysis.plotting import BLACK, Drawn, colour_of, drawn_from, new_figure, save, style
from analysis.ranks import FAMILIES, Ranks, minimal_budgets, rank_curves, ranks
from analysis.selection import LARGEST_ALPHA, at_horizon, horizon, rivals_within_budgets, select_families
from analysis.traces import Traces
from datasets.errors import BadInput

_FAINT = "0.45"
_VERSIONS = {False: "as in the paper", True: "at equal money"}
_COLUMNS = 3
_DASHES: list[Any] = ["-", (0, (5, 1.2)), (0, (3, 1, 1, 1))]  # in turn, so that neighbours differ in more than shade
_RIVALS: list[Any] = ["-.", (0, (1, 1)), (0, (6, 2, 1, 2, 1, 2))]


@drawn_from("traces", "EI^alpha under time budgets")
def f4(traces: Traces, out_dir: Path) -> Drawn:
    """Draw F4, mean rank of EI^alpha over alpha (STUDY: F4); raises BadInput without `ei`, or with EI alone."""
    return _draw_panels(traces, out_dir, "F4", "eialpha", "EI^alpha (number: alpha, up to 1; EI is 0, EIpu is 1)")


@drawn_from("traces", "Contextual EI under time budgets")
def f6(traces: Traces, out_dir: Path) -> Drawn:
    """Draw F6, mean rank of EI, EIpu and CEI (STUDY: F6); raises BadInput without `ei`, or with fewer than two."""
    return _draw_panels(traces, out_dir, "F6", "cei", "EI, EIpu and CEI (number: lambda)")


def _draw_panels(traces: Traces, out_dir: Path, title: str, family: str, who: str) -> Drawn:
    """Draw mean rank against the share of the budget spent, one panel per multiple of the minimal budget, as the paper
    does and below that at equal money.

    family: whose methods (`ranks.FAMILIES`) are ranked, together with their rivals; who: its name. Budgets for which
    the runs were planned too short have no panel; raises BadInput where that is so of all.
    """
    require(traces.runs, EI, title)
    n = horizon(traces)
    equal, _ = at_horizon(select_families(traces, "alpha"), n)
    budgets = minimal_budgets(equal, title)
    own, rivals = FAMILIES[family](traces.runs), rivals_within_budgets(traces, budgets)
    both = {money: ranks(traces, budgets, own + rivals, what=title, equal_money=money) for money in _VERSIONS}
    shown = [(money, b) for money, ranked in both.items() for b in np.flatnonzero(ranked.long_enough)]
    if not shown:
        shares = zip(both[False].part(both[False].short), both[False].multiples, strict=True)
        early = ", ".join(f"{share:.0%} of the runs at {multiple:.0%}" for share, multiple in shares)
        raise BadInput(f"{title} needs runs that go on until the minimal budget is spent (make time): too short for it "
                       f"are {early}")  # fmt: skip
    methods = [method for method in own + rivals if any(method in ranked.taking_part for ranked in both.values())]
    curves = pd.concat([rank_curves(ranked).assign(equal_money=money) for money, ranked in both.items()])
    named = curves.join(by_method(traces.runs)[["alpha", "lam"]], on="method")
    beside = [name_in_figures(method) for method in rivals if method in methods]
    caption = _caption(traces, both, budgets, n, f"{title}. Mean rank of {', '.join([who, *beside])},")
    looks, height = _looks(own, rivals), -(-len(shown) // _COLUMNS)
    with style():
        figure, plots = new_figure(9.6, 0.7 + 2.7 * height, caption)
        grid = plots.subplots(height, min(_COLUMNS, len(shown)), sharex=True, sharey=True, squeeze=False)
        for axes, (money, b) in zip(grid.ravel(), shown, strict=False):
            found, ranked = curves[curves["equal_money"] == money], both[money]
            _draw_panel(axes, found[found["multiple"] == ranked.multiples[b]], looks)
            _entitle(axes, f"{ranked.multiples[b]:.0%} of the minimal budget,\n{_VERSIONS[money]}",
                     too_short_notes(ranked)[b])  # fmt: skip
        for axes in grid.ravel()[len(shown) :]:
            axes.set_axis_off()
        for axes in grid.ravel()[max(0, len(shown) - _COLUMNS) : len(shown)]:
            axes.set_xlabel("share spent of the budget,\nor of the equal money")
            axes.tick_params(labelbottom=True)
        for axes in grid[:, 0]:
            axes.set_ylabel("mean rank (1 = best)")
        low, high = grid[0, 0].get_ylim()
        grid[0, 0].set_ylim(max(low, 0.8), min(high, len(methods) + 0.2))
        entries = {
            name: handle
            for axes in grid.ravel()[len(shown) - 1 :: -1]
            for handle, name in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        names = [name_in_figures(method) for method in methods if name_in_figures(method) in entries]
        columns = len(names) if len(names) <= 9 else -(-len(names) // 2)
        plots.legend([entries[name] for name in names], names, loc="outside lower center", ncols=columns)
        return save(figure, title.lower(), caption, named, out_dir)


def _looks(own: list[str], rivals: list[str]) -> dict[str, tuple[Any, Any]]:
    """Return colour (`colour_of`) and line of every method."""
    looks: dict[str, tuple[Any, Any]] = {EI: (BLACK, "-"), EIPU: (colour_of(EIPU), (0, (2, 1)))}
    inner = [method for method in own if method not in looks]
    looks |= {method: (colour_of(method), _DASHES[k % len(_DASHES)]) for k, method in enumerate(inner)}
    return looks | {method: (colour_of(method), _RIVALS[k % len(_RIVALS)]) for k, method in enumerate(rivals)}


def _draw_panel(axes: Axes, curves: pd.DataFrame, looks: dict[str, tuple[Any, Any]]) -> None:
    """Draw curves, and faint bands for EI and EIpu; beside the panel, all intervals at the whole budget."""
    for place, (method, rows) in enumerate(curves.groupby("method", sort=False)):
        colour, line = looks[str(method)]
        label = name_in_figures(str(method))
        axes.plot(rows["share"], rows["value"], linestyle=line, color=colour, linewidth=1.4, label=label)
        if method in (EI, EIPU):
            axes.fill_between(rows["share"], rows["low"], rows["high"], color=colour, alpha=0.12, linewidth=0)
        whole = rows.iloc[-1]
        x = 1.03 + 0.02 * place
        axes.plot([x, x], [whole["low"], whole["high"]], linestyle=line, color=colour, linewidth=1.2)
        axes.plot([x], [whole["value"]], ".", color=colour, markersize=4)
    axes.set_xlim(0, 1.04 + 0.02 * len(looks))
    axes.set_xticks(np.linspace(0, 1, 6))


def _entitle(axes: Axes, title: str, note: str) -> None:
    """Write which budget a panel is of; one that does not count is grey, its curves are faint and `note` says why."""
    axes.set_title(title, fontsize=8.5, color=_FAINT if note else BLACK)
    if note:
        axes.text(0.5, 0.96, note, transform=axes.transAxes, fontsize=8.5, color=_FAINT, ha="center", va="top")
        axes.set_facecolor("0.93")
        axes.grid(color="1.0")
        for artist in (*axes.lines, *axes.collections):
            artist.set_alpha(0.35 * (artist.get_alpha() or 1.0))


def _caption(traces: Traces, both: dict[bool, Ranks], budgets: pd.DataFrame, n: int, lead: str) -> str:
    fewest, most = int(budgets["methods"].min()), int(budgets["methods"].max())
    over = f"{most}" if fewest == most else f"{fewest} to {most}"
    ranked = both[False]
    runs = traces.runs[traces.runs["lam"].isna() & ~(traces.runs["alpha"] <= LARGEST_ALPHA)]
    absent = [method for method in ordered(runs) if method not in ranked.methods]
    return sentence(
        f"{lead} by the best {traces.judge} error among the",
        "evaluations that end within the spent share of the budget; ties share the mean rank. Minimal budget",
        f"of a problem: least median (over seeds) total cost of {n} iterations, over {over} EI^alpha",
        "methods. Mean over",
        f"{scope(ranked.cells_used, traces.evaluator)}; bands (EI, EIpu), and bars",
        f"for the whole budget: {intervals(ranked.cells_used, medians=False)}",
        "EI stopped early is on EI's curve until it stops, and never ranks better: it has no curve of its own.",
        "Not ranked, for want of runs long enough or planned for these budgets: "
        f"{', '.join(map(name_in_text, absent))}."
        if absent
        else "",
        "Grey panels decide no claim that ranks these methods: the runs compared there ended at different costs."
        if (ranked.long_enough & ~ranked.counting).any()
        else "",
        ranks_left_out(ranked),
        "At equal money:",
        ended_early(both[True], beside=ranked),
        footnote(ranked.cells_used["dataset"]),
    )

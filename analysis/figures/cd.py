"""CD: which methods differ over data sets, after N iterations and within a budget (critical-difference view)."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.stats import rankdata

from analysis.budgets import minimal_budgets
from analysis.coverage import sparse
from analysis.critical import LEVEL, Critical, ahead, critical
from analysis.marks import footnote
from analysis.methods import EI, ordered, require, short
from analysis.plotting import BLACK, RED, Drawn, drawn_from, new_figure, save, style
from analysis.ranks import ranks
from analysis.relative import finals
from analysis.scope import ended_early, plural, scope, sentence
from analysis.selection import at_horizon, for_budgets, horizon, of_families
from analysis.traces import CELL, Traces
from datasets.errors import BadInput

BUDGET = 1.0  # of the minimal budget


@dataclass(frozen=True)
class Panel:
    """A diagram: its title, what it shows, the problems and seeds behind it, and what was left out."""

    title: str
    found: Critical
    cells: pd.DataFrame
    left_out: str


@drawn_from("traces")
def draw(traces: Traces, out_dir: Path) -> Drawn:
    """Draw the diagrams; raises BadInput without runs of `ei`, or with fewer than two methods."""
    require(traces.runs, EI, "CD")
    within = _within_budget(traces)
    panels = [_after_iterations(traces), *([] if isinstance(within, str) else [within])]
    numbers = pd.concat([_numbers(panel.title, panel.found) for panel in panels], ignore_index=True)
    caption = _caption(traces, panels, within if isinstance(within, str) else "")
    most = max(len(panel.found.ranks) for panel in panels)
    with style():
        figure, plots = new_figure(5.0 * len(panels), 0.25 * most + 1.0, caption)
        for axes, panel in zip(plots.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            _diagram(axes, panel.found, panel.title)
        return save(figure, "cd", caption, numbers, out_dir)


def _after_iterations(traces: Traces) -> Panel:
    n = horizon(traces)
    equal = at_horizon(traces, n)[0]
    wide = finals(equal).pivot(index=CELL, columns="method", values="final_error")
    every = wide.reindex(columns=ordered(traces.runs))
    few = sparse(equal.runs)
    wide = every.drop(columns=few).dropna(axis=1, how="all")
    ran = wide.notna().all(axis=1)
    if not ran.any():
        raise BadInput("CD: no problem and seed has a successful run of every method")
    rank = pd.DataFrame(rankdata(wide[ran], axis=1), index=wide.index[ran], columns=wide.columns)
    absent = [method for method in every.columns if method not in wide.columns]
    why = f"without {n} iterations and a successful evaluation, or with runs on less than half of EI's pairs"
    left_out = _left_out(int((~ran).sum()), absent, why)
    title = f"best {traces.judge} error after {n} iterations"
    return Panel(title, _compare(rank), rank.index.to_frame(index=False), left_out)


def _within_budget(traces: Traces) -> Panel | str:
    """The panel of the budget; a sentence where it does not count, or no two methods ran on a common problem."""
    try:
        budgets = minimal_budgets(at_horizon(of_families(traces, "alpha"), horizon(traces))[0], "CD")
        methods = ordered(for_budgets(traces, budgets).runs)
        ranked = ranks(traces, budgets, methods, (BUDGET,), np.ones(1), "CD")
    except BadInput as error:
        return f"No diagram for {BUDGET:.0%} of the minimal budget: {error}."
    if not ranked.counting.all():
        return f"No diagram for {BUDGET:.0%} of the minimal budget, for which too many runs were planned too short."
    rank = ranked.at(BUDGET).dropna(axis=1)
    absent = [method for method in ordered(traces.runs) if method not in rank.columns]
    left_out = _left_out(ranked.left_out, absent, "without a run for that budget on enough pairs")
    title = f"best {traces.judge} error within {BUDGET:.0%} of the minimal budget"
    return Panel(title, _compare(rank), rank.index.to_frame(index=False), f"{left_out} {ended_early(ranked)}")


def _left_out(cells: int, methods: list[str], why: str) -> str:
    """Return the sentence on what a diagram leaves out; methods: those `why` holds of."""
    those = f", and {', '.join(methods)} ({why})" if methods else ""
    return f"Left out: {plural(cells, 'problem-seed pair')} without a result of every method{those}."


def _compare(rank: pd.DataFrame) -> Critical:
    return critical(rank.groupby(level="dataset").mean(), ahead(rank))


def _diagram(axes: Axes, found: Critical, title: str) -> None:
    """One line per method, best on top, at its mean rank; bars join neighbours that do not differ."""
    y = np.arange(len(found.ranks))
    axes.plot(found.ranks, y, "o", color=BLACK, markersize=4)
    place = {name: k for k, name in enumerate(found.ranks.index)}
    left = float(found.ranks.min())
    step = 0.03 * max(float(found.ranks.max()) - left, 1e-9)
    for k, clique in enumerate(found.cliques):
        x = left - step * (k + 2)
        axes.plot([x, x], [place[clique[0]] - 0.2, place[clique[-1]] + 0.2], "-", color=RED, linewidth=2.2)
    axes.set_yticks(y, [short(str(name)) for name in found.ranks.index], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("mean rank over data sets (1 = best)")
    axes.set_title(title, fontsize=9)


def _numbers(title: str, found: Critical) -> pd.DataFrame:
    rows = found.ranks.rename("mean_rank").rename_axis("method").reset_index().assign(panel=title)
    return rows.merge(found.p.rename_axis("method").add_prefix("p_").reset_index(), on="method")


def _caption(traces: Traces, panels: list[Panel], none: str) -> str:
    parts = []
    for panel in panels:
        p, n = panel.found.friedman_p, panel.found.datasets
        test = "not to be had" if np.isnan(p) else f"p = {p:.2g}"
        parts.append(
            f"{panel.title.capitalize()}: {scope(panel.cells, traces.evaluator)}, {plural(n, 'data set')}, "
            f"Friedman's test {test}. {panel.left_out}"
        )
    return sentence(
        "CD. Mean rank of the methods over data sets, each data set's value being the mean rank over its problems and",
        "seeds. Bars join neighbours of which no pair differs: Wilcoxon's signed-rank test over data sets of how much",
        f"more often one is ahead of the other, Holm's correction, {LEVEL:.0%} (Demsar 2006; Benavoli et al. 2016).",
        "With few data sets no pair can differ.",
        *parts,
        none,
        footnote(panels[0].cells["dataset"]),
    )

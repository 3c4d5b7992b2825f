"""Which methods differ over data sets: mean ranks, Friedman's test, and pairwise Wilcoxon tests corrected by Holm.

Notation: N data sets, k methods. The values compared are one number per data set and method, the mean over its
pipelines and seeds, so that N counts what is independent. Sources: Demsar 2006, "Statistical comparisons of classifiers
over multiple data sets" (mean ranks over data sets, Friedman's test, the diagram); Benavoli, Corani and Mangili 2016,
"Should we really use post-hoc tests based on mean-ranks?" (Wilcoxon's signed-rank test with Holm's correction rather
than Nemenyi's critical difference, which lets the verdict on two methods depend on the others; so a pair is tested on
`ahead`, not on its places among all methods).
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from textwrap import fill

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from scipy import stats

from analysis.captions import ended_early, footnote, plural, scope, sentence, too_short_notes
from analysis.evaluations import CELL
from analysis.methods import EI, name_in_figures, name_in_text, ordered, require
from analysis.plotting import BLACK, RED, Drawn, drawn_from, new_figure, save, style
from analysis.ranks import minimal_budgets, ranks
from analysis.selection import LARGEST_ALPHA, at_horizon, for_budgets, horizon, select_families, sparse_methods
from analysis.statistics import group_means, holm, signed_rank
from analysis.traces import Traces
from analysis.tradeoffs import finals
from datasets.errors import BadInput

LEVEL = 0.05
BUDGET = 1.0  # of the minimal budget: the second diagram's

Difference = Callable[[str, str], Float[np.ndarray, " N"]]
"""How much worse the first of two methods is than the second, on each data set."""


@dataclass(frozen=True)
class Critical:
    """Mean ranks of k methods over N data sets (1 = best), best first, and what tests say of them.

    friedman_p: that all are equal; NaN for fewer than three methods or two data sets. p: Holm-corrected, by pair of
    methods, NaN on the diagonal. cliques: the largest runs of neighbours by rank in which no pair differs.
    """

    ranks: pd.Series
    datasets: int
    friedman_p: float
    p: pd.DataFrame
    cliques: list[list[str]]


def critical(values: pd.DataFrame, difference: Difference | None = None) -> Critical:
    """Compare methods (columns) over data sets (rows); low values are good.

    difference: what pairs are tested on (as `ahead` gives it), otherwise the difference of their values. On one data
    set no pair can differ. Raises BadInput for fewer than two methods, ValueError for NaN.
    """
    if values.shape[1] < 2:
        got = ", ".join(map(str, values.columns)) or "none"
        raise BadInput(f"comparing over data sets needs two methods or more, got: {got}")
    if values.isna().any(axis=None):
        raise ValueError("every data set needs a value of every method")
    mean_ranks = values.rank(axis=1).mean().sort_values(kind="stable")
    values = values[mean_ranks.index]
    several = min(values.shape[1] - 1, len(values)) >= 2 and not (values.nunique(axis=1) == 1).all()
    friedman = float(stats.friedmanchisquare(*values.to_numpy().T).pvalue) if several else np.nan
    p = pairwise(values, difference)
    return Critical(mean_ranks, len(values), friedman, p, cliques(list(p.columns), p.to_numpy() < LEVEL))


def pairwise(values: pd.DataFrame, difference: Difference | None = None) -> pd.DataFrame:
    """Return Holm-corrected two-sided p-values of Wilcoxon's signed-rank test for every pair of columns."""
    names = list(values.columns)
    pairs, raw = list(combinations(range(len(names)), 2)), []
    between = difference or (lambda one, other: (values[one] - values[other]).to_numpy())
    for i, j in pairs:
        raw.append(signed_rank(between(names[i], names[j])))
    out = np.full((len(names), len(names)), np.nan)
    for (i, j), p in zip(pairs, holm(np.array(raw)), strict=True):
        out[i, j] = out[j, i] = p
    return pd.DataFrame(out, index=names, columns=names)


def ahead(rank: pd.DataFrame) -> Difference:
    """Return the difference of two methods that no third one changes: over the cells of each data set, the mean of
    +1 where the first is behind the second, -1 where it is ahead, 0 at a tie.

    rank: values or ranks, one row per cell (a level `dataset` in the index), one column per method.
    """

    dataset = pd.factorize(rank.index.get_level_values("dataset"), sort=True)[0]
    values = {str(method): rank[method].to_numpy() for method in rank}

    def difference(one: str, other: str) -> Float[np.ndarray, " N"]:
        return group_means(np.sign(values[one] - values[other])[:, None], dataset)[:, 0]

    return difference


def cliques(names: list[str], differ: np.ndarray) -> list[list[str]]:
    """Return the largest runs of two or more neighbours (in the order of `names`) without a pair that differs."""
    found: list[tuple[int, int]] = []
    for start in range(len(names)):
        end = start
        while end + 1 < len(names) and not differ[start : end + 1, end + 1].any():
            end += 1
        if end > start and not any(end <= last for _, last in found):
            found.append((start, end))
    return [names[start : end + 1] for start, end in found]


# CD: which methods differ over data sets, after N iterations and within a budget (critical-difference view).


@dataclass(frozen=True)
class Panel:
    """A diagram: its title, what it shows, the problems and seeds behind it, and what was left out."""

    title: str
    found: Critical
    cells: pd.DataFrame
    left_out: str


@drawn_from("traces", "Which methods differ over data sets")
def cd(traces: Traces, out_dir: Path) -> Drawn:
    """Draw the diagrams; raises BadInput without runs of `ei`, or with fewer than two methods."""
    require(traces.runs, EI, "CD")
    panels, none = [_after_iterations(traces)], ""
    try:
        panels.append(_within_budget(traces))
    except BadInput as error:
        none = f"No diagram for {BUDGET:.0%} of the minimal budget: {error}."
    numbers = pd.concat([_numbers(panel) for panel in panels], ignore_index=True)
    caption = sentence(
        "CD. Mean rank of the methods over data sets, each data set's value being the mean rank over its problems and",
        "seeds. Bars join neighbours of which no pair differs: Wilcoxon's signed-rank test over data sets of how much",
        f"more often one is ahead of the other, Holm's correction, {LEVEL:.0%} (Demsar 2006; Benavoli et al. 2016).",
        "With few data sets no pair can differ.",
        *(_described(panel, traces.evaluator) for panel in panels),
        none,
        footnote(panels[0].cells["dataset"]),
    )
    most = max(len(panel.found.ranks) for panel in panels)
    with style():
        figure, plots = new_figure(5.0 * len(panels), 0.25 * most + 1.0, caption)
        for axes, panel in zip(plots.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            diagram(axes, panel.found)
            axes.set_title(fill(panel.title, 56), fontsize=9)
        return save(figure, "cd", caption, numbers, out_dir)


def _after_iterations(traces: Traces) -> Panel:
    n = horizon(traces)
    equal = at_horizon(traces, n)[0]
    wide = finals(equal).pivot(index=CELL, columns="method", values="final_error")
    every = ordered(traces.runs)
    wide = wide.reindex(columns=every).drop(columns=sparse_methods(equal.runs)).dropna(axis=1, how="all")
    ran = wide.notna().all(axis=1)
    if not ran.any():
        raise BadInput("CD: no problem and seed has a successful run of every method")
    why = f"without {n} iterations and a successful evaluation, or with runs on less than half of EI's pairs"
    title = f"best {traces.judge} error after {n} iterations"
    return _panel(title, wide[ran].rank(axis=1), every, int((~ran).sum()), why)


def _within_budget(traces: Traces) -> Panel:
    """Return the panel of the budget, at equal money if too few runs use it up.

    Raises BadInput where it does not count, or no two methods share a problem.
    """
    budgets = minimal_budgets(at_horizon(select_families(traces, "alpha"), horizon(traces))[0], "CD")
    runs = for_budgets(traces, budgets).runs
    methods = ordered(runs[~(runs["alpha"] > LARGEST_ALPHA)])
    ranked = ranks(traces, budgets, methods, (BUDGET,), np.ones(1), "CD")
    within = f"within {BUDGET:.0%} of the minimal budget"
    if ranked.long_enough.all() and not ranked.counting.all():
        ranked = ranks(traces, budgets, methods, (BUDGET,), np.ones(1), "CD", equal_money=True)
        within = f"at equal money {within}"
    if not ranked.counting.all():
        raise BadInput(too_short_notes(ranked)[0])
    rank = ranked.at(BUDGET).dropna(axis=1)
    title = f"best {traces.judge} error {within}"
    why = "without a run for that budget on enough pairs"
    return _panel(title, rank, ordered(traces.runs), ranked.left_out, why, f" {ended_early(ranked)}")


def _panel(title: str, rank: pd.DataFrame, methods: list[str], cells: int, why: str, more: str = "") -> Panel:
    """Compare the methods by their ranks, cell by cell; `why` holds of those among `methods` that have none."""
    absent = [method for method in methods if method not in rank.columns]
    those = f", and {', '.join(map(name_in_text, absent))} ({why})" if absent else ""
    left_out = f"Left out: {plural(cells, 'problem-seed pair')} without a result of every method{those}.{more}"
    found = critical(rank.groupby(level="dataset").mean(), ahead(rank))
    return Panel(title, found, rank.index.to_frame(index=False), left_out)


def _described(panel: Panel, evaluator: str) -> str:
    p, n = panel.found.friedman_p, panel.found.datasets
    test = "not to be had" if np.isnan(p) else f"p = {p:.2g}"
    over = f"{scope(panel.cells, evaluator)}, {plural(n, 'data set')}"
    return f"{panel.title.capitalize()}: {over}, Friedman's test {test}. {panel.left_out}"


def diagram(axes: Axes, found: Critical) -> None:
    """Draw one line per method, best on top, at its mean rank; bars join neighbours that do not differ."""
    y = np.arange(len(found.ranks))
    axes.plot(found.ranks, y, "o", color=BLACK, markersize=4)
    place = {name: k for k, name in enumerate(found.ranks.index)}
    left = float(found.ranks.min())
    step = 0.03 * max(float(found.ranks.max()) - left, 1e-9)
    for k, clique in enumerate(found.cliques):
        x = left - step * (k + 2)
        axes.plot([x, x], [place[clique[0]] - 0.2, place[clique[-1]] + 0.2], "-", color=RED, linewidth=2.2)
    axes.set_yticks(y, [name_in_figures(str(name)) for name in found.ranks.index], fontsize=8)
    axes.invert_yaxis()
    low, high = axes.get_xlim()  # which setting the ticks would widen
    axes.set_xticks([tick for tick in axes.get_xticks() if 1 <= tick <= high])  # none where only the bars are
    axes.set_xlim(low, high)
    axes.set_xlabel("mean rank over data sets (1 = best)")


def _numbers(panel: Panel) -> pd.DataFrame:
    found = panel.found
    rows = found.ranks.rename("mean_rank").rename_axis("method").reset_index().assign(panel=panel.title)
    return rows.merge(found.p.rename_axis("method").add_prefix("p_").reset_index(), on="method")

"""F3: bi-optimization of EI^alpha, cost against error relative to EI (STUDY: F3)."""

from pathlib import Path

import pandas as pd

from analysis.labels import THINNED, label_points, thin_labels
from analysis.marks import footnote
from analysis.methods import EI, ordered, require
from analysis.plotting import BLUE, RED, Drawn, drawn_from, new_figure, save, style
from analysis.relative import Relative, relative
from analysis.scope import intervals, pairs_left_out, scope, sentence, span
from analysis.selection import and_cool, at_horizon, horizon
from analysis.traces import Traces
from analysis.tradeoff import and_of_cool, finish, plot, plot_cool, tradeoff


@drawn_from("traces")
def draw(traces: Traces, out_dir: Path) -> Drawn:
    """Draw F3: mean (circles) and median (crosses) per alpha, with 95 % intervals in both directions.

    Raises BadInput without runs of `ei`.
    """
    require(traces.runs, EI, "F3")
    n = horizon(traces)
    equal, short = at_horizon(and_cool(traces, n, "alpha"), n)
    pairs = relative(equal, "F3")
    numbers = tradeoff(pairs, ordered(pairs.table))
    caption = _caption(traces, pairs, numbers, n, short)
    with style():
        figure, plots = new_figure(6.4, 4.4, caption)
        axes = plots.subplots()
        for statistic, colour in (("mean", BLUE), ("median", RED)):
            rows = numbers[(numbers["statistic"] == statistic) & numbers["alpha"].notna()]
            plot(axes, rows, colour, "EI$^\\alpha$")
            label_points(axes, rows, "alpha", colour, above=statistic == "mean")
        plot_cool(axes, numbers)
        finish(axes, n)
        axes.set_title("EI$^\\alpha$: cost saved against error lost (numbers: $\\alpha$)", fontsize=10)
        plots.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)
        thin_labels(axes)
        return save(figure, "f3", caption, numbers, out_dir)


def _caption(traces: Traces, pairs: Relative, numbers: pd.DataFrame, n: int, short: int) -> str:
    return sentence(
        f"F3. Total cost and best {traces.judge} error of {n} iterations of EI^alpha{and_of_cool(numbers)}, in percent",
        "of EI's on the same problem and seed (EI = 100), mean and median over",
        f"{scope(pairs.table, traces.evaluator)}, {span(numbers['n'], 'pair')}.",
        f"Bars: {intervals(pairs.table)}",
        THINNED,
        pairs_left_out(pairs, short, n),
        footnote(pairs.table["dataset"]),
    )

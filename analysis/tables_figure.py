"""The picture of the measured tables: the best error that each problem's rows reach, against what they cost."""

from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

import datasets
import pipelines
from analysis.incumbent import front
from analysis.marks import DAGGER, footnote, marks
from analysis.plotting import Drawn, new_figure, save, style
from analysis.scope import plural, sentence
from datasets.errors import BadInput
from tabular_cache.schema import problem_name
from tabular_cache.table import TABLES, load_table, read_manifest

COST, ERROR = "scaled_s", "val_error"
_COLUMNS, _FEWEST_PANELS = 6, 3
_WIDE = 5.0  # a range of errors, as a ratio, that ticks at 1, 2, 5 serve better than even ones
_COLOURS = ("#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")  # Okabe, Ito 2008


def numbers(folder: Path = TABLES) -> pd.DataFrame:
    """Return the fronts of all tables in `folder`, a row per point: dataset, pipeline, cost_s, error.

    Raises BadInput where there is no table of a problem of the study.
    """
    present, parts = set(read_manifest(folder)["tables"]), []
    for dataset in datasets.names():
        for pipeline in pipelines.names():
            if problem_name(dataset, pipeline) in present:
                table = load_table(problem_name(dataset, pipeline), folder)
                cost, error = (table[name][table.measured] for name in (COST, ERROR))
                rows = front(cost, error)
                where = {"dataset": dataset, "pipeline": pipeline, "rows": len(cost)}
                parts.append(pd.DataFrame({**where, "cost_s": cost[rows], "error": error[rows]}))
    if not parts:
        raise BadInput(f"there is no table of a problem of the study in {folder}")
    return pd.concat(parts, ignore_index=True)


def draw(out_dir: Path, folder: Path = TABLES) -> Drawn:
    """Draw `numbers`: a panel per data set, a thin line per pipeline."""
    found = numbers(folder)
    names = [name for name in datasets.names() if name in set(found["dataset"])]
    shown = found.drop_duplicates(["dataset", "pipeline"])
    columns = min(_COLUMNS, max(_FEWEST_PANELS, len(names)))
    height = -(-len(names) // columns)
    caption = sentence(
        f"The measured tables: {plural(len(shown), 'problem')}, {int(shown['rows'].sum()):,} rows. Each line is one",
        "problem's own Pareto front: the lowest validation error (misclassified share, or root mean square error; log",
        "scale) that any row reaches at no more than this cost, in CPU seconds of one training on the reference",
        "machine. Nothing is averaged. Left out: failed rows, and those that the build's time limit cut short.",
        footnote(found["dataset"]),
    )
    with style():
        figure, plots = new_figure(1.75 * columns, 1.5 * height + 0.6, caption)
        axes = plots.subplots(height, columns, sharex=True, squeeze=False).ravel()
        for axis, name in zip(axes, names, strict=False):
            _panel(axis, found[found["dataset"] == name], name)
        for axis in axes[len(names) :]:
            axis.set_axis_off()
        handles = {line.get_label(): line for axis in axes for line in axis.get_lines()}
        plots.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles), fontsize=7.5)
        for axis in axes[: len(names)][-columns:]:
            axis.set_xlabel("cost (CPU s)", fontsize=7.5)
            axis.tick_params(labelbottom=True)
        plots.supylabel("lowest validation error", fontsize=9)
        return save(figure, "tables", caption, found, out_dir)


def _panel(axis: Any, rows: pd.DataFrame, name: str) -> None:
    for colour, pipeline in zip(_COLOURS, pipelines.names(), strict=True):
        own = rows[rows["pipeline"] == pipeline]
        if len(own):
            axis.step(own["cost_s"], own["error"], where="post", color=colour, linewidth=0.9, label=pipeline)
    axis.set(xscale="log", yscale="log")
    axis.set_title(name + (DAGGER if name in marks() else ""), fontsize=8, pad=3)
    axis.tick_params(labelsize=6.5)
    low, high = rows["error"].min(), rows["error"].max()
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)) if high > _WIDE * low else MaxNLocator(4))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.yaxis.set_minor_locator(NullLocator())

"""The measured tables: a line per problem (rows, width, costs, errors), and a picture of errors against costs."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

import datasets
import pipelines
from analysis.captions import (
    DAGGER,
    caveats,
    footnote,
    markdown_table,
    plural,
    sentence,
    with_caveat,
    write_csv,
    write_page,
)
from analysis.evaluations import REPLAYED, table_of
from analysis.plotting import Drawn, new_figure, save, style
from analysis.traces import Traces, front
from datasets.catalogue import entry_of
from datasets.errors import BadInput
from tabular_cache.schema import problem_name
from tabular_cache.table import TABLES, load_table, read_manifest, read_table

COSTS = "Costs are CPU seconds, at the pace of the reference machine, of successful trainings."


def problem(problem: str, rows: pd.DataFrame, meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table's line of one problem, ``dataset/pipeline``.

    rows: the measured rows of its table, with val_error (NaN if failed) and scaled_s (seconds). meta: the manifest's
    entry. Costs are those of the successful trainings. Raises BadInput without a successful row.
    """
    ok = rows[rows["val_error"].notna()]
    if ok.empty:
        raise BadInput(f"the table of {problem} has no successful row")
    dataset, _, pipeline = problem.partition("/")
    cost, error = ok["scaled_s"].astype(float), ok["val_error"].astype(float)
    return {
        "dataset": dataset, "pipeline": pipeline,
        "rows": int(meta["n_train"] + meta["n_valid"] + meta["n_test"]),
        "width before": int(meta["width_before"]), "width": int(meta["width_after"]),
        "task": str(meta["task"]), "classes": int(meta["n_classes"]), "configurations": int(meta["configs"]),
        "measured": len(rows), "failed": len(rows) - len(ok), **_extremes(cost, error),
    }  # fmt: skip


def _extremes(cost: pd.Series, error: pd.Series) -> dict[str, float]:
    """Return mean and maximum cost, the ratio of slowest to fastest, and the extreme errors (NaN where all failed)."""
    return {
        "mean cost (s)": float(np.mean(cost.to_numpy())), "maximum cost (s)": float(cost.max()),
        "slowest/fastest": float(cost.max() / cost.min()),
        "best error": float(error.min()), "worst error": float(error.max()),
    }  # fmt: skip


def of_records(settings: Mapping[str, Counter[str]], traces: Traces, out_dir: Path) -> str:
    """Write the tables' lines for the problems that the records replayed; return one sentence about them.

    settings: the records' provenance, which says where the tables lie. Live runs have no tables.
    """
    folder = folder_of(settings, traces)
    if folder is None:
        return "The problems' table is made for replayed records of one folder of tables."
    try:
        frame = write(lines_of(traces, folder), out_dir)
    except BadInput as error:
        return f"The problems' table was not made: {error}."
    return f"[problems.md](problems.md) describes the {counted(frame)}"


def folder_of(settings: Mapping[str, Counter[str]], traces: Traces) -> Path | None:
    """Return the folder of the tables that these runs replayed; None for live runs, or where there are several."""
    components = [json.loads(text) for text in settings.get("components", ()) if text]
    folders = {c["evaluator"].get("tables") for c in components if "replay" in c["evaluator"]["_target_"]}
    return Path(folders.pop() or TABLES) if traces.evaluator in REPLAYED and len(folders) == 1 else None


def of_other_tables(frames: Mapping[str, pd.DataFrame | None], folder: Path) -> str:
    """Return which frames were replayed from other tables than those in `folder` now, in words; "" for none.

    frames: by what they are, with columns dataset, pipeline and data. Problems that are not in the folder do not count.
    Raises BadInput without a manifest.
    """
    now = {name: entry.get("sha256") for name, entry in read_manifest(folder)["tables"].items()}
    parts = []
    for what, frame in frames.items():
        if frame is None or "data" not in frame.columns:
            continue
        seen = frame[["dataset", "pipeline", "data"]].drop_duplicates().astype(str)
        made = [(f"{d}/{p}", table_of(data)[0]) for d, p, data in seen.to_numpy()]
        others = {name for name, data in made if name in now and now[name] != data}
        parts += [f"{what} on {plural(len(others), 'problem')}"] if others else []
    lead = "Replayed from other tables than those described here, which changed since"
    return f"{lead}: {'; '.join(parts)}." if parts else ""


def lines_of(traces: Traces, folder: Path) -> list[dict[str, Any]]:
    """Return the line of every problem in the runs, from its table in `folder`; with how many rows were cut short."""
    lines = []
    for dataset, pipeline in traces.runs[["dataset", "pipeline"]].drop_duplicates().itertuples(index=False, name=None):
        table = read_table(f"{dataset}/{pipeline}", folder)
        line = problem(f"{dataset}/{pipeline}", pd.DataFrame(table.columns)[table.measured], table.meta)
        lines.append({**line, "cut short": int((~table.measured).sum())})
    return lines


def counted(frame: pd.DataFrame) -> str:
    """Return what the tables hold together: rows, trainings, and how many of these were cut short."""
    cut, rows = int(frame["cut short"].sum()), int(frame["measured"].sum())
    return (
        f"{len(frame)} measured tables: {rows:,} rows. "
        f"{cut:,} of {int(frame['configurations'].sum()):,} trainings were cut short by the tables' time limit; their "
        "finished rounds are replayed, their last ones are not."
    )


def write(lines: Iterable[Mapping[str, Any]], out_dir: Path) -> pd.DataFrame:
    """Write problems.md and problems.csv, sorted by data set and pipeline, and return the table.

    Raises BadInput when there is no line.
    """
    frame = pd.DataFrame(list(lines))
    if frame.empty:
        raise BadInput("no tables to describe: build them with `python -m tabular_cache build`")
    frame = frame.sort_values(["dataset", "pipeline"], ignore_index=True)
    shown = frame.assign(dataset=frame["dataset"].map(with_caveat))
    page = ["# The problems", markdown_table(shown), COSTS, footnote(frame["dataset"])]
    write_page(out_dir / "problems.md", page)
    write_csv(frame, out_dir / "problems.csv")
    return frame


def seen(traces: Traces) -> pd.DataFrame:
    """Return what the runs themselves saw of each problem: runs, evaluations, failures, costs and errors."""
    lines = []
    for (dataset, pipeline), rows in traces.runs.groupby(["dataset", "pipeline"], sort=True):
        there = np.isfinite(traces.cost_s[rows.index])
        cost, error = (pd.Series(values[rows.index][there]) for values in (traces.cost_s, traces.error))
        lines.append({
            "dataset": with_caveat(str(dataset)), "pipeline": pipeline, "runs": len(rows),
            "evaluations": len(cost), "failed": int(error.isna().sum()), **_extremes(cost, error),
        })  # fmt: skip
    return pd.DataFrame(lines)


# The picture of the measured tables: the best error that each problem's rows reach, against what they cost.

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
                cost, error = (table[name][table.measured] for name in ("scaled_s", "val_error"))
                rows = front(cost, error)
                where = {"dataset": dataset, "pipeline": pipeline, "rows": len(cost)}
                parts.append(pd.DataFrame({**where, "cost_s": cost[rows], "error": error[rows]}))
    if not parts:
        raise BadInput(f"there is no table of a problem of the study in {folder}")
    return pd.concat(parts, ignore_index=True)


def draw_tables(out_dir: Path, folder: Path = TABLES) -> Drawn:
    """Draw `numbers`: a panel per data set, a thin line per pipeline."""
    found = numbers(folder)
    names = [name for name in datasets.names() if name in set(found["dataset"])]
    shown = found.drop_duplicates(["dataset", "pipeline"])
    columns = min(_COLUMNS, max(_FEWEST_PANELS, len(names)))
    height = -(-len(names) // columns)
    caption = sentence(
        f"The measured tables: {plural(len(shown), 'problem')}, {int(shown['rows'].sum()):,} rows. Each line is one",
        "problem's own Pareto front: the lowest validation error (misclassified share, or where it says so root",
        "mean square error; log scale) that any row reaches at no more than this cost, in CPU seconds of one training",
        "on the reference machine. Nothing is averaged. Left out: failed rows, and those that the build's time limit",
        "cut short.",
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
    unit = " (RMSE)" if entry_of(name).task == "regression" else ""
    axis.set_title(f"{name}{DAGGER if name in caveats() else ''}{unit}", fontsize=8, pad=3)
    axis.tick_params(labelsize=6.5)
    low, high = rows["error"].min(), rows["error"].max()
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)) if high > _WIDE * low else MaxNLocator(4))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.yaxis.set_minor_locator(NullLocator())

"""The settings that the density comparison reads: one folder of records each, checked to be comparable."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.components import choose
from analysis.mixing import check_same_origin, check_same_tables
from analysis.relative import finals
from analysis.traces import CELL, Traces, collect
from datasets.errors import BadInput
from harness.records import read_traces, specs
from tabular_cache.cargo import first
from tabular_cache.confirm import FILE
from tabular_cache.schema import problem_name
from tabular_cache.table import TABLES, load_table
from tabular_cache.truth import TRUTH

LIVE = "live"


def settings(folder: Path, reference: str = LIVE) -> dict[str, Traces]:
    """Return the traces of each setting, the reference first, then rows and surfaces by density.

    Without a folder `live`, the shipped live runs take its place (`tabular_cache.truth`). Raises BadInput without the
    reference, and where settings cannot be compared: runs of other lengths, methods that one has and another has
    not, tables that changed between two settings.
    """
    names = sorted((p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")), key=_order)
    paths = {name: folder / name for name in names}
    if reference == LIVE and LIVE not in paths and TRUTH.is_dir():
        paths[LIVE] = TRUTH
    if reference not in paths:
        found = ", ".join(names) or "none"
        raise BadInput(f"{folder} needs a folder {reference!r} of records to compare with; folders there: {found}")
    frames = {name: read_traces(paths[name]) for name in sorted(paths, key=lambda name: name != reference)}
    for frame in frames.values():
        check_same_origin(choose(frame, {})[0], told="")
    traces = {name: collect(frame) for name, frame in frames.items()}
    check_alike(traces, reference)
    check_same_tables(frames)
    return traces


def check_alike(traces: Mapping[str, Traces], reference: str) -> None:
    """Raise BadInput, naming the setting, unless all have the reference's methods and lengths of runs."""
    of = {name: (set(t.runs["method"]), set(t.runs["iterations"])) for name, t in traces.items()}
    methods, lengths = of[reference]
    if len(lengths) > 1:
        raise BadInput(f"{reference}: runs of one length are compared, there are {sorted(lengths)} iterations")
    for name, (own, steps) in of.items():
        if steps != lengths:
            raise BadInput(f"{name}: runs of {sorted(steps)} iterations, those of {reference} have {sorted(lengths)}")
        for here, there, lacking in ((name, reference, methods - own), (reference, name, own - methods)):
            if lacking:
                raise BadInput(f"{here}: no runs of {', '.join(sorted(lacking))}, which {there} has")


def confirmed(folder: Path, names: Iterable[str]) -> dict[str, pd.DataFrame]:
    """Return, for the settings in which it is there, what `python -m tabular_cache confirm` measured."""
    files = {name: folder / name / FILE for name in names}
    return {name: pd.read_csv(path) for name, path in files.items() if path.exists()}


def _order(name: str) -> tuple[str, int]:
    kind, _, n = name.partition("-")
    return (kind, int(n) if n.isdigit() else 0)


def n_configs(name: str) -> int | None:
    """Return the number of configurations in a setting's name; None for live."""
    found = re.search(r"-(\d+)$", name)
    return int(found[1]) if found else None


def exhausted(folder: Path, name: str, traces: Traces, cells: pd.MultiIndex) -> float:
    """Return the share of a setting's runs of these cells that end with the best error of their table.

    NaN where none is replayed, or a table is another one now than when it was replayed.
    """
    best: dict[tuple[str, str], float] = {}
    for spec in specs(folder / name):
        key, evaluator = (spec["dataset"], spec["pipeline"]), spec["components"]["evaluator"]
        if spec["evaluator"] != "replay":
            return float("nan")
        if key not in best:
            table = load_table(problem_name(*key), Path(evaluator["tables"] or TABLES))
            if table.meta["sha256"] != spec["data"]:
                return float("nan")
            known = table.measured & first(table, evaluator["n_configs"])
            best[key] = float(np.nanmin(table["val_error"][known]))
    last = finals(traces)
    last = last[pd.MultiIndex.from_frame(last[CELL]).isin(cells)]
    goal = [best[d, p] for d, p in zip(last["dataset"], last["pipeline"], strict=True)]
    return float((last["final_error"].to_numpy() <= np.array(goal)).mean())

"""The tables as files that other tools read: HPO-B's JSON, Syne Tune's blackbox folder, packages of OptunaHub.

All hold measured trainings only. What failed or was cut short is left out, or NaN (Syne Tune).

    OUT/meta-test-dataset.json      HPO-B: {space: {problem: {X: n x 7 in [0, 1], y: n x 1, cost: n x 1}}}
    OUT/bo-initializations.json     HPO-B: {space: {problem: {test0: 5 row numbers, ..., test4}}}
    OUT/configspace.json, fidelityspace.json, hyperparameters.parquet, metadata.json,
    OUT/fidelities_values.npy, objectives_evaluations.npy       Syne Tune
    OUT/benchmarks/cost_aware_xgboost, OUT/samplers/cost_aware_bo: __init__.py, README.md, LICENSE; the former with
    tables/space.json and tables/DATASET--PIPELINE.npz          OptunaHub: what its registry holds in `package`

Sources: Pineda Arango, Jomaa, Wistuba and Grabocka 2021, "HPO-B" (`hpob_handler.py`); Salinas et al. 2022, "Syne Tune"
(`blackbox_repository`).
"""

import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from datasets.files import write_atomically
from harness.errors import BadInput
from harness.problem import OK
from harness.space import XGBOOST_SPACE, Parameter
from tabular_cache.replay import ReplayProblem
from tabular_cache.schema import configuration, problem_name
from tabular_cache.table import Table, configurations, read_table

SPACE = "cost_aware_xgboost"  # HPO-B's search_space_id
SEEDS, INITIAL = 5, 5  # of HPO-B: named test0 to test4, of five points each
OBJECTIVES = ("metric_error", "metric_loss", "metric_test_error", "metric_elapsed_time")
_COLUMNS = ("val_error", "val_loss", "test_error", "scaled_s")
Problems = Sequence[tuple[str, str]]


def _usable(table: Table) -> np.ndarray:
    ok = table.statuses.index(OK) if OK in table.statuses else -1
    return np.asarray(table.measured & (table.status == ok))


def _written(target: Path, files: Mapping[str, bytes]) -> list[Path]:
    target.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_atomically(target / name, content)
    return [target / name for name in files]


def to_hpob(problems: Problems, tables: Path, target: Path) -> list[Path]:
    """Write HPO-B's two files and return their paths; raises BadInput for a table that cannot be read, or too small.

    X: the unit cube, in the order of `XGBOOST_SPACE`; y: minus the validation error, since HPO-B maximises; cost:
    seconds on the reference machine. test0 to test4 begin with the initial points of seeds 0 to 4 of this benchmark.
    """
    data: dict[str, Any] = {}
    begin: dict[str, Any] = {}
    for problem in (problem_name(*pair) for pair in problems):
        table = read_table(problem, tables)
        rows = np.flatnonzero(_usable(table))
        place = {int(row): i for i, row in enumerate(rows)}
        data[problem] = {
            "X": table.unit[rows].tolist(),
            "y": (-table["val_error"][rows, None]).tolist(),
            "cost": table["scaled_s"][rows, None].tolist(),
        }
        begin[problem] = {}
        for seed in range(SEEDS):
            replay, there = ReplayProblem(table, seed, 2), int(table.longest.sum())
            drawn = [row for n in (INITIAL, 4 * INITIAL) for row in replay.initial(min(n, there)).ids.tolist()]
            first = list(dict.fromkeys(place[row] for row in drawn if row in place))[:INITIAL]  # more where some failed
            if len(first) < INITIAL:
                raise BadInput(f"the table of {problem} has too few trainings that succeeded to begin with")
            begin[problem][f"test{seed}"] = first
    files = {"meta-test-dataset.json": data, "bo-initializations.json": begin}
    return _written(target, {name: json.dumps({SPACE: content}).encode() for name, content in files.items()})


def to_synetune(problems: Problems, tables: Path, target: Path) -> list[Path]:
    """Write Syne Tune's folder of one blackbox with a task per problem; raises BadInput for an unreadable table.

    objectives_evaluations: (tasks, configurations, 1 seed, 1 fidelity, objectives) in float32; NaN where a problem has
    no such training. All tasks share the configurations, at their own numbers of boosting rounds.
    """
    names = [problem_name(*pair) for pair in problems]
    n = max((configurations(read_table(name, tables)) for name in names), default=0)
    values = np.full((len(names), n, 1, 1, len(OBJECTIVES)), np.nan, dtype=np.float32)
    for task, name in enumerate(names):
        table = read_table(name, tables)
        rows = np.flatnonzero(_usable(table) & table["own"])
        for k, column in enumerate(_COLUMNS):
            values[task, table["config"][rows], 0, 0, k] = table[column][rows]
    native = np.array([configuration(i) for i in range(n)]).reshape(n, len(XGBOOST_SPACE))
    columns = {
        p.name: native[:, j].astype(np.int64 if p.integer else np.float64)
        for j, p in enumerate(XGBOOST_SPACE.parameters)
    }
    table_file = io.BytesIO()
    pq.write_table(pa.table(columns), table_file, compression="gzip", use_dictionary=False)  # plain: read by any engine
    space = {p.name: _domain(p) for p in XGBOOST_SPACE.parameters}
    once = _domain(Parameter("repeat", 1, 2, integer=True)) | {"domain_kwargs": {"lower": 1, "upper": 1}}
    metadata = {
        "objectives_names": list(OBJECTIVES),
        "task_names": names,
        "metric_mode": "min",
        "elapsed_time_attr": "metric_elapsed_time",
    }
    return _written(
        target,
        {
            "configspace.json": json.dumps(space).encode(),
            "fidelityspace.json": json.dumps({"repeat": once}).encode(),
            "metadata.json": json.dumps(metadata).encode(),
            "hyperparameters.parquet": table_file.getvalue(),
            "fidelities_values.npy": _npy(np.array([1])),
            "objectives_evaluations.npy": _npy(values),
        },
    )


PACKAGES = Path(__file__).parent / "optunahub"
BENCHMARK = "benchmarks/cost_aware_xgboost"


def to_optunahub(problems: Problems, tables: Path, target: Path) -> list[Path]:
    """Write a benchmark and a sampler as packages of OptunaHub's registry; raises BadInput for an unreadable table.

    A table is X (native values, in the order of space.json), error, test_error and cost (seconds on the reference
    machine), in float32. `optunahub.load_local_module("benchmarks/cost_aware_xgboost", registry_root=target)` loads it.
    """
    written = []
    for path in sorted(PACKAGES.glob("*/*")):
        files = {file.name: file.read_bytes() for file in sorted(path.iterdir()) if file.is_file()}
        files["LICENSE"] = (PACKAGES.parents[1] / "LICENSE").read_bytes()
        written += _written(target / path.relative_to(PACKAGES), files)
    content = {"space.json": json.dumps([asdict(p) for p in XGBOOST_SPACE.parameters], indent=1).encode()}
    for dataset, pipeline in problems:
        table, file = read_table(problem_name(dataset, pipeline), tables), io.BytesIO()
        rows = np.flatnonzero(_usable(table))
        columns = {"error": "val_error", "test_error": "test_error", "cost": "scaled_s"}
        arrays: dict[str, Any] = {name: table[column][rows].astype(np.float32) for name, column in columns.items()}
        native = np.asfortranarray(table.native[rows], dtype=np.float32)  # by column, which is half the size packed
        np.savez_compressed(file, X=native, **arrays)
        content[f"{dataset}--{pipeline}.npz"] = file.getvalue()
    return [*written, *_written(target / BENCHMARK / "tables", content)]


def _domain(p: Parameter) -> dict[str, Any]:
    """Return a parameter as Syne Tune writes a domain."""
    kind = int if p.integer else float
    sampler: dict[str, Any] = {"sampler_cls": "Uniform", "sampler_kwargs": {}}
    if p.log:
        sampler = {"sampler_cls": "LogUniform", "sampler_kwargs": {"base": math.e}}
    bounds = {"lower": kind(p.low), "upper": kind(p.high)}
    return {"domain_cls": "Integer" if p.integer else "Float", "domain_kwargs": bounds, **sampler}


def _npy(values: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, values, allow_pickle=False)
    return out.getvalue()


FORMATS: dict[str, Callable[[Problems, Path, Path], list[Path]]] = {
    "hpob": to_hpob,
    "synetune": to_synetune,
    "optunahub": to_optunahub,
}

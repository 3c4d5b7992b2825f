"""Records: one sealed parquet file per block, written once and never touched again; reading, writing and checking them.

results/<dataset>/<pipeline>/<method>-<spec hash>/seeds-0-9.parquet             traces
                                                  seeds-0-9.timings.parquet     the optimizer's own milliseconds
                                                  seeds-0-9.models.parquet      hyperparameters, effective alphas
                                                  seeds-0-9.fronts.parquet      EI-cost fronts, where asked for

A block is one problem x one method x some seeds. Its file carries its spec; what a spec's seeds have on disk is
complete, since a file appears under its name only when the whole block is done, and its seal finds a changed byte.
Experiments beside the study keep a record per case (`harness.sealed`).
"""

import hashlib
import importlib
import importlib.util
import json
import math
import platform
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from datasets.files import write_atomically
from harness.config import targets_in
from harness.errors import BadInput, folder
from harness.sealed import (
    MODELS_SUFFIX,
    RECORDED_AS,
    TIMINGS_SUFFIX,
    check_place,
    check_seal,
    damage_named,
    parse_spec,
    read_parquet,
    sealed_parquet,
    spec_hash,
)
from harness.space import XGBOOST_SPACE

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd


LARGEST_SEED = 2**31 - 1  # what the column holds
FRONTS_SUFFIX = ".fronts.parquet"
READERS, READ_AT_ONCE = 2, 32  # threads, and how many files each takes at a time

TRACE = pa.schema(
    [
        ("seed", pa.int32()),
        ("step", pa.int32()),
        ("candidate", pa.int64()),
        ("error", pa.float64()),
        ("test_error", pa.float64()),
        ("cost_s", pa.float64()),
        ("wall_s", pa.float64()),
        ("status", pa.string()),
        ("predicted_cost_s", pa.float64()),
        ("log_ei", pa.float64()),
        ("effective_alpha", pa.float64()),
        *((name, pa.float32()) for name in XGBOOST_SPACE.names),
    ]
)
TIMINGS = pa.schema(
    [("seed", pa.int32()), ("step", pa.int32()), ("fit_ms", pa.float32()), ("propose_ms", pa.float32())]
)
MODELS = pa.schema(
    [
        ("seed", pa.int32()),
        ("step", pa.int32()),
        ("effective_alpha_low", pa.float64()),
        ("effective_alpha_high", pa.float64()),
        ("log_length_scales", pa.list_(pa.float64())),
        ("log_signal_variance", pa.float64()),
        ("log_noise_variance", pa.float64()),
    ]
)
FRONTS = pa.schema(
    [
        ("seed", pa.int32()),
        ("step", pa.int32()),
        ("candidate", pa.int64()),
        ("log_ei", pa.float64()),
        ("log_cost", pa.float64()),
        ("chosen", pa.bool_()),
        ("then_log_ei", pa.float64()),
        ("then_log_cost", pa.float64()),
        ("stays", pa.bool_()),
        ("stays_for", pa.int32()),
    ]
)


def block_folder(results: Path, spec: dict[str, Any]) -> Path:
    """Return the folder of all files of a spec, whatever their seeds."""
    label = re.sub(r"[^A-Za-z0-9.=,+-]+", "_", spec["method"]).strip("_")
    return results / spec["dataset"] / spec["pipeline"] / f"{label}-{spec_hash(spec)}"


def trace_files(folder: Path) -> list[Path]:
    """Return the files of traces under `folder`, sorted."""
    beside = (TIMINGS_SUFFIX, MODELS_SUFFIX, FRONTS_SUFFIX)
    return sorted(p for p in folder.rglob("seeds-*.parquet") if not p.name.endswith(beside))


def front_files(folder: Path) -> list[Path]:
    """Return the files of fronts under `folder`, sorted."""
    return sorted(folder.rglob(f"seeds-*{FRONTS_SUFFIX}"))


# Checks of a record: its seal, its schema, and that its spec belongs where it lies.

RECORD_SCHEMA = 2


class OtherSchema(BadInput):
    """A record of another version of the project, which is as it was written: nothing to move away or make again."""


def checked_header(path: Path, content: bytes) -> dict[str, Any]:
    """Return the header of the records file `content`, found at `path`: schema, spec, seeds, versions.

    Raises DamagedRecord if a byte has changed, BadInput if its spec does not belong into that folder.
    """
    with damage_named(path):
        return _checked(path, content, pq.read_schema(pa.BufferReader(content)))


def _checked(
    path: Path, content: bytes, schema: pa.Schema, metadata: Mapping[bytes, bytes] | None = None
) -> dict[str, Any]:
    header = header_of(path, schema)
    check_seal(content, metadata)
    check_place(path, path.parent.name, _header_and_hash(schema.metadata[b"block"])[1])
    return header


def read_block(path: Path, schema: pa.Schema) -> tuple[dict[str, Any], pa.Table]:
    """Return the header of a records file, as `checked_header` does, and the columns of `schema`; opens it once."""
    with damage_named(path):
        content = path.read_bytes()
        with pq.ParquetFile(pa.BufferReader(content)) as file:
            header = _checked(path, content, file.schema_arrow, file.metadata.metadata)
            # threads of its own are slower for files as small as these
            table = file.read(columns=schema.names, use_threads=False).replace_schema_metadata(None)
            return header, table if table.schema == schema else table.select(schema.names).cast(schema)


def read_header(path: Path) -> dict[str, Any]:
    """Return a record's header: schema, spec and seeds. Raises BadInput for a damaged file."""
    with damage_named(path):
        return header_of(path, pq.read_schema(path))


def header_of(path: Path, schema: pa.Schema) -> dict[str, Any]:
    """Return the header in a record's metadata; raises KeyError or ValueError for damage, OtherSchema."""
    header, _ = _header_and_hash((schema.metadata or {})[b"block"])
    if header["schema"] != RECORD_SCHEMA:
        raise OtherSchema(f"{path} has record schema {header['schema']}, this version reads {RECORD_SCHEMA}")
    return dict(header)


@lru_cache(maxsize=2 * READERS)
def _header_and_hash(block: bytes) -> tuple[dict[str, Any], str]:
    """Return a header and its spec's hash; kept for the models, which have the same one as the trace beside them."""
    header = parse_spec(block)
    return header, spec_hash(header["spec"]) if header["schema"] == RECORD_SCHEMA else ""


def seeds_done(results: Path, spec: dict[str, Any], fronts: bool = False) -> set[int]:
    """Return the seeds of a spec that are on disk, complete: their traces, or their `fronts`.

    Raises BadInput for a damaged file.
    """
    folder, done = block_folder(results, spec), set[int]()
    for path in front_files(folder) if fronts else trace_files(folder):
        done.update(read_header(path)["seeds"])
    return done


def read_proposals(results: Path, spec: dict[str, Any]) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield header and proposed steps of each of a spec's records: the columns of trace, milliseconds and models.

    Of a record that comes from a packed one the milliseconds of most seeds are not known: NaN. Records of which one of
    these files is missing or damaged are passed over.
    """
    for path in trace_files(block_folder(results, spec)):
        try:
            contents = [path.with_suffix(suffix).read_bytes() for suffix in (".parquet", TIMINGS_SUFFIX, MODELS_SUFFIX)]
            headers = [checked_header(path, content) for content in contents]
            trace, *others = (read_parquet(content) for content in contents)
        except (BadInput, OSError):
            continue
        rows = {(row["seed"], row["step"]): row for row in others[0].to_pylist()}
        for row in others[1].to_pylist():
            step = row["seed"], row["step"]
            if headers[0].get("rounded"):
                rows.setdefault(step, dict.fromkeys(TIMINGS.names, math.nan))
            rows[step].update(row)
        known = [row for row in trace.to_pylist() if (row["seed"], row["step"]) in rows]
        yield headers[0], [rows[row["seed"], row["step"]] | row for row in known]


# Records as frames: traces with the description of their block, and the optimizer's milliseconds.

COMPONENTS = ("evaluator", "utility", "surrogate", "cost_model", "cost_statistic")  # by which runs of a method differ
_TEXT = ("dataset", "pipeline", "acq", "method", *COMPONENTS, "data", "engine")
_NUMBERS = ("lam", "alpha", "tau")
_BEFORE = {"cost_statistic": "exp_mean", "data": "", "engine": "", "plans_ahead": True}  # where a spec does not say it


def specs(results_dir: Path) -> list[dict[str, Any]]:
    """Return the spec of every block on disk, in the order of the files. Raises BadInput for a damaged file."""
    return [read_header(path)["spec"] for path in trace_files(results_dir)]


@dataclass(frozen=True)
class Block:
    """A record of traces that was read: where it lies, its header (schema, spec, seeds, versions), its evaluations."""

    path: Path
    header: dict[str, Any]
    table: pa.Table


def read_blocks(
    results_dir: Path,
    only: Container[str] | None = None,
    columns: Sequence[str] = tuple(TRACE.names),
    of_models: Sequence[str] = (),
) -> list[Block]:
    """Return every record on disk, in the order of the files.

    only: the hashes of the specs whose records to return, None for all. columns: of `TRACE`, seed and step among them;
    of_models: numbers of `MODELS` to add, NaN where a step has none. Raises BadInput when there is nothing, or a file
    is damaged or lies where its spec does not belong.
    """
    wanted, beside = (
        pa.schema([schema.field(name) for name in names])
        for schema, names in ((TRACE, columns), (MODELS, ("seed", "step", *of_models)))
    )
    paths = _trace_files_of(results_dir, only)

    def read(path: Path) -> Block:
        header, part = read_block(path, wanted)
        return Block(path, header, _with_models(part, path, beside) if of_models else part)

    def read_some(first: int) -> list[Block]:
        return [read(path) for path in paths[first : first + READ_AT_ONCE]]

    with ThreadPoolExecutor(READERS) as pool:  # files are read, checked and decoded without the interpreter's lock
        found = [block for some in pool.map(read_some, range(0, len(paths), READ_AT_ONCE)) for block in some]
    if not found:
        raise BadInput(f"no records in {results_dir}: run `python -m harness` first, or give results_dir=...")
    return found


def describe(blocks: Sequence[Block]) -> "dict[str, pd.Categorical | np.ndarray]":
    """Return what `read_traces` says of the evaluations of each block, by column."""
    import numpy as np
    import pandas as pd

    specs = [{**_BEFORE, **block.header["spec"]} for block in blocks]
    found: dict[str, Any] = {name: pd.Categorical([str(spec[name]) for spec in specs]) for name in _TEXT}
    for name in _NUMBERS:
        found[name] = np.array([np.nan if spec[name] is None else spec[name] for spec in specs], dtype=np.float64)
    for name in ("plans_ahead", "iterations"):
        found[name] = np.array([spec[name] for spec in specs])
    return found | {"spec": pd.Categorical([block.path.parent.name.rpartition("-")[2] for block in blocks])}


def read_traces(results_dir: str | Path, only: Container[str] | None = None) -> "pd.DataFrame":
    """Return every evaluation on disk with its block's description; see `TRACE`.

    Adds dataset, pipeline, acq, lam, alpha, tau (NaN where they do not apply), method, evaluator, data (the hash of
    the problem's content), engine, iterations (as planned) and plans_ahead (False where a user's rule says that its
    choices do not depend on that). only, and what is raised: see `read_blocks`.
    """
    import numpy as np

    blocks = read_blocks(folder("results_dir", results_dir), only)
    frame = pa.concat_tables([block.table for block in blocks]).to_pandas()
    rows = np.repeat(np.arange(len(blocks)), [len(block.table) for block in blocks])
    for name, values in describe(blocks).items():
        frame[name] = values.take(rows)
    seeds = [(block.path.parent, seed) for block in blocks for seed in block.header["seeds"]]
    key = ["dataset", "pipeline", "spec", "seed", "step"]
    return frame if len(set(seeds)) == len(seeds) else frame.drop_duplicates(key, ignore_index=True)


def _with_models(trace: pa.Table, path: Path, schema: pa.Schema) -> pa.Table:
    """Return the trace at `path` with columns of the models beside it, by seed and step; NaN where there are none."""
    import numpy as np

    path = path.with_suffix(MODELS_SUFFIX)

    def keys(table: pa.Table) -> Any:
        return table["seed"].to_numpy().astype(np.int64) << 32 | table["step"].to_numpy()

    found = read_block(path, schema)[1] if path.exists() else schema.empty_table()
    own, steps = keys(found), keys(trace)
    order = np.argsort(steps, kind="stable")  # next to nothing for steps in their order, as they are
    at = order[np.minimum(np.searchsorted(steps, own, sorter=order), len(steps) - 1)]
    known = steps[at] == own
    for name in schema.names[2:]:
        values = np.full(len(trace), np.nan)
        values[at[known]] = found[name].to_numpy()[known]
        trace = trace.append_column(name, pa.array(values))
    return trace


def read_timings(results_dir: Path, only: Container[str] | None = None) -> "pd.DataFrame":
    """Return the optimizer's own milliseconds: spec, seed, step, fit_ms, propose_ms. Raises BadInput for damage.

    only: the hashes of the specs whose milliseconds to return, None for all.
    """
    return _beside_traces(results_dir, TIMINGS_SUFFIX, TIMINGS, only)


def read_models(results_dir: Path) -> "pd.DataFrame":
    """Return what the optimizer fitted at each step that it proposed: spec, seed, step, and the columns of `MODELS`.

    effective_alpha_low, effective_alpha_high: the alphas for which EI^alpha would have made the choice (`cost_rules.
    effective_alpha`). log_length_scales (arrays), log_signal_variance, log_noise_variance: see `surrogates.
    Hyperparameters`; None and NaN where the surrogate is no Gaussian process of this project. All are None or NaN where
    the rule uses no models. Records from before these were kept have none: their steps are missing. Raises BadInput for
    damage.
    """
    return _beside_traces(results_dir, MODELS_SUFFIX, MODELS, None, optional=True)


def _trace_files_of(results: Path, only: Container[str] | None) -> list[Path]:
    """Return the files of the traces of these specs, by their hashes; None: of all."""
    return [p for p in trace_files(results) if only is None or p.parent.name.rpartition("-")[2] in only]


def _beside_traces(
    results_dir: Path, suffix: str, schema: pa.Schema, only: Container[str] | None, optional: bool = False
) -> "pd.DataFrame":
    """Return the rows of the files beside the traces, with their specs' hashes; optional: some may be missing."""
    import pandas as pd

    parts = [pd.DataFrame({"spec": pd.Series(dtype=str), **{name: [] for name in schema.names}})]
    for path in (path.with_suffix(suffix) for path in _trace_files_of(results_dir, only)):
        if not optional or path.exists():
            header, table = read_block(path, schema)
            parts.append(table.to_pandas().assign(spec=spec_hash(header["spec"])))
    return pd.concat(parts, ignore_index=True).drop_duplicates(["spec", "seed", "step"], ignore_index=True)


# What a trace's bytes depend on besides its spec: versions of libraries, and the compiler's target.

_LIBRARIES = ("numba", "numpy", "pyarrow", "scikit-learn", "scipy", "xgboost-cpu")
TARGET = "compiler target"


@cache
def libraries() -> Mapping[str, str]:
    """Return the versions of Python and of the libraries that compute a trace, by name; "none" for one not there."""
    found = {"python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:  # another build of it, or none: what needs it will say so
            found[library] = "none"
    return found


def versions() -> dict[str, str]:
    """Return the versions of Python and the libraries, and under TARGET what the inner loops are compiled for."""
    from harness.compile_cache import target

    return {**libraries(), TARGET: target()}


# Writing records.


def block_files(
    spec: dict[str, Any],
    seeds: list[int],
    trace: dict[str, Any],
    timings: dict[str, Any],
    fronts: dict[str, Any] | None = None,
    seconds: float | None = None,
    made_with: Mapping[str, str] | None = None,
    models: dict[str, Any] | None = None,
    rounded: bool = False,
) -> dict[str, bytes]:
    """Return the files of one block (columns as lists) by their path below the results, the trace last.

    seconds: what computing the block took on its worker, kept with the timings. made_with: versions, where the runs are
    not of this process. models: what was fitted, None where that is not known. rounded: whether some of what describes
    the optimizer comes from packed records (`tabular_cache.packed`) and is less precise, which the header says.
    """
    made_with = versions() if made_with is None else dict(made_with)
    header = {"schema": RECORD_SCHEMA, "spec": spec, "seeds": sorted(seeds), "versions": made_with}
    if rounded:
        header["rounded"] = True
    stem = block_folder(Path(), spec) / f"seeds-{ranges(sorted(seeds))}"
    files = {} if fronts is None else {f"{stem}{FRONTS_SUFFIX}": _parquet(fronts, FRONTS, header)}
    if models is not None:
        files[f"{stem}{MODELS_SUFFIX}"] = _parquet(models, MODELS, header)
    files[f"{stem}{TIMINGS_SUFFIX}"] = _parquet(timings, TIMINGS, header | {"seconds": seconds})
    return {**files, f"{stem}.parquet": _parquet(trace, TRACE, header)}


def write_block(results: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of one block in their order, so that the trace, last, makes it count; OSError if that fails."""
    for name, content in files.items():
        write_atomically(results / name, content)


def _parquet(columns: dict[str, Any], schema: pa.Schema, header: dict[str, Any]) -> bytes:
    block = json.dumps(header, sort_keys=True)
    return sealed_parquet(pa.table(columns, schema=schema.with_metadata({"block": block})))


def ranges(seeds: Sequence[int]) -> str:
    """Return sorted seeds as 0-9 or 0-3,7, as they stand in the names of a block's files."""
    parts, start = [], 0
    for i in range(1, len(seeds) + 1):
        if i == len(seeds) or seeds[i] != seeds[i - 1] + 1:
            first, last = seeds[start], seeds[i - 1]
            parts.append(f"{first}-{last}" if last > first else f"{first}")
            start = i
    return ",".join(parts)


_NOT_OURS = ("sklearn.", "xgboost.")


def code_of(*configs: Any) -> dict[str, str]:
    """Return the SHA-256 of the source of each target that is not in RECORDED_AS: users' own, and not yet shipped.

    What such a module imports is not covered.
    """
    named = {target for config in configs for target, _ in targets_in(config) if isinstance(target, str)}
    own = {target for target in named if not target.startswith(_NOT_OURS)} - RECORDED_AS.keys()
    return {target: sha for target in sorted(own) if (sha := _source(target)) is not None}


def _source(target: str) -> str | None:
    parts = target.split(".")
    for n in range(len(parts) - 1, 0, -1):  # the longest part of it that is a module
        try:
            found = importlib.util.find_spec(".".join(parts[:n]))
        except (ImportError, ValueError):
            continue
        if found is not None and found.origin is not None and Path(found.origin).is_file():
            return hashlib.sha256(Path(found.origin).read_bytes()).hexdigest()
    return None

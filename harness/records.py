"""Records: one parquet file per block, written once and never touched again.

A block is one problem x one method x some seeds. Its file carries its spec; what a spec's seeds have on disk is
complete, since a file appears under its name only when the whole block is done, and sealed, so that a changed byte
is found (`harness.sealing`). The optimizer's own milliseconds, which no two runs share, lie in a `.timings.parquet`
beside it, with the seconds that the block took, and where they were asked for, the EI-cost fronts of every step
(`harness.fronts`) in a `.fronts.parquet`.

    results/<dataset>/<pipeline>/<method>-<spec hash>/seeds-0-9.parquet
"""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import BadInput
from harness.files import write_atomically
from harness.sealing import check_seal, has_seal, sealed_parquet
from harness.space import XGBOOST_SPACE
from harness.versions import versions

if TYPE_CHECKING:
    import pandas as pd

RECORD_SCHEMA = 2
_UNSEALED = 1  # the schema of records from before seals and versions, which are still read
_TEXT = ("dataset", "pipeline", "acq", "method", "evaluator", "utility", "surrogate", "cost_model", "cost_statistic")
_MADE_OF = ("data", "engine")  # what records must share to be compared: a problem's table, the way of choosing
_BEFORE = {"cost_statistic": "exp_mean"}  # what records from before a setting was written down were made with
_NUMBERS = ("lam", "alpha", "tau")
_TIMINGS, _FRONTS = ".timings.parquet", ".fronts.parquet"

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
    ]
)


def spec_hash(spec: dict[str, Any]) -> str:
    """Return the hash that names a spec: SHA-256 of its canonical JSON, 16 hex digits."""
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:16]


def block_folder(results: Path, spec: dict[str, Any]) -> Path:
    """Return the folder of all files of a spec, whatever their seeds."""
    label = re.sub(r"[^A-Za-z0-9.=,+-]+", "_", spec["method"]).strip("_")
    return results / spec["dataset"] / spec["pipeline"] / f"{label}-{spec_hash(spec)}"


def seeds_done(results: Path, spec: dict[str, Any], fronts: bool = False) -> set[int]:
    """Return the seeds of a spec that are on disk, complete: their traces, or their `fronts`.

    Raises BadInput for a damaged file.
    """
    folder, done = block_folder(results, spec), set[int]()
    for path in front_files(folder) if fronts else trace_files(folder):
        done.update(read_header(path)["seeds"])
    return done


def write_block(
    results: Path,
    spec: dict[str, Any],
    seeds: list[int],
    trace: dict[str, Any],
    timings: dict[str, Any],
    fronts: dict[str, Any] | None = None,
    seconds: float | None = None,
) -> Path:
    """Write the traces of one block (columns as lists) and its timings; the trace, last, makes it count.

    With `fronts`, these are written; a trace that is there already, the same run's, stays untouched.
    seconds: what computing the block took on its worker, kept with the timings.
    """
    folder = block_folder(results, spec)
    header = {"schema": RECORD_SCHEMA, "spec": spec, "seeds": sorted(seeds), "versions": versions()}
    stem = f"seeds-{_ranges(sorted(seeds))}"
    path = folder / f"{stem}.parquet"
    if fronts is not None:
        write_atomically(folder / f"{stem}{_FRONTS}", _parquet(fronts, FRONTS, header))
        if seeds_done(results, spec) >= set(seeds):
            return path
    write_atomically(folder / f"{stem}{_TIMINGS}", _parquet(timings, TIMINGS, header | {"seconds": seconds}))
    write_atomically(path, _parquet(trace, TRACE, header))
    return path


def specs(results_dir: Path) -> list[dict[str, Any]]:
    """Return the spec of every block on disk, in the order of the files. Raises BadInput for a damaged file."""
    return [read_header(path)["spec"] for path in trace_files(results_dir)]


def read_traces(results_dir: str | Path) -> "pd.DataFrame":
    """Return every evaluation on disk with its block's description; see `TRACE` and the module's columns.

    Adds dataset, pipeline, acq, lam, alpha, tau (NaN where they do not apply), method, evaluator, data (the hash of
    the problem's content), engine and iterations (the planned number). Raises BadInput when there is nothing, or a
    file is damaged or lies where its spec does not belong.
    """
    import numpy as np
    import pandas as pd

    files = trace_files(Path(results_dir))
    if not files:
        raise BadInput(f"no records in {results_dir}: run `python -m harness` first, or give results_dir=...")
    parts, sizes, headers = [], [], []
    for path in files:
        with damage_named(path):
            content = path.read_bytes()
            headers.append(checked_header(path, content)["spec"])
            table = pq.read_table(pa.BufferReader(content))
            parts.append(table.select(TRACE.names).cast(TRACE))
        sizes.append(len(table))
    frame = pa.concat_tables(parts).to_pandas()
    for name in _TEXT:
        values = pd.Categorical([str({**_BEFORE, **spec}[name]) for spec in headers])
        frame[name] = values.take(np.repeat(np.arange(len(headers)), sizes))
    for name in _MADE_OF:
        values = pd.Categorical([str(spec.get(name, "")) for spec in headers])
        frame[name] = values.take(np.repeat(np.arange(len(headers)), sizes))
    for name in _NUMBERS:
        numbers = [np.nan if spec[name] is None else spec[name] for spec in headers]
        frame[name] = np.repeat(np.array(numbers, dtype=np.float64), sizes)
    frame["iterations"] = np.repeat([spec["iterations"] for spec in headers], sizes)
    frame["spec"] = np.repeat([spec_hash(spec) for spec in headers], sizes)
    return frame.drop_duplicates(["dataset", "pipeline", "spec", "seed", "step"], ignore_index=True)


def read_timings(results_dir: Path) -> "pd.DataFrame":
    """Return the optimizer's own milliseconds: spec, seed, step, fit_ms, propose_ms. Raises BadInput for damage."""
    import pandas as pd

    parts = [pd.DataFrame({"spec": pd.Series(dtype=str), **{name: [] for name in TIMINGS.names}})]
    for path in trace_files(results_dir):
        path = path.with_suffix(".timings.parquet")
        with damage_named(path):
            table = pq.read_table(path)
            spec = _header(path, table.schema)["spec"]
            parts.append(table.select(TIMINGS.names).to_pandas().assign(spec=spec_hash(spec)))
    return pd.concat(parts, ignore_index=True).drop_duplicates(["spec", "seed", "step"], ignore_index=True)


def trace_files(folder: Path) -> list[Path]:
    """Return the files of traces under `folder`, sorted."""
    return sorted(p for p in folder.rglob("seeds-*.parquet") if not p.name.endswith((_TIMINGS, _FRONTS)))


def front_files(folder: Path) -> list[Path]:
    """Return the files of fronts under `folder`, sorted."""
    return sorted(folder.rglob(f"seeds-*{_FRONTS}"))


def is_front(path: Path) -> bool:
    """Say whether a file of a block is one of fronts, which may come after the trace."""
    return path.name.endswith(_FRONTS)


def record_files(folder: Path) -> list[Path]:
    """Return the files under `folder` that say what is done, traces and fronts."""
    return sorted([*trace_files(folder), *front_files(folder)])


class DamagedRecord(BadInput):
    """A records file whose bytes are not those that were written."""


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Turn what reading a damaged record raises into DamagedRecord, which names the file."""
    try:
        yield
    except BadInput:
        raise
    except (OSError, KeyError, ValueError, TypeError, AttributeError, RecursionError, pa.ArrowException) as error:
        why = str(error) if type(error) is ValueError else type(error).__name__
        raise DamagedRecord(f"damaged record {path} ({why}): move it away and run again") from None


def checked_header(path: Path, content: bytes) -> dict[str, Any]:
    """Return what the records file `content`, found at `path`, says of itself: schema, spec, seeds, versions.

    Raises DamagedRecord if a byte has changed, BadInput if its spec does not belong into that folder.
    """
    with damage_named(path):
        header = _header(path, pq.read_schema(pa.BufferReader(content)))
        if header["schema"] != _UNSEALED or has_seal(content):
            check_seal(content)
        named, own = path.parent.name.rpartition("-")[2], spec_hash(header["spec"])
    if named != own:
        raise BadInput(f"foreign record {path}: its spec is {own}, its folder's {named}; move it away")
    return header


def read_header(path: Path) -> dict[str, Any]:
    """Return what a record says of itself: schema, spec and seeds. Raises BadInput for a damaged file."""
    with damage_named(path):
        return _header(path, pq.read_schema(path))


def _header(path: Path, schema: pa.Schema) -> dict[str, Any]:
    header = json.loads((schema.metadata or {})[b"block"])
    if header["schema"] not in (RECORD_SCHEMA, _UNSEALED):
        raise BadInput(f"{path} has record schema {header['schema']}, this version reads up to {RECORD_SCHEMA}")
    return dict(header)


def _parquet(columns: dict[str, Any], schema: pa.Schema, header: dict[str, Any]) -> bytes:
    block = json.dumps(header, sort_keys=True)
    return sealed_parquet(pa.table(columns, schema=schema.with_metadata({"block": block})))


def _ranges(seeds: list[int]) -> str:
    """Return sorted seeds as 0-9 or 0-3,7."""
    parts, start = [], 0
    for i in range(1, len(seeds) + 1):
        if i == len(seeds) or seeds[i] != seeds[i - 1] + 1:
            first, last = seeds[start], seeds[i - 1]
            parts.append(f"{first}-{last}" if last > first else f"{first}")
            start = i
    return ",".join(parts)

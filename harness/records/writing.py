"""Writing records: a file appears under its name only when its whole block is done."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.files import write_atomically
from harness.records.checks import RECORD_SCHEMA, seeds_done
from harness.records.layout import FRONTS, FRONTS_SUFFIX, TIMINGS, TIMINGS_SUFFIX, TRACE, block_folder
from harness.sealing import sealed_parquet
from harness.versions import versions


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
        write_atomically(folder / f"{stem}{FRONTS_SUFFIX}", _parquet(fronts, FRONTS, header))
        if seeds_done(results, spec) >= set(seeds):
            return path
    write_atomically(folder / f"{stem}{TIMINGS_SUFFIX}", _parquet(timings, TIMINGS, header | {"seconds": seconds}))
    write_atomically(path, _parquet(trace, TRACE, header))
    return path


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

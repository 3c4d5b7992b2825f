"""Writing records: a file appears under its name only when its whole block is done."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from datasets.files import write_atomically
from harness.records.checks import RECORD_SCHEMA
from harness.records.layout import FRONTS, FRONTS_SUFFIX, TIMINGS, TIMINGS_SUFFIX, TRACE, block_folder
from harness.sealing import sealed_parquet
from harness.versions import versions


def block_files(
    spec: dict[str, Any],
    seeds: list[int],
    trace: dict[str, Any],
    timings: dict[str, Any],
    fronts: dict[str, Any] | None = None,
    seconds: float | None = None,
    made_with: Mapping[str, str] | None = None,
) -> dict[str, bytes]:
    """Return the files of one block (columns as lists) by their path below the results, the trace last.

    seconds: what computing the block took on its worker, kept with the timings. made_with: versions, where the runs are
    not of this process.
    """
    made_with = versions() if made_with is None else dict(made_with)
    header = {"schema": RECORD_SCHEMA, "spec": spec, "seeds": sorted(seeds), "versions": made_with}
    stem = block_folder(Path(), spec) / f"seeds-{_ranges(sorted(seeds))}"
    files = {} if fronts is None else {f"{stem}{FRONTS_SUFFIX}": _parquet(fronts, FRONTS, header)}
    files[f"{stem}{TIMINGS_SUFFIX}"] = _parquet(timings, TIMINGS, header | {"seconds": seconds})
    return {**files, f"{stem}.parquet": _parquet(trace, TRACE, header)}


def write_block(results: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of one block in their order, so that the trace, last, makes it count; OSError if that fails."""
    for name, content in files.items():
        write_atomically(results / name, content)


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

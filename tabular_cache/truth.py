"""The live runs that replay is held against, shipped as records: one block per method and problem, all its seeds.

They are made by `python -m harness study=density evaluator=live_paced`, for hours; `python -m tabular_cache truth`
gathers them.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from datasets.errors import BadInput
from harness.records import (
    TIMINGS,
    TIMINGS_SUFFIX,
    TRACE,
    block_files,
    block_folder,
    checked_header,
    damage_named,
    read_parquet,
    spec_hash,
    trace_files,
    write_block,
)

TRUTH = Path(__file__).resolve().parent / "truth"


def gather(results: Path, problems: set[tuple[str, str]], folder: Path = TRUTH) -> list[tuple[dict[str, Any], int]]:
    """Write the runs in `results` on `problems` to `folder`, a block per spec; returns (spec, runs) of each.

    Raises BadInput without such runs, for damaged records, for runs of one spec made with several versions of the
    libraries, and where `folder` has runs of a spec already.
    """
    by_spec: dict[str, list[tuple[Path, dict[str, Any]]]] = {}
    for path in trace_files(results):
        header = checked_header(path, path.read_bytes())
        if (header["spec"]["dataset"], header["spec"]["pipeline"]) in problems:
            timings = path.with_suffix(TIMINGS_SUFFIX)
            with damage_named(timings):
                checked_header(timings, timings.read_bytes())
            by_spec.setdefault(spec_hash(header["spec"]), []).append((path, header))
    if not by_spec:
        raise BadInput(f"no runs of these problems in {results}")
    for parts in by_spec.values():
        _check(parts, folder)
    return [_written(parts, folder) for parts in by_spec.values()]


def _check(parts: list[tuple[Path, dict[str, Any]]], folder: Path) -> None:
    spec = parts[0][1]["spec"]
    name = f"{spec['dataset']}/{spec['pipeline']} {spec['method']}"
    if len({tuple(sorted(header["versions"].items())) for _, header in parts}) > 1:
        raise BadInput(f"{name}: runs made with several versions of the libraries cannot be one block")
    if trace_files(block_folder(folder, spec)):
        raise BadInput(f"{name}: {folder} has runs of it already: move them away, or give truth=FOLDER")


def _written(parts: list[tuple[Path, dict[str, Any]]], folder: Path) -> tuple[dict[str, Any], int]:
    header = parts[0][1]
    seeds = sorted({seed for _, part in parts for seed in part["seeds"]})
    trace = _together([path for path, _ in parts], TRACE)
    timings = _together([path.with_suffix(TIMINGS_SUFFIX) for path, _ in parts], TIMINGS)
    write_block(folder, block_files(header["spec"], seeds, trace, timings, made_with=header["versions"]))
    return header["spec"], len(seeds)


def _together(paths: list[Path], schema: pa.Schema) -> dict[str, list[Any]]:
    """Return the rows of blocks, by seed and step, each (seed, step) once, as lists by column."""
    table = pa.concat_tables([read_parquet(path).select(schema.names).cast(schema) for path in paths])
    keys = np.stack([table["seed"].to_numpy(), table["step"].to_numpy()])
    columns: dict[str, list[Any]] = table.take(np.unique(keys, axis=1, return_index=True)[1]).to_pydict()
    return columns

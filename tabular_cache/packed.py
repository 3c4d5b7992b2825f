"""`python -m tabular_cache.packed pack|unpack`: the records of a study in a small part of the space, and back.

    python -m tabular_cache.packed pack results_dir=results packed_dir=runs
    python -m tabular_cache.packed unpack packed_dir=runs results_dir=results

A packed problem is one sealed file, `<packed_dir>/<dataset>/<pipeline>.parquet`: which configuration each run chose at
each step, and once what was measured of each, exactly, unless it is what the shipped table has there: of replays it
suffices that table, which has to be the same when they are unpacked. What only describes the optimizer is less precise:
of EI its log EI and predicted cost in single precision, of the others the predicted cost to 3 binary digits (within
12.5 %), of CEI the effective alphas, and of each block's first seed the milliseconds, to 6 (within 1.6 %). Left out are
the rest of these, hyperparameters, and what the tables have of a configuration, its coordinates and wall-clock seconds:
NaN or None after unpacking. Reports and verdicts need none of them. What is packed or unpacked already stays as it is.
A study goes on from unpacked records as from its own, to longer runs with the same choices; the headers of all these
say `rounded`.

Beside it lie, where there are such records, `<pipeline>.fronts.parquet`, which points were on each front and for how
long, and of the block's first seed, the one that is drawn, where they lie, to 10 binary digits; and scores of cost
models, `costs/<dataset>--<pipeline>.records.parquet`, to 16. Folders of `packed_dir` with parts of a study are unpacked
together.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int

from datasets.files import write_atomically
from harness.cli import run_cli, wants_help
from harness.errors import BadInput, writable
from harness.records import (
    FRONTS,
    FRONTS_SUFFIX,
    MODELS,
    MODELS_SUFFIX,
    TIMINGS,
    TIMINGS_SUFFIX,
    TRACE,
    block_files,
    block_folder,
    read_block,
    trace_files,
    write_block,
)
from harness.results_dir import locked
from harness.sealed import (
    check_seal,
    damage_named,
    parse_spec,
    read_parquet,
    read_record,
    record_path,
    sealed_parquet,
    sealed_record,
    spec_hash,
)
from tabular_cache.schema import problem_name
from tabular_cache.table import TABLES, read_table, table_entries

USAGE = "python -m tabular_cache.packed pack|unpack [results_dir=results] [packed_dir=runs]"
MEASURED = ("error", "test_error", "cost_s")  # of a configuration
IN_TABLE = ("val_error", "test_error", "scaled_s")  # the same of a replay, in its table
OUTCOME = (*MEASURED, "status")
SINGLE = ("log_ei", "predicted_cost_s", "effective_alpha_low", "effective_alpha_high", "fit_ms", "propose_ms")
PACKED = pa.schema(
    [
        ("block", pa.string()),  # a block's header at its first row
        ("seed", pa.int32()),
        ("step", pa.int32()),
        ("candidate", pa.int32()),
        # null: as at the candidate's first row, and at that as in the table
        *((name, pa.float64()) for name in MEASURED),
        ("status", pa.string()),
        *((name, pa.float32()) for name in SINGLE),
    ]
)
VALUES = ("log_ei", "log_cost", "then_log_ei", "then_log_cost")  # of a front's points
PACKED_FRONTS = pa.schema(
    [
        ("block", pa.string()),  # its name at its first row
        *((field.name, pa.float32() if field.name in VALUES else field.type) for field in FRONTS),
    ]
)
FRONTS_OPTIONS: dict[str, Any] = {"compression_level": 19, "use_byte_stream_split": ["candidate", *VALUES]}
FRONTS_OPTIONS["use_dictionary"] = ["block", "seed", "step"]
OPTIONS: dict[str, Any] = {"compression_level": 19, "use_dictionary": ["block", "seed", "step", *MEASURED, "status"]}
OPTIONS["use_byte_stream_split"] = ["candidate", *SINGLE]
SCORES_SUFFIX = ".records.parquet"
Columns = dict[str, Any]


def rounded(values: Float[np.ndarray, " n"], binary_digits: int) -> Float[np.ndarray, " n"]:
    """Return the values in single precision, rounded to so many significant binary digits; NaN stays NaN."""
    drop = 24 - binary_digits
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    near = ((bits + (1 << (drop - 1))) >> drop << drop).astype(np.uint32).view(np.float32)
    return np.where(np.isfinite(values), near, np.asarray(values, np.float32))


# Packing.


def pack(results: Path, packed: Path) -> tuple[int, int]:
    """Pack the records in `results` beside what `packed` holds; returns how many were added and are there.

    Raises BadInput without records, and for a damaged one.
    """
    problems: dict[Path, list[Path]] = {}
    for path in trace_files(results):
        dataset, pipeline = path.relative_to(results).parts[:2]
        problems.setdefault(packed / dataset / f"{pipeline}.parquet", []).append(path)
    scores = sorted({path.parent for path in results.glob("costs/*/*.parquet")})
    if not problems and not scores:
        raise BadInput(f"no records in {results}: run `python -m harness` first, or give results_dir=...")
    counts = [_pack_runs(target, paths) for target, paths in problems.items()]
    counts += [_pack_scores(packed / own.parent.name / f"{own.name}{SCORES_SUFFIX}", own) for own in scores]
    return sum(added for added, _ in counts), sum(there for _, there in counts)


def _pack_runs(target: Path, paths: Iterable[Path]) -> tuple[int, int]:
    """Pack the blocks of a problem whose traces lie at `paths`, and their fronts; returns what `pack` does."""
    beside = target.with_suffix(FRONTS_SUFFIX)
    old, fronts = dict(_blocks(target)) if target.exists() else {}, _parts(beside, PACKED_FRONTS)
    new, more = dict[str, Columns](), list[pa.Table]()
    for path in paths:
        name, block = _packable(path)
        if name not in old:
            new[name] = block
        if name not in fronts and path.with_suffix(FRONTS_SUFFIX).exists():
            more += [table for table in [_packable_fronts(path, name)] if len(table)]
    if more:
        _write(beside, [*fronts.values(), *more], FRONTS_OPTIONS)
    if new:
        write_atomically(target, sealed_parquet(_joined([*old.values(), *new.values()]), **OPTIONS))
    return len(new), len(old) + len(new)


def _write(target: Path, parts: Iterable[pa.Table], options: Mapping[str, Any]) -> None:
    write_atomically(target, sealed_parquet(pa.concat_tables(parts), **options))


def _name(header: Mapping[str, Any]) -> str:
    """Return what tells blocks of a problem apart: spec and seeds."""
    return f"{block_folder(Path(), header['spec']).name} {header['seeds']}"


def _packable(path: Path) -> tuple[str, Columns]:
    """Return name and columns of the block whose trace lies at `path`, the header as that of its first row."""
    header, trace = read_block(path, TRACE)
    columns: Columns = {name: _numbers(trace, name) for name in ("seed", "step", "candidate", *MEASURED)}
    columns["status"] = np.array(trace["status"].to_pylist(), dtype=object)
    timings_header, timings = read_block(path.with_suffix(TIMINGS_SUFFIX), TIMINGS)
    first = timings.filter(pa.compute.equal(timings["seed"], min(header["seeds"])))
    models_path, acq = path.with_suffix(MODELS_SUFFIX), header["spec"]["acq"]
    models = read_block(models_path, MODELS)[1] if models_path.exists() and acq == "cei" else MODELS.empty_table()
    columns |= {name: _numbers(trace, name) for name in ("predicted_cost_s", "log_ei")}
    if acq != "ei":
        columns["predicted_cost_s"] = rounded(columns["predicted_cost_s"], 3)
        columns["log_ei"] = np.full(len(trace), np.nan)
    alphas = _beside(columns, models, ("effective_alpha_low", "effective_alpha_high"))
    if acq == "cei" and not models_path.exists():
        alphas["effective_alpha_low"] = _numbers(trace, "effective_alpha")
    columns |= {name: rounded(own, 6) for name, own in alphas.items()}
    columns |= {name: rounded(own, 6) for name, own in _beside(columns, first, ("fit_ms", "propose_ms")).items()}
    packed = {name: value for name, value in header.items() if name != "rounded"}
    text = json.dumps({**packed, "seconds": timings_header.get("seconds")}, sort_keys=True)
    return _name(header), {"block": text, **columns}


def _numbers(table: pa.Table, name: str) -> np.ndarray:
    return np.asarray(table[name].to_numpy())


def _keys(seed: Int[np.ndarray, " n"], step: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    return seed.astype(np.int64) << 32 | step


def _beside(columns: Columns, table: pa.Table, names: Iterable[str]) -> Columns:
    """Return columns of a table with some of the trace's steps, in its order; NaN at the others."""
    own, keys = _keys(columns["seed"], columns["step"]), _keys(_numbers(table, "seed"), _numbers(table, "step"))
    known = np.isin(own, keys)
    at = np.searchsorted(keys, own[known], sorter=(order := np.argsort(keys, kind="stable")))
    found = {}
    for name in names:
        found[name] = np.full(len(own), np.nan)
        found[name][known] = _numbers(table, name)[order[at]]
    return found


def _joined(blocks: list[Columns]) -> pa.Table:
    """Return one problem's table: the blocks one after the other, what was measured where it is not known otherwise."""
    lengths = [len(block["seed"]) for block in blocks]
    joined = {name: np.concatenate([block[name] for block in blocks]) for name in PACKED.names if name != "block"}
    header = np.full(sum(lengths), None, dtype=object)
    header[np.cumsum([0, *lengths[:-1]])] = [block["block"] for block in blocks]
    _, first, which = np.unique(joined["candidate"], return_index=True, return_inverse=True)
    known = _alike(joined, {name: joined[name][first][which] for name in OUTCOME})
    known[first] = np.concatenate([_alike(block, _in_table(block)) for block in blocks])[first]
    for name in OUTCOME:
        joined[name] = pa.array(joined[name], PACKED.field(name).type, mask=known)
    return pa.table({"block": header, **joined}, schema=PACKED)


def _alike(rows: Columns, others: Columns | None) -> Bool[np.ndarray, " n"]:
    """Return in which rows all that was measured is the same; in none where there are no others."""
    if others is None:
        return np.zeros(len(rows["candidate"]), dtype=bool)
    alike = np.ones(len(rows["candidate"]), dtype=bool)
    for name in OUTCOME:
        mine, theirs = rows[name], others[name]
        alike &= (mine == theirs) | (mine != mine) & (theirs != theirs)
    return alike


def _in_table(block: Columns) -> Columns | None:
    """Return what the shipped table has of a block's candidates; None where the block is no replay of this table."""
    spec = parse_spec(block["block"])["spec"]
    problem = problem_name(spec["dataset"], spec["pipeline"])
    if spec["evaluator"] != "replay" or table_entries(TABLES).get(problem, {}).get("sha256") != spec["data"]:
        return None
    table, rows = read_table(problem), block["candidate"]
    columns = {name: table[own][rows].astype(float) for name, own in zip(MEASURED, IN_TABLE, strict=True)}
    return {**columns, "status": np.array(table.statuses, dtype=object)[table.status[rows]]}


def _labelled(name: str, n: int) -> pa.Array:
    """Return a column of n rows with the name of what begins at the first."""
    return pa.array([name, *[None] * (n - 1)][:n], pa.string())


def _packable_fronts(path: Path, name: str) -> pa.Table:
    """Return the fronts of the block whose trace lies at `path`."""
    header, fronts = read_block(path.with_suffix(FRONTS_SUFFIX), FRONTS)
    columns = {field: fronts[field] for field in FRONTS.names}
    drawn = _numbers(fronts, "seed") == min(header["seeds"])
    columns |= {value: rounded(np.where(drawn, _numbers(fronts, value), np.nan), 10) for value in VALUES}
    return pa.table({"block": _labelled(name, len(fronts)), **columns}, schema=PACKED_FRONTS)


def _pack_scores(target: Path, folder: Path) -> tuple[int, int]:
    """Pack records of `harness.sealed.write_record` in a folder, which have the same columns; returns as `pack`."""
    old, new = _parts(target), dict[str, pa.Table]()
    for path in sorted(folder.glob("*.parquet")):
        spec, table = read_record(path)
        label = path.stem.removesuffix(f"-{spec_hash(spec)}")
        name = json.dumps({"label": label, "spec": spec}, sort_keys=True)
        if name not in old and len(table):
            columns = {field.name: _rounded_column(table[field.name]) for field in table.schema}
            new[name] = pa.table({"block": _labelled(name, len(table)), **columns})
    tables = [*old.values(), *new.values()]
    if any(table.schema != tables[0].schema for table in tables):
        raise BadInput(f"the records in {folder} have different columns: move those of older versions away")
    if new:
        _write(target, tables, {"compression_level": 19})
    return len(new), len(old) + len(new)


def _rounded_column(column: pa.ChunkedArray) -> pa.ChunkedArray | np.ndarray:
    return rounded(column.to_numpy(), 16) if pa.types.is_floating(column.type) else column


# Unpacking.


def unpack(packed: Path, results: Path) -> tuple[int, int]:
    """Write what is packed as records that are not in `results` yet; returns how many were written and are there.

    Raises BadInput where nothing is packed, for a damaged file, or if another study writes to `results`.
    """
    files = sorted(packed.rglob("*.parquet"))
    if not files:
        raise BadInput(f"nothing packed in {packed}: give packed_dir=...")
    written = there = 0
    with locked(results):
        for file in files:
            for contents in () if file.name.endswith(FRONTS_SUFFIX) else _unpacked(file):
                there += 1
                for name in contents:
                    if not (results / name).resolve().is_relative_to(results.resolve()):
                        raise BadInput(f"{file} holds a record that would be written outside {results}, to {name}")
                if not (results / list(contents)[-1]).exists():
                    write_block(results, contents)
                    written += 1
    return written, there


def _unpacked(file: Path) -> Iterator[dict[str, bytes]]:
    """Yield the files of each record in a packed file, by their path below the results; the one that counts last."""
    if file.name.endswith(SCORES_SUFFIX):
        folder = Path(file.parent.name, file.name.removesuffix(SCORES_SUFFIX))
        for name, table in _parts(file).items():
            record, wide = parse_spec(name), table.drop_columns(["block"])
            for i, field in enumerate(wide.schema):
                if field.type == pa.float32():
                    wide = wide.set_column(i, field.name, wide[field.name].cast(pa.float64()))
            yield {str(record_path(folder, record["label"], record["spec"])): sealed_record(wide, record["spec"])}
        return
    fronts = _parts(file.with_suffix(FRONTS_SUFFIX), PACKED_FRONTS)
    for name, block in _blocks(file):
        yield _records(block, fronts.get(name))


def _read(file: Path, schema: pa.Schema | None = None) -> tuple[pa.Table, dict[str, slice]]:
    """Return a packed file's table, and by name the rows of its parts: the first row of each has it."""
    content = file.read_bytes()
    check_seal(content)
    table = read_parquet(content).replace_schema_metadata(None)
    if "block" not in table.column_names:
        raise BadInput(f"{file} is no packed file (records? then packed_dir and results_dir are exchanged)")
    table = table if schema is None else table.select(schema.names).cast(schema)
    starts = [(i, str(name)) for i, name in enumerate(table["block"].to_pylist()) if name is not None]
    ends = [*(start for start, _ in starts[1:]), len(table)]
    return table, {name: slice(start, end) for (start, name), end in zip(starts, ends, strict=True)}


def _parts(file: Path, schema: pa.Schema | None = None) -> dict[str, pa.Table]:
    """Return the parts of a packed file by name; none where there is no such file."""
    if not file.exists():
        return {}
    with damage_named(file):
        table, parts = _read(file, schema)
        return {name: table.slice(part.start, part.stop - part.start) for name, part in parts.items()}


def _blocks(file: Path) -> Iterator[tuple[str, Columns]]:
    """Yield name and columns of each block in a packed file, as `_packable` returns them."""
    with damage_named(file):
        table, parts = _read(file, PACKED)
        columns = {name: np.asarray(table[name].to_numpy()) for name in PACKED.names}
        _, first, which = np.unique(columns["candidate"], return_index=True, return_inverse=True)
        known = np.array([text is None for text in columns["status"]])
        for header, part in parts.items():
            rows = first[known[first] & (first >= part.start) & (first < part.stop)]
            for name, values in _taken(file, header, columns["candidate"][rows]).items() if len(rows) else ():
                columns[name][rows] = values
        for name in OUTCOME:
            columns[name] = np.where(known, columns[name][first][which], columns[name])
        for header, part in parts.items():
            block = {name: values[part] for name, values in columns.items()} | {"block": header}
            yield _name(parse_spec(header)), block


def _taken(file: Path, header: str, candidates: Int[np.ndarray, " n"]) -> Columns:
    """Return what the table of a packed block has of its candidates; raises BadInput if it is another by now."""
    found = _in_table({"block": header, "candidate": candidates})
    if found is None:
        problem = problem_name(*file.with_suffix("").parts[-2:])
        raise BadInput(f"{file} was packed beside a table of {problem} that has changed since, and takes what was "
                       f"measured from it: restore the table in {TABLES}, or move {file.name} away")  # fmt: skip
    return found


def _records(block: Columns, fronts: pa.Table | None) -> dict[str, bytes]:
    """Return the files of a block, as `block_files` does."""
    header = parse_spec(block["block"])
    nothing = np.full(len(block["seed"]), np.nan)
    trace = {name: block.get(name, nothing) for name in TRACE.names}
    trace["effective_alpha"] = block["effective_alpha_low"]
    proposed = np.isfinite(block["predicted_cost_s"])
    models: Columns = {name: block.get(name, nothing)[proposed] for name in MODELS.names}
    models["log_length_scales"] = [None] * int(proposed.sum())
    timed = np.isfinite(block["fit_ms"])
    timings = {name: block[name][timed] for name in TIMINGS.names}
    return block_files(
        header["spec"], header["seeds"], trace, timings,
        fronts=None if fronts is None else {name: fronts[name].cast(FRONTS.field(name).type) for name in FRONTS.names},
        seconds=header["seconds"], made_with=header["versions"], models=models, rounded=True,
    )  # fmt: skip


def main() -> int:
    """Pack or unpack; returns the exit code."""
    arguments = sys.argv[1:]
    if wants_help(arguments):
        print(__doc__)
        return 0
    given = dict(argument.split("=", 1) for argument in arguments[1:] if "=" in argument)
    if arguments[:1] not in (["pack"], ["unpack"]) or len(given) != len(arguments) - 1 or not all(given.values()):
        raise BadInput(f"pack or unpack, and folders: {USAGE}")
    unknown = set(given) - {"results_dir", "packed_dir"}
    if unknown:
        raise BadInput(f"unknown setting {min(unknown)} ({USAGE})")
    results, packed = Path(given.get("results_dir", "results")), Path(given.get("packed_dir", "runs"))
    if arguments[0] == "pack":
        added, there = pack(results, writable("packed_dir", packed))
        size = sum(file.stat().st_size for file in packed.rglob("*.parquet"))
        print(f"{added} records packed; {packed} holds {there} of these problems' records, {size / 1e6:.1f} MB in all")
    else:
        written, there = unpack(packed, results)
        print(f"{written} of {there} records unpacked to {results}, the others were there")
    return 0


if __name__ == "__main__":
    run_cli(main)

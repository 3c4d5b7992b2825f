"""What a table's file holds: its columns, the rows that trainings become, its bytes, its seal, and checks when read.

A row is one measured (configuration, number of rounds). Configurations are numbered in one Sobol sequence.
"""

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Bool, Int

from datasets.errors import BadInput
from harness.problem import OK, STATUSES
from harness.sealed import read_parquet
from harness.space import XGBOOST_SPACE

SCHEMA_VERSION = 2
SOBOL_SEED = 20201  # of the one sequence that all tables take their configurations from
MOST_CONFIGS = 1 << 14  # its length
TIMES = ("cpu_s", "wall_s", "scaled_s")
ERRORS = ("val_error", "test_error", "val_loss", "test_loss")
METRICS = (*ERRORS, *TIMES)
NEW, AGAIN, NOISE = "new", "again", "noise"  # why a training is measured: again, since disturbed; noise: of its cost


def _field(name: str, kind: pa.DataType, doc: str) -> pa.Field:
    return pa.field(name, kind, metadata={"doc": doc})


SCHEMA = pa.schema(
    [
        _field("config", pa.int32(), "index in the shared Sobol sequence"),
        _field("own", pa.bool_(), "the configuration's own number of rounds, not a prefix"),
        *(pa.field(name, pa.float32()) for name in XGBOOST_SPACE.names),
        *(pa.field(name, pa.float32()) for name in METRICS),
        pa.field("status", pa.dictionary(pa.int8(), pa.string())),
        _field("busy", pa.float32(), "mean number of busy processes per core during the training"),
        _field("load", pa.float32(), "1-minute load average when the training began"),
        _field("repeats", pa.int8(), "how often the training was repeated because it had been disturbed"),
        _field(
            "started", pa.float64(), "Unix seconds when the training was last measured, whichever measurement was kept"
        ),
    ]
)

NOISE_SCHEMA = pa.schema(
    [
        pa.field("problem", pa.string()),
        pa.field("config", pa.int32()),
        *(pa.field(name, pa.float32()) for name in (*TIMES, "busy")),
        pa.field("started", pa.float64()),
    ]
)


def problem_name(dataset: str, pipeline: str) -> str:
    """Return the name of a problem as the manifest and the records spell it."""
    return f"{dataset}/{pipeline}"


def file_stem(problem: str) -> str:
    """Return the stem of a problem's files."""
    return problem.replace("/", "--")


@lru_cache(maxsize=1)
def _configurations() -> np.ndarray:
    return XGBOOST_SPACE.from_unit(XGBOOST_SPACE.sobol(MOST_CONFIGS, SOBOL_SEED))


def configuration(index: int) -> np.ndarray:
    """Return the native hyperparameters of one configuration of the shared Sobol sequence."""
    return np.asarray(_configurations()[index])


# From journal lines to rows, and what becomes of a configuration that was measured more than once.


def to_rows(line: Mapping[str, Any]) -> pa.Table:
    """Return a journal line as table rows: one per number of rounds, and one of the status of a training that failed.

    That row stands for the length asked for, which was not reached, and has what the training cost.
    """
    native = configuration(line["config"])
    rounds, metrics = np.array(line["rounds"]), {name: np.array(line[name], dtype=np.float32) for name in METRICS}
    status = [OK] * len(rounds)
    if line["status"] != OK:
        rounds = np.append(rounds, native[0])
        spent = {name: line[f"spent_{name}"] for name in TIMES}
        metrics = {name: np.append(m, np.float32(spent.get(name, np.nan))) for name, m in metrics.items()}
        status.append(line["status"])
    n = len(rounds)
    columns: dict[str, Any] = {
        "config": np.full(n, line["config"]),
        "own": rounds == native[0],
        "n_estimators": rounds,
        **{name: np.full(n, native[j]) for j, name in enumerate(XGBOOST_SPACE.names) if j > 0},
        **metrics,
        "status": pa.array(status).dictionary_encode(),
        "repeats": np.zeros(n),
        "started": np.full(n, line["started"]),
        **{name: np.full(n, line[name]) for name in ("busy", "load")},
    }
    return pa.Table.from_arrays([_cast(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)


def _cast(values: Any, kind: pa.DataType) -> pa.Array:
    return (values if isinstance(values, pa.Array) else pa.array(values)).cast(kind)


def merge_rows(old: pa.Table | None, lines: Sequence[Mapping[str, Any]]) -> pa.Table | None:
    """Return a table's rows with journal lines merged in; None without any.

    A new line replaces what its configuration had (that was cut short, or is the same line once more). A repeat
    of a disturbed training keeps the cheaper of the two, on the reference machine, and counts; packing the same
    repeat twice (after a kill) changes nothing, since its `started` is remembered.
    """
    fresh: dict[int, pa.Table] = {}
    for line in lines:
        rows, config = to_rows(line), line["config"]
        if line["purpose"] == AGAIN:
            known = fresh.get(config, old)
            before = None if known is None else known.filter(pc.equal(known["config"], config))
            rows = _cheaper(before, rows) if before else rows
        fresh[config] = rows
    tables = [*([] if old is None else [old]), *([pa.concat_tables(fresh.values())] if fresh else [])]
    return joined(tables) if tables else None


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of several tables of one problem, by (config, n_estimators).

    Those of a later table replace all that its configurations had before.
    """
    kept: list[pa.Table] = []
    for table in tables:
        again = pc.unique(table["config"])
        kept = [before.filter(pc.invert(pc.is_in(before["config"], again))) for before in kept] + [table]
    whole = pa.concat_tables([table.replace_schema_metadata(tables[0].schema.metadata) for table in kept])
    whole = whole.unify_dictionaries().combine_chunks()
    return whole.sort_by([("config", "ascending"), ("n_estimators", "ascending")])


def _cheaper(before: pa.Table, after: pa.Table) -> pa.Table:
    """Return the cheaper of two measurements of a configuration, its repeats counted, `started` the later.

    One that reached its own number of rounds is preferred to one that was cut short; two that were cut are compared
    where both have been.
    """
    started = after["started"][0].as_py()
    if before["started"][0].as_py() >= started:
        return before
    finished = [part["status"][-1].as_py() == OK for part in (before, after)]
    cost = _costs_at_common_rounds(before, after)
    kept = after if finished[1] > finished[0] or (finished[1] == finished[0] and cost[1] < cost[0]) else before
    for name, value in (("repeats", before["repeats"][0].as_py() + 1), ("started", started)):
        i = kept.schema.get_field_index(name)
        kept = kept.set_column(i, SCHEMA.field(name), _cast(np.full(len(kept), value), SCHEMA.field(name).type))
    return kept


def _costs_at_common_rounds(*parts: pa.Table) -> list[float]:
    """Return the cost of each at the most rounds that all reached; of each whole where there are none."""
    own = [part.filter(pc.equal(part["status"], OK)) for part in parts]
    costs = [dict(zip(p["n_estimators"].to_pylist(), p["scaled_s"].to_pylist(), strict=True)) for p in own]
    common = set.intersection(*(set(c) for c in costs))
    return [c[max(common)] for c in costs] if common else [part["scaled_s"][-1].as_py() for part in parts]


# Bytes of files, and seals over what is said of them.

SEAL = "seal"


def parquet_bytes(table: pa.Table) -> bytes:
    """Return a table as the bytes of its file: floats split by byte, which zstd halves."""
    table = table.replace_schema_metadata({"schema_version": str(SCHEMA_VERSION)})
    floats = [name for name in METRICS if name in table.column_names]
    plain = [name for name in table.column_names if name not in floats]
    sink = io.BytesIO()
    encoding = dict.fromkeys(floats, "BYTE_STREAM_SPLIT")
    pq.write_table(table, sink, compression="zstd", compression_level=9, use_dictionary=plain, column_encoding=encoding)
    return sink.getvalue()


def read_rows(content: bytes, name: object) -> pa.Table:
    """Return the rows in the bytes of a file; raises BadInput, by its `name`, where it has another schema."""
    rows = read_parquet(content)
    version = (rows.schema.metadata or {}).get(b"schema_version", b"none").decode()
    if version != str(SCHEMA_VERSION):
        raise BadInput(f"{name} has schema {version}, this version reads {SCHEMA_VERSION}")
    return rows


def sha256_of(content: bytes) -> str:
    """Return the SHA-256 of bytes, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def digest_of(plain: Any) -> str:
    """Return the SHA-256 of JSON values, whatever the order of their keys."""
    return sha256_of(json.dumps(plain, sort_keys=True).encode())


def seal_of(manifest: Mapping[str, Any], problem: str) -> str:
    """Return the seal of a problem's entry: over all of it, its name and the head of the manifest."""
    entry = {key: value for key, value in manifest["tables"][problem].items() if key != SEAL}
    return digest_of([*(manifest.get(key) for key in ("schema", "sobol_seed", "tree_method")), problem, entry])


# Checks of rows as they are read: a checksum says that bytes are those that were written, not that they make sense.


def check_rows(
    entry: Mapping[str, Any], columns: Mapping[str, np.ndarray], status: np.ndarray, statuses: Sequence[Any]
) -> None:
    """Raise ValueError for rows that no builder has written, or of which the manifest's entry says something else.

    columns: of n rows, by name; status: of each row, its place in `statuses`.
    """
    if not len(status):
        raise ValueError("no rows")
    if not set(statuses) <= set(STATUSES):
        raise ValueError(f"status must be one of {', '.join(STATUSES)}, got {', '.join(map(str, statuses))}")
    for name in TIMES:
        _refuse(~(np.isfinite(columns[name]) & (columns[name] > 0)), name, "finite and > 0 in every row", columns[name])
    ok = np.array([value == OK for value in statuses])[status]
    for name in ERRORS:
        values = columns[name]
        _refuse(ok & ~(np.isfinite(values) & (values >= 0)), name, f"finite and >= 0 in rows marked {OK}", values)
        _refuse(~ok & ~np.isnan(values), name, f"missing in rows not marked {OK}", values)
        if name.endswith("_error") and entry["task"] != "regression":
            _refuse(ok & (values > 1), name, "a rate, at most 1, of a classification", values)
    configs = check_order(columns["config"], columns["n_estimators"])
    for name, found in (("rows", len(status)), ("configs", configs)):
        if entry[name] != found:
            raise ValueError(f"it has {found} {name}, the manifest says {entry[name]}")


def check_order(config: Int[np.ndarray, " n"], rounds: np.ndarray) -> int:
    """Return how many configurations there are; raises ValueError for rows in another order, or twice the same."""
    step, more = np.diff(config), np.diff(rounds) > 0
    wrong = np.concatenate([[False], (step < 0) | ((step == 0) & ~more)])
    _refuse(wrong, "config and n_estimators", "ascending from row to row, none twice", config)
    if config[0] < 0 or config[-1] >= MOST_CONFIGS:
        raise ValueError(f"config must be from 0 to {MOST_CONFIGS - 1}, got {config[0]} to {config[-1]}")
    return int((step > 0).sum()) + 1


def _refuse(bad: Bool[np.ndarray, " n"], name: str, allowed: str, values: np.ndarray) -> None:
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(f"{name} must be {allowed}, row {row} has {values[row]}")

"""From journal lines to table rows, and what becomes of a configuration that was measured more than once."""

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.problem import OK
from harness.space import XGBOOST_SPACE
from tabular_cache.measure import configuration
from tabular_cache.schema import METRICS, SCHEMA, SCHEMA_VERSION, TIMES

AGAIN, NOISE = "again", "noise"


def merge_rows(old: pa.Table | None, lines: list[dict[str, Any]]) -> pa.Table | None:
    """Return a table's rows with journal lines merged in, sorted by (config, n_estimators).

    A new line replaces what its configuration had (that was cut short, or is the same line once more). A repeat
    of a disturbed training keeps the cheaper of the two, on the reference machine, and counts; packing the same
    repeat twice (after a kill) changes nothing, since its `started` is remembered.
    """
    parts = {} if old is None else _by_config(old, {line["config"] for line in lines})
    fresh: dict[int, pa.Table] = {}
    for line in lines:
        rows, config = to_rows(line), line["config"]
        before = fresh.get(config, parts.get(config))
        fresh[config] = _cheaper(before, rows) if line["purpose"] == AGAIN and before is not None else rows
    tables = list(fresh.values())
    if old is not None:
        again = pc.is_in(old["config"], pa.array(list(fresh), pa.int32()))
        tables.insert(0, old.filter(pc.invert(again)))
    if not tables:
        return None
    table = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    return table.sort_by([("config", "ascending"), ("n_estimators", "ascending")])


def _by_config(table: pa.Table, wanted: set[int]) -> dict[int, pa.Table]:
    some = table.filter(pc.is_in(table["config"], pa.array(list(wanted), pa.int32())))
    return {config: some.filter(pc.equal(some["config"], config)) for config in set(some["config"].to_pylist())}


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


def to_rows(line: dict[str, Any]) -> pa.Table:
    """Return a journal line as table rows: one per number of rounds, or one failed row when it failed."""
    native = configuration(line["config"])
    rounds, ok = np.array(line["rounds"]), line["status"] == OK
    metrics = {name: np.array(line[name], dtype=np.float32) for name in METRICS}
    status = np.full(len(rounds), OK, dtype=object)
    if not ok:  # the asked-for length was not reached: its row says so and what it cost
        rounds = np.append(rounds, native[0])
        last = {name: line[f"spent_{name}"] for name in TIMES}
        metrics = {name: np.append(m, np.float32(last.get(name, np.nan))) for name, m in metrics.items()}
        status = np.append(status, line["status"])
    n = len(rounds)
    columns: dict[str, Any] = {
        "config": np.full(n, line["config"]),
        "own": rounds == native[0],
        "n_estimators": rounds,
        **{name: np.full(n, native[j]) for j, name in enumerate(XGBOOST_SPACE.names) if j > 0},
        **metrics,
        "status": pa.array(status.tolist()).dictionary_encode(),
        "repeats": np.zeros(n),
        "started": np.full(n, line["started"]),
        **{name: np.full(n, line[name]) for name in ("busy", "load")},
    }
    arrays = [_cast(columns[field.name], field.type) for field in SCHEMA]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _cast(values: Any, kind: pa.DataType) -> pa.Array:
    return (values if isinstance(values, pa.Array) else pa.array(values)).cast(kind)


def parquet_bytes(table: pa.Table) -> bytes:
    """Return a table as the bytes of its file: floats split by byte, which zstd halves."""
    table = table.replace_schema_metadata({"schema_version": str(SCHEMA_VERSION)})
    floats = [name for name in METRICS if name in table.column_names]
    plain = [name for name in table.column_names if name not in floats]
    sink = io.BytesIO()
    encoding = dict.fromkeys(floats, "BYTE_STREAM_SPLIT")
    pq.write_table(table, sink, compression="zstd", compression_level=9, use_dictionary=plain, column_encoding=encoding)
    return sink.getvalue()

"""The builder's memory: a journal line per finished training, packed into tables and a manifest.

A journal line is appended and synced as soon as its training ends, so a killed build loses only what was
running. Packing merges the journal into the problem's parquet file, writes the manifest, and only then drops
the journal; a kill in between leaves the journal, and merging again is harmless.
"""

import fcntl
import hashlib
import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.errors import BadInput
from harness.files import write_atomically
from harness.problem import TIMEOUT
from harness.space import XGBOOST_SPACE
from tabular_cache.measure import configuration
from tabular_cache.schema import METRICS, SCHEMA, SCHEMA_VERSION, SOBOL_SEED, file_stem
from tabular_cache.table import read_manifest


class Store:
    """The tables of one folder, opened for writing. One writer at a time (see `locked`)."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.journal = folder, folder / "journal"
        if (folder / "manifest.json").exists():
            self.manifest = read_manifest(folder)
        else:
            self.manifest = {"schema": SCHEMA_VERSION, "sobol_seed": SOBOL_SEED, "tables": {}, "campaigns": []}

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder's lock; raises BadInput when another build has it."""
        try:
            self.journal.mkdir(parents=True, exist_ok=True)
            file = (self.journal / ".lock").open("w")
        except OSError as error:
            raise BadInput(f"cannot write tables to {self.folder}: {error.strerror}") from None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise BadInput(f"another build is writing to {self.folder}: wait for it, or stop it") from None
            yield

    def lines(self, problem: str) -> list[dict[str, Any]]:
        """Return the journal of a problem; a torn last line (killed while writing) is passed over."""
        path = self._journal_path(problem)
        if not path.exists():
            return []
        found = []
        for line in path.read_text().splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return found

    def append(self, problem: str, line: dict[str, Any]) -> None:
        """Add one finished training to the journal, synced to disk."""
        with self._journal_path(problem).open("a+b") as file:
            if file.tell() and not _ends_a_line(file):
                file.write(b"\n")  # close a torn line, so that it spoils no other
            file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def done(self, problem: str, limit_s: float | None) -> dict[int, float]:
        """Return the finished configurations of a problem and the CPU seconds of each training.

        A training that an earlier, lower time limit cut short is not finished under `limit_s`.
        """
        table = self._packed(problem)
        if table is None:
            return {}
        last = table.filter(table["own"])
        status, cost = last["status"].to_pylist(), last["cpu_s"].to_pylist()
        return {
            config: cost[i]
            for i, config in enumerate(last["config"].to_pylist())
            if status[i] != TIMEOUT or (limit_s is not None and cost[i] >= limit_s)
        }

    def pack(self, problem: str) -> None:
        """Merge the journal of a problem into its table and the manifest."""
        lines = self.lines(problem)
        if not lines:
            return
        fresh = {line["config"]: line for line in lines}
        parts = [to_rows(line) for line in fresh.values()]
        old = self._packed(problem)
        if old is not None:
            again = pc.is_in(old["config"], pa.array(list(fresh), pa.int32()))
            parts.insert(0, old.filter(pc.invert(again)))
        table = pa.concat_tables(parts).unify_dictionaries().combine_chunks()
        table = table.sort_by([("config", "ascending"), ("n_estimators", "ascending")])
        content = _parquet_bytes(table)
        write_atomically(self._table_path(problem), content)
        self.manifest["tables"][problem] = {
            "sha256": hashlib.sha256(content).hexdigest(),
            "bytes": len(content),
            "configs": len(set(table["config"].to_pylist())),
            "rows": len(table),
            **lines[-1]["problem"],
        }
        self.write_manifest()
        self._journal_path(problem).unlink()

    def write_manifest(self) -> None:
        """Write the manifest, problems in order of their names."""
        self.manifest["tables"] = dict(sorted(self.manifest["tables"].items()))
        content = json.dumps(self.manifest, indent=1).encode() + b"\n"
        write_atomically(self.folder / "manifest.json", content)

    def _packed(self, problem: str) -> pa.Table | None:
        path = self._table_path(problem)
        if not path.exists():
            return None
        try:
            return pq.read_table(path)
        except (OSError, pa.ArrowException) as error:
            raise BadInput(f"the table {path} is damaged ({type(error).__name__}): restore or remove it") from None

    def _table_path(self, problem: str) -> Path:
        return self.folder / f"{file_stem(problem)}.parquet"

    def _journal_path(self, problem: str) -> Path:
        return self.journal / f"{file_stem(problem)}.jsonl"


def _ends_a_line(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) == b"\n")


def to_rows(line: dict[str, Any]) -> pa.Table:
    """Return a journal line as table rows: one per number of rounds, or one failed row when it failed."""
    native = configuration(line["config"])
    rounds, ok = np.array(line["rounds"]), line["status"] == "ok"
    metrics = {name: np.array(line[name], dtype=np.float32) for name in METRICS}
    status = np.full(len(rounds), "ok", dtype=object)
    if not ok:  # the asked-for length was not reached: its row says so and what it cost
        rounds = np.append(rounds, native[0])
        last = {"cpu_s": line["spent_cpu_s"], "wall_s": line["spent_wall_s"]}
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
        "load": np.full(n, line["load"]),
        "started": np.full(n, line["started"]),
    }
    arrays = [_cast(columns[field.name], field.type) for field in SCHEMA]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _cast(values: Any, kind: pa.DataType) -> pa.Array:
    return (values if isinstance(values, pa.Array) else pa.array(values)).cast(kind)


def _parquet_bytes(table: pa.Table) -> bytes:
    table = table.replace_schema_metadata({"schema_version": str(SCHEMA_VERSION)})
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", compression_level=9)
    return sink.getvalue()

"""The builder's memory: a journal line per finished training, packed into tables and a manifest.

A journal line is appended and synced as soon as its training ends, so a killed build loses only what was
running. Packing merges the journal into the problem's parquet file, writes the manifest, and only then drops
the journal; a kill in between leaves the journal, and merging again is harmless.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from datasets.errors import BadInput
from datasets.files import write_atomically
from harness.problem import TIMEOUT
from harness.records import read_parquet
from pipelines.identity import difference
from tabular_cache import noise
from tabular_cache.rows import NOISE, merge_rows, parquet_bytes
from tabular_cache.schema import SCHEMA_VERSION, SEAL, SOBOL_SEED, file_stem, seal_of
from tabular_cache.table import PENDING, base_manifest, check_base, repair

LIMIT = "time_limit_s"
OF_DATA = ("data_hash", "identity", "identity_confirmed")


class Store:
    """The tables of one folder, opened for writing. One writer at a time (see `locked`)."""

    def __init__(self, folder: Path, tree_method: str | None = None) -> None:
        """Open a folder; raises BadInput if its tables were measured with another `tree_method`."""
        self.folder, self.journal = folder, folder / "journal"
        self._data: dict[str, Mapping[str, Any]] = {}  # hash and identity of the data that each problem is measured on
        self.manifest = self._manifest(tree_method)

    def _manifest(self, tree_method: str | None) -> dict[str, Any]:
        if not (self.folder / "manifest.json").exists():
            new = {"schema": SCHEMA_VERSION, "sobol_seed": SOBOL_SEED, "tree_method": tree_method or "exact"}
            return new | {"tables": {}, "campaigns": []}
        manifest = base_manifest(self.folder)
        for problem, entry in manifest["tables"].items():
            if "sha256" in entry:  # else half written
                check_base(manifest, problem, self.folder)  # what is wrong now must not be sealed below
        found = manifest["tree_method"]
        if tree_method not in (None, found):
            raise BadInput(f"the tables in {self.folder} are of tree_method {found}; give tables=DIR for {tree_method}")
        return manifest

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
            self.manifest = self._manifest(self.manifest["tree_method"])  # a build may have ended since
            yield

    def lines(self, problem: str) -> list[dict[str, Any]]:
        """Return the journal of a problem; a torn last line (killed while writing) is passed over."""
        return read_journal(self._journal_path(problem))

    def append(self, problem: str, line: dict[str, Any]) -> None:
        """Add one finished training to the journal, synced to disk; raises BadInput as `pack` does for its data."""
        self._check_data(problem, self._entry(problem), [line])
        append_line(self._journal_path(problem), line)

    def done(self, problem: str, limit_s: float | None) -> dict[int, float]:
        """Return the finished configurations of a problem and the CPU seconds of each training.

        A training that an earlier, lower time limit cut short is not finished under `limit_s`.
        """
        table = self.packed(problem)
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
        """Merge the journal of a problem into its table and the manifest.

        Raises BadInput for a line that was measured on other data than the table, or than the lines before it.
        """
        lines = self.lines(problem)
        if not lines:
            return
        old, entry = self.packed(problem), self._entry(problem)
        self._data.pop(problem, None)
        first = self._check_data(problem, entry, lines)
        self._data.pop(problem)  # the table may have an identity of its data after this
        self._keep_noise(noise.kept(self.folder, problem, lines))
        table = merge_rows(old, [line for line in lines if line["purpose"] != NOISE])
        if table is not None and len(table):
            content = parquet_bytes(table)
            digest = hashlib.sha256(content).hexdigest()
            self.manifest["tables"][problem] = {**entry, PENDING: digest}  # after a kill in between, both are known
            self.write_manifest()
            write_atomically(self._table_path(problem), content)
            core_s = sum(line["core_s"] for line in lines)
            if entry.get("last_journal") == lines[0]["started"]:  # killed after this journal was counted
                core_s = 0.0
            self.manifest["tables"][problem] = {
                **{key: value for key, value in entry.items() if key != PENDING},
                "sha256": digest,
                "bytes": len(content),
                "configs": len(set(table["config"].to_pylist())),
                "rows": len(table),
                "core_s": round(entry.get("core_s", 0.0) + core_s, 3),
                "last_journal": lines[0]["started"],
                **lines[-1]["problem"],
                **{key: first[key] for key in OF_DATA if key in first},  # small differences must not add up
            }
        self.write_manifest()
        self._journal_path(problem).unlink()

    def _keep_noise(self, content: bytes | None) -> None:
        if content is None:
            return
        digest = hashlib.sha256(content).hexdigest()
        self.manifest["noise"] = {**self.manifest.get("noise", {}), PENDING: digest}
        self.write_manifest()
        write_atomically(self.folder / noise.FILE, content)
        self.manifest["noise"] = {"sha256": digest}  # `pack` writes it; until then the manifest knows both

    def _entry(self, problem: str) -> dict[str, Any]:
        """Return the manifest's entry of a problem: its time limit alone, where there is no table (any more)."""
        entry = self.manifest["tables"].get(problem, {})
        return entry if self._table_path(problem).exists() else {k: v for k, v in entry.items() if k == LIMIT}

    def _check_data(self, problem: str, entry: Mapping[str, Any], lines: list[dict[str, Any]]) -> Mapping[str, Any]:
        """Return what is known of the data of the first trainings; raises BadInput for a line of others."""
        known = self._data.setdefault(problem, entry if "data_hash" in entry else lines[0]["problem"])
        for line in lines:
            check_same_data(problem, known, line["problem"])
        return known

    def write_manifest(self) -> None:
        """Write the manifest, problems in order of their names."""
        self.manifest["tables"] = dict(sorted(self.manifest["tables"].items()))
        for problem, entry in self.manifest["tables"].items():
            entry.pop(SEAL, None)
            entry[SEAL] = seal_of(self.manifest, problem)
        content = json.dumps(self.manifest, indent=1).encode() + b"\n"
        write_atomically(self.folder / "manifest.json", content)

    def packed(self, problem: str) -> pa.Table | None:
        """Return the rows of a problem's table, None if there is none; raises BadInput if it is not what was packed."""
        path = self._table_path(problem)
        if not path.exists():
            return None
        entry = self.manifest["tables"].get(problem, {})
        try:
            content = path.read_bytes()
            if hashlib.sha256(content).hexdigest() not in (entry.get("sha256"), entry.get(PENDING)):
                raise BadInput(
                    f"the table {path} is damaged or foreign: its checksum is not that of the manifest; "
                    + repair(self.folder, problem, self.manifest)
                )
            return read_parquet(content)
        except (OSError, pa.ArrowException) as error:
            raise BadInput(
                f"the table {path} is damaged ({type(error).__name__}): {repair(self.folder, problem, self.manifest)}"
            ) from None

    def _table_path(self, problem: str) -> Path:
        return self.folder / f"{file_stem(problem)}.parquet"

    def _journal_path(self, problem: str) -> Path:
        return self.journal / f"{file_stem(problem)}.jsonl"


def check_same_data(problem: str, known: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Raise BadInput if the data described by `found` are not those `known` (`pipelines.identity.difference`)."""
    if reason := difference(known, found):
        raise BadInput(
            f"{problem} was measured on other data before ({reason}): bring those back (DATASETS_HOME), or measure "
            "all of it anew in another folder, tables=DIR dataset=[...]"
        )


def read_journal(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a journal; a torn last one (killed while writing) is passed over."""
    if not path.exists():
        return []
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def append_line(path: Path, line: dict[str, Any]) -> None:
    """Add a line to a journal, synced to disk."""
    with path.open("a+b") as file:
        if file.tell() and not _ends_a_line(file):
            file.write(b"\n")  # close a torn line, so that it spoils no other
        file.write(json.dumps(line).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _ends_a_line(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) == b"\n")

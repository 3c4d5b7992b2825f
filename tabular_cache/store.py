"""The builder's memory: a journal line per finished training, packed into tables and a manifest.

A journal line is appended and synced as soon as its training ends, so a killed build loses only what was
running. Packing merges the journal into the problem's parquet file, writes the manifest, and only then drops
the journal; a kill in between leaves the journal, and merging again is harmless.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from filelock import FileLock, Timeout

from datasets.errors import BadInput
from datasets.files import file_sha256, write_atomically
from harness.problem import TIMEOUT
from harness.sealed import read_parquet
from pipelines.identity import difference
from tabular_cache import noise
from tabular_cache.schema import (
    NOISE,
    SCHEMA_VERSION,
    SEAL,
    SOBOL_SEED,
    file_stem,
    merge_rows,
    parquet_bytes,
    seal_of,
    sha256_of,
)
from tabular_cache.table import PENDING, base_file, base_manifest, check_entry, repair

LIMIT = "time_limit_s"
OF_DATA = ("data_hash", "identity", "identity_confirmed")


class Journal:
    """A file of JSON lines, each synced to disk as it is appended; one that a kill has torn is passed over."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self) -> list[dict[str, Any]]:
        """Return the lines that are whole, none where there is no file."""
        found = []
        for line in self.path.read_text().splitlines() if self.path.exists() else ():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return found

    def append(self, line: Mapping[str, Any]) -> None:
        """Add a line, and close a torn one before it."""
        with self.path.open("a+b") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    file.write(b"\n")
            file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


class Store:
    """The tables of one folder, opened for writing. One writer at a time (see `locked`)."""

    def __init__(self, folder: Path, tree_method: str | None = None) -> None:
        """Open a folder; raises BadInput if its tables were measured with another `tree_method`."""
        self.folder = folder
        self._data: dict[str, Mapping[str, Any]] = {}  # hash and identity of the data that each problem is measured on
        self.manifest = self._manifest(tree_method)

    def _manifest(self, tree_method: str | None) -> dict[str, Any]:
        if not (self.folder / "manifest.json").exists():
            new = {"schema": SCHEMA_VERSION, "sobol_seed": SOBOL_SEED, "tree_method": tree_method or "exact"}
            return new | {"tables": {}, "campaigns": []}
        manifest = base_manifest(self.folder)
        for problem, entry in manifest["tables"].items():
            if "sha256" in entry:  # else half written
                check_entry(manifest, problem, self.folder)  # what is wrong now must not be sealed below
        found = manifest["tree_method"]
        if tree_method not in (None, found):
            raise BadInput(f"the tables in {self.folder} are of tree_method {found}; give tables=DIR for {tree_method}")
        return manifest

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder's lock; raises BadInput when another build has it."""
        lock = FileLock(self.folder / "journal" / ".lock", timeout=0)
        try:
            (self.folder / "journal").mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except Timeout:
            raise BadInput(f"another build is writing to {self.folder}: wait for it, or stop it") from None
        except OSError as error:
            raise BadInput(f"cannot write tables to {self.folder}: {error.strerror}") from None
        try:
            self.manifest = self._manifest(self.manifest["tree_method"])  # a build may have ended since
            yield
        finally:
            lock.release()

    def journal(self, problem: str) -> Journal:
        """Return the journal of a problem."""
        return Journal(self.folder / "journal" / f"{file_stem(problem)}.jsonl")

    def append(self, problem: str, line: dict[str, Any]) -> None:
        """Add one finished training to the journal; raises BadInput as `pack` does for its data."""
        self._check_data(problem, self._entry(problem), [line])
        self.journal(problem).append(line)

    def done(self, problem: str, limit_s: float | None) -> dict[int, float]:
        """Return the finished configurations of a problem and the CPU seconds of each training.

        A training that an earlier, lower time limit cut short is not finished under `limit_s`.
        """
        table = self.packed(problem)
        if table is None:
            return {}
        last = table.filter(table["own"])
        own = zip(*(last[name].to_pylist() for name in ("config", "status", "cpu_s")), strict=True)
        return {
            config: cost_s
            for config, status, cost_s in own
            if status != TIMEOUT or (limit_s is not None and cost_s >= limit_s)
        }

    def pack(self, problem: str) -> None:
        """Merge the journal of a problem into its table and the manifest.

        Raises BadInput for a line that was measured on other data than the table, or than the lines before it.
        """
        lines = self.journal(problem).lines()
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
            digest = sha256_of(content)
            self.manifest["tables"][problem] = {**entry, PENDING: digest}  # after a kill in between, both are known
            self.write_manifest()
            write_atomically(base_file(problem, self.folder), content)
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
        self.journal(problem).path.unlink()

    def _keep_noise(self, content: bytes | None) -> None:
        if content is None:
            return
        digest, path = sha256_of(content), self.folder / noise.FILE
        known = {"sha256": file_sha256(path)} if path.exists() else {}  # after a kill this is the one that was pending
        self.manifest["noise"] = {**known, PENDING: digest}
        self.write_manifest()
        write_atomically(path, content)
        self.manifest["noise"] = {"sha256": digest}  # `pack` writes it; until then the manifest knows both

    def _entry(self, problem: str) -> dict[str, Any]:
        """Return the manifest's entry of a problem: its time limit alone, where there is no table (any more)."""
        entry = self.manifest["tables"].get(problem, {})
        return entry if base_file(problem, self.folder).exists() else {k: v for k, v in entry.items() if k == LIMIT}

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
        path = base_file(problem, self.folder)
        if not path.exists():
            return None
        entry, content = self.manifest["tables"].get(problem, {}), path.read_bytes()
        if sha256_of(content) not in (entry.get("sha256"), entry.get(PENDING)):
            raise BadInput(
                f"the table {path} is damaged or foreign: its checksum is not that of the manifest; "
                + repair(self.folder, problem, self.manifest)
            )
        return read_parquet(content)


def check_same_data(problem: str, known: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Raise BadInput if the data described by `found` are not those `known` (`pipelines.identity.difference`)."""
    if reason := difference(known, found):
        raise BadInput(
            f"{problem} was measured on other data before ({reason}): bring those back (DATASETS_HOME), or measure "
            "all of it anew in another folder, tables=DIR 'dataset=[...]'"
        )

"""Reading the tables: the manifest (what there is, and its checksums), and a problem's rows, with parts (`Table`).

Also the settings that evaluators on tables share (`TableSettings`), and a table alone, as a worker without it gets it.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int

from datasets.errors import BadInput
from harness.errors import folder
from harness.problem import STATUSES, TIMEOUT, About, Evaluator
from harness.records import read_parquet
from harness.space import XGBOOST_SPACE
from tabular_cache import parts
from tabular_cache.schema import (
    SCHEMA_VERSION,
    SOBOL_SEED,
    check_entry,
    check_fields,
    check_order,
    check_rows,
    file_stem,
)

TABLES = Path(__file__).parent / "tables"
PENDING = "pending_sha256"  # of a table that a build was writing when the manifest was last written


@dataclass(frozen=True)
class Table:
    """One problem's measured rows, as arrays of n rows.

    `unit` and `native` are the hyperparameters in the unit cube and in their own units; errors are
    validation/test error and loss; costs are seconds; `own` marks the rows at a configuration's own
    number of rounds. Rows are sorted by (config, n_estimators). Failed rows have NaN errors.
    """

    problem: str
    native: Float[np.ndarray, "n 7"]
    unit: Float[np.ndarray, "n 7"]
    columns: dict[str, np.ndarray]
    status: Int[np.ndarray, " n"]
    statuses: tuple[str, ...]
    meta: dict[str, Any]

    def __len__(self) -> int:
        return len(self.native)

    @property
    def measured(self) -> Bool[np.ndarray, " n"]:
        """Rows that can be replayed: all but those that the build's own time limit cut short."""
        cut = [i for i, status in enumerate(self.statuses) if status == TIMEOUT]
        return ~np.isin(self.status, cut)

    @property
    def longest(self) -> Bool[np.ndarray, " n"]:
        """The measured row of most rounds of each configuration: its own, unless that was cut short."""
        measured, config = self.measured, self["config"]
        last = np.zeros(len(self), dtype=bool)
        rows = np.flatnonzero(measured)  # sorted by (config, n_estimators)
        last[rows[np.append(config[rows][1:] != config[rows][:-1], True)]] = True
        return last

    def __getitem__(self, column: str) -> np.ndarray:
        return self.columns[column]


def read_manifest(folder: Path = TABLES) -> dict[str, Any]:
    """Return the manifest of `folder`, the parts of its tables counted in (`parts.with_parts`).

    Raises BadInput if it is missing, unreadable or of another schema.
    """
    return parts.with_parts(base_manifest(folder), folder)


def base_manifest(folder: Path = TABLES) -> dict[str, Any]:
    """Return the manifest of `folder` as its file has it: of the tables without their parts; raises BadInput too."""
    path = folder / "manifest.json"
    try:
        manifest = json.loads(path.read_text())
    except FileNotFoundError:
        raise BadInput(f"no tables in {folder}: build them with {_build_command(folder, {})}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"cannot read {path}: {error}") from None
    if not isinstance(manifest, dict) or "schema" not in manifest or not isinstance(manifest.get("tables"), dict):
        raise BadInput(f"{path} is no table manifest")
    if manifest["schema"] != SCHEMA_VERSION:
        raise BadInput(
            f"{path} has schema {manifest['schema']}, this version reads {SCHEMA_VERSION}: rebuild with "
            f"{_build_command(folder, manifest)} (into an empty folder, or move the old one away)"
        )
    if manifest.get("sobol_seed") != SOBOL_SEED:
        raise BadInput(f"{path}: sobol_seed must be {SOBOL_SEED}, it is {manifest.get('sobol_seed')!r}")
    if not isinstance(manifest.get("tree_method"), str):
        raise BadInput(f"{path}: tree_method must be text, it is {manifest.get('tree_method')!r}")
    return dict(manifest)


def table_entry(problem: str, folder: Path = TABLES) -> dict[str, Any]:
    """Return the manifest's entry of a problem; raises BadInput naming it when there is none."""
    files = (folder / "manifest.json", folder / parts.FOLDER)
    base, manifest = _manifests(folder, tuple(path.stat().st_mtime_ns if path.exists() else 0 for path in files))
    if problem not in manifest["tables"]:
        raise BadInput(f"no table for {problem} in {folder}: build it with {_build_command(folder, manifest, problem)}")
    if problem in base["tables"]:
        check_base(base, problem, folder)
    entry = manifest["tables"][problem]
    try:
        check_fields(entry)
    except ValueError as error:
        raise BadInput(f"{files[1]}: what the sidecars say of {problem} is wrong: {error}") from None
    return dict(entry)


def check_base(manifest: Mapping[str, Any], problem: str, folder: Path) -> None:
    """Raise BadInput unless the entry of a problem in a `base_manifest` is one that a builder has written."""
    path, entry = folder / "manifest.json", manifest["tables"][problem]
    if isinstance(entry, dict) and PENDING in entry and "sha256" not in entry:
        raise BadInput(_half_written(problem, folder))
    if not isinstance(entry, dict) or not isinstance(entry.get("sha256"), str):
        raise BadInput(f"{path}: the entry of {problem} has no sha256")
    try:
        check_entry(manifest, problem)
    except ValueError as error:
        raise BadInput(f"{path}: the entry of {problem} is wrong: {error}") from None


def _half_written(problem: str, folder: Path) -> str:
    command = _build_command(folder, read_manifest(folder), problem)
    return f"the table of {problem} is half written, by a build that goes on or was killed: {command} completes it"


def repair(folder: Path, problem: str, manifest: Mapping[str, Any]) -> str:
    """Return what to do about the table of a problem that is not what was written."""
    return f"restore it, or move it away and measure anew with {_build_command(folder, manifest, problem)}"


def _build_command(folder: Path, manifest: Mapping[str, Any], problem: str = "") -> str:
    """Return the command that builds the tables of a folder with this manifest, or the one of a problem."""
    dataset, _, pipeline = problem.partition("/")
    method = manifest.get("tree_method")
    which = f" dataset=[{dataset}] pipeline=[{pipeline}]" if problem else ""
    here = "" if folder == TABLES else f" tables={folder}"
    how = "" if method in (None, "exact") else f" tree_method={method}"
    return f"`python -m tabular_cache build{which}{here}{how}`"


def about(problem: str, entry: Mapping[str, Any]) -> About:
    """Return what a manifest's entry says of its problem."""
    dataset, _, pipeline = problem.partition("/")
    return About(
        dataset, pipeline, str(entry["task"]), int(entry["n_train"]), int(entry["width_after"]), int(entry["n_classes"])
    )


@lru_cache(maxsize=8)
def _manifests(folder: Path, mtimes_ns: tuple[int, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the manifest of a folder without the parts of its tables, and with them."""
    base = base_manifest(folder)
    return base, parts.with_parts(base, folder)


@lru_cache(maxsize=4)
def read_table(problem: str, folder: Path = TABLES) -> Table:
    """Return the table of a problem as `load_table` does, the last few being remembered."""
    return load_table(problem, folder)


def load_table(problem: str, folder: Path = TABLES) -> Table:
    """Return the table of a problem from its base file and its parts, checked against the manifest and the sidecars.

    Raises BadInput, naming the file, when one is missing, unreadable or differs from its checksum.
    """
    entry = table_entry(problem, folder)
    path = folder / f"{file_stem(problem)}.parquet"
    try:
        table = to_table(problem, _rows(problem, folder, entry, path), entry)
        check_rows(entry, table.columns, table.status, table.statuses)
    except BadInput:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, pa.ArrowException) as error:
        raise BadInput(f"{path} is no table of measurements ({type(error).__name__}: {error})") from None
    return table


def table_rows(problem: str, folder: Path = TABLES) -> pa.Table:
    """Return the rows of a problem's table as its files have them; raises BadInput as `load_table` does."""
    return _rows(problem, folder, table_entry(problem, folder), folder / f"{file_stem(problem)}.parquet")


def _rows(problem: str, folder: Path, entry: dict[str, Any], path: Path) -> pa.Table:
    """Return all rows of a table: those of its base file, unless it was measured from scratch since, and its parts."""
    added = [_checked_rows(problem, folder, parts.read_part(folder, part), path) for part in entry.get("parts", ())]
    if added and entry["file_sha256"] is None:
        return parts.joined(added) if len(added) > 1 else added[0]
    base = _checked_rows(problem, folder, _content(problem, folder, entry, path), path)
    return parts.joined([base, *added]) if added else base


def _content(problem: str, folder: Path, entry: dict[str, Any], path: Path) -> bytes:
    """Return the bytes of a table's base file."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(f"cannot read the table of {problem}, {path}: {error.strerror}") from None
    found = hashlib.sha256(content).hexdigest()
    if found != _file_sha256(entry):  # a build may have written it since the manifest was read
        entry = table_entry(problem, folder)
    if found == entry.get(PENDING):
        raise BadInput(_half_written(problem, folder))
    if found != _file_sha256(entry):
        raise BadInput(
            f"the table {path} is damaged or foreign: sha256 {found[:12]}, the manifest says "
            f"{_file_sha256(entry)[:12]}; " + repair(folder, problem, read_manifest(folder))
        )
    if len(content) != (told := entry.get("file_bytes", entry["bytes"])):
        raise ValueError(f"it has {len(content)} bytes, the manifest says {told}")
    return content


def _file_sha256(entry: Mapping[str, Any]) -> str:
    """Return the checksum of a table's base file; where there are parts, `sha256` is that of the whole."""
    return str(entry.get("file_sha256") or entry["sha256"])


def _checked_rows(problem: str, folder: Path, content: bytes, path: Path) -> pa.Table:
    rows = read_parquet(content)
    version = (rows.schema.metadata or {}).get(b"schema_version", b"none").decode()
    if version != str(SCHEMA_VERSION):
        raise BadInput(
            f"the table {path} has schema {version}, this version reads {SCHEMA_VERSION}: rebuild with "
            f"{_build_command(folder, read_manifest(folder), problem)}"
        )
    check_order(rows["config"].to_numpy(), rows["n_estimators"].to_numpy())
    return rows


def to_table(problem: str, data: pa.Table, meta: dict[str, Any]) -> Table:
    """Return the rows of a problem's file as a `Table`."""
    statuses = data["status"].combine_chunks()
    if isinstance(statuses, pa.ChunkedArray):
        statuses = statuses.chunk(0)
    if statuses.null_count:
        raise ValueError(f"status must be one of {', '.join(STATUSES)} in every row, it is missing in some")
    plain = {n: data[n].to_numpy() for n in data.column_names if n != "status"}
    native = np.stack([plain[n].astype(np.float64) for n in XGBOOST_SPACE.names], axis=1)
    columns = {n: c.astype(np.float64) if c.dtype == np.float32 else c for n, c in plain.items()}
    return Table(
        problem=problem,
        native=native,
        unit=XGBOOST_SPACE.to_unit(native),
        columns=columns,
        status=statuses.indices.to_numpy(),
        statuses=tuple(statuses.dictionary.to_pylist()),
        meta=meta,
    )


# What a worker without the table is sent, one problem's table with a small manifest; and which evaluators send it.


def cargo(problem: str, where: Path) -> dict[str, bytes]:
    """Return the files of a folder of tables that holds this problem only; raises BadInput as `load_table` does.

    A table with parts goes as one file, under the identity (`sha256`) that it has here.
    """
    entry = load_table(problem, where).meta
    path = where / f"{file_stem(problem)}.parquet"
    if "parts" in entry:
        from tabular_cache.rows import parquet_bytes  # imports XGBoost, which replay does not need

        content = parquet_bytes(table_rows(problem, where))
        entry = {k: v for k, v in entry.items() if k != "parts"}
        entry |= {"file_sha256": hashlib.sha256(content).hexdigest(), "file_bytes": len(content)}
    else:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise BadInput(f"cannot read the table of {problem}, {path}: {error.strerror}") from None
    manifest = {k: v for k, v in read_manifest(where).items() if k not in ("tables", "campaigns")}
    manifest |= {"tables": {problem: entry}, "campaigns": []}
    return {path.name: content, "manifest.json": json.dumps(manifest).encode()}


def configurations(table: Table) -> int:
    """Return how many configurations a table has."""
    return int(table["config"].max()) + 1


def first_configs(table: Table, n_configs: int | None) -> Bool[np.ndarray, " m"]:
    """Return which rows are of the first `n_configs` configurations (None: all); BadInput where there are fewer."""
    config: np.ndarray = table["config"]
    if n_configs is None:
        return np.ones(len(config), dtype=bool)
    there = configurations(table)
    if n_configs > there:
        raise BadInput(f"the table of {table.problem} has {there} configurations, evaluator.n_configs={n_configs}")
    return config < n_configs


class TableSettings(Evaluator):
    """The base of evaluators on a folder of tables: where it lies, and how much of a table is used.

    tables: the folder, None for the shipped one; n_configs: use the first so many configurations of a table only,
    None for all. Raises BadInput for less than one, and for more than the table of a problem has (`first`).
    at_most_configs: the same where a table may have fewer; a folder of tables, which every worker needs, stands for as
    many as the problem's table there has, so that two folders are replayed with equally many. Not both.
    """

    tables: str | None
    n_configs: int | None
    at_most_configs: int | str | None

    def __post_init__(self) -> None:
        if self.tables is not None:
            folder("evaluator.tables", self.tables)
        if self.n_configs is not None and (not isinstance(self.n_configs, int) or self.n_configs < 1):
            raise BadInput(f"evaluator.n_configs must be a whole number >= 1 or null, got {self.n_configs!r}")
        most = self.at_most_configs
        number = isinstance(most, int) and not isinstance(most, bool) and most >= 1
        if not (most is None or number or (isinstance(most, str) and most)):
            allowed = "a whole number >= 1, a folder of tables, or null"
            raise BadInput(f"evaluator.at_most_configs must be {allowed}, got {most!r}")
        if most is not None and self.n_configs is not None:
            raise BadInput("evaluator.n_configs and evaluator.at_most_configs exclude each other")

    def _configs(self, problem: str) -> int | None:
        """Return how many of the first configurations of a problem's table are used, None for all."""
        most = self.at_most_configs
        if most is None:
            return self.n_configs
        if isinstance(most, str):
            most = configurations(read_table(problem, Path(most)))
        return min(most, configurations(read_table(problem, self._folder)))

    @property
    def _folder(self) -> Path:
        return TABLES if self.tables is None else folder("evaluator.tables", self.tables)

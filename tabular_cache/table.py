"""Reading the tables: the manifest (what there is, and its checksums), parts, and a problem's rows (`Table`).

A part is `parts/<data set>--<pipeline>--0001.parquet`, and `...--0001.json` beside it its sidecar, which is written
last: a part without one was never finished (tabular_cache/README.md, "How the tables grow").

A part either *continues* the table of the manifest (the sidecar names that one's data hash), or belongs to a table
measured from scratch because the data have changed since. Such a new table takes the old one's place once it has as
many configurations; until then readers pass its parts over.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int

from datasets.errors import BadInput
from datasets.files import write_atomically
from harness.problem import STATUSES, TIMEOUT, About
from harness.space import XGBOOST_SPACE
from tabular_cache.schema import (
    SCHEMA_VERSION,
    SEAL,
    SOBOL_SEED,
    check_order,
    check_rows,
    digest_of,
    file_stem,
    joined,
    read_rows,
    seal_of,
    sha256_of,
)

PARTS = "parts"  # the folder that they are in
NOISE_PARTS = "noise"  # of the parts that hold repeated measurements, in place of a problem
_NEEDED = ("problem", "number", "file", "sha256", "bytes", "core_s", SEAL)
_OF_CAMPAIGN = ("date", "cpu", "cores", "threads_per_training", "python", "versions", "workers")

Sidecar = dict[str, Any]


def sidecars(folder: Path) -> dict[str, list[Sidecar]]:
    """Return the sidecars of all finished parts of a folder of tables, by problem, in the order they were written.

    Raises BadInput for one that cannot be read.
    """
    where = folder / PARTS
    return _sidecars(where, where.stat().st_mtime_ns) if where.is_dir() else {}


@lru_cache(maxsize=4)
def _sidecars(where: Path, mtime_ns: int) -> dict[str, list[Sidecar]]:
    found = [read_sidecar(path) for path in where.glob("*--*.json") if path.stem.rpartition("--")[2].isdigit()]
    found.sort(key=lambda part: (str(part["problem"]), int(part["number"])))
    return {problem: list(parts) for problem, parts in groupby(found, key=lambda part: str(part["problem"]))}


def read_sidecar(path: Path) -> Sidecar:
    """Return what a sidecar says; raises BadInput for one that is not as it was written."""
    try:
        part = json.loads(path.read_text())
        missing = [name for name in _NEEDED if name not in part]
        if missing:
            raise ValueError(f"it has no {missing[0]}")
        if part.pop(SEAL) != digest_of(part):
            raise ValueError("its seal is that of other values")
    except (OSError, ValueError, TypeError) as error:
        raise BadInput(f"the sidecar {path} is damaged ({error}): restore it") from None
    return dict(part)


def read_part(folder: Path, part: Mapping[str, Any]) -> bytes:
    """Return a part's parquet file; raises BadInput unless its bytes are those that its sidecar vouches for."""
    path = folder / PARTS / str(part["file"])
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(f"cannot read the part {path}: {error.strerror}; restore it") from None
    found = sha256_of(content)
    if found != part["sha256"]:
        raise BadInput(
            f"the part {path} is damaged or foreign: sha256 {found[:12]}, its sidecar says {part['sha256'][:12]}; "
            "restore it"
        )
    return content


def write_part(folder: Path, problem: str, content: bytes, facts: Mapping[str, Any]) -> Sidecar:
    """Write the next part of a problem and then its sidecar with `facts`; returns the latter.

    Raises BadInput where that sidecar is there: a part is never written again.
    """
    number = 1 + max((part["number"] for part in sidecars(folder).get(problem, [])), default=0)
    path = folder / PARTS / f"{file_stem(problem)}--{number:04d}"
    sidecar = path.with_name(f"{path.name}.json")  # not `with_suffix`: the module of a user's pipeline has dots
    if sidecar.exists():
        raise BadInput(f"{path} is finished: a part is never written again")
    names = {"problem": problem, "number": number, "file": f"{path.name}.parquet"}
    part = {**names, "sha256": sha256_of(content), "bytes": len(content), **facts}
    write_atomically(path.with_name(part["file"]), content)
    sealed = part | {SEAL: digest_of(part)}
    write_atomically(sidecar, json.dumps(sealed, indent=1).encode() + b"\n")
    return part


def data_of(folder: Path, entry: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    """Return hash and identity of the matrices that each configuration of a table's parts was trained on.

    entry: the table's, as `with_parts` has it. What is not in a part was trained on the data of the base file.
    """
    found: dict[int, Mapping[str, Any]] = {}
    for part in entry.get("parts", ()):
        rows = read_rows(read_part(folder, part), part["file"])
        found |= dict.fromkeys(rows["config"].unique().to_pylist(), part["data"])
    return found


def lineages(parts: Iterable[Sidecar], base: Mapping[str, Any] | None) -> tuple[list[Sidecar], list[Sidecar]]:
    """Return the parts that continue the table of the manifest's entry `base`, and those measured from scratch.

    Raises BadInput for a part of another table, or of none.
    """
    parts = list(parts)
    known = None if base is None else base.get("data_hash")
    for part in parts:
        if part.get("continues") not in (None, known):
            raise BadInput(
                f"the part {part['file']} continues a table of other data (data_hash {part['continues'][:12]}) than "
                f"the manifest's ({str(known)[:12]}): restore that one"
            )
    return [p for p in parts if p.get("continues")], [p for p in parts if not p.get("continues")]


# What readers see: the manifest, the parts counted in.


def with_parts(manifest: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return a manifest whose entries and campaigns count the parts in.

    An entry's `sha256` is its table's: the base file's where there are no parts, else the digest of the checksums of
    all its files; `file_sha256` and `file_bytes` are the base file's then (None where only parts are read), and `parts`
    are the sidecars to read.
    """
    found = sidecars(folder)
    if not found:
        return dict(manifest)
    tables = dict(manifest["tables"])
    for problem, parts in found.items():
        entry = None if problem == NOISE_PARTS else _entry(tables.get(problem), parts)
        tables |= {} if entry is None else {problem: entry}
    every = [part for parts in found.values() for part in parts]
    campaigns = [*manifest["campaigns"], *_campaigns(sorted(every, key=lambda part: str(part["campaign"]["date"])))]
    return {**manifest, "tables": dict(sorted(tables.items())), "campaigns": campaigns}


def _entry(base: Mapping[str, Any] | None, parts: Sequence[Sidecar]) -> dict[str, Any] | None:
    """Return the entry of a table with its parts; None where none of them is read (yet)."""
    goes_on, anew = lineages(parts, base)
    if anew and (base is None or anew[-1]["table"]["configs"] >= base["configs"]):
        return {**anew[0]["data"], **_sums(anew), "file_sha256": None, "sha256": _checksum("", anew)}
    if not goes_on or base is None:
        return None
    sums = _sums(goes_on)
    sums |= {name: base[name] + sums[name] for name in ("bytes", "core_s")}
    of_base = {"file_sha256": base["sha256"], "file_bytes": base["bytes"]}
    unsealed = {key: value for key, value in base.items() if key != SEAL}
    return {**unsealed, **sums, **of_base, "sha256": _checksum(base["sha256"], goes_on)}


def _sums(parts: Sequence[Sidecar]) -> dict[str, Any]:
    """Return what an entry says of all its parts together; configurations and rows are those of the whole table."""
    return {
        "bytes": sum(part["bytes"] for part in parts),
        "core_s": round(sum(part["core_s"] for part in parts), 3),
        **parts[-1]["table"],
        "parts": list(parts),
    }


def _checksum(base_sha256: str, parts: Sequence[Sidecar]) -> str:
    return sha256_of("\n".join([base_sha256, *(str(part["sha256"]) for part in parts)]).encode())


def _campaigns(parts: Sequence[Sidecar]) -> list[dict[str, Any]]:
    """Return the campaigns that measured the parts, one for each day, processor and set of libraries."""
    found: dict[str, dict[str, Any]] = {}
    for part in parts:
        campaign = part["campaign"]
        key = json.dumps([campaign[name] for name in _OF_CAMPAIGN], sort_keys=True)
        whole = found.setdefault(key, {**campaign, "trainings": 0, "core_s": 0.0, "reference": []})
        whole["trainings"] += campaign["trainings"]
        whole["core_s"] = round(whole["core_s"] + campaign["core_s"], 3)
        whole["reference"] = [*whole["reference"], *campaign["reference"]]
    return list(found.values())


# Tables.

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

    def __getitem__(self, column: str) -> np.ndarray:
        return self.columns[column]

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


def base_manifest(folder: Path = TABLES) -> dict[str, Any]:
    """Return the manifest of `folder` as its file has it: of the tables without their parts.

    Raises BadInput if it is missing, unreadable or of another schema.
    """
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


def read_manifest(folder: Path = TABLES) -> dict[str, Any]:
    """Return the manifest of `folder`, the parts of its tables counted in; raises BadInput as `base_manifest` does."""
    return with_parts(base_manifest(folder), folder)


@lru_cache(maxsize=8)
def _manifests(folder: Path, mtimes_ns: tuple[int, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the manifest of a folder without the parts of its tables, and with them."""
    base = base_manifest(folder)
    return base, with_parts(base, folder)


def table_entry(problem: str, folder: Path = TABLES) -> dict[str, Any]:
    """Return the manifest's entry of a problem; raises BadInput naming it when there is none, or a wrong one."""
    if not all(problem.partition("/")):
        raise BadInput(f"a problem is DATASET/PIPELINE, such as abalone/clean, got {problem!r}")
    base, manifest = _manifests(folder, _times(folder))
    if problem not in manifest["tables"]:
        raise BadInput(f"no table for {problem} in {folder}: {_how_to_build(folder, manifest, problem)}")
    if problem in base["tables"]:
        check_entry(base, problem, folder)
    return dict(manifest["tables"][problem])


def _times(folder: Path) -> tuple[int, ...]:
    """Return when the files changed last by which a folder's entries are known."""
    return tuple(path.stat().st_mtime_ns if path.exists() else 0 for path in (folder / "manifest.json", folder / PARTS))


def table_entries(folder: Path) -> Mapping[str, Mapping[str, Any]]:
    """Return the entries of all tables of `folder`, by problem, sorted; raises BadInput as `table_entry` does."""
    return _entries(folder, _times(folder))


@lru_cache(maxsize=4)  # every fit that learns from other problems asks for them
def _entries(folder: Path, times: tuple[int, ...]) -> Mapping[str, Mapping[str, Any]]:
    return {problem: table_entry(problem, folder) for problem in sorted(_manifests(folder, times)[1]["tables"])}


def check_entry(manifest: Mapping[str, Any], problem: str, folder: Path) -> None:
    """Raise BadInput unless the entry of a problem in a `base_manifest` is as a builder wrote it: by its seal.

    Entries without a seal are of tables from before there were any; those had no identity of their data either.
    """
    path, entry = folder / "manifest.json", manifest["tables"][problem]
    if isinstance(entry, dict) and PENDING in entry and "sha256" not in entry:
        raise BadInput(_half_written(problem, folder))
    if not isinstance(entry, dict) or not isinstance(entry.get("sha256"), str):
        raise BadInput(f"{path}: the entry of {problem} has no sha256")
    if entry.get(SEAL) != seal_of(manifest, problem) and (SEAL in entry or "identity" in entry):
        raise BadInput(
            f"{path}: the entry of {problem} is wrong: it is not as it was written, its seal is that of other values; "
            "restore it"
        )


def about(problem: str, entry: Mapping[str, Any]) -> About:
    """Return what a manifest's entry says of its problem."""
    dataset, _, pipeline = problem.partition("/")
    sizes = (int(entry[name]) for name in ("n_train", "width_after", "n_classes"))
    return About(dataset, pipeline, str(entry["task"]), *sizes)


@lru_cache(maxsize=4)
def read_table(problem: str, folder: Path = TABLES) -> Table:
    """Return the table of a problem as `load_table` does, the last few being remembered."""
    return load_table(problem, folder)


def load_table(problem: str, folder: Path = TABLES) -> Table:
    """Return the table of a problem from its base file and its parts, checked against the manifest and the sidecars.

    Raises BadInput, naming the file, when one is missing, unreadable or differs from its checksum, and for rows that
    make no sense.
    """
    entry = table_entry(problem, folder)
    try:
        table = to_table(problem, table_rows(problem, folder, entry), entry)
        check_rows(entry, table.columns, table.status, table.statuses)
    except BadInput:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, pa.ArrowException) as error:
        path = base_file(problem, folder)
        raise BadInput(f"{path} is no table of measurements ({type(error).__name__}: {error})") from None
    return table


def load_unchanged(problem: str, sha256: str, folder: Path = TABLES) -> Table:
    """Return the table of a problem as `load_table` does; raises BadInput if it is another than that of `sha256`."""
    table = load_table(problem, folder)
    if table.meta["sha256"] != sha256:
        raise BadInput(f"the table of {problem} in {folder} was changed meanwhile: run the command again")
    return table


def has_base(entry: Mapping[str, Any]) -> bool:
    """Whether a table's base file is part of it: not where it was measured from scratch since, in parts."""
    return not entry.get("parts") or entry["file_sha256"] is not None


def base_file(problem: str, folder: Path) -> Path:
    """Return where the table of a problem lies, but for its parts."""
    return folder / f"{file_stem(problem)}.parquet"


def table_rows(problem: str, folder: Path, entry: Mapping[str, Any]) -> pa.Table:
    """Return all rows of a table: those of its base file, unless it was measured from scratch since, and its parts.

    entry: `table_entry`.
    """
    path = base_file(problem, folder)
    names = [path, *(part["file"] for part in entry.get("parts", ()))]
    contents = [read_part(folder, part) for part in entry.get("parts", ())]
    if has_base(entry):
        contents.insert(0, _content(problem, folder, entry, path))
    else:
        del names[0]
    tables = [read_rows(content, f"the table {name}") for content, name in zip(contents, names, strict=True)]
    for rows in tables:  # all are sorted when they are put together
        check_order(rows["config"].to_numpy(), rows["n_estimators"].to_numpy())
    return joined(tables) if len(tables) > 1 else tables[0]


def _content(problem: str, folder: Path, entry: Mapping[str, Any], path: Path) -> bytes:
    """Return the bytes of a table's base file."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(f"cannot read the table of {problem}, {path}: {error.strerror}") from None
    found = sha256_of(content)
    if found != _file_sha256(entry):  # a build may have written it since the manifest was read
        entry = table_entry(problem, folder)
    if found == entry.get(PENDING):
        raise BadInput(_half_written(problem, folder))
    if found != _file_sha256(entry):
        raise BadInput(
            f"the table {path} is damaged or foreign: sha256 {found[:12]}, the manifest says "
            f"{_file_sha256(entry)[:12]}; " + repair(folder, problem, read_manifest(folder))
        )
    return content


def _file_sha256(entry: Mapping[str, Any]) -> str:
    """Return the checksum of a table's base file; where there are parts, `sha256` is that of the whole."""
    return str(entry.get("file_sha256") or entry["sha256"])


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
    status, names = statuses.indices.to_numpy(), tuple(statuses.dictionary.to_pylist())
    return Table(problem, native, XGBOOST_SPACE.to_unit(native), columns, status, names, meta)


# What to do about a table that is not as it should be.


def _half_written(problem: str, folder: Path) -> str:
    command = _build_command(folder, read_manifest(folder), problem)
    return f"the table of {problem} is half written, by a build that goes on or was killed: {command} completes it"


def repair(folder: Path, problem: str, manifest: Mapping[str, Any]) -> str:
    """Return what to do about the table of a problem that is not what was written."""
    if sidecars(folder):
        return "restore it (the shipped ones by `git checkout`)"
    return f"restore it, or move it away and measure anew with {_build_command(folder, manifest, problem)}"


def _how_to_build(folder: Path, manifest: Mapping[str, Any], problem: str) -> str:
    """Return how to get a table that is not there: in a folder of its own, if those of `folder` grow by parts."""
    if not sidecars(folder):
        return f"build it with {_build_command(folder, manifest, problem)}"
    elsewhere = _build_command(Path("DIR"), manifest, problem)
    return f"build it in a folder of its own with {elsewhere}, and replay it with evaluator.tables=DIR"


def _build_command(folder: Path, manifest: Mapping[str, Any], problem: str = "") -> str:
    """Return the command that builds the tables of a folder with this manifest, or the one of a problem."""
    dataset, _, pipeline = problem.partition("/")
    method = manifest.get("tree_method")
    which = f" 'dataset=[{dataset}]' 'pipeline=[{pipeline}]'" if problem else ""
    here = "" if folder == TABLES else f" tables={folder}"
    how = "" if method in (None, "exact") else f" tree_method={method}"
    return f"`python -m tabular_cache build{which}{here}{how}`"


# Which part of a table is used.


def configurations(table: Table) -> int:
    """Return how many configurations a table has."""
    return int(table["config"].max()) + 1


def first_configs(table: Table, n_configs: int | None) -> Bool[np.ndarray, " m"]:
    """Return which rows are of the first `n_configs` configurations (None: all); BadInput where there are fewer."""
    there = configurations(table)
    if n_configs is not None and n_configs > there:
        raise BadInput(f"the table of {table.problem} has {there} configurations, evaluator.n_configs={n_configs}")
    return np.asarray(table["config"] < (there if n_configs is None else n_configs))

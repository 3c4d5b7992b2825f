"""Parts: what later sittings measured, in files that are written once; a table is its base file plus its parts.

`tables/parts/<data set>--<pipeline>--0001.parquet` holds rows as tables do, and `...--0001.json` beside it, its
sidecar, says of which stage they are, their checksum, and what the table comes to with them. The sidecar is written
last: a part without one was never finished. Rows of a later part replace what its configurations had before.

A part either *continues* the table of the manifest (the sidecar names that one's data hash), or belongs to a table
measured from scratch because the data have changed since. Such a new table takes the old one's place once it has as
many configurations; until then readers pass its parts over, and nobody notices it.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from datasets.errors import BadInput
from datasets.files import write_atomically
from harness.records import read_parquet
from tabular_cache.schema import SCHEMA_VERSION, SEAL, digest_of, file_stem

FOLDER = "parts"
NOISE = "noise"  # of the parts that hold repeated measurements, in place of a problem
_NEEDED = ("problem", "number", "file", "sha256", "bytes", "core_s", SEAL)
_OF_CAMPAIGN = ("date", "cpu", "cores", "threads_per_training", "python", "versions", "workers")

Sidecar = dict[str, Any]


def sidecars(folder: Path) -> dict[str, list[Sidecar]]:
    """Return the sidecars of all finished parts of a folder of tables, by problem, in the order they were written.

    Raises BadInput for one that cannot be read.
    """
    where = folder / FOLDER
    return _sidecars(where, where.stat().st_mtime_ns) if where.is_dir() else {}


@lru_cache(maxsize=4)
def _sidecars(where: Path, mtime_ns: int) -> dict[str, list[Sidecar]]:
    found = sorted((_sidecar(path) for path in where.iterdir() if _is_sidecar(path.name)), key=_place)
    return {problem: list(parts) for problem, parts in groupby(found, key=lambda part: str(part["problem"]))}


def _is_sidecar(name: str) -> bool:
    number = name.removesuffix(".json").rpartition("--")[2]
    return name.endswith(".json") and number.isdigit()


def _place(part: Sidecar) -> tuple[str, int]:
    return str(part["problem"]), int(part["number"])


def _sidecar(path: Path) -> Sidecar:
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


def stem(problem: str, number: int) -> str:
    """Return the stem of the two files of a part."""
    return f"{file_stem(problem)}--{number:04d}"


def read_part(folder: Path, part: Mapping[str, Any]) -> bytes:
    """Return a part's parquet file; raises BadInput unless its bytes are those that its sidecar vouches for."""
    path = folder / FOLDER / str(part["file"])
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(f"cannot read the part {path}: {error.strerror}; restore it") from None
    found = hashlib.sha256(content).hexdigest()
    if found != part["sha256"]:
        raise BadInput(
            f"the part {path} is damaged or foreign: sha256 {found[:12]}, its sidecar says {part['sha256'][:12]}; "
            "restore it"
        )
    return content


def write_part(folder: Path, problem: str, number: int, content: bytes, facts: Mapping[str, Any]) -> Sidecar:
    """Write a part and then its sidecar with `facts`; returns the latter. Raises BadInput if the part is there."""
    name = stem(problem, number)
    if (folder / FOLDER / f"{name}.json").exists():
        raise BadInput(f"{folder / FOLDER / name} is finished: a part is never written again")
    part = {
        "problem": problem,
        "number": number,
        "file": f"{name}.parquet",
        "sha256": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
        **facts,
    }
    write_atomically(folder / FOLDER / f"{name}.parquet", content)
    sealed = part | {SEAL: digest_of(part)}
    write_atomically(folder / FOLDER / f"{name}.json", json.dumps(sealed, indent=1).encode() + b"\n")
    return part


def rows_of(content: bytes) -> pa.Table:
    """Return the rows in a part's file; raises BadInput for another schema than this version's."""
    rows = read_parquet(content)
    version = (rows.schema.metadata or {}).get(b"schema_version", b"none").decode()
    if version != str(SCHEMA_VERSION):
        raise BadInput(f"a part has schema {version}, this version reads {SCHEMA_VERSION}")
    return rows


def data_of(folder: Path, entry: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    """Return hash and identity of the matrices that each configuration of a table's parts was trained on.

    entry: the table's, as `with_parts` has it. What is not in a part was trained on the data of the base file.
    """
    found: dict[int, Mapping[str, Any]] = {}
    for part in entry.get("parts", ()):
        configs = rows_of(read_part(folder, part))["config"].unique().to_pylist()
        found |= dict.fromkeys(configs, part["data"])
    return found


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of several tables of one problem, those of a later one replacing its configurations' before."""
    kept: list[pa.Table] = []
    for table in tables:
        again = pc.unique(table["config"])
        kept = [before.filter(pc.invert(pc.is_in(before["config"], again))) for before in kept] + [table]
    whole = pa.concat_tables([table.replace_schema_metadata(tables[0].schema.metadata) for table in kept])
    whole = whole.unify_dictionaries().combine_chunks()
    return whole.sort_by([("config", "ascending"), ("n_estimators", "ascending")])


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


def has_moved_in(anew: Sequence[Sidecar], base: Mapping[str, Any] | None) -> bool:
    """Say whether a table measured from scratch has as many configurations as the one whose place it takes."""
    return bool(anew) and (base is None or anew[-1]["table"]["configs"] >= base["configs"])


def with_parts(manifest: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return a manifest whose entries and campaigns count the parts in: what readers see.

    An entry's `sha256` is its table's: the base file's where there are no parts, else the digest of the checksums of
    all its files; `file_sha256` and `file_bytes` are the base file's then (None where only parts are read), and `parts`
    are the sidecars to read.
    """
    found = sidecars(folder)
    problems = {problem: parts for problem, parts in found.items() if problem != NOISE}
    if not found:
        return dict(manifest)
    tables = dict(manifest["tables"])
    for problem, parts in problems.items():
        base = tables.get(problem)
        entry = _entry(base, *lineages(parts, base))
        if entry is not None:
            tables[problem] = entry
    every = [part for parts in found.values() for part in parts]
    campaigns = [*manifest["campaigns"], *_campaigns(sorted(every, key=lambda part: str(part["campaign"]["date"])))]
    return {**manifest, "tables": dict(sorted(tables.items())), "campaigns": campaigns}


def _entry(
    base: Mapping[str, Any] | None, goes_on: Sequence[Sidecar], anew: Sequence[Sidecar]
) -> dict[str, Any] | None:
    """Return the entry of a table with its parts; None where none of them is read (yet)."""
    if has_moved_in(anew, base):
        return {**anew[0]["data"], **_sums(anew), "file_sha256": None, "sha256": checksum(None, anew)}
    if not goes_on or base is None:
        return None if base is None else dict(base)
    sums = _sums(goes_on)
    sums |= {name: base[name] + sums[name] for name in ("bytes", "core_s")}
    of_base = {"file_sha256": base["sha256"], "file_bytes": base["bytes"]}
    unsealed = {key: value for key, value in base.items() if key != SEAL}
    return {**unsealed, **sums, **of_base, "sha256": checksum(base["sha256"], goes_on)}


def _sums(parts: Sequence[Sidecar]) -> dict[str, Any]:
    """Return what an entry says of all its parts together; configurations and rows are those of the whole table."""
    return {
        "bytes": sum(part["bytes"] for part in parts),
        "core_s": round(sum(part["core_s"] for part in parts), 3),
        **parts[-1]["table"],
        "parts": list(parts),
    }


def checksum(base_sha256: str | None, parts: Sequence[Sidecar]) -> str:
    """Return the digest of the checksums of a base file and its parts."""
    sums = [base_sha256 or "", *(str(part["sha256"]) for part in parts)]
    return hashlib.sha256("\n".join(sums).encode()).hexdigest()


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

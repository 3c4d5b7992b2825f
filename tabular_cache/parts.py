"""Parts: what later sittings measured, in files that are written once; a table is its base file plus its parts.

`tables/parts/<data set>--<pipeline>--0001.parquet` holds rows as tables do, and `...--0001.json` beside it, its
sidecar, says of which stage they are, their checksum, and what the table comes to with them. The sidecar is written
last: a part without one was never finished. Rows of a later part replace what its configurations had before.

A part either *continues* the table of the manifest (the sidecar names that one's data hash), or belongs to a table
measured from scratch because the data have changed since. Such a new table takes the old one's place once it has as
many configurations; until then readers pass its parts over.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

from datasets.errors import BadInput
from datasets.files import write_atomically
from tabular_cache.schema import SEAL, digest_of, file_stem, read_rows, sha256_of

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
    path = folder / FOLDER / str(part["file"])
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
    path = folder / FOLDER / f"{file_stem(problem)}--{number:04d}"
    if path.with_suffix(".json").exists():
        raise BadInput(f"{path} is finished: a part is never written again")
    names = {"problem": problem, "number": number, "file": f"{path.name}.parquet"}
    part = {**names, "sha256": sha256_of(content), "bytes": len(content), **facts}
    write_atomically(path.with_suffix(".parquet"), content)
    sealed = part | {SEAL: digest_of(part)}
    write_atomically(path.with_suffix(".json"), json.dumps(sealed, indent=1).encode() + b"\n")
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
        entry = None if problem == NOISE else _entry(tables.get(problem), parts)
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

"""Records of the experiments beside the study: one sealed file per case, with its spec inside.

    <folder>/<label>-<spec hash>.parquet

What is there, whole, is not done again. A damaged record is named and kept aside, and its case done again, by the
command that makes it; whatever reads records refuses it. One whose spec is not that of its name, both refuse.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from glob import escape
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from datasets.errors import BadInput
from datasets.files import write_atomically
from harness.records.checks import DamagedRecord, check_place, damage_named, set_aside
from harness.records.layout import parse_spec, spec_hash
from harness.sealing import check_seal, has_seal, read_parquet, sealed_parquet

Spec = dict[str, Any]
Content = TypeVar("Content")


def record_path(folder: Path, label: str, spec: Spec, suffix: str = "parquet") -> Path:
    """Return where the record of `spec` belongs."""
    return folder / f"{label}-{spec_hash(spec)}.{suffix}"


def write_record(path: Path, rows: Sequence[Mapping[str, Any]], columns: pa.Schema, spec: Spec) -> None:
    """Write the record of `spec`; equal rows, columns and specs give equal bytes."""
    values = {name: [row[name] for row in rows] for name in columns.names}
    schema = columns.with_metadata({"spec": json.dumps(spec, sort_keys=True), "sealed": "1"})
    write_atomically(path, sealed_parquet(pa.table(values, schema=schema)))


def read_record(path: Path) -> tuple[Spec, pa.Table]:
    """Return a record's spec and table.

    Raises DamagedRecord if a byte of it has changed since it was sealed, BadInput if its spec is not its name's.
    """
    with damage_named(path):
        content = path.read_bytes()
        table = read_parquet(content)
        metadata = table.schema.metadata or {}
        if has_seal(content) or b"sealed" in metadata:  # those from before seals have neither
            check_seal(content)
        spec: Spec = parse_spec(metadata[b"spec"])
    check_place(path, path.stem, spec)
    return spec, table


def is_done(path: Path, read: Callable[[Path], Any] = read_record) -> bool:
    """Say whether a record is there, whole; a damaged one is moved aside, which standard error tells.

    read: what reads such a record, raising DamagedRecord for a damaged one. Raises what it raises for another's.
    """
    if not path.exists():
        return False
    try:
        read(path)
    except DamagedRecord as damage:
        print(set_aside(path, damage), file=sys.stderr)
        return False
    return True


def read_kept(folder: Path, label: str) -> list[tuple[Spec, pa.Table]]:
    """Return spec and table of every record of `label` in `folder`; damaged ones are moved aside, as by `is_done`."""
    paths = sorted(folder.glob(f"{escape(label)}-*.parquet"))
    return [read_record(path) for path in paths if is_done(path)]


def missing_seeds(spec: Spec, folder: Path, label: str) -> list[int]:
    """Return the seeds of `spec` that no record of `label` in `folder` under the same settings holds."""
    kept = [own for own, _ in read_kept(folder, label)]
    same = [own for own in kept if spec_hash({**own, "seeds": spec["seeds"]}) == spec_hash(spec)]
    done = {seed for own in same for seed in own["seeds"]}
    return [seed for seed in spec["seeds"] if seed not in done]


def check_same(specs: Sequence[Spec], keys: Sequence[str], folder: Path) -> None:
    """Raise BadInput, naming them, if a setting among `keys` has two values in the specs that have it."""
    for key in keys:
        values = {json.dumps(spec[key], sort_keys=True) for spec in specs if key in spec}
        if len(values) > 1:
            raise BadInput(
                f"the records in {folder} do not compare, {key} is {' and '.join(sorted(values))}: "
                "move those of one setting away, or give each a results_dir of its own"
            )


def read_all(
    folder: Path,
    read: Callable[[Path], tuple[Spec, Content]],
    name: Callable[[Spec], str],
    command: str,
    shared_out: str = "",
) -> list[tuple[Spec, Content]]:
    """Return spec and content of every record in `folder`, those of `command`, in the order of the files.

    name: what a spec is about, such as a problem; shared_out: a setting, such as seeds, in which several records about
    the same may differ. Raises BadInput where there is none, DamagedRecord for one that is damaged, and BadInput for
    another's, or for two about the same under two settings.
    """
    found, seen = list[tuple[Spec, Content]](), dict[str, tuple[Path, Spec]]()
    for path in sorted(p for p in folder.rglob("*") if p.suffix in (".parquet", ".json")):
        spec, content = read(path)
        with damage_named(path):
            about = name(spec)
        other, first = seen.setdefault(about, (path, spec))
        differ = [key for key in sorted({*spec, *first}) if spec.get(key) != first.get(key) and key != shared_out]
        if other != path and (differ or not shared_out):
            why = f" ({', '.join(differ)})" if differ else ""
            raise BadInput(f"{about} is recorded under two settings{why}: {other} and {path}; move one away")
        found.append((spec, content))
    if not found:
        raise BadInput(f"no records in {folder}: run `{command}` first")
    return found

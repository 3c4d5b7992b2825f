"""Whether a record is what was written: its seal, its schema, and that its spec belongs where it lies."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from datasets.errors import BadInput
from harness.records.layout import TIMINGS_SUFFIX, block_folder, front_files, parse_spec, spec_hash, trace_files
from harness.sealing import check_seal, has_seal

RECORD_SCHEMA = 2
_UNSEALED = 1  # the schema of records from before seals and versions, which are still read


class DamagedRecord(BadInput):
    """A records file whose bytes are not those that were written."""


class OtherSchema(BadInput):
    """A record of another version of the project, which is as it was written: nothing to move away or make again."""


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Turn what reading a damaged record raises into DamagedRecord, which names the file.

    Milliseconds are measured again only together with the trace, so that both are to be moved.
    """
    try:
        yield
    except BadInput:
        raise
    except (OSError, KeyError, ValueError, TypeError, AttributeError, RecursionError, pa.ArrowException) as error:
        why = str(error) if type(error) is ValueError else type(error).__name__
        trace = path.name.removesuffix(TIMINGS_SUFFIX)
        both = "it" if trace == path.name else f"it and {trace}.parquet beside it"
        raise DamagedRecord(f"damaged record {path} ({why}): move {both} away and run again") from None


def set_aside(path: Path, damage: DamagedRecord) -> str:
    """Move a damaged record to a free name beside it, `.damaged`, and return the line that says so."""
    names = (f"{path.name}.damaged", *(f"{path.name}.damaged.{k}" for k in range(2, 10_000)))
    aside = next(other for other in map(path.with_name, names) if not other.exists())
    path.rename(aside)
    return f"{str(damage).rpartition(':')[0]}: moved to {aside.name}, its runs are done again"


def check_place(path: Path, name: str, spec: dict[str, Any]) -> None:
    """Raise BadInput unless `name`, the file's or its folder's, ends in the hash of the record's spec."""
    named, own = name.rpartition("-")[2], spec_hash(spec)
    if named != own:
        raise BadInput(f"foreign record {path}: its spec is {own}, its name says {named}; move it away")


def checked_header(path: Path, content: bytes) -> dict[str, Any]:
    """Return what the records file `content`, found at `path`, says of itself: schema, spec, seeds, versions.

    Raises DamagedRecord if a byte has changed, BadInput if its spec does not belong into that folder.
    """
    with damage_named(path):
        header = header_of(path, pq.read_schema(pa.BufferReader(content)))
        if header["schema"] != _UNSEALED or has_seal(content):
            check_seal(content)
        spec = header["spec"]
    check_place(path, path.parent.name, spec)
    return header


def read_header(path: Path) -> dict[str, Any]:
    """Return what a record says of itself: schema, spec and seeds. Raises BadInput for a damaged file."""
    with damage_named(path):
        return header_of(path, pq.read_schema(path))


def header_of(path: Path, schema: pa.Schema) -> dict[str, Any]:
    """Return what the metadata say of the record; raises KeyError or ValueError for damage, BadInput if newer."""
    header = parse_spec((schema.metadata or {})[b"block"])
    if header["schema"] not in (RECORD_SCHEMA, _UNSEALED):
        raise OtherSchema(f"{path} has record schema {header['schema']}, this version reads up to {RECORD_SCHEMA}")
    return dict(header)


def seeds_done(results: Path, spec: dict[str, Any], fronts: bool = False) -> set[int]:
    """Return the seeds of a spec that are on disk, complete: their traces, or their `fronts`.

    Raises BadInput for a damaged file.
    """
    folder, done = block_folder(results, spec), set[int]()
    for path in front_files(folder) if fronts else trace_files(folder):
        done.update(read_header(path)["seeds"])
    return done

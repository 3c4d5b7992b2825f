"""One download per kind of origin; each writes the wanted files into a folder and returns their paths."""

import hashlib
import io
import logging
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from datasets import clients
from datasets.catalogue import File
from datasets.errors import BadInput
from datasets.origins import Kaggle, Libsvm, OpenML, Origin, Uci

_LARGEST = 500_000_000  # bytes of one archive's members together, unpacked: none of the data sets comes near


def download(origin: Origin, files: Sequence[File], folder: Path) -> tuple[Path, ...]:
    """Download `files` from `origin` into `folder`; the caller verifies them.

    Raises OSError, ValueError, ImportError or one of BROKEN_ARCHIVE if they cannot be had.
    """
    paths = tuple(folder / f"{number}-{Path(file.path).name}" for number, file in enumerate(files))
    match origin:
        case Uci():
            archive = _retrieve(origin.url, folder / "archive.zip")
            for file, path in zip(files, paths, strict=True):
                path.write_bytes(_member(archive, file))
        case Libsvm():
            for path in paths:
                _retrieve(origin.url, path)
        case OpenML():
            clients.openml_table(origin, paths[0], folder)
        case Kaggle():
            clients.kaggle_files(origin, files, paths)
    return paths


def _retrieve(url: str, path: Path) -> Path:
    """Download `url` to `path`."""
    import pooch

    pooch.get_logger().setLevel(logging.WARNING)
    pooch.retrieve(url, known_hash=None, fname=path.name, path=path.parent)
    return path


def _member(archive: Path, file: File) -> bytes:
    """Return the member of the archive that has the file's checksum.

    Members are known by their content: their names, which may hold any path, are used nowhere.
    """
    with zipfile.ZipFile(archive) as opened:
        for data in _members(opened):
            if hashlib.sha256(data).hexdigest() in (file.sha256, file.twin):
                return data
        held = ", ".join(opened.namelist()[:8]) or "nothing"
    raise BadInput(f"the archive has no {Path(file.path).name} with checksum {file.sha256[:12]}; it holds {held}")


def _members(archive: zipfile.ZipFile, nested: bool = True) -> Iterator[bytes]:
    """Yield the content of each member, and of the members of archives within the archive."""
    unpacked = 0
    for info in archive.infolist():
        if info.is_dir():
            continue
        unpacked += info.file_size  # zipfile unpacks no more than a member declares
        if unpacked > _LARGEST:
            raise BadInput(f"archive member {info.filename} unpacks to {unpacked} bytes in all: refused")
        data = archive.read(info)
        yield data
        if nested and info.filename.lower().endswith(".zip"):
            with zipfile.ZipFile(io.BytesIO(data)) as inner:
                yield from _members(inner, nested=False)

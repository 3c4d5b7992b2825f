"""Where raw files may lie: the folder named by the user, then this project's cache."""

import os
from dataclasses import dataclass
from pathlib import Path

from datasets.catalogue import Entry, File, Source
from datasets.digest import cache_folder, file_sha256
from datasets.errors import BadInput

@dataclass(frozen=True)
class Found:
    """A source whose files are all at hand: `place` is "home" or "cache"."""

    source: Source
    place: str
    paths: tuple[Path, ...]


def home() -> Path | None:
    """Return the folder that DATASETS_HOME names, None if it is not set.

    Raises BadInput if it is set to what is no folder.
    """
    value = os.environ.get("DATASETS_HOME")
    if not value:
        return None
    if not Path(value).is_dir():
        raise BadInput(f"DATASETS_HOME={value} is not a folder; unset it, or name the folder of the raw files")
    return Path(value)


def places() -> dict[str, Path]:
    """Return the folders to look in, in order."""
    named = home()
    return ({"home": named} if named else {}) | {"cache": cache_folder()}


def find(entry: Entry) -> Found | None:
    """Return the first source, place by place, whose files all exist; they are not verified yet."""
    for place, folder in places().items():
        if found := find_in(entry, place, folder):
            return found
    return None


def find_in(entry: Entry, place: str, folder: Path) -> Found | None:
    """Return the first source whose files all exist below `folder`."""
    for source in entry.sources:
        paths = tuple(folder / file.path for file in source.files)
        if all(path.is_file() for path in paths):
            return Found(source, place, paths)
    return None


def remedy(entry: Entry, download: str) -> str:
    """Return what to do about files that are at no place: `download`, or where to put those that have no origin."""
    if any(source.origin for source in entry.sources):
        return download
    folder = home() or cache_folder()
    files = [" and ".join(str(folder / file.path) for file in source.files) for source in entry.sources]
    return f"there is nowhere to download it from: put it there as {', or as '.join(files)}"


def sidecar(path: Path) -> Path:
    """Return where the checksum lies of a file whose bytes only its download knew."""
    return path.with_name(path.name + ".sha256")


def verify(file: File, path: Path) -> None:
    """Raise BadInput unless the bytes at `path` are those of `file`."""
    actual = file_sha256(path)
    if file.sha256:
        expected, accepted = file.sha256, actual in (file.sha256, file.twin)
    else:
        beside = sidecar(path)
        expected = beside.read_text(encoding="ascii").strip() if beside.is_file() else "missing .sha256 file"
        accepted = actual == expected
    if not accepted:
        raise BadInput(f"wrong checksum: expected {expected[:12]}, got {actual[:12]}: {path}")

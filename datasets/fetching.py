"""`fetch`: download a data set into the cache; what is there afterwards is verified and complete."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from datasets.catalogue import Entry, Source
from datasets.downloads import download
from datasets.errors import BROKEN_ARCHIVE, BadInput
from datasets.places import Found, cache_folder, find_in, home, remedy, sidecar, verify


def fetch(entry: Entry) -> Found:
    """Return the data set's files in the cache, downloaded unless they lie there undamaged.

    The sources are tried in order. Files are verified under a temporary name and then renamed, so an
    interrupted or wrong download leaves nothing behind that could be taken for the data.
    Raises BadInput if no source can be had; it says why for each.
    """
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"the cache folder {folder} cannot be made: {error.strerror}") from None
    reasons = []
    with _locked(folder, entry.name):
        present = find_in(entry, "cache", folder)
        if present and _intact(present):
            return present
        for source in entry.sources:
            if source.origin is None:
                continue
            try:
                return _fetch_source(entry.name, source, folder)
            except (OSError, ValueError, ImportError, *BROKEN_ARCHIVE) as error:  # requests' errors are OSErrors
                reasons.append(f"{source.origin}: {_one_line(error)}")
    named = home()
    looked = f"DATASETS_HOME ({named})" if named else "DATASETS_HOME (not set)"
    again = f"not downloaded ({'; '.join(reasons)}); to try again: python -m datasets fetch {entry.name}"
    raise BadInput(
        f"data set {entry.name}: not found in {looked} nor in the cache ({folder}), and {remedy(entry, again)}"
    )


def _fetch_source(name: str, source: Source, folder: Path) -> Found:
    """Download into a temporary folder, verify, rename; each checksum of our own making before its file."""
    temporary = Path(tempfile.mkdtemp(prefix=f".{name}-", suffix=".part", dir=folder))
    try:
        assert source.origin is not None  # the caller's loop sees to it
        staged = download(source.origin, source.files, temporary)
        final = tuple(folder / file.path for file in source.files)
        for file, path in zip(source.files, staged, strict=True):
            verify(file, path)
        for path, target in zip(staged, final, strict=True):
            target.parent.mkdir(parents=True, exist_ok=True)
            if sidecar(path).is_file():
                sidecar(path).replace(sidecar(target))
            path.replace(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return Found(source, "cache", final)


def _intact(found: Found) -> bool:
    try:
        for file, path in zip(found.source.files, found.paths, strict=True):
            verify(file, path)
    except BadInput:
        return False
    return True


@contextlib.contextmanager
def _locked(folder: Path, name: str) -> Iterator[None]:
    """Hold the cache for this process, and clear away what a killed download of `name` left."""
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:  # some network file systems cannot: renames are atomic all the same
            yield
            return
        for stale in folder.glob(f".{name}-*.part"):
            shutil.rmtree(stale, ignore_errors=True)
        yield
    finally:
        os.close(handle)


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 300 else text[:297] + "..."

"""Raw files: the places where they may lie, and their downloads into the cache (`fetch`).

Places are the folder that DATASETS_HOME names, then this project's cache. Files of the catalogue's origins are
downloaded under a temporary name, verified and then renamed. The sites' own clients are imported only when needed.
"""

import contextlib
import hashlib
import io
import logging
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from datasets.catalogue import Entry, File, Kaggle, Libsvm, OpenML, Origin, Source, Uci, base_url
from datasets.errors import BROKEN_ARCHIVE, BadInput
from datasets.files import cache_folder, file_sha256


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


# Downloads through the clients of OpenML and Kaggle.


def openml_table(origin: OpenML, path: Path, folder: Path) -> None:
    """Write OpenML's table as a comma separated file, if its shape and target are as they should be."""
    import openml
    import pandas

    try:
        with _openml_settings(folder / "openml"):
            table = openml.datasets.get_dataset(
                origin.number, download_data=True, download_qualities=False, download_features_meta_data=True
            )
            frame = table.get_data()[0]
    except openml.exceptions.PyOpenMLError as error:
        raise OSError(str(error)) from None
    if not isinstance(frame, pandas.DataFrame):
        raise BadInput(f"OpenML's client gave a {type(frame).__name__}, not a table")
    if frame.shape != (origin.rows, origin.columns) or origin.target not in frame.columns:
        expected = (origin.rows, origin.columns)
        raise BadInput(f"its shape is {frame.shape}, expected {expected} with target {origin.target!r}")
    frame.to_csv(path, index=False, lineterminator="\n")
    _record(path)


@contextlib.contextmanager
def _openml_settings(folder: Path) -> Iterator[None]:
    """Let OpenML's client use our address, a folder of our own and two tries; its settings are global."""
    import openml

    config = openml.config
    server, root = config.server, config._root_cache_directory
    policy, tries = config.retry_policy, config.connection_n_retries
    try:
        config.server = base_url("openml")
        config.set_root_cache_directory(str(folder))
        config.set_retry_policy("human", 2)
        yield
    finally:
        config.server = server
        config.set_root_cache_directory(str(root))
        config.set_retry_policy(policy, tries)


def kaggle_files(origin: Kaggle, files: Sequence[File], paths: Sequence[Path]) -> None:
    """Copy the wanted files from what Kaggle's client downloads: by name, else packed (verified later)."""
    try:
        import kagglehub
    except ImportError:
        raise ImportError("needs Kaggle's client: pip install -c constraints.txt -e '.[kaggle]'") from None
    root = Path(kagglehub.dataset_download(origin.handle))
    held = sorted(path for path in root.rglob("*") if path.is_file())
    for file, path in zip(files, paths, strict=True):
        name = Path(file.path).name
        named = [other for other in held if other.name == name]
        if named:
            path.write_bytes(named[0].read_bytes())
        elif not file.sha256 and origin.packed:
            _pack(sorted(root.rglob(origin.packed)), path)
        else:
            raise BadInput(f"Kaggle's download has no file {name}")
        if not file.sha256:
            _record(path)


def _pack(loose: Sequence[Path], path: Path) -> None:
    """Put files into a zip whose bytes depend on their names and contents only."""
    if not loose:
        raise BadInput(f"Kaggle's download has neither {path.name} nor the files in it")
    with zipfile.ZipFile(path, "w") as archive:
        for file in loose:
            archive.writestr(zipfile.ZipInfo(file.name), file.read_bytes())


def _record(path: Path) -> None:
    """Write down the checksum of a file whose bytes could not be known beforehand."""
    sidecar(path).write_text(file_sha256(path) + "\n", encoding="ascii")


# One download per kind of origin; each writes the wanted files into a folder and returns their paths.

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
            openml_table(origin, paths[0], folder)
        case Kaggle():
            kaggle_files(origin, files, paths)
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

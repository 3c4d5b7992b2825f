"""Files and folders: checksums, atomic writes, cache files that carry their checksum.

Also the folders that the environment names, and the user's cache folder.
"""

import contextlib
import hashlib
import logging
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas

LOG = logging.getLogger(__name__)


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def values_sha256(X: "pandas.DataFrame", y: np.ndarray, classes: tuple[str, ...]) -> str:
    """Return the SHA-256 of the values of a data set, whatever file or library version they came through.

    Column by column: its name and kind, then its values as little-endian float64, as level labels and
    int64 codes, or as length-prefixed UTF-8; the class labels and targets follow.
    """
    sha = hashlib.sha256()
    for name in X.columns:
        _feed_text(sha, [str(name)])
        _feed_column(sha, X[name])
    _feed_text(sha, classes)
    _feed_text(sha, [str(y.dtype)])
    sha.update(np.ascontiguousarray(y).astype(y.dtype.newbyteorder("<"), copy=False).tobytes())
    return sha.hexdigest()


def _feed_column(sha: "hashlib._Hash", column: "pandas.Series") -> None:
    if hasattr(column, "cat"):
        _feed_text(sha, ["category", *map(str, column.cat.categories)])
        sha.update(column.cat.codes.to_numpy().astype("<i8").tobytes())
    elif column.dtype.kind in "biuf":
        _feed_text(sha, ["bool" if column.dtype.kind == "b" else "numeric"])
        sha.update(column.to_numpy().astype("<f8").tobytes())
    else:
        _feed_text(sha, ["text", *column])


def _feed_text(sha: "hashlib._Hash", texts: "list[str] | tuple[str, ...]") -> None:
    for text in texts:
        data = text.encode()
        sha.update(len(data).to_bytes(8, "little") + data)
    sha.update(b"\xff" * 8)  # no length: the end of the list


_FOLDERS = ("DATASETS_HOME", "COST_AWARE_BO_CACHE")


def resolve_folders() -> None:
    """Make the folders that the environment names absolute, against the directory of this moment.

    The package does so when it is imported: what then changes its directory, or is started in another one, looks where
    the user meant.
    """
    for variable in _FOLDERS:
        if value := os.environ.get(variable):
            os.environ[variable] = str(Path(value).absolute())


def cache_folder(part: str = "") -> Path:
    """Return a folder for what can be made again: that of downloads, or the one named `part`.

    COST_AWARE_BO_CACHE, else the user's cache folder; it may not exist yet.
    """
    if value := os.environ.get("COST_AWARE_BO_CACHE"):
        return Path(value) / part
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("cost-aware-bo", appauthor=False)) / (part or "datasets")


# Atomic writes: a file is either as it was or complete, whatever happens in between.


def write_atomically(path: Path, content: bytes) -> None:
    """Write `content` to `path` by way of a temporary name, synced to disk before it is renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system that does not let folders be synced
            os.fsync(folder)  # the rename outlasts a power cut
    finally:
        os.close(folder)


# Sealed files can tell whether they are whole: the SHA-256 of the content, then the content.

_DIGEST = hashlib.sha256().digest_size


def write_sealed(path: Path, content: bytes) -> None:
    """Write `content` under its seal into a cache, atomically: of several writers the last one stays, whole.

    Where it cannot be written (a full disk, a folder that is not ours), a warning says so: it is made again next time.
    """
    try:
        write_atomically(path, hashlib.sha256(content).digest() + content)
    except OSError as error:
        LOG.warning("%s is not kept in the cache (%s)", path, error)


def read_sealed(path: Path) -> bytes | None:
    """Return the content of a sealed file; None where there is none, or a damaged one, which is logged."""
    try:
        whole = memoryview(path.read_bytes())
    except OSError:
        return None
    if hashlib.sha256(whole[_DIGEST:]).digest() == whole[:_DIGEST]:
        return bytes(whole[_DIGEST:])
    LOG.warning("%s is damaged and counts as absent", path)
    return None

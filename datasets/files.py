"""Files and folders: checksums, atomic writes, cache files that carry their checksum, readers of raw formats.

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
import csv
import re
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from datasets.errors import BadInput

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
    """Write `content` under its seal, atomically: of several writers the last one stays, whole."""
    write_atomically(path, hashlib.sha256(content).digest() + content)


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


# Readers of the formats of raw files: delimited text, ARFF, LIBSVM; values are parsed to the nearest double.


def read_csv(
    *paths: Path,
    names: Sequence[str] | None = None,
    sep: str = ",",
    quoted: bool = True,
    strip: bool = True,
    nominal: Sequence[str] = (),
) -> "pandas.DataFrame":
    """Read delimited text files (gzip if the name says so), one below the other.

    names: the columns, where the files have no header. sep: ``" "`` means any run of blanks. quoted: whether double
    quotes enclose fields. strip: drop blanks at the start of fields. nominal: columns to turn into categories. Nothing
    is taken for a missing value save the empty field. Raises BadInput for a file that cannot be read as such a table.
    """
    import pandas

    # pandas 3.1 made the nearest double the default and deprecated the option that asked older ones for it
    older = tuple(map(int, pandas.__version__.split(".")[:2])) < (3, 1)
    nearest_double: dict[str, Any] = {"float_precision": "round_trip"} if older else {}
    unreadable = (pandas.errors.ParserError, pandas.errors.ParserWarning, pandas.errors.EmptyDataError)
    frames = []
    for path in paths:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", pandas.errors.ParserWarning)  # it drops fields past the last name
                frame = pandas.read_csv(
                    path, sep=r"\s+" if sep == " " else sep, header="infer" if names is None else None,
                    names=None if names is None else list(names), index_col=False, skipinitialspace=strip,
                    keep_default_na=False, na_values=[""], encoding="utf-8",
                    quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE, **nearest_double,
                )  # fmt: skip
        except (*unreadable, UnicodeDecodeError) as error:
            raise BadInput(f"{path} is not the table it should be: {error}") from None
        frames.append(frame)
    return as_categories(frames[0] if len(frames) == 1 else pandas.concat(frames, ignore_index=True), nominal)


def as_categories(frame: "pandas.DataFrame", columns: Iterable[str]) -> "pandas.DataFrame":
    """Return `frame` with `columns` turned into pandas categories, levels sorted (numbers by value)."""
    import pandas

    return frame.assign(**{name: pandas.Categorical(frame[name]) for name in columns})


def read_arff(path: Path) -> "pandas.DataFrame":
    """Read a dense ARFF file: numeric attributes as float64, nominal ones as pandas categories.

    One comma too many at the end of a row is ignored. Raises BadInput for what is no such file.
    """
    import arff
    import pandas

    try:
        found = arff.loads(re.sub(r",\s*$", "", _text(path, "utf-8"), flags=re.MULTILINE))
    except (arff.ArffException, ValueError) as error:
        raise BadInput(f"{path} is not the ARFF file it should be: {' '.join(str(error).split())}") from None
    columns: dict[str, pandas.Series] = {}
    for k, (name, kind) in enumerate(found["attributes"]):
        values = [row[k] for row in found["data"]]
        if kind == "STRING":
            raise BadInput(f"{path}, attribute {name}: a string is neither numeric nor nominal")
        nominal = isinstance(kind, list)
        columns[name] = pandas.Series(pandas.Categorical(values, kind) if nominal else np.array(values, np.float64))
    return pandas.DataFrame(columns)


def read_libsvm(path: Path, columns: int, limit: int | None = None) -> "pandas.DataFrame":
    """Read the first `limit` rows of a LIBSVM file (``label index:value ...``, indices from 1).

    Returns columns f1..f<columns>, zero where a row is silent, and `label`, an integer; rows without any feature stay.
    Raises BadInput for what is no such file, or for an index outside 1..`columns`.
    """
    import pandas
    from sklearn.datasets import load_svmlight_file

    try:
        values, labels = load_svmlight_file(str(path), n_features=columns, zero_based=False)
    except (ValueError, OverflowError) as error:
        raise BadInput(f"{path} is not the LIBSVM file of {columns} columns it should be: {error}") from None
    frame = pandas.DataFrame(values[:limit].toarray(), columns=[f"f{i + 1}" for i in range(columns)])
    return frame.assign(label=labels[:limit].astype(np.int64))


def _text(path: Path, encoding: str) -> str:
    try:
        return path.read_text(encoding=encoding)
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is no text in {encoding}: {error.reason} at byte {error.start}") from None

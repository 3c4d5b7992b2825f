"""`load` finds, verifies, parses and checks a data set; `split` divides its rows into train, validation and test.

Below them are the readers for the formats of raw files.
"""

import csv
import hashlib
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int

from datasets.catalogue import Dataset, Entry, Source, entry_of
from datasets.errors import BROKEN_ARCHIVE, BadInput

if TYPE_CHECKING:
    import pandas


def load(name: str, download: bool = True) -> Dataset:
    """Return the data set `name`, from DATASETS_HOME, else the cache, else downloaded into the cache.

    Raises BadInput for an unknown name, a wrong checksum, values or a shape other than the catalogue's, or
    if the data can be had nowhere (without `download`: if it is at neither place).
    """
    from datasets.download import fetch, find, places, remedy

    entry = entry_of(name)
    found = find(entry)
    if not found and not download:
        looked = ", ".join(str(folder) for folder in places().values())
        how = remedy(entry, f"to get it: python -m datasets fetch {name}")
        raise BadInput(f"data set {name}: absent from {looked}; {how}")
    found = found or fetch(entry)
    try:
        found.verify()
        frame = found.source.parse(*found.paths)
    except (ValueError, KeyError, OSError, *BROKEN_ARCHIVE) as error:  # BadInput is a ValueError
        replaced = f"; to replace it: python -m datasets fetch {name}"
        mine = f"; to do without it: remove {', '.join(str(path) for path in found.paths)}"
        again = "" if found.place != "cache" else replaced if found.source.origin else mine
        raise BadInput(f"data set {name}: {error}{again}") from error
    return _checked(entry, found.source, frame)


def _checked(entry: Entry, source: Source, frame: "pandas.DataFrame") -> Dataset:
    """Part inputs from target, and refuse what is not as the catalogue says."""
    from datasets.files import values_sha256

    if entry.target not in frame.columns:
        raise BadInput(f"data set {entry.name}: no target column {entry.target!r} in {list(frame.columns)[:8]}...")
    X, target = frame.drop(columns=entry.target), frame[entry.target]
    if target.isna().any():
        raise BadInput(f"data set {entry.name}: {int(target.isna().sum())} rows have no target")
    y, classes = encode_target(target, entry.task)
    actual = (len(X), X.shape[1], len(classes))
    expected = (source.rows, entry.columns, entry.classes)
    if actual != expected:
        raise BadInput(f"data set {entry.name}: (rows, inputs, classes) are {actual}, expected {expected}")
    sha256 = values_sha256(X, y, classes)
    if source.sha256 and sha256 != source.sha256:
        raise BadInput(
            f"data set {entry.name}: parsed values have checksum {sha256[:12]}, expected {source.sha256[:12]}"
        )
    return Dataset(entry.name, X, y, entry.task, classes, source.mark, source.note, sha256)


def encode_target(target: "pandas.Series", task: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return (y, classes): float64 and () for regression, else int64 codes of the sorted labels.

    Labels that are all integers are sorted by value, others as strings; missing targets are the caller's.
    Raises BadInput for a regression target that is not all finite numbers.
    """
    if task == "regression":
        try:
            y = target.to_numpy(dtype=np.float64)
        except (TypeError, ValueError):
            raise BadInput(f"target {target.name!r} of a regression is not numeric") from None
        if not np.isfinite(y).all():
            raise BadInput(f"target {target.name!r} holds infinite values")
        return y, ()
    labels = [_plain(label) for label in target]
    distinct = set(labels)
    by_value = all(re.fullmatch(r"[+-]?[0-9]+", label) for label in distinct)
    classes = tuple(sorted(distinct, key=lambda label: (int(label), label)) if by_value else sorted(distinct))
    code = {label: i for i, label in enumerate(classes)}
    return np.array([code[label] for label in labels], dtype=np.int64), classes


def _plain(label: object) -> str:
    """Write a class label one way, whether it was read as 1, 1.0 or "1"."""
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label)


# The split, fixed by (data set, seed).

# Dealt along rows that are shuffled and then sorted by class: 60/20/20 overall and, to within a row, in every
# class; of two neighbours one is always in train, so a class of two rows or more is never without.
_TRAIN, _VALID, _TEST = 0, 1, 2
_DEAL = np.array([_TRAIN, _VALID, _TRAIN, _TEST, _TRAIN])


@dataclass(frozen=True)
class Split:
    """Row numbers of the three parts: sorted, disjoint, together all rows."""

    train: Int[np.ndarray, " a"]
    valid: Int[np.ndarray, " b"]
    test: Int[np.ndarray, " c"]


def split(dataset: Dataset | str, seed: int = 0) -> Split:
    """Return the 60/20/20 split of a data set (or of the one of that name) under `seed`.

    Classification is stratified: within each class the shares hold to within a row, and every class is in
    train (the row of a class that has only one lies there). The name, the seed and the targets decide alone.
    Raises BadInput for an unknown name.
    """
    if isinstance(dataset, str):
        dataset = load(dataset)
    digest = hashlib.sha256(dataset.name.encode()).digest()
    words = [int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4)]
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, *words])))
    order = rng.permutation(len(dataset.y))
    if dataset.task != "regression":
        order = order[np.argsort(dataset.y[order], kind="stable")]
        counts = np.bincount(dataset.y)
        single = counts[dataset.y[order]] == 1
    else:
        single = np.zeros(len(order), dtype=bool)
    part = np.full(len(order), _TRAIN)
    part[~single] = np.resize(_DEAL, int((~single).sum()))
    return Split(*(np.sort(order[part == p]) for p in (_TRAIN, _VALID, _TEST)))


# Readers for the formats of raw files: delimited text, ARFF, LIBSVM; values are parsed to the nearest double.


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

"""Readers of the formats of raw files: delimited text, ARFF, LIBSVM; values are parsed to the nearest double."""

import csv
import re
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from datasets.errors import BadInput

if TYPE_CHECKING:
    import pandas


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

    Returns columns f1..f<columns>, zero where a row is silent, and `label`, integers where all are whole; rows without
    any feature stay.
    Raises BadInput for what is no such file, or for an index outside 1..`columns`.
    """
    import pandas
    from sklearn.datasets import load_svmlight_file

    try:
        values, labels = load_svmlight_file(str(path), n_features=columns, zero_based=False)
    except (ValueError, OverflowError) as error:
        raise BadInput(f"{path} is not the LIBSVM file of {columns} columns it should be: {error}") from None
    frame = pandas.DataFrame(values[:limit].toarray(), columns=[f"f{i + 1}" for i in range(columns)])
    whole = bool((labels == np.rint(labels)).all())
    return frame.assign(label=labels[:limit].astype(np.int64) if whole else labels[:limit])


def _text(path: Path, encoding: str) -> str:
    try:
        return path.read_text(encoding=encoding)
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is no text in {encoding}: {error.reason} at byte {error.start}") from None

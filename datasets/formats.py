"""Readers for the formats of raw files: delimited text, ARFF, LIBSVM; values are parsed to the nearest double.

`csv_table`, `arff_table` and `libsvm_table` parse a source that is one file.
"""

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


_ATTRIBUTE = re.compile(r"@attribute\s+(?:'([^']*)'|\"([^\"]*)\"|(\S+))\s+(.*)$", re.IGNORECASE)


def read_csv(
    path: Path,
    names: Sequence[str] | None = None,
    sep: str = ",",
    quoted: bool = True,
    strip: bool = True,
) -> "pandas.DataFrame":
    """Read a delimited text file (gzip if its name says so); `names` are the columns where it has no header.

    sep: ``" "`` means any run of blanks. quoted: whether double quotes enclose fields.
    strip: drop blanks at the start of fields. Nothing is taken for a missing value save the empty field.
    Raises BadInput for a file that cannot be read as such a table.
    """
    import pandas

    # pandas 3.1 made the nearest double the default and deprecated the option that asked older ones for it
    older = tuple(map(int, pandas.__version__.split(".")[:2])) < (3, 1)
    nearest_double: dict[str, Any] = {"float_precision": "round_trip"} if older else {}
    unreadable = (pandas.errors.ParserError, pandas.errors.ParserWarning, pandas.errors.EmptyDataError)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)  # it drops fields past the last name
            return pandas.read_csv(
                path,
                sep=r"\s+" if sep == " " else sep,
                header="infer" if names is None else None,
                names=None if names is None else list(names),
                index_col=False,
                skipinitialspace=strip,
                keep_default_na=False,
                na_values=[""],
                quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
                encoding="utf-8",
                **nearest_double,
            )
    except (*unreadable, UnicodeDecodeError) as error:
        raise BadInput(f"{path} is not the table it should be: {error}") from None


def read_arff(path: Path) -> "pandas.DataFrame":
    """Read a dense ARFF file: numeric attributes as float64, nominal ones as pandas categories.

    Comments (%) and blank lines may stand anywhere; one comma too many at the end of a row is ignored.
    Raises BadInput for what is no ARFF, another attribute type, or a row of the wrong length.
    """
    import pandas

    attributes: list[tuple[str, str]] = []
    rows: list[list[str]] = []
    in_data = False
    for number, raw in enumerate(_text(path, "utf-8").splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("%"):
            continue
        if in_data:
            fields = [field.strip() for field in line.removesuffix(",").split(",")]
            if len(fields) != len(attributes):
                raise BadInput(f"{path}, line {number}: {len(fields)} fields, {len(attributes)} expected")
            rows.append(fields)
        elif line.lower() == "@data":
            in_data = True
        elif match := _ATTRIBUTE.match(line):
            attributes.append((next(g for g in match.groups()[:3] if g is not None), match[4].strip()))
    if not (in_data and attributes):
        raise BadInput(f"{path} is not an ARFF file: no @data section, or no attributes before it")
    columns = zip(*rows, strict=True) if rows else [()] * len(attributes)
    data = {n: _arff_column(path, n, k, v) for (n, k), v in zip(attributes, columns, strict=True)}
    return pandas.DataFrame(data)


def _arff_column(path: Path, name: str, kind: str, values: Sequence[str]) -> "pandas.Series":
    import pandas

    if kind.lower() in ("numeric", "real", "integer"):
        try:
            return pandas.Series([np.nan if v == "?" else float(v) for v in values], dtype=np.float64)
        except ValueError as error:
            raise BadInput(f"{path}, attribute {name}: {error}") from None
    if kind.startswith("{") and kind.endswith("}"):
        levels = [level.strip().strip("'\"") for level in kind[1:-1].split(",")]
        if len(set(levels)) < len(levels):
            raise BadInput(f"{path}, attribute {name}: a level stands twice in {levels}")
        plain = [value.strip("'\"") for value in values]
        unknown = sorted(set(plain) - set(levels) - {"?"})
        if unknown:
            raise BadInput(f"{path}, attribute {name}: {unknown[0]!r} is none of its levels {levels}")
        return pandas.Series(pandas.Categorical([None if v == "?" else v for v in plain], categories=levels))
    raise BadInput(f"{path}, attribute {name}: type {kind!r} is neither numeric nor nominal")


def read_libsvm(path: Path, columns: int, limit: int | None = None) -> "pandas.DataFrame":
    """Read the first `limit` rows of a LIBSVM file (``label index:value ...``, indices from 1).

    Returns columns f1..f<columns>, zero where a row is silent, and `label`; rows without any feature stay.
    Raises BadInput for a malformed field, an index outside 1..`columns`, or what is no number.
    """
    import pandas

    lines = [line.split() for line in _text(path, "ascii").splitlines() if line.strip()][:limit]
    values = np.zeros((len(lines), columns))
    for row, (_, *fields) in enumerate(lines):
        for field in fields:
            index, _, value = field.partition(":")
            if not (index.isdigit() and 1 <= int(index) <= columns and value):
                raise BadInput(f"{path}, row {row + 1}: {field!r} is no index:value with index 1..{columns}")
            values[row, int(index) - 1] = _number(value, path, row)
    frame = pandas.DataFrame(values, columns=[f"f{i + 1}" for i in range(columns)])
    return frame.assign(label=[int(_number(line[0], path, row)) for row, line in enumerate(lines)])


def _text(path: Path, encoding: str) -> str:
    try:
        return path.read_text(encoding=encoding)
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is no text in {encoding}: {error.reason} at byte {error.start}") from None


def _number(text: str, path: Path, row: int) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadInput(f"{path}, row {row + 1}: {text!r} is no number") from None


def as_categories(frame: "pandas.DataFrame", columns: Iterable[str]) -> "pandas.DataFrame":
    """Return `frame` with `columns` turned into pandas categories, levels sorted (numbers by value)."""
    import pandas

    return frame.assign(**{name: pandas.Categorical(frame[name]) for name in columns})


# For sources of one file that holds the whole table; `functools.partial` gives what a record says of its file.


def csv_table(files: Sequence[Path], names: Sequence[str] | None = None, sep: str = ",") -> "pandas.DataFrame":
    """Read one delimited file; `names` are the columns where it has no header, sep as for `formats.read_csv`."""
    return read_csv(files[0], names, sep)


def arff_table(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read one ARFF file."""
    return read_arff(files[0])


def libsvm_table(files: Sequence[Path], columns: int) -> "pandas.DataFrame":
    """Read one LIBSVM file, whose highest index may be below the number of features, `columns`."""
    return read_libsvm(files[0], columns=columns)

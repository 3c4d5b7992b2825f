"""A user's own delimited text file as a data set: `load_csv`; `load_rows` reads more rows of the same columns.

The separator is found, text that was meant as numbers is told or refused, dates become numbers, columns that number
the rows are left out. What is guessed follows a stated rule and can be set.
"""

import csv
import io
import re
import string
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from pandas.api import types

from datasets.catalogue import Dataset, entries
from datasets.errors import BadInput

FEWEST_ROWS = 20  # 12 to train on, 4 to choose by, 4 to test on
FEW_VALUES = 10  # whole numbers with no more different values than this are classes, and such text may be labels
MOST_CLASSES = 100
TASKS = ("auto", "regression", "classification")


def load_csv(
    name: str | None = None,
    path: str | None = None,
    target: str | None = None,
    task: str = "auto",
    sep: str = "auto",
    decimal: str = ".",
    encoding: str = "utf-8",
    drop: str | Sequence[str] | None = (),
    keep: str | Sequence[str] | None = (),
) -> Dataset:
    """Return the file's rows as a data set to tune on; `Dataset.note` says what was left out or converted.

    name: the file's own where None. target: the column to predict; rows without it are left out.
    task: regression or classification; ``auto`` follows `infer_task`. sep: the separator, or
    comma, semicolon, tab, bar; ``auto`` takes the one of these that parts the first lines most evenly. decimal: the
    mark of decimals, or point, comma. drop: columns to leave out, one name or several. keep: columns that are inputs
    although they look like row numbers (see `is_row_number`), and text although it looks like numbers.

    Raises BadInput, with what is allowed, for whatever cannot be tuned on.
    """

    if path is None or target is None:
        missing = "path" if path is None else "target"
        raise BadInput(f"dataset.{missing} is not set: dataset.path=my.csv dataset.target=COLUMN")
    if task not in TASKS:
        raise BadInput(f"dataset.task must be one of {', '.join(TASKS)}, got {task!r}")
    file = Path(str(path))
    mark = decimal_mark(str(decimal))
    frame = read_text_table(file, str(sep), mark, str(encoding))
    label = _checked_name(file.name if name is None else str(name))
    frame, notes = _with_target(frame, str(target), file)
    y, classes, kind = _encoded(frame[str(target)], task, mark)
    X, more = input_columns(
        frame.drop(columns=str(target)), column_names("drop", drop), column_names("keep", keep), mark
    )
    return Dataset(label, X, y, kind, classes, "", "; ".join([*notes, *more]), _sha256(X, y, classes))


def load_rows(
    path: str, data: Dataset, sep: str = "auto", decimal: str = ".", encoding: str = "utf-8"
) -> "pandas.DataFrame":
    """Return the rows of another file as inputs like those of `data`, for a model fitted on these; no target needed.

    What was text there is text here, whatever these rows alone look like. Raises BadInput for a file that cannot be
    read, or lacks a column.
    """

    return like(data.X, read_text_table(Path(path), sep, decimal, encoding, texts(data.X)), path)


def infer_task(target: "pandas.Series") -> str:
    """Return ``classification`` for text, yes/no, and whole numbers with at most 10 different values, else regression.

    Two different values are always classes.
    """
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    distinct = target.nunique()
    if is_bool_dtype(target) or not is_numeric_dtype(target) or distinct == 2:
        return "classification"
    values = target.to_numpy(dtype=np.float64)
    whole = bool(np.all(values == np.rint(values)))
    return "classification" if whole and distinct <= FEW_VALUES else "regression"


def _checked_name(name: str) -> str:
    """Return the name under which records are kept: a plain file name, and none of the study's."""
    if not re.fullmatch(r"[^/\\\0.][^/\\\0]*", name):
        raise BadInput(f"dataset.name must be a plain name without slashes or a leading dot, got {name!r}")
    if name in entries():
        raise BadInput(f"dataset.name={name} is one of the study's data sets: give another, dataset.name=my_{name}")
    return name


def _with_target(frame: "pandas.DataFrame", target: str, file: Path) -> tuple["pandas.DataFrame", list[str]]:
    """Return the rows that have a target, and a note on the others."""
    if target not in frame.columns:
        raise BadInput(f"{file} has no column {target!r}; its columns: {_listed(frame.columns)}")
    there = frame[target].notna()
    notes = [] if there.all() else [f"{int((~there).sum()):,} rows without {target} left out"]
    frame = frame[there].reset_index(drop=True)
    if len(frame) < FEWEST_ROWS:
        raise BadInput(f"{file}: {len(frame)} rows with a value in {target!r}; {FEWEST_ROWS} or more are needed")
    if frame.shape[1] < 2:
        raise BadInput(f"{file} has no column beside {target!r}: there is nothing to predict it from")
    if frame[target].nunique() < 2:
        raise BadInput(f"{file}: {target!r} is always {frame[target].iloc[0]}: there is nothing to predict")
    return frame, notes


def _encoded(target: "pandas.Series", task: str, decimal: str) -> tuple[Any, tuple[str, ...], str]:
    """Return (y, classes, task as the harness names it)."""
    from datasets.loading import encode_target

    if task != "classification":
        check_commas(target, decimal, "dataset.task=classification")
    note = meant_as_numbers(target) if task == "auto" and target.nunique() > FEW_VALUES else ""
    if note:
        raise BadInput(f"target {note}; dataset.task=classification takes them as classes")
    if (infer_task(target) if task == "auto" else task) == "regression":
        return *encode_target(_numeric(target), "regression"), "regression"
    distinct = target.nunique()
    if distinct > min(MOST_CLASSES, len(target) // 2):
        raise BadInput(
            f"target {target.name!r} has {distinct} different values, such as {target.iloc[0]!r}: too many classes for "
            f"{len(target)} rows (at most {MOST_CLASSES}, and two rows each); numbers need dataset.task=regression"
        )
    y, classes = encode_target(target, "classification")
    return y, classes, "binary" if len(classes) == 2 else "multiclass"


def _numeric(target: "pandas.Series") -> "pandas.Series":
    import pandas

    values = pandas.to_numeric(target, errors="coerce")
    if values.isna().any():
        raise BadInput(
            f"target {target.name!r} is not numeric, for example {target[values.isna()].iloc[0]!r}: numbers are to be "
            "written without marks of thousands and units, labels need dataset.task=classification"
        )
    largest = float(values.abs().max())
    if np.isfinite(largest) and largest > float(np.finfo(np.float32).max):
        raise BadInput(f"target {target.name!r} goes to {largest:.3g}, beyond the numbers that XGBoost holds (3.4e38)")
    return values.astype(np.float64)


def _sha256(X: "pandas.DataFrame", y: np.ndarray, classes: tuple[str, ...]) -> str:
    """Return the checksum of the values; a missing string is not any string."""
    from datasets.files import values_sha256

    texts = [c for c in X.columns if X[c].dtype.kind not in "biuf"]
    plain = X.astype(dict.fromkeys(texts, object))
    plain[texts] = plain[texts].map(lambda v: v if isinstance(v, str) else f"\0{v}")
    return values_sha256(plain, y, classes)


def _listed(columns: "pandas.Index", most: int = 12) -> str:
    shown = ", ".join(map(str, columns[:most]))
    return shown + (f" and {len(columns) - most} more" if len(columns) > most else "")


# The text of a file of unknown origin: its separator, its header, and what cannot be read.

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
DECIMALS = {".": "point", ",": "comma"}
PACKED = (".gz", ".bz2", ".xz", ".zip", ".zst", ".7z", ".parquet", ".feather", ".xlsx", ".xls", ".ods")
MISSING = ("?",)  # beside what pandas takes for missing: empty, NA, N/A, NaN, null, None, ...
_LINES = 50  # looked at to find the separator
_BROKEN = (pandas.errors.ParserError, pandas.errors.EmptyDataError, pandas.errors.ParserWarning)


def read_text_table(path: Path, sep: str, decimal: str, encoding: str, texts: Sequence[str] = ()) -> pandas.DataFrame:
    """Return the file as a frame with the column names of its first line, blanks around them stripped.

    texts: columns that are read as text, whatever they look like; those that the file has not do not matter. Raises
    BadInput for a file that is absent, empty, in another encoding, or no table of two columns or more with different
    names.
    """
    decimal = decimal_mark(decimal)
    if path.suffix.lower() in PACKED:
        raise BadInput(f"dataset.path: {path} is no plain text ({path.suffix}): convert or unpack it to CSV first")
    text = _text(path, encoding)
    csv.field_size_limit(sys.maxsize)  # a wide line is one field to a wrong separator
    mark = _named(sep) or find_separator(text, path)
    text = _from_header(text, mark)
    names = _header(text, mark, path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            frame = pandas.read_csv(io.StringIO(text), sep=mark, decimal=decimal, header=0, names=names,
                                    index_col=False, skipinitialspace=True, na_values=list(MISSING),
                                    dtype={name: str for name in texts if name in names}, low_memory=False)  # fmt: skip
    except _BROKEN as error:
        reason = " ".join(str(error).split()).removeprefix("Error tokenizing data. C error: ")
        raise BadInput(f"{path} is no table separated by {SEPARATORS.get(mark, mark)}: {reason}") from None
    return frame


def decimal_mark(decimal: str) -> str:
    """Return the mark of decimals that a setting names; raises BadInput for anything but point or comma."""
    mark = {name: mark for mark, name in DECIMALS.items()}.get(decimal, decimal)
    if mark not in DECIMALS:
        raise BadInput(f"dataset.decimal must be point or comma, got {decimal!r}")
    return mark


def find_separator(text: str, path: Path) -> str:
    """Return the separator that parts most of the first lines into equally many fields, and into the most.

    Raises BadInput where none parts them into two or more.
    """
    head = [line for line in text.splitlines()[: _LINES + 1] if line.strip()][:_LINES]
    found = _most_even(head)
    if not found:
        _check_header(head, path)
        known = ", ".join(SEPARATORS.values())
        raise BadInput(f"{path} has one column only, parted by none of {known}: set dataset.sep= to another")
    return found


def _most_even(head: Sequence[str]) -> str:
    """Return the separator that parts the first of these lines, and most of them evenly; "" where none does."""
    best = (0.0, 1, "")
    for mark in SEPARATORS:
        widths = [len(fields) for fields in csv.reader(head, delimiter=mark, skipinitialspace=True)]
        width, lines = Counter(widths).most_common(1)[0] if widths else (1, 0)
        if width > 1 and widths[0] > 1:
            best = max(best, (lines / len(widths), width, mark))
    return best[2]


def _check_header(head: Sequence[str], path: Path) -> None:
    """Raise BadInput where these lines are a table but for the first one, which no separator parts."""
    mark = _most_even(head[1:])
    if mark and not _most_even(head[:1]):
        raise BadInput(f"{path}: the first line is no header of the lines below, which {SEPARATORS[mark]} parts: "
                       f"remove it ({head[0].strip()[:40]!r})")  # fmt: skip


def _text(path: Path, encoding: str) -> str:
    try:
        text = path.read_bytes().decode("utf-8-sig" if encoding.lower() in ("utf-8", "utf8") else encoding)
    except UnicodeDecodeError as error:
        raise BadInput(
            f"{path} is not {encoding} (byte 0x{error.object[error.start]:02x} at place {error.start}): set "
            "dataset.encoding=..., for example latin-1, cp1252 or utf-16"
        ) from None
    except LookupError:
        raise BadInput(f"dataset.encoding={encoding} is no encoding: for example utf-8, latin-1, utf-16") from None
    except OSError as error:
        raise BadInput(f"dataset.path: cannot read {path}: {error.strerror}") from None
    if not text.strip("".join(SEPARATORS) + string.whitespace + '"'):
        raise BadInput(f"{path} is empty")
    if "\0" in text:
        raise BadInput(f"{path} is not plain text (it holds zero bytes)")
    return text


def _named(sep: str) -> str:
    """Return the separator that a setting names, "" for auto."""
    if sep == "auto":
        return ""
    marks = {name: mark for mark, name in SEPARATORS.items()} | {"\\t": "\t"}
    mark = marks.get(sep, sep)
    if len(mark) != 1:
        words = ", ".join(SEPARATORS.values())
        raise BadInput(f"dataset.sep must be auto, one of {words}, or one character, got {sep!r}")
    return mark


def _from_header(text: str, mark: str) -> str:
    """Return the text without leading rows of empty fields."""
    lines = text.splitlines(keepends=True)
    first = next((place for place, line in enumerate(lines) if line.replace(mark, "").replace('"', "").strip()), 0)
    return "".join(lines[first:])


def _header(text: str, mark: str, path: Path) -> list[str]:
    """Return the column names; nameless columns are called column_1, ... by their place."""
    row = next(csv.reader(text.splitlines(), delimiter=mark, skipinitialspace=True))
    names = [name.strip() or f"column_{place}" for place, name in enumerate(row, start=1)]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise BadInput(f"{path}: the column name {twice[0]!r} occurs {names.count(twice[0])} times; names must differ")
    if len(names) < 2:
        _check_header(text.splitlines()[:_LINES], path)
        raise BadInput(f"{path} has one column only with this separator: set dataset.sep=auto or another")
    return names


# Columns of text that were meant as numbers: decimal commas, units, a word among numbers.

MOST = 0.9  # of a column's values: so many written like numbers are no chance
_COMMA = re.compile(r"[-+]?(\d+|\d{1,3}(\.\d{3})+)?,\d+")
_WHOLE = re.compile(r"[-+]?\d+")
_DRESSED = re.compile(r"[^\w\s]?\s*[-+]?\d[\d.,' ]*\s*[^\d\s]{0,4}")  # $1,234.00, 45%, 102 EUR


def check_commas(column: pandas.Series, decimal: str, otherwise: str) -> None:
    """Raise BadInput for a column of text whose values are numbers with a decimal comma, where that is not `decimal`.

    Whole numbers may stand among them. otherwise: what to set for text that is meant as such.
    """
    values = _texts(column)
    if decimal == "," or values.empty:
        return
    commas = values.map(lambda value: bool(_COMMA.fullmatch(value)))
    whole = values.map(lambda value: bool(_WHOLE.fullmatch(value)))
    if commas.any() and (commas | whole).mean() >= MOST:
        raise BadInput(
            f"{column.name!r} holds numbers with a comma, such as {values[commas].iloc[0]!r}: dataset.decimal=comma "
            f"reads it as the decimal mark (marks of thousands have to go), {otherwise} takes them as text"
        )


def meant_as_numbers(column: pandas.Series) -> str:
    """Return a note on a column of text that is all but numbers, or numbers with a unit; "" for any other column."""
    values = _texts(column)
    if values.empty:
        return ""
    odd = values[pandas.to_numeric(values, errors="coerce").isna()]
    if len(odd) and len(odd) <= (1 - MOST) * len(values):
        return f"{column.name} read as text: {odd.iloc[0]!r} is no number (as {len(values) - len(odd):,} others are)"
    dressed = values.map(lambda value: bool(_DRESSED.fullmatch(value)))
    if dressed.mean() >= MOST and values.nunique() > FEW_VALUES:
        return f"{column.name} read as text: numbers are to be written without marks and units, not {values.iloc[0]!r}"
    return ""


def _texts(column: pandas.Series) -> pandas.Series:
    """Return the values of a column that was read as text, blanks around them stripped; none of any other column."""
    if types.is_numeric_dtype(column) or types.is_bool_dtype(column):
        return column.iloc[:0].astype(object)
    present = column.dropna()
    return present[present.map(lambda value: isinstance(value, str))].str.strip()


# The inputs: dates become numbers, row numbers are left out, the rest stays as it is.

DAY_FIRST, MONTH_FIRST = "%d/%m/%Y", "%m/%d/%Y"
FORMATS = ("ISO8601", "%d.%m.%Y", "%d.%m.%Y %H:%M", "%Y/%m/%d", MONTH_FIRST, DAY_FIRST)
_DAY_S = 86_400.0


def input_columns(
    frame: pandas.DataFrame, drop: Sequence[str], keep: Sequence[str], decimal: str = "."
) -> tuple[pandas.DataFrame, list[str]]:
    """Return the columns to predict from, and notes on those left out or converted.

    Numbers, strings and yes/no columns stay (the pipelines decide their kinds, and drop constant ones). How dates were
    written stands in the frame's attribute ``dates``, by column, for rows to come (`like`). Raises BadInput for a name
    in `drop` or `keep` that is no column, where no column remains, and for numbers with another mark of decimals than
    `decimal`, unless they are to be kept.
    """
    for setting, listed in (("drop", drop), ("keep", keep)):
        unknown = [name for name in listed if name not in frame.columns]
        if unknown:
            raise BadInput(f"dataset.{setting}: {unknown[0]!r} is none of the inputs {', '.join(frame.columns[:12])}")
    columns: dict[str, pandas.Series] = {}
    notes: list[str] = []
    written: dict[str, str] = {}
    for name in frame.columns:
        if name in drop:
            continue
        if name not in keep and is_row_number(frame[name]):
            notes.append(f"{name} left out: it numbers the rows")
            continue
        forms = date_forms(frame[name])
        if not forms:
            if name not in keep:
                check_commas(frame[name], decimal, f"dataset.keep=[{name}]")
            notes += filter(None, [meant_as_numbers(frame[name])])
            columns[str(name)] = _plain(frame[name])
            continue
        written[str(name)] = forms[0]
        parts, note = dates(frame[name], forms)
        columns |= parts
        notes.append(note)
    if not columns:
        raise BadInput(f"no column is left to predict from: {'; '.join(notes) or 'all are dropped'}")
    X = pandas.DataFrame(columns)
    X.attrs["dates"] = written
    return X, notes


def column_names(setting: str, value: Any) -> list[str]:
    """Return the columns that a setting lists: a single name is a list of one, null is none.

    Raises BadInput for what is neither.
    """
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return [str(value)]
    if value is None:
        return []
    if isinstance(value, Mapping) or not isinstance(value, Iterable):
        raise BadInput(f"dataset.{setting} must be a list of columns, [a,b], got {value!r}")
    return [str(name) for name in value]


def is_row_number(column: pandas.Series) -> bool:
    """Return whether the values are n consecutive whole numbers in any order, each once, or an id by name and nature.

    By name: id, index, or ending in _id or " id"; by nature: no two rows share a value and none is a fraction.
    """
    if column.isna().any() or not column.is_unique:
        return False
    name = str(column.name).strip().lower()
    called_id = name in ("id", "index", "uuid", "key") or name.endswith(("_id", " id"))
    if not types.is_numeric_dtype(column) or types.is_bool_dtype(column):
        return called_id
    values = column.to_numpy(dtype=np.float64)
    whole = bool(np.isfinite(values).all() and np.all(values == np.rint(values)))
    return whole and (called_id or bool(values.max() - values.min() == len(values) - 1))


def date_forms(column: pandas.Series) -> list[str]:
    """Return those of `FORMATS` in which every value of a column is a date, missing values aside; [] for numbers."""
    if types.is_numeric_dtype(column) or types.is_bool_dtype(column):
        return []
    present = column.dropna()
    if present.empty or not present.map(lambda v: isinstance(v, str) and any(c.isdigit() for c in v)).all():
        return []
    return [form for form in FORMATS if _parsed(present, form).notna().all()]


def dates(column: pandas.Series, forms: Sequence[str]) -> tuple[dict[str, pandas.Series], str]:
    """Return a column of dates as days since 1970, month and weekday (and hour, if times differ), and a note.

    forms: what `date_forms` found; the first is taken. Days and months that could be either way round are read month
    first, which the note says.
    """
    parts = _parts(column, forms[0])
    hour = f"{column.name} (hour)"
    if parts[hour].nunique() < 2:
        del parts[hour]
    either = " (month first: the file leaves it open)" if {MONTH_FIRST, DAY_FIRST} <= set(forms) else ""
    return parts, f"{column.name} read as dates{either}: {', '.join(part.rpartition('(')[2][:-1] for part in parts)}"


def texts(X: pandas.DataFrame) -> list[str]:
    """Return the columns of a file that `input_columns` took for text, or for dates, when it made `X` of it."""
    words = [
        str(name)
        for name in X.columns
        if X[name].dtype == object and X[name].dropna().map(lambda v: isinstance(v, str)).all()
    ]
    return [*words, *X.attrs.get("dates", {})]


def like(X: pandas.DataFrame, frame: pandas.DataFrame, path: str) -> pandas.DataFrame:
    """Return the columns of `X` (what `input_columns` made of another file) from the rows of `frame`.

    Dates are read as they are written there, whatever else these rows would allow; a column without any value there
    may be absent here. Raises BadInput, naming the file
    `path`, for a column that `frame` has not, or that is no such date, or no number there.
    """
    columns: dict[str, pandas.Series] = {}
    written = X.attrs.get("dates", {})
    for name in map(str, X.columns):
        source = name.rpartition(" (")[0]
        if name in frame.columns:
            numbers = types.is_numeric_dtype(X[name]) and not types.is_bool_dtype(X[name])
            if numbers and not types.is_numeric_dtype(frame[name]) and frame[name].notna().any():
                raise BadInput(f"{path}: {name} is not numeric, for example {frame[name].dropna().iloc[0]!r}")
            columns[name] = frame[name].astype(np.float64) if numbers else _plain(frame[name])
        elif source in written and source in frame.columns:
            if name not in columns:
                _check_dates(frame[source], written[source], path)
                columns |= _parts(frame[source], written[source])
        elif X[name].isna().all():
            columns[name] = pandas.Series(np.nan, frame.index)
        else:
            raise BadInput(f"{path} has no column {name!r}")
    return pandas.DataFrame({name: columns[name] for name in map(str, X.columns)}, index=frame.index)


def _check_dates(column: pandas.Series, form: str, path: str) -> None:
    wrong = column[column.notna() & _parsed(column, form).isna()]
    if len(wrong):
        raise BadInput(f"{path}: {column.name} must be dates written {form}, as in the file of the runs, "
                       f"got {str(wrong.iloc[0])!r}")  # fmt: skip


def _parts(column: pandas.Series, form: str) -> dict[str, pandas.Series]:
    found = _parsed(column, form)
    return {
        f"{column.name} (day)": (found - pandas.Timestamp("1970-01-01")).dt.total_seconds() / _DAY_S,
        f"{column.name} (month)": found.dt.month.astype(np.float64),
        f"{column.name} (weekday)": found.dt.day_of_week.astype(np.float64),
        f"{column.name} (hour)": found.dt.hour.astype(np.float64),
    }


def _parsed(values: pandas.Series, form: str) -> pandas.Series:
    """Return the dates, missing where a value is no date of this form (a number is none)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        texts = values.astype(object).where(values.map(lambda value: isinstance(value, str)), None)
        found = pandas.to_datetime(texts, format=form, utc=True, errors="coerce")
    return found.dt.tz_localize(None)


def _plain(column: pandas.Series) -> pandas.Series:
    """Return strings as objects, missing ones None, whatever string type pandas chose for them."""
    if types.is_numeric_dtype(column) or types.is_bool_dtype(column):
        return column
    return column.astype(object).where(column.notna(), None)

"""A user's own delimited text file as a data set: `load_csv`; `load_rows` reads more rows of the same columns.

The separator is found, text that was meant as numbers is reported or refused, dates become numbers, columns that number
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
import pandas as pd
from pandas.api import types

from datasets import encode_target
from datasets.catalogue import Dataset, entries
from datasets.errors import BadInput
from datasets.files import values_sha256

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

    name: of the data set, null for the file's. path: the file. target: the column to predict; rows without it are left
    out. task: regression or classification; `auto` follows `infer_task`. sep: the separator, or comma, semicolon, tab,
    bar; `auto` takes the one of these that parts the first lines most evenly. decimal: the mark of decimals, or point,
    comma. encoding: of the file's text. drop: columns to leave out, one name or several. keep: columns that are inputs
    although they look like row numbers (see `row_number`), and text although it looks like numbers.

    Raises BadInput, with what is allowed, for whatever cannot be tuned on.
    """
    if path is None or target is None:
        raise BadInput(f"dataset.{'target' if path else 'path'} is not set: dataset.path=my.csv dataset.target=COLUMN")
    if task not in TASKS:
        raise BadInput(f"dataset.task must be one of {', '.join(TASKS)}, got {task!r}")
    file, target = Path(str(path)).expanduser(), str(target)
    mark = _named("decimal", str(decimal), DECIMALS)
    frame = _read_table(file, str(sep), mark, str(encoding))
    label = _checked_name(file.name if name is None else str(name))
    numbering = {str(name): row_number(column) for name, column in frame.items()}  # of all rows of the file
    frame, notes = _with_target(frame, target, file, str(sep), str(encoding))
    y, classes, kind = _encoded(frame[target], task, mark)
    inputs = frame.drop(columns=target)
    X, more = input_columns(inputs, column_names("drop", drop), column_names("keep", keep), mark, numbering)
    words = [c for c in X.columns if X[c].dtype.kind not in "biuf"]
    plain = X.astype(dict.fromkeys(words, object))  # to a checksum, a missing string is not any string
    plain[words] = plain[words].map(lambda v: v if isinstance(v, str) else f"\0{v}")
    return Dataset(label, X, y, kind, classes, "", "; ".join([*notes, *more]), values_sha256(plain, y, classes))


def load_rows(path: str, data: Dataset, sep: str = "auto", decimal: str = ".", encoding: str = "utf-8") -> pd.DataFrame:
    """Return the rows of another file as inputs like those of `data`, for a model fitted on these; no target needed.

    What was text there is text here, and dates are read as they were written there, whatever these rows alone look
    like; a column without any value there may be absent here. Raises BadInput for a file that cannot be read, or lacks
    a column or all rows, or where a column is no such date, no number, or no yes/no.
    """
    X, written = data.X, data.X.attrs.get("dates", {})
    words = [str(c) for c in X.columns if X[c].dtype == object and X[c].dropna().map(lambda v: type(v) is str).all()]
    mark, texts = _named("decimal", decimal, DECIMALS), [*words, *written]
    frame = _read_table(Path(path).expanduser(), sep, mark, encoding, texts, fewest=1)
    if frame.empty:
        raise BadInput(f"{path} has no rows")
    columns: dict[str, pd.Series] = {}
    for name in map(str, X.columns):
        source = name.rpartition(" (")[0]
        if X[name].isna().all():  # no model has learned from it
            columns[name] = pd.Series(np.nan, frame.index)
        elif name in frame.columns:
            numbers = types.is_numeric_dtype(X[name]) and not types.is_bool_dtype(X[name])
            present = frame[name].dropna()
            if numbers and not types.is_numeric_dtype(frame[name]) and len(present):
                raise BadInput(f"{path}: {name} is not numeric, for example {present.iloc[0]!r}")
            if not numbers and len(present) and _is_flag(X[name]) and not _is_flag(present):
                raise BadInput(f"{path}: {name} must be True or False, as in the file of the runs, "
                               f"got {str(present.iloc[0])!r}")  # fmt: skip
            columns[name] = frame[name].astype(np.float64) if numbers else _plain(frame[name])
        elif source in written and source in frame.columns:
            column, form = frame[source], written[source]
            wrong = column[column.notna() & _dates(column, form).isna()]
            if len(wrong):
                raise BadInput(f"{path}: {source} must be dates written {form}, as in the file of the runs, "
                               f"got {str(wrong.iloc[0])!r}")  # fmt: skip
            columns[name] = _date_parts(column, form)[name]
        else:
            raise BadInput(f"{path} has no column {name!r}")
    return pd.DataFrame(columns, index=frame.index)


def _is_flag(column: pd.Series) -> bool:
    """Say whether all values of a column are yes or no, missing ones aside; False where it has none."""
    present = column.dropna()
    return len(present) > 0 and bool(present.map(lambda value: isinstance(value, bool | np.bool_)).all())


def infer_task(target: pd.Series) -> str:
    """Return ``classification`` for text, yes/no, and whole numbers with at most 10 different values, else regression.

    Two different values are always classes.
    """
    distinct = target.nunique()
    if types.is_bool_dtype(target) or not types.is_numeric_dtype(target) or distinct == 2:
        return "classification"
    values = target.to_numpy(dtype=np.float64)
    whole = bool(np.isfinite(values).all() and np.all(values == np.rint(values)))
    return "classification" if whole and distinct <= FEW_VALUES else "regression"


def _checked_name(name: str) -> str:
    """Return the name under which records are kept: a plain file name, and none of the study's."""
    if not re.fullmatch(r"[^/\\\0.][^/\\\0]*", name):
        raise BadInput(f"dataset.name must be a plain name without slashes or a leading dot, got {name!r}")
    if name in entries():
        raise BadInput(f"dataset.name={name} is one of the study's data sets: give another, dataset.name=my_{name}")
    return name


def _with_target(
    frame: pd.DataFrame, target: str, file: Path, sep: str, encoding: str
) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows that have a target, and a note on the others, with what stands there for no value."""
    if target not in frame.columns:
        others = f" and {frame.shape[1] - 12} more" if frame.shape[1] > 12 else ""
        raise BadInput(f"{file} has no column {target!r}; its columns: {', '.join(frame.columns[:12])}{others}")
    there = frame[target].notna()
    notes = []
    if not there.all():
        words = [] if types.is_numeric_dtype(frame[target]) else _words_for_none(file, sep, encoding, target, ~there)
        written = f", written {' and '.join(map(repr, words))}: a class of that name has to be renamed" if words else ""
        notes = [f"{int((~there).sum()):,} rows without {target} left out{written}"]
    frame, without = frame[there].reset_index(drop=True), "".join(f" ({note})" for note in notes)
    if len(frame) < FEWEST_ROWS:
        few = f"{len(frame)} rows with a value in {target!r}"
        raise BadInput(f"{file}: {few}; {FEWEST_ROWS} or more are needed{without}")
    if frame.shape[1] < 2:
        raise BadInput(f"{file} has no column beside {target!r}: there is nothing to predict it from")
    if frame[target].nunique() < 2:
        raise BadInput(f"{file}: {target!r} is always {frame[target].iloc[0]}: there is nothing to predict{without}")
    return frame, notes


def _encoded(target: pd.Series, task: str, decimal: str) -> tuple[Any, tuple[str, ...], str]:
    """Return (y, classes, task as the harness names it)."""
    distinct = target.nunique()
    if task != "classification" and decimal != ",":
        _check_commas(target, "dataset.task=classification")
    if task == "auto":
        if distinct > FEW_VALUES and (note := _meant_as_numbers(target)):
            raise BadInput(f"target {note}; dataset.task=classification takes them as classes")
        task = infer_task(target)
    if task == "regression":
        return *encode_target(_numeric(target), "regression"), "regression"
    if distinct > min(MOST_CLASSES, len(target) // 2):
        raise BadInput(
            f"target {target.name!r} has {distinct} different values, such as {target.tolist()[0]!r}: too many classes "
            f"for {len(target)} rows (at most {MOST_CLASSES}, and two rows each); numbers need dataset.task=regression"
        )
    y, classes = encode_target(target, "classification")
    return y, classes, "binary" if len(classes) == 2 else "multiclass"


def _numeric(target: pd.Series) -> pd.Series:
    values = pd.to_numeric(target, errors="coerce")
    if values.isna().any():
        raise BadInput(
            f"target {target.name!r} is not numeric, for example {target[values.isna()].iloc[0]!r}: numbers are to be "
            "written without marks of thousands and units, labels need dataset.task=classification"
        )
    largest = float(values.abs().max())
    if np.isfinite(largest) and largest > float(np.finfo(np.float32).max):
        raise BadInput(f"target {target.name!r} goes to {largest:.3g}, beyond the numbers that XGBoost holds (3.4e38)")
    return values.astype(np.float64)


# The text of a file of unknown origin: its separator, its header, and what cannot be read.

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
DECIMALS = {".": "point", ",": "comma"}
PACKED = (".gz", ".bz2", ".xz", ".zip", ".zst", ".7z", ".parquet", ".feather", ".xlsx", ".xls", ".ods")
MISSING = ("?",)  # beside what pandas takes for missing: empty, NA, N/A, NaN, null, None, ...
_LINES = 50  # looked at to find the separator
_BROKEN = (pd.errors.ParserError, pd.errors.EmptyDataError, pd.errors.ParserWarning)


def _read_table(
    path: Path, sep: str, decimal: str, encoding: str, texts: Sequence[str] = (), fewest: int = 2, raw: bool = False
) -> pd.DataFrame:
    """Return the file as a frame with the column names of its first line, blanks around them stripped.

    texts: columns that are read as text, whatever they look like; raw: read all as text, no value as missing. Raises
    BadInput for a file that is absent, empty, in another encoding, or no table of `fewest` columns with different
    names.
    """
    if path.suffix.lower() in PACKED:
        raise BadInput(f"dataset.path: {path} is no plain text ({path.suffix}): convert or unpack it to CSV first")
    text = _text(path, encoding)
    csv.field_size_limit(sys.maxsize)  # a wide line is one field to a wrong separator
    mark = find_separator(text, path, fewest) if sep == "auto" else _named("sep", sep, SEPARATORS)
    if mark == decimal:
        both = f"separator and dataset.decimal are both a {SEPARATORS.get(mark, DECIMALS[mark])}"
        raise BadInput(f"{path}: {both}: leave the latter out, or set dataset.sep")
    lines = _lines(text, keepends=True)
    filled = next((k for k, line in enumerate(lines) if line.replace(mark, "").replace('"', "").strip()), 0)
    text = "".join(lines[filled:])  # without leading rows of empty fields
    names = _header(text, mark, path, fewest)
    text = text.rstrip() + "\n" if len(names) == 1 else text  # where an empty line in between is a missing value

    def parsed(text: str, words: Sequence[str], **missing: Any) -> pd.DataFrame:
        return pd.read_csv(io.StringIO(text), sep=mark, decimal=decimal, header=0, names=names, index_col=False,
                           skipinitialspace=True, skip_blank_lines=len(names) > 1, low_memory=False, **missing,
                           dtype={name: str for name in words if name in names})  # fmt: skip

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            if re.search(rf" (?:{re.escape(mark)}|[\r\n]|\Z)", text):  # a word and a blank would be another word
                every = parsed(text, names, keep_default_na=False).apply(lambda column: column.str.strip())
                text = every.to_csv(sep=mark, index=False, lineterminator="\n")
            return parsed(text, names, keep_default_na=False) if raw else parsed(text, texts, na_values=list(MISSING))
    except _BROKEN as error:
        reason = " ".join(str(error).split()).removeprefix("Error tokenizing data. C error: ")
        raise BadInput(f"{path} is no table separated by {SEPARATORS.get(mark, mark)}: {reason}") from None


def _words_for_none(path: Path, sep: str, encoding: str, column: str, rows: pd.Series) -> list[str]:
    """Return the words, such as None, that stand in a column of the file where these rows (a mask) have no value."""
    return sorted({*_read_table(path, sep, ".", encoding, raw=True)[column][rows].str.strip()} - {"", *MISSING})


def _named(setting: str, value: str, marks: Mapping[str, str]) -> str:
    """Return the mark that a setting gives by itself or by its name; a separator can be any one character."""
    mark = {"\\t": "\t", **{name: mark for mark, name in marks.items()}}.get(value, value)
    if setting == "sep" and len(mark) != 1:
        raise BadInput(f"dataset.sep must be auto, one of {', '.join(marks.values())}, or one character, got {value!r}")
    if setting == "decimal" and mark not in marks:
        raise BadInput(f"dataset.decimal must be point or comma, got {value!r}")
    return mark


def find_separator(text: str, path: Path, fewest: int = 2) -> str:
    """Return the separator that parts most of the first lines into equally many fields, and into the most.

    Raises BadInput where none parts them into two or more, unless one column is enough.
    """
    head = [line for line in _lines(text)[: _LINES + 1] if line.strip()][:_LINES]
    found = _most_even(head)
    if found or fewest < 2:
        return found or ","
    _check_header(head, path)
    known = ", ".join(SEPARATORS.values())
    raise BadInput(f"{path} has one column only, parted by none of {known}: set dataset.sep= to another")


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


def _lines(text: str, keepends: bool = False) -> list[str]:
    """Return the lines as `str.splitlines` does, which would cut at characters of names, too (U+2028, U+0085)."""
    found = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z", text)
    return found if keepends else [line.rstrip("\r\n") for line in found]


def _header(text: str, mark: str, path: Path, fewest: int) -> list[str]:
    """Return the column names; nameless columns are called column_1, ... by their place."""
    row = next(csv.reader(_lines(text), delimiter=mark, skipinitialspace=True))
    names = [name.strip() or f"column_{place}" for place, name in enumerate(row, start=1)]
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise BadInput(f"{path}: the column name {name!r} occurs {count} times; names must differ")
    if len(names) < fewest:
        _check_header(_lines(text)[:_LINES], path)
        raise BadInput(f"{path} has one column only with this separator: set dataset.sep=auto or another")
    return names


# Columns of text that were meant as numbers: decimal commas, units, a word among numbers.

MOST = 0.9  # of a column's values: so many written like numbers are no chance
_COMMA = re.compile(r"[-+]?(\d+|\d{1,3}(\.\d{3})+)?,\d+")
_WHOLE = re.compile(r"[-+]?\d+")
_DRESSED = re.compile(r"[^\w\s]?\s*[-+]?\d[\d.,' ]*\s*[^\d\s]{0,4}")  # $1,234.00, 45%, 102 EUR


def _check_commas(column: pd.Series, otherwise: str) -> None:
    """Raise BadInput for a column of text whose values are numbers with a decimal comma.

    Whole numbers may stand among them. otherwise: what to set for text that is meant as such.
    """
    values = _texts(column)
    commas = values.map(lambda value: bool(_COMMA.fullmatch(value)))
    whole = values.map(lambda value: bool(_WHOLE.fullmatch(value)))
    if commas.any() and (commas | whole).mean() >= MOST:
        raise BadInput(
            f"{column.name!r} holds numbers with a comma, such as {values[commas].iloc[0]!r}: dataset.decimal=comma "
            f"reads it as the decimal mark (marks of thousands have to go), {otherwise} takes them as text"
        )


def _meant_as_numbers(column: pd.Series) -> str:
    """Return a note on a column of text that is all but numbers, or numbers with a unit; "" for any other column."""
    values = _texts(column)
    odd = values[pd.to_numeric(values, errors="coerce").isna()]
    if len(odd) and len(odd) <= (1 - MOST) * len(values):
        return f"{column.name} read as text: {odd.iloc[0]!r} is no number (as {len(values) - len(odd):,} others are)"
    dressed = values.map(lambda value: bool(_DRESSED.fullmatch(value)))
    if dressed.mean() >= MOST and values.nunique() > FEW_VALUES:
        return f"{column.name} read as text: numbers are to be written without marks and units, not {values.iloc[0]!r}"
    return ""


def _texts(column: pd.Series) -> pd.Series:
    """Return the values of a column that was read as text, blanks around them stripped; none of any other column."""
    if types.is_numeric_dtype(column) or types.is_bool_dtype(column):
        return column.iloc[:0].astype(object)
    present = column.dropna()
    return present[present.map(lambda value: isinstance(value, str))].str.strip()


# The inputs: dates become numbers, row numbers are left out, the rest stays as it is.

FORMATS = ("ISO8601", *(f"{day}{time}" for day in ("%d.%m.%Y", "%Y/%m/%d", "%m/%d/%Y", "%d/%m/%Y")
                        for time in ("", " %H:%M", " %H:%M:%S")))  # fmt: skip


def input_columns(
    frame: pd.DataFrame,
    drop: Sequence[str],
    keep: Sequence[str],
    decimal: str = ".",
    numbering: Mapping[str, str] | None = None,
) -> tuple[pd.DataFrame, list[str]]:
    """Return the columns to predict from, and notes on those left out or converted.

    Numbers, strings and yes/no columns stay (the pipelines decide their kinds, and drop constant ones). Dates become
    days since 1970, month and weekday (and hour, if times differ); how they were written stands in the frame's
    attribute ``dates``, by column, for rows to come. numbering: `row_number` of columns in all rows of the file. Raises
    BadInput for a name in `drop` or `keep` that is no column, or in both, where no column remains, and for numbers with
    another mark of decimals than `decimal`, unless they are to be kept.
    """
    for setting, listed in (("drop", drop), ("keep", keep)):
        if unknown := [name for name in listed if name not in frame.columns]:
            raise BadInput(f"dataset.{setting}: {unknown[0]!r} is none of the inputs {', '.join(frame.columns[:12])}")
    if both := [name for name in drop if name in keep]:
        raise BadInput(f"dataset.drop and dataset.keep both name {both[0]!r}: leave it out of one of them")
    columns: dict[str, pd.Series] = {}
    notes: list[str] = []
    written: dict[str, str] = {}
    for name in frame.columns.drop(list(drop)):
        column = frame[name]
        if name not in keep and (why := (numbering or {}).get(str(name)) or row_number(column)):
            notes.append(f"{name} left out: {why}")
        elif forms := date_forms(column):
            written[str(name)] = forms[0]
            parts = _date_parts(column, forms[0])
            if parts[f"{name} (hour)"].nunique() < 2:
                del parts[f"{name} (hour)"]
            if clash := [part for part in parts if part in frame.columns]:
                raise BadInput(f"the dates of {name!r} become {clash[0]!r}, a column of the file: rename that one, or "
                               f"set dataset.drop=[{name}]")  # fmt: skip
            columns |= parts
            turned = {form.replace("%m/%d", "%d/%m") for form in forms if form.startswith("%m/%d")}
            either = " (month first: the file leaves it open)" if turned & set(forms) else ""
            notes.append(f"{name} read as dates{either}: {', '.join(p.rpartition('(')[2][:-1] for p in parts)}")
        else:
            if name not in keep and decimal != ",":
                _check_commas(column, f"dataset.keep=[{name}]")
            notes += filter(None, [_meant_as_numbers(column)])
            columns[str(name)] = _plain(column)
    if not columns:
        raise BadInput(f"no column is left to predict from: {'; '.join(notes) or 'all are dropped'}")
    X = pd.DataFrame(columns)
    X.attrs["dates"] = written
    return X, notes


def column_names(setting: str, value: Any) -> list[str]:
    """Return the columns that a setting lists: a single name is a list of one, null is none.

    Raises BadInput for what is neither.
    """
    if value is None or (isinstance(value, str | int | float) and not isinstance(value, bool)):
        return [] if value is None else [str(value)]
    if isinstance(value, Mapping) or not isinstance(value, Iterable):
        raise BadInput(f"dataset.{setting} must be a list of columns, [a,b], got {value!r}")
    return [str(name) for name in value]


def row_number(column: pd.Series) -> str:
    """Return why a column tells rows apart and no more, "" if it may say something of them.

    It numbers the rows: n consecutive whole numbers in any order, each once. It is an id, by name (id, index, or
    ending in _id or " id") and nature: no two rows share a value and none is a fraction.
    """
    if column.isna().any() or not column.is_unique:
        return ""
    name = str(column.name).strip().lower()
    called_id = name in ("id", "index", "uuid", "key") or name.endswith(("_id", " id"))
    an_id = "an id by its name, it has another value in each row" if called_id else ""
    if not types.is_numeric_dtype(column) or types.is_bool_dtype(column):
        return an_id
    values = column.to_numpy(dtype=np.float64)
    if not bool(np.isfinite(values).all() and np.all(values == np.rint(values))):
        return ""
    return "it numbers the rows" if values.max() - values.min() == len(values) - 1 else an_id


def date_forms(column: pd.Series) -> list[str]:
    """Return those of `FORMATS` in which every value of a column is a date, missing values aside; [] for numbers.

    Days and months that could be either way round are read month first.
    """
    if types.is_numeric_dtype(column) or types.is_bool_dtype(column):
        return []
    present = column.dropna()
    if present.empty or not present.map(lambda v: isinstance(v, str) and any(c.isdigit() for c in v)).all():
        return []
    return [form for form in FORMATS if _dates(present, form).notna().all()]


def _date_parts(column: pd.Series, form: str) -> dict[str, pd.Series]:
    found = _dates(column, form)
    return {
        f"{column.name} (day)": (found - pd.Timestamp("1970-01-01")).dt.total_seconds() / 86_400.0,
        f"{column.name} (month)": found.dt.month.astype(np.float64),
        f"{column.name} (weekday)": found.dt.day_of_week.astype(np.float64),
        f"{column.name} (hour)": found.dt.hour.astype(np.float64),
    }


def _dates(values: pd.Series, form: str) -> pd.Series:
    """Return the dates, missing where a value is no date of this form (a number is none)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        texts = values.astype(object).where(values.map(lambda value: isinstance(value, str)), None)
        found = pd.to_datetime(texts, format=form, utc=True, errors="coerce")
    return found.dt.tz_localize(None)


def _plain(column: pd.Series) -> pd.Series:
    """Return strings as objects, missing ones None, whatever string type pandas chose for them."""
    if types.is_numeric_dtype(column) or types.is_bool_dtype(column):
        return column
    return column.astype(object).where(column.notna(), None)

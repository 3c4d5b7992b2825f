"""The inputs of a user's own table: dates become numbers, row numbers are left out, the rest stays as it is."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas
from pandas.api import types

from datasets.errors import BadInput
from datasets.own_numbers import check_commas, meant_as_numbers

DAY_FIRST, MONTH_FIRST = "%d/%m/%Y", "%m/%d/%Y"
FORMATS = ("ISO8601", "%d.%m.%Y", "%d.%m.%Y %H:%M", "%Y/%m/%d", MONTH_FIRST, DAY_FIRST)
_DAY_S = 86_400.0


def inputs(
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


def listed(setting: str, value: Any) -> list[str]:
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
    """Return the columns of a file that `inputs` took for text, or for dates, when it made `X` of it."""
    words = [
        str(name)
        for name in X.columns
        if X[name].dtype == object and X[name].dropna().map(lambda v: isinstance(v, str)).all()
    ]
    return [*words, *X.attrs.get("dates", {})]


def like(X: pandas.DataFrame, frame: pandas.DataFrame, path: str) -> pandas.DataFrame:
    """Return the columns of `X` (what `inputs` made of another file) from the rows of `frame`.

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

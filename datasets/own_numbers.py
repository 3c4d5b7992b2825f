"""Columns of text that were meant as numbers (decimal commas, units, a word among numbers): told, or refused."""

import re

import pandas
from pandas.api import types

from datasets.errors import BadInput
from datasets.own import FEW_VALUES

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

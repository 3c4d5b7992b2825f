"""The cast of a frame's columns to what their kinds promise: finite numbers or NaN, strings or None."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float, Shaped

LARGEST = float(np.finfo(np.float32).max)  # XGBoost computes with float32


def finite(X: pd.DataFrame, positions: Sequence[int]) -> Float[np.ndarray, "n k"]:
    """Return these columns as float64; what is no finite number becomes NaN."""
    out = np.empty((len(X), len(positions)))
    for k, position in enumerate(positions):
        out[:, k] = numbers(X.iloc[:, position])
    return out


def strings(X: pd.DataFrame, positions: Sequence[int]) -> Shaped[np.ndarray, "n k"]:
    """Return these columns as an (n, k) object array of str, None where the value is missing."""
    out = np.empty((len(X), len(positions)), dtype=object)
    for k, position in enumerate(positions):
        out[:, k] = levels(X.iloc[:, position])
    return out


def numbers(column: pd.Series) -> Float[np.ndarray, " n"]:
    """Return a column as float64; what is no finite number, as float32 goes, becomes NaN."""
    plain = column.astype(object) if isinstance(column.dtype, pd.CategoricalDtype) else column
    values = pd.to_numeric(plain, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.abs(values) <= LARGEST, values, np.nan)


def levels(column: pd.Series) -> Shaped[np.ndarray, " n"]:
    """Return strings, None where missing; whole floats are written as integers: 1 and 1.0 are one level."""
    codes, found = pd.factorize(column)
    names = np.empty(len(found) + 1, dtype=object)
    names[:-1] = [_name(value) for value in found]
    names[-1] = None  # code -1: missing
    return names[codes]


def _name(value: object) -> str:
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)

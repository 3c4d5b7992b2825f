"""Columns of a data set: their kinds, decided on the training rows, and the cast of any rows to what kinds promise.

Numbers become finite float64 or NaN, strings stay str or None.

text: strings, mostly distinct, of several words. categorical: other strings, booleans, pandas categoricals.
extreme: numeric and heavy-tailed, where a recipe asks for it; found before the detected ones, which would else take
them all: counts that are mostly zero have few distinct values. detected: numeric, but with few distinct values; a
recipe chooses whether to treat these as categorical. numeric: the rest. Missing values count as one more level
wherever levels are counted.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
import pandas as pd
from jaxtyping import Float, Int, Shaped
from pandas.api import types

from datasets.errors import BadInput

FLOAT32_MAX = float(np.finfo(np.float32).max)  # XGBoost computes with float32
NUMBERS, STRINGS = ("numeric", "extreme", "detected"), ("categorical", "text")  # kinds, in the order of blocks
TEXT_DISTINCT = 0.5  # "mostly distinct": more than this share of the non-missing values
TEXT_WORDS = 3  # "several words": this many or more on average
DETECTED_RATIO = 0.2
DETECTED_LEVELS = 100
EXTREME_SDS = 4.0  # a percentile farther than this from the mean makes a column heavy-tailed
RARE_ROWS = 10
RARE_SHARE = 0.009


def numbers(column: pd.Series) -> Float[np.ndarray, " n"]:
    """Return a column as float64; what is no finite number, as float32 goes, becomes NaN."""
    plain = column.astype(object) if isinstance(column.dtype, pd.CategoricalDtype) else column
    values = pd.to_numeric(plain, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.abs(values) <= FLOAT32_MAX, values, np.nan)


def levels(column: pd.Series) -> Shaped[np.ndarray, " n"]:
    """Return strings, None where missing; whole floats are written as integers: 1 and 1.0 are one level."""
    codes, found = pd.factorize(column)
    names = np.empty(len(found) + 1, dtype=object)
    for k, value in enumerate(found):
        whole = isinstance(value, float | np.floating) and float(value).is_integer()
        names[k] = str(int(value)) if whole else str(value)
    names[-1] = None  # code -1: missing
    return names[codes]


@dataclass(frozen=True)
class Kinds:
    """What `column_kinds` found.

    columns: their names. positions: where the columns of each kind are.
    rare: a level with fewer training rows than this is rare.
    dropped: one note per dropped column, ``name: reason``.
    """

    columns: tuple[Hashable, ...]
    positions: dict[str, tuple[int, ...]]
    rare: int
    dropped: tuple[str, ...]

    def names(self, *kinds: str) -> list[str]:
        """Return the names that `cast_columns` gives the columns of these kinds."""
        return [f"{kind}{position}" for kind in kinds for position in self.positions[kind]]


def rare_rows(n: int) -> int:
    """Return the least number of rows, of `n`, that keeps a level from being rare: max(10, 0.9 % of n)."""
    return max(RARE_ROWS, ceil(RARE_SHARE * n))


def heavy_tailed(values: Float[np.ndarray, " n"]) -> bool:
    """Say whether a numeric column has a heavy tail: max(|q02 - mean|, |q98 - mean|) > 4 sd.

    Missing values (NaN) are filled with the median, as the recipes fill them; a column of two values has no tail.
    """
    present = values[np.isfinite(values)]
    if len(np.unique(present)) <= 2:
        return False
    filled = np.where(np.isfinite(values), values, np.median(present))
    distance = np.abs(np.percentile(filled, [2, 98]) - filled.mean()).max()
    return bool(distance > EXTREME_SDS * filled.std())


def column_kinds(X: object, detect: bool, extreme: bool = False) -> Kinds:
    """Decide the kind of every column on the training rows `X`.

    detect: whether numeric columns with few distinct values are told apart (else they are numeric). extreme: whether
    heavy-tailed ones are, before these (else they are as any other).
    Raises BadInput for what is no frame, no usable column, repeated names, or a dtype of no kind.
    """
    X = _frame(X)
    if len(X) < 2 or not X.shape[1]:
        raise BadInput(f"a pipeline needs two training rows and one column or more, got {X.shape}")
    if not X.columns.is_unique:
        raise BadInput(f"repeated column names: {sorted(map(str, X.columns[X.columns.duplicated()]))}")
    rare = rare_rows(len(X))
    found: dict[str, list[int]] = {kind: [] for kind in (*NUMBERS, *STRINGS)}
    dropped = []
    for position, name in enumerate(X.columns):
        kind, reason = _kind(X.iloc[:, position], detect, extreme, rare)
        if reason:
            dropped.append(f"{name}: {reason}")
        else:
            found[kind].append(position)
    if not any(found.values()):
        raise BadInput(f"no usable column in {len(X)} training rows: {'; '.join(dropped[:3])}")
    return Kinds(tuple(X.columns), {kind: tuple(where) for kind, where in found.items()}, rare, tuple(dropped))


def cast_columns(X: object, kinds: Kinds) -> pd.DataFrame:
    """Cast the kept columns: numeric, extreme and detected ones to finite float64 or NaN, the others to str or None.

    Columns come kind by kind, named as `Kinds.names` says. Raises BadInput for other columns than in training.
    """
    X = _frame(X)
    if tuple(X.columns) != kinds.columns:
        missing = [str(c) for c in kinds.columns if c not in X.columns]
        extra = [str(c) for c in X.columns if c not in kinds.columns]
        differ = f"missing {missing}, not expected {extra}" if missing or extra else "another order, or repeated"
        raise BadInput(f"columns differ from the training rows': {differ}")
    frames = [_cast(X, kinds, NUMBERS, numbers, np.float64), _cast(X, kinds, STRINGS, levels, object)]
    return pd.concat(frames, axis=1)


def _cast(
    X: pd.DataFrame, kinds: Kinds, chosen: Sequence[str], cast: Callable[[pd.Series], np.ndarray], dtype: type
) -> pd.DataFrame:
    positions = [position for kind in chosen for position in kinds.positions[kind]]
    values: np.ndarray = np.empty((len(X), len(positions)), dtype=dtype)
    for k, position in enumerate(positions):
        values[:, k] = cast(X.iloc[:, position])
    return pd.DataFrame(values, columns=kinds.names(*chosen), dtype=dtype)


def _frame(X: object) -> pd.DataFrame:
    if not isinstance(X, pd.DataFrame):
        raise BadInput(f"a pipeline takes a pandas DataFrame, got {type(X).__name__}")
    return X


def _kind(column: pd.Series, detect: bool, extreme: bool, rare: int) -> tuple[str, str]:
    """Return the kind of a column and, if it is useless, the reason why."""
    kind = _raw_kind(column)
    if kind == "numeric":
        values = numbers(column)
        present = np.isfinite(values)
        distinct, counts = np.unique(values[present], return_counts=True)
        few = len(distinct) <= DETECTED_LEVELS and len(distinct) < DETECTED_RATIO * len(column)
        if extreme and heavy_tailed(values):
            kind = "extreme"
        elif detect and few:
            kind = "detected"
    else:
        names = pd.Series(levels(column))
        present = names.notna().to_numpy()
        counts = np.asarray(names.value_counts())
    missing = int((~present).sum())
    if missing == len(column):
        return kind, "all missing"
    counts = np.append(counts, missing) if missing else counts
    if len(counts) == 1:
        return kind, "constant"
    return kind, _no_indicator(counts, rare) if kind in ("categorical", "detected") else ""


def _no_indicator(counts: Int[np.ndarray, " k"], rare: int) -> str:
    """Return why grouping rare levels leaves nothing to tell apart, "" if it does not."""
    if counts.max() < rare:
        return f"every level has fewer than {rare} rows"
    off = int(counts.sum() - counts.max())
    return f"only {off} rows off its commonest level, {rare} needed" if off < rare else ""


def _raw_kind(column: pd.Series) -> str:
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype) or types.is_bool_dtype(dtype):
        return "categorical"
    if types.is_integer_dtype(dtype) or types.is_float_dtype(dtype):
        return "numeric"
    if not (types.is_string_dtype(dtype) or types.is_object_dtype(dtype)):
        raise BadInput(
            f"column {column.name!r} has dtype {dtype}; allowed are numbers, booleans, strings and categoricals"
        )
    present = column.dropna()
    if not len(present):
        return "categorical"
    if present.map(lambda v: isinstance(v, int | float | np.number) and not isinstance(v, bool)).all():
        return "numeric"
    if not present.map(lambda v: isinstance(v, str | bool | int | float | np.number | np.bool_)).all():
        found = sorted({type(v).__name__ for v in present})
        raise BadInput(f"column {column.name!r} holds {', '.join(found)}; allowed are numbers, booleans and strings")
    words = present.astype(str).str.split().map(len).mean()
    distinct = present.nunique() > TEXT_DISTINCT * len(present)
    return "text" if distinct and words >= TEXT_WORDS else "categorical"

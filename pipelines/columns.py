"""Columns of a data set: their kinds, decided on the training rows, and the cast of any rows to what kinds promise.

Numbers become finite float64 or NaN, strings stay str or None.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
import pandas as pd
from jaxtyping import Float, Int, Shaped
from pandas.api import types

from datasets.errors import BadInput

FLOAT32_MAX = float(np.finfo(np.float32).max)  # XGBoost computes with float32


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
    return np.where(np.abs(values) <= FLOAT32_MAX, values, np.nan)


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


# The kinds of columns, decided on the training rows only.
#
# text: strings, mostly distinct, of several words. categorical: other strings, booleans, pandas categoricals.
# extreme: numeric and heavy-tailed, where a recipe asks for it; found before the detected ones, which would else take
# them all: counts that are mostly zero have few distinct values. detected: numeric, but with few distinct values; a
# recipe chooses whether to treat these as categorical. numeric: the rest. Missing values count as one more level
# wherever levels are counted.

TEXT_DISTINCT = 0.5  # "mostly distinct": more than this share of the non-missing values
TEXT_WORDS = 3  # "several words": this many or more on average
DETECTED_RATIO = 0.2
DETECTED_LEVELS = 100
EXTREME_SDS = 4.0  # a percentile farther than this from the mean makes a column heavy-tailed
RARE_ROWS = 10
FEW_NAMES = 6  # columns that a table lists by name
RARE_SHARE = 0.009


@dataclass(frozen=True)
class Kinds:
    """The positions of the columns of each kind, and why the others are dropped.

    rare: a level with fewer training rows than this is rare.
    dropped: one note per dropped column, ``name: reason``.
    """

    columns: tuple[Hashable, ...]
    text: tuple[int, ...]
    categorical: tuple[int, ...]
    detected: tuple[int, ...]
    numeric: tuple[int, ...]
    extreme: tuple[int, ...]
    rare: int
    dropped: tuple[str, ...]


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
    X = _checked(X)
    rare = rare_rows(len(X))
    found: dict[str, list[int]] = {"text": [], "categorical": [], "detected": [], "numeric": [], "extreme": []}
    dropped = []
    for position, name in enumerate(X.columns):
        kind, reason = _kind(X.iloc[:, position], detect, extreme, rare)
        if reason:
            dropped.append(f"{name}: {reason}")
        else:
            found[kind].append(position)
    if not any(found.values()):
        raise BadInput(f"no usable column in {len(X)} training rows: {'; '.join(dropped[:3])}")
    positions = {kind: tuple(where) for kind, where in found.items()}
    return Kinds(columns=tuple(X.columns), rare=rare, dropped=tuple(dropped), **positions)


def touched(X: pd.DataFrame) -> dict[str, int | str]:
    """Return how many columns of the training rows `X` each step acts on, as text with names where there are few."""
    plain, detected, extreme = column_kinds(X, False), column_kinds(X, True), column_kinds(X, True, extreme=True)
    names = [str(column) for column in X.columns]
    gaps = [k for k in plain.numeric if not np.isfinite(numbers(X.iloc[:, k])).all()]
    return {
        "inputs": X.shape[1],
        "tf-idf (all)": _listed(names, plain.text),
        "one-hot of categoricals (all)": _listed(names, plain.categorical),
        "median imputation (all but clean)": _listed(names, gaps),
        "one-hot of detected ones (onehot, onehot_svd)": _listed(names, detected.detected),
        "bins (onehot, onehot_svd)": _listed(names, detected.numeric),
        "quantile map or log (quantile_pca, log_pca)": _listed(names, extreme.extreme),
        "one-hot of detected ones (quantile_pca, log_pca)": _listed(names, extreme.detected),
    }


def _listed(names: list[str], positions: Sequence[int]) -> str:
    """Return how many columns there are, with their names if they are `FEW_NAMES` or fewer."""
    few = ", ".join(names[k] for k in positions) if len(positions) <= FEW_NAMES else ""
    return f"{len(positions)}: {few}" if few else str(len(positions))


def same_columns(X: object, kinds: Kinds) -> pd.DataFrame:
    """Return `X`; raise BadInput unless it is a frame with the training rows' columns, in their order."""
    if not isinstance(X, pd.DataFrame):
        raise BadInput(f"a pipeline takes a pandas DataFrame, got {type(X).__name__}")
    if tuple(X.columns) == kinds.columns:
        return X
    missing = [str(c) for c in kinds.columns if c not in X.columns]
    extra = [str(c) for c in X.columns if c not in kinds.columns]
    differ = f"missing {missing}, not expected {extra}" if missing or extra else "another order, or repeated"
    raise BadInput(f"columns differ from the training rows': {differ}")


def cast_columns(X: object, kinds: Kinds) -> pd.DataFrame:
    """Cast the kept columns: numeric, extreme and detected ones to finite float64 or NaN, the others to str or None.

    Columns come kind by kind, named as `cast_names` says. Raises BadInput for other columns than in training.
    """
    X = same_columns(X, kinds)
    as_numbers, as_strings = kinds.numeric + kinds.extreme + kinds.detected, kinds.categorical + kinds.text
    names = cast_names(kinds)
    frames = [
        pd.DataFrame(finite(X, as_numbers), columns=names["numeric"] + names["extreme"] + names["detected"]),
        pd.DataFrame(strings(X, as_strings), columns=names["categorical"] + names["text"], dtype=object),
    ]
    return pd.concat(frames, axis=1)


def cast_names(kinds: Kinds) -> dict[str, list[str]]:
    """Return, kind by kind, the names that `cast_columns` gives the columns."""
    found = {"numeric": kinds.numeric, "extreme": kinds.extreme, "detected": kinds.detected}
    found |= {"categorical": kinds.categorical, "text": kinds.text}
    return {kind: [f"{kind}{position}" for position in positions] for kind, positions in found.items()}


def _checked(X: object) -> pd.DataFrame:
    if not isinstance(X, pd.DataFrame):
        raise BadInput(f"a pipeline takes a pandas DataFrame, got {type(X).__name__}")
    if len(X) < 2 or not X.shape[1]:
        raise BadInput(f"a pipeline needs two training rows and one column or more, got {X.shape}")
    if not X.columns.is_unique:
        raise BadInput(f"repeated column names: {sorted(map(str, X.columns[X.columns.duplicated()]))}")
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
    if kind in ("categorical", "detected"):
        return kind, _no_indicator(counts, rare)
    return kind, ""


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
    if types.is_string_dtype(dtype) or types.is_object_dtype(dtype):
        return _object_kind(column)
    raise BadInput(f"column {column.name!r} has dtype {dtype}; allowed are numbers, booleans, strings and categoricals")


def _object_kind(column: pd.Series) -> str:
    present = column.dropna()
    if not len(present):
        return "categorical"
    if present.map(lambda v: isinstance(v, int | float | np.number) and not isinstance(v, bool)).all():
        return "numeric"
    if not present.map(lambda v: isinstance(v, str | bool | int | float | np.number | np.bool_)).all():
        kinds = sorted({type(v).__name__ for v in present})
        raise BadInput(f"column {column.name!r} holds {', '.join(kinds)}; allowed are numbers, booleans and strings")
    words = present.astype(str).str.split().map(len).mean()
    distinct = present.nunique() > TEXT_DISTINCT * len(present)
    return "text" if distinct and words >= TEXT_WORDS else "categorical"

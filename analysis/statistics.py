"""95 % bootstrap intervals: hierarchical (data set, then pipeline, then seed) and plain, both paired.

Notation: B resamples, n cells (one problem and seed each), K columns (methods, or points of curves). A
resample is a count per cell; all columns share it, so that methods stay paired. A cell that a column lacks
(NaN) is left out of that column's statistic.

The eight pipelines of one data set are not independent, so the hierarchical scheme draws D data sets of D,
then for each draw P pipelines of its P, then for each of those S seeds of its S, all with replacement.
Source: Guinet et al. 2020 resample plainly; the hierarchical scheme is our reading (STUDY: "Confidence").
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import pandas as pd
from jaxtyping import Float

from analysis.traces import CELL
from harness.streams import stream

Scheme = Literal["hierarchical", "plain"]
Statistic = Literal["mean", "median"]
RESAMPLES, LEVEL, SEED = 2000, 0.95, 0
_scheme: ContextVar[Scheme] = ContextVar("scheme", default="hierarchical")


@contextmanager
def resampling(scheme: Scheme) -> Iterator[None]:
    """Within, every interval that names no scheme of its own is made by this one."""
    token = _scheme.set(scheme)
    try:
        yield
    finally:
        _scheme.reset(token)


def in_use() -> Scheme:
    """Return the scheme that intervals are made by where none is named."""
    return _scheme.get()


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float


def bootstrap(
    values: pd.DataFrame,
    statistic: Statistic = "mean",
    scheme: Scheme | None = None,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> pd.DataFrame:
    """Return value, low, high (percentile interval) and n (cells) of every column of `values`.

    `values` has the unique index (dataset, pipeline, seed). A column without any value gets NaN. Raises
    ValueError for an index that is not unique.
    """
    if values.index.duplicated().any():
        raise ValueError(f"cells must be unique, got {values.index[values.index.duplicated()][0]} twice")
    x = values.to_numpy(dtype=float)
    weights = resample(values.index.to_frame(index=False)[CELL], scheme, resamples, seed)
    low, high = percentiles(weighted(x, weights, statistic))
    value = weighted(x, np.ones((1, len(x))), statistic)[0]
    n = np.isfinite(x).sum(axis=0)
    return pd.DataFrame({"value": value, "low": low, "high": high, "n": n}, index=values.columns)


def bootstrap_beside(values: pd.DataFrame, reference: pd.DataFrame | pd.Series) -> pd.DataFrame:
    """Return `bootstrap` of the values, and off_value, off_low, off_high: of the paired differences to a reference.

    reference: of the same cells, with the same columns or, as a series, one for all columns.
    """
    off = values.sub(reference, axis=0) if isinstance(reference, pd.Series) else values - reference
    return bootstrap(values).join(bootstrap(off).drop(columns="n").add_prefix("off_"))


def mean(values: pd.Series) -> Estimate:
    """Return the mean over cells with its interval."""
    row = bootstrap(values.to_frame("value")).iloc[0]
    return Estimate(float(row["value"]), float(row["low"]), float(row["high"]))


def of_means(values: pd.DataFrame, function: Callable[[Float[np.ndarray, "B K"]], Float[np.ndarray, " B"]]) -> Estimate:
    """Return function(means of the K columns) with its percentile interval; `values` as in `bootstrap`.

    function: from one row of means per resample to one number each. For what is no mean itself: the place of a
    curve's lowest point, say.
    """
    x = values.to_numpy(dtype=float)
    weights = resample(values.index.to_frame(index=False)[CELL])
    low, high = percentiles(function(weighted(x, weights, "mean"))[:, None])
    value = function(weighted(x, np.ones((1, len(x))), "mean"))[0]
    return Estimate(float(value), float(low[0]), float(high[0]))


def resample(
    cells: pd.DataFrame, scheme: Scheme | None = None, resamples: int = RESAMPLES, seed: int = SEED
) -> Float[np.ndarray, "B n"]:
    """Return how often each cell occurs in each resample, read-only; deterministic in the cells and `seed`.

    scheme: None for the one in use (`resampling`). Raises ValueError for an unknown scheme, and without cells.
    """
    if cells.empty:
        raise ValueError("no cells to resample")
    rows = tuple(cells[CELL].itertuples(index=False, name=None))
    return _resample(rows, in_use() if scheme is None else scheme, resamples, seed)


@lru_cache(maxsize=8)  # an analysis asks for many intervals over the same cells
def _resample(cells: tuple[tuple[str, str, int], ...], scheme: str, resamples: int, seed: int) -> np.ndarray:
    """Draw: S draws for each of k picks of a group of S are Multinomial(k S, 1/S), without a loop over resamples."""
    rng, n = stream(seed, "bootstrap", scheme), len(cells)
    if scheme == "plain":
        weights = rng.multinomial(n, np.full(n, 1 / n), size=resamples).astype(float)
    elif scheme == "hierarchical":
        weights = np.empty((resamples, n))
        members: dict[str, dict[str, list[int]]] = {}
        for k, (dataset, pipeline, _) in enumerate(cells):
            members.setdefault(dataset, {}).setdefault(pipeline, []).append(k)
        per_dataset = _draw(rng, np.ones(resamples, dtype=int), len(members))
        for dataset, picks in zip(sorted(members), per_dataset.T, strict=True):
            pipelines = members[dataset]
            per_pipeline = _draw(rng, picks, len(pipelines))
            for pipeline, inner in zip(sorted(pipelines), per_pipeline.T, strict=True):
                inside = pipelines[pipeline]
                weights[:, inside] = _draw(rng, inner, len(inside))
    else:
        raise ValueError(f"scheme must be hierarchical or plain, got {scheme!r}")
    weights.flags.writeable = False
    return weights


def _draw(rng: np.random.Generator, picks: np.ndarray, size: int) -> np.ndarray:
    """For each resample draw `size` of `size` members, once for every time the group was picked."""
    return rng.multinomial(picks * size, np.full(size, 1 / size))


def weighted(
    x: Float[np.ndarray, "n K"], weights: Float[np.ndarray, "B n"], statistic: Statistic
) -> Float[np.ndarray, "B K"]:
    """Return the mean or median of every column under every row of counts; NaN where nothing counts.

    mean = sum w x / sum w over the cells with a value. median = the usual one of the resample written out.
    Raises ValueError for an unknown statistic.
    """
    if statistic == "median":
        return np.stack([_median(column, weights) for column in x.T], axis=1)
    if statistic != "mean":
        raise ValueError(f"statistic must be mean or median, got {statistic!r}")
    there = np.isfinite(x)
    total = weights @ there.astype(float)
    with np.errstate(invalid="ignore"):
        return np.asarray(weights @ np.where(there, x, 0.0) / np.where(total > 0, total, np.nan))


def _median(column: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Median per row of counts: the mean of the lower and the upper middle value."""
    there = np.flatnonzero(np.isfinite(column))
    if not there.size:
        return np.full(len(weights), np.nan)
    order = there[np.argsort(column[there], kind="stable")]
    cumulative = np.cumsum(weights[:, order], axis=1)
    twice, total = 2 * cumulative, cumulative[:, -1:]
    lower, upper = (
        column[order[np.argmax(twice >= total, axis=1)]],
        column[order[np.argmax(twice > total, axis=1)]],
    )
    return np.where(total[:, 0] > 0, (lower + upper) / 2, np.nan)


def percentiles(replicates: Float[np.ndarray, "B K"]) -> tuple[Float[np.ndarray, " K"], Float[np.ndarray, " K"]]:
    """Return the 95 % percentile interval per column; resamples in which a column has no value do not count."""
    out = np.full((2, replicates.shape[1]), np.nan)
    there = np.isfinite(replicates).any(axis=0)
    tails = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    out[:, there] = np.nanquantile(replicates[:, there], tails, axis=0)
    return out[0], out[1]

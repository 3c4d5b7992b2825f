"""95 % intervals over data sets, and the bootstraps that may stand in for them; all paired by problem and seed.

Notation: n cells (one problem and seed each), K columns (methods, or points of curves), D data sets, B resamples. A
cell that a column lacks (NaN) is left out of that column's statistic.

The eight pipelines of one data set are not independent. So ``datasets``, the default, averages a column's cells within
each data set, m_1 .. m_D, and the mean is that of the m_d with the interval of Student's t:

    mean +- t_{D-1, 0.975} s / sqrt(D),   s^2 = sum (m_d - mean)^2 / (D - 1).

What is no mean (`of_means`, medians) takes draws of the same width. With one data set there is no interval (NaN).

The bootstraps are percentile intervals over resamples, each a count per cell that all columns share: ``hierarchical``
draws D data sets of D, then for each draw P pipelines of its P, then for each of those S seeds of its S, all with
replacement; ``plain`` draws n cells of n.
Source: Guinet et al. 2020 resample plainly; the others are our reading (STUDY: "Confidence").
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy import special, stats

from analysis.evaluations import CELL
from harness.streams import stream

Scheme = Literal["datasets", "hierarchical", "plain"]
Statistic = Literal["mean", "median"]
RESAMPLES, LEVEL, SEED = 2000, 0.95, 0
DRAWS = 100_000  # from a t distribution, so that no verdict hangs on the draw
FEWEST_FOR_MEDIAN = 6  # data sets whose median gets an interval
_scheme: ContextVar[Scheme] = ContextVar("scheme", default="datasets")


@contextmanager
def resampling(scheme: Scheme) -> Iterator[None]:
    """Make every interval that names no scheme of its own by this one, while the context lasts."""
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
    """A number with its 95 % interval.

    df: degrees of freedom of the t distribution whose quantiles the interval's ends are; infinite (a normal one's, of
    another width on either side) where they are percentiles.
    """

    value: float
    low: float
    high: float
    df: float = math.inf

    def doubt(self, limit: float, above: bool) -> float:
        """Return the two-sided p value against the truth being above (else below) a limit: twice the tail beyond it.

        It is below 0.05 exactly where the interval lies wholly on that side. 1 where there is no interval. Where the
        value is outside of it, as a percentile interval's can be, the interval's middle stands for it.
        """
        end = self.low if above else self.high
        value = self.value if self.low <= self.value <= self.high else (self.low + self.high) / 2
        off = (value - limit) * (1 if above else -1)
        tail = (1 + LEVEL) / 2  # `scipy.stats.t` takes a hundred times as long for one number
        arms = float(special.ndtri(tail) if math.isinf(self.df) else special.stdtrit(self.df, tail))
        width = abs(value - end) / arms
        if math.isnan(width) or off <= 0:
            return 1.0
        if width == 0:
            return 0.0
        far = float(-off / width)
        beyond = float(special.ndtr(far)) if math.isinf(self.df) else float(special.stdtr(self.df, far))
        return min(1.0, 2 * beyond)


def with_intervals(
    values: pd.DataFrame,
    statistic: Statistic = "mean",
    scheme: Scheme | None = None,
    resamples: int = RESAMPLES,
) -> pd.DataFrame:
    """Return value, low, high and n (cells) of every column of `values`, by the scheme named or the one in use.

    The interval of a mean under ``datasets`` is Student's t over data sets, and needs no resamples; that of a median is
    a percentile interval over resampled data sets, as wide as the t interval (`widening`). Under the other schemes both
    are plain percentile intervals. `values` has the unique index (dataset, pipeline, seed). A column without any value
    gets NaN. Raises ValueError for an index that is not unique.
    """
    if values.index.duplicated().any():
        raise ValueError(f"cells must be unique, got {values.index[values.index.duplicated()][0]} twice")
    x, n = values.to_numpy(dtype=float), np.isfinite(values.to_numpy(dtype=float)).sum(axis=0)
    if statistic == "mean" and (in_use() if scheme is None else scheme) == "datasets":
        value, low, high = over_datasets(x, _codes(values))
        return pd.DataFrame({"value": value, "low": low, "high": high, "n": n}, index=values.columns)
    value = weighted(x, np.ones((1, len(x))), statistic)[0]
    weights = resample(values.index.to_frame(index=False)[CELL], scheme, resamples)
    if statistic == "median" and (in_use() if scheme is None else scheme) == "datasets":
        codes = _codes(values)
        whole = weights[:, np.unique(codes, return_index=True)[1]]
        replicates = np.stack([_median_of_groups(column, codes, whole) for column in x.T], axis=1)
        replicates = value + (replicates - value) * widening(np.isfinite(group_means(x, codes)).sum(axis=0))
    else:
        replicates = weighted(x, weights, statistic)
    low, high = percentiles(replicates)
    return pd.DataFrame({"value": value, "low": low, "high": high, "n": n}, index=values.columns)


def _codes(values: pd.DataFrame) -> Int[np.ndarray, " n"]:
    return np.asarray(pd.factorize(values.index.get_level_values("dataset"))[0])


def over_datasets(
    values: Float[np.ndarray, "n K"], dataset: Int[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " K"], Float[np.ndarray, " K"], Float[np.ndarray, " K"]]:
    """Return the mean of each column over the data sets' means, and the ends of its t interval.

    dataset: of each row, 0 .. D-1. A column counts the D data sets in which it has a value: NaN for none, and no
    interval (NaN) for one.
    """
    means = group_means(values, dataset)
    sets = np.isfinite(means).sum(axis=0)
    several = np.where(sets > 1, sets, np.nan)
    value = np.nansum(means, axis=0) / np.where(sets > 0, sets, np.nan)
    square = np.nansum((means - value) ** 2, axis=0)
    arm = stats.t.ppf((1 + LEVEL) / 2, several - 1) * np.sqrt(square / (several - 1) / several)
    return value, value - arm, value + arm


def holm(p: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
    """Return Holm's step-down corrections of p values: the k-th lowest of m times m - k + 1, none below one before it.

    NaN stays NaN and does not count. Source: Holm 1979. (statsmodels' `multipletests` collects garbage at each call.)
    """
    out, known = np.full(len(p), np.nan), np.flatnonzero(np.isfinite(p))
    order = known[np.argsort(p[known], kind="stable")]
    steps = p[order] * np.arange(len(order), 0, -1)
    out[order] = np.minimum(1.0, np.maximum.accumulate(steps)) if len(order) else steps
    return out


def group_means(values: np.ndarray, group: Int[np.ndarray, " n"]) -> Float[np.ndarray, "G K"]:
    """Return each column's mean over the rows of each group (0 .. G-1) that have a value; NaN where none has."""
    member = (group == np.arange(group.max() + 1)[:, None]).astype(float)
    there = np.isfinite(values)
    count = member @ there.astype(float)
    return np.asarray(member @ np.where(there, values, 0.0) / np.where(count > 0, count, np.nan))


def ratios_of_sums(
    values: Float[np.ndarray, " n"], reference: Float[np.ndarray, " n"], group: Int[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Return one value per row whose mean over each group (0 .. G-1) is r = (sum values) / (sum reference) there.

    The mean of ratios v / w leans upwards where w is noisy, by about its squared coefficient of variation: a method
    beside itself under other seeds "costs" more than 100 %. The ratio of sums leans by a tenth of that where ten rows
    are in a group. A row's value is its part in that, to first order, so that intervals over rows and paired
    differences stay what they are for means:

        r + (v - r w) / (mean of w in the group).

    Raises ValueError for values that are not finite. NaN where a group's reference adds up to 0.
    Source: Cochran 1977, "Sampling techniques", chapter 6 (ratio estimators).
    """
    if not (np.isfinite(values).all() and np.isfinite(reference).all()):
        raise ValueError("ratios of sums need finite values")
    count = np.bincount(group)[group]
    v, w = (np.bincount(group, weights=x)[group] for x in (values, reference))
    w = np.where(w == 0, np.nan, w)
    return np.asarray(v / w + (values - v / w * reference) * count / w)


def percent_of_sums(values: pd.DataFrame, reference: pd.Series) -> pd.DataFrame:
    """Return each column in percent of the reference, by `ratios_of_sums` over the seeds of each problem.

    Both have the index (dataset, pipeline, seed). Cells that a column or the reference lacks (NaN) are NaN, and are in
    no sum.
    """
    out = pd.DataFrame(np.nan, values.index, values.columns)
    problem = values.groupby(level=list(CELL[:2]), observed=True).ngroup().to_numpy()
    to = reference.reindex(values.index).to_numpy(float)
    for k, column in enumerate(values.to_numpy(float).T):
        there = np.isfinite(column) & np.isfinite(to)
        group = np.unique(problem[there], return_inverse=True)[1]
        out.iloc[there, k] = 100 * ratios_of_sums(column[there], to[there], group)
    return out


def widening(sets: Int[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
    """Return the factor by which deviations of resamples of D whole data sets are spread to the t interval's width.

    D data sets drawn of D have a variance smaller by (D - 1) / D than the unbiased one, and a normal's tails: the
    factor is sqrt(D / (D - 1)) t_{D-1, 0.975} / z_0.975. NaN for fewer than 6 data sets: not even the range of five
    values covers the median with 95 % (but with 1 - 2^-4), so that only what is assumed of the tails would be left.
    """
    n, tail = np.where(sets < FEWEST_FOR_MEDIAN, np.nan, sets), (1 + LEVEL) / 2
    return np.asarray(np.sqrt(n / (n - 1)) * stats.t.ppf(tail, n - 1) / stats.norm.ppf(tail))


def with_intervals_and_differences(values: pd.DataFrame, reference: pd.DataFrame | pd.Series) -> pd.DataFrame:
    """Return `with_intervals` of the values, and off_value, off_low, off_high of their differences to a reference.

    The differences are paired: taken cell by cell. reference: of the same cells, with the same columns or, as a series,
    one for all columns.
    """
    off = values.sub(reference, axis=0) if isinstance(reference, pd.Series) else values - reference
    return with_intervals(values).join(with_intervals(off).drop(columns="n").add_prefix("off_"))


def mean(values: pd.Series) -> Estimate:
    """Return the mean over cells with its interval."""
    row = with_intervals(values.to_frame("value")).iloc[0]
    sets = values.dropna().index.get_level_values("dataset").nunique()
    df = max(sets - 1, 1) if in_use() == "datasets" else math.inf
    return Estimate(float(row["value"]), float(row["low"]), float(row["high"]), df)


def median(values: pd.Series) -> Estimate:
    """Return the median over cells with its interval."""
    row = with_intervals(values.to_frame("value"), "median").iloc[0]
    return Estimate(float(row["value"]), float(row["low"]), float(row["high"]))


def of_means(values: pd.DataFrame, function: Callable[[Float[np.ndarray, "B K"]], Float[np.ndarray, " B"]]) -> Estimate:
    """Return function(means of the K columns) with its percentile interval; `values` as in `with_intervals`.

    function: from one row of means per resample to one number each. For what is no mean itself: the place of a
    curve's lowest point, say. Under ``datasets`` the rows are draws from the K-variate t distribution of the means,
    whose margins have the intervals of `with_intervals`: mean + sum_d z_d (m_d - mean) / sqrt(D u), z standard normal
    and u chi-squared with D - 1 degrees of freedom. Every column needs the same data sets.
    """
    x, cells = values.to_numpy(dtype=float), values.index.to_frame(index=False)[CELL]
    if in_use() == "datasets":
        means = group_means(x, _codes(values))
        if not np.isfinite(means).all():
            raise ValueError("every column needs a value of every data set")
        d, rng = len(means), stream(SEED, "bootstrap", "datasets")
        middle = means.mean(axis=0, keepdims=True)
        z, u = rng.standard_normal((DRAWS, d)), rng.chisquare(max(d - 1, 1), (DRAWS, 1))
        replicates = function(middle + z @ (means - middle) / np.sqrt(d * u)) if d > 1 else np.full(1, np.nan)
    else:
        middle, replicates = weighted(x, np.ones((1, len(x))), "mean"), function(weighted(x, resample(cells), "mean"))
    low, high = percentiles(replicates[:, None])
    return Estimate(float(function(middle)[0]), float(low[0]), float(high[0]))


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
    if scheme == "datasets":
        codes, names = pd.factorize(np.array([dataset for dataset, _, _ in cells], dtype=object))
        weights = _draw(rng, np.ones(resamples, dtype=int), len(names))[:, codes].astype(float)
    elif scheme == "plain":
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
        raise ValueError(f"scheme must be datasets, hierarchical or plain, got {scheme!r}")
    weights.flags.writeable = False
    return weights


def _draw(rng: np.random.Generator, picks: np.ndarray, size: int) -> np.ndarray:
    """Return counts per member: of each resample, `size` draws of `size` members for each pick of the group."""
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
    """Return the median per row of counts: the mean of the lower and the upper middle value."""
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


def _median_of_groups(column: np.ndarray, group: np.ndarray, weights: Float[np.ndarray, "B G"]) -> np.ndarray:
    """Return `_median` where all rows of a group have one weight: by bisection, without a weight for every row."""
    there = np.flatnonzero(np.isfinite(column))
    if not there.size:
        return np.full(len(weights), np.nan)
    order = there[np.argsort(column[there], kind="stable")]
    below = np.zeros((weights.shape[1], len(order) + 1))  # rows of a group among the k lowest
    below[group[order], np.arange(len(order)) + 1] = 1.0
    below = below.cumsum(axis=1)
    total = weights @ below[:, -1]

    def least(reached: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Return the value of the first row up to which the weight is `reached`."""
        low, high = np.zeros(len(weights), dtype=int), np.full(len(weights), len(order))
        while (low + 1 < high).any():
            middle = np.maximum((low + high) // 2, 1)
            up_to = reached(2 * np.einsum("bg,gb->b", weights, below[:, middle]))
            low, high = np.where(up_to, low, middle), np.where(up_to, middle, high)
        return np.asarray(column[order[high - 1]])

    found = (least(lambda twice: twice >= total) + least(lambda twice: twice > total)) / 2
    return np.where(total > 0, found, np.nan)


def signed_rank(values: Float[np.ndarray, " N"]) -> float:
    """Return the two-sided p value of Wilcoxon's signed-rank test that values are symmetric about 0, exactly.

    Zeros are dropped, equal sizes share their mean rank. Of all 2^N signs of the ranks r, all as likely, as many give
    the sum W = sum of the positive ones' r as the coefficient of x^W in prod (1 + x^r); p = 2 min(P(<= W), P(>= W)),
    1 at most. 1 without a value.
    """
    values = values[values != 0]
    twice = np.rint(2 * stats.rankdata(np.abs(values))).astype(int)  # whole numbers: a shared rank is a half one
    ways = np.zeros(twice.sum() + 1)
    ways[0] = 1.0
    for rank in twice:
        ways[rank:] += ways[:-rank].copy()
    at = int(twice[values > 0].sum())
    tail = min(ways[: at + 1].sum(), ways[at:].sum())
    return float(min(1.0, 2 * tail / ways.sum()))


def percentiles(replicates: Float[np.ndarray, "B K"]) -> tuple[Float[np.ndarray, " K"], Float[np.ndarray, " K"]]:
    """Return the 95 % percentile interval per column; resamples in which a column has no value do not count."""
    out = np.full((2, replicates.shape[1]), np.nan)
    there = np.isfinite(replicates).any(axis=0)
    tails = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    out[:, there] = np.nanquantile(replicates[:, there], tails, axis=0)
    return out[0], out[1]

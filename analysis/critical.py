"""Which methods differ over data sets: mean ranks, Friedman's test, and pairwise Wilcoxon tests corrected by Holm.

Notation: N data sets, k methods. The values compared are one number per data set and method, the mean over its
pipelines and seeds, so that N counts what is independent. Sources: Demsar 2006, "Statistical comparisons of classifiers
over multiple data sets" (mean ranks over data sets, Friedman's test, the diagram); Benavoli, Corani and Mangili 2016,
"Should we really use post-hoc tests based on mean-ranks?" (Wilcoxon's signed-rank test with Holm's correction rather
than Nemenyi's critical difference, which lets the verdict on two methods depend on the others; so a pair is tested on
`ahead`, not on its places among all methods).
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy import stats

from datasets.errors import BadInput

LEVEL = 0.05

Difference = Callable[[str, str], Float[np.ndarray, " N"]]
"""How much worse the first of two methods is than the second, on each data set."""


@dataclass(frozen=True)
class Critical:
    """Mean ranks of k methods over N data sets (1 = best), best first, and what tests say of them.

    friedman_p: that all are equal; NaN for fewer than three methods or two data sets. p: Holm-corrected, by pair of
    methods, NaN on the diagonal. cliques: the largest runs of neighbours by rank in which no pair differs.
    """

    ranks: pd.Series
    datasets: int
    friedman_p: float
    p: pd.DataFrame
    cliques: list[list[str]]


def critical(values: pd.DataFrame, difference: Difference | None = None) -> Critical:
    """Compare methods (columns) over data sets (rows); low values are good.

    difference: what pairs are tested on (as `ahead` gives it), otherwise the difference of their values. On one data
    set no pair can differ. Raises BadInput for fewer than two methods, ValueError for NaN.
    """
    if values.shape[1] < 2:
        got = ", ".join(map(str, values.columns)) or "none"
        raise BadInput(f"comparing over data sets needs two methods or more, got: {got}")
    if values.isna().any(axis=None):
        raise ValueError("every data set needs a value of every method")
    mean_ranks = values.rank(axis=1).mean().sort_values(kind="stable")
    values = values[mean_ranks.index]
    several = min(values.shape[1] - 1, len(values)) >= 2 and not (values.nunique(axis=1) == 1).all()
    friedman = float(stats.friedmanchisquare(*values.to_numpy().T).pvalue) if several else np.nan
    p = pairwise(values, difference)
    return Critical(mean_ranks, len(values), friedman, p, cliques(list(p.columns), p.to_numpy() < LEVEL))


def pairwise(values: pd.DataFrame, difference: Difference | None = None) -> pd.DataFrame:
    """Return Holm-corrected two-sided p-values of Wilcoxon's signed-rank test for every pair of columns."""
    names = list(values.columns)
    pairs = list(combinations(range(len(names)), 2))
    between = difference or (lambda one, other: (values[one] - values[other]).to_numpy())
    raw = np.array([_wilcoxon(between(names[i], names[j])) for i, j in pairs])
    out = np.full((len(names), len(names)), np.nan)
    for (i, j), p in zip(pairs, holm(raw), strict=True):
        out[i, j] = out[j, i] = p
    return pd.DataFrame(out, index=names, columns=names)


def ahead(rank: pd.DataFrame) -> Difference:
    """Return the difference of two methods that no third one changes: over the cells of each data set, the mean of
    +1 where the first is behind the second, -1 where it is ahead, 0 at a tie.

    rank: values or ranks, one row per cell (a level `dataset` in the index), one column per method.
    """

    def difference(one: str, other: str) -> Float[np.ndarray, " N"]:
        behind = pd.Series(np.sign(rank[one] - rank[other]), index=rank.index)
        return behind.groupby(level="dataset").mean().to_numpy()

    return difference


def _wilcoxon(difference: Float[np.ndarray, " N"]) -> float:
    """Two-sided p-value; zero differences are dropped (Wilcoxon's own way), and 1 if nothing is left."""
    difference = difference[difference != 0]
    return float(stats.wilcoxon(difference).pvalue) if len(difference) else 1.0


def holm(p: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    """Return p-values corrected for m tests: max over smaller ones of (m - rank + 1) p, at most 1 (Holm 1979)."""
    order = np.argsort(p, kind="stable")
    corrected = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    out = np.empty_like(corrected)
    out[order] = corrected
    return out


def cliques(names: list[str], differ: np.ndarray) -> list[list[str]]:
    """Return the largest runs of two or more neighbours (in the order of `names`) without a pair that differs."""
    found: list[tuple[int, int]] = []
    for start in range(len(names)):
        end = start
        while end + 1 < len(names) and not differ[start : end + 1, end + 1].any():
            end += 1
        if end > start and not any(first <= start and end <= last for first, last in found):
            found.append((start, end))
    return [names[start : end + 1] for start, end in found]

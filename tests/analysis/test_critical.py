"""Comparisons over data sets, against scipy and brute force."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.figures.critical_difference import cliques, critical, pairwise
from datasets.errors import BadInput


def values(n: int = 12, gaps: tuple[float, ...] = (0.0, 0.1, 3.0), seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({f"m{k}": gap + rng.normal(size=n) for k, gap in enumerate(gaps)})


def test_ranks_and_friedman_against_scipy() -> None:
    data = values()
    found = critical(data)
    ranks = np.mean([stats.rankdata(row) for row in data.to_numpy()], axis=0)
    np.testing.assert_allclose(found.ranks[data.columns], ranks)
    assert found.ranks.is_monotonic_increasing and found.datasets == 12
    n, k = data.shape
    chi2 = 12 * n / (k * (k + 1)) * (np.sum(ranks**2) - k * (k + 1) ** 2 / 4)  # Demsar 2006, section 3.2.2
    assert found.friedman_p == pytest.approx(stats.chi2.sf(chi2, k - 1))
    assert found.cliques == [[m for m in found.ranks.index if m != "m2"]]


def test_wilcoxon_by_enumeration_of_signs() -> None:
    data = values(6, (0.0, 0.8))
    difference = (data["m0"] - data["m1"]).to_numpy()
    rank = stats.rankdata(np.abs(difference))
    seen = min(rank[difference > 0].sum(), rank[difference < 0].sum())
    sums = [rank[np.array(signs, dtype=bool)].sum() for signs in itertools.product((0, 1), repeat=6)]
    p = np.mean([min(s, rank.sum() - s) <= seen for s in sums])
    assert pairwise(data).loc["m0", "m1"] == pytest.approx(p)


def test_pairs_are_corrected_by_holms_procedure() -> None:
    data = values(12, (0.0, 0.3, 0.8, 1.5))
    raw = [stats.wilcoxon(data[i], data[j]).pvalue for i, j in itertools.combinations(data, 2)]
    found = pairwise(data).to_numpy()[np.triu_indices(4, 1)]
    for level in (0.01, 0.05, 0.2):
        rejected = np.zeros(6, dtype=bool)  # step down until one is not rejected
        for k, i in enumerate(np.argsort(raw)):
            if raw[i] > level / (6 - k):
                break
            rejected[i] = True
        np.testing.assert_array_equal(found <= level, rejected)


def test_cliques_by_brute_force() -> None:
    rng = np.random.default_rng(2)
    names = list("abcdef")
    for _ in range(30):
        differ = np.triu(rng.uniform(size=(6, 6)) < 0.25, 1)
        differ |= differ.T
        runs = [(i, j) for i in range(6) for j in range(i + 1, 6) if not differ[i : j + 1, i : j + 1].any()]
        largest = [(i, j) for i, j in runs if not any((a, b) != (i, j) and a <= i and j <= b for a, b in runs)]
        assert cliques(names, differ) == [names[i : j + 1] for i, j in sorted(largest)]


def test_few_methods_ties_and_what_is_refused() -> None:
    two = critical(values(8, (0.0, 5.0)))
    assert np.isnan(two.friedman_p) and two.cliques == []
    same = critical(pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, 2.0], "c": [1.0, 2.0]}))
    assert same.ranks.tolist() == [2.0] * 3 and same.cliques == [["a", "b", "c"]] and np.isnan(same.friedman_p)
    one = critical(values(1))
    assert len(one.cliques) == 1 and (one.p.fillna(1.0) == 1.0).all(axis=None) and np.isnan(one.friedman_p)
    with pytest.raises(BadInput, match="needs two methods or more, got: m0"):
        critical(values(5, (0.0,)))
    with pytest.raises(ValueError, match="every data set"):
        critical(values().where(lambda frame: frame < 3))

import numpy as np
import pytest
from conftest import needs_data
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from pipelines import names, prepare
from pipelines.compare import patterns, rank_pattern, same_pairs

columns = arrays(np.float64, st.integers(2, 12), elements=st.sampled_from([-2.0, -1.0, 0.0, 0.5, 3.0, np.nan]))


@settings(max_examples=40, deadline=None)
@given(columns)
def test_strictly_monotone_maps_keep_the_pattern(x: np.ndarray) -> None:
    for change in (lambda v: 3 * v + 1, np.exp, lambda v: -v, lambda v: np.exp(-v), lambda v: v**3):
        assert rank_pattern(change(x)) == rank_pattern(x)


@settings(max_examples=40, deadline=None)
@given(columns, columns)
def test_the_pattern_is_shared_only_by_monotone_maps(x: np.ndarray, z: np.ndarray) -> None:
    """Brute force: a monotone map exists iff all pairs of rows are ordered alike, or all the other way."""

    def order(v: np.ndarray) -> np.ndarray:
        return np.sign(v[:, None] - v[None, :])

    if len(x) != len(z):
        return
    present = ~np.isnan(x)
    alike = np.array_equal(np.isnan(x), np.isnan(z))
    if alike:
        a, b = order(x[present]), order(z[present])
        alike = np.array_equal(a, b) or np.array_equal(a, -b)
    assert (rank_pattern(x) == rank_pattern(z)) == alike


def test_order_and_repetition_of_columns_do_not_count_but_a_new_column_does() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    again = np.hstack([np.exp(X[:, [2, 0]]), -X[:, [1]], X[:, [2]]])
    more = np.hstack([X, (X[:, [0]]) ** 2])
    assert patterns(X) == patterns(again)
    assert same_pairs({"X": X, "again": again, "more": more}) == [("X", "again")]
    assert patterns(sparse.csr_matrix(X)) == patterns(X)


@needs_data
@pytest.mark.parametrize("dataset", ["phoneme", "abalone", "kin8nm", "wine", "bach"])
def test_the_eight_matrices_differ_pairwise(dataset: str) -> None:
    """The full run over all data sets is ``python -m pipelines check``."""
    assert same_pairs({name: prepare(dataset, name).X_train for name in names()}) == []

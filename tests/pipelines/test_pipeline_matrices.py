from random import Random

import numpy as np
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from pipelines.steps import append, dense, density, indicators, omit_zeros, varying

cells = st.sampled_from([0.0, 1.0, 2.0, -3.0, np.nan])
with_gaps = arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=cells)
numbers = arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.sampled_from([0.0, 1.0, 2.0]))


@settings(max_examples=40, deadline=None)
@given(with_gaps)
def test_varying_counts_distinct_values_nan_among_them(X: np.ndarray) -> None:
    expected = [len(np.unique(column, equal_nan=True)) > 1 for column in X.T]
    assert varying(X).tolist() == expected


@settings(max_examples=40, deadline=None)
@given(numbers)
def test_varying_is_the_same_for_sparse_and_dense(X: np.ndarray) -> None:
    assert varying(sparse.csr_matrix(X)).tolist() == varying(X).tolist()


@settings(max_examples=40, deadline=None)
@given(with_gaps)
def test_indicators_hold_zero_and_one_other_value(X: np.ndarray) -> None:
    expected = [not np.isnan(column).any() and len(set(column) - {0.0}) <= 1 for column in X.T]
    assert indicators(X).tolist() == expected


@settings(max_examples=40, deadline=None)
@given(with_gaps, st.randoms(use_true_random=False))
def test_omit_zeros_leaves_out_exactly_the_zeros_of_the_columns(X: np.ndarray, random: Random) -> None:
    columns = np.array([random.random() < 0.5 for _ in range(X.shape[1])])
    out = omit_zeros(X, columns)
    np.testing.assert_array_equal(out.toarray(), X)
    stored = np.zeros(X.shape, dtype=bool)
    stored[np.repeat(np.arange(len(X)), np.diff(out.indptr)), out.indices] = True
    np.testing.assert_array_equal(stored, ~((X == 0) & columns))


@settings(max_examples=40, deadline=None)
@given(numbers)
def test_append_stores_the_zeros_of_dense_columns(X: np.ndarray) -> None:
    out = append(sparse.csr_matrix(X), X)
    assert isinstance(out, sparse.csr_matrix)
    np.testing.assert_array_equal(out.toarray(), np.hstack([X, X]))
    assert out.nnz == np.count_nonzero(X) + X.size
    np.testing.assert_array_equal(dense(append(X, sparse.csr_matrix(X))), np.hstack([X, X]))


def test_density_is_the_share_of_stored_entries() -> None:
    X = np.array([[0, 1, 0, 0], [0, 0, 0, 2.0]])
    assert density(sparse.csr_matrix(X)) == 0.25
    assert density(X) == 1.0
    np.testing.assert_array_equal(dense(sparse.csr_matrix(X)), X)


@settings(deadline=None, max_examples=5)
@given(st.integers(0, 1000))
def test_xgboost_learns_the_same_trees_from_either_layout(seed: int) -> None:
    rng = np.random.default_rng(seed)
    flags = (rng.random((300, 5)) < 0.15).astype(np.float32)
    values = rng.integers(-2, 3, (300, 2)).astype(np.float32)  # real zeros, which are not "missing"
    X = np.hstack([flags, values])
    y = flags[:, 0] + values[:, 0] * flags[:, 1] + 0.5 * (values[:, 1] == 0) + 0.01 * rng.normal(size=300)
    columns = indicators(X)
    assert columns.tolist() == [True] * 5 + [False] * 2
    settings_ = {"n_estimators": 20, "max_depth": 4, "tree_method": "exact", "n_jobs": 1}
    thin = omit_zeros(X, columns)
    plain = xgboost.XGBRegressor(**settings_).fit(X, y).predict(X)
    np.testing.assert_allclose(xgboost.XGBRegressor(**settings_).fit(thin, y).predict(thin), plain, atol=1e-4)
    assert np.corrcoef(plain, y)[0, 1] > 0.9


def test_a_dropped_real_zero_would_be_seen() -> None:
    """What storing the zeros of real columns prevents: to XGBoost an absent 0 is "missing", not 0."""
    X = np.array([[-1.0], [0.0], [1.0]] * 50, dtype=np.float32)
    y = np.array([0.0, 1.0, 0.0] * 50)
    kept = omit_zeros(X, np.array([False]))
    lost = omit_zeros(X, np.array([True]))
    booster = xgboost.train(
        {"max_depth": 2, "tree_method": "exact", "nthread": 1}, xgboost.DMatrix(X, y), num_boost_round=5
    )
    same = booster.predict(xgboost.DMatrix(kept))
    assert same == pytest.approx(booster.predict(xgboost.DMatrix(X)))
    assert booster.predict(xgboost.DMatrix(lost)) != pytest.approx(same)

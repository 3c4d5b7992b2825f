import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.feature_selection import f_classif

from pipelines.steps import Components, Products, dense


def tall(seed: int, n: int = 60, d: int = 8) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * np.geomspace(10, 0.1, d) + rng.normal(size=d)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10_000), st.booleans())
def test_scores_are_those_of_the_singular_value_decomposition(seed: int, centre: bool) -> None:
    X = tall(seed)
    new = tall(seed + 1)
    step = Components(3, centre=centre).fit(X)
    shift = X.mean(axis=0) if centre else 0.0
    _, _, V = np.linalg.svd(X - shift, full_matrices=False)
    loadings = V[:3] * np.sign(V[:3][np.arange(3), np.abs(V[:3]).argmax(axis=1)])[:, None]
    np.testing.assert_allclose(dense(step.transform(new)), (new - shift) @ loadings.T, atol=1e-6)


@pytest.mark.parametrize(
    ("width", "limit", "half", "expected"),
    [(20, 5, True, 5), (8, 5, True, 4), (5, 5, True, 2), (3, 5, True, 2), (2, 9, True, 2), (1, 5, True, 1),
     (8, 98, False, 8), (120, 98, False, 50)],
)  # fmt: skip
@pytest.mark.parametrize("centre", [True, False])
def test_count_of_components(width: int, limit: int, half: bool, expected: int, centre: bool) -> None:
    X = np.random.default_rng(0).normal(size=(51, width))
    count = Components(limit, half=half, centre=centre).fit(X).transform(X).shape[1]
    assert count == (51 if not centre and width > 51 else expected)  # centring costs one of 51 rows


def test_rounding_noise_is_no_component() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(size=(100, 4))
    X = np.hstack([base, base @ rng.normal(size=(4, 3)), np.zeros((100, 1))])
    assert Components(8).fit(X).kept_ == 4
    assert Components(8, centre=False).fit(X).kept_ == 4


def test_signs_do_not_depend_on_the_order_of_rows() -> None:
    X = tall(3)
    order = np.random.default_rng(1).permutation(len(X))
    for centre in (True, False):
        a = Components(4, centre=centre).fit(X).transform(X)
        b = Components(4, centre=centre).fit(X[order]).transform(X)
        np.testing.assert_allclose(dense(a), dense(b), atol=1e-8)


def test_appended_components_follow_the_columns_and_sparse_stays_sparse() -> None:
    X = np.where(np.random.default_rng(0).random((80, 30)) < 0.1, 1.0, 0.0)
    alone = dense(Components(5).fit(X).transform(X))
    np.testing.assert_array_equal(Components(5, append=True).fit(X).transform(X), np.hstack([X, alone]))
    thin = Components(5, append=True).fit(sparse.csr_matrix(X)).transform(sparse.csr_matrix(X))
    assert sparse.issparse(thin)
    assert thin.nnz == np.count_nonzero(X) + 5 * len(X)
    np.testing.assert_allclose(thin.toarray(), np.hstack([X, alone]), atol=1e-12)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
def test_products_are_of_the_columns_with_the_best_scores(layout: type) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6))
    y = X[:, 4] + 0.5 * X[:, 1] + 0.3 * X[:, 2] + 0.1 * rng.normal(size=200)
    best = sorted(np.argsort([abs(np.corrcoef(column, y)[0, 1]) for column in X.T])[-3:])
    out = Products(3).fit(layout(X), y).transform(layout(X))
    out = out.toarray() if sparse.issparse(out) else out
    i, j, k = best
    expected = [X[:, a] * X[:, b] for a, b in [(i, i), (i, j), (i, k), (j, j), (j, k), (k, k)]]
    np.testing.assert_allclose(out, np.column_stack([X, *expected]))


def test_integer_targets_are_scored_as_classes() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    X = rng.normal(size=(300, 5))
    X[:, 2] += np.where(y == 1, 3.0, 0.0)  # not linear in the code: only a class score sees it
    step = Products(1).fit(X, y)
    assert step.best_.tolist() == [int(f_classif(X, y)[0].argmax())] == [2]


def test_twenty_columns_give_210_products_fewer_columns_fewer_and_constant_ones_go() -> None:
    rng = np.random.default_rng(0)
    y = rng.normal(size=100)
    wide = rng.normal(size=(100, 30))
    assert Products(20).fit(wide, y).transform(wide).shape[1] == 30 + 210
    narrow = wide[:, :4]
    assert Products(20).fit(narrow, y).transform(narrow).shape[1] == 4 + 10
    apart = np.eye(3)[rng.integers(0, 3, 100)]  # products of two of these are 0 throughout
    assert Products(20).fit(apart, y).transform(apart).shape[1] == 3 + 3

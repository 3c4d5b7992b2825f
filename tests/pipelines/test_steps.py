from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pipeline_frames import mixed_frame
from scipy import sparse, stats
from sklearn.feature_selection import f_classif
from sklearn.preprocessing import FunctionTransformer, QuantileTransformer

from datasets.errors import BadInput
from pipelines.steps import (
    Components,
    Encode,
    Products,
    Terms,
    append,
    bins,
    dense,
    impute,
    indicators,
    omit_zeros,
    signed_log,
    varying,
)  # fmt: skip

# Dense and CSR matrices.

cells = st.sampled_from([0.0, 1.0, 2.0, -3.0, np.nan])
with_gaps = arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=cells)


@settings(max_examples=40, deadline=None)
@given(with_gaps, st.randoms(use_true_random=False))
def test_matrices_dense_and_sparse(X: np.ndarray, random: Random) -> None:
    assert varying(X).tolist() == [len(np.unique(column, equal_nan=True)) > 1 for column in X.T]
    expected = [not np.isnan(column).any() and len(set(column) - {0.0}) <= 1 for column in X.T]
    assert indicators(X).tolist() == expected
    columns = np.array([random.random() < 0.5 for _ in range(X.shape[1])])
    out = omit_zeros(X, columns)
    np.testing.assert_array_equal(out.toarray(), X)
    stored = np.zeros(X.shape, dtype=bool)
    stored[np.repeat(np.arange(len(X)), np.diff(out.indptr)), out.indices] = True
    np.testing.assert_array_equal(stored, ~((X == 0) & columns))
    whole = np.nan_to_num(X)
    assert varying(sparse.csr_matrix(whole)).tolist() == varying(whole).tolist()
    both = append(sparse.csr_matrix(whole), whole)
    np.testing.assert_array_equal(both.toarray(), np.hstack([whole, whole]))
    assert both.nnz == np.count_nonzero(whole) + whole.size  # the zeros of dense columns are stored
    np.testing.assert_array_equal(append(whole, sparse.csr_matrix(whole)), np.hstack([whole, whole]))


def test_xgboost_learns_the_same_trees_from_either_layout_but_not_without_the_zeros_of_numbers() -> None:
    rng = np.random.default_rng(0)
    flags = (rng.random((300, 5)) < 0.15).astype(np.float32)
    values = rng.integers(-2, 3, (300, 2)).astype(np.float32)  # real zeros, which are not "missing"
    X = np.hstack([flags, values])
    y = flags[:, 0] + values[:, 0] * flags[:, 1] + 0.5 * (values[:, 1] == 0) + 0.01 * rng.normal(size=300)
    columns = indicators(X)
    assert columns.tolist() == [True] * 5 + [False] * 2
    model = xgboost.XGBRegressor(n_estimators=20, max_depth=4, tree_method="exact", n_jobs=1)
    plain = model.fit(X, y).predict(X)
    thin, lost = omit_zeros(X, columns), omit_zeros(X, np.ones(7, dtype=bool))
    np.testing.assert_allclose(model.fit(thin, y).predict(thin), plain, atol=1e-4)
    assert np.abs(model.predict(lost) - plain).max() > 0.1


# Components and products.


def tall(seed: int, n: int = 60, d: int = 8) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * np.geomspace(10, 0.1, d) + rng.normal(size=d)


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 10_000), st.booleans())
def test_scores_are_those_of_the_singular_value_decomposition(seed: int, centre: bool) -> None:
    X, new = tall(seed), tall(seed + 1)
    step = Components(3, centre=centre).fit(X)
    shift = X.mean(axis=0) if centre else 0.0
    _, _, V = np.linalg.svd(X - shift, full_matrices=False)
    loadings = V[:3] * np.sign(V[:3][np.arange(3), np.abs(V[:3]).argmax(axis=1)])[:, None]
    np.testing.assert_allclose(dense(step.transform(new)), (new - shift) @ loadings.T, atol=1e-6)


@pytest.mark.parametrize(
    ("width", "limit", "half", "expected"),
    [(20, 5, True, 5), (8, 5, True, 4), (3, 5, True, 2), (2, 9, True, 2), (1, 5, True, 1), (120, 98, False, 50)],
)
def test_count_of_components(width: int, limit: int, half: bool, expected: int) -> None:
    X = np.random.default_rng(0).normal(size=(51, width))
    for centre in (True, False):
        count = Components(limit, half=half, centre=centre).fit(X).transform(X).shape[1]
        assert count == (51 if not centre and width > 51 else expected)  # centring costs one of 51 rows


def test_rounding_noise_is_no_component() -> None:
    base = np.random.default_rng(0).normal(size=(100, 4))
    X = np.hstack([base, base @ base[:4, :3], np.zeros((100, 1))])
    assert Components(8).fit(X).kept_ == Components(8, centre=False).fit(X).kept_ == 4


def test_appended_components_follow_the_columns_and_sparse_stays_sparse() -> None:
    X = np.where(np.random.default_rng(0).random((80, 30)) < 0.1, 1.0, 0.0)
    alone = dense(Components(5).fit(X).transform(X))
    np.testing.assert_array_equal(Components(5, append=True).fit(X).transform(X), np.hstack([X, alone]))
    thin = Components(5, append=True).fit(sparse.csr_matrix(X)).transform(sparse.csr_matrix(X))
    assert sparse.issparse(thin) and thin.nnz == np.count_nonzero(X) + 5 * len(X)
    np.testing.assert_allclose(thin.toarray(), np.hstack([X, alone]), atol=1e-12)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
def test_products_are_of_the_columns_with_the_best_scores(layout: type) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6))
    y = X[:, 4] + 0.5 * X[:, 1] + 0.3 * X[:, 2] + 0.1 * rng.normal(size=200)
    i, j, k = sorted(np.argsort([abs(np.corrcoef(column, y)[0, 1]) for column in X.T])[-3:])
    out = dense(Products(3).fit(layout(X), y).transform(layout(X)))
    expected = [X[:, a] * X[:, b] for a, b in [(i, i), (i, j), (i, k), (j, j), (j, k), (k, k)]]
    np.testing.assert_allclose(out, np.column_stack([X, *expected]))
    codes = rng.integers(0, 3, 200)
    X[:, 2] += np.where(codes == 1, 3.0, 0.0)  # not linear in the code: only a class score sees it
    assert Products(1).fit(X, codes).best_.tolist() == [int(f_classif(X, codes)[0].argmax())] == [2]
    apart = np.eye(3)[rng.integers(0, 3, 200)]  # products of two of these are 0 throughout
    assert Products(20).fit(apart, y).transform(apart).shape[1] == 3 + 3


# Text.

TEXTS = ["free prize now now", "now or never", "prize free", "call me now", ""]


def text(*columns: Sequence[str | None]) -> pd.DataFrame:
    return pd.DataFrame({f"t{i}": pd.Series(list(c), dtype=object) for i, c in enumerate(columns)})


@pytest.mark.parametrize("presence", [False, True])
def test_weights_follow_the_formula(presence: bool) -> None:
    found = Terms(presence=presence, min_rows=2).fit(text(TEXTS)).transform(text(TEXTS)).toarray()
    words = [line.split() for line in TEXTS]
    tf = np.array([[float(row.count(term)) for term in ("free", "now", "prize")] for row in words])
    weights = (tf > 0 if presence else tf) * (1 + np.log((1 + len(TEXTS)) / (1 + (tf > 0).sum(axis=0))))
    length = np.linalg.norm(weights, axis=1, keepdims=True)
    np.testing.assert_allclose(found, weights if presence else weights / np.where(length > 0, length, 1))


def test_the_vocabulary_keeps_the_commonest_terms_equals_alphabetically(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.steps.MAX_TERMS", 2)
    terms = Terms(min_rows=1).fit(text(TEXTS))
    assert list(terms.tfidf_.get_feature_names_out()) == ["free", "now"]  # now: 3 rows; free and prize: 2
    new = terms.transform(text(["zebra now", "now", None])).toarray()
    assert new.tolist() == [[0, 1], [0, 1], [0, 0]]  # unseen words are ignored


def test_characters_are_n_grams_within_words_and_text_columns_count_together() -> None:
    monograms = Terms(characters=True, min_rows=2).fit(text(["now", "no"])).tfidf_.get_feature_names_out()
    assert set(monograms) == {" ", "n", "o", " n", "no", " no"}
    apart, joined = text(["free", None, "free"], ["prize", "prize", None]), text(["free prize", "prize", "free"])
    first, second = (Terms(min_rows=2).fit(f).transform(f).toarray() for f in (apart, joined))
    np.testing.assert_array_equal(first, second)
    with pytest.raises(BadInput, match="no term occurs in 10 of the 5 training rows"):
        Terms().fit(text(TEXTS))
    with pytest.raises(BadInput, match="empty vocabulary"):
        Terms().fit(text(["a b c"] * 3))


# The encoder.


def encode(frame: pd.DataFrame, new: pd.DataFrame | None = None, **options: Any) -> np.ndarray:
    options = {"numeric": "passthrough", "text": Terms()} | options
    return dense(Encode(**options).fit(frame).transform(frame if new is None else new))


def levels(*counts: int) -> list[str]:
    return [name for name, count in zip("abcdefgh", counts, strict=False) for _ in range(count)]


def test_one_indicator_per_level_rare_and_unseen_ones_together_last() -> None:
    frame = pd.DataFrame({"level": levels(30, 20, 6, 6)})
    column = frame["level"].to_numpy()
    expected = [column == "a", column == "b", (column == "c") | (column == "d")]
    np.testing.assert_array_equal(encode(frame), np.column_stack(expected))
    new = pd.DataFrame({"level": ["zebra", None]})
    np.testing.assert_array_equal(encode(frame, new), [[0, 0, 1], [0, 0, 1]])
    common = encode(pd.DataFrame({"level": levels(30, 20, 15)}), new)
    np.testing.assert_array_equal(common, np.zeros((2, 3)))
    flag = pd.DataFrame({"flag": [True] * 30 + [False] * 20})  # two levels need one indicator
    np.testing.assert_array_equal(encode(flag), flag.to_numpy().astype(float))


def test_missing_categories_have_an_indicator_of_their_own() -> None:
    frame = pd.DataFrame({"level": [*levels(20, 20), *[None] * 20]})
    assert encode(frame).sum(axis=0).tolist() == [20, 20, 20]
    codes = pd.DataFrame({"few": [1.0] * 40 + [2.0] * 40 + [np.nan] * 40})
    assert encode(codes, detect=True).sum(axis=0).tolist() == [40, 40, 40]
    codes = pd.DataFrame({"few": [1.0, 2.0, 3.0] * 40})
    out = encode(codes, pd.DataFrame({"few": [7.0, np.nan, np.inf, 2.0]}), detect=True)
    np.testing.assert_array_equal(out, [[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 1, 0]])


def test_columns_constant_once_encoded_go_with_a_note() -> None:
    frame = pd.DataFrame({"gap": [5.0] * 30 + [np.nan] * 30, "x": np.arange(60.0)})
    step = Encode(impute(), Terms()).fit(frame)
    assert step.transform(frame).shape == (60, 1)
    assert step.dropped_ == ("1 encoded columns: constant on the training rows",)
    with pytest.raises(BadInput, match="every encoded column is constant on the 60 training rows"):
        Encode(impute(), Terms()).fit(frame[["gap"]])


def test_values_are_dense_indicators_and_text_sparse_where_thin() -> None:
    many = pd.DataFrame({"level": levels(*[30] * 8)})
    half = pd.DataFrame({"flag": [True, False] * 30})
    for frame, thin in [(many, True), (half, False), (mixed_frame(), False), (many.assign(x=range(240)), False)]:
        assert sparse.issparse(Encode("passthrough", Terms()).fit(frame).transform(frame)) == thin


@pytest.mark.parametrize("unit", [1.0, 5e-8, 1e-310])
def test_bins_hold_a_tenth_of_the_rows_each_in_any_unit(unit: float) -> None:
    x = np.random.default_rng(0).lognormal(size=1000)
    frame, beyond = pd.DataFrame({"x": unit * x}), pd.DataFrame({"x": [-1e9, 1e9, 1e30]})
    out = encode(frame, numeric=bins(), detect=True)
    assert out.sum(axis=0).tolist() == [100] * 10 and (out.sum(axis=1) == 1).all()
    assert (np.diff(out.argmax(axis=1)[np.argsort(x)]) >= 0).all()
    assert encode(frame, beyond, numeric=bins(), detect=True).argmax(axis=1).tolist() == [0, 9, 9]
    frame.loc[:300, "x"] = np.nan
    out = encode(frame, numeric=bins(), detect=True)
    np.testing.assert_array_equal(out[:, -1], np.isnan(frame["x"]))


@pytest.mark.parametrize("detect", [True, False])
def test_only_heavy_tails_go_through_their_step(detect: bool) -> None:
    rng = np.random.default_rng(0)
    n = 1000
    heavy = np.where(np.arange(n) < 30, 100.0, 0.0) + rng.random(n)
    few = np.where(np.arange(n) < 30, 3.0 + np.arange(n) % 2, 0.0)
    frame = pd.DataFrame({"normal": rng.normal(size=n), "heavy": heavy, "few": few, "even": rng.random(n)})
    out = encode(
        frame, extreme=FunctionTransformer(signed_log), detect=detect
    )  # numeric columns first, then the extreme ones
    np.testing.assert_array_equal(out[:, :2], frame[["normal", "even"]])
    np.testing.assert_allclose(out[:, 2:], np.log1p(frame[["heavy", "few"]]))
    uniform = QuantileTransformer(output_distribution="uniform", n_quantiles=n, subsample=None)
    mapped = encode(frame, extreme=uniform, detect=detect)[:, 2]
    np.testing.assert_allclose(mapped, (stats.rankdata(heavy) - 1) / (n - 1), atol=1e-6)
    np.testing.assert_array_equal(encode(frame[["heavy"]]), frame[["heavy"]])  # without a step they are as any other

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline_frames import mixed_frame
from scipy import sparse, stats
from sklearn.preprocessing import QuantileTransformer

from datasets.errors import BadInput
from pipelines.steps import Encode, Terms, bins, impute, scale, signed_log


def encode(frame: pd.DataFrame, new: pd.DataFrame | None = None, **options: Any) -> np.ndarray:
    options = {"numeric": "passthrough", "text": Terms()} | options
    out = Encode(**options).fit(frame).transform(frame if new is None else new)
    return out.toarray() if sparse.issparse(out) else out


def levels(*counts: int) -> list[str]:
    return [name for name, count in zip("abcdefgh", counts, strict=False) for _ in range(count)]


def test_numbers_pass_as_they_are_with_nan_for_infinity() -> None:
    frame = pd.DataFrame({"x": [1.0, np.inf, np.nan, -np.inf] * 10, "z": np.arange(40.0)})
    out = encode(frame)
    np.testing.assert_array_equal(out[:, 0], [1.0, np.nan, np.nan, np.nan] * 10)
    np.testing.assert_array_equal(out[:, 1], np.arange(40.0))


def test_one_indicator_per_level_rare_ones_together_last() -> None:
    frame = pd.DataFrame({"level": levels(30, 20, 6, 6)})
    out = encode(frame)
    column = frame["level"].to_numpy()
    expected = [column == "a", column == "b", (column == "c") | (column == "d")]
    np.testing.assert_array_equal(out, np.column_stack(expected))


def test_two_levels_need_one_indicator() -> None:
    frame = pd.DataFrame({"flag": [True] * 30 + [False] * 20})
    np.testing.assert_array_equal(encode(frame), frame[["flag"]].to_numpy().astype(float))


def test_an_unseen_level_counts_as_rare_or_as_none() -> None:
    new = pd.DataFrame({"level": ["zebra", None]})
    rare = encode(pd.DataFrame({"level": levels(30, 20, 6, 6)}), new)
    np.testing.assert_array_equal(rare, [[0, 0, 1], [0, 0, 1]])
    common = encode(pd.DataFrame({"level": levels(30, 20, 15)}), new)
    np.testing.assert_array_equal(common, np.zeros((2, 3)))


def test_missing_categories_have_an_indicator_of_their_own() -> None:
    frame = pd.DataFrame({"level": [*levels(20, 20), *[None] * 20]})
    assert encode(frame).sum(axis=0).tolist() == [20, 20, 20]
    codes = pd.DataFrame({"few": [1.0] * 40 + [2.0] * 40 + [np.nan] * 40})
    assert encode(codes, detect=True).sum(axis=0).tolist() == [40, 40, 40]


def test_unseen_and_missing_detected_levels_do_not_fail() -> None:
    frame = pd.DataFrame({"few": [1.0, 2.0, 3.0] * 40})
    out = encode(frame, pd.DataFrame({"few": [7.0, np.nan, np.inf, 2.0]}), detect=True)
    np.testing.assert_array_equal(out, [[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 1, 0]])


def test_columns_constant_once_encoded_go_with_a_note() -> None:
    frame = pd.DataFrame({"gap": [5.0] * 30 + [np.nan] * 30, "x": np.arange(60.0)})
    step = Encode(impute(), Terms()).fit(frame)
    assert step.transform(frame).shape == (60, 1)
    assert step.dropped_ == ("1 encoded columns: constant on the training rows",)
    with pytest.raises(BadInput, match="every encoded column is constant on the 60 training rows"):
        Encode(impute(), Terms()).fit(frame[["gap"]])


def test_values_are_dense_indicators_and_text_sparse_where_thin() -> None:
    text = pd.DataFrame({"text": mixed_frame()["text"], "level": mixed_frame()["level"]})
    many = pd.DataFrame({"level": levels(*[30] * 8)})
    half = pd.DataFrame({"flag": [True, False] * 30})
    for frame, thin in [(text, False), (many, True), (half, False), (mixed_frame(), False)]:
        assert sparse.issparse(Encode("passthrough", Terms()).fit(frame).transform(frame)) == thin
    zeros = pd.DataFrame({"level": levels(*[30] * 8), "x": [0.0, 1.0, 2.0] * 80})
    assert not sparse.issparse(Encode("passthrough", Terms()).fit(zeros).transform(zeros))


def test_bins_hold_a_tenth_of_the_rows_each_and_missing_has_an_indicator() -> None:
    rng = np.random.default_rng(0)
    x = rng.lognormal(size=1000)
    out = encode(pd.DataFrame({"x": x}), numeric=bins(), detect=True)
    assert out.sum(axis=0).tolist() == [100] * 10
    assert (out.sum(axis=1) == 1).all()
    order = np.argsort(x)
    assert (np.diff(out.argmax(axis=1)[order]) >= 0).all()
    x[:300] = np.nan
    out = encode(pd.DataFrame({"x": x}), numeric=bins(), detect=True)
    np.testing.assert_array_equal(out[:, -1], np.isnan(x))


@pytest.mark.parametrize("unit", [1.0, 5e-8, 1e-12, 1e-300, 1e-310])
def test_bins_are_the_same_in_any_unit(unit: float) -> None:
    x = np.random.default_rng(0).lognormal(size=1000)
    beyond = pd.DataFrame({"x": [-1e9, 1e9, 1e30]})
    frame = pd.DataFrame({"x": unit * x})
    out = encode(frame, numeric=bins(), detect=True)
    assert out.sum(axis=0).tolist() == [100] * 10
    assert (np.diff(out.argmax(axis=1)[np.argsort(x)]) >= 0).all()
    assert encode(frame, beyond, numeric=bins(), detect=True).argmax(axis=1).tolist() == [0, 9, 9]


def test_bins_take_unseen_gaps_and_values_beyond_the_training_range() -> None:
    frame = pd.DataFrame({"x": np.arange(1000.0)})
    out = encode(frame, pd.DataFrame({"x": [-1e9, 1e9, np.nan]}), numeric=bins(), detect=True)
    assert out.argmax(axis=1).tolist()[:2] == [0, 9]
    assert (out.sum(axis=1) == 1).all()


def test_scale_divides_by_the_standard_deviation_and_keeps_zeros_and_gaps() -> None:
    X = np.array([[0.0, 1.0], [2.0, np.nan], [5.0, 4.0]])
    np.testing.assert_allclose(scale().fit(X).transform(X), X / np.nanstd(X, axis=0))
    thin = scale().fit_transform(sparse.csr_matrix([[0.0, 1.0], [0.0, 0.0], [2.0, 4.0]]))
    assert thin.nnz == 3


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_signed_log_is_odd_and_increasing(values: list[float]) -> None:
    x = np.sort(np.array(values))[:, None]
    out = signed_log().fit_transform(x)
    np.testing.assert_array_equal(out, -signed_log().fit_transform(-x))
    np.testing.assert_allclose(np.sign(x) * np.expm1(np.abs(out)), x, rtol=1e-9, atol=1e-12)
    assert (np.diff(out[:, 0]) >= 0).all()


@pytest.mark.parametrize("detect", [True, False])
def test_only_heavy_tails_go_through_their_step(detect: bool) -> None:
    rng = np.random.default_rng(0)
    n = 1000
    heavy = np.where(np.arange(n) < 30, 100.0, 0.0) + rng.random(n)
    few = np.where(np.arange(n) < 30, 3.0 + np.arange(n) % 2, 0.0)
    frame = pd.DataFrame({"normal": rng.normal(size=n), "heavy": heavy, "few": few, "even": rng.random(n)})
    out = encode(frame, extreme=signed_log(), detect=detect)  # numeric columns first, then the extreme ones
    np.testing.assert_array_equal(out[:, :2], frame[["normal", "even"]])
    np.testing.assert_allclose(out[:, 2:], np.log1p(frame[["heavy", "few"]]))
    uniform = QuantileTransformer(output_distribution="uniform", n_quantiles=n, subsample=None)
    mapped = encode(frame, extreme=uniform, detect=detect)[:, 2]
    np.testing.assert_allclose(mapped, (stats.rankdata(heavy) - 1) / (n - 1), atol=1e-6)


def test_without_a_step_for_them_heavy_tails_are_as_any_other() -> None:
    frame = pd.DataFrame({"heavy": np.where(np.arange(1000) < 30, 100.0, 0.0) + np.arange(1000) / 1000})
    np.testing.assert_array_equal(encode(frame), frame)

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline_frames import mixed_frame

from datasets.errors import BadInput
from pipelines.columns import cast_columns, column_kinds, heavy_tailed, levels, numbers, rare_rows


def kinds(frame: pd.DataFrame, detect: bool = False, extreme: bool = False) -> dict[str, set]:
    """Return the names of the columns of each kind that has any."""
    found = column_kinds(frame, detect, extreme)
    return {kind: {found.columns[k] for k in where} for kind, where in found.positions.items() if where}


def test_every_column_of_the_mixed_frame_has_its_kind() -> None:
    assert kinds(mixed_frame(), detect=True) == {
        "numeric": {"normal", "scaled", "heavy", "gaps", "infinite"}, "detected": {"few"},
        "categorical": {"level", "flag", "code", "gappy_level"}, "text": {"text"},
    }  # fmt: skip
    assert set(column_kinds(mixed_frame(), detect=True).dropped) == {"constant: constant", "empty: all missing"}
    assert "few" in kinds(mixed_frame())["numeric"]


def test_extreme_columns_are_found_before_categoricals_are_detected() -> None:
    """A column of few values that is nearly always zero is heavy-tailed; a column of two values has no tail."""
    n = 1000
    counts = np.where(np.arange(n) < 30, 3.0 + np.arange(n) % 2, 0.0)
    frame = pd.DataFrame({
        "counts": counts, "negative": -counts, "flag": np.where(counts > 0, 1.0, 0.0),
        "some": np.where(np.arange(n) < 200, 3.0 + np.arange(n) % 2, 0.0),
        "gaps": np.where(np.arange(n) % 5 == 4, np.nan, counts), "normal": np.random.default_rng(0).normal(size=n),
    })  # fmt: skip
    found = kinds(frame, detect=True, extreme=True)
    assert found == {"extreme": {"counts", "negative", "gaps"}, "detected": {"flag", "some"}, "numeric": {"normal"}}
    assert kinds(frame, detect=True)["detected"] == {"counts", "negative", "gaps", "flag", "some"}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.0, 0.0, 1.0, 5.0, np.nan]), min_size=30, max_size=90), st.floats(1, 1e3))
def test_a_heavy_tail_is_a_percentile_more_than_four_sds_off(values: list[float], high: float) -> None:
    x = np.array([*values, high, 0.0, 0.5])
    filled = np.where(np.isnan(x), np.nanmedian(x), x)
    low, up = np.percentile(filled, [2, 98])
    expected = max(abs(low - filled.mean()), abs(up - filled.mean())) > 4 * filled.std()
    assert heavy_tailed(x) == expected
    assert not heavy_tailed(np.where(np.isnan(x), np.nan, x > 0))


@pytest.mark.parametrize(
    ("n", "distinct", "expected"),
    [(1000, 100, "detected"), (1000, 101, "numeric"), (300, 59, "detected"), (300, 60, "numeric")],
)
def test_detection_wants_few_values_and_a_small_share(n: int, distinct: int, expected: str) -> None:
    values = np.where(np.arange(n) < n // 2, 0, np.arange(n) % distinct)  # one frequent level: indicators remain
    assert len(np.unique(values)) == distinct
    assert kinds(pd.DataFrame({"x": values.astype(float)}), detect=True) == {expected: {"x"}}


def test_rare_levels_and_near_constant_categories() -> None:
    """Rare is fewer than ten rows or nine per mille; missing values are a level of their own."""
    assert [rare_rows(n) for n in (1, 1111, 1112, 20_000)] == [10, 10, 11, 180]
    frame = pd.DataFrame({
        "id": [f"u{i}" for i in range(100)], "mostly": ["a"] * 95 + ["b"] * 3 + ["c"] * 2, "x": np.arange(100.0),
        "known_or_not": ["a"] * 50 + [None] * 50, "gaps": [1.0] * 60 + [np.nan] * 40,
    })  # fmt: skip
    assert kinds(frame) == {"numeric": {"x", "gaps"}, "categorical": {"known_or_not"}}
    assert column_kinds(frame, detect=False).dropped == (
        "id: every level has fewer than 10 rows", "mostly: only 5 rows off its commonest level, 10 needed"
    )  # fmt: skip


def test_strings_are_text_only_if_distinct_and_of_several_words_and_mixtures_are_levels() -> None:
    n = 60
    frame = pd.DataFrame({
        "text": [f"message number {i} is here" for i in range(n)],
        "phrases": ["a phrase of words", "some other long phrase"] * (n // 2),
        "two_words": [f"item {i}" for i in range(n - 20)] + ["item x"] * 20,
        "numbers": pd.Series([1.5, None, 3] * (n // 3), dtype=object),
        "mixed": pd.Series([1, "one"] * (n // 2), dtype=object),
    })  # fmt: skip
    assert kinds(frame) == {"text": {"text"}, "categorical": {"phrases", "two_words", "mixed"}, "numeric": {"numbers"}}


@pytest.mark.parametrize(("frame", "message"), [
    (pd.DataFrame({"d": pd.date_range("2020", periods=30)}), "column 'd' has dtype datetime64"),
    (pd.DataFrame({"o": [(1, 2)] * 30}), "column 'o' holds tuple; allowed are numbers"),
    (pd.DataFrame({"c": [1.0] * 30}), "no usable column in 30 training rows: c: constant"),
    (pd.DataFrame(np.eye(30), columns=["a"] * 30), "repeated column names"),
    (pd.DataFrame({"x": [1.0]}), "two training rows"),
    (np.eye(30), "takes a pandas DataFrame, got ndarray"),
])  # fmt: skip
def test_what_no_pipeline_takes_is_refused_with_one_line(frame: object, message: str) -> None:
    with pytest.raises(BadInput, match=message) as caught:
        column_kinds(frame, detect=True)
    assert "\n" not in str(caught.value)


def test_the_cast_gives_finite_floats_and_strings_and_wants_the_training_columns_in_order() -> None:
    frame = mixed_frame()
    found = column_kinds(frame, detect=True)
    out = cast_columns(frame, found)
    floats = out[found.names("numeric", "detected")].to_numpy()
    assert floats.dtype == np.float64 and not np.isinf(floats).any()
    position = found.columns.index("infinite")
    assert (out[f"numeric{position}"].isna() == np.isinf(frame["infinite"])).all()
    words = out[found.names("categorical", "text")].to_numpy()
    assert {type(v) for v in words.ravel()} == {str, type(None)}
    with pytest.raises(BadInput, match=r"missing \['few'\], not expected \['more'\]"):
        cast_columns(frame.rename(columns={"few": "more"}), found)
    with pytest.raises(BadInput, match="another order"):
        cast_columns(frame[frame.columns[::-1]], found)


def test_numbers_and_levels_by_hand() -> None:
    column = pd.Series([1, "2.5", "x", None, np.inf, -np.inf, 1e39, True], dtype=object)
    np.testing.assert_array_equal(numbers(column), [1, 2.5, *[np.nan] * 5, 1])
    np.testing.assert_array_equal(numbers(pd.Series([1, None], dtype="Int64")), [1, np.nan])
    np.testing.assert_array_equal(numbers(pd.Series(pd.Categorical([3, 4]))), [3, 4])
    assert levels(pd.Series([1.0, 2.5, np.nan])).tolist() == ["1", "2.5", None]
    assert levels(pd.Series([True, False])).tolist() == ["True", "False"]
    assert levels(pd.Series(["a", None, pd.NA], dtype=object)).tolist() == ["a", None, None]
    assert levels(pd.Series(pd.Categorical(["b", None], categories=["a", "b"]))).tolist() == ["b", None]

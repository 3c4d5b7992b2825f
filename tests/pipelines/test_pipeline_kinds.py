import numpy as np
import pandas as pd
import pytest
from conftest import loaded, needs_data
from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline_frames import mixed_frame

from datasets import names, split
from datasets.errors import BadInput
from pipelines.columns import Kinds, cast_columns, cast_names, column_kinds, heavy_tailed, levels, numbers, rare_rows


def named(kinds: Kinds, kind: str) -> set[str]:
    return {kinds.columns[position] for position in getattr(kinds, kind)}


def test_every_column_of_the_mixed_frame_has_its_kind() -> None:
    kinds = column_kinds(mixed_frame(), detect=True)
    assert named(kinds, "numeric") == {"normal", "scaled", "heavy", "gaps", "infinite"}
    assert named(kinds, "detected") == {"few"}
    assert named(kinds, "categorical") == {"level", "flag", "code", "gappy_level"}
    assert named(kinds, "text") == {"text"}
    assert set(kinds.dropped) == {"constant: constant", "empty: all missing"}


def test_extreme_columns_are_found_before_categoricals_are_detected() -> None:
    """A column of few values that is nearly always zero is heavy-tailed; a column of two values has no tail."""
    n = 1000
    counts = np.where(np.arange(n) < 30, 3.0 + np.arange(n) % 2, 0.0)
    frame = pd.DataFrame(
        {
            "counts": counts,
            "negative": -counts,
            "flag": np.where(counts > 0, 1.0, 0.0),
            "some": np.where(np.arange(n) < 200, 3.0 + np.arange(n) % 2, 0.0),
            "gaps": np.where(np.arange(n) % 5 == 4, np.nan, counts),
            "normal": np.random.default_rng(0).normal(size=n),
        }
    )
    kinds = column_kinds(frame, detect=True, extreme=True)
    assert named(kinds, "extreme") == {"counts", "negative", "gaps"}
    assert named(kinds, "detected") == {"flag", "some"} and named(kinds, "numeric") == {"normal"}
    without = column_kinds(frame, detect=True)
    assert named(without, "detected") == {"counts", "negative", "gaps", "flag", "some"} and not without.extreme


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.0, 0.0, 1.0, 5.0, np.nan]), min_size=30, max_size=90), st.floats(1, 1e3))
def test_a_heavy_tail_is_a_percentile_more_than_four_sds_off(values: list[float], high: float) -> None:
    x = np.array([*values, high, 0.0, 0.5])
    filled = np.where(np.isnan(x), np.nanmedian(x), x)
    low, up = np.percentile(filled, [2, 98])
    expected = max(abs(low - filled.mean()), abs(up - filled.mean())) > 4 * filled.std()
    assert heavy_tailed(x) == expected
    assert not heavy_tailed(np.where(np.isnan(x), np.nan, x > 0))


@needs_data
def test_only_two_data_sets_have_extreme_columns() -> None:
    found = {}
    for dataset in names():
        data = loaded(dataset)
        kinds = column_kinds(data.X.iloc[split(data, 0).train], detect=True, extreme=True)
        found[dataset] = named(kinds, "extreme")
    assert {dataset: columns for dataset, columns in found.items() if columns} == {
        "coil2000": {"PMOTSCO", "PTRACTOR", "PLEVEN", "AMOTSCO", "ALEVEN", "AFIETS"},
        "mtp": {"petitjean", "FCharge"},
    }


def test_without_detection_few_values_stay_numeric() -> None:
    assert "few" in named(column_kinds(mixed_frame(), detect=False), "numeric")


@pytest.mark.parametrize(
    ("n", "distinct", "expected"),
    [(1000, 100, "detected"), (1000, 101, "numeric"), (300, 59, "detected"), (300, 60, "numeric")],
)
def test_detection_wants_few_values_and_a_small_share(n: int, distinct: int, expected: str) -> None:
    values = np.arange(n) % distinct
    values = np.where(np.arange(n) < n // 2, 0, values)  # one frequent level, so that indicators remain
    assert len(np.unique(values)) == distinct
    assert named(column_kinds(pd.DataFrame({"x": values.astype(float)}), detect=True), expected) == {"x"}


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 20_000))
def test_rare_is_ten_rows_or_nine_per_mille(n: int) -> None:
    assert rare_rows(n) >= 10
    assert rare_rows(n) >= 0.009 * n
    assert rare_rows(n) == 10 or 0.009 * n > rare_rows(n) - 1


def test_ids_and_near_constant_categories_are_dropped_with_the_reason() -> None:
    frame = pd.DataFrame(
        {
            "id": [f"u{i}" for i in range(100)],
            "mostly": ["a"] * 95 + ["b"] * 3 + ["c"] * 2,
            "x": np.arange(100.0),
        }
    )
    kinds = column_kinds(frame, detect=False)
    assert named(kinds, "numeric") == {"x"}
    assert kinds.dropped == (
        "id: every level has fewer than 10 rows",
        "mostly: only 5 rows off its commonest level, 10 needed",
    )


def test_missing_values_are_a_level_of_their_own() -> None:
    frame = pd.DataFrame({"known_or_not": ["a"] * 50 + [None] * 50, "numeric": [1.0] * 60 + [np.nan] * 40})
    kinds = column_kinds(frame, detect=False)
    assert named(kinds, "categorical") == {"known_or_not"}
    assert named(kinds, "numeric") == {"numeric"}


def test_strings_are_text_only_if_distinct_and_of_several_words() -> None:
    n = 60
    frame = pd.DataFrame(
        {
            "text": [f"message number {i} is here" for i in range(n)],
            "phrases": ["a phrase of words", "some other long phrase"] * (n // 2),
            "two_words": [f"item {i}" for i in range(n - 20)] + ["item x"] * 20,
        }
    )
    kinds = column_kinds(frame, detect=True)
    assert named(kinds, "text") == {"text"}
    assert named(kinds, "categorical") == {"phrases", "two_words"}


def test_numbers_in_an_object_column_are_numeric_and_mixtures_are_levels() -> None:
    n = 40
    frame = pd.DataFrame(
        {
            "numbers": pd.Series([1.5, None, 3] * 13 + [7], dtype=object),
            "mixed": pd.Series([1, "one"] * (n // 2), dtype=object),
        }
    )
    kinds = column_kinds(frame, detect=False)
    assert named(kinds, "numeric") == {"numbers"}
    assert named(kinds, "categorical") == {"mixed"}


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"d": pd.date_range("2020", periods=30)}), "column 'd' has dtype datetime64"),
        (pd.DataFrame({"o": [(1, 2)] * 30}), "column 'o' holds tuple; allowed are numbers"),
        (pd.DataFrame({"c": [1.0] * 30}), "no usable column in 30 training rows: c: constant"),
        (pd.DataFrame(np.eye(30), columns=["a"] * 30), "repeated column names"),
        (pd.DataFrame({"x": [1.0]}), "two training rows"),
    ],
)
def test_what_no_pipeline_takes_is_refused_with_one_line(frame: pd.DataFrame, message: str) -> None:
    with pytest.raises(BadInput, match=message) as caught:
        column_kinds(frame, detect=True)
    assert "\n" not in str(caught.value)


def test_an_array_is_refused() -> None:
    with pytest.raises(BadInput, match="takes a pandas DataFrame, got ndarray"):
        column_kinds(np.eye(30), detect=True)


def test_tidy_wants_the_training_columns_in_order() -> None:
    frame = mixed_frame()
    kinds = column_kinds(frame, detect=False)
    with pytest.raises(BadInput, match=r"missing \['few'\], not expected \['more'\]"):
        cast_columns(frame.rename(columns={"few": "more"}), kinds)
    with pytest.raises(BadInput, match="another order"):
        cast_columns(frame[frame.columns[::-1]], kinds)


def test_tidy_gives_finite_floats_and_strings() -> None:
    frame = mixed_frame()
    kinds = column_kinds(frame, detect=True)
    out = cast_columns(frame, kinds)
    names = cast_names(kinds)
    floats = out[names["numeric"] + names["detected"]].to_numpy()
    assert floats.dtype == np.float64
    assert not np.isinf(floats).any()
    position = kinds.columns.index("infinite")
    assert (out[f"numeric{position}"].isna() == np.isinf(frame["infinite"])).all()
    words = out[names["categorical"] + names["text"]].to_numpy()
    assert {type(v) for v in words.ravel()} == {str, type(None)}


def test_numbers_turns_everything_else_into_nan() -> None:
    column = pd.Series([1, "2.5", "x", None, np.inf, -np.inf, 1e39, True], dtype=object)
    np.testing.assert_array_equal(numbers(column), [1, 2.5, *[np.nan] * 5, 1])
    np.testing.assert_array_equal(numbers(pd.Series([1, None], dtype="Int64")), [1, np.nan])
    np.testing.assert_array_equal(numbers(pd.Series(pd.Categorical([3, 4]))), [3, 4])


def test_levels_writes_whole_floats_as_integers() -> None:
    assert levels(pd.Series([1.0, 2.5, np.nan])).tolist() == ["1", "2.5", None]
    assert levels(pd.Series([1, 2])).tolist() == ["1", "2"]
    assert levels(pd.Series([True, False])).tolist() == ["True", "False"]
    assert levels(pd.Series(["a", None, pd.NA], dtype=object)).tolist() == ["a", None, None]
    assert levels(pd.Series(pd.Categorical(["b", None], categories=["a", "b"]))).tolist() == ["b", None]

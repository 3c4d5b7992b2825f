import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets.catalogue import Dataset
from datasets.errors import BadInput
from datasets.loading import split


def made(y: np.ndarray, task: str = "multiclass", name: str = "made") -> Dataset:
    classes = () if task == "regression" else tuple(map(str, range(int(y.max()) + 1)))
    return Dataset(name, pandas.DataFrame({"a": y}), y, task, classes, "", "", "")


def parts(dataset: Dataset, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    cut = split(dataset, seed)
    return cut.train, cut.valid, cut.test


def labels(*counts: int) -> np.ndarray:
    return np.repeat(np.arange(len(counts)), counts).astype(np.int64)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=2, max_size=12), st.integers(0, 2**32))
def test_parts_are_disjoint_complete_sorted_and_stratified(counts, seed):
    y = labels(*counts)
    cut = parts(made(y), seed)
    assert np.array_equal(np.sort(np.concatenate(cut)), np.arange(len(y)))
    assert all(np.all(np.diff(part) > 0) for part in cut)
    assert all(part.dtype == np.int64 for part in cut)
    for label, count in enumerate(counts):
        inside = [int(np.sum(y[part] == label)) for part in cut]
        assert inside[0] >= 1  # every class is in train
        if count > 1:
            assert np.all(np.abs(np.array(inside) - np.array([0.6, 0.2, 0.2]) * count) <= 1)


@given(st.integers(1, 300), st.integers(0, 100))
@settings(max_examples=40, deadline=None)
def test_a_regression_is_cut_60_20_20(n, seed):
    sizes = [len(part) for part in parts(made(np.linspace(0, 1, n), "regression"), seed)]
    assert np.all(np.abs(np.array(sizes) - np.array([0.6, 0.2, 0.2]) * n) <= 1)


def test_the_split_depends_on_name_and_seed_and_nothing_else():
    y = labels(50, 30, 20)
    same = parts(made(y))
    assert all(np.array_equal(a, b) for a, b in zip(same, parts(made(y)), strict=True))
    for other in (parts(made(y), seed=1), parts(made(y, name="other"))):
        assert not np.array_equal(same[0], other[0])


def test_rows_are_shuffled_within_classes():
    train = split(made(np.linspace(0, 1, 1000), "regression")).train
    assert 250 < np.sum(train < 500) < 350  # 300 expected, sd about 11
    steps = np.diff(train)
    assert steps.max() > 3  # dealing unshuffled rows would give steps of 1 and 2 only


def test_the_golden_split_of_ten_rows():
    cut = parts(made(labels(6, 4), name="golden"))
    assert [part.tolist() for part in cut] == [[1, 2, 3, 5, 8, 9], [0, 7], [4, 6]]


def test_an_unknown_name_is_refused():
    with pytest.raises(BadInput, match="unknown data set"):
        split("nonesuch")

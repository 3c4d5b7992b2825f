"""The split, and the checksums of files and values."""

import hashlib
from pathlib import Path

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets import split
from datasets.catalogue import Dataset
from datasets.errors import BadInput
from datasets.files import file_sha256, read_sealed, values_sha256, write_sealed


def made(y: np.ndarray, task: str = "multiclass", name: str = "made") -> Dataset:
    classes = () if task == "regression" else tuple(map(str, range(int(y.max()) + 1)))
    return Dataset(name, pandas.DataFrame({"a": y}), y, task, classes, "", "", "")


def parts(dataset: Dataset, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    cut = split(dataset, seed)
    return cut.train, cut.valid, cut.test


def labels(*counts: int) -> np.ndarray:
    return np.repeat(np.arange(len(counts)), counts).astype(np.int64)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=2, max_size=12), st.integers(0, 2**32))
def test_parts_are_disjoint_complete_sorted_and_stratified(counts, seed):
    y = labels(*counts)
    cut = parts(made(y), seed)
    assert np.array_equal(np.sort(np.concatenate(cut)), np.arange(len(y)))
    assert all(np.all(np.diff(part) > 0) for part in cut)
    for label, count in enumerate(counts):
        inside = [int(np.sum(y[part] == label)) for part in cut]
        assert inside[0] >= 1  # every class is in train
        if count > 1:
            assert np.all(np.abs(np.array(inside) - np.array([0.6, 0.2, 0.2]) * count) <= 1)


@pytest.mark.parametrize(("task", "seed"), [("regression", 0), ("multiclass", 0), ("multiclass", 7)])
def test_the_five_steps_of_the_readme_give_the_split(task: str, seed: int) -> None:
    n = 203
    y = np.random.default_rng(1).integers(0, 4, n)
    w = np.frombuffer(hashlib.sha256(b"made up").digest()[:16], "<u4").tolist()
    order = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, *w]))).permutation(n)
    assert np.array_equal(order, np.random.default_rng([seed, *w]).permutation(n))
    if task != "regression":
        order = order[np.argsort(y[order], kind="stable")]
    dealt: list[list[int]] = [[], [], []]
    for place, row in enumerate(order.tolist()):
        dealt[(0, 1, 0, 2, 0)[place % 5]].append(row)
    found = parts(made(y if task != "regression" else y * 1.0, task, "made up"), seed)
    assert [sorted(part) for part in dealt] == [part.tolist() for part in found]


def test_the_golden_split_of_ten_rows_depends_on_name_and_seed():
    y = labels(6, 4)
    assert [part.tolist() for part in parts(made(y, name="golden"))] == [[1, 2, 3, 5, 8, 9], [0, 7], [4, 6]]
    y = labels(50, 30, 20)
    for other in (parts(made(y), seed=1), parts(made(y, name="other"))):
        assert not np.array_equal(parts(made(y))[0], other[0])
    with pytest.raises(BadInput, match="unknown data set"):
        split("nonesuch")


Y = np.array([0, 1, 1])


def frame() -> pandas.DataFrame:
    return pandas.DataFrame({"a": [1.0, 2.0, np.nan], "k": pandas.Categorical(["u", "v", "u"]), "t": ["ab", "c", ""]})


def digest(X: pandas.DataFrame, y: np.ndarray = Y, classes: tuple[str, ...] = ("n", "p")) -> str:
    return values_sha256(X, y, classes)


def test_the_checksum_of_values_has_the_documented_format():
    def text(*items: str) -> bytes:
        return b"".join(len(i.encode()).to_bytes(8, "little") + i.encode() for i in items) + b"\xff" * 8

    numbers = text("a") + text("numeric") + np.array([1.0, 2.0, np.nan]).astype("<f8").tobytes()
    levels = text("k") + text("category", "u", "v") + np.array([0, 1, 0]).astype("<i8").tobytes()
    words = text("t") + text("text", "ab", "c", "")
    rest = text("n", "p") + text("int64") + Y.astype("<i8").tobytes()
    assert digest(frame()) == hashlib.sha256(numbers + levels + words + rest).hexdigest()
    X = pandas.DataFrame({"a": [1, 2, 3], "t": ["x", "y", "z"]})
    assert digest(X) == digest(X.astype({"a": "int8"})) == digest(X.astype({"a": "float64", "t": "object"}))


def test_any_change_changes_it():
    X = frame()
    changed = [
        X.assign(a=[1.0, np.nextafter(2.0, 3.0), np.nan]), X.rename(columns={"a": "b"}), X[["k", "a", "t"]],
        X.assign(k=X["k"].cat.rename_categories(["u", "w"])), X.assign(k=X["k"].astype(str)),
        X.assign(t=["a", "bc", ""]), X.iloc[[1, 0, 2]],
    ]  # fmt: skip
    found = [digest(X), *map(digest, changed), digest(X, np.array([0, 1, 0])), digest(X, Y * 1.0)]
    assert len({*found, digest(X, Y, ("n", "q"))}) == len(found) + 1


def test_a_sealed_file_gives_back_its_content_or_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    path = tmp_path / "folder/file"
    write_sealed(path, b"abc" * 1000)
    assert read_sealed(path) == b"abc" * 1000
    whole = path.read_bytes()
    assert file_sha256(path) == hashlib.sha256(whole).hexdigest()
    for damaged in (b"", whole[:-1], whole[:500] + b"?" + whole[501:], b"?" + whole[1:]):
        path.write_bytes(damaged)
        assert read_sealed(path) is None
    assert caplog.text.count("is damaged") == 4
    assert read_sealed(tmp_path / "absent") is None

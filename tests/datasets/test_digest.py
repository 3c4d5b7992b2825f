import hashlib

import numpy as np
import pandas
import pytest

from datasets.files import file_sha256, values_sha256

Y = np.array([0, 1, 1])


def frame() -> pandas.DataFrame:
    return pandas.DataFrame({"a": [1.0, 2.0, np.nan], "k": pandas.Categorical(["u", "v", "u"]), "t": ["ab", "c", ""]})


def digest(X: pandas.DataFrame, y: np.ndarray = Y, classes: tuple[str, ...] = ("n", "p")) -> str:
    return values_sha256(X, y, classes)


def test_a_files_checksum_is_that_of_its_bytes(tmp_path):
    (tmp_path / "f").write_bytes(b"abc" * 1000)
    assert file_sha256(tmp_path / "f") == hashlib.sha256(b"abc" * 1000).hexdigest()


def test_the_format_is_the_documented_one():
    def text(*items: str) -> bytes:
        return b"".join(len(i.encode()).to_bytes(8, "little") + i.encode() for i in items) + b"\xff" * 8

    numbers = text("a") + text("numeric") + np.array([1.0, 2.0, np.nan]).astype("<f8").tobytes()
    levels = text("k") + text("category", "u", "v") + np.array([0, 1, 0]).astype("<i8").tobytes()
    words = text("t") + text("text", "ab", "c", "")
    rest = text("n", "p") + text("int64") + Y.astype("<i8").tobytes()
    assert digest(frame()) == hashlib.sha256(numbers + levels + words + rest).hexdigest()


def test_the_same_values_have_the_same_checksum_whatever_their_storage():
    X = pandas.DataFrame({"a": [1, 2, 3], "t": ["x", "y", "z"]})
    assert digest(X) == digest(X.astype({"a": "int8"})) == digest(X.astype({"a": "float64", "t": "object"}))


@pytest.mark.parametrize(
    "changed",
    [
        lambda X: X.assign(a=[1.0, np.nextafter(2.0, 3.0), np.nan]),
        lambda X: X.rename(columns={"a": "b"}),
        lambda X: X[["k", "a", "t"]],
        lambda X: X.assign(k=X["k"].cat.rename_categories(["u", "w"])),
        lambda X: X.assign(k=X["k"].astype(str)),
        lambda X: X.assign(t=["a", "bc", ""]),
        lambda X: X.iloc[[1, 0, 2]],
    ],
)
def test_any_change_of_the_inputs_changes_it(changed):
    assert digest(changed(frame())) != digest(frame())


def test_targets_and_class_labels_count_too():
    assert digest(frame(), np.array([0, 1, 0])) != digest(frame())
    assert digest(frame(), Y.astype(np.float64)) != digest(frame())
    assert digest(frame(), Y, ("n", "q")) != digest(frame())

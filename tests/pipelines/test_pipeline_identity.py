"""The identity of prepared problems: last digits do not matter, everything else does."""

import json
import re
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from conftest import needs_data
from pipeline_frames import dataset_of, mixed_frame, targets
from scipy import sparse

from datasets.errors import BadInput
from datasets.loading import load
from pipelines import identity, prepare
from pipelines.identity import Identity, difference
from pipelines.prepared import Prepared
from pipelines.steps import Matrix

FRAME = mixed_frame(900)
FAR = pd.DataFrame({"far": 400 + np.random.default_rng(1).normal(size=900), "x": FRAME["normal"]})
MATRICES = ("X_train", "X_valid", "X_test")


@pytest.fixture(scope="module", params=["clean", "onehot", "quadratic", "onehot_svd", "far"])
def problem(request: pytest.FixtureRequest) -> Prepared:
    """Dense and sparse matrices, missing entries, classes and real targets, a column far from zero."""
    if request.param == "far":
        return prepare(dataset_of(FAR, targets(FRAME)), "clean", cache=False)
    if request.param == "onehot":
        codes = np.random.default_rng(0).integers(0, 3, 900)
        return prepare(dataset_of(FRAME, codes, "multiclass"), "onehot", cache=False)
    return prepare(dataset_of(FRAME, targets(FRAME)), request.param, cache=False)


def changed(problem: Prepared, change: Callable[[str, Matrix], Matrix]) -> Prepared:
    """The problem with other values, as its hash says."""
    X = {name: change(name, getattr(problem, name).copy()) for name in MATRICES}
    return replace(problem, **X, data_hash="another")


def values(X: Matrix) -> np.ndarray:
    return X.data if sparse.issparse(X) else X


def test_kinds_are_as_the_names_say(problem: Prepared, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params["problem"]
    assert sparse.issparse(problem.X_train) == (name == "onehot")
    assert np.isnan(values(problem.X_train)).any() == (name == "clean")


def test_last_digits_do_not_matter(problem: Prepared) -> None:
    """A relative change of every value by up to 1e-7, a few of float32's last digits."""
    rng = np.random.default_rng(5)

    def shaken(_: str, X: Matrix) -> Matrix:
        v = values(X)
        v[...] = (v.astype(np.float64) * (1 + 1e-7 * rng.uniform(-1, 1, v.shape))).astype(np.float32)
        return X

    for _ in range(5):
        other = changed(problem, shaken)
        assert (values(other.X_train) != values(problem.X_train)).mean() > 0.1
        assert difference(problem.description(), other.description()) == ""


@pytest.mark.parametrize("part", MATRICES)
def test_one_cell_matters(problem: Prepared, part: str) -> None:
    """Any cell that moves by a thousandth of its column's standard deviation on the training rows."""
    whole = problem.X_train.toarray() if sparse.issparse(problem.X_train) else problem.X_train
    sd = np.nanstd(whole.astype(np.float64), axis=0)
    X = getattr(problem, part)
    stored = np.argwhere(~np.isnan(X.toarray() if sparse.issparse(X) else X))
    if sparse.issparse(X):
        stored = np.stack([X.tocoo().row, X.tocoo().col], axis=1)
    for row, column in np.random.default_rng(3).permutation(stored)[:30]:
        for sign in (-1, 1):

            def moved(
                name: str, X: Matrix, row: int = row, column: int = column, by: float = sign * 1e-3 * sd[column]
            ) -> Matrix:
                if name == part:
                    X[row, column] += np.float32(by)
                return X

            told = difference(problem.description(), changed(problem, moved).description())
            scales = "other scales of columns|other means of columns|" if part == "X_train" else ""
            assert re.match(f"{scales}other values in the {part[2:]} matrix", told)


def swapped(problem: Prepared) -> Prepared:
    order = np.arange(len(problem.y_train))
    order[[3, 8]] = order[[8, 3]]
    return replace(problem, X_train=problem.X_train[order], data_hash="another")


def swapped_with_labels(problem: Prepared) -> Prepared:
    order = np.arange(len(problem.y_train))
    order[[3, 9]] = order[[9, 3]]
    return replace(problem, X_train=problem.X_train[order], y_train=problem.y_train[order], data_hash="another")


def relabelled(problem: Prepared) -> Prepared:
    y = problem.y_test.copy()
    y[5] = y[5] + 1 if problem.n_classes == 0 else (y[5] + 1) % problem.n_classes
    return replace(problem, y_test=y, data_hash="another")


def narrower(problem: Prepared) -> Prepared:
    X = {name: getattr(problem, name)[:, 1:] for name in MATRICES}
    return replace(problem, **X, data_hash="another")


def shorter(problem: Prepared) -> Prepared:
    return replace(problem, X_valid=problem.X_valid[1:], y_valid=problem.y_valid[1:], data_hash="another")


def flipped(problem: Prepared) -> Prepared:
    def negative(_: str, X: Matrix) -> Matrix:
        sign = np.ones(X.shape[1], dtype=np.float32)
        sign[0] = -1
        return sparse.csr_matrix(X.multiply(sign)) if sparse.issparse(X) else X * sign

    return changed(problem, negative)


def in_other_units(problem: Prepared) -> Prepared:
    def doubled(_: str, X: Matrix) -> Matrix:
        unit = np.ones(X.shape[1], dtype=np.float32)
        unit[0] = 2
        return sparse.csr_matrix(X.multiply(unit).astype(np.float32)) if sparse.issparse(X) else X * unit

    return changed(problem, doubled)


def shifted(problem: Prepared) -> Prepared:
    def elsewhere(_: str, X: Matrix) -> Matrix:
        values(X)[...] += np.float32(0.01)
        return X

    return changed(problem, elsewhere)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (swapped, "other values in the train matrix|other rows"),
        (swapped_with_labels, "other rows, columns, labels, split or missing entries"),
        (relabelled, "other rows, columns, labels, split or missing entries"),
        (narrower, "other rows, columns, labels, split or missing entries"),
        (shorter, "other rows, columns, labels, split or missing entries"),
        (flipped, "other means of columns|other values in the train matrix"),
        (in_other_units, "other scales of columns"),
        (shifted, "other means of columns|other scales of columns"),
    ],
)
def test_whatever_else_differs_is_another_problem(
    change: Callable[[Prepared], Prepared], told: str, problem: Prepared
) -> None:
    other = change(problem)
    found = difference(problem.description(), other.description())
    assert any(found.startswith(one) for one in told.split("|")), found
    assert found.endswith(f"; data_hash {problem.data_hash[:12]}, now another") and "\n" not in found


def test_another_split_another_pipeline_another_name() -> None:
    data = dataset_of(FRAME, targets(FRAME))
    known = prepare(data, "clean", cache=False).description()
    assert "other rows" in difference(known, prepare(data, "clean", 1, cache=False).description())
    assert "other rows" in difference(known, prepare(data, "quadratic", cache=False).description())
    assert difference(known, prepare(data, "clean", cache=False).description()) == ""


def test_more_buckets_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an energy lies near a power of two, two processors may take different numbers of buckets."""
    p = prepare(dataset_of(FRAME, targets(FRAME)), "quadratic", cache=False)
    few = p.identity
    monkeypatch.setattr(identity, "LEAST_BUCKETS", 128)
    many = replace(p).identity
    assert {len(part) for part in few.sums} == {16} and {len(part) for part in many.sums} == {128}
    assert few.difference(many) == many.difference(few) == ""
    rows = np.roll(np.arange(len(p.y_train)), 1)
    other = replace(p, X_train=p.X_train[rows]).identity
    assert "other values in the train matrix" in few.difference(other)


def test_it_survives_its_file_and_its_absence_is_told() -> None:
    p = prepare(dataset_of(FRAME, targets(FRAME)), "clean", cache=False)
    plain = json.loads(json.dumps(p.description()))
    assert Identity.from_json(plain["identity"]).difference(p.identity) == ""
    old = {"data_hash": "0" * 64}  # of a table of before there were identities
    assert difference(old, plain) == f"data_hash {'0' * 12}, now {p.data_hash[:12]}"
    assert difference({**old, "data_hash": p.data_hash}, plain) == ""


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ({"version": 99}, "the identity has version 99, this release reads 1"),
        ({"exact": "abc"}, "wrong sizes"),
        ({"sums": ["AAAAAA=="] * 3}, "wrong sizes"),
        ({"sums": []}, "it needs 3 sketches"),
        ({"scales": "not base64!"}, "no record of one"),
        ({"energy": ["many"] * 3}, "no record of one"),
        ({"energy": [float("nan")] * 3}, "wrong sizes, or values that are no finite numbers"),
    ],
)
def test_an_identity_edited_by_hand_is_one_line(damage: dict, told: str) -> None:
    p = prepare(dataset_of(FRAME[["normal", "few"]], targets(FRAME)), "clean", cache=False)
    plain = p.description()["identity"]
    with pytest.raises(BadInput, match=told) as caught:
        Identity.from_json({**plain, **damage})
    assert "\n" not in str(caught.value)
    for nothing in (None, [], {}, "text"):
        with pytest.raises(BadInput, match="no record of one"):
            Identity.from_json(nothing)


@needs_data
def test_an_identity_takes_a_moment_and_little_room() -> None:
    p = prepare(load("coil2000"), "clean")
    start = time.process_time()
    made = p.identity
    assert time.process_time() - start < 2
    assert len(json.dumps(made.to_json())) < 1000

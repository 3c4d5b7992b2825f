"""The identity of prepared problems: last digits do not matter, everything else does; and monotone maps of columns."""

import json
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pipeline_frames import dataset_of, mixed_frame, targets
from scipy import sparse

from datasets.errors import BadInput
from pipelines import identity, prepare
from pipelines.identity import Identity, difference, rank_pattern, same_pairs
from pipelines.prepared import Prepared
from pipelines.steps import Matrix, dense

FRAME = mixed_frame(600)
DATA = dataset_of(FRAME, targets(FRAME))
FAR = pd.DataFrame({"far": 400 + np.random.default_rng(1).normal(size=600), "x": FRAME["normal"]})
MATRICES = ("X_train", "X_valid", "X_test")


@pytest.fixture(scope="module", params=["clean", "onehot", "onehot_svd", "far"])
def problem(request: pytest.FixtureRequest) -> Prepared:
    """Dense and sparse matrices, missing entries, classes and real targets, a column far from zero."""
    if request.param == "far":
        return prepare(dataset_of(FAR, targets(FRAME)), "clean", cache=False)
    if request.param == "onehot":
        codes = np.random.default_rng(0).integers(0, 3, 600)
        made = prepare(dataset_of(FRAME, codes, "multiclass"), "onehot", cache=False)
        assert sparse.issparse(made.X_train)
        return made
    made = prepare(DATA, request.param, cache=False)
    assert np.isnan(made.X_train).any() == (request.param == "clean")
    return made


def changed(problem: Prepared, change: Callable[[str, Matrix], Matrix]) -> Prepared:
    """Return the problem with other values, as its hash says."""
    X = {name: change(name, getattr(problem, name).copy()) for name in MATRICES}
    return replace(problem, **X, data_hash="another")


def values(X: Matrix) -> np.ndarray:
    return X.data if sparse.issparse(X) else X


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
    sd = np.nanstd(dense(problem.X_train).astype(np.float64), axis=0)
    X, known = getattr(problem, part), problem.identity
    stored = np.argwhere(~np.isnan(dense(X)))
    if sparse.issparse(X):
        stored = np.stack([X.tocoo().row, X.tocoo().col], axis=1)
    for k, (row, column) in enumerate(np.random.default_rng(3).permutation(stored)[:12]):
        moved = X.copy()
        moved[row, column] += np.float32((-1) ** k * 1e-3 * sd[column])
        found = known.difference(replace(problem, **{part: moved}).identity)
        scales = "other scales of columns|other means of columns|" if part == "X_train" else ""
        assert re.match(f"{scales}other values in the {part[2:]} matrix", found)


def permuted(problem: Prepared) -> Prepared:
    order = np.arange(len(problem.y_train))
    order[[3, 9]] = order[[9, 3]]
    return replace(problem, X_train=problem.X_train[order], data_hash="another")


def relabelled(problem: Prepared) -> Prepared:
    y = problem.y_test.copy()
    y[5] = y[5] + 1 if problem.n_classes == 0 else (y[5] + 1) % problem.n_classes
    return replace(problem, y_test=y, data_hash="another")


def scaled(factor: float) -> Callable[[Prepared], Prepared]:
    """Multiply the first column."""

    def change(_: str, X: Matrix) -> Matrix:
        unit = np.ones(X.shape[1], dtype=np.float32)
        unit[0] = factor
        return sparse.csr_matrix(X.multiply(unit).astype(np.float32)) if sparse.issparse(X) else X * unit

    return lambda problem: changed(problem, change)


OTHER_ROWS = "other rows, columns, labels, split or missing entries"


@pytest.mark.parametrize(("change", "expected"), [
    (permuted, "other values in the train matrix|other rows"),
    (relabelled, OTHER_ROWS),
    (lambda p: changed(p, lambda _, X: X[:, 1:]), OTHER_ROWS),
    (lambda p: replace(p, X_valid=p.X_valid[1:], y_valid=p.y_valid[1:], data_hash="another"), OTHER_ROWS),
    (scaled(-1), "other means of columns|other values in the train matrix"),
    (scaled(2), "other scales of columns"),
])  # fmt: skip
def test_whatever_else_differs_is_another_problem(
    change: Callable[[Prepared], Prepared], expected: str, problem: Prepared
) -> None:
    found = difference(problem.description(), change(problem).description())
    assert any(found.startswith(one) for one in expected.split("|")), found
    assert found.endswith(f"; data_hash {problem.data_hash[:12]}, now another") and "\n" not in found


def test_another_split_another_pipeline_and_the_way_through_a_file() -> None:
    data = dataset_of(FRAME[["normal", "gaps", "few"]], DATA.y)
    known = prepare(data, "clean", cache=False).description()
    assert "other rows" in difference(known, prepare(data, "clean", 1, cache=False).description())
    assert "other rows" in difference(known, prepare(data, "quadratic", cache=False).description())
    found = prepare(data, "clean", cache=False).description()
    assert difference(known, found) == ""
    plain = json.loads(json.dumps(known))
    assert len(json.dumps(plain["identity"])) < 1000
    assert Identity.from_json(plain["identity"]).difference(Identity.from_json(found["identity"])) == ""
    old = {"data_hash": "0" * 64}  # of a table of before there were identities
    assert difference(old, plain) == f"data_hash {'0' * 12}, now {known['data_hash'][:12]}"
    assert difference({**old, "data_hash": known["data_hash"]}, plain) == ""


def test_more_buckets_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an energy lies near a power of two, two processors may take different numbers of buckets."""
    p = prepare(DATA, "quadratic", cache=False)
    few = p.identity
    monkeypatch.setattr(identity, "LEAST_BUCKETS", 128)
    many = replace(p).identity
    assert {len(part) for part in few.sums} == {16} and {len(part) for part in many.sums} == {128}
    assert few.difference(many) == many.difference(few) == ""
    rows = np.roll(np.arange(len(p.y_train)), 1)
    other = replace(p, X_train=p.X_train[rows]).identity
    assert "other values in the train matrix" in few.difference(other)


def test_an_identity_of_another_version_is_refused() -> None:
    plain = prepare(dataset_of(FRAME[["normal", "few"]], DATA.y), "clean", cache=False).identity.to_json()
    with pytest.raises(BadInput, match="the identity has version 99, this release reads 1"):
        Identity.from_json({**plain, "version": 99})


columns = arrays(np.float64, st.integers(2, 12), elements=st.sampled_from([-2.0, -1.0, 0.0, 0.5, 3.0, np.nan]))


@settings(max_examples=40, deadline=None)
@given(columns, columns)
def test_the_pattern_is_shared_by_monotone_maps_only(x: np.ndarray, z: np.ndarray) -> None:
    """Brute force: a monotone map exists iff all pairs of rows are ordered alike, or all the other way."""

    def order(v: np.ndarray) -> np.ndarray:
        return np.sign(v[:, None] - v[None, :])

    for change in (lambda v: 3 * v + 1, np.exp, lambda v: -v, lambda v: np.exp(-v), lambda v: v**3):
        assert rank_pattern(change(x)) == rank_pattern(x)
    if len(x) == len(z):
        present = ~np.isnan(x)
        alike = np.array_equal(np.isnan(x), np.isnan(z))
        if alike:
            a, b = order(x[present]), order(z[present])
            alike = np.array_equal(a, b) or np.array_equal(a, -b)
        assert (rank_pattern(x) == rank_pattern(z)) == alike


def test_order_and_repetition_of_columns_do_not_count_but_a_new_column_does() -> None:
    X = np.random.default_rng(0).normal(size=(50, 3))
    again = np.hstack([np.exp(X[:, [2, 0]]), -X[:, [1]], X[:, [2]]])
    more = np.hstack([X, (X[:, [0]]) ** 2])
    found = same_pairs({"X": X, "again": again, "more": more, "sparse": sparse.csr_matrix(X)})
    assert found == [("X", "again"), ("X", "sparse"), ("again", "sparse")]

"""The search space: the paper's ranges, exact round trips, Sobol points; and the random streams."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import BadInput
from harness.space import XGBOOST_SPACE as SPACE
from harness.space import Parameter, SearchSpace
from harness.streams import seed_sequence, stream

unit_points = st.lists(st.floats(0, 1), min_size=7, max_size=7).map(lambda u: np.array([u]))


def test_the_space_is_the_papers() -> None:
    ranges = {p.name: (p.low, p.high, p.log, p.integer) for p in SPACE.parameters}
    assert ranges == {
        "n_estimators": (1, 256, True, True),
        "learning_rate": (0.01, 1.0, True, False),
        "gamma": (0.0, 0.1, False, False),
        "reg_alpha": (1e-3, 1e3, True, False),
        "reg_lambda": (1e-3, 1e3, True, False),
        "subsample": (0.01, 1.0, False, False),
        "max_depth": (1, 16, False, True),
    }


@given(unit_points)
def test_native_values_survive_the_round_trip_exactly(unit: np.ndarray) -> None:
    native = SPACE.from_unit(unit)
    assert np.array_equal(SPACE.from_unit(SPACE.to_unit(native)), native)
    assert np.array_equal(native, native.astype(np.float32).astype(np.float64))


@given(unit_points)
def test_the_unit_cube_survives_but_for_rounding(unit: np.ndarray) -> None:
    back = SPACE.snap(unit)
    assert ((back >= 0) & (back <= 1)).all()
    real = [j for j, p in enumerate(SPACE.parameters) if not p.integer]
    assert np.abs(back[:, real] - unit[:, real]).max() < 1e-5  # float32 of the native value
    assert np.array_equal(SPACE.snap(back), back)


def test_scales_by_hand() -> None:
    middle = SPACE.from_unit(np.full((1, 7), 0.5))[0]
    assert np.allclose(middle, [16, 0.1, 0.05, 1, 1, 0.505, 8], rtol=1e-6)
    ends = SPACE.from_unit(np.array([[0.0] * 7, [1.0] * 7]))
    assert np.array_equal(ends[0], np.float32([1, 0.01, 0, 1e-3, 1e-3, 0.01, 1]))
    assert np.array_equal(ends[1], np.float32([256, 1, 0.1, 1e3, 1e3, 1, 16]))


@pytest.mark.parametrize(
    ("p", "ends"),
    [
        (Parameter("n", 0, 2**31 - 1, integer=True), (0, 2**31 - 128)),
        (Parameter("n", 2**24 + 1, 2**25, integer=True), (2**24 + 2, 2**25)),
        (Parameter("lr", 1e-50, 1, log=True), (2.0**-149, 1)),
        (Parameter("x", 0, 0.1), (0, float(np.float32(0.1)))),
    ],
)
def test_the_ends_are_values_in_single_precision(p: Parameter, ends: tuple[float, float]) -> None:
    """The float32 nearest to an end may lie beyond it; for a whole number, and 0 on a log scale, that will not do."""
    space = SearchSpace((p,))
    native = space.from_unit(np.array([[0.0], [1.0]]))
    assert native[:, 0].tolist() == list(ends)
    assert np.array_equal(space.from_unit(space.to_unit(native)), native)


@pytest.mark.parametrize(("start", "n"), [(0, 100), (37, 90)])
def test_the_sobol_sequence_is_extendable(start: int, n: int) -> None:
    whole = SPACE.sobol(1024, seed=5)
    assert np.array_equal(SPACE.sobol(n, seed=5, start=start), whole[start : start + n])
    assert not np.array_equal(SPACE.sobol(n, seed=6, start=start), whole[start : start + n])


def test_the_sobol_sequence_fills_the_cube_evenly() -> None:
    points = SPACE.sobol(1024, seed=0)
    for j in range(7):  # each of 1,024 equal slices holds one point: the property of a (0, m, 1)-net
        assert len(np.unique(np.floor(points[:, j] * 1024))) == 1024


def test_values_outside_are_refused_by_name() -> None:
    native = SPACE.from_unit(np.full((1, 7), 0.5))
    native[0, 1] = 2.0
    with pytest.raises(ValueError, match="learning_rate = 2 is outside"):
        SPACE.to_unit(native)
    native[0, [1, 6]] = 0.5, 2.5
    with pytest.raises(ValueError, match=r"max_depth must be a whole number, got 2\.5"):
        SPACE.to_unit(native)
    with pytest.raises(ValueError, match=r"points must be an array of numbers, got \[\['a'"):
        inspect.unwrap(SearchSpace.to_unit)(SPACE, [["a"] * 7])
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        SPACE.from_unit(np.full((1, 7), 1.1))
    native[0, 1] = 1e300
    with pytest.raises(ValueError, match="learning_rate = 1e\\+300 is outside"):
        SPACE.to_unit(native)
    with pytest.raises(ValueError, match="no range"):
        Parameter("x", 0.0, 1.0, log=True)


def test_the_ends_of_a_range_lie_in_it_and_rounding_makes_no_fraction() -> None:
    ends = SearchSpace(
        (Parameter("rate", 0.1, 0.9), Parameter("log", 0.1, 0.9, log=True), Parameter("n", 1, 9, integer=True))
    )
    found = ends.to_unit(np.array([[0.1, 0.1, 1.0], [0.9, 0.9, np.exp(np.log(9.0))]]))
    np.testing.assert_allclose(found, [[0.0] * 3, [1.0] * 3], atol=1e-7)


@pytest.mark.parametrize(("call", "message"), [
    (lambda: Parameter("t", 1700000001, 1700000050, integer=True), "holds less than two numbers of single precision"),
    (lambda: Parameter("t", 1e-50, 1e-47, log=True), "holds less than two numbers of single precision"),
    (lambda: Parameter("a", 0.2, 0.7, integer=True), r"a: \[0.2, 0.7\] must begin and end with whole numbers"),
    (lambda: Parameter("a", 0.0, np.inf), "a: high must be a number, finite in single precision, got inf"),
    (lambda: Parameter("a", -1e300, 0.0), "a: low must be a number, finite in single precision, got -1e"),
    (lambda: Parameter("", 0, 1), "a parameter needs a name, a text that is not empty, got ''"),
    (lambda: _made(Parameter, 3, 0, 1), "a parameter needs a name, a text that is not empty, got 3"),
    (lambda: _made(Parameter, "a", "0", 1), "a: low must be a number, finite in single precision, got '0'"),
    (lambda: _made(SearchSpace, SPACE.parameters[0]), r"made of a tuple of parameters, SearchSpace\(\(Parameter\("),
    (lambda: _made(Parameter, "a", 1, 2, "no"), "a: log must be true or false, got no"),
    (lambda: _made(Parameter, "a", 1, 2, False, "false"), "a: integer must be true or false, got false"),
    (lambda: SPACE.sobol(0, 0), "n must be a whole number >= 1, got 0"),
    (lambda: SPACE.sobol(3, 0, start=-1), "start must be a whole number >= 0, got -1"),
])  # fmt: skip
def test_what_is_no_space_is_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        call()


def _made(kind: Any, *values: Any) -> None:
    """Call the constructor as without the checks of types that tests make."""
    inspect.unwrap(kind.__init__)(object.__new__(kind), *values)


@pytest.mark.parametrize("shape", [(7,), (1, 6), (1, 8)])
@pytest.mark.parametrize("map_", [SPACE.to_unit, SPACE.from_unit])
def test_points_of_another_number_of_columns_are_refused(map_: Callable, shape: tuple[int, ...]) -> None:
    with pytest.raises(BadInput, match=r"points must have the shape \(n, 7\), with columns for n_estimators, .*; got"):
        inspect.unwrap(map_)(SPACE, np.ones(shape))


def test_streams_are_the_same_everywhere_and_independent_of_each_other() -> None:
    assert stream(0, "golden").integers(0, 1000, 4).tolist() == [630, 307, 851, 896]
    a = stream(3, "initial", "abalone/clean").random(5)
    for seed, *names in [(4, "initial", "abalone/clean"), (3, "candidates", "abalone/clean"), (3, "initial", "w/c")]:
        assert not np.array_equal(a, stream(seed, *names).random(5))
    assert seed_sequence(0, "ab", "c").entropy != seed_sequence(0, "a", "bc").entropy

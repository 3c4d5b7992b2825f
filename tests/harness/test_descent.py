"""Descent in a box on problems with known minima."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import rosen, rosen_der

from harness.surrogates.bfgs import descent, minimise


def _quadratic(seed: int, d: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((d, d))
    return root @ root.T + 0.1 * np.eye(d), rng.standard_normal(d) * 3


@settings(deadline=None)
@given(st.integers(0, 10**6))
def test_convex_problems_end_at_their_only_minimum(seed: int) -> None:
    A, b = _quadratic(seed)
    f = lambda x: (0.5 * float(x @ A @ x) - float(b @ x), A @ x - b)  # noqa: E731
    box = np.full(6, -1.0), np.full(6, 1.0)
    found = minimise(f, descent(np.zeros(6), None, box, 1e-9, 500))
    gradient = A @ found.x - b  # the optimality conditions: zero, or pressing against the box
    np.testing.assert_allclose(np.clip(found.x - gradient, *box), found.x, rtol=0, atol=1e-3)


def test_the_curved_valley() -> None:
    f = lambda x: (float(rosen(x)), rosen_der(x))  # noqa: E731
    found = minimise(f, descent(np.array([-1.2, 1.0]), None, (np.full(2, -2.0), np.full(2, 2.0)), 1e-10, 500))
    np.testing.assert_allclose(found.x, 1.0, atol=1e-3)
    bounded = minimise(f, descent(np.array([-1.2, 1.0]), None, (np.full(2, -2.0), np.array([0.5, 2.0])), 1e-10, 500))
    np.testing.assert_allclose(bounded.x, [0.5, 0.25], atol=1e-3)


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 4))
def test_the_value_never_rises_whatever_curvature_is_remembered(seed: int, iterations: int) -> None:
    rng = np.random.default_rng(seed)
    f = lambda x: (float(rosen(x)), rosen_der(x))  # noqa: E731
    start, root = rng.uniform(-2, 2, 4), rng.standard_normal((4, 4))
    hessian, box = root @ root.T + 1e-3 * np.eye(4), (np.full(4, -2.0), np.full(4, 2.0))
    found = minimise(f, descent(start, hessian, box, 1e-3, iterations))
    assert found.value <= f(start)[0]
    assert found.value == f(found.x)[0]


def test_a_remembered_hessian_makes_the_next_problem_cheap() -> None:
    A, b = _quadratic(1)
    box = np.full(6, -50.0), np.full(6, 50.0)
    calls = []

    def f(x: np.ndarray, shift: float) -> tuple[float, np.ndarray]:
        calls.append(shift)
        return 0.5 * float(x @ A @ x) - float((b + shift) @ x), A @ x - b - shift

    first = minimise(lambda x: f(x, 0.0), descent(np.zeros(6), None, box, 1e-6, 100))
    second = minimise(lambda x: f(x, 0.05), descent(first.x, first.hessian, box, 1e-6, 100))
    assert second.value == pytest.approx(-0.5 * float((b + 0.05) @ np.linalg.solve(A, b + 0.05)), abs=1e-4)
    assert calls.count(0.05) < calls.count(0.0) / 2

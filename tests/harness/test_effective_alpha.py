"""The alphas that a choice amounts to, against a fine grid of alphas and by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.acquisitions.cost_rules import effective_alpha

GRID = np.linspace(0.0, 4.0, 4001)


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12))
def test_they_are_the_ends_of_the_alphas_of_a_grid_that_choose_the_point(seed: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    value, cost = rng.integers(-8, 8, m) / 4.0, rng.integers(-4, 4, m) / 2.0
    value[rng.random(m) < 0.1] = -np.inf
    for i in range(m):
        alpha, high = effective_alpha(i, value, cost)
        if value[i] == -np.inf:
            continue
        score = value[:, None] - cost[:, None] * GRID
        chosen = GRID[score[i] >= score.max(axis=0) - 1e-12]
        if math.isnan(alpha):
            assert len(chosen) == 0 and math.isnan(high)
        else:
            there = value - alpha * cost
            assert there[i] >= there.max() - 1e-9
            lower = value - max(0.0, alpha - 1e-6) * cost
            assert alpha == 0.0 or lower[i] < lower.max()
            assert len(chosen) == 0 or alpha - 1e-9 <= chosen[0] <= alpha + GRID[1] + 1e-9
            assert high >= alpha
            assert len(chosen) == 0 or min(high, GRID[-1]) - GRID[1] - 1e-9 <= chosen[-1] <= high + 1e-9


def test_by_hand() -> None:
    value, cost = np.log([1.0, 0.9, 0.5, 0.6]), np.log([8.0, 4.0, 1.0, 5.0])
    dear, cheap = np.log(1 / 0.9) / np.log(2), np.log(0.9 / 0.5) / np.log(4)
    assert effective_alpha(0, value, cost) == pytest.approx((0.0, dear))
    assert effective_alpha(1, value, cost) == pytest.approx((dear, cheap))
    assert effective_alpha(2, value, cost) == pytest.approx((cheap, math.inf))
    assert np.isnan(effective_alpha(3, value, cost)).all()  # dominated by the second


def test_equal_costs_and_zero_values() -> None:
    inf = math.inf
    assert np.isnan(effective_alpha(0, np.array([0.0, 1.0]), np.array([1.0, 1.0]))).all()
    assert effective_alpha(0, np.array([1.0, 1.0]), np.array([1.0, 1.0])) == (0.0, inf)
    assert effective_alpha(0, np.array([1.0, -inf, -inf]), np.array([1.0, 0.0, 2.0])) == (0.0, inf)
    assert np.isnan(effective_alpha(1, np.array([1.0, -inf]), np.array([1.0, 0.0]))).all()
    assert effective_alpha(1, np.array([-inf, -inf]), np.array([1.0, 0.0])) == (0.0, inf)
    assert np.isnan(effective_alpha(0, np.array([-inf, -inf]), np.array([1.0, 0.0]))).all()
    assert effective_alpha(0, np.array([0.5]), np.array([1.0])) == (0.0, inf)

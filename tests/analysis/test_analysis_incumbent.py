"""Incumbents are step functions: worked by hand, and against loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.traces import at_budgets, at_incumbent, finished_within, incumbents

NAN = np.nan


def best_within(error: np.ndarray, cost: np.ndarray, budgets: np.ndarray) -> np.ndarray:
    return at_budgets(incumbents(error), cost, budgets)


def test_an_evaluation_that_ends_past_the_budget_does_not_count() -> None:
    error, cost = np.array([[0.9, 0.2, 0.1]]), np.array([[2.0, 2.0, 2.0]])
    budgets = np.array([[0.0, 1.999, 2.0, 3.999, 4.0, 5.999, 6.0, 1e9]])
    expected = [[NAN, NAN, 0.9, 0.9, 0.2, 0.2, 0.1, 0.1]]
    np.testing.assert_array_equal(best_within(error, cost, budgets), expected)
    np.testing.assert_array_equal(finished_within(cost, budgets), [[0, 0, 1, 1, 2, 2, 3, 3]])


def test_a_budget_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="budget must be a number"):
        finished_within(np.ones((1, 2)), np.array([[NAN]]))


@given(
    st.lists(st.tuples(st.one_of(st.just(NAN), st.floats(0, 1)), st.floats(0.001, 10)), min_size=1, max_size=12),
    st.lists(st.floats(0, 150), min_size=1, max_size=6),
)
def test_best_within_agrees_with_a_loop(run: list[tuple[float, float]], budgets: list[float]) -> None:
    error, cost = (np.array([values]) for values in zip(*run, strict=True))
    expected = []
    for budget in budgets:
        total, best = 0.0, NAN
        for e, c in run:
            total += c
            if total <= budget and not np.isnan(e) and not best <= e:
                best = e
        expected.append(best)
    np.testing.assert_array_equal(best_within(error, cost, np.array([budgets])), [expected])
    among, costs = (np.concatenate([np.ones((2, values.size)), values]) for values in (error, cost))
    found = at_budgets(incumbents(among), costs, np.array([budgets, budgets]), np.array([2, 2]))
    np.testing.assert_array_equal(found, [expected, expected])


def test_the_test_error_of_the_best_so_far_by_plain_loops() -> None:
    rng = np.random.default_rng(3)
    error, other = rng.integers(0, 5, (20, 12)).astype(float), rng.uniform(size=(20, 12))
    error[rng.uniform(size=error.shape) < 0.3] = np.nan
    found = at_incumbent(error, other)
    for r, t in np.ndindex(error.shape):
        seen = error[r, : t + 1]
        expected = np.nan if np.isnan(seen).all() else other[r, int(np.nanargmin(seen))]
        np.testing.assert_equal(found[r, t], expected)

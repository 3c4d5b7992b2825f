"""Incumbent curves: the best error found, as a step function of iterations or of cost.

Notation: R runs, T steps, B budgets. Padding and failed evaluations carry a NaN error; padding a NaN cost.
Source: Guinet et al. 2020, optimal time allocation (best error with sum of costs <= tau).
"""

import numpy as np
from jaxtyping import Float, Int


def incumbents(error: Float[np.ndarray, "R T"]) -> Float[np.ndarray, "R T"]:
    """Return y*_t = min of error_i over i <= t; NaN before the first successful evaluation."""
    return np.fmin.accumulate(error, axis=1)


def of_the_best(error: Float[np.ndarray, "R T"], other: Float[np.ndarray, "R T"]) -> Float[np.ndarray, "R T"]:
    """Return `other` (the test error, say) of the step of lowest `error` up to each step, the first of equal ones.

    NaN before the first successful evaluation.
    """
    best = incumbents(error)
    before = np.concatenate([np.full((len(error), 1), np.nan), best[:, :-1]], axis=1)
    improves = ~np.isnan(best) & (np.isnan(before) | (best < before))
    at = np.maximum.accumulate(np.where(improves, np.arange(error.shape[1]), -1), axis=1)
    return np.where(at >= 0, np.take_along_axis(other, np.maximum(at, 0), axis=1), np.nan)


def front(cost: Float[np.ndarray, " n"], error: Float[np.ndarray, " n"]) -> Int[np.ndarray, " f"]:
    """Return the rows that no other beats in one of both and matches in the other, from the cheapest to the best.

    Of equal rows one is kept; rows whose error is not finite are left out.
    """
    order = np.lexsort((error, cost))
    before = np.fmin.accumulate(np.concatenate([[np.inf], error[order]]))[:-1]
    return order[error[order] < before]


def spent(cost_s: Float[np.ndarray, "R T"]) -> Float[np.ndarray, "R T"]:
    """Return the cumulative cost in seconds, sum of cost_i over i <= t; NaN in the padding.

    Failed evaluations cost like any other.
    """
    return np.cumsum(cost_s, axis=1)


def finished_within(cost_s: Float[np.ndarray, "R T"], budgets_s: Float[np.ndarray, "R B"]) -> Int[np.ndarray, "R B"]:
    """Count each run's evaluations that end within each of its budgets (cumulative cost <= budget).

    Raises ValueError for a budget that is NaN.
    """
    if np.isnan(budgets_s).any():
        raise ValueError("a budget must be a number of seconds, got NaN")
    reached = np.where(np.isnan(cost_s), np.inf, spent(cost_s))
    return np.stack([np.searchsorted(c, b, side="right") for c, b in zip(reached, budgets_s, strict=True)])


def at_budgets(
    curve: Float[np.ndarray, "R T"],
    cost_s: Float[np.ndarray, "R T"],
    budgets_s: Float[np.ndarray, "R B"],
) -> Float[np.ndarray, "R B"]:
    """Return a curve over steps at its last step that ends within each budget; NaN where none does.

    Of `incumbents`, the best error within each budget: an evaluation that ends past it does not count.
    """
    done = finished_within(cost_s, budgets_s)
    padded = np.concatenate([np.full((len(curve), 1), np.nan), curve], axis=1)
    return np.take_along_axis(padded, done, axis=1)

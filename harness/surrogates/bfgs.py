"""Minimisation in a box by BFGS that remembers curvature from one problem to the next.

The marginal likelihood changes little when an observation is added, so its last optimum and Hessian make a
few evaluations enough. Source: Nocedal and Wright 2006, equations 6.19 and 6.20, Armijo condition 3.4;
variables that press against the box are held, as in Bertsekas 1982.

A descent does not call its objective: it says where it wants it (`Descent`), so that the same one serves `minimise`
and a compiled loop around a compiled objective.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, no_type_check

import numpy as np
from jaxtyping import Float, Int

from harness.arrays import Theta
from harness.compile_cache import njit
from harness.surrogates.likelihood import solve_positive

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]

_ARMIJO = 1e-4
_LONGEST = 1.0  # of a first step in any coordinate; hyperparameters are logarithms, so a factor e
_BACKTRACKS = 6
_FLAT = 1e-8  # squared gradient below which a start without curvature counts as a minimum
_STEEP = 10.0  # largest gradient entry at a minimum, in units of the tolerance
_CURVED = 1e-6  # cosine between step and gradient change below which an update would spoil the Hessian


@dataclass(frozen=True)
class Minimum:
    """Where a descent ended: point, value, and the Hessian there (None if never learned)."""

    x: Theta
    value: float
    hessian: Float[np.ndarray, "t t"] | None


class Descent(NamedTuple):
    """A descent on its way: `advance` changes what the arrays hold.

    there: where the objective is wanted next. x, g, direction: the best point so far, its gradient, and the step from
    it that is tried. B: the Hessian. scalars: value at x, slope along the direction, length of the step that is tried.
    counts: whether B is to be used, steps left, backtracks left (-1 before the first value).
    """

    there: Theta
    x: Theta
    g: Theta
    direction: Theta
    B: Float[np.ndarray, "t t"]
    scalars: Float[np.ndarray, " 3"]
    counts: Int[np.ndarray, " 3"]
    low: Theta
    high: Theta
    tolerance: float

    @property
    def minimum(self) -> Minimum:
        """What has been found so far."""
        return Minimum(self.x, float(self.scalars[_VALUE]), self.B if self.counts[_KNOWN] else None)


_VALUE, _SLOPE, _LENGTH = range(3)
_KNOWN, _LEFT, _TRIES = range(3)


def descent(
    x: Theta,
    hessian: Float[np.ndarray, "t t"] | None,
    box: tuple[Theta, Theta],
    tolerance: float,
    iterations: int,
) -> Descent:
    """Return a descent in `box` that begins at `x`, with the Hessian there, None if it is not known.

    It stops where f is flat and the quadratic model promises less than `tolerance`, after `iterations` steps, or
    when no step along the gradient lowers f. The value found is never above f(x).
    """
    there, t = np.minimum(np.maximum(x, box[0]), box[1]), len(x)
    B = np.zeros((t, t)) if hessian is None else hessian.copy()
    counts = np.array([hessian is not None, iterations, -1])
    low, high = box
    return Descent(there, there.copy(), np.zeros(t), np.zeros(t), B, np.zeros(3), counts, low, high, tolerance)


def minimise(f: Objective, state: Descent) -> Minimum:
    """Minimise `f` (value and gradient) by a descent that has just begun (`descent`)."""
    while advance(*f(state.there.copy()), state):
        pass
    return state.minimum


@njit(cache=True, error_model="numpy")
@no_type_check
def advance(value, gradient, state):  # type: ignore[no-untyped-def]
    """Take in f and its gradient at `there`, and return whether it is wanted at the next."""
    scalars, counts = state.scalars, state.counts
    if counts[_TRIES] < 0:
        _arrive(value, gradient, state)
        return _set_out(state)
    change = state.there - state.x
    if value <= scalars[_VALUE] + _ARMIJO * _dot(state.g, change):
        counts[_KNOWN] = _update(state.B, counts[_KNOWN], change, gradient - state.g)
        _arrive(value, gradient, state)
        return _set_out(state)
    length, slope = scalars[_LENGTH], scalars[_SLOPE]
    excess = value - scalars[_VALUE] - length * slope
    best = -0.5 * slope * length * length / excess if excess > 0 else 0.5 * length
    scalars[_LENGTH] = min(max(best, 0.1 * length), 0.5 * length)
    counts[_TRIES] -= 1
    if counts[_TRIES] > 0:
        _place(state)
        return True
    if not counts[_KNOWN]:
        return False
    counts[_KNOWN] = 0  # the remembered curvature misleads: go on along the gradient
    return _set_out(state)


@njit(inline="always", error_model="numpy")
@no_type_check
def _arrive(value, gradient, state):  # type: ignore[no-untyped-def]
    """Make the point that was tried the best one."""
    state.x[:] = state.there
    state.g[:] = gradient
    state.scalars[_VALUE] = value


@njit(inline="always", error_model="numpy")
@no_type_check
def _set_out(state):  # type: ignore[no-untyped-def]
    """Put the first point of a new step into `there`; return False where there is no step to make."""
    scalars, counts, direction = state.scalars, state.counts, state.direction
    while counts[_LEFT] > 0:
        counts[_LEFT] -= 1
        promise, steepest = _aim(state.B, counts[_KNOWN] != 0, state.x, state.g, state.low, state.high, direction)
        if counts[_KNOWN]:  # a stale Hessian may promise too little: the slope must be small as well
            settled = 0.0 <= 0.5 * promise < state.tolerance and steepest < _STEEP * state.tolerance
        else:
            settled = promise < _FLAT
        if settled:
            return False
        if promise > 0:
            longest = np.abs(direction).max()
            scalars[_LENGTH], scalars[_SLOPE] = min(1.0, _LONGEST / longest), _dot(state.g, direction)
            counts[_TRIES] = _BACKTRACKS
            _place(state)
            return True
        if not counts[_KNOWN]:
            return False
        counts[_KNOWN] = 0
    return False


@njit(inline="always", error_model="numpy")
@no_type_check
def _place(state):  # type: ignore[no-untyped-def]
    """Put the point a length along the direction into `there`, projected to the box."""
    length = state.scalars[_LENGTH]
    for i in range(len(state.x)):
        moved = state.x[i] + length * state.direction[i]
        state.there[i] = np.minimum(np.maximum(moved, state.low[i]), state.high[i])


@njit(inline="always", error_model="numpy")
@no_type_check
def _dot(a, b):  # type: ignore[no-untyped-def]
    """Return sum a_i b_i, added in the order in which NumPy adds up to 128 numbers: eight sums at a time."""
    n, total = len(a), 0.0
    first = n - n % 8
    if first > 0:
        sums = np.zeros(8)
        for j in range(8):
            sums[j] = a[j] * b[j]
        for i in range(8, first, 8):
            for j in range(8):
                sums[j] += a[i + j] * b[i + j]
        total = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]))
    for i in range(first, n):
        total += a[i] * b[i]
    return total


@njit(inline="always", error_model="numpy")
@no_type_check
def _aim(B, known, x, g, low, high, direction):  # type: ignore[no-untyped-def]
    """Fill `direction` with the Newton step of the free variables, 0 of those held; without a usable B with minus g.

    Return promise = -g direction, and the largest |g| where the direction is not 0. `known`: whether B is to be used
    at all.
    """
    t = len(x)
    free = np.empty(t, np.intp)
    n = 0
    for i in range(t):
        if not ((x[i] <= low[i] and g[i] > 0.0) or (x[i] >= high[i] and g[i] < 0.0)):
            free[n] = i
            n += 1
    step = np.empty(n)
    for i in range(n):
        step[i] = -g[free[i]]
    A = np.empty((n, n))
    for i in range(n):
        for j in range(i + 1):
            A[i, j] = B[free[i], free[j]]
    if known and not solve_positive(A, step, np.empty((n, n))):
        for i in range(n):
            step[i] = -g[free[i]]
    promise, steepest = 0.0, 0.0
    direction[:] = 0.0
    for i in range(n):
        j = free[i]
        direction[j] = step[i]
        promise -= g[j] * step[i]
        if step[i] != 0.0:
            steepest = max(steepest, abs(g[j]))
    return promise, steepest


@njit(inline="always", error_model="numpy")
@no_type_check
def _update(B, known, s, y):  # type: ignore[no-untyped-def]
    """Make B the BFGS Hessian after step `s` and gradient change `y`, and return whether it is known.

    It stays as it is if s y is not positive.
    """
    t = len(s)
    sy, yy, ss = 0.0, 0.0, 0.0
    for i in range(t):
        sy, yy, ss = sy + s[i] * y[i], yy + y[i] * y[i], ss + s[i] * s[i]
    if sy <= _CURVED * np.sqrt(ss * yy):
        return known
    Bs, sBs = np.zeros(t), 0.0
    for i in range(t):
        for j in range(t):
            if not known:
                B[i, j] = yy / sy if i == j else 0.0
            Bs[i] += B[i, j] * s[j]
        sBs += s[i] * Bs[i]
    for i in range(t):
        for j in range(t):
            B[i, j] += y[i] * y[j] / sy - Bs[i] * Bs[j] / sBs
    return 1

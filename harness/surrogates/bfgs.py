"""Minimisation in a box by BFGS that remembers curvature from one problem to the next.

The marginal likelihood changes little when an observation is added, so its last optimum and Hessian make a
few evaluations enough. Source: Nocedal and Wright 2006, equations 6.19 and 6.20, Armijo condition 3.4;
variables that press against the box are held, as in Bertsekas 1982.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import no_type_check

import numpy as np
from jaxtyping import Float

from harness.arrays import Theta
from harness.compile_cache import njit
from harness.surrogates.likelihood import dot, solve_positive

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


def minimise(
    f: Objective,
    x: Theta,
    hessian: Float[np.ndarray, "t t"] | None,
    box: tuple[Theta, Theta],
    tolerance: float,
    iterations: int,
) -> Minimum:
    """Minimise `f` (value and gradient) in `box` from `x`.

    Stops where f is flat and the quadratic model promises less than `tolerance`, after `iterations` steps, or
    when no step along the gradient lowers f. The value returned is never above f(x).
    """
    low, high = box
    x = np.minimum(np.maximum(x, low), high)
    known = hessian is not None
    B = hessian if hessian is not None else np.zeros((len(x), len(x)))
    value, g = f(x)
    for _ in range(iterations):
        direction, promise, steepest = _direction(B, known, x, g, low, high)
        # a stale Hessian may promise too little: the slope must be small as well
        settled = 0.0 <= 0.5 * promise < tolerance and steepest < _STEEP * tolerance
        if settled if known else promise < _FLAT:
            break
        step = _search(f, x, value, g, direction, box) if promise > 0 else None
        if step is None and not known:
            break
        if step is None:
            known = False  # the remembered curvature misleads: go on along the gradient
            continue
        B, known = _update(B, known, step[0] - x, step[2] - g)
        x, value, g = step
    return Minimum(x, value, B if known else None)


@njit(cache=True, error_model="numpy")
@no_type_check
def _direction(B, known, x, g, low, high):  # type: ignore[no-untyped-def]
    """Return the Newton step of the free variables, the others held; without a usable B minus g.

    Also return promise = -g direction, and the largest |g| where the direction is not 0. `known`: whether B is
    to be used at all.
    """
    t = len(x)
    free = np.empty(t, np.intp)
    n = 0
    for i in range(t):
        if not ((x[i] <= low[i] and g[i] > 0.0) or (x[i] >= high[i] and g[i] < 0.0)):
            free[n] = i
            n += 1
    direction, step = np.zeros(t), np.empty(n)
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
    for i in range(n):
        j = free[i]
        direction[j] = step[i]
        promise -= g[j] * step[i]
        if step[i] != 0.0:
            steepest = max(steepest, abs(g[j]))
    return direction, promise, steepest


def _search(
    f: Objective, x: Theta, value: float, g: Theta, direction: Theta, box: tuple[Theta, Theta]
) -> tuple[Theta, float, Theta] | None:
    """Backtrack along the projected path to a sufficient decrease; None if there is none."""
    length = min(1.0, _LONGEST / float(np.abs(direction).max()))
    slope = dot(g, direction)
    for _ in range(_BACKTRACKS):
        there = np.minimum(np.maximum(x + length * direction, box[0]), box[1])
        new, gradient = f(there)
        if new <= value + _ARMIJO * dot(g, there - x):
            return there, new, gradient
        excess = new - value - length * slope
        best = -0.5 * slope * length * length / excess if excess > 0 else 0.5 * length
        length = min(max(best, 0.1 * length), 0.5 * length)
    return None


@njit(cache=True, error_model="numpy")
@no_type_check
def _update(B, known, s, y):  # type: ignore[no-untyped-def]
    """Return the BFGS Hessian after step `s` and gradient change `y`; unchanged if s y is not positive."""
    t = len(s)
    sy, yy, ss = 0.0, 0.0, 0.0
    for i in range(t):
        sy, yy, ss = sy + s[i] * y[i], yy + y[i] * y[i], ss + s[i] * s[i]
    if sy <= _CURVED * np.sqrt(ss * yy):
        return B, known
    new, Bs, sBs = np.zeros((t, t)), np.zeros(t), 0.0
    for i in range(t):
        for j in range(t):
            new[i, j] = B[i, j] if known else (yy / sy if i == j else 0.0)
            Bs[i] += new[i, j] * s[j]
        sBs += s[i] * Bs[i]
    for i in range(t):
        for j in range(t):
            new[i, j] += y[i] * y[j] / sy - Bs[i] * Bs[j] / sBs
    return new, True

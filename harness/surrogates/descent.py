"""Minimisation in a box by BFGS that remembers curvature from one problem to the next.

The marginal likelihood changes little when an observation is added, so its last optimum and Hessian make a
few evaluations enough. Source: Nocedal and Wright 2006, equations 6.19 and 6.20, Armijo condition 3.4;
variables that press against the box are held, as in Bertsekas 1982.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from scipy.linalg import lapack

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

    x: Float[np.ndarray, " t"]
    value: float
    hessian: Float[np.ndarray, "t t"] | None


def descend(
    f: Objective,
    x: Float[np.ndarray, " t"],
    hessian: Float[np.ndarray, "t t"] | None,
    box: tuple[Float[np.ndarray, " t"], Float[np.ndarray, " t"]],
    tolerance: float,
    iterations: int,
) -> Minimum:
    """Minimise `f` (value and gradient) in `box` from `x`.

    Stops where f is flat and the quadratic model promises less than `tolerance`, after `iterations` steps, or
    when no step along the gradient lowers f. The value returned is never above f(x).
    """
    x = np.clip(x, *box)
    B = hessian
    value, g = f(x)
    for _ in range(iterations):
        direction = _direction(B, g, ~(((x <= box[0]) & (g > 0)) | ((x >= box[1]) & (g < 0))))
        promise = -float(g @ direction)
        if B is None:
            done = promise < _FLAT
        else:  # a stale Hessian may promise too little: the slope must be small as well
            steepest = float(np.abs(np.where(direction == 0.0, 0.0, g)).max())
            done = 0.0 <= 0.5 * promise < tolerance and steepest < _STEEP * tolerance
        if done:
            break
        step = _search(f, x, value, g, direction, box) if promise > 0 else None
        if step is None and B is None:
            break
        if step is None:
            B = None  # the remembered curvature misleads: go on along the gradient
            continue
        B = _update(B, step[0] - x, step[2] - g)
        x, value, g = step
    return Minimum(x, value, B)


def _direction(
    B: Float[np.ndarray, "t t"] | None, g: Float[np.ndarray, " t"], free: Bool[np.ndarray, " t"]
) -> Float[np.ndarray, " t"]:
    """Return the Newton step of the free variables, the others held; without a usable B minus g."""
    direction = np.where(free, -g, 0.0)
    index = free.nonzero()[0]
    if B is not None and len(index):
        _, step, info = lapack.dposv(B[index[:, None], index], direction[index], lower=1)
        if info == 0:
            direction[index] = step
    return direction


def _search(
    f: Objective,
    x: Float[np.ndarray, " t"],
    value: float,
    g: Float[np.ndarray, " t"],
    direction: Float[np.ndarray, " t"],
    box: tuple[Float[np.ndarray, " t"], Float[np.ndarray, " t"]],
) -> tuple[Float[np.ndarray, " t"], float, Float[np.ndarray, " t"]] | None:
    """Backtrack along the projected path to a sufficient decrease; None if there is none."""
    length = min(1.0, _LONGEST / float(np.abs(direction).max()))
    slope = float(g @ direction)
    for _ in range(_BACKTRACKS):
        there = np.minimum(np.maximum(x + length * direction, box[0]), box[1])
        new, gradient = f(there)
        if new <= value + _ARMIJO * float(g @ (there - x)):
            return there, new, gradient
        excess = new - value - length * slope
        best = -0.5 * slope * length * length / excess if excess > 0 else 0.5 * length
        length = min(max(best, 0.1 * length), 0.5 * length)
    return None


def _update(
    B: Float[np.ndarray, "t t"] | None, s: Float[np.ndarray, " t"], y: Float[np.ndarray, " t"]
) -> Float[np.ndarray, "t t"] | None:
    """Return the BFGS Hessian after step `s` and gradient change `y`; unchanged if s y is not positive."""
    sy, yy = float(s @ y), float(y @ y)
    if sy <= _CURVED * float(np.sqrt((s @ s) * yy)):
        return B
    if B is None:
        B = np.eye(len(s)) * (yy / sy)
    Bs = B @ s
    return B - Bs[:, None] * (Bs / float(s @ Bs)) + y[:, None] * (y / sy)

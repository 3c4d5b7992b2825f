"""The Matern-5/2 kernel between two sets of points, for predictions of few points jointly."""

import numpy as np
from jaxtyping import Float


def matern(
    A: Float[np.ndarray, "a d"], B: Float[np.ndarray, "b d"], weight: Float[np.ndarray, " d"], signal: float
) -> Float[np.ndarray, "a b"]:
    """Return s2 (1 + r + r^2 / 3) exp(-r), r = |weight (a - b)|, weight = sqrt(5) / length-scale.

    Source: Rasmussen and Williams 2006, equation 4.17.
    """
    left, right = (A - 0.5) * weight, (B - 0.5) * weight
    square = np.square(left).sum(axis=1)[:, None] + np.square(right).sum(axis=1) - 2.0 * (left @ right.T)
    np.maximum(square, 0.0, out=square)
    r = np.sqrt(square)
    square *= 1.0 / 3.0
    square += 1.0
    square += r
    np.negative(r, out=r)
    np.exp(r, out=r)
    r *= signal
    r *= square
    return r

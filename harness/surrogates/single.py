"""A Gaussian process prediction in single precision, widened by what rounding may have done to it.

It serves to find the few candidates that are worth a prediction in double precision.
"""

import math
from typing import no_type_check

import numpy as np
from jaxtyping import Float

from harness.compiler import njit
from harness.surrogates.predict import Predictor
from harness.surrogates.workspace import Workspace

_UNIT = 2.0**-24  # rounding unit of single precision
_SAFETY = 4.0


class SinglePrecision:
    """Bounds of mean and sd, from all observations or, for the sd, from some of them.

    A: (n, d) observed points, centred and divided by the length-scales over sqrt(5). W: s2 times the inverse Cholesky
    factor of the first r observations, (r, r); a: s2 K^-1 z of all. Every kernel entry is off by a few units
    u = 2^-24, the more so the shorter the length-scales, and so is V = W k, in units of the sums of |W|; where r such
    errors add up at random rather than all one way, the explained variance |V|^2 / s2 is off by 2 u |sums| sqrt(s2)
    and the mean by 2 u sum |a|. The bounds allow for four times that: four to thirty times what is seen on the
    study's runs, which a test repeats, but no proof.
    """

    def __init__(
        self,
        A: Float[np.ndarray, "n d"],
        weight: Float[np.ndarray, " d"],
        W: Float[np.ndarray, "r r"],
        a: Float[np.ndarray, " n"],
        signal: float,
        space: Workspace,
    ) -> None:
        self._signal = signal
        self._predict = Predictor(A, weight, W, a, space, np.float32)
        self._mean_error, self._variance_error = rounding(weight, W, a, signal, _UNIT)

    def bounds(
        self, C: Float[np.ndarray, "m d"], added: float, location: tuple[float, float]
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return a lower bound of the mean and an upper bound > 0 of the sd, in units of y.

        added: to the latent variance. location: mean and sd of y.
        """
        mean, explained = self._predict(C)
        return widened(mean, explained, self._mean_error, self._signal, self._variance_error + added, *location)


def rounding(
    weight: Float[np.ndarray, " d"],
    W: Float[np.ndarray, "r r"],
    a: Float[np.ndarray, " n"],
    signal: float,
    unit: float,
) -> tuple[float, float]:
    """Return what mean and explained variance may be off by at this rounding unit, as `SinglePrecision` says."""
    unit *= _SAFETY * (2.0 + 0.1 * float(weight.max()))
    squares, total = _sums(W, a)
    return unit * total, unit * (math.sqrt(squares * signal) + signal)


@njit(cache=True, error_model="numpy")
@no_type_check
def _sums(W, a):  # type: ignore[no-untyped-def]
    """Return sum_i (sum_j |W_ij|)^2 of a lower triangle, and sum |a|."""
    squares, total = 0.0, 0.0
    for i in range(len(W)):
        row = 0.0
        for j in range(i + 1):
            row += abs(W[i, j])
        squares += row * row
    for value in a:
        total += abs(value)
    return squares, total


@njit(cache=True, error_model="numpy")
@no_type_check
def widened(mean, explained, mean_error, signal, added, mu, scale):  # type: ignore[no-untyped-def]
    """Return mu + scale (mean - its error) and scale sqrt(max(0, signal - explained) + added)."""
    low, high = np.empty(len(mean)), np.empty(len(mean))
    for i in range(len(mean)):
        low[i] = mu + scale * (np.float64(mean[i]) - mean_error)
        high[i] = scale * np.sqrt(max(signal - np.float64(explained[i]), 0.0) + added)
    return low, high

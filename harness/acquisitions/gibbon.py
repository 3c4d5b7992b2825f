"""GIBBON for one evaluation at a time: a lower bound of what a noisy observation tells about the lowest value."""

import math
from typing import ClassVar, no_type_check

import numpy as np
from jaxtyping import Float
from scipy.special import log_ndtr

from harness.acquisitions.mes import MaxValueEntropySearch, density_ratio, log_pdf
from harness.acquisitions.tails import ROWS, minus_log1m, ratios, sums
from harness.compiler import njit
from harness.elementary import log, log1p

_FAR = 25.0  # above it the reduction is so small that log1p(-x) = -x to rounding, and it would soon underflow
_MOST = 1.0 - 2.0**-53  # share of the variance that f* can take away


class Gibbon(MaxValueEntropySearch):
    """GIBBON(x) = -1/2 mean_k log(1 - rho^2 r (g + r)), r = psi(g) / Psi(g), g = (mu(x) - f*_k) / sd(x).

    rho^2 = sd^2 / (sd^2 + noise). The variance of the observation given f* is that of a truncated Gaussian plus noise;
    the entropy of a Gaussian of that variance bounds its entropy from above, so this bounds MES with noise from below.
    Source: Moss, Leslie, Gonzalez and Rayson 2021, "GIBBON: general-purpose information-based Bayesian optimisation",
    with batch size 1.
    """

    name: ClassVar[str] = "gibbon"

    def log_term(self, gap: Float[np.ndarray, "m k"], signal: Float[np.ndarray, "m 1"]) -> Float[np.ndarray, "m k"]:
        """Return log(-log(1 - rho^2 r (g + r)) / 2), rho^2 = `signal`."""
        near = np.minimum(gap, _FAR)
        r = density_ratio(gap)
        share = np.clip(signal * r * (near + r), 0.0, _MOST)
        exact = log(-0.5 * log1p(-share))
        if not (gap > _FAR).any():
            return exact
        log_r = log_pdf(gap) - log_ndtr(gap)
        far = log(0.5 * signal) + log_r + log(np.maximum(gap, _FAR))
        return np.where(gap > _FAR, far, exact)

    def totals(self, *parts: Float[np.ndarray, "_"]) -> Float[np.ndarray, " m"]:
        """Return the sums over k of the terms themselves (`tails.sums`)."""
        return _totals(*parts)  # type: ignore[no-any-return]


@njit(inline="always")
@no_type_check
def _reduction(g, signal, work):  # type: ignore[no-untyped-def]
    """Return the sum of -log(1 - rho^2 r (g + r)) / 2, rho^2 = `signal`."""
    n, largest, total = len(g), 0.0, 0.0
    share, ratio = work[ROWS + 1, :n], work[ROWS + 2, :n]
    ratios(g, work, ratio)
    for k in range(n):
        share[k] = min(max(signal * ratio[k] * (g[k] + ratio[k]), 0.0), _MOST)
        ratio[k] = minus_log1m(share[k])
    for k in range(n):
        largest = max(largest, share[k])
    if largest > 0.5:
        for k in range(n):
            if share[k] > 0.5:
                ratio[k] = -math.log1p(-share[k])
    for k in range(n):
        total += 0.5 * ratio[k]
    return total


@njit(cache=True, error_model="numpy")
@no_type_check
def _totals(mean, sd, signal, lowest):  # type: ignore[no-untyped-def]
    return sums(_reduction, mean, sd, signal, lowest)

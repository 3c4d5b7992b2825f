"""GIBBON for one evaluation at a time: a lower bound of what a noisy observation tells about the lowest value."""

from typing import ClassVar

import numpy as np
from jaxtyping import Float
from scipy.special import log_ndtr

from harness.acquisitions.mes import MaxValueEntropySearch, log_pdf

_FAR = 25.0  # above it the reduction is so small that log1p(-x) = -x to rounding, and it would soon underflow


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
        log_r = log_pdf(gap) - log_ndtr(gap)
        near = np.minimum(gap, _FAR)
        r = np.exp(log_r)
        share = np.clip(signal * r * (near + r), 0.0, 1.0 - 2.0**-53)
        with np.errstate(divide="ignore"):
            exact = np.log(-0.5 * np.log1p(-share))
        if not (gap > _FAR).any():
            return exact
        far = np.log(0.5 * signal) + log_r + np.log(np.maximum(gap, _FAR))
        return np.where(gap > _FAR, far, exact)

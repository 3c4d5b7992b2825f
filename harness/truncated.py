"""The normal distribution truncated below: what is believed of a value of which only a lower bound is known.

Notation: v ~ N(mu, s^2) given v >= a; alpha = (a - mu) / s; Phi, phi the standard normal's distribution and density.
Source: Johnson, Kotz and Balakrishnan 1994, section 13.10.1 (moments). All in logs or in scaled functions, since
bounds lie many sd out: Phi(-alpha) underflows from alpha = 38 on.
"""

import math

import numpy as np
from jaxtyping import Float
from scipy.special import erfcx, log_ndtr, ndtri_exp

from harness.elementary import log1p

_FAR = 30.0  # sd: beyond, the moments' brackets cancel and their asymptotic series are exact to 1e-9


def quantile(
    q: Float[np.ndarray, " n"],
    mu: Float[np.ndarray, " n"],
    sd: Float[np.ndarray, " n"],
    bound: Float[np.ndarray, " n"],
) -> Float[np.ndarray, " n"]:
    """Return v with P(v' <= v | v' >= a) = q, 0 < q < 1: mu - s Phi^-1((1 - q) Phi(-alpha)); never below `bound`.

    Raises ValueError for an sd that is not positive or a q outside (0, 1).
    """
    q = np.asarray(q, dtype=np.float64)
    if not ((q > 0.0) & (q < 1.0)).all():
        raise ValueError("quantiles must lie inside (0, 1)")
    alpha = _standard(mu, sd, bound)
    tail = log1p(-q) + log_ndtr(-alpha)
    return np.maximum(mu - sd * ndtri_exp(tail), bound)


def mean_variance(
    mu: Float[np.ndarray, " n"], sd: Float[np.ndarray, " n"], bound: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Return E[v] = mu + s h and Var[v] = s^2 (1 + alpha h - h^2), h = phi(alpha) / Phi(-alpha), the hazard.

    The mean is never below `bound`, the variance positive. Raises ValueError for an sd that is not positive.
    """
    alpha = _standard(mu, sd, bound)
    near = np.minimum(alpha, _FAR)
    hazard = math.sqrt(2.0 / math.pi) / erfcx(near / math.sqrt(2.0))
    excess, share = hazard - near, 1.0 + near * hazard - hazard * hazard
    far = alpha > _FAR
    if far.any():
        w = 1.0 / np.square(alpha[far])
        excess[far] = (1.0 - w * (2.0 - w * (10.0 - 74.0 * w))) / alpha[far]
        share[far] = w * (1.0 - w * (6.0 - w * (50.0 - 518.0 * w)))
    mean = np.where(far, bound + sd * excess, mu + sd * hazard)
    return np.maximum(mean, bound), np.square(sd) * share


def _standard(
    mu: Float[np.ndarray, " n"], sd: Float[np.ndarray, " n"], bound: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    if not (np.asarray(sd) > 0.0).all():
        raise ValueError("the sd of a truncated normal distribution must be positive")
    return np.asarray((bound - mu) / sd, dtype=np.float64)

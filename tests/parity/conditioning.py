"""How far rounding moves what a Gaussian process says: estimates of first order, from the conditioning of K.

Notation: n observations z, K = k(X, X) + v I with signal variance s2, k = k(c), u = 2^-53. A Cholesky factorisation
solves with K + dK, |dK| <= n u |K| (Higham 2002, theorem 10.3), and typically sqrt(n) u |K|, since errors of either
sign add up (Higham and Mary 2019); entries of K are exact to a few u. With kappa = |K| / least eigenvalue, e =
sqrt(n) ENTRY u kappa, and k^T K^-1 k <= s2,

    |k^T K^-1 dK K^-1 z| <= e sqrt(s2 z^T K^-1 z)     of the mean,
    |k^T K^-1 dK K^-1 k| <= e s2                      of the variance,
    e (z^T K^-1 z + n) / 2                            of log p, and a few u of each of its terms.

Predictions take squared distances from products (|a|^2 + |b|^2 - 2 ab), so that the entries of k are exact to dk = s2 u
times the square of the farthest point's distance from the centre, in length-scales, which adds

    sqrt(n) dk sqrt(z^T K^-1 z / v)     and     2 sqrt(n) dk sqrt(s2 / v).
"""

from typing import NamedTuple

import numpy as np

UNIT = 2.0**-53
ENTRY = 8.0  # units of rounding in an entry of K: a sum, a root, an exponential and a polynomial
FLOOR = 1e-14  # of s2: a variance is never said to be lower


class Rounding(NamedTuple):
    """How far off a mean and a variance at any point and log p may be, on standardised z; and kappa."""

    mean: float
    variance: float
    lml: float
    kappa: float


def rounding(X: np.ndarray, z: np.ndarray, theta: np.ndarray, C: np.ndarray) -> Rounding:
    """Return the estimates at theta = (log l_1 .. log l_d, or one log l for all, log s2, log v), predicting at `C`."""
    lengths, signal, noise = np.exp(theta[:-2]), float(np.exp(theta[-2])), float(np.exp(theta[-1]))
    A, n = np.sqrt(5.0) * (X - 0.5) / lengths, len(X)
    far = 5.0 * np.square((np.vstack([X, C]) - 0.5) / lengths).sum(axis=1).max()
    r = np.sqrt(np.square(A[:, None] - A[None]).sum(axis=2))
    values, vectors = np.linalg.eigh(signal * (1 + r + r * r / 3) * np.exp(-r) + noise * np.eye(n))
    values = np.maximum(values, noise)  # none is lower, but for rounding
    fit, kappa = float(np.square(vectors.T @ z) @ (1 / values)), float(values[-1] / values[0])
    e, dk = np.sqrt(n) * ENTRY * UNIT * kappa, signal * UNIT * far
    mean = e * np.sqrt(signal * fit) + np.sqrt(n) * dk * np.sqrt(fit / noise)
    variance = (e + FLOOR) * signal + 2 * np.sqrt(n) * dk * np.sqrt(signal / noise)
    terms = fit + n * np.log(2 * np.pi) + np.abs(np.log(values)).sum()
    return Rounding(float(mean), float(variance), float(e * (fit + n) / 2 + ENTRY * UNIT * terms), kappa)

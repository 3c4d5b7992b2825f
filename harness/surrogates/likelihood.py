"""Log marginal likelihood of a Matern-5/2 Gaussian process, with its gradient.

Notation: n observations z; p length-scales (p = d with ARD, 1 without); q = n (n - 1) / 2 pairs i > j;
theta = (log l_1 .. log l_p, log s2, log v): length-scales, signal variance, noise variance;
r_ij = sqrt(5 sum_k (x_ik - x_jk)^2 / l_k^2);  k(r) = s2 (1 + r + r^2 / 3) exp(-r);  K = k + v I = L L^T.
Source: Rasmussen and Williams 2006, equations 2.30, 4.17, 5.8 and 5.9.
"""

import math

import numpy as np
from jaxtyping import Float
from scipy.linalg import blas, lapack

from harness.surrogates.pairs import Pairs

_LOG_2PI = math.log(2.0 * math.pi)
_JITTERS = (0.0, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2)  # of s2 + v, tried in turn where K is not positive definite


class Likelihood:
    """-log p(z | theta) as a function of theta, at the points of `pairs`; its buffers serve one caller."""

    def __init__(self, pairs: Pairs, z: Float[np.ndarray, " n"]) -> None:
        self._squared, self._flat, self._z = pairs.squared, pairs.flat, z
        self._memory = np.empty(pairs.n * pairs.n)
        self._matrix = self._memory.reshape(pairs.n, pairs.n).T  # Fortran order, on the same memory

    def __call__(self, theta: Float[np.ndarray, " t"]) -> tuple[float, Float[np.ndarray, " t"]]:
        """Return -log p = (z^T a + log |K| + n log 2 pi) / 2, a = K^-1 z, and its gradient.

        d(-log p) / d theta = tr(G dK / d theta) / 2 with G = K^-1 - a a^T, and
        dk / d log l_k = s2 (1 + r) exp(-r) (5 / 3) (x_ik - x_jk)^2 / l_k^2.
        """
        n, z, noise = len(self._z), self._z, math.exp(theta[-1])
        L, slope, w = self._factor(theta)
        a = lapack.dpotrs(L, z, lower=1)[0]
        fit, half_log_det = float(z @ a), float(np.log(L.diagonal()).sum())
        lapack.dpotri(L, lower=1, overwrite_c=1)
        blas.dsyr(-1.0, a, lower=1, a=L, overwrite_a=1)
        G = self._memory[self._flat]
        G *= slope
        gradient = np.empty(len(theta))
        gradient[:-2] = (self._squared @ G) * w * (1.0 / 3.0)
        gradient[-1] = 0.5 * noise * float(self._memory[:: n + 1].sum())
        gradient[-2] = 0.5 * (n - fit) - gradient[-1]  # K = k + v I and tr(G K) = n - z^T a
        return 0.5 * fit + half_log_det + 0.5 * n * _LOG_2PI, gradient

    def cholesky(self, theta: Float[np.ndarray, " t"]) -> Float[np.ndarray, "n n"]:
        """Return L, undefined above the diagonal; the next call overwrites it."""
        return self._factor(theta)[0]

    def _factor(
        self, theta: Float[np.ndarray, " t"]
    ) -> tuple[Float[np.ndarray, "n n"], Float[np.ndarray, " q"], Float[np.ndarray, " p"]]:
        """Return L, s2 (1 + r) exp(-r) of the pairs, and 5 / l^2."""
        w = 5.0 * np.exp(-2.0 * theta[:-2])
        signal, noise = math.exp(theta[-2]), math.exp(theta[-1])
        third = w @ self._squared
        r = np.sqrt(third)
        decay = np.exp(-r)
        decay *= signal
        r += 1.0
        third *= 1.0 / 3.0
        third += r
        third *= decay
        r *= decay
        for jitter in _JITTERS:
            self._memory[self._flat] = third
            self._memory[:: len(self._z) + 1] = (signal + noise) * (1.0 + jitter)
            L, info = lapack.dpotrf(self._matrix, lower=1, clean=0, overwrite_a=1)
            if info == 0:
                return L, r, w
        raise FloatingPointError("the kernel matrix is not positive definite, even with jitter 1e-2")

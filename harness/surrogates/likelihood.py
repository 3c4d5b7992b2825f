"""Log marginal likelihood of a Matern-5/2 Gaussian process, with its gradient.

Notation: n observations z; p length-scales (p = d with ARD, 1 without); q = n (n - 1) / 2 pairs i > j;
theta = (log l_1 .. log l_p, log s2, log v): length-scales, signal variance, noise variance;
r_ij = sqrt(5 sum_k (x_ik - x_jk)^2 / l_k^2);  k(r) = s2 (1 + r + r^2 / 3) exp(-r);  K = k + v I = L L^T.
Source: Rasmussen and Williams 2006, equations 2.30, 4.17, 5.8 and 5.9.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import blas, lapack

from harness.surrogates.pairs import Pairs

LOG_2PI = math.log(2.0 * math.pi)
JITTERS = (0.0, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2)  # of s2 + v, tried in turn where K is not positive definite
_WHOLE = 64  # a triangle wider than this is inverted by halves


class Solution(NamedTuple):
    """W = L^-1 (lower, zeros above), a = K^-1 z and the sum of log L_ii, at some theta."""

    inverse: Float[np.ndarray, "n n"]
    a: Float[np.ndarray, " n"]
    half_log_det: float


class Likelihood:
    """-log p(z | theta) as a function of theta, at the points of `pairs`; its buffers serve one caller."""

    def __init__(self, pairs: Pairs, z: Float[np.ndarray, " n"]) -> None:
        n = pairs.n
        self._squared, self._flat, self._z = pairs.squared, pairs.flat, z
        self._memory = np.empty(n * n)
        self._matrix = self._memory.reshape(n, n).T  # Fortran order, on the same memory
        self._solved: tuple[bytes, Solution] | None = None

    def __call__(self, theta: Float[np.ndarray, " t"]) -> tuple[float, Float[np.ndarray, " t"]]:
        """Return -log p = (z^T a + log |K| + n log 2 pi) / 2, a = K^-1 z, and its gradient.

        d(-log p) / d theta = tr(G dK / d theta) / 2 with G = K^-1 - a a^T, and
        dk / d log l_k = s2 (1 + r) exp(-r) (5 / 3) (x_ik - x_jk)^2 / l_k^2.
        """
        n, noise = len(self._z), math.exp(theta[-1])
        (W, a, half_log_det), slope, w = self._solve(theta)
        fit = float(self._z @ a)
        self._matrix[...] = W
        lapack.dlauum(self._matrix, lower=1, overwrite_c=1)  # K^-1 = W^T W
        blas.dsyr(-1.0, a, lower=1, a=self._matrix, overwrite_a=1)
        G = self._memory[self._flat]
        G *= slope
        gradient = np.empty(len(theta))
        gradient[:-2] = (self._squared @ G) * w * (1.0 / 3.0)
        gradient[-1] = 0.5 * noise * float(self._memory[:: n + 1].sum())
        gradient[-2] = 0.5 * (n - fit) - gradient[-1]  # K = k + v I and tr(G K) = n - z^T a
        return 0.5 * fit + half_log_det + 0.5 * n * LOG_2PI, gradient

    def solution(self, theta: Float[np.ndarray, " t"]) -> Solution:
        """Return W and a at `theta`, at no cost where the last call was."""
        if self._solved is not None and self._solved[0] == theta.tobytes():
            return self._solved[1]
        return self._solve(theta)[0]

    def _solve(
        self, theta: Float[np.ndarray, " t"]
    ) -> tuple[Solution, Float[np.ndarray, " q"], Float[np.ndarray, " p"]]:
        """Return the solution, s2 (1 + r) exp(-r) of the pairs, and 5 / l^2."""
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
        L = self._factor(third, signal + noise)
        half_log_det = float(np.log(L.diagonal()).sum())
        a = lapack.dpotrs(L, self._z, lower=1)[0]
        found = Solution(invert_triangle(L), a, half_log_det)
        self._solved = theta.tobytes(), found
        return found, r, w

    def _factor(self, kernel: Float[np.ndarray, " q"], diagonal: float) -> Float[np.ndarray, "n n"]:
        for jitter in JITTERS:
            self._memory[self._flat] = kernel
            self._memory[:: len(self._z) + 1] = diagonal * (1.0 + jitter)
            L, info = lapack.dpotrf(self._matrix, lower=1, clean=1, overwrite_a=1)
            if info == 0:
                return L
        raise FloatingPointError("the kernel matrix is not positive definite, even with jitter 1e-2")


def invert_triangle(L: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    """Return the inverse of a lower triangular matrix (zeros above the diagonal).

    [[A, 0], [B, C]]^-1 = [[A^-1, 0], [-C^-1 B A^-1, C^-1]]: by halves, the work is matrix products, which the
    LAPACK routine for whole triangles does at half their speed.
    """
    n = len(L)
    if n <= _WHOLE:
        return lapack.dtrtri(L, lower=1)[0]
    h = n // 2
    out = np.zeros((n, n), order="F")
    out[:h, :h], out[h:, h:] = invert_triangle(L[:h, :h]), invert_triangle(L[h:, h:])
    np.matmul(out[h:, h:], L[h:, :h] @ out[:h, :h], out=out[h:, :h])
    np.negative(out[h:, :h], out=out[h:, :h])
    return out

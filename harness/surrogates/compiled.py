"""The log marginal likelihood in one compiled loop nest, for the sizes at which LAPACK calls cost more than work.

Same quantities and notation as in `harness.surrogates.likelihood`, which is its reference in the tests and takes
over for large n, where LAPACK is faster.
"""

from typing import no_type_check

import numpy as np
from jaxtyping import Float
from numba import njit

from harness.surrogates.kernels import exp_minus
from harness.surrogates.likelihood import JITTERS, LOG_2PI, Solution
from harness.surrogates.pairs import Pairs
from harness.surrogates.workspace import Workspace

LARGEST = 160  # observations; beyond, LAPACK's blocked routines win


class CompiledLikelihood:
    """-log p(z | theta) and its gradient, as `Likelihood` gives them; `space` holds its buffers."""

    def __init__(self, pairs: Pairs, z: Float[np.ndarray, " n"], space: Workspace) -> None:
        n = pairs.n
        self._squared, self._z = pairs.memory, z
        self._A, self._W = space.take("A", (n, n)), space.take("W", (n, n))
        self._slope, self._a = space.take("slope", (n * (n - 1) // 2,)), np.empty(n)
        self._row = space.take("row", (n,))
        self._solved: tuple[bytes, Solution] | None = None

    def __call__(self, theta: Float[np.ndarray, " t"]) -> tuple[float, Float[np.ndarray, " t"]]:
        """Return -log p(z | theta) and its gradient."""
        gradient = np.empty(len(theta))
        positive, value, half_log_det = _evaluate(
            theta, self._squared, self._z, _JITTERS, self._A, self._W, self._a, self._slope, self._row, gradient,
        )  # fmt: skip
        if not positive:
            raise FloatingPointError("the kernel matrix is not positive definite, even with jitter 1e-2")
        self._solved = theta.tobytes(), Solution(self._W, self._a, half_log_det)
        return value, gradient

    def solution(self, theta: Float[np.ndarray, " t"]) -> Solution:
        """Return W and a at `theta`, at no cost where the last call was; the next call overwrites them."""
        if self._solved is None or self._solved[0] != theta.tobytes():
            self(theta)
        assert self._solved is not None
        return self._solved[1]


_JITTERS = np.array(JITTERS)


@njit(cache=True, fastmath=True, error_model="numpy")
@no_type_check
def _evaluate(
    theta: Float[np.ndarray, " t"],
    squared: Float[np.ndarray, "p s"],
    z: Float[np.ndarray, " n"],
    jitters: Float[np.ndarray, " j"],
    A: Float[np.ndarray, "n n"],
    W: Float[np.ndarray, "n n"],
    a: Float[np.ndarray, " n"],
    slope: Float[np.ndarray, " q"],
    space: Float[np.ndarray, " n"],
    gradient: Float[np.ndarray, " t"],
) -> tuple[bool, float, float]:
    """Fill W, a and `gradient`; return whether some jitter was enough, -log p and the sum of log L_ii."""
    n, p = len(z), len(theta) - 2
    weights, signal, noise = 5.0 * np.exp(-2.0 * theta[:p]), np.exp(theta[p]), np.exp(theta[p + 1])
    positive = False
    for jitter in jitters:
        _kernel(squared, weights, signal, (signal + noise) * (1.0 + jitter), A, slope, space)
        positive = _cholesky(A)
        if positive:
            break
    if not positive:
        return False, 0.0, 0.0
    half_log_det = 0.0
    for i in range(n):
        half_log_det += np.log(A[i, i])
    invert(A, W)
    a[:] = 0.0
    for i in range(n):
        row, value = W[i], 0.0
        for j in range(i + 1):
            value += row[j] * z[j]
        for j in range(i + 1):
            a[j] += value * row[j]
    fit = 0.0
    for i in range(n):
        fit += z[i] * a[i]
    trace = _slopes(W, a, squared, slope, space, gradient)
    for k in range(p):
        gradient[k] *= weights[k] / 3.0
    gradient[p + 1] = 0.5 * noise * trace
    gradient[p] = 0.5 * (n - fit) - gradient[p + 1]  # K = k + v I and tr(G K) = n - z^T a
    return True, 0.5 * fit + half_log_det + 0.5 * n * LOG_2PI, half_log_det


@njit(inline="always", fastmath=True, error_model="numpy")
@no_type_check
def _kernel(squared, weights, signal, diagonal, A, slope, r):  # type: ignore[no-untyped-def]
    """Put K into the lower triangle of A and s2 (1 + r) exp(-r) of the pairs into `slope`."""
    for i in range(len(A)):
        first = i * (i - 1) // 2
        row, part = A[i], slope[first : first + i]
        for j in range(i):
            part[j] = 0.0
        for k in range(len(weights)):
            weight, column = weights[k], squared[k, first : first + i]
            for j in range(i):
                part[j] += weight * column[j]
        for j in range(i):
            r[j] = np.sqrt(part[j])
        exp_minus(r[:i], row[:i])
        for j in range(i):
            decay = signal * row[j]
            row[j] = (1.0 + r[j] + part[j] * (1.0 / 3.0)) * decay
            part[j] = (1.0 + r[j]) * decay
        row[i] = diagonal


@njit(inline="always", fastmath=True, error_model="numpy")
@no_type_check
def _cholesky(A):  # type: ignore[no-untyped-def]
    """Replace the lower triangle of A by that of L, A = L L^T; return whether A is positive definite."""
    for i in range(len(A)):
        row = A[i]
        for j in range(i):
            other, value = A[j], row[j]
            for k in range(j):
                value -= row[k] * other[k]
            row[j] = value / other[j]
        value = row[i]
        for k in range(i):
            value -= row[k] * row[k]
        if not value > 0.0:
            return False
        row[i] = np.sqrt(value)
    return True


@njit(inline="always", fastmath=True, error_model="numpy")
@no_type_check
def invert(L, W):  # type: ignore[no-untyped-def]
    """Put L^-1 into W, zeros above the diagonal; rows of W are subtracted four at a time."""
    n = len(L)
    for i in range(n):
        row = W[i]
        row[:] = 0.0
        k = 0
        while k + 4 <= i:
            c0, c1, c2, c3 = L[i, k], L[i, k + 1], L[i, k + 2], L[i, k + 3]
            w0, w1, w2, w3 = W[k], W[k + 1], W[k + 2], W[k + 3]
            for j in range(k + 4):
                row[j] -= c0 * w0[j] + c1 * w1[j] + c2 * w2[j] + c3 * w3[j]
            k += 4
        for m in range(k, i):
            c, w = L[i, m], W[m]
            for j in range(m + 1):
                row[j] -= c * w[j]
        scale = 1.0 / L[i, i]
        for j in range(i):
            row[j] *= scale
        row[i] = scale


@njit(inline="always", fastmath=True, error_model="numpy")
@no_type_check
def _slopes(W, a, squared, slope, row, gradient):  # type: ignore[no-untyped-def]
    """Put the sums of G_ij slope_ij squared_kij over i > j into `gradient`; return tr G, G = W^T W - a a^T."""
    n, p = len(a), len(gradient) - 2
    gradient[:] = 0.0
    trace = 0.0
    for i in range(n):
        for j in range(i + 1):
            row[j] = -a[i] * a[j]
        k = i
        while k + 4 <= n:
            c0, c1, c2, c3 = W[k, i], W[k + 1, i], W[k + 2, i], W[k + 3, i]
            w0, w1, w2, w3 = W[k], W[k + 1], W[k + 2], W[k + 3]
            for j in range(i + 1):
                row[j] += c0 * w0[j] + c1 * w1[j] + c2 * w2[j] + c3 * w3[j]
            k += 4
        for m in range(k, n):
            c, w = W[m, i], W[m]
            for j in range(i + 1):
                row[j] += c * w[j]
        trace += row[i]
        first = i * (i - 1) // 2
        part = slope[first : first + i]
        for j in range(i):
            row[j] *= part[j]
        for k in range(p):
            column, total = squared[k, first : first + i], 0.0
            for j in range(i):
                total += row[j] * column[j]
            gradient[k] += total
    return trace

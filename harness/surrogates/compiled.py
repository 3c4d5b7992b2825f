"""The log marginal likelihood in one compiled loop nest, without BLAS or LAPACK.

Same quantities and notation as in `harness.surrogates.likelihood`, which is its reference in the tests. The order of
every sum is fixed, so that the same digits come out on every processor.
"""

from typing import no_type_check

import numpy as np
from jaxtyping import Float

from harness.compiler import njit
from harness.surrogates.kernels import SQUARE_COLUMNS, SQUARE_ROWS, exp_minus, fma, subtract_product
from harness.surrogates.likelihood import JITTERS, LOG_2PI, Solution
from harness.surrogates.pairs import Pairs
from harness.surrogates.triangles import cholesky, invert, pad, padded
from harness.surrogates.workspace import Workspace


class CompiledLikelihood:
    """-log p(z | theta) and its gradient, as `Likelihood` gives them; `space` holds its buffers."""

    def __init__(self, pairs: Pairs, z: Float[np.ndarray, " n"], space: Workspace) -> None:
        n, p = pairs.n, len(pairs.memory)
        size = padded(n)
        self._squared, self._z = pairs.memory, z
        self._A, self._W = space.take("A", (size, size)), space.take("W", (size, size))
        self._slope, self._a = space.take("slope", (n * (n - 1) // 2,)), np.empty(n)
        self._rows = space.take("rows", (SQUARE_ROWS + p, size))
        self._solved: tuple[bytes, Solution] | None = None

    def __call__(self, theta: Float[np.ndarray, " t"]) -> tuple[float, Float[np.ndarray, " t"]]:
        """Return -log p(z | theta) and its gradient."""
        gradient, n = np.empty(len(theta)), len(self._z)
        positive, value, half_log_det = _evaluate(
            theta, self._squared, self._z, _JITTERS, self._A, self._W, self._a, self._slope, self._rows, gradient,
        )  # fmt: skip
        if not positive:
            raise FloatingPointError("the kernel matrix is not positive definite, even with jitter 1e-2")
        self._solved = theta.tobytes(), Solution(self._W[:n, :n], self._a, half_log_det)
        return value, gradient

    def solution(self, theta: Float[np.ndarray, " t"]) -> Solution:
        """Return W and a at `theta`, at no cost where the last call was; the next call overwrites them."""
        if self._solved is None or self._solved[0] != theta.tobytes():
            self(theta)
        assert self._solved is not None
        return self._solved[1]


_JITTERS = np.array(JITTERS)


@njit(cache=True, error_model="numpy")
@no_type_check
def _evaluate(
    theta: Float[np.ndarray, " t"],
    squared: Float[np.ndarray, "p s"],
    z: Float[np.ndarray, " n"],
    jitters: Float[np.ndarray, " j"],
    A: Float[np.ndarray, "m m"],
    W: Float[np.ndarray, "m m"],
    a: Float[np.ndarray, " n"],
    slope: Float[np.ndarray, " q"],
    rows: Float[np.ndarray, "r m"],
    gradient: Float[np.ndarray, " t"],
) -> tuple[bool, float, float]:
    """Fill W, a and `gradient`; return whether some jitter was enough, -log p and the sum of log L_ii."""
    n, p = len(z), len(theta) - 2
    weights, signal, noise = 5.0 * np.exp(-2.0 * theta[:p]), np.exp(theta[p]), np.exp(theta[p + 1])
    positive = False
    for jitter in jitters:
        _kernel(squared, weights, signal, (signal + noise) * (1.0 + jitter), n, A, slope, rows[0], rows[1])
        positive = cholesky(A)
        if positive:
            break
    if not positive:
        return False, 0.0, 0.0
    half_log_det = 0.0
    for i in range(n):
        half_log_det += np.log(A[i, i])
    invert(A, W)
    fit, whitened = 0.0, rows[0]  # L^-1 z, by forward substitution
    for i in range(n):
        whitened[i] = z[i]
    a[:] = 0.0
    for i in range(n):
        value = whitened[i] / A[i, i]
        fit += value * value
        after, row = A[i], W[i]
        for j in range(i + 1, n):
            whitened[j] = fma(-value, after[j], whitened[j])
        for j in range(i + 1):
            a[j] = fma(value, row[j], a[j])
    trace = _slopes(W, a, squared, slope, rows[:SQUARE_ROWS], rows[SQUARE_ROWS:], gradient)
    for k in range(p):
        gradient[k] *= weights[k] / 3.0
    gradient[p + 1] = 0.5 * noise * trace
    gradient[p] = 0.5 * (n - fit) - gradient[p + 1]  # K = k + v I and tr(G K) = n - z^T a
    return True, 0.5 * fit + half_log_det + 0.5 * n * LOG_2PI, half_log_det


@njit(inline="always", error_model="numpy")
@no_type_check
def _kernel(squared, weights, signal, diagonal, n, A, slope, r, decay):  # type: ignore[no-untyped-def]
    """Put K into the upper triangle of A, padded, and s2 (1 + r) exp(-r) of the pairs into `slope`."""
    for i in range(n):
        first = i * (i - 1) // 2
        part = slope[first : first + i]
        for j in range(i):
            part[j] = 0.0
        for k in range(len(weights)):
            weight, column = weights[k], squared[k, first : first + i]
            for j in range(i):
                part[j] = fma(weight, column[j], part[j])
        for j in range(i):
            r[j] = np.sqrt(part[j])
        exp_minus(r[:i], decay[:i])
        for j in range(i):
            scaled, rise = signal * decay[j], 1.0 + r[j]
            decay[j] = fma(part[j], 1.0 / 3.0, rise) * scaled
            part[j] = rise * scaled
        for j in range(i):
            A[j, i] = decay[j]
        A[i, i] = diagonal
    pad(A, n)


@njit(inline="always", error_model="numpy")
@no_type_check
def _slopes(W, a, squared, slope, rows, totals, gradient):  # type: ignore[no-untyped-def]
    """Put the sums of G_ij slope_ij squared_kij over i > j into `gradient`; return tr G, G = W^T W - a a^T.

    Sums over i come first, for each k and j a row of `totals`.
    """
    n, size, trace = len(a), len(W), 0.0
    totals[:, :] = 0.0
    for top in range(0, n, SQUARE_ROWS):
        rows[:, :] = 0.0
        for place in range(0, top + SQUARE_ROWS, SQUARE_COLUMNS):
            subtract_product(W, top, top, size, W, place, rows, 0)
        for i in range(top, min(top + SQUARE_ROWS, n)):
            row, first = rows[i - top], i * (i - 1) // 2
            part = slope[first : first + i]
            for j in range(i + 1):
                row[j] = -fma(a[i], a[j], row[j])
            trace += row[i]
            for j in range(i):
                row[j] *= part[j]
            for k in range(len(totals)):
                total, column = totals[k], squared[k, first : first + i]
                for j in range(i):
                    total[j] = fma(row[j], column[j], total[j])
    for k in range(len(totals)):
        gradient[k] = 0.0
        for j in range(n):
            gradient[k] += totals[k, j]
    return trace

"""The log marginal likelihood in one compiled loop nest, for the sizes at which LAPACK calls cost more than work.

Same quantities and notation as in `harness.surrogates.likelihood`, which is its reference in the tests and takes
over for large n, where LAPACK is faster.
"""

from typing import no_type_check

import numpy as np
from jaxtyping import Float

from harness.compiler import njit
from harness.surrogates.kernels import exp_minus
from harness.surrogates.likelihood import JITTERS, LOG_2PI, Solution
from harness.surrogates.pairs import Pairs
from harness.surrogates.triangles import cholesky, invert
from harness.surrogates.workspace import Workspace

LARGEST = 160  # observations; beyond, LAPACK's blocked routines win


class CompiledLikelihood:
    """-log p(z | theta) and its gradient, as `Likelihood` gives them; `space` holds its buffers."""

    def __init__(self, pairs: Pairs, z: Float[np.ndarray, " n"], space: Workspace) -> None:
        n = pairs.n
        self._squared, self._z = pairs.memory, z
        self._A, self._W = space.take("A", (n, n)), space.take("W", (n, n))
        self._slope, self._a = space.take("slope", (n * (n - 1) // 2,)), np.empty(n)
        self._rows = space.take("rows", (2, n))
        self._solved: tuple[bytes, Solution] | None = None

    def __call__(self, theta: Float[np.ndarray, " t"]) -> tuple[float, Float[np.ndarray, " t"]]:
        """Return -log p(z | theta) and its gradient."""
        gradient = np.empty(len(theta))
        positive, value, half_log_det = _evaluate(
            theta, self._squared, self._z, _JITTERS, self._A, self._W, self._a, self._slope, self._rows, gradient,
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
    rows: Float[np.ndarray, "2 n"],
    gradient: Float[np.ndarray, " t"],
) -> tuple[bool, float, float]:
    """Fill W, a and `gradient`; return whether some jitter was enough, -log p and the sum of log L_ii."""
    n, p = len(z), len(theta) - 2
    weights, signal, noise = 5.0 * np.exp(-2.0 * theta[:p]), np.exp(theta[p]), np.exp(theta[p + 1])
    positive = False
    for jitter in jitters:
        _kernel(squared, weights, signal, (signal + noise) * (1.0 + jitter), A, slope, rows[0])
        positive = cholesky(A)
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
    trace = _slopes(W, a, squared, slope, rows, gradient)
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
def _slopes(W, a, squared, slope, rows, gradient):  # type: ignore[no-untyped-def]
    """Put the sums of G_ij slope_ij squared_kij over i > j into `gradient`; return tr G, G = W^T W - a a^T.

    Rows of G are made two at a time, of four rows of W at a time.
    """
    n, trace, i = len(a), 0.0, 0
    row, next_row = rows[0], rows[1]
    gradient[:] = 0.0
    if n % 2 == 1:
        row[0] = -a[0] * a[0]
        for k in range(n):
            row[0] += W[k, 0] * W[k, 0]
        trace, i = row[0], 1
    while i < n:
        for j in range(i + 1):
            row[j] = W[i, i] * W[i, j] - a[i] * a[j]
            next_row[j] = -a[i + 1] * a[j]
        next_row[i + 1] = -a[i + 1] * a[i + 1]
        k = i + 1
        while k + 4 <= n:
            c0, c1, c2, c3 = W[k, i], W[k + 1, i], W[k + 2, i], W[k + 3, i]
            d0, d1, d2, d3 = W[k, i + 1], W[k + 1, i + 1], W[k + 2, i + 1], W[k + 3, i + 1]
            w0, w1, w2, w3 = W[k], W[k + 1], W[k + 2], W[k + 3]
            for j in range(i + 2):
                x0, x1, x2, x3 = w0[j], w1[j], w2[j], w3[j]
                row[j] += c0 * x0 + c1 * x1 + c2 * x2 + c3 * x3
                next_row[j] += d0 * x0 + d1 * x1 + d2 * x2 + d3 * x3
            k += 4
        for m in range(k, n):
            c, d, w = W[m, i], W[m, i + 1], W[m]
            for j in range(i + 2):
                row[j] += c * w[j]
                next_row[j] += d * w[j]
        trace += row[i] + next_row[i + 1]
        _add_slopes(row, i, squared, slope, gradient)
        _add_slopes(next_row, i + 1, squared, slope, gradient)
        i += 2
    return trace


@njit(inline="always", fastmath=True, error_model="numpy")
@no_type_check
def _add_slopes(row, i, squared, slope, gradient):  # type: ignore[no-untyped-def]
    """Add what row i of G contributes to the gradient."""
    first = i * (i - 1) // 2
    part = slope[first : first + i]
    for j in range(i):
        row[j] *= part[j]
    for k in range(len(gradient) - 2):
        column, total = squared[k, first : first + i], 0.0
        for j in range(i):
            total += row[j] * column[j]
        gradient[k] += total

"""Log marginal likelihood of a Matern-5/2 Gaussian process, with its gradient, and the linear algebra it stands on.

`Distances` are kept from fit to fit. All is compiled, without BLAS or LAPACK, whose last digits depend on the
processor: the order of every sum is fixed by the sizes alone, and a number does not depend on its place in a matrix.

Notation: n observations z; p length-scales (p = d with ARD, 1 without); q = n (n - 1) / 2 pairs i > j;
theta = (log l_1 .. log l_p, log s2, log v): length-scales, signal variance, noise variance;
r_ij = sqrt(5 sum_k (x_ik - x_jk)^2 / l_k^2);  k(r) = s2 (1 + r + r^2 / 3) exp(-r);  K = k + v I = L L^T.
Source: Rasmussen and Williams 2006, equations 2.30, 4.17, 5.8 and 5.9.
"""

import math
from typing import NamedTuple, no_type_check

import numpy as np
from jaxtyping import Float

from harness.arrays import Points, Theta, Vector
from harness.compile_cache import njit
from harness.surrogates.kernels import (
    SQUARE_COLUMNS,
    SQUARE_ROWS,
    Workspace,
    exp_minus,
    fma,
    subtract_product,
)


class Distances:
    """The q = n (n - 1) / 2 pairs (i, j), i > j, of n points; pair (i, j) has position i (i - 1) / 2 + j.

    squared: (p, q + spare columns), contiguous, (x_ik - x_jk)^2, p = d with ARD; otherwise p = 1, its sum over k.
    Appended points only append pairs, so `update` costs O(n d) for each of them.
    """

    def __init__(self, ard: bool) -> None:
        self._ard, self._X = ard, np.empty((0, 0))
        self.n, self.squared = 0, np.empty((0, 0))

    def update(self, X: Points) -> None:
        """Hold the pairs of `X`, whether or not it continues the points of the last call."""
        known, n, p = len(self._X), len(X), X.shape[1] if self._ard else 1
        if known > n or self._X.shape[1] != X.shape[1] or not np.array_equal(self._X, X[:known]):
            known = 0
        need, kept = n * (n - 1) // 2, known * (known - 1) // 2
        if need > self.squared.shape[1] or len(self.squared) != p:
            squared = np.empty((p, 2 * need))
            if kept:
                squared[:, :kept] = self.squared[:, :kept]
            self.squared = squared
        self._X, self.n = X.copy(), n
        _append(self._X, known, self.squared)


@njit(cache=True, error_model="numpy")
@no_type_check
def _append(X, known, squared):  # type: ignore[no-untyped-def]
    """Put the pairs of the points from `known` on into `squared`, summed over dimensions if p = 1 < d."""
    (n, d), p = X.shape, len(squared)
    for i in range(known, n):
        first = i * (i - 1) // 2
        for j in range(i):
            for k in range(p):
                squared[k, first + j] = (X[i, k] - X[j, k]) ** 2
            for k in range(p, d):
                squared[0, first + j] += (X[i, k] - X[j, k]) ** 2


_LOG_2PI = math.log(2.0 * math.pi)
_JITTERS = np.array([0.0, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2])  # of s2 + v, tried in turn where K is not positive definite


class Solution(NamedTuple):
    """W = L^-1 (lower, zeros above), a = K^-1 z and the sum of log L_ii, at some theta."""

    inverse: Float[np.ndarray, "n n"]
    a: Vector
    half_log_det: float


# Cholesky factor and its inverse, compiled into the function that asks for them.
#
# Matrices are padded to a multiple of SQUARE_COLUMNS rows, with the unit matrix, which changes nothing. Most of the
# work is done in tiles that stay in the processor's registers.


@no_type_check  # else the tests would have its checked form compiled
def padded(n: int) -> int:
    """Return the rows that an n x n matrix is padded to; for Python, where `padded_inline` is for compiled loops."""
    return -(-n // SQUARE_COLUMNS) * SQUARE_COLUMNS


padded_inline = njit(inline="always")(padded)


@njit(inline="always", error_model="numpy")
@no_type_check
def cholesky(A):  # type: ignore[no-untyped-def]
    """Replace the upper triangle of A, padded, by that of U, A = U^T U; return whether A is positive definite.

    What lies below the diagonal is lost.
    """
    size = len(A)
    for top in range(0, size, SQUARE_ROWS):
        if top > 0:
            for place in range(top - top % SQUARE_COLUMNS, size, SQUARE_COLUMNS):
                subtract_product(A, top, 0, top, A, place, A, top)
        for i in range(top, top + SQUARE_ROWS):
            row = A[i]
            for k in range(top, i):
                other, factor = A[k], -A[k, i]
                for j in range(i, size):
                    row[j] = fma(factor, other[j], row[j])
            if not row[i] > 0.0:
                return False
            root = np.sqrt(row[i])
            scale = 1.0 / root
            for j in range(i + 1, size):
                row[j] *= scale
            row[i] = root
    return True


@njit(inline="always", error_model="numpy")
@no_type_check
def invert(U, W):  # type: ignore[no-untyped-def]
    """Put U^-T, which is L^-1 of the factor L = U^T, into W, both padded, with zeros above the diagonal."""
    size = len(U)
    W[:, :] = 0.0
    for top in range(0, size, SQUARE_ROWS):
        for place in range(0, top, SQUARE_COLUMNS):
            subtract_product(U, top, place, top, W, place, W, top)
        for i in range(top, top + SQUARE_ROWS):
            row = W[i]
            for k in range(top, i):
                other, factor = W[k], -U[k, i]
                for j in range(k + 1):
                    row[j] = fma(factor, other[j], row[j])
            scale = 1.0 / U[i, i]
            for j in range(i):
                row[j] *= scale
            row[i] = scale


@njit(inline="always", error_model="numpy")
@no_type_check
def pad(A, n):  # type: ignore[no-untyped-def]
    """Continue the upper triangle of A beyond its first n rows and columns with the unit matrix."""
    for i in range(len(A)):
        for j in range(max(i, n), len(A)):
            A[i, j] = 1.0 if i == j else 0.0


class Likelihood:
    """-log p(z | theta) as a function of theta, at the points of `pairs`; `space` holds its buffers."""

    def __init__(self, pairs: Distances, z: Vector, space: Workspace) -> None:
        n, p = pairs.n, len(pairs.squared)
        size = padded(n)
        self._W, self._a = space.take("W", (size, size)), np.empty(n)
        slope, rows = space.take("slope", (n * (n - 1) // 2,)), space.take("rows", (SQUARE_ROWS + p, size))
        self.buffers = pairs.squared, z, _JITTERS, space.take("A", (size, size)), self._W, self._a, slope, rows
        self._solved: tuple[bytes, Solution] | None = None

    def __call__(self, theta: Theta) -> tuple[float, Theta]:
        """Return -log p = (z^T a + log |K| + n log 2 pi) / 2, a = K^-1 z, and its gradient.

        d(-log p) / d theta = tr(G dK / d theta) / 2 with G = K^-1 - a a^T, and
        dk / d log l_k = s2 (1 + r) exp(-r) (5 / 3) (x_ik - x_jk)^2 / l_k^2.
        """
        gradient = np.empty(len(theta))
        positive, value, half_log_det = evaluate(theta, self.buffers, gradient)
        self.evaluated(theta, positive, half_log_det)
        return value, gradient

    def evaluated(self, theta: Theta, positive: bool, half_log_det: float) -> None:
        """Note that `evaluate` has filled the buffers at `theta`; raises FloatingPointError if it could not."""
        if not positive:
            raise FloatingPointError("the kernel matrix is not positive definite, even with jitter 1e-2")
        n = len(self._a)
        self._solved = theta.tobytes(), Solution(self._W[:n, :n], self._a, half_log_det)

    def solution(self, theta: Theta) -> Solution:
        """Return W and a at `theta`, at no cost where the last call was; the next call overwrites them."""
        if self._solved is None or self._solved[0] != theta.tobytes():
            self(theta)
        assert self._solved is not None
        return self._solved[1]


@njit(cache=True, error_model="numpy")
@no_type_check
def evaluate(theta, buffers, gradient):  # type: ignore[no-untyped-def]
    """Fill W, a and `gradient`; return whether some jitter was enough, -log p and the sum of log L_ii.

    buffers: of a `Likelihood`.
    """
    squared, z, jitters, A, W, a, slope, rows = buffers
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
    return True, 0.5 * fit + half_log_det + 0.5 * n * _LOG_2PI, half_log_det


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


def product(
    A: Float[np.ndarray, "m k"], B: Float[np.ndarray, "k n"], triangular: bool = False
) -> Float[np.ndarray, "m n"]:
    """Return A B; triangular: A is zero above its diagonal, which gives the same numbers in half the time."""
    return transposed_product(A.T, B, triangular)


def transposed_product(
    A: Float[np.ndarray, "k m"], B: Float[np.ndarray, "k n"], triangular: bool = False
) -> Float[np.ndarray, "m n"]:
    """Return A^T B; triangular: A is zero below its diagonal."""
    A, B = np.asarray(A, np.float64), np.asarray(B, np.float64)
    out = np.zeros((A.shape[1], B.shape[1]))
    if out.size and len(A):
        if A.shape[1] <= B.shape[1]:
            _transposed_product(A, B, out, triangular)
        else:
            _transposed_product(B, A, out.T, False)  # the first is copied
    return out


@njit(cache=True, error_model="numpy")
@no_type_check
def _transposed_product(A, B, out, triangular):  # type: ignore[no-untyped-def]
    """Fill `out` with A^T B, SQUARE_COLUMNS columns of B at a time, which stay in the processor's first cache."""
    k, m, n = len(A), A.shape[1], B.shape[1]
    rows = -(-m // SQUARE_ROWS) * SQUARE_ROWS
    minus, panel, square = np.zeros((k, rows)), np.zeros((k, SQUARE_COLUMNS)), np.empty((rows, SQUARE_COLUMNS))
    for j in range(k):
        for i in range(m):
            minus[j, i] = -A[j, i]
    for place in range(0, n, SQUARE_COLUMNS):
        width = min(SQUARE_COLUMNS, n - place)
        for j in range(k):
            for c in range(width):
                panel[j, c] = B[j, place + c]
        square[:, :] = 0.0
        for row in range(0, rows, SQUARE_ROWS):
            end = min(k, row + SQUARE_ROWS) if triangular else k
            subtract_product(minus, row, 0, end, panel, 0, square, row)
        for i in range(m):
            for c in range(width):
                out[i, place + c] = square[i, c]


def factor(A: Float[np.ndarray, "m m"]) -> Float[np.ndarray, "m m"] | None:
    """Return L, lower triangular, L L^T = A; None where A is not positive definite. The upper triangle is read."""
    n = len(A)
    U = np.eye(padded(n))
    U[:n, :n] = A
    return np.tril(U.T[:n, :n]) if _factor(U) else None


@njit(cache=True, error_model="numpy")
@no_type_check
def _factor(U):  # type: ignore[no-untyped-def]
    return cholesky(U)


def inverse_factor(L: Float[np.ndarray, "m m"]) -> Float[np.ndarray, "m m"]:
    """Return L^-1 of a lower triangular matrix."""
    n = len(L)
    U = np.eye(padded(n))
    U[:n, :n] = L.T
    W = np.empty_like(U)
    _invert(U, W)
    return W[:n, :n]


@njit(cache=True, error_model="numpy")
@no_type_check
def _invert(U, W):  # type: ignore[no-untyped-def]
    invert(U, W)


def solve_lower(L: Float[np.ndarray, "m m"], B: Float[np.ndarray, "m n"]) -> Float[np.ndarray, "m n"]:
    """Return L^-1 B of a lower triangular matrix, by forward substitution."""
    out = np.array(B, np.float64, order="C")
    _solve_lower(np.asarray(L, np.float64), out)
    return out


@njit(cache=True, error_model="numpy")
@no_type_check
def _solve_lower(L, B):  # type: ignore[no-untyped-def]
    for i in range(len(L)):
        row = B[i]
        for k in range(i):
            weight, other = -L[i, k], B[k]
            for j in range(len(row)):
                row[j] = fma(weight, other[j], row[j])
        for j in range(len(row)):
            row[j] /= L[i, i]


def dot(a: Vector, b: Vector) -> float:
    """Return sum a_i b_i."""
    return float((a * b).sum())


@njit(cache=True, error_model="numpy")
@no_type_check
def solve_positive(A, b, L):  # type: ignore[no-untyped-def]
    """Solve A x = b, A = L L^T, in the place of b and fill L; False, b spoilt, if A is not positive definite.

    For small matrices, of which the lower triangle is read; what is above L's diagonal stays as it is.
    """
    n = len(A)
    for i in range(n):
        for j in range(i + 1):
            value = A[i, j]
            for k in range(j):
                value -= L[i, k] * L[j, k]
            if i > j:
                L[i, j] = value / L[j, j]
            elif value > 0.0:
                L[i, i] = np.sqrt(value)
            else:
                return False
        value = b[i]
        for k in range(i):
            value -= L[i, k] * b[k]
        b[i] = value / L[i, i]
    for i in range(n - 1, -1, -1):
        value = b[i]
        for k in range(i + 1, n):
            value -= L[k, i] * b[k]
        b[i] = value / L[i, i]
    return True

"""Products, factors and solutions of matrices, compiled, without BLAS or LAPACK, whose last digits hang on a processor.

The order of every sum is fixed by the sizes alone, and a number does not depend on its place in a matrix.
"""

from typing import no_type_check

import numpy as np
from jaxtyping import Float

from harness.compiler import njit
from harness.surrogates.kernels import SQUARE_COLUMNS, SQUARE_ROWS, fma, subtract_product
from harness.surrogates.triangles import cholesky, invert, padded


def product(A: Float[np.ndarray, "m k"], B: Float[np.ndarray, "k n"]) -> Float[np.ndarray, "m n"]:
    """Return A B."""
    return transposed_product(A.T, B)


def transposed_product(A: Float[np.ndarray, "k m"], B: Float[np.ndarray, "k n"]) -> Float[np.ndarray, "m n"]:
    """Return A^T B."""
    out = np.zeros((A.shape[1], B.shape[1]))
    if out.size and len(A):
        _transposed_product(np.asarray(A, np.float64), np.asarray(B, np.float64), out)
    return out


@njit(cache=True, error_model="numpy")
@no_type_check
def _transposed_product(A, B, out):  # type: ignore[no-untyped-def]
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
            subtract_product(minus, row, 0, k, panel, 0, square, row)
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


def dot(a: Float[np.ndarray, " n"], b: Float[np.ndarray, " n"]) -> float:
    """Return sum a_i b_i."""
    return float((a * b).sum())

"""Cholesky factor and its inverse, compiled into the function that asks for them, without BLAS or LAPACK.

Matrices are padded to a multiple of SQUARE_COLUMNS rows, with the unit matrix, which changes nothing. The order of
every sum is fixed by the size alone, and most of the work is done in tiles that stay in the processor's registers.
"""

from typing import no_type_check

import numpy as np

from harness.compiler import njit
from harness.surrogates.kernels import SQUARE_COLUMNS, SQUARE_ROWS, fma, subtract_product


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

"""Cholesky factor and its inverse, compiled into the function that asks for them, for a few hundred rows at most."""

from typing import no_type_check

import numpy as np
from numba import njit


@njit(inline="always", fastmath=True, error_model="numpy")
@no_type_check
def cholesky(A):  # type: ignore[no-untyped-def]
    """Replace the lower triangle of A by that of L, A = L L^T; return whether A is positive definite.

    Rows are made four at a time: each entry waits for the one before it, and four such chains hide that.
    """
    n, i = len(A), 0
    while i < n:
        known = 0
        if i + 4 <= n:
            known = i
            r0, r1, r2, r3 = A[i], A[i + 1], A[i + 2], A[i + 3]
            for j in range(i):
                other, v0, v1, v2, v3 = A[j], r0[j], r1[j], r2[j], r3[j]
                for k in range(j):
                    x = other[k]
                    v0 -= r0[k] * x
                    v1 -= r1[k] * x
                    v2 -= r2[k] * x
                    v3 -= r3[k] * x
                scale = 1.0 / other[j]
                r0[j], r1[j], r2[j], r3[j] = v0 * scale, v1 * scale, v2 * scale, v3 * scale
        for m in range(i, min(i + 4, n)):
            row = A[m]
            for j in range(known, m):
                other, value = A[j], row[j]
                for k in range(j):
                    value -= row[k] * other[k]
                row[j] = value / other[j]
            value = row[m]
            for k in range(m):
                value -= row[k] * row[k]
            if not value > 0.0:
                return False
            row[m] = np.sqrt(value)
        i += 4
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

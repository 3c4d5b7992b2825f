"""Cholesky factor and its inverse, compiled into the function that asks for them, for a few hundred rows at most."""

from typing import no_type_check

import numpy as np

from harness.compiler import njit


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
    """Put L^-1 into W, zeros above the diagonal; two rows are made at a time, of four rows of W at a time."""
    n, i = len(L), 0
    if n % 2 == 1:
        W[0, :] = 0.0
        W[0, 0], i = 1.0 / L[0, 0], 1
    while i < n:
        row, after = W[i], W[i + 1]
        row[:] = 0.0
        after[:] = 0.0
        k = 0
        while k + 4 <= i:
            c0, c1, c2, c3 = L[i, k], L[i, k + 1], L[i, k + 2], L[i, k + 3]
            d0, d1, d2, d3 = L[i + 1, k], L[i + 1, k + 1], L[i + 1, k + 2], L[i + 1, k + 3]
            w0, w1, w2, w3 = W[k], W[k + 1], W[k + 2], W[k + 3]
            for j in range(k + 4):
                x0, x1, x2, x3 = w0[j], w1[j], w2[j], w3[j]
                row[j] -= c0 * x0 + c1 * x1 + c2 * x2 + c3 * x3
                after[j] -= d0 * x0 + d1 * x1 + d2 * x2 + d3 * x3
            k += 4
        for m in range(k, i):
            c, d, w = L[i, m], L[i + 1, m], W[m]
            for j in range(m + 1):
                row[j] -= c * w[j]
                after[j] -= d * w[j]
        scale, d, last = 1.0 / L[i, i], L[i + 1, i], 1.0 / L[i + 1, i + 1]
        for j in range(i):
            row[j] *= scale
            after[j] = (after[j] - d * row[j]) * last
        row[i], after[i], after[i + 1] = scale, -d * scale * last, last
        i += 2

"""Mean and explained variance of a Gaussian process at many points, in single or double precision, compiled.

Block by block, so that the kernel values never leave the processor's cache.
"""

from typing import no_type_check

import numpy as np
from jaxtyping import Float

from harness.compiler import njit
from harness.surrogates.kernels import TILE_BYTES, TILE_ROWS, add_squares, fma, matern_double, matern_single
from harness.surrogates.workspace import Workspace

_WIDTH = 32  # candidates at a time: their kernel values stay in the processor's first cache
_DIMENSIONS = 8  # are taken eight at a time, absent ones as zeros
_LOG2_E = 1.4426950408889634  # distances in single precision are in units of ln 2, as `matern_single` wants them


class Predictor:
    """m = a^T k(c) and e = |V|^2, V = W k(c), k_i = Matern-5/2 of |a_i - c|, at every c.

    A: (n, d) points, centred and divided by the length-scales over sqrt(5), weight those factors. W: (r, r), lower
    triangular, for the first r <= n points. a: (n,). dtype: float32 or float64, in which all is calculated. Every
    candidate is calculated by the same operations in the same order, wherever it stands.
    """

    def __init__(
        self,
        A: Float[np.ndarray, "n d"],
        weight: Float[np.ndarray, " d"],
        W: Float[np.ndarray, "r r"],
        a: Float[np.ndarray, " n"],
        space: Workspace,
        dtype: type,
    ) -> None:
        unit, d = _LOG2_E if dtype is np.float32 else 1.0, A.shape[1]
        self._dtype, self._space = dtype, space
        self._weight = np.ascontiguousarray(weight) * unit
        self._a: np.ndarray = np.ascontiguousarray(a, dtype)
        self._A: np.ndarray = np.zeros((len(A), -(-d // _DIMENSIONS) * _DIMENSIONS), dtype)
        self._A[:, :d] = A * unit
        strips = -(-len(W) // TILE_ROWS)
        self._strips: np.ndarray = np.zeros(TILE_ROWS * TILE_ROWS * strips * (strips + 1) // 2, dtype)
        _pack(W, self._strips)
        self._rows = len(W)

    def __call__(self, C: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return m and e at `C`."""
        (n, d), m, size = self._A.shape, len(C), np.dtype(self._dtype).itemsize
        rounded = -(-m // _WIDTH) * _WIDTH
        memory = self._space.take(f"predict {size}", (n + TILE_ROWS + 2 + d, _WIDTH), self._dtype)
        mean: np.ndarray = np.empty(rounded, self._dtype)
        explained: np.ndarray = np.empty(rounded, self._dtype)
        predict = _single if size == 4 else _double
        points = np.ascontiguousarray(C)
        predict(self._A, points, self._weight, self._strips, self._rows, self._a, memory, mean, explained)
        return mean[:m], explained[:m]


@njit(cache=True, error_model="numpy")
@no_type_check
def _single(A, C, weight, strips, r, a, memory, mean, explained):  # type: ignore[no-untyped-def]
    """Fill `mean` and `explained` in single precision."""
    n = len(A)
    k, s, points = memory[: n + TILE_ROWS], memory[n + TILE_ROWS], memory[n + TILE_ROWS + 2 :]
    k[n:] = 0.0
    for start in range(0, len(mean), _WIDTH):
        _scale(C, start, weight, points)
        for i in range(n):
            _squares(A[i], points, s)
            matern_single(s, k[i])
        _products(strips, r, n, a, k, mean[start : start + _WIDTH], explained[start : start + _WIDTH])


@njit(cache=True, error_model="numpy")
@no_type_check
def _double(A, C, weight, strips, r, a, memory, mean, explained):  # type: ignore[no-untyped-def]
    """Fill `mean` and `explained` in double precision."""
    n = len(A)
    k, s, points = memory[: n + TILE_ROWS], memory[n + TILE_ROWS], memory[n + TILE_ROWS + 2 :]
    root = memory[n + TILE_ROWS + 1]
    k[n:] = 0.0
    for start in range(0, len(mean), _WIDTH):
        _scale(C, start, weight, points)
        for i in range(n):
            _squares(A[i], points, s)
            matern_double(s, root, k[i])
        _products(strips, r, n, a, k, mean[start : start + _WIDTH], explained[start : start + _WIDTH])


@njit(inline="always")
@no_type_check
def _scale(C, start, weight, points):  # type: ignore[no-untyped-def]
    """Put candidates, centred and scaled, into the columns of `points`: by rows of it, which is twice as fast."""
    m = min(_WIDTH, len(C) - start)
    block = C[start : start + m]
    points[:] = 0.0
    for q in range(len(weight)):
        row, column, w = points[q], block[:, q], weight[q]
        for j in range(m):
            row[j] = (column[j] - 0.5) * w


@njit(inline="always")
@no_type_check
def _squares(a, points, s):  # type: ignore[no-untyped-def]
    """Put |a - c|^2 into s."""
    _eight_dimensions(a, 0, points, s, False)
    for q in range(_DIMENSIONS, len(a), _DIMENSIONS):
        _eight_dimensions(a, q, points, s, True)


@njit(inline="always")
@no_type_check
def _eight_dimensions(a, q, points, s, add):  # type: ignore[no-untyped-def]
    """Put what the dimensions from q on contribute into s, or add it."""
    a0, a1, a2, a3, a4, a5, a6, a7 = a[q], a[q + 1], a[q + 2], a[q + 3], a[q + 4], a[q + 5], a[q + 6], a[q + 7]
    c0, c1, c2, c3 = points[q], points[q + 1], points[q + 2], points[q + 3]
    c4, c5, c6, c7 = points[q + 4], points[q + 5], points[q + 6], points[q + 7]
    for j in range(_WIDTH):
        d0, d1, d2, d3 = a0 - c0[j], a1 - c1[j], a2 - c2[j], a3 - c3[j]
        d4, d5, d6, d7 = a4 - c4[j], a5 - c5[j], a6 - c6[j], a7 - c7[j]
        near, far = fma(d3, d3, fma(d2, d2, fma(d1, d1, d0 * d0))), fma(d7, d7, fma(d6, d6, fma(d5, d5, d4 * d4)))
        s[j] = s[j] + (near + far) if add else near + far


@njit(cache=True)
@no_type_check
def _pack(W, strips):  # type: ignore[no-untyped-def]
    """Put W's rows, TILE_ROWS at a time up to their last column that is not zero, column by column; zeros below W."""
    start = 0
    for first in range(0, len(W), TILE_ROWS):
        for i in range(first, min(first + TILE_ROWS, len(W))):
            for j in range(i + 1):
                strips[start + TILE_ROWS * j + i - first] = W[i, j]
        start += TILE_ROWS * (first + TILE_ROWS)


@njit(inline="always")
@no_type_check
def _products(strips, r, n, a, k, mean, explained):  # type: ignore[no-untyped-def]
    """Put a^T k into `mean`, and into `explained` the sum of the squares of V = W k, W as `_pack` leaves it.

    k has rows of zeros behind its n, which the last strip's columns may reach.
    """
    mean[:] = 0.0
    for i in range(n):
        row, factor = k[i], a[i]
        for j in range(_WIDTH):
            mean[j] = fma(factor, row[j], mean[j])
    explained[:] = 0.0
    for place in range(0, _WIDTH, 2 * TILE_BYTES // k.itemsize):
        start = 0
        for last in range(TILE_ROWS, r + TILE_ROWS, TILE_ROWS):
            add_squares(strips, start, last, k, place, explained)
            start += TILE_ROWS * last

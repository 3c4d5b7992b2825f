"""Mean and explained variance of a Gaussian process at many points, in single or double precision, compiled.

Block by block, so that the kernel values never leave the processor's cache.
"""

from typing import no_type_check

import numpy as np
from jaxtyping import Float

from harness.compiler import njit
from harness.surrogates.kernels import matern_double, matern_single, wide_vectors
from harness.surrogates.workspace import Workspace

_BLOCK = 1 << 17  # bytes of kernel values per block
_WIDEST = 2048  # candidates per block at most
_STRIDE = 32  # blocks are whole multiples of it: equal candidates pass the same instructions and get equal values
_LANE = 8  # dimensions are taken eight at a time, absent ones as zeros
_STRIP = 16  # rows of W at most that are multiplied at a time, by no more columns than are not zero
_LOG2_E = 1.4426950408889634  # distances in single precision are in units of ln 2, as `matern_single` wants them


class Predictor:
    """m = a^T k(c) and e = |V|^2, V = W k(c), k_i = Matern-5/2 of |a_i - c|, at every c.

    A: (n, d) points, centred and divided by the length-scales over sqrt(5), weight those factors. W: (r, r), lower
    triangular, for the first r <= n points. a: (n,). dtype: float32 or float64, in which all is calculated.
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
        self._A: np.ndarray = np.zeros((len(A), -(-d // _LANE) * _LANE), dtype)
        self._A[:, :d] = A * unit
        self._strips: np.ndarray = np.empty(len(W) * (len(W) + _STRIP), dtype)
        _pack(W, self._strips)
        self._rows = len(W)

    def __call__(self, C: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return m and e at `C`."""
        (n, d), r, m, size = self._A.shape, self._rows, len(C), np.dtype(self._dtype).itemsize
        rounded = -(-m // _STRIDE) * _STRIDE
        width = min(rounded, max(2, min(_WIDEST, _BLOCK // (n * size)) // _STRIDE) * _STRIDE)
        memory = self._space.take(f"predict {size}", (n + r + 2 + d, width), self._dtype)
        mean: np.ndarray = np.empty(rounded, self._dtype)
        explained: np.ndarray = np.empty(rounded, self._dtype)
        predict = _single if size == 4 else _double
        points = np.ascontiguousarray(C)
        predict(self._A, points, self._weight, self._strips, r, self._a, memory, mean, explained)
        return mean[:m], explained[:m]


@njit(cache=True, fastmath=True, error_model="numpy")
@no_type_check
def _single(A, C, weight, strips, r, a, memory, mean, explained):  # type: ignore[no-untyped-def]
    """Fill `mean` and `explained` in single precision."""
    wide_vectors()
    (n, d), width = A.shape, memory.shape[1]
    for start in range(0, len(mean), width):
        b = min(width, len(mean) - start)
        k, V, _, s, points = _cut(memory, n, r, d, b)
        _scale(C, start, b, weight, points)
        for i in range(n):
            _squares(A[i], points, b, s)
            matern_single(s[:b], k[i])
        _products(strips, a, k, V, mean[start : start + b], explained[start : start + b])


@njit(cache=True, fastmath=True, error_model="numpy")
@no_type_check
def _double(A, C, weight, strips, r, a, memory, mean, explained):  # type: ignore[no-untyped-def]
    """Fill `mean` and `explained` in double precision."""
    wide_vectors()
    (n, d), width = A.shape, memory.shape[1]
    for start in range(0, len(mean), width):
        b = min(width, len(mean) - start)
        k, V, root, s, points = _cut(memory, n, r, d, b)
        _scale(C, start, b, weight, points)
        for i in range(n):
            _squares(A[i], points, b, s)
            matern_double(s[:b], root[:b], k[i])
        _products(strips, a, k, V, mean[start : start + b], explained[start : start + b])


@njit(inline="always")
@no_type_check
def _cut(memory, n, r, d, b):  # type: ignore[no-untyped-def]
    """Return views of the work space: k (n, b), V (r, b), two rows, and the scaled candidates (d, width)."""
    flat = memory[: n + r].reshape(-1)
    k, V = flat[: n * b].reshape(n, b), flat[n * b : (n + r) * b].reshape(r, b)
    return k, V, memory[n + r], memory[n + r + 1], memory[n + r + 2 : n + r + 2 + d]


@njit(inline="always")
@no_type_check
def _scale(C, start, b, weight, points):  # type: ignore[no-untyped-def]
    """Put candidates, centred and scaled, into the columns of `points`: by rows of it, which is twice as fast."""
    m = min(b, len(C) - start)
    block = C[start : start + m]
    points[:, :b] = 0.0
    for q in range(len(weight)):
        row, column, w = points[q], block[:, q], weight[q]
        for j in range(m):
            row[j] = (column[j] - 0.5) * w


@njit(inline="always")
@no_type_check
def _squares(a, points, b, s):  # type: ignore[no-untyped-def]
    """Put |a - c|^2 into s[:b]."""
    _eight_dimensions(a, 0, points, b, s, False)
    for q in range(8, len(a), 8):
        _eight_dimensions(a, q, points, b, s, True)


@njit(inline="always")
@no_type_check
def _eight_dimensions(a, q, points, b, s, add):  # type: ignore[no-untyped-def]
    """Put what the dimensions from q on contribute into s[:b], or add it."""
    a0, a1, a2, a3, a4, a5, a6, a7 = a[q], a[q + 1], a[q + 2], a[q + 3], a[q + 4], a[q + 5], a[q + 6], a[q + 7]
    c0, c1, c2, c3 = points[q], points[q + 1], points[q + 2], points[q + 3]
    c4, c5, c6, c7 = points[q + 4], points[q + 5], points[q + 6], points[q + 7]
    for j in range(b):
        near = (a0 - c0[j]) ** 2 + (a1 - c1[j]) ** 2 + (a2 - c2[j]) ** 2 + (a3 - c3[j]) ** 2
        far = (a4 - c4[j]) ** 2 + (a5 - c5[j]) ** 2 + (a6 - c6[j]) ** 2 + (a7 - c7[j]) ** 2
        s[j] = s[j] + (near + far) if add else near + far


@njit(inline="always")
@no_type_check
def _height(r):  # type: ignore[no-untyped-def]
    """Return the rows of a strip: `_STRIP` at most, all strips of about the same height; 1 where there are none."""
    return max(1, -(-r // max(1, -(-r // _STRIP))))


@njit(cache=True)
@no_type_check
def _pack(W, strips):  # type: ignore[no-untyped-def]
    """Put W's rows, a strip at a time up to their last column that is not zero, one strip after the other."""
    start, height = 0, _height(len(W))
    for first in range(0, len(W), height):
        last = min(first + height, len(W))
        for i in range(first, last):
            for j in range(last):  # a slice assigned takes seconds to compile: its shapes are compared at run time
                strips[start + j] = W[i, j]
            start += last


@njit(inline="always")
@no_type_check
def _products(strips, a, k, V, mean, explained):  # type: ignore[no-untyped-def]
    """Put a^T k into `mean`, and into `explained` the sum of the squares of V = W k, W as `_pack` leaves it."""
    r, b, start, height = len(V), len(mean), 0, _height(len(V))
    for first in range(0, r, height):
        last = min(first + height, r)
        size = (last - first) * last
        np.dot(strips[start : start + size].reshape(last - first, last), k[:last], V[first:last])
        start += size
    np.dot(a, k, mean)
    explained[:] = 0.0
    for i in range(r):
        row = V[i]
        for j in range(b):
            explained[j] += row[j] * row[j]

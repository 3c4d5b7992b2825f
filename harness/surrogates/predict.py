"""Mean and explained variance of a Gaussian process at many points, in single or double precision, compiled.

Block by block, so that the kernel values never leave the processor's cache.
"""

from typing import no_type_check

import numpy as np
from jaxtyping import Float
from numba import njit

from harness.surrogates.kernels import exp_minus, matern_single
from harness.surrogates.workspace import Workspace

_BLOCK = 1 << 17  # bytes of kernel values per block
_WIDEST = 2048  # candidates per block at most
_STRIDE = 32  # blocks are whole multiples of it: equal candidates pass the same instructions and get equal values
_LANE = 4  # dimensions are taken four at a time, absent ones as zeros


class Predictor:
    """k(c)^T a and |V|^2, V = s2 L^-1 k, k_i = Matern-5/2 of |a_i - c|, at every c.

    A: (n, d) observed points, centred and divided by the length-scales over sqrt(5), weight those factors.
    rows: s2 [L^-1; K^-1 z], (n + 1, n). dtype: float32 or float64, in which all is calculated.
    """

    def __init__(
        self,
        A: Float[np.ndarray, "n d"],
        weight: Float[np.ndarray, " d"],
        rows: Float[np.ndarray, "w n"],
        space: Workspace,
        dtype: type,
    ) -> None:
        n, d = A.shape
        self._dtype, self._space = dtype, space
        self._weight = np.ascontiguousarray(weight)
        self._A = np.zeros((n, -(-d // _LANE) * _LANE), dtype)
        self._A[:, :d] = A
        # no need for the upper right quarter of L^-1, which is zero
        self._top: np.ndarray = np.ascontiguousarray(rows[: n // 2, : n // 2], dtype)
        self._bottom: np.ndarray = np.ascontiguousarray(rows[n // 2 :], dtype)

    def __call__(
        self, C: Float[np.ndarray, "m d"], rough: bool = False
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return k^T a and |V|^2 at `C`; `rough`: what the first half of V makes of |V|^2, for a third of the work."""
        (n, padded), m, size = self._A.shape, len(C), np.dtype(self._dtype).itemsize
        rounded = -(-m // _STRIDE) * _STRIDE
        width = min(rounded, max(2, min(_WIDEST, _BLOCK // (n * size)) // _STRIDE) * _STRIDE)
        memory = self._space.take(f"predict {size}", (2 * n + 3 + padded, width), self._dtype)
        bits = self._space.take(f"bits {size}", (width,), np.int32 if size == 4 else np.int64)
        mean: np.ndarray = np.empty(rounded, self._dtype)
        explained: np.ndarray = np.empty(rounded, self._dtype)
        predict = _single if size == 4 else _double
        points = np.ascontiguousarray(C)
        predict(self._A, points, self._weight, self._top, self._bottom, rough, memory, bits, bits.view(self._dtype),
                mean, explained)  # fmt: skip
        return mean[:m], explained[:m]


@njit(cache=True, fastmath=True, error_model="numpy")
@no_type_check
def _single(A, C, weight, top, bottom, rough, memory, bits, power, mean, explained):  # type: ignore[no-untyped-def]
    """Fill `mean` and `explained` in single precision."""
    n, width = len(A), memory.shape[1]
    for start in range(0, len(mean), width):
        b = min(width, len(mean) - start)
        k, V, _, s, points = _cut(memory, n, b)
        _scale(C, start, b, weight, points)
        for i in range(n):
            _squares(A[i], points, b, s)
            matern_single(s[:b], k[i], bits, power)
        _products(top, bottom, rough, k, V, mean[start : start + b], explained[start : start + b])


@njit(cache=True, fastmath=True, error_model="numpy")
@no_type_check
def _double(A, C, weight, top, bottom, rough, memory, bits, power, mean, explained):  # type: ignore[no-untyped-def]
    """Fill `mean` and `explained` in double precision."""
    n, width = len(A), memory.shape[1]
    for start in range(0, len(mean), width):
        b = min(width, len(mean) - start)
        k, V, r, s, points = _cut(memory, n, b)
        _scale(C, start, b, weight, points)
        for i in range(n):
            _squares(A[i], points, b, s)
            for j in range(b):
                r[j] = np.sqrt(s[j])
            row = k[i]
            exp_minus(r, b, row, bits, power)
            for j in range(b):
                row[j] *= 1.0 + r[j] + s[j] * (1.0 / 3.0)
        _products(top, bottom, rough, k, V, mean[start : start + b], explained[start : start + b])


@njit(inline="always")
@no_type_check
def _cut(memory, n, b):  # type: ignore[no-untyped-def]
    """Return views of the work space: k (n, b), V (n + 1, b), two rows, and the scaled candidates."""
    flat = memory[: 2 * n + 1].reshape(-1)
    k, V = flat[: n * b].reshape(n, b), flat[n * b : (2 * n + 1) * b].reshape(n + 1, b)
    return k, V, memory[2 * n + 1], memory[2 * n + 2], memory[2 * n + 3 :]


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
    s[:b] = 0.0
    for q in range(0, len(a), 4):
        a0, a1, a2, a3 = a[q], a[q + 1], a[q + 2], a[q + 3]
        c0, c1, c2, c3 = points[q], points[q + 1], points[q + 2], points[q + 3]
        for j in range(b):
            s[j] += (a0 - c0[j]) ** 2 + (a1 - c1[j]) ** 2 + (a2 - c2[j]) ** 2 + (a3 - c3[j]) ** 2


@njit(inline="always")
@no_type_check
def _products(top, bottom, rough, k, V, mean, explained):  # type: ignore[no-untyped-def]
    """Put the last row of V = rows k into `mean`, the sum of the squares of the others into `explained`."""
    n, h, b = len(k), len(top), len(mean)
    np.dot(top, k[:h], V[:h])
    if rough:
        np.dot(bottom[n - h], k, mean)
    else:
        np.dot(bottom, k, V[h:])
        mean[:] = V[n]
    explained[:] = 0.0
    for i in range(h if rough else n):
        row = V[i]
        for j in range(b):
            explained[j] += row[j] * row[j]

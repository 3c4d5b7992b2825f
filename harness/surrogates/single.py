"""A Gaussian process prediction in single precision, widened by what rounding may have done to it.

It serves to find the few candidates that are worth a prediction in double precision.
"""

from typing import no_type_check

import numpy as np
from jaxtyping import Float, Int
from numba import njit

from harness.surrogates.kernels import matern_single
from harness.surrogates.workspace import Workspace

_BLOCK = 1 << 15  # kernel entries per block: its work space stays in the processor's cache
_WIDEST = 2048  # candidates per block at most
_UNIT = 2.0**-24  # rounding unit of single precision
_SAFETY = 4.0
_LANE = 4  # dimensions are taken four at a time, absent ones as zeros


class SinglePrecision:
    """Bounds of mean and variance, in units of standardised y.

    A: (n, d) observed points, centred and divided by the length-scales over sqrt(5). rows: s2 [L^-1; K^-1 z],
    (n + 1, n). Every kernel entry is off by a few units u = 2^-24, the more so the shorter the length-scales,
    and so is V = s2 L^-1 k, in units of the sums of |L^-1|; where n such errors add up at random rather than all
    one way, the explained variance |V|^2 / s2 is off by 2 u |sums| sqrt(s2) and the mean by 2 u sum |K^-1 z|. The
    bounds allow for four times that: four to thirty times what is seen on the study's runs, which a test
    repeats, but no proof.
    """

    def __init__(
        self,
        A: Float[np.ndarray, "n d"],
        weight: Float[np.ndarray, " d"],
        rows: Float[np.ndarray, "w n"],
        signal: float,
        space: Workspace,
    ) -> None:
        n, d = A.shape
        self._weight, self._signal, self._space = np.ascontiguousarray(weight), signal, space
        self._A = np.zeros((n, -(-d // _LANE) * _LANE), np.float32)
        self._A[:, :d] = A
        self._top, self._bottom = rows[: n // 2, : n // 2].astype(np.float32), rows[n // 2 :].astype(np.float32)
        sums = np.abs(rows).sum(axis=1)
        root = float(np.sqrt(sums[:n] @ sums[:n] * signal))
        unit = _SAFETY * _UNIT * (2.0 + 0.1 * float(self._weight.max()))
        self._variance_error = unit * (root + signal)
        self._mean_error = unit * float(sums[n])

    def bounds(self, C: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return a lower bound of the mean and an upper bound > 0 of the latent variance."""
        (n, padded), m = self._A.shape, len(C)
        width = min(m, max(64, min(_WIDEST, _BLOCK // n)))
        single = np.float32
        mean, explained = np.empty(m), np.zeros(m, single)
        memory = self._space.take("single", (2 * n + 3 + padded, width), single)
        bits = self._space.take("bits", (width,), np.int32)
        C = np.ascontiguousarray(C)
        _predict(self._A, C, self._weight, self._top, self._bottom, memory, bits, bits.view(single), mean, explained)
        mean -= self._mean_error
        return mean, np.maximum(self._signal - explained.astype(np.float64), 0.0) + self._variance_error


@njit(cache=True, fastmath=True, error_model="numpy")
@no_type_check
def _predict(
    A: Float[np.ndarray, "n p"],
    C: Float[np.ndarray, "m d"],
    weight: Float[np.ndarray, " d"],
    top: Float[np.ndarray, "h h"],
    bottom: Float[np.ndarray, "l n"],
    memory: Float[np.ndarray, "e b"],
    bits: Int[np.ndarray, " b"],
    power: Float[np.ndarray, " b"],
    mean: Float[np.ndarray, " m"],
    explained: Float[np.ndarray, " m"],
) -> None:
    """Put the means and the sums of V^2 of all candidates into `mean` and `explained`, block by block."""
    n, padded = A.shape
    (m, d), h, width = C.shape, len(top), memory.shape[1]
    flat, r, s, points = memory[: 2 * n + 1].reshape(-1), memory[2 * n + 1], memory[2 * n + 2], memory[2 * n + 3 :]
    points[:] = 0.0
    for start in range(0, m, width):
        b = min(width, m - start)
        for j in range(b):
            for q in range(d):
                points[q, j] = (C[start + j, q] - 0.5) * weight[q]
        k, V = flat[: n * b].reshape(n, b), flat[n * b : (2 * n + 1) * b].reshape(n + 1, b)
        for i in range(n):
            s[:b] = 0.0
            for q in range(0, padded, 4):
                a0, a1, a2, a3 = A[i, q], A[i, q + 1], A[i, q + 2], A[i, q + 3]
                c0, c1, c2, c3 = points[q], points[q + 1], points[q + 2], points[q + 3]
                for j in range(b):
                    s[j] += (a0 - c0[j]) ** 2 + (a1 - c1[j]) ** 2 + (a2 - c2[j]) ** 2 + (a3 - c3[j]) ** 2
            matern_single(s[:b], k[i], r, bits, power)
        np.dot(top, k[:h], V[:h])
        np.dot(bottom, k, V[h:])
        total = explained[start : start + b]
        for i in range(n):
            row = V[i]
            for j in range(b):
                total[j] += row[j] * row[j]
        for j in range(b):
            mean[start + j] = V[n, j]

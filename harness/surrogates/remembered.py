"""Variances found before, as upper bounds of those to come: observations only lower them, hyperparameters as they are.

The idea is that of lazy evaluation, Minoux 1978, "Accelerated greedy algorithms": an old value that bounds the new one
spares the new one wherever the bound is low enough.
"""

from typing import no_type_check

import numpy as np
from jaxtyping import Float

from harness.compiler import njit

LARGEST = 1 << 16  # points remembered at most; candidates drawn anew at every step would fill any memory
_FIRST = 1 << 10
_MANY = 0.5  # of as many points as candidates must be remembered: else the bounds that need no memory are good ones,
_LEAST = 0.1  # and this share of the candidates: new draws from a large table come to be known step by step


class Remembered:
    """Latent variances of points, by their coordinates, for one state of a run: theta, diagonal and observations.

    `serve` begins a new state and returns its number; what older posteriors tell or ask afterwards is not heard, since
    their variances do not bound each other's. The memory is kept where theta and the diagonal of the kernel matrix
    (noise, jitter) are those of before and the observations begin with those of before, else emptied.
    """

    def __init__(self) -> None:
        self._state, self._key, self._X = 0, (b"", 0.0), np.empty((0, 0))
        self._empty(_FIRST, 0)

    def __len__(self) -> int:
        return self._count

    def _empty(self, size: int, d: int) -> None:
        self._count = 0
        self._points: np.ndarray = np.empty((size, d), np.uint64)
        self._variance: np.ndarray = np.empty(size)
        self._slots: np.ndarray = np.full(4 * size, -1, np.int64)

    def serve(self, theta: Float[np.ndarray, " t"], diagonal: float, X: Float[np.ndarray, "n d"]) -> int:
        """Begin the state of a posterior of these hyperparameters and observations; return its number."""
        key, before = (theta.tobytes(), diagonal), len(self._X)
        if key != self._key or not np.array_equal(self._X, X[:before]):
            self._empty(_FIRST, X.shape[1])
        self._state, self._key, self._X = self._state + 1, key, X.copy()
        return self._state

    def tell(self, state: int, C: Float[np.ndarray, "m d"], variance: Float[np.ndarray, " m"]) -> None:
        """Remember the variances at `C`, of which there are not too many for it."""
        if state != self._state:
            return
        if len(C) > LARGEST:
            return
        if self._count + len(C) > LARGEST:
            self._empty(_FIRST, C.shape[1])
        needed = self._count + len(C)
        if needed > len(self._points):
            points, known = self._points[: self._count], self._variance[: self._count]
            self._empty(min(2 * needed, LARGEST), C.shape[1])
            self._count = _put(points, known, self._points, self._variance, self._slots, 0)
        self._count = _put(_bits(C), variance, self._points, self._variance, self._slots, self._count)

    def recall(self, state: int, C: Float[np.ndarray, "m d"]) -> Float[np.ndarray, " m"] | None:
        """Return variances no lower than those at `C`, NaN where none is remembered.

        None unless half as many points as `C` has are remembered, and a tenth of those of `C`.
        """
        if state != self._state or self._count < _MANY * len(C):
            return None
        variance = np.full(len(C), np.nan)
        found = _look_up(_bits(C), self._points, self._variance, self._slots, variance)
        return variance if found >= _LEAST * len(C) else None


def _bits(C: Float[np.ndarray, "m d"]) -> np.ndarray:
    return np.ascontiguousarray(C, np.float64).view(np.uint64)


@njit(inline="always")
@no_type_check
def _place(row, points, slots):  # type: ignore[no-untyped-def]
    """Return where in `slots` the row is, or would be: linear probing from a multiplicative hash."""
    h = np.uint64(0)
    for bits in row:
        h = (h ^ bits) * np.uint64(0x9E3779B97F4A7C15)
        h ^= h >> np.uint64(32)
    place = np.int64(h % np.uint64(len(slots)))
    while slots[place] >= 0:
        other, same = points[slots[place]], True
        for q in range(len(row)):
            same &= other[q] == row[q]
        if same:
            break
        place = place + 1 if place + 1 < len(slots) else 0
    return place


@njit(cache=True)
@no_type_check
def _put(rows, values, points, variance, slots, count):  # type: ignore[no-untyped-def]
    """Put rows and their values into the memory, over older values of the same; return how many rows it has then."""
    for i in range(len(rows)):
        place = _place(rows[i], points, slots)
        if slots[place] < 0:
            slots[place] = count
            points[count] = rows[i]
            count += 1
        variance[slots[place]] = values[i]
    return count


@njit(cache=True)
@no_type_check
def _look_up(rows, points, variance, slots, out):  # type: ignore[no-untyped-def]
    """Put what is known of the rows into `out`; return how many are."""
    found = 0
    for i in range(len(rows)):
        slot = slots[_place(rows[i], points, slots)]
        if slot >= 0:
            out[i] = variance[slot]
            found += 1
    return found

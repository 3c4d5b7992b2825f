"""What upper bounds of predicted sds are made of: half of the observations, well chosen, and variances found before."""

from typing import no_type_check

import numpy as np
from jaxtyping import Float, Int

from harness.compile_cache import njit
from harness.surrogates.kernels import fma, kernel_row
from harness.surrogates.likelihood import cholesky, invert, pad, padded_inline

# The observations that say most about all the others.
#
# Pivoted Cholesky: each next observation is the one whose value is least certain given those chosen before. Those that
# an optimizer has made late lie close together, so that half of all, so chosen, explain far more than the first half:
# what passes a rough screening is a third.

_REFRESH = 8  # observations after which the choice is made anew


class InducingSubset:
    """The more informative half of the observations of a run, in a good order, and L^-1 of them, L L^T = K.

    The choice serves `_REFRESH` observations on: which of the old ones say most hardly changes, and the new ones,
    near which candidates are of most interest, are all taken.
    """

    def __init__(self) -> None:
        self._order, self._half = np.empty(0, np.intp), 0

    def __call__(
        self, A: Float[np.ndarray, "n d"], signal: float, noise: float
    ) -> tuple[Int[np.ndarray, " n"], Float[np.ndarray, "h h"]]:
        """Return all n indices, those chosen first, and L^-1 of these h <= (n + 1) / 2; arguments of `informative`."""
        n, half = len(A), (len(A) + 1) // 2
        known = len(self._order)
        if 0 < known <= n < known + _REFRESH:
            order = np.concatenate([np.arange(known, n), self._order])
            positive, inverse = _inverse_factor(A[order[: min(half, self._half + n - known)]], signal, noise)
            if positive:
                return order, inverse
        order, inverse = informative(A, signal, noise, half)
        self._order, self._half = order, len(inverse)
        return order, inverse


@njit(cache=True, error_model="numpy")
@no_type_check
def informative(
    A: Float[np.ndarray, "n d"], signal: float, noise: float, count: int
) -> tuple[Int[np.ndarray, " n"], Float[np.ndarray, "h h"]]:
    """Return all n indices, the most informative first, and L^-1, L L^T = K of those first h <= `count`.

    A: points divided by the length-scales over sqrt(5); K = signal Matern-5/2 + noise I. h < `count` only where the
    others' values are known to the last digit. Source: Harbrecht, Peters and Schneider 2012, algorithm 1.
    """
    n = len(A)
    columns, left = np.ascontiguousarray(A.T), np.full(n, signal + noise)
    G, s, r = np.empty((count, n)), np.empty(n), np.empty(n)
    order, chosen, h = np.arange(n), np.zeros(n, np.bool_), 0
    while h < count:
        i = left.argmax()
        if not left[i] > 0.0:
            break
        row = G[h]
        kernel_row(columns, A[i], n, signal, s, r, row)
        row[i] += noise
        for k in range(h):
            earlier = G[k]
            factor = earlier[i]
            for j in range(n):
                row[j] = fma(-factor, earlier[j], row[j])
        scale = 1.0 / np.sqrt(left[i])
        for j in range(n):
            row[j] *= scale
            left[j] = fma(-row[j], row[j], left[j])
        left[i], chosen[i], order[h] = -1.0, True, i
        h += 1
    size, rest = padded_inline(h), h
    U, W = np.empty((size, size)), np.empty((size, size))
    for j in range(h):
        for k in range(j, h):
            U[j, k] = G[j, order[k]]
    pad(U, h)
    invert(U, W)
    for i in range(n):
        if not chosen[i]:
            order[rest] = i
            rest += 1
    return order, W[:h, :h]


@njit(cache=True, error_model="numpy")
@no_type_check
def _inverse_factor(A: Float[np.ndarray, "h d"], signal: float, noise: float) -> tuple[bool, Float[np.ndarray, "h h"]]:
    """Return whether K = signal Matern-5/2 + noise I is positive definite, and L^-1, L L^T = K."""
    h, size = len(A), padded_inline(len(A))
    columns, U, W = np.ascontiguousarray(A.T), np.empty((size, size)), np.empty((size, size))
    s, r = np.empty(h), np.empty(h)
    for i in range(h):
        kernel_row(columns, A[i], h, signal, s, r, U[i])
        U[i, i] = signal + noise
    pad(U, h)
    positive = cholesky(U)
    if positive:
        invert(U, W)
    return positive, W[:h, :h]


# Variances found before, as upper bounds of those to come: observations only lower them, hyperparameters as they are.
#
# The idea is that of lazy evaluation, Minoux 1978, "Accelerated greedy algorithms": an old value that bounds the new
# one spares the new one wherever the bound is low enough.

MOST_REMEMBERED = 1 << 16  # points remembered at most; candidates drawn anew at every step would fill any memory
_FIRST = 1 << 10
_MANY = 0.5  # of as many points as candidates must be remembered: else the bounds that need no memory are good ones,
_LEAST = 0.1  # and this share of the candidates: new draws from a large table come to be known step by step


class CachedBounds:
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
        if len(C) > MOST_REMEMBERED:
            return
        if self._count + len(C) > MOST_REMEMBERED:
            self._empty(_FIRST, C.shape[1])
        needed = self._count + len(C)
        if needed > len(self._points):
            points, known = self._points[: self._count], self._variance[: self._count]
            self._empty(min(2 * needed, MOST_REMEMBERED), C.shape[1])
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

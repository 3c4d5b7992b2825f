"""What is known of candidates while hyperparameters stay as they are: each observation then adds a row, and no more.

With K = L L^T and V = L^-1 k(X, c), the variance explained at c is |V|^2. A new observation leaves the rows of V as
they are and adds one, v = w^T k(X, c), w the new row of L^-1. So a step costs O(n) for each of m candidates, where
predicting them anew takes O(n^2): kernel values are held in single precision, from which bounds at all candidates
follow, and the explained variances of those that were predicted exactly in double precision.
"""

from collections.abc import Callable
from typing import no_type_check

import numpy as np
from jaxtyping import Float

from harness.arrays import Candidates, Indices, MeanSd, PerCandidate, Points, Theta
from harness.compile_cache import njit
from harness.surrogates.kernels import DIMENSIONS, LOG2_E, WIDTH, fma, kernel_row, matern_float32, scale, squares

_KNOWN = 0.5  # of the candidates must be held already; else the old ones are dropped: the draw is a new one
_BLOCK = 256  # candidates whose sums stay in the processor's first cache
_ROOM = 64  # observations for which there is room beyond those known

Rows = Float[np.ndarray, "n+1 n"]
Point = Float[np.ndarray, " d"]
Predict = Callable[[Candidates], MeanSd]
Explained = Callable[[Candidates], PerCandidate]


class CandidateCache:
    """Kernel values and explained variances at candidates, by their coordinates, for one theta and growing data.

    Explained variances are in units of z^2, kernel values without the signal variance.
    """

    def __init__(self) -> None:
        self._key, self._X = (b"", 0.0), np.empty((0, 0))
        self._hold(0, 0, 0)

    def _hold(self, m: int, n: int, d: int) -> None:
        """Drop all and make room for `m` candidates, of `n` observations each."""
        self._count, self._n = 0, 0
        self._points: np.ndarray = np.empty((m, d), np.uint64)
        self._slots: np.ndarray = np.full(4 << max(m - 1, 0).bit_length() if m else 0, -1, np.int64)
        self._kernel: np.ndarray = np.empty((n, m), np.float32)
        self._least: np.ndarray = np.zeros(m)  # of the explained variance
        self._explained: np.ndarray = np.zeros(m)  # exactly, given the first `_given` observations
        self._given: np.ndarray = np.zeros(m, np.int64)

    def serve(self, theta: Theta, diagonal: float, X: Points) -> None:
        """Begin to serve a posterior: all is dropped where theta, the diagonal of K or earlier observations differ."""
        key, before = (theta.tobytes(), diagonal), len(self._X)
        if key != self._key or len(X) < before or not np.array_equal(self._X, X[:before]):
            self._hold(0, 0, X.shape[1])
        self._key, self._X = key, X.copy()

    def bounds(self, C: Candidates, A: Points, weight: Point, rows: Rows, error: float, explained: Explained) -> MeanSd:
        """Return means in single precision and lower bounds of explained variances at `C`.

        A: observed points, centred and scaled by `weight`. rows: L^-1 and below it K^-1 z, times the signal variance.
        error: of a kernel value in single precision. explained(C'): lower bounds at candidates that are new.
        """
        n = len(A)
        points: np.ndarray = np.zeros((n, -(-A.shape[1] // DIMENSIONS) * DIMENSIONS), np.float32)
        points[:, : A.shape[1]] = A * LOG2_E
        scaled = np.ascontiguousarray(weight) * LOG2_E
        slots, before = self._find(C), self._n
        if (slots >= 0).mean() < _KNOWN:
            self._hold(2 * len(C), n + _ROOM, C.shape[1])
            slots[:], before = -1, n
        self._reserve(len(self._points), n)
        old = self._count
        if before < n:
            _fill(points, self._points[:old].view(np.float64), scaled, before, 0, self._kernel)
        self._n, new = n, C[slots < 0]
        if len(new):
            self._reserve(old + len(new), n)
            self._count = _put(_bits(new), self._points, self._slots, old)
            added = self._points[old : self._count].view(np.float64)
            self._least[old : self._count], self._given[old : self._count] = explained(added), 0
            _fill(points, added, scaled, 0, old, self._kernel)
            slots = self._find(C)
        mean: np.ndarray = np.empty(self._count, np.float32)
        a, weights = np.asarray(rows[-1], np.float32), np.asarray(rows[before:-1], np.float32)
        errors = error * absolute_sums(rows[before:-1])
        _pass_over(self._kernel, a, weights, before, errors, mean, self._least[:old])
        return mean[slots].astype(np.float64), self._least[slots]

    def exact(self, C: Candidates, A: Points, weight: Point, rows: Rows, predict: Predict) -> MeanSd | None:
        """Return means, in units of z, and explained variances at `C`; None where some of `C` are not held.

        predict(C'): the same of candidates that are asked for the first time. Other arguments as for `bounds`.
        """
        slots = self._find(C)
        if self._n != len(A) or (slots < 0).any():
            return None
        fresh = self._given[slots] == 0
        if fresh.any():
            self._explained[slots[fresh]] = predict(C[fresh])[1]
            self._given[slots[fresh]] = len(A)
        mean, columns = np.empty(len(C)), np.ascontiguousarray(A.T)
        _extend(columns, (C - 0.5) * weight, rows, slots, self._given, self._explained, mean)
        value = self._explained[slots]
        self._least[slots] = np.maximum(self._least[slots], value)
        return mean, value

    def _find(self, C: Candidates) -> Indices:
        """Return where the candidates are held, -1 for those that are not."""
        found = np.full(len(C), -1, np.int64)
        if self._count:
            _look_up(_bits(C), self._points, self._slots, found)
        return found

    def _reserve(self, m: int, n: int) -> None:
        """Make room for `m` candidates and `n` observations, if there is not enough."""
        if m <= len(self._points) and n <= len(self._kernel):
            return
        points, kernel, count, rows = self._points, self._kernel, self._count, self._n
        kept = self._least, self._explained, self._given
        m = 2 * m if m > len(points) else len(points)
        self._hold(m, n + _ROOM if n > len(kernel) else len(kernel), points.shape[1])
        self._count, self._n = _put(points[:count], self._points, self._slots, 0), rows
        self._kernel[:rows, :count] = kernel[:rows, :count]
        for new, old in zip((self._least, self._explained, self._given), kept, strict=True):
            new[:count] = old[:count]


def absolute_sums(rows: Float[np.ndarray, "r n"]) -> Float[np.ndarray, " r"]:
    """Return the sum of |w| of each row, in one order: what is held must not hang on a library's choice of loop."""
    sums = np.zeros(len(rows))
    _absolute_sums(rows, sums)
    return sums


@njit(cache=True)
@no_type_check
def _absolute_sums(rows, sums):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        for value in rows[i]:
            sums[i] += abs(value)


def _bits(C: Candidates) -> np.ndarray:
    return np.ascontiguousarray(C, np.float64).view(np.uint64)


@njit(inline="always")
@no_type_check
def _place(row, points, slots):  # type: ignore[no-untyped-def]
    """Return where in `slots` the row is, or would be: linear probing, from a multiplicative hash.

    The number of slots is a power of 2.
    """
    h = np.uint64(0)
    for bits in row:
        h = (h ^ bits) * np.uint64(0x9E3779B97F4A7C15)
        h ^= h >> np.uint64(32)
    place = np.int64(h & np.uint64(len(slots) - 1))
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
def _put(rows, points, slots, count):  # type: ignore[no-untyped-def]
    """Hold the rows that are not held yet; return how many there are then."""
    for i in range(len(rows)):
        place = _place(rows[i], points, slots)
        if slots[place] < 0:
            slots[place] = count
            points[count] = rows[i]
            count += 1
    return count


@njit(cache=True)
@no_type_check
def _look_up(rows, points, slots, found):  # type: ignore[no-untyped-def]
    """Put into `found` where the rows are held, -1 for those that are not."""
    for i in range(len(rows)):
        found[i] = slots[_place(rows[i], points, slots)]


@njit(cache=True, error_model="numpy")
@no_type_check
def _fill(A, C, weight, begin, first, kernel):  # type: ignore[no-untyped-def]
    """Fill rows `begin` to len(A) of `kernel`, for the candidates C in its columns from `first` on."""
    points = np.empty((A.shape[1], WIDTH), np.float32)
    s, k = np.empty(WIDTH, np.float32), np.empty(WIDTH, np.float32)
    for start in range(0, len(C), WIDTH):
        scale(C, start, weight, points)
        width = min(WIDTH, len(C) - start)
        for i in range(begin, len(A)):
            squares(A[i], points, s)
            matern_float32(s, k)
            row = kernel[i]
            for j in range(width):
                row[first + start + j] = k[j]


@njit(cache=True, error_model="numpy")
@no_type_check
def _pass_over(kernel, a, weights, begin, errors, mean, least):  # type: ignore[no-untyped-def]
    """Put a^T k into `mean`, and add (|v| - its error)+^2, v = w^T k, to `least`.

    For rows w of the observations from `begin` on.

    The first of these rows goes along with the mean: what takes time is to fetch the kernel's values.
    """
    n, rows, v = len(a), len(weights), np.empty(_BLOCK, np.float32)
    for start in range(0, len(mean), _BLOCK):
        width = min(_BLOCK, len(mean) - start)
        part = mean[start : start + width]
        part[:] = np.float32(0.0)
        v[:] = np.float32(0.0)
        end = begin + 1 if rows > 0 else 0
        for i in range(end):
            row, factor, weight = kernel[i, start : start + width], a[i], weights[0, i]
            for j in range(width):
                part[j] = fma(factor, row[j], part[j])
                v[j] = fma(weight, row[j], v[j])
        for i in range(end, n):
            row, factor = kernel[i, start : start + width], a[i]
            for j in range(width):
                part[j] = fma(factor, row[j], part[j])
        for r in range(rows):
            if r > 0:
                v[:] = np.float32(0.0)
                for i in range(begin + r + 1):
                    row, weight = kernel[i, start : start + width], weights[r, i]
                    for j in range(width):
                        v[j] = fma(weight, row[j], v[j])
            for j in range(min(width, len(least) - start)):
                size = max(abs(np.float64(v[j])) - errors[r], 0.0)
                least[start + j] = fma(size, size, least[start + j])


@njit(cache=True, error_model="numpy")
@no_type_check
def _extend(columns, points, rows, slots, given, explained, mean):  # type: ignore[no-untyped-def]
    """Put a^T k into `mean`, and add to `explained` what the observations from `given` on explain; a: the last row."""
    n = columns.shape[1]
    s, r, k = np.empty(n), np.empty(n), np.empty(n)
    for c in range(len(points)):
        kernel_row(columns, points[c], n, 1.0, s, r, k)
        mean[c] = _dot(rows[n], k, n)
        slot = slots[c]
        for i in range(given[slot], n):
            v = _dot(rows[i], k, i + 1)
            explained[slot] = fma(v, v, explained[slot])
        given[slot] = n


@njit(inline="always", error_model="numpy")
@no_type_check
def _dot(a, b, n):  # type: ignore[no-untyped-def]
    """Return the sum of the first n products, in four parts, which a processor works on at the same time."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    whole = n - n % 4
    for i in range(0, whole, 4):
        s0, s1 = fma(a[i], b[i], s0), fma(a[i + 1], b[i + 1], s1)
        s2, s3 = fma(a[i + 2], b[i + 2], s2), fma(a[i + 3], b[i + 3], s3)
    for i in range(whole, n):
        s0 = fma(a[i], b[i], s0)
    return (s0 + s1) + (s2 + s3)

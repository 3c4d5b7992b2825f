"""Shapes of arrays that many annotations name: n observations or m candidates in the d-dimensional unit cube.

And what finds equal points: `point_keys` and `HeldPoints`.
"""

from functools import cache
from typing import no_type_check

import numpy as np
from jaxtyping import Bool, Float, Int, UInt

from harness.compile_cache import njit
from harness.streams import stream

Points = Float[np.ndarray, "n d"]
Vector = Float[np.ndarray, " n"]  # a number for each of n points
Flags = Bool[np.ndarray, " n"]
CandidatePoints = Float[np.ndarray, "m d"]
PerCandidate = Float[np.ndarray, " m"]
MeanSd = tuple[PerCandidate, PerCandidate]
Indices = Int[np.ndarray, " k"]
Theta = Float[np.ndarray, " t"]  # hyperparameters, on the scales that a search works on


def point_keys(C: Float[np.ndarray, "m d"]) -> UInt[np.ndarray, " m"]:
    """Return one 64-bit number per point, the same for the same bits; for others the same by a 2^-64 chance only."""
    return np.asarray(_keys(np.ascontiguousarray(C, dtype=np.float64).view(np.uint64), _odd(C.shape[1])))


def unseen(C: Float[np.ndarray, "m d"], X: Float[np.ndarray, "n d"]) -> Bool[np.ndarray, " m"]:
    """Return which of the points `C` are none of `X`, by `point_keys`."""
    return ~np.isin(point_keys(C), point_keys(X))


@cache
def _odd(d: int) -> UInt[np.ndarray, " d"]:
    return stream(0, "keys of points").integers(2**63, size=d, dtype=np.uint64) * 2 + 1


@njit(cache=True)
@no_type_check
def _keys(bits, odd):  # type: ignore[no-untyped-def]
    """Return the sums over columns of bits mixed and multiplied, modulo 2^64."""
    out = np.zeros(len(bits), np.uint64)
    for i in range(len(bits)):
        for j in range(bits.shape[1]):
            out[i] += (bits[i, j] ^ (bits[i, j] >> np.uint64(29))) * odd[j]
    return out


_AHEAD = 4  # points among which the next one is looked for, once one was not further on at all


class HeldPoints:
    """Different points, each with a number by which it is found again: 0, 1, 2, ..., as they came.

    count: how many there are; room: how many there can be. array: (room, d), the first `count` rows of it.
    """

    def __init__(self, room: int, d: int) -> None:
        self.array = np.empty((room, d))
        self.count, self.room = 0, room
        self._bits = self.array.view(np.uint64)
        self._slots = np.full(4 << max(room - 1, 0).bit_length() if room else 0, -1, np.int64)

    def forget(self) -> None:
        """Drop all."""
        self.count, self._slots[:] = 0, -1

    def hold(self, C: CandidatePoints) -> Int[np.ndarray, " m"]:
        """Take in those that are not there yet, and return the numbers of all."""
        numbers = np.empty(len(C), np.int64)
        self.count = _put(_bits(C), self._bits, self._slots, self.count, numbers)
        return numbers

    def find(self, C: CandidatePoints, order: Indices) -> Int[np.ndarray, " m"]:
        """Return the numbers of points, -1 for those that are not there.

        order: numbers of points that were asked for before, in which most are among the next: the same but for a few,
        or all of which some are left.
        """
        found = np.full(len(C), -1, np.int64)
        if self.count:
            _look_up(_bits(C), self._bits, self._slots, order, found)
        return found


def _bits(C: CandidatePoints) -> np.ndarray:
    return np.ascontiguousarray(C, np.float64).view(np.uint64)


@njit(inline="always")
@no_type_check
def _place(rows, i, points, slots):  # type: ignore[no-untyped-def]
    """Return where in `slots` row i is, or would be: linear probing, from a multiplicative hash.

    The number of slots is a power of 2.
    """
    h = np.uint64(0)
    for q in range(rows.shape[1]):
        h = (h ^ rows[i, q]) * np.uint64(0x9E3779B97F4A7C15)
        h ^= h >> np.uint64(32)
    place = np.int64(h & np.uint64(len(slots) - 1))
    while slots[place] >= 0 and not _equal(points, slots[place], rows, i):
        place = place + 1 if place + 1 < len(slots) else 0
    return place


@njit(inline="always")
@no_type_check
def _equal(a, i, b, j):  # type: ignore[no-untyped-def]
    """Return whether row i of a is row j of b; without views of them, whose owners would be counted."""
    q = 0
    while q < a.shape[1] and a[i, q] == b[j, q]:
        q += 1
    return q == a.shape[1]


@njit(cache=True)
@no_type_check
def _put(rows, points, slots, count, numbers):  # type: ignore[no-untyped-def]
    """Hold the rows that are not held yet, and put into `numbers` where all are; return how many there are then."""
    for i in range(len(rows)):
        place = _place(rows, i, points, slots)
        if slots[place] < 0:
            slots[place] = count
            points[count] = rows[i]
            count += 1
        numbers[i] = slots[place]
    return count


@njit(cache=True)
@no_type_check
def _look_up(rows, points, slots, order, found):  # type: ignore[no-untyped-def]
    """Put into `found` where the rows are held, -1 for those that are not; order: as in `HeldPoints.find`."""
    following, ahead = 0, len(order)
    for i in range(len(rows)):
        at = -1
        for k in range(following, min(following + ahead, len(order))):
            if _equal(points, order[k], rows, i):
                at, following = order[k], k + 1
                break
        if at < 0:
            ahead = _AHEAD
        found[i] = at if at >= 0 else slots[_place(rows, i, points, slots)]

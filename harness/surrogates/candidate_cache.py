"""Predictions at candidates, kept and extended from step to step while the hyperparameters stay the same.

With K = L L^T and V = L^-1 k(X, c), the variance explained at c is |V|^2 and the mean V^T L^-1 z. A new observation
leaves the rows of V unchanged and adds one, v = w^T k(X, c), where w is the new row of L^-1 (`GrowingSolution`). So
`CandidateCache` spends O(n) on a candidate, where predicting it from scratch takes O(n^2); and it spends that only on
candidates that could be chosen. For the others |v| cannot exceed the sd that remains there, so that what was known of a
candidate some observations ago still bounds its mean and sd.

Its arrays hold:

    slot     the row of a candidate, found by its coordinates, or by where it is in the array that was asked for last
    place    the row of a candidate in `_Exact`, -1 while its exact values are not known
    given    per slot or place: the number of observations that its values take into account
    least    per slot: a lower bound of the explained variance
    rough    per slot: the rough bound that `least` began with, -1 once that is sharpened or exact
"""

from collections.abc import Callable
from typing import NamedTuple, no_type_check

import numpy as np
from jaxtyping import Float, Int

from harness.arrays import CandidatePoints, HeldPoints, Indices, PerCandidate, Points, Vector
from harness.compile_cache import njit
from harness.surrogates.growing_solution import GrowingSolution, Location, Weight
from harness.surrogates.kernels import (
    DIMENSIONS,
    DOTS,
    LOG2_E,
    PARTS,
    WIDTH,
    dot,
    dot_float32,
    fetch,
    fma,
    matern_float32,
    matern_float64,
    products,
    squares,
)

_KNOWN = 0.5  # of the candidates must be held already; else the old ones are dropped: the draw is a new one
_COLUMNS = 4 * WIDTH  # room for observations comes in multiples of this
_SOON = 3  # candidates from now whose values are fetched from memory


class View(NamedTuple):
    """What a posterior is made of: observed points, centred and scaled by `weight`; signal variance; (mean, sd) of y.

    added: to the variance, in units of z^2. unit: by how much a sum of kernel values in single precision can be off,
    per root of the sum of the squares of their weights.
    """

    A: Points
    weight: Weight
    signal: float
    location: Location
    added: float
    unit: float


Explained = Callable[[CandidatePoints], PerCandidate]  # variances explained, in units of z^2
# lower bounds of them at some rows of held kernel values, rough ones if so asked
AtLeast = Callable[[Float[np.ndarray, "m n"], Indices, bool], Float[np.ndarray, " k"]]


class CandidateCache:
    """Kernel values, means and explained variances at candidates, by their coordinates, for a `GrowingSolution`.

    For each candidate it holds, in units of z of the growing solution, mean = (k^T K^-1 z, k^T K^-1 1) and a lower
    bound `least` of the explained variance, both given the first `given` observations, from kernel values in single
    precision. Exact values, once asked for, and the kernel values behind them are held in double precision (`exact`).
    """

    def __init__(self) -> None:
        self._grown: GrowingSolution | None = None
        self._slots_in: tuple[Points, Indices] | None = None  # an array of candidates, and their slots, -1 for unknown
        self._exact = _Exact()
        self._hold(0, 0, 0)

    def _hold(self, m: int, n: int, d: int) -> None:
        """Drop everything and make room for `m` candidates in d dimensions and `n` observations."""
        self._points, self._n, self._order = HeldPoints(m, d), 0, np.empty(0, np.int64)
        self._exact.begin(m, n)
        self._slots_in = None
        self._kernel: np.ndarray = np.empty((m, n), np.float32)
        self._scaled: np.ndarray = np.zeros((m, -(-d // DIMENSIONS) * DIMENSIONS), np.float32)
        self._means: np.ndarray = np.zeros((m, 2))
        self._least: np.ndarray = np.zeros(m)
        self._given: np.ndarray = np.zeros(m, np.int64)
        self._rough: np.ndarray = np.zeros(m)

    def serve(self, grown: GrowingSolution, at_least: AtLeast, exactly: Explained) -> None:
        """Begin to serve a posterior of this solution; drop everything that belongs to another.

        at_least, exactly: lower bounds of the variances explained by the first observations, and these themselves.
        """
        if grown is not self._grown:
            self._grown, self._n = grown, 0
            self._at_least, self._exactly = at_least, exactly
            self._forget()

    def _forget(self) -> None:
        """Drop every candidate."""
        self._order, self._slots_in = self._order[:0], None
        self._points.forget()
        self._exact.forget()

    def serves(self, n: int) -> bool:
        """Return whether the cache serves a solution of n observations."""
        return self._grown is not None and self._grown.n == n

    def _advance(self, view: View) -> None:
        """Take in new observations."""
        if self._n == self._solution.n:
            return
        grown, n = self._solution, self._solution.n
        first, room = grown.first, -(-len(grown.W) // WIDTH) * WIDTH
        if self._n == 0:
            self._blocks: np.ndarray = np.zeros((room // WIDTH, self._scaled.shape[1], WIDTH), np.float32)
            self._rows: np.ndarray = np.zeros((len(grown.W) - first + 2, room))  # two of `solved`, then W's
            self._errors, self._sizes = np.zeros(len(self._rows) - 2), np.zeros(2)
            self._rows[:2, :first] = view.signal * grown.first_solved
            self._sizes[:] = _lengths(grown.first_solved)
        if self._n < n:
            points = (view.A[self._n :] * LOG2_E).astype(np.float32)
            begin = max(self._n, first)
            new = view.signal * grown.W[begin:n]
            self._rows[begin - first + 2 : n - first + 2, : new.shape[1]] = new
            self._errors[begin - first : n - first] = view.unit * _lengths(new)
            _put_points(points, self._n, self._blocks)
            self._n = n

    @property
    def _solution(self) -> GrowingSolution:
        assert self._grown is not None
        return self._grown

    def bounds(
        self, C: CandidatePoints, view: View, rough: bool, where: Indices | None = None
    ) -> tuple[Vector, Vector]:
        """Return a mean no higher and an sd no lower than those at `C`; rough: with what is known of them already.

        where: at these rows of `C` alone.
        """
        slots, all_known = self._slots_known(C, where)
        if not all_known:
            slots = self._slots_adding_missing(C, where, slots, view)
            if len(slots) > _KNOWN * self._points.count:
                self._note_slots(C, where, slots)
        self._advance(view)
        if not rough:
            self._sharpen(self._refresh(slots))
        grown, (mu, scale) = self._solution, view.location
        p, q = grown.in_units_of(view.location)
        slack = scale * view.unit * view.signal * (p * self._sizes[0] + abs(q) * self._sizes[1])
        return _bounds(  # type: ignore[no-any-return]
            slots, self._means, self._least, self._given, grown.projected[: self._n], self._errors, grown.first,
            scale * p, scale * q, mu - slack, view.signal, view.added, scale,
        )  # fmt: skip

    def _slots_known(self, C: Points, where: Indices | None) -> tuple[Indices, bool]:
        """Return where candidates are held, -1 where that is to be looked up by their coordinates, and if none is."""
        if self._slots_in is None or self._slots_in[0] is not C:
            return np.full(len(C) if where is None else len(where), -1, np.int64), False
        known = self._slots_in[1]
        return _taken(known, np.arange(len(known)) if where is None else where)  # type: ignore[no-any-return]

    def _note_slots(self, C: Points, where: Indices | None, slots: Indices) -> None:
        """Note where candidates are held by where they are in `C`, too."""
        self._order = slots
        if where is None:
            self._slots_in = C, slots
            return
        if self._slots_in is None or self._slots_in[0] is not C:
            self._slots_in = C, np.full(len(C), -1, np.int64)
        self._slots_in[1][where] = slots

    def _slots_looked_up(self, C: Points, where: Indices | None, slots: Indices) -> Indices:
        """Return `slots` with those of the others that are held, by their coordinates."""
        missing = np.flatnonzero(slots < 0)
        slots[missing] = self._points.find(_points_at(C, where, missing), self._order)
        return slots

    def _slots_adding_missing(self, C: Points, where: Indices | None, slots: Indices, view: View) -> Indices:
        """Return where candidates are held, those that were not included."""
        slots = self._slots_looked_up(C, where, slots)
        missing = np.flatnonzero(slots < 0)
        if len(missing) > (1.0 - _KNOWN) * len(slots):
            self._forget()
            missing, slots[:] = np.arange(len(slots)), -1
        self._reserve(self._points.count + len(missing), len(slots), C.shape[1])
        self._advance(view)
        if len(missing):
            slots[missing] = self._add(_points_at(C, where, missing), view)
        return slots

    def _add(self, new: CandidatePoints, view: View) -> Int[np.ndarray, " m"]:
        """Hold candidates that are not held yet, as known by the first observations; return where."""
        old, first = self._points.count, self._solution.first
        slots, count = self._points.hold(new), self._points.count
        part = slice(old, count)
        self._scaled[part, : new.shape[1]] = (self._points.array[part] - 0.5) * (view.weight * LOG2_E)
        _fill(self._kernel, self._scaled, self._blocks, old, count, self._n, self._rows, self._means, first)
        self._rough[part] = self._least[part] = self._at_least(self._kernel, np.arange(old, count), True)
        self._given[part], self._exact.place[part] = first, -1
        return slots

    def _refresh(self, slots: Indices) -> Int[np.ndarray, " rough"]:
        """Bring these candidates up to the latest observation; return those whose bounds are rough."""
        return _update(  # type: ignore[no-any-return]
            slots, self._kernel, self._scaled, self._blocks, self._n, self._solution.first, self._rows, self._errors,
            self._solution.projected, self._means, self._least, self._given, self._rough,
        )  # fmt: skip

    def _sharpen(self, rough: Indices) -> None:
        """Replace rough lower bounds by better ones."""
        if len(rough):
            least = self._at_least(self._kernel, rough, False)
            self._least[rough] += np.maximum(least - self._rough[rough], 0.0)
            self._rough[rough] = -1.0

    def exact(self, C: CandidatePoints, view: View, where: Indices | None = None) -> tuple[Vector, Vector] | None:
        """Return means, in units of z, and explained variances at `C`; None where some of `C` are not held.

        where: at these rows of `C` alone.
        """
        slots, all_known = self._slots_known(C, where)
        if not all_known:
            slots = self._slots_looked_up(C, where, slots)
            if slots.min(initial=0) < 0:
                return None
        self._advance(view)
        self._refresh(slots)
        exact, grown = self._exact, self._solution
        places, fresh = exact.places(slots)
        points = self._points.array
        if len(fresh):
            exact.explained[exact.place[fresh]] = self._exactly(points.take(fresh, axis=0))
        _extend(
            grown.columns, points, view.weight, slots, places, exact.kernel, exact.given, exact.explained, exact.means,
            grown.W, self._n, grown.first, grown.first_solved, grown.projected, view.signal,
        )  # fmt: skip
        units = grown.in_units_of(view.location)
        return _read(slots, places, exact.explained, exact.means, *units, self._least, self._rough)  # type: ignore[no-any-return]

    def _reserve(self, m: int, offered: int, d: int) -> None:
        """Make room for `m` candidates and all observations to come, where there is too little."""
        n = -(-len(self._solution.W) // _COLUMNS) * _COLUMNS
        points, order, rows = self._points, self._order, self._n
        if m <= points.room and n <= self._kernel.shape[1] and d == points.array.shape[1]:
            return
        kept, count = self._of_candidates(), points.count
        self._hold(max(m, 2 * offered, points.room), n, d)
        if count:
            self._points.hold(points.array[:count])
            for to, old in zip(self._of_candidates(), kept, strict=True):
                to[:count, ...] = old[:count, : to.shape[1]] if to.ndim > 1 else old[:count]
            self._order, self._n = order, rows

    def _of_candidates(self) -> tuple[np.ndarray, ...]:
        return self._kernel, self._scaled, self._means, self._least, self._rough, self._given


class _Exact:
    """Exact kernel values, means and explained variances of some candidates, each in a place of its own.

    means: both, in units of z, like those that are not exact. given: the observations taken in, 0 before the first.
    place: that of each candidate held, -1 for none.
    """

    def __init__(self) -> None:
        self.kernel: np.ndarray = np.empty((0, 0))
        self.begin(0, 0)

    def begin(self, m: int, n: int) -> None:
        """Start empty, with room for all `m` candidates; memory that is never touched costs nothing."""
        if m > len(self.kernel) or n > self.kernel.shape[1]:
            self.kernel = np.empty((m, n))
        self.means: np.ndarray = np.zeros((m, 2))
        self.explained: np.ndarray = np.zeros(m)
        self.given: np.ndarray = np.zeros(m, np.int64)
        self.place: np.ndarray = np.full(m, -1, np.int64)
        self._count = 0

    def forget(self) -> None:
        """Drop everything."""
        self.place[:], self.given[:], self._count = -1, 0, 0

    def places(self, slots: Indices) -> tuple[Indices, Int[np.ndarray, " new"]]:
        """Return the places of candidates, and which of them had none before: nothing is known there yet."""
        places, new = _give_places(slots, self.place, self._count)
        self._count += len(new)
        return places, new


@njit(cache=True)
@no_type_check
def _give_places(slots, place, count):  # type: ignore[no-untyped-def]
    """Return the places of `slots`, and those that get one only now, the next after `count`."""
    places, new, found = np.empty(len(slots), np.int64), np.empty(len(slots), np.int64), 0
    for i in range(len(slots)):
        slot = slots[i]
        if place[slot] < 0:  # a candidate may be asked for twice
            place[slot], new[found] = count + found, slot
            found += 1
        places[i] = place[slot]
    return places, new[:found]


def _lengths(rows: Float[np.ndarray, "r n"]) -> Float[np.ndarray, " r"]:
    """Return the root of the sum of w^2 of each row, in one order, so that it does not depend on a library's loops."""
    out = np.zeros(len(rows))
    _fill_lengths(np.ascontiguousarray(rows), out)
    return out


@njit(cache=True)
@no_type_check
def _fill_lengths(rows, out):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        for value in rows[i]:
            out[i] = fma(value, value, out[i])
        out[i] = np.sqrt(out[i])


def _points_at(C: Points, where: Indices | None, some: Int[np.ndarray, " some"]) -> CandidatePoints:
    """Return some of the rows `where` of C, None for all rows."""
    if where is None:
        return C if len(some) == len(C) else C.take(some, axis=0)
    return C.take(where[some], axis=0)


@njit(cache=True)
@no_type_check
def _taken(slots, where):  # type: ignore[no-untyped-def]
    """Return slots[where], and whether all of them are known."""
    out, lowest = np.empty(len(where), np.int64), 0
    for i in range(len(where)):
        out[i] = slots[where[i]]
        lowest = min(lowest, out[i])
    return out, lowest == 0


@njit(cache=True)
@no_type_check
def _put_points(points, begin, blocks):  # type: ignore[no-untyped-def]
    """Put points into the columns of blocks of WIDTH, from column `begin` on."""
    for i in range(len(points)):
        at = begin + i
        for q in range(points.shape[1]):
            blocks[at // WIDTH, q, at % WIDTH] = points[i, q]


@njit(cache=True, error_model="numpy")
@no_type_check
def _fill(kernel, scaled, blocks, begin, end, n, rows, means, first):  # type: ignore[no-untyped-def]
    """Fill the kernel values of candidates from `begin` to `end`, and their means given the first observations."""
    s, whole = np.empty(WIDTH, np.float32), -(-n // WIDTH)
    count = -(-first // WIDTH) * WIDTH
    for c in range(begin, end):
        for b in range(whole):
            squares(scaled[c], blocks[b], s)
            matern_float32(s, kernel[c, b * WIDTH : (b + 1) * WIDTH])
        for part in range(2):
            means[c, part] = dot_float32(rows, part, kernel, c, count)


@njit(cache=True, error_model="numpy")
@no_type_check
def _update(slots, kernel, scaled, blocks, n, first, rows, errors, projected, means, least, given, rough):  # type: ignore[no-untyped-def]
    """Take observations up to n in at the candidates `slots`: v = w^T k for each, (|v| - its error)+^2 to `least`.

    Returns those of them that are rough.
    """
    s, coarse, count = np.empty(WIDTH, np.float32), np.empty(len(slots), np.int64), 0
    for c in range(len(slots)):
        slot, following = slots[c], slots[min(c + _SOON, len(slots) - 1)]  # rows lie far apart: each is waited for
        fetch(kernel, following, n if given[following] < n else 0)
        coarse[count] = slot
        count += rough[slot] >= 0.0
        known = given[slot]
        if known >= n:
            continue
        for b in range(known // WIDTH, -(-n // WIDTH)):
            squares(scaled[slot], blocks[b], s)
            matern_float32(s, kernel[slot, b * WIDTH : (b + 1) * WIDTH])
        for i in range(known, n):
            v = dot_float32(rows, i - first + 2, kernel, slot, (i // WIDTH + 1) * WIDTH)
            size = max(abs(v) - errors[i - first], 0.0)
            least[slot] = fma(size, size, least[slot])
            means[slot, 0] = fma(projected[i, 0], v, means[slot, 0])
            means[slot, 1] = fma(projected[i, 1], v, means[slot, 1])
        given[slot] = n
    return coarse[:count]


@njit(cache=True, error_model="numpy")
@no_type_check
def _bounds(  # type: ignore[no-untyped-def]
    slots, means, least, given, projected, errors, first, p, q, start, signal, added, scale
):
    """Return bounds of mean and sd in units of y; projected, errors: of all observations, and of those after the first.

    p, q: of means in units of z, so that they are in units of y; start: the mean of y, less what those can be off.
    """
    n = len(projected)
    left, squared = np.zeros(n - first + 1), 0.0  # by how many sds the observations from each on can lower a mean
    for i in range(n - 1, first - 1, -1):
        change = p * projected[i, 0] + q * projected[i, 1]
        squared += change * change
        left[i - first] = np.sqrt(squared)
        start -= abs(change) * errors[i - first]
    low, high, lower = np.empty(len(slots)), np.empty(len(slots)), np.empty(len(slots))
    for i in range(len(slots)):
        slot = slots[i]
        low[i] = fma(p, means[slot, 0], fma(q, means[slot, 1], start))
        high[i], lower[i] = max(signal - least[slot], 0.0), left[given[slot] - first]
    for i in range(len(slots)):  # apart, so that many are done at a time
        rest = high[i]
        low[i] = fma(-lower[i], np.sqrt(rest), low[i])
        high[i] = scale * np.sqrt(rest + added)
    return low, high


@njit(cache=True, error_model="numpy")
@no_type_check
def _extend(  # type: ignore[no-untyped-def]
    columns, points, weight, slots, places, kernel, given, explained, means, W, n, first, solved, projected, signal
):
    """Take observations up to n in at the candidates `slots`, exactly: v = w^T k for each, as `_update` does."""
    s, r, v, parts = np.empty(n), np.empty(n), np.empty(n), np.empty((DOTS, PARTS))
    for c in range(len(slots)):
        slot, at = slots[c], places[c]
        begin, row, following = given[at], kernel[at], places[min(c + _SOON, len(slots) - 1)]
        fetch(kernel, following, n if 0 < given[following] < n else 0)
        if begin >= n:
            continue
        count = n - begin
        s[:count] = 0.0
        for q in range(len(weight)):
            x, column = (points[slot, q] - 0.5) * weight[q], columns[q]
            for j in range(count):
                difference = column[begin + j] - x
                s[j] = fma(difference, difference, s[j])
        matern_float64(s[:count], r[:count], row[begin:n])
        if begin == 0:
            for part in range(2):
                means[at, part] = signal * dot(solved, part, row, first, parts)
            begin = first
        products(W, begin, n, row, parts, v)
        for i in range(begin, n):
            value = signal * v[i]
            explained[at] = fma(value, value, explained[at])
            for part in range(2):
                means[at, part] = fma(projected[i, part], value, means[at, part])
        given[at] = n


@njit(cache=True, error_model="numpy")
@no_type_check
def _read(slots, places, explained, means, p, q, least, rough):  # type: ignore[no-untyped-def]
    """Return means, in units of z, and explained variances, and note the latter as bounds that are not rough."""
    mean, value = np.empty(len(slots)), np.empty(len(slots))
    for i in range(len(slots)):
        slot, at = slots[i], places[i]
        value[i], mean[i] = explained[at], means[at, 0] * p + means[at, 1] * q
        least[slot], rough[slot] = max(least[slot], value[i]), -1.0
    return mean, value

"""The Gaussian process posterior: mean and sd at many points, and fast bounds of both in single precision."""

import math
from functools import cached_property
from typing import ClassVar, no_type_check

import numpy as np
from jaxtyping import Float, Int

from harness.arrays import CandidatePoints, Indices, MeanSd, PerCandidate, Points, Theta, Vector
from harness.compile_cache import njit
from harness.normal import exp
from harness.surrogates import Hyperparameters, Joint, Posterior
from harness.surrogates.candidate_cache import CandidateCache, View
from harness.surrogates.growing_solution import GrowingSolution
from harness.surrogates.inducing import InducingSubset
from harness.surrogates.kernels import (
    DIMENSIONS,
    LOG2_E,
    TILE_BYTES,
    TILE_ROWS,
    WIDTH,
    Workspace,
    add_squares,
    fetch,
    fma,
    matern,
    matern_float32,
    matern_float64,
    scale,
    squares,
    weighted_sum,
)
from harness.surrogates.likelihood import Solution, product, transposed_product

# Mean and explained variance at many points, in single or double precision, compiled.
#
# Block by block, so that the kernel values never leave the processor's cache.


_FLOOR = 1e-14  # of the signal variance; rounding must not make the variance of a known point negative


class Predictor:
    """m = a^T k(c) and e = |V|^2, V = W k(c), k_i = Matern-5/2 of |a_i - c|, at every c.

    A: (n, d) points, centred and divided by the length-scales over sqrt(5), weight those factors. W: (r, r), lower
    triangular, for the first r <= n points. a: (n,). dtype: float32 or float64, in which all is calculated. Every
    candidate is calculated by the same operations in the same order, wherever it stands.
    """

    def __init__(
        self,
        A: Points,
        weight: Float[np.ndarray, " d"],
        W: Float[np.ndarray, "r r"],
        a: Vector,
        space: Workspace,
        dtype: type,
    ) -> None:
        unit, d = LOG2_E if dtype is np.float32 else 1.0, A.shape[1]
        self._dtype, self._space = dtype, space
        self._weight = np.ascontiguousarray(weight) * unit
        self._a = np.ascontiguousarray(a)
        self._A: np.ndarray = np.zeros((len(A), -(-d // DIMENSIONS) * DIMENSIONS), dtype)
        self._A[:, :d] = A * unit
        strips = -(-len(W) // TILE_ROWS)
        self._strips: np.ndarray = np.zeros(TILE_ROWS * TILE_ROWS * strips * (strips + 1) // 2, dtype)
        _pack(W, self._strips)
        self._rows = len(W)

    def explained(
        self, kernel: Float[np.ndarray, "m n"], of: Indices, order: Int[np.ndarray, " r"] | None
    ) -> Float[np.ndarray, " k"]:
        """Return e by kernel values that are known, in single precision: row c of `kernel` for each c in `of`.

        order: the columns of the first r points; None for those in their order.
        """
        order = np.arange(self._rows) if order is None else order
        out: np.ndarray = np.empty(-(-len(of) // WIDTH) * WIDTH, np.float32)
        memory = self._space.take("explained", (self._rows + TILE_ROWS, WIDTH), np.float32)
        _explain(self._strips, order[: self._rows], kernel, of, memory, out)
        return out[: len(of)]

    def __call__(self, C: CandidatePoints) -> MeanSd:
        """Return m and e at `C`."""
        (n, d), m, size = self._A.shape, len(C), np.dtype(self._dtype).itemsize
        rounded = -(-m // WIDTH) * WIDTH
        memory = self._space.take(f"predict {size}", (n + TILE_ROWS + 2 + d, WIDTH), self._dtype)
        mean = np.empty(rounded)
        explained: np.ndarray = np.empty(rounded, self._dtype)
        predict = _fill_float32 if size == 4 else _fill_float64
        points = np.ascontiguousarray(C)
        predict(self._A, points, self._weight, self._strips, self._rows, self._a, memory, mean, explained)
        return mean[:m], explained[:m]


@njit(cache=True, error_model="numpy")
@no_type_check
def _fill_float32(A, C, weight, strips, r, a, memory, mean, explained):  # type: ignore[no-untyped-def]
    """Fill `mean` and `explained` in single precision."""
    n = len(A)
    k, points = memory[: n + TILE_ROWS], memory[n + TILE_ROWS + 2 :]
    values = k[:n].reshape(n * WIDTH)
    k[n:] = 0.0
    for start in range(0, len(mean), WIDTH):
        scale(C, start, weight, points)
        for i in range(n):
            squares(A[i], points, k[i])
        matern_float32(values, values)  # all in one loop, which sets its constants once
        _products(strips, r, n, a, k, WIDTH, mean[start : start + WIDTH], explained[start : start + WIDTH])


@njit(cache=True, error_model="numpy")
@no_type_check
def _fill_float64(A, C, weight, strips, r, a, memory, mean, explained):  # type: ignore[no-untyped-def]
    """Fill `mean` and `explained` in double precision."""
    n = len(A)
    k, s, points = memory[: n + TILE_ROWS], memory[n + TILE_ROWS], memory[n + TILE_ROWS + 2 :]
    root = memory[n + TILE_ROWS + 1]
    k[n:] = 0.0
    for start in range(0, len(mean), WIDTH):
        scale(C, start, weight, points)
        count = min(WIDTH, len(C) - start)  # often a few candidates are all
        for i in range(n):
            squares(A[i], points, s)
            matern_float64(s[:count], root[:count], k[i, :count])
        _products(strips, r, n, a, k, count, mean[start : start + WIDTH], explained[start : start + WIDTH])


@njit(cache=True, error_model="numpy")
@no_type_check
def _explain(strips, order, kernel, of, k, out):  # type: ignore[no-untyped-def]
    """Fill `out` with |V|^2, V = W k; k: work space."""
    r, last, known = len(order), len(of) - 1, order.max() + 1
    k[r:] = 0.0
    for start in range(0, len(out), WIDTH):
        for j in range(WIDTH):
            fetch(kernel, of[min(start + j + 4, last)], known)
            row = kernel[of[min(start + j, last)]]
            for i in range(r):
                k[i, j] = row[order[i]]
        _squares(strips, r, k, WIDTH, out[start : start + WIDTH])


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
def _products(strips, r, n, a, k, count, mean, explained):  # type: ignore[no-untyped-def]
    """Put a^T k into `mean`, and into `explained` the sum of the squares of V = W k, W as `_pack` leaves it.

    k has rows of zeros behind its n, which the last strip's columns may reach.
    """
    weighted_sum(a, n, k, mean)
    _squares(strips, r, k, count, explained)


@njit(inline="always")
@no_type_check
def _squares(strips, r, k, count, explained):  # type: ignore[no-untyped-def]
    """Put the sum of the squares of W k into `explained`, for the tiles that hold the first `count` candidates."""
    explained[:] = 0.0
    for place in range(0, count, 2 * TILE_BYTES // k.itemsize):
        start = 0
        for last in range(TILE_ROWS, r + TILE_ROWS, TILE_ROWS):
            add_squares(strips, start, last, k, place, explained)
            start += TILE_ROWS * last


@njit(cache=True, error_model="numpy")
@no_type_check
def _sizes(W, a):  # type: ignore[no-untyped-def]
    """Return the root of the sum of the squares of a lower triangle, and of `a`."""
    triangle, vector = 0.0, 0.0
    for i in range(len(W)):
        for j in range(i + 1):
            triangle = fma(W[i, j], W[i, j], triangle)
    for value in a:
        vector = fma(value, value, vector)
    return np.sqrt(triangle), np.sqrt(vector)


@njit(cache=True, error_model="numpy")
@no_type_check
def _widened(mean, explained, mean_error, signal, added, mu, scale):  # type: ignore[no-untyped-def]
    """Return mu + scale (mean - its error) and scale sqrt(max(0, signal - explained) + added)."""
    low, high = np.empty(len(mean)), np.empty(len(mean))
    for i in range(len(mean)):
        low[i] = mu + scale * (mean[i] - mean_error)
        high[i] = scale * np.sqrt(max(signal - np.float64(explained[i]), 0.0) + added)
    return low, high


@njit(cache=True, error_model="numpy")
@no_type_check
def _moments(mean, explained, mu, scale, signal):  # type: ignore[no-untyped-def]
    """Return mu + scale mean, and signal - explained, no less than `_FLOOR` of the signal."""
    means, variances = np.empty(len(mean)), np.empty(len(mean))
    for i in range(len(mean)):
        means[i] = mu + scale * mean[i]
        left = signal - explained[i]
        variances[i] = _FLOOR * signal if left < _FLOOR * signal else left
    return means, variances


def weights(theta: Theta, d: int) -> Float[np.ndarray, " d"]:
    """Return sqrt(5) / length-scale of each of d dimensions."""
    weight = np.empty(d)
    weight[:] = math.sqrt(5.0) * exp(-theta[:-2])
    return weight


_FLOAT32_UNIT = 2.0**-24  # the rounding unit of single precision
_OF_SUMS, _OF_EXPLAINED = 6.0, 3.0  # three times what is seen


class GaussianPosterior(Posterior):
    """m(c) = mu + s k(c)^T K^-1 z and sd(c) = s sqrt(k(c, c) - k(c)^T K^-1 k(c)), z = (y - mu) / s.

    solution: what the likelihood knows at theta. location: (mu, s). With `noise_in_sd` the noise variance is
    added to the latent variance. space, subset: to share with the run's other posteriors. grown: where hyperparameters
    stay as they are from one posterior to the next, what solution is of, and held: what is known of candidates.
    Source: Rasmussen and Williams 2006, equations 2.25 and 2.26.
    """

    bounded: ClassVar[bool] = True

    def __init__(
        self,
        X: Points,
        theta: Theta,
        solution: Solution,
        location: tuple[float, float],
        noise_in_sd: bool,
        space: Workspace | None = None,
        subset: InducingSubset | None = None,
        grown: GrowingSolution | None = None,
        held: CandidateCache | None = None,
    ) -> None:
        self._space = Workspace() if space is None else space
        self._subset = InducingSubset() if subset is None else subset
        self._theta = theta
        self._signal, noise = math.exp(theta[-2]), math.exp(theta[-1])
        self._added = noise if noise_in_sd else 0.0
        self._mu, self._scale = location
        self._weight = weights(theta, X.shape[1]) if grown is None else grown.weight
        self._X, self._A = X, (X - 0.5) * self._weight
        self._solution = solution
        self._float32: dict[bool, tuple[Predictor, float, float, Indices | None]] = {}
        self._noise = self._scale * self._scale * noise
        self._grown, self._held = grown, held if grown is not None else None
        if grown is None or held is None:
            self._rows, self._predict  # noqa: B018 - now, before the next solution takes the place of this one
        else:
            held.serve(grown, self._explained_at_least, self._explained)
            self._view = View(self._A, self._weight, self._signal, location, self._added, _OF_SUMS * self._unit)
        self._seen: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    @cached_property
    def _rows(self) -> Float[np.ndarray, "r n"]:
        """W, and below it a, times s2."""
        rows = np.empty((len(self._X) + 1, len(self._X)))
        np.multiply(self._solution.inverse, self._signal, out=rows[:-1])
        np.multiply(self._solution.a, self._signal, out=rows[-1])
        return rows

    @cached_property
    def _predict(self) -> Predictor:
        return Predictor(self._A, self._weight, self._rows[:-1], self._rows[-1], self._space, np.float64)

    @property
    def instant(self) -> bool:
        """Whether bounds that are not rough cost next to nothing at candidates of which rough ones are known."""
        return self._held is not None

    @property
    def knows_rows(self) -> bool:
        """Whether candidates are held, and so by their rows, too."""
        return self._held is not None

    def mean_sd(self, C: CandidatePoints) -> MeanSd:
        """Return mean and standard deviation at `C`, in units of y; sd > 0."""
        mean, variance = self._latent(C)
        return mean.copy(), self._scale * np.sqrt(variance + self._added)

    def mean(self, C: CandidatePoints) -> PerCandidate:
        """Return the mean at `C`, to the last bit as `mean_sd` does, at a third of its price."""
        if self._held is not None:
            return self.mean_sd(C)[0]
        none = self._rows[:0, :0]
        predict = Predictor(self._A, self._weight, none, self._rows[-1], self._space, np.float64)
        return self._mu + self._scale * predict(C)[0]

    def mean_sd_at(self, C: CandidatePoints, where: Indices, points: Points | None = None) -> tuple[Vector, Vector]:
        """Return `mean_sd` at rows of `C`, which are not looked up where they are held and `C` was asked for before."""
        known = self._by_held(C, where) if self._held is not None else None
        if known is None:
            return self.mean_sd(C.take(where, axis=0) if points is None else points)
        if points is not None:
            self._seen = points, *known
        return known[0].copy(), self._scale * np.sqrt(known[1] + self._added)

    def _latent(self, C: CandidatePoints) -> MeanSd:
        """Return mean, in units of y, and variance, in units of s^2, at `C`; the same array again costs nothing.

        Utilities that look ahead ask for the latent moments of the candidates whose sd was just asked for.
        """
        if self._seen is None or self._seen[0] is not C:
            known = self._by_held(C)
            self._seen = C, *(self._scaled(*self._predict(C)) if known is None else known)
        return self._seen[1:]

    def _by_held(self, C: CandidatePoints, where: Indices | None = None) -> tuple[Vector, Vector] | None:
        """Return what `_latent` does, where it follows from what is held; else None."""
        if self._held is None or not self._held.serves(len(self._X)):
            return None
        known = self._held.exact(C, self._view, where)
        return None if known is None else self._scaled(*known)

    def _scaled(self, mean: PerCandidate, explained: PerCandidate) -> MeanSd:
        return _moments(mean, explained, self._mu, self._scale, self._signal)  # type: ignore[no-any-return]

    def _explained(self, C: CandidatePoints) -> PerCandidate:
        return self._predict(C)[1]

    def _explained_at_least(
        self, kernel: Float[np.ndarray, "m n"], of: Indices, rough: bool
    ) -> Float[np.ndarray, " k"]:
        predict, _, error, order = self._single(rough)
        return np.maximum(predict.explained(kernel, of, order) - error, 0.0)

    def leave_one_out(self, y: Vector) -> tuple[Vector, Vector]:
        """Return mean and sd, noise included, of each of the observed `y` given all others at these hyperparameters.

        y_i - s [K^-1 z]_i / [K^-1]_ii and s / sqrt([K^-1]_ii). Source: Rasmussen and Williams 2006, equation 5.12.
        """
        precision = np.square(self._inverse).sum(axis=0)
        return y - self._scale * (self._rows[-1] / self._signal) / precision, self._scale / np.sqrt(precision)

    def bounds(self, C: CandidatePoints, rough: bool = False) -> MeanSd:
        """Return a mean no higher and an sd no lower than `mean_sd` does, in single precision, at a third of its price.

        rough: the sd given only half of the observations, the inducing subset, for half of that price; where `instant`,
        given those that are known at a candidate already.

        Every kernel entry is off by a few units u = 2^-24, the more so the shorter the length-scales: by some
        e = (2 + w / 10) u, w the largest weight. Such errors add up at random rather than all one way, so that the mean
        a^T k, summed in double precision, is off by e |a|, and the explained variance |V|^2 / s2, V = W k, by
        e (|W| sqrt(s2) + s2), |W| the root of the sum of squares. The bounds allow for 6 and 3 times that: two to
        three times the most that is seen on the study's runs, which a test repeats, but no proof.
        """
        if self._held is not None and self._held.serves(len(self._X)):
            return self._held.bounds(C, self._view, rough)
        predict, mean_error, variance_error, _ = self._single(rough)
        mean, explained = predict(C)
        return _widened(mean, explained, mean_error, self._signal, variance_error + self._added, self._mu, self._scale)

    def bounds_at(self, C: CandidatePoints, where: Indices, rough: bool = False) -> tuple[Vector, Vector]:
        """Return `bounds` at rows of `C`, which are not looked up where they are held and `C` was asked for before."""
        if self._held is not None and self._held.serves(len(self._X)):
            return self._held.bounds(C, self._view, rough, where)
        return self.bounds(C.take(where, axis=0), rough)

    def _single(self, rough: bool) -> tuple[Predictor, float, float, Indices | None]:
        """Return what predicts, by how much mean and explained variance can be off, and the order of observations."""
        if rough not in self._float32:
            self._float32[rough] = self._in_single_precision(rough)
        return self._float32[rough]

    @property
    def _unit(self) -> float:
        """By how much a kernel value in single precision is off."""
        return _FLOAT32_UNIT * (2.0 + 0.1 * float(self._weight.max()))

    def _in_single_precision(self, rough: bool) -> tuple[Predictor, float, float, Indices | None]:
        A, W, a, order = self._A, self._rows[:-1], self._rows[-1], None
        if rough:
            diagonal = (self._signal / float(W[0, 0])) ** 2  # noise and jitter included
            order, inverse = self._subset(A, self._signal, diagonal - self._signal)
            A, W, a = A[order], self._signal * inverse, a[order]
        unit = self._unit
        triangle, vector = _sizes(W, a)
        predict = Predictor(A, self._weight, W, a, self._space, np.float32)
        explained = unit * (triangle * math.sqrt(self._signal) + self._signal)
        return predict, _OF_SUMS * unit * vector, _OF_EXPLAINED * explained, order

    @property
    def hyperparameters(self) -> Hyperparameters:
        """Those of the kernel, shared by all dimensions or one for each."""
        return Hyperparameters(self._theta[:-2].copy(), float(self._theta[-2]), float(self._theta[-1]))

    @property
    def noise(self) -> float:
        """Variance of the observation noise, in units of y."""
        return self._noise

    def moments(self, C: CandidatePoints) -> MeanSd:
        """Return mean and variance >= 0 of the latent function at `C`, in units of y."""
        mean, variance = self._latent(C)
        return mean.copy(), self._scale * self._scale * variance

    def covariance(self, A: Float[np.ndarray, "a d"], B: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "a b"]:
        """Return s^2 (k(A, B) - k(A)^T K^-1 k(B)), in units of y."""
        out = matern(A, B, self._weight, self._signal)
        left = self._whitened(A)
        right = left if B is A else self._whitened(B)
        out -= transposed_product(left, right)  # in place: large fresh arrays are slow
        out *= self._scale * self._scale
        return out

    def joint(self, C: CandidatePoints) -> Joint:
        """Return the joint distribution of the latent function at `C`."""
        covariance = self.covariance(C, C)
        return Joint(self.moments(C)[0], 0.5 * (covariance + covariance.T), self._noise)

    def _whitened(self, C: CandidatePoints) -> Float[np.ndarray, "n m"]:
        """Return L^-1 k(X, C)."""
        return product(self._inverse, matern(self._X, C, self._weight, self._signal), triangular=True)

    @cached_property
    def _inverse(self) -> Float[np.ndarray, "n n"]:
        """L^-1: utilities that look ahead ask for several covariances."""
        return np.asarray(self._rows[:-1] / self._signal)

"""The Gaussian process posterior: mean and sd at many points, and fast bounds of both in single precision."""

import math
from typing import no_type_check

import numpy as np
from jaxtyping import Float

from harness.compile_cache import njit
from harness.normal import exp
from harness.surrogates import Joint
from harness.surrogates.bounds import CachedBounds, InducingSubset
from harness.surrogates.kernels import (
    TILE_BYTES,
    TILE_ROWS,
    Workspace,
    add_squares,
    fma,
    matern,
    matern_double,
    matern_single,
)
from harness.surrogates.likelihood import Solution, dot, product, transposed_product

# Mean and explained variance at many points, in single or double precision, compiled.
#
# Block by block, so that the kernel values never leave the processor's cache.

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


# A prediction in single precision, widened by what rounding may have done to it.
#
# It serves to find the few candidates that are worth a prediction in double precision.

_SINGLE_UNIT = 2.0**-24  # rounding unit of single precision
_SAFETY = 4.0


class SinglePrecision:
    """Bounds of mean and sd, from all observations or, for the sd, from some of them.

    A: (n, d) observed points, centred and divided by the length-scales over sqrt(5). W: s2 times the inverse Cholesky
    factor of the first r observations, (r, r); a: s2 K^-1 z of all. Every kernel entry is off by a few units
    u = 2^-24, the more so the shorter the length-scales, and so is V = W k, in units of the sums of |W|; where r such
    errors add up at random rather than all one way, the explained variance |V|^2 / s2 is off by 2 u |sums| sqrt(s2)
    and the mean by 2 u sum |a|. The bounds allow for four times that: four to thirty times what is seen on the
    study's runs, which a test repeats, but no proof.
    """

    def __init__(
        self,
        A: Float[np.ndarray, "n d"],
        weight: Float[np.ndarray, " d"],
        W: Float[np.ndarray, "r r"],
        a: Float[np.ndarray, " n"],
        signal: float,
        space: Workspace,
    ) -> None:
        self._signal = signal
        self._predict = Predictor(A, weight, W, a, space, np.float32)
        self._mean_error, self._variance_error = rounding(weight, W, a, signal, _SINGLE_UNIT)

    def bounds(
        self, C: Float[np.ndarray, "m d"], added: float, location: tuple[float, float]
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return a lower bound of the mean and an upper bound > 0 of the sd, in units of y.

        added: to the latent variance. location: mean and sd of y.
        """
        mean, explained = self._predict(C)
        return widened(mean, explained, self._mean_error, self._signal, self._variance_error + added, *location)


def rounding(
    weight: Float[np.ndarray, " d"],
    W: Float[np.ndarray, "r r"],
    a: Float[np.ndarray, " n"],
    signal: float,
    unit: float,
) -> tuple[float, float]:
    """Return what mean and explained variance may be off by at this rounding unit, as `SinglePrecision` says."""
    unit *= _SAFETY * (2.0 + 0.1 * float(weight.max()))
    squares, total = _sums(W, a)
    return unit * total, unit * (math.sqrt(squares * signal) + signal)


@njit(cache=True, error_model="numpy")
@no_type_check
def _sums(W, a):  # type: ignore[no-untyped-def]
    """Return sum_i (sum_j |W_ij|)^2 of a lower triangle, and sum |a|."""
    squares, total = 0.0, 0.0
    for i in range(len(W)):
        row = 0.0
        for j in range(i + 1):
            row += abs(W[i, j])
        squares += row * row
    for value in a:
        total += abs(value)
    return squares, total


@njit(cache=True, error_model="numpy")
@no_type_check
def widened(mean, explained, mean_error, signal, added, mu, scale):  # type: ignore[no-untyped-def]
    """Return mu + scale (mean - its error) and scale sqrt(max(0, signal - explained) + added)."""
    low, high = np.empty(len(mean)), np.empty(len(mean))
    for i in range(len(mean)):
        low[i] = mu + scale * (np.float64(mean[i]) - mean_error)
        high[i] = scale * np.sqrt(max(signal - np.float64(explained[i]), 0.0) + added)
    return low, high


_DOUBLE_UNIT = 2.0**-53  # rounding unit of double precision
_FLOOR = 1e-14  # of the signal variance; rounding must not make the variance of a known point negative


class GaussianPosterior:
    """m(c) = mu + s k(c)^T K^-1 z and sd(c) = s sqrt(k(c, c) - k(c)^T K^-1 k(c)), z = (y - mu) / s.

    solution: what the likelihood knows at theta. location: (mu, s). With `noise_in_sd` the noise variance is
    added to the latent variance. space, informative, remembered: to share with the run's other posteriors.
    Source: Rasmussen and Williams 2006, equations 2.25 and 2.26.
    """

    def __init__(
        self,
        X: Float[np.ndarray, "n d"],
        theta: Float[np.ndarray, " t"],
        solution: Solution,
        location: tuple[float, float],
        noise_in_sd: bool,
        space: Workspace | None = None,
        informative: InducingSubset | None = None,
        remembered: CachedBounds | None = None,
    ) -> None:
        self._space = Workspace() if space is None else space
        self._informative = InducingSubset() if informative is None else informative
        self._signal, noise = math.exp(theta[-2]), math.exp(theta[-1])
        self._added = noise if noise_in_sd else 0.0
        self._mu, self._scale = location
        self._weight = np.empty(X.shape[1])
        self._weight[:] = math.sqrt(5.0) * exp(-theta[:-2])
        self._A = (X - 0.5) * self._weight
        self._rows = np.empty((len(X) + 1, len(X)))
        np.multiply(solution.inverse, self._signal, out=self._rows[:-1])
        np.multiply(solution.a, self._signal, out=self._rows[-1])
        self._predict = Predictor(self._A, self._weight, self._rows[:-1], self._rows[-1], self._space, np.float64)
        self._single: dict[bool, SinglePrecision] = {}
        self._X, self._theta, self._noise_in_sd = X, theta, noise_in_sd
        self._noise = self._scale * self._scale * noise
        self._seen: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
        self._remembered, self._state = remembered, -1  # a number once `recalled` was asked

    def mean_sd(self, C: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return mean and standard deviation at `C`, in units of y; sd > 0."""
        mean, variance = self._latent(C)
        return mean.copy(), self._scale * np.sqrt(variance + self._added)

    def _latent(self, C: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return mean, in units of y, and variance, in units of s^2, at `C`; the same array again costs nothing.

        Utilities that look ahead ask for the latent moments of the candidates whose sd was just asked for.
        """
        if self._seen is None or self._seen[0] is not C:
            mean, explained = self._predict(C)
            variance = np.maximum(self._signal - explained, _FLOOR * self._signal)
            self._seen = C, self._mu + self._scale * mean, variance
        return self._seen[1:]

    def leave_one_out(self, y: Float[np.ndarray, " n"]) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Return mean and sd, noise included, of each of the observed `y` given all others at these hyperparameters.

        y_i - s [K^-1 z]_i / [K^-1]_ii and s / sqrt([K^-1]_ii). Source: Rasmussen and Williams 2006, equation 5.12.
        """
        solved = self._rows / self._signal
        precision = np.square(solved[:-1]).sum(axis=0)
        return y - self._scale * solved[-1] / precision, self._scale / np.sqrt(precision)

    def bounds(
        self, C: Float[np.ndarray, "m d"], rough: bool = False
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return a mean no higher and an sd no lower than `mean_sd` does, at a third of its price.

        rough: the sd given only half of the observations, the most informative ones, for half of that price.
        """
        if rough not in self._single:
            self._single[rough] = self._in_single_precision(rough)
        return self._single[rough].bounds(C, self._added, (self._mu, self._scale))

    def recalled(self, C: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]] | None:
        """Return bounds as `bounds` does, from the variances that the run's posteriors have told `remember`.

        None where few of `C` are known since the hyperparameters last changed (`Remembered.recall`); the others of them
        are predicted. The bounds are off by what the observations since then have lowered the variances by.
        """
        if self._remembered is None:
            return None
        if self._state < 0:
            self._state = self._remembered.serve(self._theta, float(self._rows[0, 0]), self._X)
        variance = self._remembered.recall(self._state, C)
        if variance is None:
            return None
        unknown = np.flatnonzero(np.isnan(variance))
        if len(unknown):
            variance[unknown] = self._latent(C[unknown])[1]
            self._remembered.tell(self._state, C[unknown], variance[unknown])
        W, a = self._rows[:-1], self._rows[-1]
        mean_error, variance_error = rounding(self._weight, W, a, self._signal, _DOUBLE_UNIT)
        mean, _ = Predictor(self._A, self._weight, np.empty((0, 0)), a, self._space, np.float64)(C)
        explained, added = self._signal - variance, variance_error + self._added
        return widened(mean, explained, mean_error, self._signal, added, self._mu, self._scale)

    def remember(self, C: Float[np.ndarray, "m d"]) -> None:
        """Keep the variances at `C` for `recalled`, if that was asked before; no price where `C` was just predicted."""
        if self._remembered is not None and self._state >= 0:
            self._remembered.tell(self._state, C, self._latent(C)[1])

    def _in_single_precision(self, rough: bool) -> SinglePrecision:
        A, W, a = self._A, self._rows[:-1], self._rows[-1]
        if rough:
            diagonal = (self._signal / float(W[0, 0])) ** 2  # noise and jitter included
            order, inverse = self._informative(A, self._signal, diagonal - self._signal)
            A, W, a = A[order], self._signal * inverse, a[order]
        return SinglePrecision(A, self._weight, W, a, self._signal, self._space)

    @property
    def noise(self) -> float:
        """Variance of the observation noise, in units of y."""
        return self._noise

    def moments(self, C: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return mean and variance >= 0 of the latent function at `C`, in units of y."""
        mean, variance = self._latent(C)
        return mean.copy(), self._scale * self._scale * variance

    def covariance(self, A: Float[np.ndarray, "a d"], B: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "a b"]:
        """Return s^2 (k(A, B) - k(A)^T K^-1 k(B)), in units of y."""
        out = self._kernel(A, B)
        out -= transposed_product(self._whitened(A), self._whitened(B))  # in place: large fresh arrays are slow
        out *= self._scale * self._scale
        return out

    def joint(self, C: Float[np.ndarray, "m d"]) -> Joint:
        """Return the joint distribution of the latent function at `C`."""
        covariance = self.covariance(C, C)
        return Joint(self.moments(C)[0], 0.5 * (covariance + covariance.T), self._noise)

    def condition(self, x: Float[np.ndarray, " d"], y: float) -> "GaussianPosterior":
        """Return the posterior after one more noisy observation `y` at `x`; theta and location stay as they are.

        W = L^-1 grows by the row (-v^T W, 1) / d and a = K^-1 z to (a - W^T v b, b), with v = W k(x),
        d^2 = k(x, x) + noise - v^T v and b = (z - k(x)^T a) / d^2: O(n^2).
        """
        n, point = len(self._X), x[None]
        W, a = self._rows[:n] / self._signal, self._rows[n] / self._signal
        v = self._whitened(point)[:, 0]
        variance = self._signal + math.exp(self._theta[-1]) - dot(v, v)
        floor = _FLOOR * self._signal
        d = math.sqrt(max(variance, floor))
        b = ((y - self._mu) / self._scale - dot(self._kernel(self._X, point)[:, 0], a)) / (d * d)
        inverse, back = np.zeros((n + 1, n + 1)), product(v[None], W)[0]
        inverse[:n, :n], inverse[n, :n], inverse[n, n] = W, -back / d, 1.0 / d
        solution = Solution(inverse, np.append(a - back * b, b), math.nan)
        location = (self._mu, self._scale)
        return GaussianPosterior(np.vstack([self._X, point]), self._theta, solution, location, self._noise_in_sd)

    def _whitened(self, C: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "n m"]:
        """Return L^-1 k(X, C)."""
        return product(self._rows[:-1] / self._signal, self._kernel(self._X, C))

    def _kernel(self, A: Float[np.ndarray, "a d"], B: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "a b"]:
        return matern(A, B, self._weight, self._signal)

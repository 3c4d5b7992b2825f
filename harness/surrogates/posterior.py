"""The Gaussian process posterior: mean and standard deviation at many points, by blocks."""

import math

import numpy as np
from jaxtyping import Float

from harness.elementary import exp
from harness.surrogates.informative import Informative
from harness.surrogates.joint import Joint
from harness.surrogates.likelihood import Solution
from harness.surrogates.matern import matern
from harness.surrogates.matrices import dot, product, transposed_product
from harness.surrogates.predict import Predictor
from harness.surrogates.remembered import Remembered
from harness.surrogates.single import SinglePrecision, rounding, widened
from harness.surrogates.workspace import Workspace

_UNIT = 2.0**-53  # rounding unit of double precision
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
        informative: Informative | None = None,
        remembered: Remembered | None = None,
    ) -> None:
        self._space = Workspace() if space is None else space
        self._informative = Informative() if informative is None else informative
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
        mean_error, variance_error = rounding(self._weight, W, a, self._signal, _UNIT)
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

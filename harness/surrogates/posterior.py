"""The Gaussian process posterior: mean and standard deviation at many points, by blocks."""

import math

import numpy as np
from jaxtyping import Float

from harness.surrogates.likelihood import Solution
from harness.surrogates.predict import Predictor
from harness.surrogates.single import SinglePrecision
from harness.surrogates.workspace import Workspace

_FLOOR = 1e-14  # of the signal variance; rounding must not make the variance of a known point negative


class GaussianPosterior:
    """m(c) = mu + s k(c)^T K^-1 z and sd(c) = s sqrt(k(c, c) - k(c)^T K^-1 k(c)), z = (y - mu) / s.

    solution: what the likelihood knows at theta. location: (mu, s). With `noise_in_sd` the noise variance is
    added to the latent variance. space: work space to share with other posteriors.
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
    ) -> None:
        self._space = Workspace() if space is None else space
        self._signal, noise = math.exp(theta[-2]), math.exp(theta[-1])
        self._added = noise if noise_in_sd else 0.0
        self._mu, self._scale = location
        self._weight = np.broadcast_to(math.sqrt(5.0) * np.exp(-theta[:-2]), X.shape[1])
        self._A = (X - 0.5) * self._weight
        self._rows = self._signal * np.vstack([solution.inverse, solution.a])
        self._predict = Predictor(self._A, self._weight, self._rows, self._space, np.float64)
        self._single: SinglePrecision | None = None

    def mean_sd(self, C: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return mean and standard deviation at `C`, in units of y; sd > 0."""
        mean, explained = self._predict(C)
        variance = np.maximum(self._signal - explained, _FLOOR * self._signal) + self._added
        return self._mu + self._scale * mean, self._scale * np.sqrt(variance)

    def bounds(
        self, C: Float[np.ndarray, "m d"], rough: bool = False
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return a mean no higher and an sd no lower than `mean_sd` does, at a third of its price; less if `rough`."""
        if self._single is None:
            self._single = SinglePrecision(self._A, self._weight, self._rows, self._signal, self._space)
        return self._single.bounds(C, rough, self._added, (self._mu, self._scale))

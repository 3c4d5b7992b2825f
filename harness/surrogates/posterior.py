"""The Gaussian process posterior: mean and standard deviation at many points, by blocks."""

import math

import numpy as np
from jaxtyping import Float

from harness.surrogates.likelihood import Solution
from harness.surrogates.single import SinglePrecision
from harness.surrogates.workspace import Workspace

_BLOCK = 1 << 15  # kernel entries per block: the temporaries of one block stay in the processor's cache
_WIDEST = 1024  # candidates per block at most
_ROWS = 32  # rows of the triangular factor multiplied at once, without the zeros to their right
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
        self._left = np.column_stack([-2.0 * self._A, np.square(self._A).sum(axis=1), np.ones(len(X))])
        self._rows = self._signal * np.vstack([solution.inverse, solution.a])
        self._single: SinglePrecision | None = None

    def mean_sd(self, C: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return mean and standard deviation at `C`, in units of y; sd > 0."""
        n, m = len(self._left), len(C)
        right = self._right(C)
        mean, explained, ones = np.empty(m), np.empty(m), np.ones(n)
        width = min(m, max(64, min(_WIDEST, _BLOCK // n)))
        for start in range(0, m, width):
            block = slice(start, min(start + width, m))
            b = block.stop - start
            k, V = self._space.take("k", (n, b)), self._space.take("V", (n + 1, b))
            np.matmul(self._left, right[:, block], out=k)
            _matern(k, V[:n])
            for top in range(0, n + 1, _ROWS):
                rows, columns = slice(top, top + _ROWS), min(top + _ROWS, n)
                np.matmul(self._rows[rows, :columns], k[:columns], out=V[rows])
            mean[block] = V[n]
            np.matmul(ones, np.square(V[:n], out=V[:n]), out=explained[block])
        variance = np.maximum(self._signal - explained, _FLOOR * self._signal) + self._added
        return self._mu + self._scale * mean, self._scale * np.sqrt(variance)

    def bounds(self, C: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return a mean no higher and an sd no lower than `mean_sd` does, at a third of its price."""
        if self._single is None:
            self._single = SinglePrecision(self._A, self._weight, self._rows, self._signal, self._space)
        mean, variance = self._single.bounds(C)
        return self._mu + self._scale * mean, self._scale * np.sqrt(variance + self._added)

    def _right(self, C: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "e m"]:
        """Return the matrix whose product with `_left` is r^2 = |a|^2 + |c|^2 - 2 a c, up to rounding."""
        d = C.shape[1]
        right = self._space.take("right", (d + 2, len(C)))
        np.multiply(C.T, self._weight[:, None], out=right[:d])
        right[:d] -= 0.5 * self._weight[:, None]
        right[d] = 1.0
        np.einsum("ij,ij->j", right[:d], right[:d], out=right[d + 1])
        return right


def _matern(k: Float[np.ndarray, "n b"], spare: Float[np.ndarray, "n b"]) -> None:
    """Put (1 + r + r^2 / 3) exp(-r) in the place of r^2."""
    np.abs(k, out=k)  # rounding may leave a tiny negative square
    np.sqrt(k, out=spare)
    k *= 1.0 / 3.0
    k += spare
    k += 1.0
    np.negative(spare, out=spare)
    np.exp(spare, out=spare)
    k *= spare

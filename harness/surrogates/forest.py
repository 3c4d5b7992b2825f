"""Random forest surrogate: mean and variance over trees whose split points are drawn from the best interval.

Source: Hutter, Hoos and Leyton-Brown 2013, "Bayesian optimization with censored response data";
Breiman 2001. At each node the split point is uniform over the interval between the two neighbours that the best
split parts, so that in one dimension the mean over ever more trees (no bootstrap, leaves of one point) is the
linear interpolation of the data, and the variance grows with the distance to them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from datasets.errors import BadInput
from harness.checks import flag, number, whole
from harness.streams import stream
from harness.surrogates.gp import standardise
from harness.surrogates.trees import MOST_CATEGORIES, Trees, empty, grow, predict

_FLOOR = 1e-3  # of y's sd: a prediction on which all trees agree is not certain


@dataclass(frozen=True)
class Sample:
    """The randomness of one forest on n points: how often each tree has each point, and what its splits draw."""

    counts: Int[np.ndarray, "B n"]
    uniforms: Float[np.ndarray, "B s k"]


class ForestPosterior:
    """B trees fitted to z = (y - mu) / s: mean and sd over trees, the sd at least 1e-3 s."""

    def __init__(self, trees: Trees, categories: Int[np.ndarray, " d"], location: tuple[float, float]) -> None:
        self.trees = trees
        self._categories, self._location = categories, location

    def each(self, C: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "B m"]:
        """Return every tree's prediction at `C`, in units of y; raises ValueError for another number of inputs."""
        C = np.ascontiguousarray(C, dtype=np.float64)
        if C.ndim != 2 or C.shape[1] != len(self._categories):
            raise ValueError(f"the forest has {len(self._categories)} inputs, got points of shape {C.shape}")
        _check_codes(C, self._categories)
        out: np.ndarray = np.empty((len(self.trees.feature), len(C)))
        predict(C, self._categories, *self.trees, out)
        mu, scale = self._location
        return mu + scale * out

    def mean_sd(self, C: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return mean and sd over trees at `C`, in units of y; sd > 0."""
        return self.moments(self.each(C))

    def moments(self, each: Float[np.ndarray, "B m"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return mean and sd over trees of predictions made by `each`, or of averages of such."""
        mean = each.mean(axis=0)
        variance = np.square(each - mean).mean(axis=0)
        return mean, np.sqrt(np.maximum(variance, np.square(_FLOOR * self._location[1])))


class RandomForest:
    """B trees on bootstrap samples of n of the n points, grown greedily by the sum of squares.

    trees: B. bootstrap: false fits every tree to all points. min_split: a node of fewer points is a leaf. features:
    share of the inputs tried at a split, in random order, more only while none can split. split: ``uniform`` over
    the best interval, or its ``midpoint``. categories: per input 0 for a number, k for a category with codes
    0..k-1, whose split is the best of all subsets; None: all numbers. seed: of all draws, with n.
    """

    def __init__(
        self,
        trees: int = 100,
        bootstrap: bool = True,
        min_split: int = 2,
        features: float = 1.0,
        split: str = "uniform",
        categories: Sequence[int] | None = None,
        seed: int = 0,
    ) -> None:
        self.trees, self._min_split = whole("trees", trees, 1), whole("min_split", min_split, 2)
        self._features = number("features", features, "a share in (0, 1]", math.nextafter(0.0, 1.0), 1.0)
        self._bootstrap, self._seed = flag("bootstrap", bootstrap), whole("seed", seed, 0)
        self._run: tuple[str, ...] = ()
        if split not in ("uniform", "midpoint"):
            raise BadInput(f"split must be one of uniform, midpoint, got {split!r}")
        self._midpoint = split == "midpoint"
        for k in categories or ():
            whole("each of categories", k, 0, MOST_CATEGORIES)
        self._categories = None if categories is None else np.array(categories, dtype=np.int64)

    def draw_for(self, seed: int, problem: str) -> None:
        """Draw from streams of this run from now on."""
        self._run = (str(seed), problem)

    def fit(self, X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]) -> ForestPosterior:
        """Fit to `y` at `X`; raises ValueError for no points, unequal lengths or values not finite."""
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        if len(X) == 0 or len(X) != len(y) or not (np.isfinite(X).all() and np.isfinite(y).all()):
            raise ValueError(f"fit needs n >= 1 finite points and values, got X {X.shape} and y {y.shape}")
        sample = self.sample(X)
        return self.fit_each(X, np.broadcast_to(y, (self.trees, len(y))), sample.counts, sample, standardise(y)[1])

    def sample(self, X: Float[np.ndarray, "n d"]) -> Sample:
        """Draw the randomness of a forest on these points: it depends on n, d, seed and run, not on any value."""
        n, d = X.shape
        rng = stream(self._seed, "forest", *self._run, str(n))
        counts: np.ndarray = np.ones((self.trees, n), np.int64)
        if self._bootstrap:
            counts = rng.multinomial(n, np.full(n, 1.0 / n), size=self.trees)
        uniforms = rng.random((self.trees, max(1, n - 1), d + 2))
        if self._midpoint:
            uniforms[:, :, d] = 0.5
        return Sample(counts, uniforms)

    def fit_each(
        self,
        X: Float[np.ndarray, "n d"],
        Y: Float[np.ndarray, "B n"],
        counts: Int[np.ndarray, "B n"],
        sample: Sample,
        location: tuple[float, float],
    ) -> ForestPosterior:
        """Fit tree b to values Y[b] of the points that it has counts[b] times; location: mean and sd of y."""
        X = np.ascontiguousarray(X, dtype=np.float64)
        n, d = X.shape
        categories = np.zeros(d, np.int64) if self._categories is None else self._categories
        if len(categories) != d:
            raise ValueError(f"categories names {len(categories)} inputs, the points have {d}")
        _check_codes(X, categories)
        mu, scale = location
        trees = empty(self.trees, n)
        order = np.ascontiguousarray(np.argsort(X, axis=0, kind="stable").T)
        Z = np.ascontiguousarray((Y - mu) / scale)
        weights = np.ascontiguousarray(counts, dtype=np.float64)
        tries = math.ceil(self._features * d)
        grow(X, Z, weights, order, categories, sample.uniforms, tries, self._min_split, *trees)
        return ForestPosterior(trees, categories, location)


def _check_codes(X: Float[np.ndarray, "n d"], categories: Int[np.ndarray, " d"]) -> None:
    for j in np.flatnonzero(categories):
        codes = X[:, j]
        if not ((codes >= 0) & (codes < categories[j]) & (codes == np.floor(codes))).all():
            raise ValueError(f"input {j} must be a code 0..{categories[j] - 1}")

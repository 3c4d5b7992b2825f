"""Random forest surrogate, compiled, and its fit to censored observations (`CensoredForest`).

At each node the split point is uniform over the interval between the two neighbours that the best split parts, so that
in one dimension the mean over ever more trees (no bootstrap, leaves of one point) is the linear interpolation of the
data, and the variance grows with the distance to them. Source: Hutter, Hoos and Leyton-Brown 2013, "Bayesian
optimization with censored response data"; Breiman 2001.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, no_type_check

import numpy as np
from jaxtyping import Float, Int

from harness.arrays import CandidatePoints, Flags, MeanSd, Points, Vector
from harness.compile_cache import njit
from harness.errors import flag, number, one_of, positive, whole
from harness.normal import truncated_moments, truncated_quantile
from harness.streams import stream
from harness.surrogates import Posterior, Surrogate
from harness.surrogates.gp import observations, standardise

# Notation: B trees, n points, d inputs, K <= 2n - 1 nodes of a tree. Column j holds a real or integer input, or, where
# categories[j] = k > 0, the codes 0..k-1 of a categorical one. The arrays of `Trees` are (B, K): `feature` is -1 at a
# leaf, the children of node t are `child[t]` (left) and `child[t] + 1`, a numeric split sends x <= threshold to the
# left, a categorical one the codes whose bit is set in `mask`. A node has the points line[start:stop], sorted by input
# j; W and S are sums of weights and of weighted values, over all of the node's points or those that go left.

_BLOCK = 256  # points
TIE = 1e-11  # relative difference up to which two splits, or two categories' means, are equal: rounding decides nothing
MOST_CATEGORIES = 50  # their subset is kept in the bits of an integer, absent ones' draw in those of one uniform


class Trees(NamedTuple):
    """The nodes of B trees; see the notation above."""

    feature: Int[np.ndarray, "B K"]
    threshold: Float[np.ndarray, "B K"]
    mask: Int[np.ndarray, "B K"]
    child: Int[np.ndarray, "B K"]
    value: Float[np.ndarray, "B K"]


def _leaves(trees: int, points: int) -> Trees:
    """Return room for `trees` trees on `points` points, all of them a single leaf of value 0."""
    shape = (trees, max(1, 2 * points - 1))
    whole = [np.zeros(shape, np.int64) for _ in range(3)]
    return Trees(whole[0] - 1, np.zeros(shape), whole[1], whole[2], np.zeros(shape))


@njit(cache=True)
@no_type_check
def _above(one, other):  # type: ignore[no-untyped-def]
    """Say whether `one` is higher than `other` by more than rounding; of equals the first tried stays the best."""
    return one - other > TIE * max(abs(one), abs(other)) if other > -np.inf else one > other


@njit(cache=True, error_model="numpy")
@no_type_check
def numeric(X, y, w, line, start, stop, j, weight, total):  # type: ignore[no-untyped-def]
    """Return the best split of a numeric input: its gain and the interval between the neighbours that it parts.

    gain = S_left^2 / W_left + S_right^2 / W_right (what the sum of squares loses, up to a constant); -inf if none.
    """
    best, low, high = -np.inf, 0.0, 0.0
    lefts, summed = 0.0, 0.0
    for k in range(start, stop - 1):
        i = line[k]
        lefts += w[i]
        summed += w[i] * y[i]
        here, after = X[i, j], X[line[k + 1], j]
        if after > here:
            rest = total - summed
            gain = summed * summed / lefts + rest * rest / (weight - lefts)
            if _above(gain, best):
                best, low, high = gain, here, after
    return best, low, high


@njit(cache=True, error_model="numpy")
@no_type_check
def categorical(X, y, w, line, start, stop, j, k, weight, total, draw, counts, sums, codes):  # type: ignore[no-untyped-def]
    """Return gain and left-hand codes (bits) of the best subset: a prefix of the codes sorted by their mean y.

    Absent codes go to either side by the bits of `draw`. Source: Fisher 1958; Breiman et al. 1984.
    """
    counts[:k], sums[:k] = 0.0, 0.0
    for at in range(start, stop):
        i = line[at]
        c = int(X[i, j])
        counts[c] += w[i]
        sums[c] += w[i] * y[i]
    bits, present = np.int64(draw * 2.0**53) & ((np.int64(1) << k) - 1), 0
    for c in range(k):
        if counts[c] > 0:
            bits &= ~(np.int64(1) << c)
            at = present  # insertion sort by mean
            while at > 0 and _above(sums[codes[at - 1]] * counts[c], sums[c] * counts[codes[at - 1]]):
                codes[at] = codes[at - 1]
                at -= 1
            codes[at] = c
            present += 1
    best, best_bits, prefix = -np.inf, np.int64(0), np.int64(0)
    lefts, summed = 0.0, 0.0
    for at in range(present - 1):
        c = codes[at]
        lefts += counts[c]
        summed += sums[c]
        prefix |= np.int64(1) << c
        rest = total - summed
        gain = summed * summed / lefts + rest * rest / (weight - lefts)
        if _above(gain, best):
            best, best_bits = gain, prefix | bits
    return best, best_bits


@njit(cache=True)
@no_type_check
def partition(lists, spare, left, start, stop):  # type: ignore[no-untyped-def]
    """Put the points that go left before the others in every list, each part in its order; return the border."""
    middle = start
    for j in range(len(lists)):
        line, behind = lists[j], 0
        middle = start
        for k in range(start, stop):
            i = line[k]
            if left[i]:
                line[middle] = i
                middle += 1
            else:
                spare[behind] = i
                behind += 1
        for k in range(behind):
            line[middle + k] = spare[k]
    return middle


@njit(cache=True, error_model="numpy")
@no_type_check
def grow(X, Y, W, order, categories, uniforms, tries, min_split, feature, threshold, mask, child, value):  # type: ignore[no-untyped-def]
    """Fill the arrays of `Trees`: tree b is fitted to values Y[b] of points X with weights W[b] (0: not in it).

    X (n, d); Y, W (B, n); order (d, n): the points sorted by each input; uniforms (B, splits, d + 2) in [0, 1):
    of the splits of a tree, in the order in which they are made, a permutation of the inputs, a place and the sides
    of absent categories. tries: inputs tried per split; min_split: weight of a node below which it is not split.
    """
    trees, n = W.shape
    d = X.shape[1]
    lists, spare = np.empty((d, n), np.int64), np.empty(n, np.int64)
    left = np.zeros(n, np.bool_)
    inputs = np.empty(d, np.int64)
    begin, end = np.empty(2 * n + 1, np.int64), np.empty(2 * n + 1, np.int64)
    counts, sums = np.empty(64), np.empty(64)
    codes, best_codes = np.empty(64, np.int64), np.int64(0)
    for b in range(trees):
        w, y = W[b], Y[b]
        size = 0
        for j in range(d):
            size = 0
            for k in range(n):
                i = order[j, k]
                if w[i] > 0:
                    lists[j, size] = i
                    size += 1
        begin[0], end[0] = 0, size
        nodes, splits, node = 1, 0, 0
        while node < nodes:  # breadth first: children are appended behind
            start, stop = begin[node], end[node]
            weight, total, lowest, highest = 0.0, 0.0, np.inf, -np.inf
            for k in range(start, stop):
                i = lists[0, k]
                weight += w[i]
                total += w[i] * y[i]
                lowest, highest = min(lowest, y[i]), max(highest, y[i])
            value[b, node] = total / weight if lowest < highest else lowest
            feature[b, node] = -1
            if weight >= min_split and lowest < highest:
                draws = uniforms[b, splits]
                for j in range(d):  # Fisher-Yates
                    inputs[j] = j
                for j in range(d - 1, 0, -1):
                    other = int(draws[j] * (j + 1))
                    inputs[j], inputs[other] = inputs[other], inputs[j]
                best, chosen, low, high, best_codes = -np.inf, -1, 0.0, 0.0, 0
                for tried in range(d):
                    if tried >= tries and chosen >= 0:
                        break
                    j = inputs[tried]
                    if categories[j] == 0:
                        gain, lower, upper = numeric(X, y, w, lists[j], start, stop, j, weight, total)
                        if _above(gain, best):
                            best, chosen, low, high = gain, j, lower, upper
                    else:
                        gain, bits = categorical(
                            X, y, w, lists[j], start, stop, j, categories[j], weight, total, draws[d + 1],
                            counts, sums, codes,
                        )  # fmt: skip
                        if _above(gain, best):
                            best, chosen, best_codes = gain, j, bits
                if chosen >= 0:
                    place = low + draws[d] * (high - low)
                    place = low if place >= high else place  # rounding; x = high must go right
                    for k in range(start, stop):
                        i = lists[0, k]
                        if categories[chosen] == 0:
                            left[i] = X[i, chosen] <= place
                        else:
                            left[i] = (best_codes >> int(X[i, chosen])) & 1 == 1
                    middle = partition(lists, spare, left, start, stop)
                    feature[b, node], threshold[b, node], mask[b, node] = chosen, place, best_codes
                    child[b, node] = nodes
                    begin[nodes], end[nodes] = start, middle
                    begin[nodes + 1], end[nodes + 1] = middle, stop
                    nodes += 2
                    splits += 1
            node += 1


@njit(cache=True)
@no_type_check
def predict(C, categories, feature, threshold, mask, child, value, out):  # type: ignore[no-untyped-def]
    """Put every tree's value at every point of C (m, d) into `out` (B, m).

    All points of a block go down a tree level by level, those at a leaf staying there, so that the processor works on
    many at a time.
    """
    trees, size = feature.shape
    kind, place, first = np.empty(size, np.int64), np.empty(size), np.empty(size, np.int64)
    at, numbers = np.empty(_BLOCK, np.int64), categories.max() == 0
    for b in range(trees):
        for node in range(size):
            leaf = feature[b, node] < 0
            kind[node] = 0 if leaf else feature[b, node]
            place[node] = np.inf if leaf else threshold[b, node]
            first[node] = node if leaf else child[b, node]
        for start in range(0, len(C), _BLOCK):
            points = C[start : start + _BLOCK]
            at[:] = 0
            moved = True
            while moved:
                moved = False
                for i in range(len(points)):
                    node = at[i]
                    x = points[i, kind[node]]
                    after = first[node] + (x > place[node])
                    if not numbers and feature[b, node] >= 0 and categories[kind[node]] > 0:
                        after = first[node] + 1 - ((mask[b, node] >> int(x)) & 1)
                    moved |= after != node
                    at[i] = after
            for i in range(len(points)):
                out[b, start + i] = value[b, at[i]]


_FLOOR = 1e-3  # of y's sd: a prediction on which all trees agree is not certain


@dataclass(frozen=True)
class Sample:
    """The randomness of one forest on n points: how often each tree has each point, and what its splits draw."""

    counts: Int[np.ndarray, "B n"]
    uniforms: Float[np.ndarray, "B s k"]


class ForestPosterior(Posterior):
    """B trees fitted to z = (y - mu) / s: mean and sd over trees, the sd at least 1e-3 s."""

    def __init__(self, trees: Trees, categories: Int[np.ndarray, " d"], location: tuple[float, float]) -> None:
        self.trees, self._categories, self._location = trees, categories, location

    def each(self, C: CandidatePoints) -> Float[np.ndarray, "B m"]:
        """Return every tree's prediction at `C`, in units of y; raises ValueError for another number of inputs."""
        C = np.ascontiguousarray(C, dtype=np.float64)
        if C.ndim != 2 or C.shape[1] != len(self._categories):
            raise ValueError(f"the forest has {len(self._categories)} inputs, got points of shape {C.shape}")
        _check_codes(C, self._categories)
        out: np.ndarray = np.empty((len(self.trees.feature), len(C)))
        predict(C, self._categories, *self.trees, out)
        mu, scale = self._location
        return mu + scale * out

    def mean_sd(self, C: CandidatePoints) -> MeanSd:
        """Return mean and sd over trees at `C`, in units of y; sd > 0."""
        return self.over_trees(self.each(C))

    def over_trees(self, each: Float[np.ndarray, "B m"]) -> MeanSd:
        """Return mean and sd over trees of predictions made by `each`, or of averages of such."""
        mean = each.mean(axis=0)
        variance = np.square(each - mean).mean(axis=0)
        return mean, np.sqrt(np.maximum(variance, np.square(_FLOOR * self._location[1])))


class RandomForest(Surrogate):
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
        self._midpoint = one_of("split", split, ("uniform", "midpoint")) == "midpoint"
        for k in categories or ():
            whole("each of categories", k, 0, MOST_CATEGORIES)
        self._categories = None if categories is None else np.array(categories, dtype=np.int64)

    def draw_for(self, seed: int, problem: str) -> None:
        """Draw from streams of this run from now on."""
        self._run = (str(seed), problem)

    def fit(self, X: Points, y: Vector) -> ForestPosterior:
        """Fit to `y` at `X`; raises ValueError for no points, unequal lengths or values not finite."""
        X, y = observations(X, y)
        sample = self.sample(X)
        return self.fit_each(X, np.broadcast_to(y, (self.trees, len(y))), sample.counts, sample, standardise(y)[1])

    def sample(self, X: Points) -> Sample:
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
        X: Points,
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
        trees = _leaves(self.trees, n)
        order = np.ascontiguousarray(np.argsort(X, axis=0, kind="stable").T)
        Z, weights = np.ascontiguousarray((Y - mu) / scale), np.ascontiguousarray(counts, dtype=np.float64)
        tries = math.ceil(self._features * d)
        grow(X, Z, weights, order, categories, sample.uniforms, tries, self._min_split, *trees)
        return ForestPosterior(trees, categories, location)


def _check_codes(X: Points, categories: Int[np.ndarray, " d"]) -> None:
    for j in np.flatnonzero(categories):
        codes = X[:, j]
        if not ((codes >= 0) & (codes < categories[j]) & (codes == np.floor(codes))).all():
            raise ValueError(f"input {j} must be a code 0..{categories[j] - 1}")


# Censored observations: a forest fitted to values of which some are only lower bounds.
#
# Notation: B trees, n points; tree b has point i counts[b, i] times, N_i = sum_b counts[b, i].

SAMPLED, MEAN, DROPPED, BOUND = "sampled", "mean", "dropped", "bound"
TREATMENTS = (SAMPLED, MEAN, DROPPED, BOUND)


@dataclass(frozen=True)
class CensoredFit:
    """A fitted forest, what it was fitted to (B, n), how often it was refitted and whether that had converged."""

    posterior: ForestPosterior
    imputed: Float[np.ndarray, "B n"]
    refits: int
    converged: bool


class CensoredForest:
    """Fits `forest` where some y_i are only lower bounds of the true values.

    treatment: ``sampled``, Algorithm 1: the forest's own bootstrap, drawn irrespective of censoring; the first forest
    learns from the uncensored points alone; then, until converged, the E-step gives the N_i copies of a censored point
    the quantiles 1/(N_i+1), ..., N_i/(N_i+1) of its predictive normal distribution truncated below at the bound, low
    quantiles to low-numbered trees, so that the trees disagree about a censored point as much as is not known of it
    (and all points are high in the same trees), and the M-step refits.
    ``mean``: the same with the truncated distribution's mean in every tree. ``dropped``: censored points are left out.
    ``bound``: bounds are taken as values, as they are whatever the treatment where nothing is uncensored.

    kappa_max, in units of y: no mean m of a point's imputations is above it; where one would be, m - kappa_max is
    subtracted from each of them, so that they spread as before, the lowest perhaps below the bound (the paper's
    footnote 3; for ``mean`` this is the lower of the two). tolerance: largest change of a point's mean imputation over
    all trees (those without the point hold its bound, less the same), in sds of y, at which it has converged;
    iterations: refits at most.
    Source: Hutter, Hoos and Leyton-Brown 2013, Algorithm 1; Schmee and Hahn 1979 (``mean``).
    """

    def __init__(
        self, forest: RandomForest, treatment: str = SAMPLED, tolerance: float = 0.01, iterations: int = 10
    ) -> None:
        self._forest, self._treatment = forest, one_of("treatment", treatment, TREATMENTS)
        self._tolerance, self._iterations = positive("tolerance", tolerance), whole("iterations", iterations, 1)

    def fit(self, X: Points, y: Vector, censored: Flags, kappa_max: float = math.inf) -> CensoredFit:
        """Fit to `y` at `X`, y_i a lower bound where censored.

        Raises ValueError as the forest does, for kappa_max = NaN, and for a bound above kappa_max.
        """
        X, y = observations(X, y)
        if math.isnan(kappa_max):
            raise ValueError("kappa_max is NaN; without a limit it is inf")
        if censored.any() and y[censored].max() > kappa_max:
            raise ValueError(f"a bound of {y[censored].max()} is above kappa_max = {kappa_max}")
        if censored.all() or self._treatment == BOUND:
            return CensoredFit(self._forest.fit(X, y), np.tile(y, (self._forest.trees, 1)), 0, True)
        if self._treatment == DROPPED:
            kept = self._forest.fit(X[~censored], y[~censored])
            return CensoredFit(kept, np.tile(np.where(censored, np.nan, y), (self._forest.trees, 1)), 0, True)
        return self._imputed(X, y, censored, kappa_max)

    def _imputed(self, X: Points, y: Vector, censored: Flags, limit: float) -> CensoredFit:
        sample, location, bound = self._forest.sample(X), standardise(y)[1], y[censored]
        counts = np.where(censored, 0, sample.counts)
        # a tree whose bootstrap sample has none of the uncensored points gets them all
        counts = np.where(counts.any(axis=1, keepdims=True), counts, np.where(censored, 0, 1))
        Y, own = np.tile(y, (self._forest.trees, 1)), sample.counts[:, censored]
        posterior = self._forest.fit_each(X, Y, counts, sample, location)
        change, step = math.inf if censored.any() else 0.0, 0
        while step < self._iterations and change > self._tolerance:
            before = Y[:, censored].mean(axis=0)
            mean, sd = posterior.mean_sd(X[censored])
            if self._treatment == MEAN:
                values = np.broadcast_to(truncated_moments(mean, sd, bound)[0], own.shape)
            else:
                values = _quantiles(own, mean, sd, bound)
            Y[:, censored] = _capped(values, own, limit)
            posterior = self._forest.fit_each(X, Y, sample.counts, sample, location)
            change = float(np.abs(Y[:, censored].mean(axis=0) - before).max()) / location[1]
            step += 1
        return CensoredFit(posterior, Y, step, change <= self._tolerance)


def _quantiles(counts: np.ndarray, mean: np.ndarray, sd: np.ndarray, bound: np.ndarray) -> Float[np.ndarray, "B c"]:
    """Return each tree's value of each censored point: the mean of the quantiles that its copies in the tree get.

    Copies of a point cannot be parted by a split, so that a tree needs no more of them than their mean. A tree
    without the point gets the bound, which it does not use.
    """
    values = np.tile(bound, (len(counts), 1))
    for i, own in enumerate(counts.T):
        total = int(own.sum())
        if total == 0:
            continue
        q, ones = np.arange(1, total + 1) / (total + 1), np.ones(total)
        drawn = truncated_quantile(q, mean[i] * ones, sd[i] * ones, bound[i] * ones)
        sums = np.bincount(np.repeat(np.arange(len(own)), own), weights=drawn, minlength=len(own))
        has = own > 0
        values[has, i] = np.maximum(sums[has] / own[has], bound[i])
    return values


def _capped(values: np.ndarray, counts: np.ndarray, limit: float) -> Float[np.ndarray, "B c"]:
    """Return the imputations, each point's less what their mean over its copies is above `limit`."""
    if not math.isfinite(limit):
        return values
    weight = np.where(counts.any(axis=0), counts, 1)
    mean = (weight * values).sum(axis=0) / weight.sum(axis=0)
    return values - np.maximum(mean - limit, 0.0)

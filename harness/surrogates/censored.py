"""Censored observations: a random forest fitted to values of which some are only lower bounds.

Source: Hutter, Hoos and Leyton-Brown 2013, "Bayesian optimization with censored response data", Algorithm 1; Schmee
and Hahn 1979 (mean imputation).

Notation: B trees, n points; tree b has point i counts[b, i] times, N_i = sum_b counts[b, i].
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from datasets.errors import BadInput
from harness.checks import number, whole
from harness.surrogates.forest import ForestPosterior, RandomForest, Sample
from harness.surrogates.gp import standardise
from harness.truncated import mean_variance, quantile

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
    ``mean``: the same with the truncated distribution's mean in every tree (Schmee and Hahn). ``dropped``: censored
    points are left out. ``bound``: bounds are taken as values.

    kappa_max, in units of y: no mean of a point's imputations is above it; where one would be, they are drawn towards
    the bound, v -> bound + r (v - bound), which keeps their order and never leaves them below the bound (our reading:
    the paper caps the mean, and does not say how). tolerance: largest change of a point's mean imputation over all
    trees (those without the point hold its bound), in sds of y, at which it has converged; iterations: refits at most.

    Where nothing is uncensored the bounds are all there is to learn from, whatever the treatment.
    """

    def __init__(
        self, forest: RandomForest, treatment: str = SAMPLED, tolerance: float = 0.01, iterations: int = 10
    ) -> None:
        if treatment not in TREATMENTS:
            raise BadInput(f"treatment must be one of {', '.join(TREATMENTS)}, got {treatment!r}")
        self._tolerance = number("tolerance", tolerance, "a number > 0", math.nextafter(0.0, 1.0))
        self._iterations = whole("iterations", iterations, 1)
        self._forest, self._treatment = forest, treatment

    def fit(
        self,
        X: Float[np.ndarray, "n d"],
        y: Float[np.ndarray, " n"],
        censored: Bool[np.ndarray, " n"],
        kappa_max: float = math.inf,
    ) -> CensoredFit:
        """Fit to `y` at `X`, y_i a lower bound where censored.

        Raises ValueError as the forest does, for kappa_max = NaN, and for a bound above kappa_max.
        """
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
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

    def _imputed(
        self, X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], censored: Bool[np.ndarray, " n"], limit: float
    ) -> CensoredFit:
        sample, location = self._forest.sample(X), standardise(y)[1]
        posterior = self._first(X, y, censored, sample, location)
        Y, change, step = np.tile(y, (self._forest.trees, 1)), math.inf if censored.any() else 0.0, 0
        while step < self._iterations and change > self._tolerance:
            before = Y[:, censored].mean(axis=0)
            mean, sd = posterior.mean_sd(X[censored])
            if self._treatment == MEAN:
                values = np.broadcast_to(mean_variance(mean, sd, y[censored])[0], (len(Y), len(mean)))
            else:
                values = _spread(sample.counts[:, censored], mean, sd, y[censored])
            Y[:, censored] = _capped(values, sample.counts[:, censored], y[censored], limit)
            posterior = self._forest.fit_each(X, Y, sample.counts, sample, location)
            change = float(np.abs(Y[:, censored].mean(axis=0) - before).max()) / location[1]
            step += 1
        return CensoredFit(posterior, Y, step, change <= self._tolerance)

    def _first(
        self,
        X: Float[np.ndarray, "n d"],
        y: Float[np.ndarray, " n"],
        censored: Bool[np.ndarray, " n"],
        sample: Sample,
        location: tuple[float, float],
    ) -> ForestPosterior:
        """Return the forest on the uncensored points; a tree whose bootstrap sample has none of them gets them all."""
        counts = np.where(censored, 0, sample.counts)
        counts = np.where(counts.any(axis=1, keepdims=True), counts, np.where(censored, 0, 1))
        return self._forest.fit_each(X, np.tile(y, (len(counts), 1)), counts, sample, location)


def _spread(
    counts: np.ndarray, mean: Float[np.ndarray, " c"], sd: Float[np.ndarray, " c"], bound: Float[np.ndarray, " c"]
) -> Float[np.ndarray, "B c"]:
    """Return each tree's value of each censored point: the mean of the quantiles that its copies in the tree get.

    Copies of a point cannot be parted by a split, so that a tree needs no more of them than their mean. A tree
    without the point gets the bound, which it does not use.
    """
    values = np.tile(bound, (len(counts), 1))
    for i, own in enumerate(counts.T):
        total = int(own.sum())
        if total == 0:
            continue
        q = np.arange(1, total + 1) / (total + 1)
        ones = np.ones(total)
        drawn = quantile(q, mean[i] * ones, sd[i] * ones, bound[i] * ones)
        trees = np.repeat(np.arange(len(own)), own)
        sums = np.bincount(trees, weights=drawn, minlength=len(own))
        has = own > 0
        values[has, i] = np.maximum(sums[has] / own[has], bound[i])
    return values


def _capped(
    values: Float[np.ndarray, "B c"], counts: np.ndarray, bound: Float[np.ndarray, " c"], limit: float
) -> Float[np.ndarray, "B c"]:
    """Return the imputations drawn towards their bounds where their mean over copies is above `limit`."""
    if not math.isfinite(limit):
        return values
    weight = np.where(counts.any(axis=0), counts, 1)
    mean = (weight * values).sum(axis=0) / weight.sum(axis=0)
    over = mean > limit
    share = np.where(over, (limit - bound) / np.where(over, mean - bound, 1.0), 1.0)
    return bound + share * (values - bound)

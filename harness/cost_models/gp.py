"""Gaussian processes on log cost: on all hyperparameters, on a few, on what a linear model leaves, and warped."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from harness.arrays import CandidatePoints, Flags, MeanSd, PerCandidate, Points, Theta, Vector
from harness.cost_models import SMALLEST_SD, CostModel, Features, log_costs
from harness.cost_models.linear import LowVariance
from harness.errors import positive, whole
from harness.normal import gauss_hermite, log, tanh, truncated_moments
from harness.space import XGBOOST_SPACE, SearchSpace
from harness.surrogates.bfgs import Minimum, descent, minimise
from harness.surrogates.gp import LENGTH_SCALE, NOISE_VARIANCE, SIGNAL_VARIANCE, GaussianProcess, standardise
from harness.surrogates.kernels import Workspace
from harness.surrogates.likelihood import Distances, Likelihood, dot
from harness.surrogates.posterior import GaussianPosterior

_SWEEPS, _TOLERANCE = 5, 0.01  # of the imputations of lower bounds; the tolerance in sds of log cost


class GaussianProcessCost(CostModel):
    """log c(x) ~ GP, Matern-5/2 with one length-scale per input, hyperparameters by maximum marginal likelihood.

    features: names of the hyperparameters that it sees, on the scales of `Features`; None: the whole unit cube.
    sd: of a new evaluation's log cost, noise included. Source: Snoek, Larochelle and Adams 2012, section 3.2.
    """

    def __init__(self, features: Sequence[str] | None = None, space: SearchSpace = XGBOOST_SPACE) -> None:
        self._features = None if features is None else Features(features, space)
        self._process = GaussianProcess(noise_in_sd=True)
        self._posterior: GaussianPosterior | None = None

    def fit(self, X: Points, cost_s: Vector) -> None:
        """Fit to costs in seconds; raises BadInput naming the first that is not finite and positive."""
        self._posterior = self._process.fit(self._inputs(X), log_costs(cost_s, len(X)))

    def fit_censored(self, X: Points, cost_s: Vector, censored: Flags) -> None:
        """Fit to costs in seconds, where censored only lower bounds, imputed by `fit_process`."""
        self._posterior = fit_process(self._process, self._inputs(X), log_costs(cost_s), censored)

    def predict(self, C: CandidatePoints) -> MeanSd:
        """Return mean and sd of log cost at `C`."""
        return self._fitted().mean_sd(self._inputs(C))

    def predict_mean(self, C: CandidatePoints) -> PerCandidate:
        """Return the mean of log cost at `C`."""
        return self._fitted().mean(self._inputs(C))

    def _fitted(self) -> GaussianPosterior:
        if self._posterior is None:
            raise ValueError("predict was called before fit")
        return self._posterior

    def _inputs(self, X: Points) -> Float[np.ndarray, "n k"]:
        X = np.asarray(X, dtype=np.float64)
        return X if self._features is None else np.ascontiguousarray(self._features.columns(X).T)


class ResidualGaussianProcess(GaussianProcessCost):
    """log c(x) = linear model of a few features + GP on its residuals over the whole unit cube.

    The linear part is fitted first (`LowVariance`), the GP to what it leaves. sd^2: the GP's, noise included, plus that
    of the linear function, sigma^2 (1/n + d' (D'D + ridge I)^-1 d) (`LowVariance.sd_of_mean`), as if independent.
    """

    def __init__(self, features: Sequence[str], ridge: float = 0.03, space: SearchSpace = XGBOOST_SPACE) -> None:
        super().__init__()
        self._linear = LowVariance(features, ridge, space)

    def fit(self, X: Points, cost_s: Vector) -> None:
        """Fit to costs in seconds; raises BadInput naming the first that is not finite and positive."""
        self._linear.fit(X, cost_s)
        self._posterior = self._process.fit(X, log_costs(cost_s) - self._linear.predict_mean(X))

    def fit_censored(self, X: Points, cost_s: Vector, censored: Flags) -> None:
        """Fit to costs in seconds, where censored only lower bounds: of the linear model's residuals, too."""
        self._linear.fit_censored(X, cost_s, censored)
        residual = log_costs(cost_s) - self._linear.predict_mean(X)
        self._posterior = fit_process(self._process, self._inputs(X), residual, censored)

    def predict(self, C: CandidatePoints) -> MeanSd:
        """Return mean and sd of log cost at `C`."""
        residual, sd = super().predict(C)
        return self._linear.predict_mean(C) + residual, np.hypot(sd, self._linear.sd_of_mean(C))

    def predict_mean(self, C: CandidatePoints) -> PerCandidate:
        """Return the mean of log cost at `C`."""
        return self._linear.predict_mean(C) + super().predict_mean(C)


def fit_process(process: GaussianProcess, X: Points, y: Vector, censored: Flags) -> GaussianPosterior:
    """Fit a Gaussian process to y, lower bounds where censored (some, not all).

    First imputations: the means of the truncated predictions, noise included, of the process fitted to what is known.
    Then, until they change by less than 0.01 sd or five times, each is the mean of its truncated leave-one-out
    prediction given all others (Rasmussen and Williams 2006, equation 5.12): given itself as well, it would confirm
    itself. What is imputed counts as observed in the posterior, whose sd is therefore, at these points, too low.
    """
    bound, filled = y[censored], y.copy()
    mean, sd = process.fit(X[~censored], y[~censored]).mean_sd(X[censored])
    for _ in range(_SWEEPS):
        new = truncated_moments(mean, np.maximum(sd, SMALLEST_SD), bound)[0]
        change = np.abs(new - filled[censored]).max()
        filled[censored] = new
        posterior = process.fit(X, filled)
        if change <= _TOLERANCE * filled.std():
            break
        every_mean, every_sd = posterior.leave_one_out(filled)
        mean, sd = every_mean[censored], every_sd[censored]
    return posterior


_HEIGHT, _STEEPNESS, _PLACE = (1e-2, 3.0), (0.3, 5.0), (-2.5, 2.5)  # boxes of a, b and c
_STARTS = ((1e-2, 1.0, 0.0), (1.0, 1.5, 0.0))  # (a, b, c): almost none, and a plain one
_FEWEST = 8  # observations below which a warp would only be noise: it stays at the first start
_GROWTH = 1.5  # of n since the starts were last tried
_NODES, _WEIGHTS = gauss_hermite(9)
_GRID = 4001


class WarpedGaussianProcess(CostModel):
    """g(z) = z + a tanh(b (z + c)) ~ GP, z the standardised log cost, a, b > 0.

    (l, s2, v, a, b, c) minimise -log p(g(z) | l, s2, v) - sum log g'(z_i). Mean and sd of log cost are those of
    g^-1 of the process, noise included, by Gauss-Hermite quadrature.
    Source: Snelson, Ghahramani and Rasmussen 2004, equations 5 and 9, with one tanh term.
    """

    def __init__(self, tolerance: float = 0.1, iterations: int = 40) -> None:
        self._tolerance = positive("tolerance", tolerance)
        self._iterations = whole("iterations", iterations, 1)
        self._pairs, self._space = Distances(True), Workspace()
        self._last: Minimum | None = None
        self._posterior: GaussianPosterior | None = None
        self._location, self._tried_at = (0.0, 1.0), 0

    def fit(self, X: Points, cost_s: Vector) -> None:
        """Fit to costs in seconds; raises BadInput naming the first that is not finite and positive."""
        z, self._location = standardise(log_costs(cost_s, len(X)))
        X = np.asarray(X, dtype=np.float64)
        self._pairs.update(X)
        objective = WarpedLikelihood(self._pairs, z, self._space)
        if z.any():
            self._last = self._minimise(objective, X.shape[1], len(z))
        x = _start(X.shape[1], 0) if self._last is None else self._last.x
        self._warp = math.exp(x[-3]), math.exp(x[-2]), x[-1]
        objective(x)
        solution = objective.likelihood.solution(x[:-3])
        self._posterior = GaussianPosterior(X, x[:-3], solution, (0.0, 1.0), True, self._space)

    def _minimise(self, objective: "WarpedLikelihood", d: int, n: int) -> Minimum:
        box, limits, found = _box(d, n), (self._tolerance, self._iterations), []
        if self._last is not None:
            hessian = self._last.hessian if n != _FEWEST else None  # there the warp begins to move
            found.append(minimise(objective, descent(self._last.x, hessian, box, *limits)))
        if self._last is None or n == _FEWEST or n >= _GROWTH * self._tried_at:
            self._tried_at = n
            for k in range(len(_STARTS) if n >= _FEWEST else 1):
                found.append(minimise(objective, descent(_start(d, k), None, box, *limits)))
        return min(found, key=lambda minimum: minimum.value)

    def predict(self, C: CandidatePoints) -> MeanSd:
        """Return mean and sd of log cost at `C`."""
        if self._posterior is None:
            raise ValueError("predict was called before fit")
        mean, sd = self._posterior.mean_sd(np.asarray(C, dtype=np.float64))
        z = unwarp(mean[:, None] + sd[:, None] * _NODES, *self._warp)
        center = (z * _WEIGHTS).sum(axis=1)
        spread = np.sqrt((np.square(z - center[:, None]) * _WEIGHTS).sum(axis=1))
        mu, scale = self._location
        return mu + scale * center, scale * spread


class WarpedLikelihood:
    """-log p(g(z) | theta) - sum log g'(z_i) as a function of (theta, log a, log b, c), with its gradient."""

    def __init__(self, pairs: Distances, z: Vector, space: Workspace) -> None:
        self._z, self._warped = z, z.copy()
        self.likelihood = Likelihood(pairs, self._warped, space)

    def __call__(self, x: Theta) -> tuple[float, Theta]:
        """Return the value and its gradient."""
        theta, a, b, c = x[:-3], math.exp(x[-3]), math.exp(x[-2]), x[-1]
        t = tanh(b * (self._z + c))
        s = 1.0 - t * t
        slope = 1.0 + a * b * s
        self._warped[:] = self._z + a * t
        value, gradient = self.likelihood(theta)
        pull = self.likelihood.solution(theta).a  # d(-log p) / d g(z)
        inside, bend = self._z + c, -2.0 * s * t  # bend = ds / du, u = b (z + c)
        by_log_a = a * (dot(pull, t) - (b * s / slope).sum())
        by_log_b = b * (dot(pull, a * s * inside) - (a * (s + b * bend * inside) / slope).sum())
        by_c = dot(pull, a * b * s) - (a * b * bend * b / slope).sum()
        return value - float(log(slope).sum()), np.concatenate([gradient, [by_log_a, by_log_b, by_c]])


def unwarp(w: Float[np.ndarray, "m q"], a: float, b: float, c: float) -> Float[np.ndarray, "m q"]:
    """Return z with z + a tanh(b (z + c)) = w, by interpolation and two Newton steps (g' >= 1)."""
    grid = np.linspace(w.min() - a, w.max() + a, _GRID)
    z = np.interp(w, grid + a * tanh(b * (grid + c)), grid)
    for _ in range(2):
        t = tanh(b * (z + c))
        z -= (z + a * t - w) / (1.0 + a * b * (1.0 - t * t))
    return np.clip(z, w - a, w + a)


def _box(d: int, n: int) -> tuple[Theta, Theta]:
    low, high = log(np.array([LENGTH_SCALE] * d + [SIGNAL_VARIANCE, NOISE_VARIANCE, _HEIGHT, _STEEPNESS])).T
    low, high = np.append(low, _PLACE[0]), np.append(high, _PLACE[1])
    if n < _FEWEST:
        low[-3:] = high[-3:] = _start(d, 0)[-3:]
    return low, high


def _start(d: int, k: int) -> Theta:
    a, b, c = _STARTS[k]
    return np.concatenate([np.zeros(d + 1), [math.log(1e-2), math.log(a), math.log(b), c]])

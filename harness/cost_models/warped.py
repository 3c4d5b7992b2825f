"""The warped Gaussian process: a monotone warp of log cost is learned together with the process."""

import math

import numpy as np
from jaxtyping import Float

from harness.checks import number, whole
from harness.cost_models.features import log_costs
from harness.elementary import gauss_hermite, log, tanh
from harness.surrogates.compiled import CompiledLikelihood
from harness.surrogates.descent import Minimum, descend
from harness.surrogates.gp import LENGTH_SCALE, NOISE_VARIANCE, SIGNAL_VARIANCE, standardise
from harness.surrogates.matrices import dot
from harness.surrogates.pairs import Pairs
from harness.surrogates.posterior import GaussianPosterior
from harness.surrogates.workspace import Workspace

_HEIGHT, _STEEPNESS, _PLACE = (1e-2, 3.0), (0.3, 5.0), (-2.5, 2.5)  # boxes of a, b and c
_STARTS = ((1e-2, 1.0, 0.0), (1.0, 1.5, 0.0))  # (a, b, c): almost none, and a plain one
_FEWEST = 8  # observations below which a warp would only be noise: it stays at the first start
_GROWTH = 1.5  # of n since the starts were last tried
_NODES, _WEIGHTS = gauss_hermite(9)
_GRID = 4001


class WarpedGaussianProcess:
    """g(z) = z + a tanh(b (z + c)) ~ GP, z the standardised log cost, a, b > 0.

    (l, s2, v, a, b, c) minimise -log p(g(z) | l, s2, v) - sum log g'(z_i). Mean and sd of log cost are those of
    g^-1 of the process, noise included, by Gauss-Hermite quadrature.
    Source: Snelson, Ghahramani and Rasmussen 2004, equations 5 and 9, with one tanh term.
    """

    def __init__(self, tolerance: float = 0.1, iterations: int = 40) -> None:
        self._tolerance = number("tolerance", tolerance, "a number > 0", math.nextafter(0.0, 1.0))
        self._iterations = whole("iterations", iterations, 1)
        self._pairs, self._space = Pairs(True), Workspace()
        self._last: Minimum | None = None
        self._posterior: GaussianPosterior | None = None
        self._location, self._tried_at = (0.0, 1.0), 0

    def fit(self, X: Float[np.ndarray, "n d"], cost_s: Float[np.ndarray, " n"]) -> None:
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
        low, high = _box(d, n)
        found = []
        if self._last is not None:
            hessian = self._last.hessian if n != _FEWEST else None  # there the warp begins to move
            found.append(descend(objective, self._last.x, hessian, (low, high), self._tolerance, self._iterations))
        if self._last is None or n == _FEWEST or n >= _GROWTH * self._tried_at:
            self._tried_at = n
            for k in range(len(_STARTS) if n >= _FEWEST else 1):
                found.append(descend(objective, _start(d, k), None, (low, high), self._tolerance, self._iterations))
        return min(found, key=lambda minimum: minimum.value)

    def predict(self, C: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
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

    def __init__(self, pairs: Pairs, z: Float[np.ndarray, " n"], space: Workspace) -> None:
        self._z, self._warped = z, z.copy()
        self.likelihood = CompiledLikelihood(pairs, self._warped, space)

    def __call__(self, x: Float[np.ndarray, " t"]) -> tuple[float, Float[np.ndarray, " t"]]:
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


def _box(d: int, n: int) -> tuple[Float[np.ndarray, " t"], Float[np.ndarray, " t"]]:
    low, high = log(np.array([LENGTH_SCALE] * d + [SIGNAL_VARIANCE, NOISE_VARIANCE, _HEIGHT, _STEEPNESS])).T
    low, high = np.append(low, _PLACE[0]), np.append(high, _PLACE[1])
    if n < _FEWEST:
        low[-3:] = high[-3:] = _start(d, 0)[-3:]
    return low, high


def _start(d: int, k: int) -> Float[np.ndarray, " t"]:
    a, b, c = _STARTS[k]
    return np.concatenate([np.zeros(d + 1), [math.log(1e-2), math.log(a), math.log(b), c]])

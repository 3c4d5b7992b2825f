"""The hybrid: starts as a model that knows other problems, and becomes an online one as evaluations arrive."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from harness.arrays import Candidates, MeanSd, Points, Vector
from harness.cost_models import CostModel, Features, log_costs
from harness.errors import BadInput, number
from harness.problem import Problem
from harness.space import XGBOOST_SPACE, SearchSpace
from harness.surrogates import complete
from harness.surrogates.likelihood import dot, factor, inverse_factor, product, transposed_product

_GRID = 4096  # midpoints per dimension, for the features' means and sds over the unit cube


class Hybrid(CostModel):
    """log c(x) = m(x) + t(x) (phi(x) . b + e), m and t the prior model's mean and sd, phi = (1, z_1, ..., z_K).

    z: the features in units of their sd over the unit cube, centred. Conjugate prior, so that the mean of t(x)^2 is
    split in three, offset + slopes + noise = 1:
        e ~ N(0, s2),  b | s2 ~ N(0, s2 V),  V = diag(offset, slopes/K, ..., slopes/K) / noise,
        s2 ~ inverse gamma(a, (a - 1) noise), whose mean is `noise`.
    After n costs, u_i = (log c_i - m(x_i)) / t(x_i), Phi (n, K + 1):
        V_n = (V^-1 + Phi' Phi)^-1,  b_n = V_n Phi' u,  A = a + n / 2,
        B = (a - 1) noise + (|u - Phi b_n|^2 + b_n' V^-1 b_n) / 2,
        mean = m + t phi . b_n,  sd = t sqrt(B / (A - 1) (1 + phi' V_n phi)), that of a Student t with 2 A degrees.
    With n = 0 it is the prior model (sd: on average over the cube), with few evaluations it has learned the offset,
    with many it is the linear model of `features`, plus what the prior model knows beyond it.
    Source: Gelman et al., Bayesian Data Analysis, 3rd edition, sections 14.2 and 14.8; Bishop 2006, equations
    3.49-3.51 and exercises 3.12-3.13.

    prior: a cost model that can predict once it has been started; it is not shown this run's costs.
    features: names, None for all. noise, slopes: shares of t^2, in (0, 1). Of XGBoost's squared errors on data sets
    that it has not seen, noise has 0.08 and slopes 0.03 on average over problems; since problems differ, 0.15 and 0.1
    predict best after few evaluations. a > 1: what is known of the noise beforehand counts for 2 a evaluations.
    """

    def __init__(
        self,
        prior: CostModel,
        features: Sequence[str] | None = None,
        noise: float = 0.15,
        slopes: float = 0.1,
        a: float = 2.0,
        space: SearchSpace = XGBOOST_SPACE,
    ) -> None:
        least, most = math.nextafter(0.0, 1.0), math.nextafter(1.0, 0.0)
        self.noise = number("noise", noise, "a share between 0 and 1", least, most)
        self.slopes = number("slopes", slopes, "a share between 0 and 1", least, most)
        if self.noise + self.slopes >= 1.0:
            raise BadInput(f"noise + slopes must leave a share for the offset, got {noise} + {slopes}")
        self._a = number("a", a, "a number > 1", math.nextafter(1.0, 2.0))
        self._prior = complete(prior, CostModel)
        self._features = Features(space.names if features is None else features, space)
        midpoints = np.repeat((np.arange(_GRID)[:, None] + 0.5) / _GRID, len(space), axis=1)
        columns = self._features.columns(midpoints)
        self._center, self._scale = [float(s.mean()) for s in columns], [float(s.std()) for s in columns]
        k = len(self._features)
        shares = np.array([1.0 - self.noise - self.slopes, *[self.slopes / k] * k])
        self._precision = self.noise / shares  # diagonal of V^-1
        self._forget()

    def start(self, problem: Problem) -> None:
        """Pass the problem on to the prior model, and forget all evaluations; raises BadInput where that does."""
        self._prior.start(problem)
        self._forget()

    def fingerprint(self, problem: Problem) -> str:
        """Return a hash of what the prior model knows beforehand."""
        return self._prior.fingerprint(problem) or "nothing"

    def fit(self, X: Points, cost_s: Vector) -> None:
        """Fit to costs in seconds; raises BadInput naming the first that is not finite and positive."""
        target = log_costs(cost_s, len(X))
        X = np.asarray(X, dtype=np.float64)
        mean, sd = self._prior_mean_sd(X)
        u, Phi = (target - mean) / sd, self._phi(X)
        L = factor(np.diag(self._precision) + transposed_product(Phi, Phi))
        assert L is not None  # a sum of a positive diagonal and squares
        self._root = inverse_factor(L)  # V_n = root' root
        self._weights = transposed_product(self._root, product(self._root, transposed_product(Phi, u[:, None])))[:, 0]
        misfit, size = u - _linear(Phi, self._weights), dot(self._precision, np.square(self._weights))
        spread = (self._a - 1.0) * self.noise + 0.5 * (dot(misfit, misfit) + size)
        self._variance = spread / (self._a + 0.5 * len(u) - 1.0)

    def predict(self, C: Candidates) -> MeanSd:
        """Return mean and sd of log cost at `C`; before the first fit, from the prior alone."""
        C = np.asarray(C, dtype=np.float64)
        mean, sd = self._prior_mean_sd(C)
        phi = self._phi(C)
        spread = 1.0 + np.square(product(phi, self._root.T)).sum(axis=1)
        return mean + sd * _linear(phi, self._weights), sd * np.sqrt(self._variance * spread)

    def _forget(self) -> None:
        self._weights, self._variance = np.zeros(len(self._precision)), self.noise
        self._root = np.diag(1.0 / np.sqrt(self._precision))

    def _prior_mean_sd(self, X: Points) -> tuple[Vector, Vector]:
        mean, sd = self._prior.predict(X)
        if not (sd > 0.0).all():
            raise BadInput(f"the prior of a hybrid cost model needs a predictive sd > 0, got {sd.min()}")
        return mean, sd

    def _phi(self, X: Points) -> Float[np.ndarray, "n k"]:
        columns = zip(self._features.columns(X), self._center, self._scale, strict=True)
        return np.column_stack([np.ones(len(X)), *((s - center) / scale for s, center, scale in columns)])


def _linear(Phi: Float[np.ndarray, "n k"], weights: Float[np.ndarray, " k"]) -> Vector:
    return product(Phi, weights[:, None])[:, 0]

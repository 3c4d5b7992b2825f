"""Linear models of log cost: low-variance ones of a few hyperparameters, and the hybrid, which has a prior model.

Sources: Guinet et al. 2020 (LV-1, LV-2, LV-3; LV-3, learned online, is the paper's default); for the hybrid, Gelman et
al., Bayesian Data Analysis.
"""

import math
from collections.abc import Sequence
from typing import ClassVar, NamedTuple, no_type_check

import numpy as np
from jaxtyping import Float

from harness.arrays import CandidatePoints, Flags, Indices, MeanSd, PerCandidate, Points, Vector
from harness.compile_cache import njit
from harness.component import complete
from harness.cost_models import SMALLEST_SD, CostModel, Features, log_costs
from harness.errors import BadInput, number
from harness.normal import truncated_moments
from harness.problem import Problem
from harness.space import XGBOOST_SPACE, SearchSpace
from harness.surrogates.likelihood import dot, factor, inverse_factor, product, solve_positive, transposed_product

_MOST, _CONVERGED = 2000, 1e-6  # rounds of EM, and the change of an imputed log cost that ends them
_PLAIN = 200  # rounds after which every third is followed by an extrapolation: where most costs are bounds, EM creeps


class LowVariance(CostModel):
    """log c(x) = b + sum_k w_k s_k(x) over `features`, s the log of the native value in units of its range.

    The features are those of `Features`, in [0, 1]. (b, w) minimise sum (log c_i - b - w s_i)^2 + ridge |w|^2 after
    centring, which also answers for n = 1 and for features that never varied (w = 0: the mean log cost).
    sd: of a new evaluation's log cost, sigma sqrt(1 + 1/n + d' (D'D + ridge I)^-1 d) with sigma^2 = RSS / max(1, n - k
    - 1), D the centred features and d = s(x) minus their means: with ridge -> 0 that of least squares' prediction
    intervals (Draper and Smith 1998, section 5.2), else the posterior's under w ~ N(0, sigma^2 / ridge).
    The default ridge predicts best from 4 to 32 evaluations, whichever data set is left out (README.md).
    """

    stateless: ClassVar[bool] = True  # each fit starts from scratch

    def __init__(self, features: Sequence[str], ridge: float = 0.03, space: SearchSpace = XGBOOST_SPACE) -> None:
        self.ridge = number("ridge", ridge, "a number >= 1e-9", 1e-9)
        self._features = Features(features, space)
        self.features = self._features.names
        self._fit: _Fit | None = None

    def fit(self, X: Points, cost_s: Vector) -> None:
        """Fit to costs in seconds; raises BadInput naming the first that is not finite and positive."""
        self._regress(X, log_costs(cost_s, len(X)))

    def fit_censored(self, X: Points, cost_s: Vector, censored: Flags) -> None:
        """Fit to costs in seconds, where censored only lower bounds a_i, by EM, begun at the fit to what is known.

        E-step: log c_i ~ N(b + w s_i, v) given log c_i >= log a_i, its mean and variance. M-step: the regression on
        these means, the variances add to RSS, v = RSS / n. With ridge -> 0 it ends at the maximum of the censored
        likelihood; v = RSS / (n - k - 1), that of sd, would overshoot it without end where n is small.
        Source: Aitkin 1981; Schmee and Hahn 1979 (who leave the variances out); for the extrapolations Varadhan and
        Roland 2008 (SQUAREM, its third step length).
        """
        target, X = log_costs(cost_s, len(X)), np.asarray(X, dtype=np.float64)
        bound = target[censored]
        spread, recent = self._regress(X[~censored], target[~censored]), list[Vector]()
        for count in range(_MOST):
            mean = self.predict(X[censored])[0]
            new, variance = truncated_moments(mean, np.full(len(mean), max(spread, SMALLEST_SD)), bound)
            change = float(np.abs(new - target[censored]).max())
            target[censored] = new
            spread = self._regress(X, target, float(variance.sum()))
            if change <= _CONVERGED:
                break
            if count >= _PLAIN:
                fit = self._fitted()
                recent.append(np.array([fit.intercept, *fit.weights, math.log(max(spread, SMALLEST_SD))]))
            if len(recent) == 3 and count < _MOST - 1:
                spread = self._extrapolate(*recent)
                recent.clear()

    def _extrapolate(self, first: Vector, second: Vector, third: Vector) -> float:
        """Go on from three rounds' (intercept, weights, log spread) to where they lead; return the spread there."""
        step, bend = second - first, third - 2 * second + first
        length = math.sqrt(float((step * step).sum() / (bend * bend).sum())) if bend.any() else 1.0
        intercept, *weights, spread = first + 2 * length * step + length**2 * bend
        self._fit = self._fitted()._replace(intercept=float(intercept), weights=np.array(weights))
        return math.exp(spread)

    def _regress(self, X: Points, log_cost: Vector, hidden: float = 0.0) -> float:
        """Set the coefficients and return sqrt(RSS / n); hidden: the part of RSS that imputed values do not show."""
        n, S = len(log_cost), self._features.columns(np.asarray(X, dtype=np.float64))
        level, center, gram, product = _products(S, log_cost, self.ridge)
        weights, inverse = product.copy(), np.empty_like(gram)
        if not _solve(gram, weights, inverse):
            raise np.linalg.LinAlgError("the centred products of the features are singular")
        intercept = level - float((center * weights).sum())
        squares = _squares(S, log_cost, intercept, weights) + hidden
        sigma = math.sqrt(squares / max(1, n - len(weights) - 1))
        self._fit = _Fit(intercept, weights, sigma, center, inverse, n)
        return math.sqrt(squares / n)

    def predict(self, C: CandidatePoints) -> MeanSd:
        """Return mean and sd of log cost at `C`."""
        fit, S = self._fitted(), self._features.columns(np.asarray(C, dtype=np.float64))
        return _mean_sd(*fit, S)  # type: ignore[no-any-return]

    def predict_mean(self, C: CandidatePoints) -> PerCandidate:
        """Return the mean of log cost at `C`."""
        fit, S = self._fitted(), self._features.columns(np.asarray(C, dtype=np.float64))
        return _mean(fit.intercept, fit.weights, S)  # type: ignore[no-any-return]

    def predict_mean_at(self, C: CandidatePoints, where: Indices) -> Vector:
        """Return the mean of log cost at rows of `C`, whose features it finds once."""
        fit = self._fitted()
        return _mean_at(fit.intercept, fit.weights, self._features.of_table(C), where)  # type: ignore[no-any-return]

    def sd_of_mean(self, C: CandidatePoints) -> PerCandidate:
        """Return how uncertain the linear function itself is at `C`: the sd of `predict` without the 1 in its root."""
        fit, S = self._fitted(), self._features.columns(np.asarray(C, dtype=np.float64))
        return fit.sigma * np.sqrt(_leverage(fit.center, fit.inverse, fit.n, S))

    def _fitted(self) -> "_Fit":
        if self._fit is None:
            raise ValueError("predict was called before fit")
        return self._fit


class _Fit(NamedTuple):
    """b, w, sigma, the means of the features, (D'D + ridge I)^-1, n."""

    intercept: float
    weights: Float[np.ndarray, " k"]
    sigma: float
    center: Float[np.ndarray, " k"]
    inverse: Float[np.ndarray, "k k"]
    n: int


@njit(cache=True, error_model="numpy")
@no_type_check
def _mean_sd(intercept, weights, sigma, center, inverse, n, S):  # type: ignore[no-untyped-def]
    """Return mean and sd."""
    sd = _leverage(center, inverse, n, S)
    for i in range(len(sd)):
        sd[i] = sigma * np.sqrt(1.0 + sd[i])
    return _mean(intercept, weights, S), sd


@njit(cache=True, error_model="numpy")
@no_type_check
def _mean(intercept, weights, S):  # type: ignore[no-untyped-def]
    """Return the mean, feature by feature, so that equal features give exactly equal costs."""
    mean = np.full(S.shape[1], intercept)
    for k in range(len(S)):
        for i in range(len(mean)):
            mean[i] += weights[k] * S[k, i]
    return mean


@njit(cache=True, error_model="numpy")
@no_type_check
def _mean_at(intercept, weights, S, where):  # type: ignore[no-untyped-def]
    """Return the mean at rows of S, by the same sums in the same order."""
    mean = np.full(len(where), intercept)
    for i in range(len(where)):
        row = S[where[i]]
        for k in range(len(row)):
            mean[i] += weights[k] * row[k]
    return mean


@njit(cache=True, error_model="numpy")
@no_type_check
def _leverage(center, inverse, n, S):  # type: ignore[no-untyped-def]
    """Return 1/n + sum_ab inverse_ab (s_a - center_a) (s_b - center_b), in the same order for every point."""
    out = np.full(S.shape[1], 1.0 / n)
    for a in range(len(S)):
        for b in range(a + 1):
            twice = inverse[a, b] if a == b else inverse[a, b] + inverse[b, a]
            for i in range(len(out)):
                out[i] += twice * (S[a, i] - center[a]) * (S[b, i] - center[b])
    return np.maximum(out, 0.0)


@njit(cache=True, error_model="numpy")
@no_type_check
def _products(S, target, ridge):  # type: ignore[no-untyped-def]
    """Return means of the target and the features, the latter's centred products plus ridge, those with the target."""
    k, level = len(S), target.mean()
    center, gram, product = np.empty(k), np.empty((k, k)), np.empty(k)
    for a in range(k):
        center[a] = S[a].mean()
    for a in range(k):
        product[a] = ((S[a] - center[a]) * (target - level)).sum()
        for b in range(a + 1):
            gram[a, b] = gram[b, a] = ((S[a] - center[a]) * (S[b] - center[b])).sum()
        gram[a, a] += ridge
    return level, center, gram, product


@njit(cache=True, error_model="numpy")
@no_type_check
def _solve(A, b, inverse):  # type: ignore[no-untyped-def]
    """Solve A x = b in the place of b and fill A^-1 = W^T W, W = L^-1, A = L L^T; False if A is not positive definite.

    Compiled, since calls and checks would take longer than three features.
    """
    k = len(A)
    L, W = np.zeros((k, k)), np.zeros((k, k))
    if not solve_positive(A, b, L):
        return False
    for i in range(k):
        W[i, i] = 1.0 / L[i, i]
        for j in range(i):
            value = 0.0
            for q in range(j, i):
                value -= L[i, q] * W[q, j]
            W[i, j] = value / L[i, i]
    for i in range(k):
        for j in range(i + 1):
            value = 0.0
            for q in range(i, k):
                value += W[q, i] * W[q, j]
            inverse[i, j] = inverse[j, i] = value
    return True


@njit(cache=True, error_model="numpy")
@no_type_check
def _squares(S, target, intercept, weights):  # type: ignore[no-untyped-def]
    """Return RSS = sum (target_i - b - w s_i)^2."""
    squares = 0.0
    for i in range(len(target)):
        residual = target[i] - intercept
        for a in range(len(S)):
            residual -= weights[a] * S[a, i]
        squares += residual * residual
    return squares


# The hybrid: starts as a model that knows other problems, and becomes an online one as evaluations arrive.

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
        misfit, size = u - _weighted(Phi, self._weights), dot(self._precision, np.square(self._weights))
        spread = (self._a - 1.0) * self.noise + 0.5 * (dot(misfit, misfit) + size)
        self._variance = spread / (self._a + 0.5 * len(u) - 1.0)

    def predict(self, C: CandidatePoints) -> MeanSd:
        """Return mean and sd of log cost at `C`; before the first fit, from the prior alone."""
        C = np.asarray(C, dtype=np.float64)
        mean, sd = self._prior_mean_sd(C)
        phi = self._phi(C)
        spread = 1.0 + np.square(product(phi, self._root.T)).sum(axis=1)
        return mean + sd * _weighted(phi, self._weights), sd * np.sqrt(self._variance * spread)

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


def _weighted(Phi: Float[np.ndarray, "n k"], weights: Float[np.ndarray, " k"]) -> Vector:
    return product(Phi, weights[:, None])[:, 0]

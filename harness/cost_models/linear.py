"""Low-variance cost models: log cost as a linear function of a few hyperparameters.

Source: Guinet et al. 2020 (LV-1, LV-2, LV-3); LV-3, learned online, is the paper's default.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, no_type_check

import numpy as np
from jaxtyping import Float

from harness.arrays import Candidates, Flags, MeanSd, PerCandidate, Points, Vector
from harness.compile_cache import njit
from harness.cost_models import SMALLEST_SD, CostModel, Features, log_costs
from harness.errors import number
from harness.normal import truncated_moments
from harness.space import XGBOOST_SPACE, SearchSpace
from harness.surrogates.likelihood import solve_positive

_MOST, _CONVERGED = 200, 1e-6  # rounds of EM, and the change of an imputed log cost that ends them


class LowVariance(CostModel):
    """log c(x) = b + sum_k w_k s_k(x) over `features`, s the log of the native value in units of its range.

    The features are those of `Features`, in [0, 1]. (b, w) minimise sum (log c_i - b - w s_i)^2 + ridge |w|^2 after
    centring, which also answers for n = 1 and for features that never varied (w = 0: the mean log cost).
    sd: of a new evaluation's log cost, sigma sqrt(1 + 1/n + d' (D'D + ridge I)^-1 d) with sigma^2 = RSS / max(1, n - k
    - 1), D the centred features and d = s(x) minus their means: with ridge -> 0 that of least squares' prediction
    intervals (Draper and Smith 1998, section 5.2), else the posterior's under w ~ N(0, sigma^2 / ridge).
    The default ridge predicts best from 4 to 32 evaluations, whichever data set is left out (`python -m tabular_cache
    significance`).
    """

    def __init__(self, features: Sequence[str], ridge: float = 0.03, space: SearchSpace = XGBOOST_SPACE) -> None:
        self.ridge = number("ridge", ridge, "a number > 0", math.nextafter(0.0, 1.0))
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
        Source: Aitkin 1981; Schmee and Hahn 1979 (who leave the variances out).
        """
        target, X = log_costs(cost_s, len(X)), np.asarray(X, dtype=np.float64)
        bound = target[censored]
        spread = self._regress(X[~censored], target[~censored])
        for _ in range(_MOST):
            mean = self.predict(X[censored])[0]
            new, variance = truncated_moments(mean, np.full(len(mean), max(spread, SMALLEST_SD)), bound)
            change = float(np.abs(new - target[censored]).max())
            target[censored] = new
            spread = self._regress(X, target, float(variance.sum()))
            if change <= _CONVERGED:
                break

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

    def predict(self, C: Candidates) -> MeanSd:
        """Return mean and sd of log cost at `C`."""
        fit, S = self._fitted(), self._features.columns(np.asarray(C, dtype=np.float64))
        return _linear(fit.intercept, fit.weights, S), fit.sigma * np.sqrt(1.0 + fit.leverage(S))

    def sd_of_mean(self, C: Candidates) -> PerCandidate:
        """Return how uncertain the linear function itself is at `C`: the sd of `predict` without the 1 in its root."""
        fit, S = self._fitted(), self._features.columns(np.asarray(C, dtype=np.float64))
        return fit.sigma * np.sqrt(fit.leverage(S))

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

    def leverage(self, S: Float[np.ndarray, "k m"]) -> PerCandidate:
        """Return 1/n + d' (D'D + ridge I)^-1 d."""
        return _leverage(self.n, self.center, self.inverse, S)


@njit(cache=True, error_model="numpy")
@no_type_check
def _linear(intercept, weights, S):  # type: ignore[no-untyped-def]
    """Return b + sum_k w_k s_k, feature by feature, so that equal features give exactly equal costs."""
    mean = np.full(S.shape[1], intercept)
    for k in range(len(S)):
        for i in range(len(mean)):
            mean[i] += weights[k] * S[k, i]
    return mean


@njit(cache=True, error_model="numpy")
@no_type_check
def _leverage(n, center, inverse, S):  # type: ignore[no-untyped-def]
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

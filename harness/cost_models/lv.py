"""Low-variance cost models: log cost as a linear function of a few hyperparameters.

Source: Guinet et al. 2020 (LV-1, LV-2, LV-3); LV-3, learned online, is the paper's default.
"""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from harness.checks import number
from harness.cost_models.features import Features, log_costs
from harness.space import XGBOOST_SPACE, SearchSpace


class LowVariance:
    """log c(x) = b + sum_k w_k s_k(x) over `features`, s the log of the native value in units of its range.

    The features are those of `Features`, in [0, 1]. (b, w) minimise sum (log c_i - b - w s_i)^2 + ridge |w|^2 after
    centring, which also answers for n = 1 and for features that never varied (w = 0: the mean log cost).
    sd: sqrt(RSS / max(1, n - k - 1)), the same everywhere. The default ridge predicts best from 4 to 32 evaluations,
    whichever data set is left out (`python -m tabular_cache significance`).
    """

    def __init__(self, features: Sequence[str], ridge: float = 0.03, space: SearchSpace = XGBOOST_SPACE) -> None:
        self.ridge = number("ridge", ridge, "a number > 0", math.nextafter(0.0, 1.0))
        self._features = Features(features, space)
        self.features = self._features.names
        self._coefficients: tuple[float, Float[np.ndarray, " k"], float] | None = None

    def fit(self, X: Float[np.ndarray, "n d"], cost_s: Float[np.ndarray, " n"]) -> None:
        """Fit to costs in seconds; raises BadInput naming the first that is not finite and positive."""
        target = log_costs(cost_s)
        n, k = len(target), len(self._features)
        S = np.array(self._features.columns(np.asarray(X, dtype=np.float64)))
        center, level = S.sum(axis=1) / n, float(target.sum()) / n
        S -= center[:, None]
        target -= level
        gram = S @ S.T
        gram.flat[:: k + 1] += self.ridge
        weights = np.linalg.solve(gram, S @ target)
        residual = target - weights @ S
        sd = math.sqrt(float(residual @ residual) / max(1, n - k - 1))
        self._coefficients = level - float(center @ weights), weights, sd

    def predict(self, C: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return mean and sd of log cost at `C`."""
        if self._coefficients is None:
            raise ValueError("predict was called before fit")
        intercept, weights, sd = self._coefficients
        mean = np.full(len(C), intercept)
        for weight, feature in zip(weights, self._features.columns(np.asarray(C, dtype=np.float64)), strict=True):
            mean += weight * feature  # elementwise, so that equal features give exactly equal costs
        return mean, np.full(len(C), sd)

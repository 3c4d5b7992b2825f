"""Low-variance cost models: log cost as a linear function of a few hyperparameters.

Source: Guinet et al. 2020 (LV-1, LV-2, LV-3); LV-3, learned online, is the paper's default.
"""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from harness.checks import number
from harness.errors import BadInput
from harness.space import XGBOOST_SPACE, SearchSpace


class LowVariance:
    """log c(x) = b + sum_k w_k s_k(x) over `features`, s the log of the native value in units of its range.

    s = log(x / low) / log(high / low), in [0, 1]; a parameter whose range includes 0 has no log and enters by
    its unit coordinate. (b, w) minimise sum (log c_i - b - w s_i)^2 + ridge |w|^2 after centring, which also
    answers for n = 1 and for features that never varied (w = 0: the mean log cost).
    sd: sqrt(RSS / max(1, n - k - 1)), the same everywhere.
    """

    def __init__(self, features: Sequence[str], ridge: float = 1e-3, space: SearchSpace = XGBOOST_SPACE) -> None:
        unknown = [name for name in features if name not in space.names]
        if unknown or not features or len(set(features)) < len(features):
            raise BadInput(f"features must be different names among {', '.join(space.names)}, got {features}")
        self.ridge = number("ridge", ridge, "a number > 0", math.nextafter(0.0, 1.0))
        self.features = tuple(features)
        self._space = space
        self._coefficients: tuple[float, Float[np.ndarray, " k"], float] | None = None

    def fit(self, X: Float[np.ndarray, "n d"], cost_s: Float[np.ndarray, " n"]) -> None:
        """Fit to costs in seconds; raises BadInput naming the first that is not finite and positive."""
        cost_s = np.asarray(cost_s, dtype=np.float64)
        bad = ~(np.isfinite(cost_s) & (cost_s > 0))
        if bad.any() or len(cost_s) == 0:
            where = f"{cost_s[bad][0]} in row {int(bad.argmax())}" if bad.any() else "none"
            raise BadInput(f"costs must be finite and positive, got {where}")
        S = np.stack(self._features(X), axis=1)
        target = np.log(cost_s)
        center, level = S.mean(axis=0), target.mean()
        F = S - center
        weights = np.linalg.solve(F.T @ F + self.ridge * np.eye(len(center)), F.T @ (target - level))
        residual = target - level - F @ weights
        sd = np.sqrt(residual @ residual / max(1, len(target) - len(center) - 1))
        self._coefficients = float(level - center @ weights), weights, float(sd)

    def predict(self, C: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return mean and sd of log cost at `C`."""
        if self._coefficients is None:
            raise ValueError("predict was called before fit")
        intercept, weights, sd = self._coefficients
        mean = np.full(len(C), intercept)
        for weight, feature in zip(weights, self._features(C), strict=True):
            mean += weight * feature  # elementwise, so that equal features give exactly equal costs
        return mean, np.full(len(C), sd)

    def _features(self, X: Float[np.ndarray, "n d"]) -> list[Float[np.ndarray, " n"]]:
        columns = []
        for name in self.features:
            j = self._space.names.index(name)
            p, u = self._space.parameters[j], np.asarray(X, dtype=np.float64)[:, j]
            if not p.log and p.low > 0:
                ratio = p.high / p.low
                u = np.log1p(u * (ratio - 1.0)) / np.log(ratio)
            columns.append(u)
        return columns

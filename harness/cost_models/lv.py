"""Low-variance cost models: log cost as a linear function of a few hyperparameters.

Source: Guinet et al. 2020 (LV-1, LV-2, LV-3); LV-3, learned online, is the paper's default.
"""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from harness.checks import number
from harness.errors import BadInput
from harness.space import XGBOOST_SPACE, Parameter, SearchSpace


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
        self._columns = [
            (space.names.index(name), _ratio(space.parameters[space.names.index(name)])) for name in features
        ]
        self._coefficients: tuple[float, Float[np.ndarray, " k"], float] | None = None

    def fit(self, X: Float[np.ndarray, "n d"], cost_s: Float[np.ndarray, " n"]) -> None:
        """Fit to costs in seconds; raises BadInput naming the first that is not finite and positive."""
        cost_s = np.asarray(cost_s, dtype=np.float64)
        if len(cost_s) == 0 or not (cost_s.min() > 0.0 and cost_s.max() < math.inf):
            bad = ~(np.isfinite(cost_s) & (cost_s > 0))
            where = f"{cost_s[bad][0]} in row {int(bad.argmax())}" if bad.any() else "none"
            raise BadInput(f"costs must be finite and positive, got {where}")
        n, k = len(cost_s), len(self.features)
        S = np.array(self._features(np.asarray(X, dtype=np.float64)))
        target = np.log(cost_s)
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
        for weight, feature in zip(weights, self._features(np.asarray(C, dtype=np.float64)), strict=True):
            mean += weight * feature  # elementwise, so that equal features give exactly equal costs
        return mean, np.full(len(C), sd)

    def _features(self, X: Float[np.ndarray, "n d"]) -> list[Float[np.ndarray, " n"]]:
        columns = []
        for j, ratio in self._columns:
            s = X[:, j]
            if ratio is not None:
                s = s * (ratio - 1.0)
                s += 1.0
                np.log(s, out=s)
                s *= 1.0 / math.log(ratio)
            columns.append(s)
        return columns


def _ratio(parameter: Parameter) -> float | None:
    """Return high / low where the unit coordinate is to be put on a log scale; None where it stays as it is."""
    return None if parameter.log or parameter.low <= 0 else parameter.high / parameter.low

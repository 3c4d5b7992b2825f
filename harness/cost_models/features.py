"""What all cost models share: log costs, checked, and hyperparameters on the scales that costs are linear in."""

import math
from collections.abc import Sequence
from typing import no_type_check

import numpy as np
from jaxtyping import Float, Int

from datasets.errors import BadInput
from harness.compiler import njit
from harness.elementary import log
from harness.space import XGBOOST_SPACE, Parameter, SearchSpace

_AS_IT_IS = 1.0  # instead of a ratio


def log_costs(cost_s: Float[np.ndarray, " n"], points: int | None = None) -> Float[np.ndarray, " n"]:
    """Return log cost; raises BadInput naming the first row that is not finite and positive, or for no rows.

    points: how many costs there have to be, if that is known; raises BadInput naming the first row without one.
    """
    cost_s = np.asarray(cost_s, dtype=np.float64)
    if points is not None and len(cost_s) != points:
        missing = f"row {len(cost_s)} has none" if len(cost_s) < points else f"there are {len(cost_s)}"
        raise BadInput(f"{points} points need {points} costs, {missing}")
    if len(cost_s) == 0 or not (cost_s.min() > 0.0 and cost_s.max() < math.inf):
        bad = ~(np.isfinite(cost_s) & (cost_s > 0))
        where = f"{cost_s[bad][0]} in row {int(bad.argmax())}" if bad.any() else "none"
        raise BadInput(f"costs must be finite and positive, got {where}")
    return log(cost_s)


class Features:
    """Some hyperparameters as s = log(x / low) / log(high / low) in [0, 1], x the native value.

    A parameter whose range includes 0 has no log and enters by its unit coordinate. Raises BadInput for unknown
    or repeated names, or none.
    """

    def __init__(self, names: Sequence[str], space: SearchSpace = XGBOOST_SPACE) -> None:
        unknown = [name for name in names if name not in space.names]
        if unknown or not names or len(set(names)) < len(names):
            raise BadInput(f"features must be different names among {', '.join(space.names)}, got {names}")
        self.names = tuple(names)
        chosen = [space.names.index(name) for name in names]
        self._columns = np.array(chosen)
        self._ratios = np.array([_ratio(space.parameters[j]) for j in chosen])
        self._logs = [(k, 1.0 / math.log(ratio)) for k, ratio in enumerate(self._ratios) if ratio != _AS_IT_IS]

    def __len__(self) -> int:
        return len(self.names)

    def columns(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "k n"]:
        """Return the features of unit-cube points, one row each."""
        out = _native(X, self._columns, self._ratios)
        for k, scale in self._logs:
            out[k] = log(out[k]) * scale
        return out


@njit(cache=True, error_model="numpy")
@no_type_check
def _native(
    X: Float[np.ndarray, "n d"], columns: Int[np.ndarray, " k"], ratios: Float[np.ndarray, " k"]
) -> Float[np.ndarray, "k n"]:
    """Return 1 + (ratio - 1) x, the native value in units of its lowest, or x itself where there is no ratio."""
    out = np.empty((len(columns), len(X)))
    for k in range(len(columns)):
        factor, start = (ratios[k] - 1.0, 1.0) if ratios[k] != _AS_IT_IS else (1.0, 0.0)
        for i in range(len(X)):
            out[k, i] = X[i, columns[k]] * factor + start
    return out


def _ratio(parameter: Parameter) -> float:
    """Return high / low where the unit coordinate is to be put on a log scale; `_AS_IT_IS` where it stays as it is."""
    return _AS_IT_IS if parameter.log or parameter.low <= 0 else parameter.high / parameter.low

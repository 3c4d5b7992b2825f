"""What all cost models share: log costs, checked, and hyperparameters on the scales that costs are linear in."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from harness.errors import BadInput
from harness.space import XGBOOST_SPACE, Parameter, SearchSpace


def log_costs(cost_s: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return log cost; raises BadInput naming the first row that is not finite and positive, or for no rows."""
    cost_s = np.asarray(cost_s, dtype=np.float64)
    if len(cost_s) == 0 or not (cost_s.min() > 0.0 and cost_s.max() < math.inf):
        bad = ~(np.isfinite(cost_s) & (cost_s > 0))
        where = f"{cost_s[bad][0]} in row {int(bad.argmax())}" if bad.any() else "none"
        raise BadInput(f"costs must be finite and positive, got {where}")
    return np.log(cost_s)


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
        self._columns = [(space.names.index(name), _ratio(space.parameters[space.names.index(name)])) for name in names]

    def __len__(self) -> int:
        return len(self.names)

    def columns(self, X: Float[np.ndarray, "n d"]) -> list[Float[np.ndarray, " n"]]:
        """Return the features of unit-cube points, one array each."""
        out = []
        for j, ratio in self._columns:
            s = X[:, j]
            if ratio is not None:
                s = s * (ratio - 1.0)
                s += 1.0
                np.log(s, out=s)
                s *= 1.0 / math.log(ratio)
            out.append(s)
        return out


def _ratio(parameter: Parameter) -> float | None:
    """Return high / low where the unit coordinate is to be put on a log scale; None where it stays as it is."""
    return None if parameter.log or parameter.low <= 0 else parameter.high / parameter.low

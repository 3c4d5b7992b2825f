"""Cost models predict the logarithm of an evaluation's cost: the protocol `CostModel`, and what all of them share.

Shared are checked log costs, hyperparameters on the scales that costs are linear in (`Features`), and the statistics
that stand for an uncertain cost. `Oracle` knows the cost.
"""

import math
from collections.abc import Sequence
from typing import Protocol, no_type_check, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

from harness.compile_cache import njit
from harness.errors import BadInput
from harness.normal import log
from harness.problem import Problem
from harness.space import XGBOOST_SPACE, Parameter, SearchSpace

# Log costs, checked, and hyperparameters on the scales that costs are linear in.

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
            remedy = " (those of a space of your own: space=SearchSpace(...))" if space is XGBOOST_SPACE else ""
            raise BadInput(f"features must be different names among {', '.join(space.names)}, got {names}{remedy}")
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


# The known cost: the bound that no learned cost model can beat.


class Oracle:
    """log c(x) as the problem itself will charge it, sd 0. Needs a problem that knows its costs beforehand."""

    def __init__(self) -> None:
        self._problem: Problem | None = None

    def start(self, problem: Problem) -> None:
        """Take the problem whose costs to tell; raises BadInput for one that does not know them."""
        if not problem.costs_known:
            raise BadInput("cost_model=oracle needs costs known beforehand: evaluator=replay or evaluator=surface")
        self._problem = problem

    def fit(self, X: Float[np.ndarray, "n d"], cost_s: Float[np.ndarray, " n"]) -> None:
        """Check the costs, and learn nothing; raises BadInput naming the first that is not finite and positive."""
        log_costs(cost_s, len(X))

    def predict(self, C: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return the log of the true cost at `C`, points that the problem has offered, and zeros."""
        if self._problem is None:
            raise ValueError("predict was called before start")
        return log_costs(self._problem.true_cost_s(C)), np.zeros(len(C))


# The protocol: learn from observed costs, predict log cost anywhere in the unit cube.


@runtime_checkable
class CostModel(Protocol):
    """A model of log c(x), c in seconds; an object serves one run."""

    def fit(self, X: Float[np.ndarray, "n d"], cost_s: Float[np.ndarray, " n"]) -> None:
        """Fit to n >= 1 costs in seconds; raises BadInput for a cost that is not finite and positive."""
        ...

    def predict(self, C: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return mean and standard deviation of log cost at `C`; both finite."""
        ...


@runtime_checkable
class CensoredCostModel(CostModel, Protocol):
    """A cost model with a way of its own to learn from lower bounds."""

    def fit_censored(
        self, X: Float[np.ndarray, "n d"], cost_s: Float[np.ndarray, " n"], censored: Bool[np.ndarray, " n"]
    ) -> None:
        """Fit to costs in seconds, where censored (some, not all) only lower bounds; raises BadInput as `fit`."""
        ...


@runtime_checkable
class ProblemAware(CostModel, Protocol):
    """A cost model that wants to know the problem before its first evaluation."""

    def start(self, problem: Problem) -> None:
        """Take the problem of this run; raises BadInput for one that the model cannot serve."""
        ...


@runtime_checkable
class Fingerprinted(ProblemAware, Protocol):
    """A cost model that knows something beforehand, which belongs to the description of a run."""

    def fingerprint(self, problem: Problem) -> str:
        """Return a hash of all that the model knows before `problem`; raises BadInput as `start` does."""
        ...


def known_beforehand(model: CostModel, problem: Problem) -> str | None:
    """Return the fingerprint of what `model` knows before `problem`, None if nothing; raises BadInput as `start`."""
    if isinstance(model, Fingerprinted):
        return model.fingerprint(problem)
    if isinstance(model, ProblemAware):
        model.start(problem)
    return None


# Which number stands for an uncertain cost: log c ~ N(m, s^2), as a cost model predicts it.
#
#     exp_mean          exp(m), the median cost (the default: the paper's)
#     expected          E[c] = exp(m + s^2 / 2)
#     expected_inverse  E[c^-a]^(-1/a) = exp(m - a s^2 / 2), so that EI c^-a becomes EI E[c^-a]; a: the rule's exponent
#
# Moments of the log-normal distribution.

EXP_MEAN = "exp_mean"
STATISTICS = (EXP_MEAN, "expected", "expected_inverse")


def check_statistic(name: object) -> str:
    """Return `name` if it is one of STATISTICS; raises BadInput otherwise."""
    if name not in STATISTICS:
        raise BadInput(f"cost_statistic must be one of {', '.join(STATISTICS)}, got {name!r}")
    return str(name)


def log_statistic(
    name: str, mean: Float[np.ndarray, " m"], sd: Float[np.ndarray, " m"], exponent: float | None
) -> Float[np.ndarray, " m"]:
    """Return the log of the statistic `name`; exponent: a, which only `expected_inverse` needs (ValueError without)."""
    if name == "exp_mean":
        return mean
    if name == "expected":
        return mean + 0.5 * np.square(sd)
    if exponent is None:
        raise ValueError("expected_inverse needs the exponent of the cost rule")
    return mean - 0.5 * exponent * np.square(sd)

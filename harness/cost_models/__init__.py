"""Cost models predict the logarithm of an evaluation's cost: the class `CostModel`, and what all of them share.

Shared are checked log costs, hyperparameters on the scales that costs are linear in (`Features`), costs that are only
lower bounds, and the statistics that stand for an uncertain cost. `Oracle` knows the cost. A model of a user's own
derives from `CostModel`, or is any class that has `fit` and `predict`.
"""

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import no_type_check

import numpy as np
from jaxtyping import Float

from harness.arrays import CandidatePoints, Flags, Indices, MeanSd, PerCandidate, Points, Vector
from harness.compile_cache import njit
from harness.component import Component, ProblemAware, complete
from harness.errors import BadInput, listed, one_of
from harness.normal import exp, log, truncated_moments
from harness.problem import Problem
from harness.space import XGBOOST_SPACE, Parameter, SearchSpace

_AS_IT_IS = 1.0  # instead of a ratio
_PARTS = 8192  # a power of 2
_ROWS = 256  # points at a time: they stay in the processor's first cache


def log_costs(cost_s: Vector, points: int | None = None) -> Vector:
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
        names = listed("features", names)
        unknown = [name for name in names if name not in space.names]
        if unknown or not names or len(set(names)) < len(names):
            remedy = " (those of a space of your own: space=SearchSpace(...))" if space is XGBOOST_SPACE else ""
            raise BadInput(f"features must be different names among {', '.join(space.names)}, got {names}{remedy}")
        self.names = tuple(names)
        chosen = [space.names.index(name) for name in names]
        self._columns, self._width = np.array(chosen), len(space)
        self._ratios = np.array([_ratio(space.parameters[j]) for j in chosen])
        self._last, self._given = np.full((2, len(chosen), _PARTS), np.nan)
        self._of_table: tuple[Points, Float[np.ndarray, "n k"]] | None = None

    def __len__(self) -> int:
        return len(self.names)

    def columns(self, X: Points) -> Float[np.ndarray, "k n"]:
        """Return the features of unit-cube points, one row each; raises BadInput for points of another space."""
        if X.ndim != 2 or X.shape[1] != self._width:
            raise BadInput(
                f"the cost model's space has {self._width} parameters, the points have the shape {X.shape}: give it "
                "yours, space=SearchSpace(...)"
            )
        return _features(X, self._columns, self._ratios, self._last, self._given)  # type: ignore[no-any-return]

    def of_table(self, X: Points) -> Float[np.ndarray, "n k"]:
        """Return the features, a column each, of an array that stays as it is: asked for again, it costs nothing."""
        if self._of_table is None or self._of_table[0] is not X:
            self._of_table = X, np.ascontiguousarray(self.columns(np.asarray(X, dtype=np.float64)).T)
        return self._of_table[1]


@njit(cache=True, error_model="numpy")
@no_type_check
def _features(X, columns, ratios, lasts, gave):  # type: ignore[no-untyped-def]
    """Return log(1 + (ratio - 1) x) / log ratio, of the native value in units of its lowest; x itself without a ratio.

    A table's values come again and again: `lasts` and `gave` remember the last x in each part of [0, 1], NaN for none,
    and what it gives.
    """
    out = np.empty((len(columns), len(X)))
    for start in range(0, len(X), _ROWS):
        end = min(start + _ROWS, len(X))
        for k in range(len(columns)):
            column, row, last, given = X[:, columns[k]], out[k], lasts[k], gave[k]
            if ratios[k] == _AS_IT_IS:
                for i in range(start, end):
                    row[i] = column[i]
                continue
            factor, scale = ratios[k] - 1.0, 1.0 / math.log(ratios[k])
            for i in range(start, end):
                part = int(column[i] * _PARTS) & (_PARTS - 1)
                if last[part] != column[i]:
                    last[part] = column[i]
                    given[part] = math.log(column[i] * factor + 1.0) * scale
                row[i] = given[part]
    return out


def _ratio(parameter: Parameter) -> float:
    """Return high / low where the unit coordinate is to be put on a log scale; `_AS_IT_IS` where it stays as it is."""
    return _AS_IT_IS if parameter.log or parameter.low <= 0 else parameter.high / parameter.low


class CostModel(Component, ProblemAware):
    """A model of log c(x), c in seconds; an object serves one run."""

    @abstractmethod
    def fit(self, X: Points, cost_s: Vector) -> None:
        """Fit to n >= 1 costs in seconds; raises BadInput for a cost that is not finite and positive."""

    @abstractmethod
    def predict(self, C: CandidatePoints) -> MeanSd:
        """Return mean and standard deviation of log cost at `C`; both finite."""

    def predict_mean(self, C: CandidatePoints) -> PerCandidate:
        """Return the mean alone, as `predict` does: for a model that can say it for less."""
        return self.predict(C)[0]

    def predict_mean_at(self, C: CandidatePoints, where: Indices) -> Vector:
        """Return `predict_mean` at rows of `C`, which stays as it is, so that something of it may be known already."""
        return self.predict_mean(C.take(where, axis=0))

    def fit_censored(self, X: Points, cost_s: Vector, censored: Flags) -> None:
        """Fit to costs in seconds, where censored (some, not all) only lower bounds; raises BadInput as `fit`.

        Unless a model knows better, it is fitted to the known costs, and then to all, with the mean of the truncated
        prediction in place of each bound.
        """
        bound = log_costs(cost_s)[censored]
        self.fit(X[~censored], cost_s[~censored])
        mean, sd = self.predict(X[censored])
        filled = np.array(cost_s, dtype=np.float64)
        filled[censored] = exp(truncated_moments(mean, np.maximum(sd, SMALLEST_SD), bound)[0])
        self.fit(X, filled)


def known_beforehand(model: CostModel, problem: Problem) -> str | None:
    """Return the fingerprint of what `model` knows before `problem`, None if nothing; raises BadInput as `start`."""
    return complete(model, CostModel).fingerprint(problem)


class Oracle(CostModel):
    """log c(x) as the problem itself will charge it, sd 0: the bound that no learned cost model can beat."""

    def __init__(self) -> None:
        self._problem: Problem | None = None

    def start(self, problem: Problem) -> None:
        """Take the problem whose costs to predict; raises BadInput for one that does not know them beforehand."""
        if not problem.costs_known:
            raise BadInput("cost_model=oracle needs costs known beforehand: evaluator=replay or evaluator=surface")
        self._problem = problem

    def fit(self, X: Points, cost_s: Vector) -> None:
        """Check the costs, and learn nothing; raises BadInput naming the first that is not finite and positive."""
        log_costs(cost_s, len(X))

    def predict(self, C: CandidatePoints) -> MeanSd:
        """Return the log of the true cost at `C`, points that the problem has offered, and zeros."""
        if self._problem is None:
            raise ValueError("predict was called before start")
        return log_costs(self._problem.true_cost_s(C)), np.zeros(len(C))


# Costs of which only a lower bound is known, such as those of trainings stopped at their time limit.
#
#     imputed   what a truncated normal distribution says of them, as the model's `fit_censored` has it (the default)
#     bound     the bound is taken as the cost
#     dropped   they are left out

IMPUTED, BOUND, DROPPED = "imputed", "bound", "dropped"
TREATMENTS = (IMPUTED, BOUND, DROPPED)
SMALLEST_SD = 1e-9  # of log cost: a model that is certain imputes its prediction, or the bound


def check_treatment(name: object) -> str:
    """Return `name` if it is one of TREATMENTS; raises BadInput otherwise."""
    return one_of("censored_costs", name, TREATMENTS)


def fit_with_bounds(model: CostModel, X: Points, cost_s: Vector, censored: Flags, treatment: str = IMPUTED) -> None:
    """Fit `model` to costs in seconds, lower bounds where censored; where all are, bounds are taken as costs."""
    if not censored.any() or censored.all() or treatment == BOUND:
        model.fit(X, cost_s)
    elif treatment == DROPPED:
        log_costs(cost_s)
        model.fit(X[~censored], cost_s[~censored])
    else:
        complete(model, CostModel).fit_censored(X, cost_s, censored)


# Which number stands for an uncertain cost: log c ~ N(m, s^2), as a cost model predicts it.
#
#     exp_mean          exp(m), the median cost (the default: the paper's)
#     expected          E[c] = exp(m + s^2 / 2)
#     expected_inverse  E[c^-a]^(-1/a) = exp(m - a s^2 / 2), so that EI c^-a becomes EI E[c^-a]; a: the rule's exponent
#
# Moments of the log-normal distribution.

EXP_MEAN, EXPECTED, EXPECTED_INVERSE = "exp_mean", "expected", "expected_inverse"
STATISTICS = (EXP_MEAN, EXPECTED, EXPECTED_INVERSE)


def check_statistic(name: object) -> str:
    """Return `name` if it is one of STATISTICS; raises BadInput otherwise."""
    return one_of("cost_statistic", name, STATISTICS)


def log_statistic(name: str, mean: PerCandidate, sd: PerCandidate, exponent: float | None) -> PerCandidate:
    """Return the log of the statistic `name`; exponent: a, which only `expected_inverse` needs (ValueError without)."""
    if name == EXP_MEAN:
        return mean
    if name == EXPECTED:
        return mean + 0.5 * np.square(sd)
    if exponent is None:
        raise ValueError("expected_inverse needs the exponent of the cost rule")
    return mean - 0.5 * exponent * np.square(sd)

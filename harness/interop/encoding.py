"""Optuna's search spaces as points of the unit cube, which is all that our models see.

A parameter has one column, a categorical one of three choices or more a column for each, of which one is 1. Between
the two stand Optuna's internal numbers: the value of a float or an integer, the index of a choice.

Notation: m points, p parameters, d columns.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial

from harness.errors import BadInput
from harness.space import Parameter, SearchSpace

Distributions = Mapping[str, BaseDistribution]
_BELOW_ONE = math.nextafter(1.0, 0.0)


@dataclass(frozen=True)
class _Axis:
    """One parameter. count: its number of values, 0 where they are not counted (floats, integers on a log scale)."""

    low: float
    high: float
    step: float
    count: int
    log: bool
    whole: bool
    choices: bool

    @classmethod
    def of(cls, distribution: BaseDistribution) -> "_Axis":
        if isinstance(distribution, CategoricalDistribution):
            n = len(distribution.choices)
            return cls(0.0, n - 1.0, 1.0, n, log=False, whole=True, choices=True)
        if not isinstance(distribution, FloatDistribution | IntDistribution):
            raise TypeError(f"{type(distribution).__name__} is none of Optuna's three distributions")
        low, high, whole = float(distribution.low), float(distribution.high), isinstance(distribution, IntDistribution)
        step = 0.0 if distribution.step is None or distribution.log else float(distribution.step)
        count = round((high - low) / step) + 1 if step else 0
        return cls(low, high, step, count, distribution.log, whole, choices=False)

    @property
    def width(self) -> int:
        return self.count if self.choices and self.count > 2 else 1

    def values(self, u: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        """Return the internal values of uniform numbers in [0, 1): each counted value has the same share."""
        u = np.clip(u, 0.0, _BELOW_ONE)
        if self.count:
            return np.clip(self.low + self.step * np.floor(u * self.count), self.low, self.high)
        half = 0.5 if self.whole else 0.0  # an integer on a log scale owns what rounds to it
        low, high = self.low - half, self.high + half
        value = low * np.exp(u * math.log(high / low)) if self.log else low + u * (high - low)
        return np.clip(np.rint(value) if self.whole else value, self.low, self.high)

    def uniform(self, values: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        """Return numbers in [0, 1) that `values` maps back to the same internal values."""
        if self.count:
            return (np.rint((values - self.low) / (self.step or 1.0)) + 0.5) / self.count
        half = 0.5 if self.whole else 0.0
        low, high = self.low - half, self.high + half
        if low == high:
            return np.zeros(len(values))
        u = np.log(values / low) / math.log(high / low) if self.log else (values - low) / (high - low)
        return np.clip(u, 0.0, _BELOW_ONE)

    def columns(self, values: Float[np.ndarray, " m"]) -> Float[np.ndarray, "m w"]:
        """Return the unit-cube columns of internal values."""
        if self.width > 1:
            return np.eye(self.count)[values.astype(int)]
        if self.low == self.high:
            return np.zeros((len(values), 1))
        unit = (values - self.low) / (self.high - self.low)
        if self.log:
            unit = np.log(values / self.low) / math.log(self.high / self.low)
        return np.clip(unit, 0.0, 1.0)[:, None]

    def parameters(self, first: int) -> list[Parameter]:
        """Return the columns as parameters of a `SearchSpace`, named by their numbers from `first` on."""
        if self.choices or self.low == self.high:
            return [Parameter(str(first + k), 0.0, 1.0) for k in range(self.width)]
        return [Parameter(str(first), self.low, self.high, self.log, self.whole)]


class Encoding:
    """The maps between parameters by name, internal values (m, p) and points of the unit cube (m, d)."""

    def __init__(self, distributions: Mapping[str, BaseDistribution]) -> None:
        self.distributions = dict(distributions)
        self._axes = [_Axis.of(distribution) for distribution in distributions.values()]
        first = np.cumsum([0, *(axis.width for axis in self._axes)]).tolist()
        columns: list[Parameter] = []
        for name, axis, at in zip(self.distributions, self._axes, first, strict=False):
            try:
                columns += axis.parameters(at)
            except BadInput as error:  # it names the column
                raise BadInput(f"parameter {name}: {str(error).partition(': ')[2]}") from None
        self.space = SearchSpace(tuple(columns))
        ends = zip(self.distributions, first[:-1], first[1:], strict=True)
        self.columns_of = {name: [str(j) for j in range(a, b)] for name, a, b in ends}

    def __len__(self) -> int:
        return len(self._axes)

    def internal(self, params: Iterable[Mapping[str, Any]]) -> Float[np.ndarray, "m p"]:
        """Return the internal values of parameters by name."""
        rows = [[d.to_internal_repr(row[name]) for name, d in self.distributions.items()] for row in params]
        return np.array(rows, dtype=np.float64).reshape(-1, len(self))

    def external(self, values: Float[np.ndarray, " p"]) -> dict[str, Any]:
        """Return one point's parameters by name, plain Python values."""
        return {
            name: distribution.to_external_repr(value)
            for (name, distribution), value in zip(self.distributions.items(), values.tolist(), strict=True)
        }

    def draw(self, u: Float[np.ndarray, "m p"]) -> Float[np.ndarray, "m p"]:
        """Return the internal values of points of [0, 1)^p."""
        return np.column_stack([axis.values(u[:, j]) for j, axis in enumerate(self._axes)])

    def uniform(self, values: Float[np.ndarray, "m p"]) -> Float[np.ndarray, "m p"]:
        """Return points of [0, 1)^p that `draw` maps back to `values`."""
        return np.column_stack([axis.uniform(values[:, j]) for j, axis in enumerate(self._axes)])

    def unit(self, values: Float[np.ndarray, "m p"]) -> Float[np.ndarray, "m d"]:
        """Return internal values as points of the unit cube."""
        return np.ascontiguousarray(np.hstack([axis.columns(values[:, j]) for j, axis in enumerate(self._axes)]))


# Trials in a space.


def within(params: Mapping[str, Any], space: Distributions) -> dict[str, Any]:
    """Return the parameters among `params` that `space` has, and within its range."""
    return {name: params[name] for name, distribution in space.items() if name in params
            and _holds(distribution, params[name])}  # fmt: skip


def _holds(distribution: BaseDistribution, value: Any) -> bool:
    try:
        internal = distribution.to_internal_repr(value)
    except ValueError:  # none of the choices
        return False
    return bool(distribution._contains(internal))


def covering(trials: Sequence[FrozenTrial], space: Distributions) -> list[FrozenTrial]:
    """Return the trials that have a value within `space` for each of its parameters."""
    return [trial for trial in trials if len(within(trial.params, space)) == len(space)]

"""Branin-Hoo with one half of the space ten times dearer than the other; costs are known.

f(x) = (x1 - 5.1 x2^2 / (4 pi^2) + 5 x2 / pi - 6)^2 + 10 (1 - 1 / (8 pi)) cos(x2) + 10 on 0 <= x1 <= 15,
-5 <= x2 <= 10: the usual function with its two variables swapped, as the paper has them. Minimum 0.397887, three times.
Which half is the dear one the paper does not say; here x1 > 7.5, which holds one of the three minima: 10 s against 1 s.
"""

import math

import numpy as np
from jaxtyping import Float

from analysis.opportunity import CANDIDATES
from harness.problem import ContinuousProblem, Evaluation
from harness.space import Parameter, SearchSpace

MINIMUM = 0.39788735772973816
DEADLINE_S = 50.0
_CHEAP_S, _DEAR_S = 1.0, 10.0


def branin(x: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, " n"]:
    """Return f(x) of the module's formula."""
    x1, x2 = np.asarray(x, dtype=np.float64).T
    bowl = x1 - 5.1 / (4 * math.pi**2) * x2**2 + 5 / math.pi * x2 - 6
    return bowl**2 + 10 * (1 - 1 / (8 * math.pi)) * np.cos(x2) + 10


def seconds(x: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, " n"]:
    """Return what evaluating each of `x` takes."""
    return np.where(x[:, 0] > 7.5, _DEAR_S, _CHEAP_S)


class Branin(ContinuousProblem):
    """The problem of one run."""

    space = SearchSpace((Parameter("x1", 0.0, 15.0), Parameter("x2", -5.0, 10.0)))

    def __init__(self, seed: int, n_candidates: int = CANDIDATES) -> None:
        super().__init__("branin", seed, n_candidates)

    def measure(self, x: Float[np.ndarray, " d"]) -> Evaluation:
        """Return the value and the seconds at `x`."""
        value, cost = float(branin(x[None])[0]), float(seconds(x[None])[0])
        return Evaluation(value, cost, value, cost)

    def true_cost_s(self, C: Float[np.ndarray, "m d"]) -> Float[np.ndarray, " m"]:
        """Return the seconds that each unit-cube point of `C` will take."""
        return seconds(self.space.from_unit(C))

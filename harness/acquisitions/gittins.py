"""The Pandora's box Gittins index: the price of certainty at which a candidate is just worth opening."""

import math
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from scipy.special import log_ndtr

from harness.acquisitions import Setup, StepContext
from harness.acquisitions.cost_rules import Ignore, Power
from harness.acquisitions.ei import log_h
from harness.cost_models import log_statistic
from harness.errors import BadInput, flag, number
from harness.normal import exp, log
from harness.surrogates.gp import standardise

_ITERATIONS = 100  # at most; Newton's method needs about ten
_EXACT = 1e-14


class PandorasBoxGittinsIndex:
    """g(x) with EI(x; g) = E[max(0, g - f(x))] = Lambda c(x); the candidate of lowest g is evaluated next.

    Lambda = price sd(y) / c_0, c_0 the mean cost of the initial design, so that neither the unit of y nor that of cost
    changes a choice. c(x): E[c] = exp(m + s^2 / 2), log c ~ N(m, s^2) as the cost model predicts it: the paper's rule
    for unknown costs, and with cost_model=oracle the known cost. expected=false: the cost statistic instead. The log
    value is -g / sd(y), which any order-preserving map would do: it has no zero and no ratios, so that only the rule
    that ignores cost makes sense on top.
    halve: PBGI-D, where Lambda is halved for good whenever no index is below the incumbent (the paper's stopping rule).
    It is the one utility that remembers: another look at a step (fronts=true) at other candidates may halve it sooner.
    Source: Xie, Astudillo, Frazier, Scully and Terenin 2024, "Cost-aware Bayesian optimization via the Pandora's box
    Gittins index" (PBGI, PBGI-D, and the index with unknown costs).
    """

    name: ClassVar[str] = "pbgi"
    weighs_cost_sd: ClassVar[bool] = True

    def __init__(self, price: float = 1e-3, halve: bool = False, expected: bool = True) -> None:
        self.price = number("utility.price", price, "a number > 0", np.nextafter(0.0, 1.0))
        self.halve, self.expected = flag("utility.halve", halve), flag("utility.expected", expected)
        self._halvings = 0

    def check(self, setup: Setup) -> None:
        """Raise BadInput for a rule that would weigh the index, which contains the cost, by the cost again."""
        plain = isinstance(setup.rule, Ignore) or (isinstance(setup.rule, Power) and setup.rule.alpha == 0.0)
        if not plain:
            raise BadInput(
                "utility=pbgi has the cost inside its index, which no cost rule can weigh again: use +acq=ei "
                "(the index as it is)"
            )

    def log_value(self, belief: StepContext) -> Float[np.ndarray, " m"]:
        """Return -g / sd(y); -inf where the cost is infinite."""
        if belief.history is None:
            raise ValueError("utility=pbgi needs a belief with a history")
        unit = standardise(belief.history.y)[1][1]
        log_start = math.log(belief.initial_cost / min(belief.n_initial, belief.step))
        log_cost = belief.log_cost
        if self.expected:
            mean = belief.log_cost if belief.mean_log_cost is None else belief.mean_log_cost
            log_cost = log_statistic("expected", mean, belief.log_cost_sd, None)
        while True:
            log_price = math.log(self.price * unit) - self._halvings * math.log(2.0) - log_start
            index = gittins(belief.mean, belief.sd, log_price + log_cost)
            if not self.halve or index.min() < belief.incumbent or self._halvings >= _ITERATIONS:
                return -index / unit
            self._halvings += 1


def gittins(
    mean: Float[np.ndarray, " m"], sd: Float[np.ndarray, " m"], log_price: Float[np.ndarray, " m"]
) -> Float[np.ndarray, " m"]:
    """Return g with log E[max(0, g - f)] = log_price, f ~ N(mean, sd^2): mean + sd u, log h(u) = log_price - log sd.

    For sd = 0, mean + the price. An infinite price gives an infinite index.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        certain = mean + exp(log_price)
        target = log_price - log(sd)
        known = (sd == 0.0) | ~np.isfinite(target) | (target > _LARGE)
        return np.where(known, certain, mean + sd * inverse_log_h(np.where(known, 0.0, target)))


_LARGE = 5.0  # h(u) = u to rounding from u = exp(5) on: the index is mean + price


def inverse_log_h(target: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    """Return u with log h(u) = target, h(u) = phi(u) + u Phi(u), by Newton's method in logs.

    log h is increasing and concave, so that from a start below the root every step stays below it. Starts:
    h(u) <= phi(u) for u <= 0, and h(u) <= u + phi(0) above. (log h)' = Phi / h.
    """
    half = 0.5 * math.log(2.0 * math.pi)
    u = np.where(target < -half, -np.sqrt(np.maximum(0.0, -2.0 * (target + half))), np.maximum(0.0, exp(target) - 0.4))
    for _ in range(_ITERATIONS):
        value = log_h(u)
        step = (target - value) * exp(value - log_ndtr(u))
        u = u + step
        if (np.abs(step) <= _EXACT * (1.0 + np.abs(u))).all():
            break
    return u

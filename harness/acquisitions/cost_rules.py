"""The cost rules: plain EI (`Ignore`), EI^alpha (`Power`), EI-cool (`Cool`) and contextual EI (`Contextual`).

`effective_alpha` is the alpha that a choice amounts to.
"""

import math
from typing import ClassVar, no_type_check

import numpy as np
from jaxtyping import Float

from harness.acquisitions import StepContext
from harness.compile_cache import njit
from harness.errors import number, required

# The alpha that a choice amounts to: which EI^alpha would have chosen the same point.

_ROUNDING = 1e-12  # relative; on a straight piece of the front lo and hi are equal up to rounding


def effective_alpha(i: int, log_value: Float[np.ndarray, " m"], log_cost: Float[np.ndarray, " m"]) -> float:
    """Return the lowest alpha >= 0 for which point i maximises log EI - alpha log c, or NaN if none does.

    With s_j = (log EI_j - log EI_i) / (log c_j - log c_i), i is a maximiser exactly for alpha in [lo, hi],
    lo = max(0, max s_j over c_j > c_i), hi = min s_j over c_j < c_i (Guinet et al. 2020, figure of CEI).
    A point of equal cost and higher EI rules i out (NaN); equal cost and no higher EI constrains nothing.
    Points of zero EI (-inf) constrain nothing; if i itself has zero EI, the answer is 0 when no point has
    more EI and none costs less (all tie, the cheapest is chosen), NaN otherwise.
    """
    return float(_effective_alpha(i, log_value, log_cost))


@njit(cache=True, error_model="numpy")
@no_type_check
def _effective_alpha(i: int, log_value: Float[np.ndarray, " m"], log_cost: Float[np.ndarray, " m"]) -> float:
    value, cost, lo, hi = log_value[i], log_cost[i], 0.0, np.inf
    if value == -np.inf:
        return 0.0 if log_value.max() == -np.inf and cost <= log_cost.min() else np.nan
    for j in range(len(log_value)):
        gain, extra = log_value[j] - value, log_cost[j] - cost
        if extra > 0.0 and gain / extra > lo:
            lo = gain / extra
        elif extra < 0.0 and gain / extra < hi:
            hi = gain / extra
        elif extra == 0.0 and gain > 0.0:
            return np.nan
    return lo if lo <= hi + _ROUNDING * abs(hi) else np.nan


# Contextual EI: the cheapest point among those of nearly the highest EI.

_DEAREST = float(np.finfo(np.float64).max)


class Contextual:
    """score = -log c where EI >= (1 - lam) max EI, else -inf; lam in [0, 1] (Guinet et al. 2020).

    lam = 0 leaves only the maximisers of EI, lam = 1 every point. Where EI is zero everywhere, all tie.
    """

    on_front: ClassVar[bool] = True

    def __init__(self, lam: float | None) -> None:
        required("lam", lam, "+acq=cei needs a number in [0, 1], for example lam=0.1")
        self.lam = number("lam", lam, "a number in [0, 1]", 0.0, 1.0)
        self._log_share = math.log1p(-self.lam) if self.lam < 1.0 else -math.inf

    def score(
        self, log_value: Float[np.ndarray, " m"], log_cost: Float[np.ndarray, " m"], belief: StepContext
    ) -> Float[np.ndarray, " m"]:
        """Return -log c of the eligible points, -inf for the others; eligible at infinite cost beats the others."""
        price = np.minimum(log_cost, _DEAREST)
        if self.lam == 1.0:
            return -price
        return np.where(log_value >= log_value.max() + self._log_share, -price, -np.inf)


# Plain EI: cost plays no part.


class Ignore:
    """score = log EI."""

    on_front: ClassVar[bool] = True

    def score(
        self, log_value: Float[np.ndarray, " m"], log_cost: Float[np.ndarray, " m"], belief: StepContext
    ) -> Float[np.ndarray, " m"]:
        """Return `log_value` itself."""
        return log_value


# EI^alpha: alpha = 1 is EIpu, alpha = 0 is EI.


def per_cost(
    log_value: Float[np.ndarray, " m"], log_cost: Float[np.ndarray, " m"], exponent: float
) -> Float[np.ndarray, " m"]:
    """Return log(value / cost^exponent); zero value stays -inf, exponent 0 ignores even infinite costs."""
    if exponent == 0.0:
        return log_value
    with np.errstate(invalid="ignore"):  # -inf + inf, replaced
        return np.where(log_value == -np.inf, -np.inf, log_value - exponent * log_cost)


class Power:
    """score = log EI - alpha log c, alpha >= 0 (Guinet et al. 2020; alpha = 1: Snoek et al. 2012)."""

    on_front: ClassVar[bool] = True

    def __init__(self, alpha: float | None) -> None:
        required("alpha", alpha, "+acq=eialpha needs a number >= 0, for example alpha=0.2")
        self.alpha = number("alpha", alpha, "a number >= 0", 0.0)

    def score(
        self, log_value: Float[np.ndarray, " m"], log_cost: Float[np.ndarray, " m"], belief: StepContext
    ) -> Float[np.ndarray, " m"]:
        """Return log EI - alpha log c."""
        return per_cost(log_value, log_cost, self.alpha)

    def exponent(self, belief: StepContext) -> float:
        """Return alpha."""
        return self.alpha


# EI-cool: cost matters fully at first and not at all when the budget is used up.


def exponent(belief: StepContext) -> float:
    """Return a_k in [0, 1].

    With a budget tau: a_k = (tau - tau_k) / (tau - tau_init), tau_k the seconds spent before this step and
    tau_init those of the initial design. Without: the share of iterations left after the initial design,
    (N - k) / (N - N_init). Clipped to [0, 1]; 0 if the initial design alone used the budget up.
    """
    if belief.tau is not None:
        left, total = belief.tau - belief.spent, belief.tau - belief.initial_cost
    else:
        left, total = float(belief.iterations - belief.step), float(belief.iterations - belief.n_initial)
    return min(1.0, max(0.0, left / total)) if total > 0 else 0.0


class Cool:
    """score = log EI - a_k log c (Lee et al. 2020, "Cost-aware Bayesian optimization", CArBO: EI-cool)."""

    on_front: ClassVar[bool] = True
    plans_ahead: ClassVar[bool] = True

    def score(
        self, log_value: Float[np.ndarray, " m"], log_cost: Float[np.ndarray, " m"], belief: StepContext
    ) -> Float[np.ndarray, " m"]:
        """Return log EI - a_k log c with `exponent(belief)`."""
        return per_cost(log_value, log_cost, exponent(belief))

    def exponent(self, belief: StepContext) -> float:
        """Return a_k."""
        return exponent(belief)

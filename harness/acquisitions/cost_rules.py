"""The cost rules: plain EI (`Ignore`), EI^alpha (`Power`), EI-cool (`Cool`), contextual EI (`Contextual`), `Heated`.

`effective_alpha` returns the range of alpha in which EI^alpha would have chosen the same candidate.
"""

import math
from typing import ClassVar, no_type_check

import numpy as np

from harness.acquisitions import CostRule, StepContext
from harness.arrays import PerCandidate
from harness.compile_cache import njit
from harness.errors import number

_DEAREST = float(np.finfo(np.float64).max)
_ROUNDING = 1e-12  # relative; on a straight piece of the front lo and hi are equal up to rounding


def per_cost(log_value: PerCandidate, log_cost: PerCandidate, exponent: float) -> PerCandidate:
    """Return log(value / cost^exponent); zero value stays -inf, exponent 0 ignores even infinite costs."""
    if exponent == 0.0:
        return log_value
    with np.errstate(invalid="ignore"):  # -inf + inf, replaced
        return np.where(log_value == -np.inf, -np.inf, log_value - exponent * log_cost)


class Ignore(CostRule):
    """score = log EI: cost plays no part."""

    on_front: ClassVar[bool] = True
    stateless: ClassVar[bool] = True
    plans_ahead: ClassVar[bool] = False

    def score(self, log_value: PerCandidate, log_cost: PerCandidate, context: StepContext) -> PerCandidate:
        """Return `log_value` itself."""
        return log_value


class Contextual(CostRule):
    """score = -log c where EI >= (1 - lam) max EI, else -inf; lam in [0, 1] (Guinet et al. 2020).

    lam = 0 leaves only the maximisers of EI, lam = 1 every point. Where EI is zero everywhere, all tie.
    """

    on_front: ClassVar[bool] = True
    stateless: ClassVar[bool] = True
    plans_ahead: ClassVar[bool] = False

    def __init__(self, lam: float | None) -> None:
        self.lam = number("lam", lam, "a number in [0, 1]", 0.0, 1.0)
        self._log_share = math.log1p(-self.lam) if self.lam < 1.0 else -math.inf

    def score(self, log_value: PerCandidate, log_cost: PerCandidate, context: StepContext) -> PerCandidate:
        """Return -log c of the eligible points, -inf for the others; eligible at infinite cost beats the others."""
        price = np.minimum(log_cost, _DEAREST)
        if self.lam == 1.0:
            return -price
        return np.where(log_value >= log_value.max() + self._log_share, -price, -np.inf)


class Power(CostRule):
    """score = log EI - alpha log c, alpha >= 0 (Guinet et al. 2020; alpha = 1, EIpu: Snoek et al. 2012)."""

    on_front: ClassVar[bool] = True
    stateless: ClassVar[bool] = True
    plans_ahead: ClassVar[bool] = False

    def __init__(self, alpha: float | None) -> None:
        self.alpha = number("alpha", alpha, "a number >= 0", 0.0)

    def score(self, log_value: PerCandidate, log_cost: PerCandidate, context: StepContext) -> PerCandidate:
        """Return log EI - alpha log c."""
        return per_cost(log_value, log_cost, self.alpha)

    def exponent(self, context: StepContext) -> float:
        """Return alpha."""
        return self.alpha


class Cool(CostRule):
    """score = log EI - a_k log c (Lee et al. 2020, "Cost-aware Bayesian optimization", CArBO: EI-cool).

    Cost matters fully at first and not at all when the budget is used up. With a budget tau:
    a_k = (tau - tau_k) / (tau - tau_init), tau_k the seconds spent before this step and tau_init those of the initial
    design. Without: the share of iterations left after the initial design, (N - k) / (N - N_init). Clipped to [0, 1]; 0
    if the initial design alone used the budget up.
    """

    on_front: ClassVar[bool] = True

    def score(self, log_value: PerCandidate, log_cost: PerCandidate, context: StepContext) -> PerCandidate:
        """Return log EI - a_k log c."""
        return per_cost(log_value, log_cost, self.exponent(context))

    def exponent(self, context: StepContext) -> float:
        """Return a_k."""
        return share_left(context, *self.start(context))

    def start(self, context: StepContext) -> tuple[float, int]:
        """Return the seconds and evaluations at which cooling starts, tau_init and N_init: the initial design's."""
        return context.initial_cost, context.n_initial


def share_left(context: StepContext, seconds: float, evaluations: int) -> float:
    """Return the share left of the budget tau from `seconds` on; without tau, of `evaluations` and later ones."""
    if context.tau is not None:
        left, total = context.tau - context.spent, context.tau - seconds
    else:
        left, total = float(context.iterations - context.step), float(context.iterations - evaluations)
    return min(1.0, max(0.0, left / total)) if total > 0 else 0.0


class Heated(CostRule):
    """score = log EI where log c <= (1 - k s) log c(x_EI) + k s min log c, else -inf; k in [0, 1].

    x_EI: the candidate of the highest EI, the cheapest of equal ones. s: the share of the budget that is left after the
    initial design, as EI-cool's a_k. So for k = 1 the limit of cost is the cheapest candidate's at first, and rises to
    that of plain EI's choice; EI chooses below it.
    """

    on_front: ClassVar[bool] = True
    stateless: ClassVar[bool] = True

    def __init__(self, k: float = 1.0) -> None:
        self.k = number("acq.rule.k", k, "a number in [0, 1]", 0.0, 1.0)

    def score(self, log_value: PerCandidate, log_cost: PerCandidate, context: StepContext) -> PerCandidate:
        """Return log EI of the candidates within the limit; -inf for the others."""
        cost = np.minimum(log_cost, _DEAREST)
        dearest, cheapest = float(cost[log_value == log_value.max()].min()), float(cost.min())
        share = self.k * share_left(context, context.initial_cost, context.n_initial)
        limit = max(cheapest, dearest - share * (dearest - cheapest))
        return np.where(cost <= limit, log_value, -np.inf)


def effective_alpha(i: int, log_value: PerCandidate, log_cost: PerCandidate) -> tuple[float, float]:
    """Return the lowest and the highest alpha >= 0 for which point i maximises log EI - alpha log c, NaN if none does.

    With s_j = (log EI_j - log EI_i) / (log c_j - log c_i), i is a maximiser exactly for alpha in [lo, hi],
    lo = max(0, max s_j over c_j > c_i), hi = min s_j over c_j < c_i, inf without such j (Guinet et al. 2020, figure of
    CEI). A point of equal cost and higher EI rules i out (NaN); equal cost and no higher EI constrains nothing.
    Points of zero EI (-inf) constrain nothing; if i itself has zero EI, any alpha will do when no point has more EI and
    none costs less (all tie, the cheapest is chosen), none otherwise.
    """
    lo, hi = _effective_alpha(i, log_value, log_cost)
    return float(lo), float(hi)


@njit(cache=True, error_model="numpy")
@no_type_check
def _effective_alpha(i: int, log_value: PerCandidate, log_cost: PerCandidate) -> tuple[float, float]:
    value, cost, lo, hi = log_value[i], log_cost[i], 0.0, np.inf
    if value == -np.inf:
        any_will_do = log_value.max() == -np.inf and cost <= log_cost.min()
        return (lo, hi) if any_will_do else (np.nan, np.nan)
    for j in range(len(log_value)):
        gain, extra = log_value[j] - value, log_cost[j] - cost
        if extra > 0.0 and gain / extra > lo:
            lo = gain / extra
        elif extra < 0.0 and gain / extra < hi:
            hi = gain / extra
        elif extra == 0.0 and gain > 0.0:
            return np.nan, np.nan
    return (lo, max(lo, hi)) if lo <= hi + _ROUNDING * abs(hi) else (np.nan, np.nan)

"""The alpha that a choice amounts to: which EI^alpha would have chosen the same point."""

from typing import no_type_check

import numpy as np
from jaxtyping import Float

from harness.compiler import njit

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

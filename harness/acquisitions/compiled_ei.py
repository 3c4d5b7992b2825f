"""Expected improvement of one point, and a faster bound of it, for compiled loops."""

import math
from typing import no_type_check

import numpy as np

from harness.acquisitions.ei import log_h
from harness.compiler import njit
from harness.elementary import exp

_ROOT2, _ROOT2PI = math.sqrt(2.0), math.sqrt(2.0 * math.pi)
_FAR, _PER_UNIT, _ROUNDING = 38.0, 64, 1e-9  # of the bound's table: EI is 0 below -_FAR, and gap above _FAR
_KNOTS = exp(log_h(np.linspace(-_FAR, _FAR, 2 * int(_FAR) * _PER_UNIT + 1)))


@njit(cache=True, error_model="numpy", inline="always")
@no_type_check
def improvement_bound(gap, sd):  # type: ignore[no-untyped-def]
    """Return no less than `expected_improvement`, >= 0, without exp or erf: h is convex, so its chords are above it."""
    if sd <= 0.0:
        return max(gap, 0.0)
    u = gap / sd
    if u < -_FAR:
        return 0.0
    if u >= _FAR:
        return gap * (1.0 + _ROUNDING)
    position = (u + _FAR) * _PER_UNIT
    k = min(int(position), len(_KNOTS) - 2)  # u + FAR may round up to the last knot
    return sd * (_KNOTS[k] + (position - k) * (_KNOTS[k + 1] - _KNOTS[k])) * (1.0 + _ROUNDING)


@njit(cache=True, error_model="numpy")
@no_type_check
def expected_improvement(gap, sd):  # type: ignore[no-untyped-def]
    """Return E[max(0, g)], g ~ N(gap, sd^2): gap Phi(u) + sd phi(u), u = gap / sd; max(0, gap) where sd = 0."""
    if sd <= 0.0:
        return max(gap, 0.0)
    u = gap / sd
    if u < -_FAR:
        return 0.0
    return max(gap * 0.5 * math.erfc(-u / _ROOT2) + sd * math.exp(-0.5 * u * u) / _ROOT2PI, 0.0)

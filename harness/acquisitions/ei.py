"""Expected improvement, computed in logs: the utility `ExpectedImprovement`, and the function for many points.

For compiled loops there are EI of one point and a faster bound of it. Source: Mockus 1975 and Jones et al. 1998 (EI);
Ament et al. 2023, "Unexpected improvements to expected improvement for Bayesian optimization" (log h by cases: LogEI).
"""

import math
from typing import no_type_check

import numpy as np
from jaxtyping import Float

from harness.acquisitions import StepContext
from harness.compile_cache import njit
from harness.errors import BadInput, number
from harness.normal import exp
from harness.surrogates.gp import standardise
from harness.surrogates.kernels import log_normal

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_SQRT_HALF_PI = math.sqrt(0.5 * math.pi)
_SQRT_HALF = math.sqrt(0.5)
_LOW = -6.0  # below it a continued fraction, of which the fewer terms are needed the lower u is
_CERTAIN = 40.0  # above it h(u) = u to rounding


def log_h(u: Float[np.ndarray, "*m"]) -> Float[np.ndarray, "*m"]:
    """Return log h(u), h(u) = phi(u) + u Phi(u), without underflow or cancellation.

    For u <= 0: h(u) = phi(u) (1 + u sqrt(pi/2) erfcx(-u/sqrt 2)). Far below 0, where the bracket cancels, Mills' ratio
    1 / (x + N), x = -u, N = 1/(x + 2/(x + 3/(x + ...))), makes it N / (x + N).
    """
    values = np.asarray(u, dtype=np.float64)
    return _log_h_all(values.ravel()).reshape(values.shape)


@njit(cache=True, error_model="numpy")
@no_type_check
def _log_h(u: float) -> float:
    if u > 0.0:
        return math.log(math.exp(-0.5 * u * u - _HALF_LOG_2PI) + 0.5 * u * math.erfc(-u * _SQRT_HALF))
    if u > _LOW:
        bracket = _SQRT_HALF_PI * u * math.exp(0.5 * u * u) * math.erfc(-u * _SQRT_HALF)
        return math.log1p(bracket) - _HALF_LOG_2PI - 0.5 * u * u
    terms = 8 + int(600.0 / (u * u))
    rest = math.sqrt(0.25 * u * u + terms) - 0.5 * u  # what the terms left out come to, nearly
    for k in range(terms, 1, -1):
        rest = k / rest - u
    return math.log(1.0 / (1.0 - u * rest)) - _HALF_LOG_2PI - 0.5 * u * u


@njit(cache=True, error_model="numpy")
@no_type_check
def _log_h_all(u: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    out = np.empty(len(u))
    for i in range(len(u)):
        out[i] = _log_h(u[i])
    return out


def log_ei(gap: Float[np.ndarray, " m"], sd: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    """Return log E[max(0, g)] for g ~ N(gap, sd^2): log sd + log h(gap / sd); for sd = 0 log max(0, gap)."""
    return _log_ei(np.asarray(gap, dtype=np.float64), np.asarray(sd, dtype=np.float64))


@njit(cache=True, error_model="numpy")
@no_type_check
def _log_ei(gap: Float[np.ndarray, " m"], sd: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    out = np.empty(len(gap))
    for i in range(len(gap)):
        u = gap[i] / sd[i]
        if sd[i] == 0.0 or u > _CERTAIN:
            out[i] = np.log(max(gap[i], 0.0))
        else:
            out[i] = np.log(sd[i]) + _log_h(u)
    return out


_PER_UNIT = 64
_KNOTS = log_h(np.linspace(-_CERTAIN, _CERTAIN, 2 * int(_CERTAIN) * _PER_UNIT + 1))
_CHORD = 1.0 / (8.0 * _PER_UNIT**2)
_ROUNDING = 1e-9
_NORMAL = 1e-300  # below it, logarithms are taken one by one


@njit(cache=True, error_model="numpy")
@no_type_check
def log_ei_chord(
    target: float,
    mean: Float[np.ndarray, " m"],
    sd: Float[np.ndarray, " m"],
    knots: Float[np.ndarray, " k"],
    least: bool,
) -> Float[np.ndarray, " m"]:
    """Return `log_ei(target - mean, sd)`, sd > 0, within 4e-5 and a few times faster: no less, or if `least` no more.

    log h is increasing and concave with a second derivative in [-1, 0], so that a chord of width w is at most
    w^2 / 8 below it. Below u = -40, h lies between phi u^-2 and phi u^-2 (1 - 3 u^-2).
    """
    above = -_ROUNDING if least else _CHORD + _ROUNDING
    out = np.empty(len(mean))
    log_normal(sd, out)
    for i in range(len(mean)):
        if sd[i] < _NORMAL:
            out[i] = np.log(sd[i])
        u = (target - mean[i]) / sd[i]
        if u >= _CERTAIN:
            value = np.log(u)
        elif u < -_CERTAIN:
            value = -0.5 * u * u - _HALF_LOG_2PI - 2.0 * np.log(-u)
            value = (1.0 + 1e-14) * value + np.log1p(-3.0 / (u * u)) if least else (1.0 - 1e-14) * value
        else:
            position = (u + _CERTAIN) * _PER_UNIT
            k = min(int(position), len(knots) - 2)
            value = knots[k] + (position - k) * (knots[k + 1] - knots[k])
        out[i] += value + above
    return out


class ExpectedImprovement:
    """EI(x) = E[max(0, f_min - jitter sd(y) - f(x))].

    incumbent: f_min is the lowest ``observed`` error, or the lowest ``posterior_mean`` at the observed points
    (GPyOpt's choice). jitter: in standard deviations of the observed y, or as it is where they are all equal
    (GPyOpt's default is 0.01).
    """

    def __init__(self, incumbent: str = "observed", jitter: float = 0.0) -> None:
        if incumbent not in ("observed", "posterior_mean"):
            raise BadInput(f"incumbent must be one of observed, posterior_mean, got {incumbent}")
        self.incumbent = incumbent
        self.jitter = number("jitter", jitter, "a number >= 0", 0.0)

    def log_value(self, belief: StepContext) -> Float[np.ndarray, " m"]:
        """Return log EI at the candidates; -inf only where sd = 0 and no improvement is possible."""
        return log_ei(self._target(belief) - belief.mean, belief.sd)

    def log_bound(self, belief: StepContext) -> Float[np.ndarray, " m"]:
        """Return an upper bound of `log_value`: EI falls with the mean and grows with the sd."""
        return log_ei_chord(self._target(belief), belief.mean, belief.sd, _KNOTS, False)

    def log_floor(self, belief: StepContext) -> Float[np.ndarray, " m"]:
        """Return a lower bound of `log_value`, at most 4e-5 below it."""
        return log_ei_chord(self._target(belief), belief.mean, belief.sd, _KNOTS, True)

    def _target(self, belief: StepContext) -> float:
        target = belief.incumbent
        if self.incumbent == "posterior_mean" or self.jitter > 0:
            if belief.history is None:
                raise ValueError("posterior_mean and jitter need a belief with a history")
            if self.incumbent == "posterior_mean":
                target = float(belief.history.posterior.mean_sd(belief.history.X)[0].min())
            target -= self.jitter * standardise(belief.history.y)[1][1]
        return target


# Expected improvement of one point, and a faster bound of it, for compiled loops.

_ROOT2, _ROOT2PI = math.sqrt(2.0), math.sqrt(2.0 * math.pi)
_FAR, _COMPILED_PER_UNIT, _COMPILED_ROUNDING = (
    38.0,
    64,
    1e-9,
)  # of the bound's table: EI is 0 below -_FAR, and gap above _FAR
_COMPILED_KNOTS = exp(log_h(np.linspace(-_FAR, _FAR, 2 * int(_FAR) * _COMPILED_PER_UNIT + 1)))


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
        return gap * (1.0 + _COMPILED_ROUNDING)
    position = (u + _FAR) * _COMPILED_PER_UNIT
    k = min(int(position), len(_COMPILED_KNOTS) - 2)  # u + FAR may round up to the last knot
    return (
        sd
        * (_COMPILED_KNOTS[k] + (position - k) * (_COMPILED_KNOTS[k + 1] - _COMPILED_KNOTS[k]))
        * (1.0 + _COMPILED_ROUNDING)
    )


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

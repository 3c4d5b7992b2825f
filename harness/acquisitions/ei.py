"""Expected improvement in logs, and its inverse: the utilities `ExpectedImprovement` and `PandorasBoxGittinsIndex`.

Source: Mockus 1975 and Jones et al. 1998 (EI); Ament et al. 2023, "Unexpected improvements to expected improvement for
Bayesian optimization" (log h by cases: LogEI).
"""

import math
from typing import ClassVar, no_type_check

import numpy as np
from jaxtyping import Float
from scipy.special import log_ndtr

from harness.acquisitions import Setup, StepContext, Utility
from harness.acquisitions.cost_rules import Ignore, Power
from harness.arrays import PerCandidate
from harness.compile_cache import njit
from harness.cost_models import EXPECTED, log_statistic
from harness.errors import BadInput, flag, number, one_of, positive
from harness.normal import exp, log
from harness.surrogates.gp import standardise
from harness.surrogates.kernels import log_normal

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_SQRT_HALF_PI = math.sqrt(0.5 * math.pi)
_SQRT_HALF = math.sqrt(0.5)
_ROOT2, _ROOT2PI = math.sqrt(2.0), math.sqrt(2.0 * math.pi)
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
def _log_h_all(u: PerCandidate) -> PerCandidate:
    out = np.empty(len(u))
    for i in range(len(u)):
        out[i] = _log_h(u[i])
    return out


def log_ei(gap: PerCandidate, sd: PerCandidate) -> PerCandidate:
    """Return log E[max(0, g)] for g ~ N(gap, sd^2): log sd + log h(gap / sd); for sd = 0 log max(0, gap)."""
    return _log_ei(np.asarray(gap, dtype=np.float64), np.asarray(sd, dtype=np.float64))


@njit(cache=True, error_model="numpy")
@no_type_check
def _log_ei(gap: PerCandidate, sd: PerCandidate) -> PerCandidate:
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
def log_ei_chord(target, mean, sd, knots, least):  # type: ignore[no-untyped-def]
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


class ExpectedImprovement(Utility):
    """EI(x) = E[max(0, f_min - jitter sd(y) - f(x))].

    incumbent: f_min is the lowest ``observed`` error, or the lowest ``posterior_mean`` at the observed points
    (GPyOpt's choice). jitter: in standard deviations of the observed y, or as it is where they are all equal
    (GPyOpt's default is 0.01).
    """

    bounded: ClassVar[bool] = True
    stateless: ClassVar[bool] = True

    def __init__(self, incumbent: str = "observed", jitter: float = 0.0) -> None:
        self.incumbent = one_of("incumbent", incumbent, ("observed", "posterior_mean"))
        self.jitter = number("jitter", jitter, "a number >= 0", 0.0)

    def log_value(self, context: StepContext) -> PerCandidate:
        """Return log EI at the candidates; -inf only where sd = 0 and no improvement is possible."""
        return log_ei(self._target(context) - context.mean, context.sd)

    def log_bound(self, context: StepContext) -> PerCandidate:
        """Return an upper bound of `log_value`: EI falls with the mean and grows with the sd."""
        return log_ei_chord(self._target(context), context.mean, context.sd, _KNOTS, False)

    def log_floor(self, context: StepContext) -> PerCandidate:
        """Return a lower bound of `log_value`, at most 4e-5 below it."""
        return log_ei_chord(self._target(context), context.mean, context.sd, _KNOTS, True)

    def _target(self, context: StepContext) -> float:
        target = context.incumbent
        if self.incumbent == "posterior_mean" or self.jitter > 0:
            if context.history is None:
                raise ValueError("posterior_mean and jitter need a context with a history")
            if self.incumbent == "posterior_mean":
                target = float(context.history.posterior.mean_sd(context.history.X)[0].min())
            target -= self.jitter * standardise(context.history.y)[1][1]
        return target


# EI of one point, and a faster bound of it, for the loops of `rollouts`, which add EI up and so need no logs.

_FAR = 38.0  # sds: EI is 0 below -_FAR
_VALUES = exp(_KNOTS)


@njit(cache=True, error_model="numpy", inline="always")
@no_type_check
def improvement_bound(gap, sd):  # type: ignore[no-untyped-def]
    """Return no less than `expected_improvement`, >= 0, without exp or erf: h is convex, so its chords are above it."""
    if sd <= 0.0:
        return max(gap, 0.0)
    u = gap / sd
    if u < -_FAR:
        return 0.0
    if u >= _CERTAIN:
        return gap * (1.0 + _ROUNDING)
    position = (u + _CERTAIN) * _PER_UNIT
    k = min(int(position), len(_VALUES) - 2)  # u + _CERTAIN may round up to the last knot
    return sd * (_VALUES[k] + (position - k) * (_VALUES[k + 1] - _VALUES[k])) * (1.0 + _ROUNDING)


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


_ITERATIONS = 100  # at most; Newton's method needs about ten
_EXACT = 1e-14


class PandorasBoxGittinsIndex(Utility):
    """g(x) with EI(x; g) = E[max(0, g - f(x))] = Lambda c(x); the candidate of lowest g is evaluated next.

    Lambda = price sd(y) / c_0, c_0 the mean cost of the initial design, so that neither the unit of y nor that of cost
    changes a choice. c(x): E[c] = exp(m + s^2 / 2), log c ~ N(m, s^2) as the cost model predicts it: the paper's rule
    for unknown costs, and with cost_model=oracle the known cost. expected=false: the cost statistic instead. The log
    value is -g / sd(y), which any order-preserving map would do: it has no zero and no ratios, so that only the rule
    that ignores cost makes sense on top.
    halve: PBGI-D, where Lambda is halved for good whenever no index is below the incumbent (the paper's stopping rule).
    It is the one utility with a state: another look at a step (fronts=true) at other candidates may halve it sooner.
    Source: Xie, Astudillo, Frazier, Scully and Terenin 2024, "Cost-aware Bayesian optimization via the Pandora's box
    Gittins index" (PBGI, PBGI-D, and the index with unknown costs).
    """

    name: ClassVar[str] = "pbgi"
    weighs_cost_sd: ClassVar[bool] = True

    def __init__(self, price: float = 1e-3, halve: bool = False, expected: bool = True) -> None:
        self.price = positive("utility.price", price)
        self.halve, self.expected = flag("utility.halve", halve), flag("utility.expected", expected)
        self._halvings = 0

    @property
    def halvings(self) -> int:
        """Return how often Lambda has been halved; 0 without `halve`."""
        return self._halvings

    def check(self, setup: Setup) -> None:
        """Raise BadInput for a rule that would weigh the index, which contains the cost, by the cost again."""
        plain = isinstance(setup.rule, Ignore) or (isinstance(setup.rule, Power) and setup.rule.alpha == 0.0)
        if not plain:
            raise BadInput(
                "utility=pbgi has the cost inside its index, which no cost rule can weigh again: use +acq=ei "
                "(the index as it is)"
            )

    def log_value(self, context: StepContext) -> PerCandidate:
        """Return -g / sd(y); -inf where the cost is infinite."""
        if context.history is None:
            raise ValueError("utility=pbgi needs a context with a history")
        unit = standardise(context.history.y)[1][1]
        log_start = math.log(context.initial_cost / min(context.n_initial, context.step))
        log_cost = context.log_cost
        if self.expected:
            mean = context.log_cost if context.mean_log_cost is None else context.mean_log_cost
            log_cost = log_statistic(EXPECTED, mean, context.log_cost_sd, None)
        while True:
            log_price = math.log(self.price * unit) - self._halvings * math.log(2.0) - log_start
            index = gittins(context.mean, context.sd, log_price + log_cost)
            if not self.halve or index.min() < context.incumbent or self._halvings >= _ITERATIONS:
                return -index / unit
            self._halvings += 1


def gittins(mean: PerCandidate, sd: PerCandidate, log_price: PerCandidate) -> PerCandidate:
    """Return g with log E[max(0, g - f)] = log_price, f ~ N(mean, sd^2): mean + sd u, log h(u) = log_price - log sd.

    For sd = 0, mean + the price. An infinite price gives an infinite index.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        certain = mean + exp(log_price)
        target = log_price - log(sd)
        known = (sd == 0.0) | ~np.isfinite(target) | (target > _LARGE)
        return np.where(known, certain, mean + sd * inverse_log_h(np.where(known, 0.0, target)))


_LARGE = 5.0  # h(u) = u to rounding from u = exp(5) on: the index is mean + price


def inverse_log_h(target: PerCandidate) -> PerCandidate:
    """Return u with log h(u) = target, h(u) = phi(u) + u Phi(u), by Newton's method in logs.

    log h is increasing and concave, so that from a start below the root every step stays below it. Starts:
    h(u) <= phi(u) for u <= 0, and h(u) <= u + phi(0) above. (log h)' = Phi / h.
    """
    low = -np.sqrt(np.maximum(0.0, -2.0 * (target + _HALF_LOG_2PI)))
    u = np.where(target < -_HALF_LOG_2PI, low, np.maximum(0.0, exp(target) - 0.4))
    for _ in range(_ITERATIONS):
        value = log_h(u)
        step = (target - value) * exp(value - log_ndtr(u))
        u = u + step
        if (np.abs(step) <= _EXACT * (1.0 + np.abs(u))).all():
            break
    return u

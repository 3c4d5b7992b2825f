"""The default surrogate: a Matern-5/2 Gaussian process, hyperparameters by maximum marginal likelihood."""

from functools import cache
from typing import no_type_check

import numpy as np

from harness.arrays import Points, Theta, Vector
from harness.compile_cache import njit
from harness.errors import flag, number, positive, whole
from harness.normal import log
from harness.surrogates import Surrogate
from harness.surrogates.bfgs import Descent, Minimum, advance, descent
from harness.surrogates.candidate_cache import CandidateCache
from harness.surrogates.growing_solution import GrowingSolution
from harness.surrogates.inducing import InducingSubset
from harness.surrogates.kernels import Workspace
from harness.surrogates.likelihood import Distances, Likelihood, evaluate
from harness.surrogates.posterior import GaussianPosterior, weights

LENGTH_SCALE = (0.05, 20.0)  # in units of the cube's side
SIGNAL_VARIANCE = (1e-2, 1e2)  # of standardised y, whose variance is 1
NOISE_VARIANCE = (1e-6, 1.0)
_FIRST = 4  # times `iterations` are allowed to the first fit, which continues none,
_STRICT = 0.1  # and this share of `tolerance`
_TRIAL = 3  # iterations from each fixed start, before the best of them goes on
_STARTS = (1.0, 0.3, 3.0, 0.1, 10.0)  # length-scales; signal variance 1 and noise variance 0.01 with each


class GaussianProcess(Surrogate):
    """z = (y - mean y) / sd y ~ GP(0, s2 Matern-5/2 + v I); (l, s2, v) maximise log p(z) at every fit.

    The maximum is sought over the logarithms, inside LENGTH_SCALE, SIGNAL_VARIANCE and NOISE_VARIANCE, from
    the last optimum and, while n <= `restart_until` and each time n has grown `restart_growth`-fold since,
    from the best of `starts` fixed starts as well; the better is kept. Where y is constant the likelihood says
    nothing (it grows as s2 -> 0): hyperparameters stay as they are, z = 0 and s = 1. From n = `refit_until` on the
    maximum is sought only when n has grown `refit_growth`-fold since it was (at every fit if this or `restart_growth`
    is 1), first as if it were the first fit, so that a run can go on from what is recorded of it; between, a fit takes
    O(n^2).

    ard: one length-scale per dimension, or a shared one. noise_in_sd: predict the sd of a noisy observation
    instead of the latent function's. tolerance: gain in log p below which a search stops; iterations: its
    longest.
    """

    joint = True

    def __init__(
        self,
        ard: bool = True,
        noise_in_sd: bool = False,
        restart_until: int = 8,
        restart_growth: float = 1.5,
        starts: int = 3,
        tolerance: float = 0.1,
        iterations: int = 12,
        refit_until: int = 100,
        refit_growth: float = 1.2,
    ) -> None:
        number("restart_until", restart_until, "a number >= 0", 0.0)
        number("restart_growth", restart_growth, "a number >= 1", 1.0)
        positive("tolerance", tolerance)
        number("refit_until", refit_until, "a number >= 1", 1.0)
        number("refit_growth", refit_growth, "a number >= 1", 1.0)
        self._ard, self._noise_in_sd = flag("ard", ard), flag("noise_in_sd", noise_in_sd)
        self._restart_until, self._restart_growth = restart_until, restart_growth
        self._starts = whole("starts", starts, 1, len(_STARTS))
        self._tolerance, self._iterations = tolerance, whole("iterations", iterations, 1)
        self._refit_until, self._refit_growth = refit_until, refit_growth
        self._restarted_at, self._fitted_at = 0, 0
        self._pairs, self._space = Distances(ard), Workspace()
        self._subset = InducingSubset()
        self._last: Minimum | None = None
        self._grown: GrowingSolution | None = None
        self._held = CandidateCache()

    def fit(self, X: Points, y: Vector) -> GaussianPosterior:
        """Fit to `y` at `X`; raises ValueError for no points, unequal lengths or values not finite."""
        X, y = observations(X, y)
        z, location = standardise(y)
        p = X.shape[1] if self._ard else 1
        late = len(X) >= self._refit_until and min(self._refit_growth, self._restart_growth) > 1.0
        if late and self._fitted_at < self._refit_until:
            self._last, self._restarted_at, self._subset = None, 0, InducingSubset()
        due = z.any() and (not late or self._last is None or len(X) >= self._refit_growth * self._fitted_at)
        grown = self._grown if late and not due else None
        if grown is None or not grown.extended(X, y, self._theta(p)):
            self._pairs.update(X)
            likelihood = Likelihood(self._pairs, z, self._space)
            if due:
                self._last, self._fitted_at = self._maximise(likelihood, p), len(X)
            theta = self._theta(p)
            found = likelihood.solution(theta)
            grown = GrowingSolution(X, y, theta, weights(theta, X.shape[1]), location, found) if late else None
            self._grown = grown
        theta = self._theta(p)
        found = grown.solution(location) if grown is not None else found
        return GaussianPosterior(
            X, theta, found, location, self._noise_in_sd, self._space, self._subset, grown, self._held
        )

    @property
    def optimum(self) -> Minimum | None:
        """Return where the last search for hyperparameters ended; None where no y so far has varied.

        x: log l (one, or one per dimension), log s2 and log v; value: -log p(z) there, for the z of that fit.
        """
        return self._last

    def forgets(self, n: int) -> bool:
        """Return whether n is where the schedule begins, as if with the first fit."""
        return n == self._refit_until and min(self._refit_growth, self._restart_growth) > 1.0

    def _theta(self, p: int) -> Theta:
        return _start(_STARTS[0], p) if self._last is None else self._last.x

    def _maximise(self, likelihood: Likelihood, p: int) -> Minimum:
        n, last, found, box = self._pairs.n, self._last, [], _box(p)
        if last is not None:
            found.append(_lowest(likelihood, descent(last.x, last.hessian, box, self._tolerance, self._iterations)))
        if last is None or n <= self._restart_until or n >= self._restart_growth * self._restarted_at:
            self._restarted_at = n
            starts = (_start(length, p) for length in _STARTS[: self._starts])
            tried = [_lowest(likelihood, descent(x, None, box, self._tolerance, _TRIAL)) for x in starts]
            best = min(tried, key=lambda minimum: minimum.value)
            strict, longest = (1.0, 1) if last is not None else (_STRICT, _FIRST)
            further = descent(best.x, best.hessian, box, strict * self._tolerance, longest * self._iterations)
            found.append(_lowest(likelihood, further))
        return min(found, key=lambda minimum: minimum.value)


def _lowest(likelihood: Likelihood, state: Descent) -> Minimum:
    """Return what `bfgs.minimise` finds, without a call from Python for each evaluation."""
    likelihood.evaluated(state.there, *_descend(state, likelihood.buffers))
    return state.minimum


@njit(cache=True, error_model="numpy")
@no_type_check
def _descend(state, buffers):  # type: ignore[no-untyped-def]
    """Go down; return whether K was positive definite, and the sum of log L_ii, where it was evaluated last."""
    gradient = np.empty(len(state.x))
    while True:
        definite, value, half_log_det = evaluate(state.there, buffers, gradient)
        if not (definite and advance(value, gradient, state)):
            return definite, half_log_det


def observations(X: Points, y: Vector) -> tuple[Points, Vector]:
    """Return `X` and `y` as float64; raises ValueError for no points, unequal lengths or values not finite."""
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if len(X) == 0 or len(X) != len(y) or not (_finite(X.ravel()) and _finite(y)):
        raise ValueError(f"fit needs n >= 1 finite points and values, got X {X.shape} and y {y.shape}")
    return X, y


@njit(cache=True)
@no_type_check
def _finite(values):  # type: ignore[no-untyped-def]
    """Return whether all are finite: `np.isfinite(values).all()`, at a third of its price."""
    nothing = 0.0
    for value in values:
        nothing += value - value  # NaN of what is not finite
    return nothing == 0.0


def standardise(y: Vector) -> tuple[Vector, tuple[float, float]]:
    """Return z = (y - mean) / sd and (mean, sd); for constant y z = 0 and sd = 1. The sum of y must be finite."""
    z = np.empty(len(y))
    return z, _standardise(np.asarray(y, np.float64), z)


@njit(cache=True, error_model="numpy")
@no_type_check
def _standardise(y, z):  # type: ignore[no-untyped-def]
    """Fill z and return (mean, sd): once per step of a run."""
    low, high, total = y[0], y[0], 0.0
    for value in y:
        low, high, total = min(low, value), max(high, value), total + value
    if low == high:
        z[:] = 0.0
        return y[0], 1.0
    mean, peak, squares = total / len(y), 0.0, 0.0
    for i in range(len(y)):
        z[i] = y[i] - mean
        peak = max(peak, abs(z[i]))
    for i in range(len(y)):
        z[i] /= peak
        squares += z[i] * z[i]
    sd = np.sqrt(squares / len(y))
    for i in range(len(y)):
        z[i] /= sd
    return mean, peak * sd


@cache
def _box(p: int) -> tuple[Theta, Theta]:
    """Return the lowest and the highest theta for p length-scales."""
    low, high = log(np.array([LENGTH_SCALE] * p + [SIGNAL_VARIANCE, NOISE_VARIANCE])).T
    return np.ascontiguousarray(low), np.ascontiguousarray(high)


def _start(length: float, p: int) -> Theta:
    return log(np.array([length] * p + [1.0, 1e-2]))

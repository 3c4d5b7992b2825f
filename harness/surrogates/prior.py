"""A Gaussian process about a mean function that was learned elsewhere, and trusted as far as this run bears it out."""

from abc import abstractmethod
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from harness.arrays import CandidatePoints, Indices, MeanSd, PerCandidate, Points, Vector
from harness.component import Component, ProblemAware, complete
from harness.errors import number
from harness.problem import Problem
from harness.surrogates import Hyperparameters, Joint, Posterior, Surrogate
from harness.surrogates.gp import observations

Shift = Callable[[CandidatePoints], PerCandidate]


class PriorMean(Component, ProblemAware):
    """What is expected of the error at a point before a run, up to an offset and a positive factor."""

    @abstractmethod
    def predict(self, C: CandidatePoints) -> PerCandidate:
        """Return the expected error at unit-cube points, on a scale on which differences count; all finite."""


class PriorGaussianProcess(Surrogate):
    """y = b m(x) + g(x), g the `surrogate`'s Gaussian process, fitted to y - b m(X) at every fit.

        b = max(0, (S_my + n0 r0 s_m s_y) / (S_mm + n0 s_m^2))

    S: sums over the n observations of products of deviations from their means, s: the standard deviations. So b is the
    slope of the observed errors on the prior mean m, as if n0 = `strength` observations had been seen beside them
    whose correlation with m is r0 = `correlation`: with no observation that agrees, b falls to 0 as n0 / (n + n0), and
    what is left is the Gaussian process alone. From `steady_from` observations on, b is found again only when n has
    grown `growth`-fold. Utilities see the posterior of y.
    Source: a mean function as in Rasmussen and Williams 2006, section 2.7; the slope is a ridge regression.
    """

    def __init__(
        self,
        prior: PriorMean,
        surrogate: Surrogate,
        strength: float = 5.0,
        correlation: float = 0.8,
        steady_from: int = 100,
        growth: float = 1.1,
    ) -> None:
        self._prior, self._inner = complete(prior, PriorMean), complete(surrogate, Surrogate)
        self._strength = number("strength", strength, "a number >= 0", 0.0)
        self._correlation = number("correlation", correlation, "a number in [0, 1]", 0.0, 1.0)
        self._steady_from = number("steady_from", steady_from, "a number >= 1", 1.0)
        self._growth = number("growth", growth, "a number >= 1", 1.0)
        self.joint = self._inner.joint
        self._slope, self._found_at = 0.0, 0

    def start(self, problem: Problem) -> None:
        """Show the problem to the prior and the surrogate; raises BadInput for one that they cannot serve."""
        self._prior.start(problem)
        self._inner.start(problem)

    def fingerprint(self, problem: Problem) -> str | None:
        """Return a hash of what the prior knows before `problem`."""
        return self._prior.fingerprint(problem)

    def draw_for(self, seed: int, problem: str) -> None:
        """Let the surrogate draw from the streams of this run."""
        self._inner.draw_for(seed, problem)

    def forgets(self, n: int) -> bool:
        """Return whether fits to `n` observations or more do not depend on earlier ones: slopes beyond n may."""
        return n <= self._steady_from and self._inner.forgets(n)

    def fit(self, X: Points, y: Vector) -> Posterior:
        """Fit slope and process to `y` at `X`; raises ValueError as the surrogate does."""
        X, y = observations(X, y)
        m, n = self._prior.predict(X), len(y)
        if n < self._steady_from or self._found_at < self._steady_from or n >= self._growth * self._found_at:
            self._slope, self._found_at = slope(m, y, self._strength, self._correlation), n
        b = self._slope
        inner = complete(self._inner.fit(X, y - b * m), Posterior)
        return ShiftedPosterior(inner, lambda C: b * self._prior.predict(C)) if b > 0.0 else inner


def slope(m: Vector, y: Vector, strength: float, correlation: float) -> float:
    """Return b of `PriorGaussianProcess`; 0 where either is constant."""
    m, y = m - m.mean(), y - y.mean()
    with np.errstate(over="ignore", invalid="ignore"):
        s_m, s_y = float(np.sqrt((m * m).mean())), float(np.sqrt((y * y).mean()))
        above = float((m * y).sum()) + strength * correlation * s_m * s_y
        below = float((m * m).sum()) + strength * s_m * s_m
        b = above / below if below > 0.0 else 0.0
    return b if np.isfinite(b) and b > 0.0 else 0.0


class ShiftedPosterior(Posterior):
    """A posterior of y - shift(x), seen as one of y."""

    def __init__(self, posterior: Posterior, shift: Shift) -> None:
        self._inner, self._shift = posterior, shift
        self._last: tuple[CandidatePoints, PerCandidate] | None = None

    @property
    def bounded(self) -> bool:  # type: ignore[override]
        """Whether the posterior has bounds."""
        return self._inner.bounded

    @property
    def instant(self) -> bool:
        """Whether bounds that are not rough cost next to nothing."""
        return self._inner.instant

    def _at(self, C: CandidatePoints) -> PerCandidate:
        """Return the shift at `C`; the same array again costs nothing."""
        if self._last is None or self._last[0] is not C:
            self._last = C, self._shift(C)
        return self._last[1]

    def mean_sd(self, C: CandidatePoints) -> MeanSd:
        """Return mean and standard deviation of y at `C`."""
        mean, sd = self._inner.mean_sd(C)
        return mean + self._at(C), sd

    def bounds(self, C: CandidatePoints, rough: bool = False) -> MeanSd:
        """Return a mean no higher and an sd no lower than those of `mean_sd`, up to rounding of the sum."""
        mean, sd = self._inner.bounds(C, rough)
        return _below(mean, self._at(C)), sd

    def mean_sd_at(self, C: CandidatePoints, where: Indices, points: Points | None = None) -> tuple[Vector, Vector]:
        """Return mean and standard deviation of y at rows of `C`."""
        mean, sd = self._inner.mean_sd_at(C, where, points)
        return mean + self._at(C)[where], sd

    def bounds_at(self, C: CandidatePoints, where: Indices, rough: bool = False) -> tuple[Vector, Vector]:
        """Return `bounds` at rows of `C`."""
        mean, sd = self._inner.bounds_at(C, where, rough)
        return _below(mean, self._at(C)[where]), sd

    @property
    def hyperparameters(self) -> Hyperparameters | None:
        """Those of the process."""
        return self._inner.hyperparameters

    @property
    def noise(self) -> float:
        """Variance of the observation noise."""
        return self._inner.noise

    def moments(self, C: CandidatePoints) -> MeanSd:
        """Return mean and variance of the latent function at `C`."""
        mean, variance = self._inner.moments(C)
        return mean + self._at(C), variance

    def covariance(self, A: Float[np.ndarray, "a d"], B: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "a b"]:
        """Return the latent function's posterior covariances, which no mean changes."""
        return self._inner.covariance(A, B)

    def joint(self, C: CandidatePoints) -> Joint:
        """Return the joint distribution of the latent function at `C`."""
        joint = self._inner.joint(C)
        return Joint(joint.mean + self._at(C), joint.covariance, joint.noise)


def _below(mean: Vector, shift: Vector) -> Vector:
    """Return no more than mean + shift, however the sum is rounded."""
    total = mean + shift
    return np.asarray(total - 4.0 * np.finfo(np.float64).eps * (np.abs(mean) + np.abs(shift)))

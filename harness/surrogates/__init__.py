"""Surrogates, probabilistic models of the validation error: the classes `Surrogate`, `Posterior` and `Joint`.

A surrogate of a user's own derives from these, whose methods with a body are optional abilities, or is any class with
`fit`, which returns any object with `mean_sd`: `complete` adds the defaults.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from harness.arrays import CandidatePoints, Indices, MeanSd, PerCandidate, Points, Vector
from harness.component import Component, ProblemAware
from harness.surrogates.likelihood import factor, product

_JITTERS = (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4)  # of the largest variance; points close together are nearly dependent


@dataclass(frozen=True)
class Joint:
    """f at m points ~ N(mean, covariance), observed with noise of variance `noise`; in units of y."""

    mean: PerCandidate
    covariance: Float[np.ndarray, "m m"]
    noise: float

    def influence(self, i: int) -> PerCandidate:
        """Return sigma~(i): an observation of point i, z sd above its mean, moves the means by sigma~ z.

        sigma~ = cov(., i) / sqrt(var_i + noise) (Frazier et al. 2009); zeros if nothing is left to learn.
        """
        variance = max(float(self.covariance[i, i]), 0.0) + self.noise
        return self.covariance[:, i] / math.sqrt(variance) if variance > 0.0 else np.zeros_like(self.mean)

    def condition(self, i: int, y: float) -> "Joint":
        """Return the joint after observing `y` at point i: mean + sigma~ z, covariance - sigma~ sigma~^T."""
        variance = max(float(self.covariance[i, i]), 0.0) + self.noise
        step = self.influence(i)
        z = (y - float(self.mean[i])) / math.sqrt(variance) if variance > 0.0 else 0.0
        return Joint(self.mean + step * z, self.covariance - np.outer(step, step), self.noise)

    def draw(self, normals: Float[np.ndarray, "s m"]) -> Float[np.ndarray, "s m"]:
        """Return s draws of f, made of standard normal numbers."""
        return self.mean + product(normals, root(self.covariance).T)


def root(covariance: Float[np.ndarray, "m m"], scale: float | None = None) -> Float[np.ndarray, "m m"]:
    """Return L, lower triangular, L L^T = covariance up to a jitter of at most 1e-4 of `scale`.

    scale: a variance; None: the largest on the diagonal. Raises FloatingPointError where that is not enough.
    """
    if scale is None:
        scale = float(covariance.diagonal().max())
    scale = max(scale, float(np.finfo(np.float32).tiny))
    for jitter in _JITTERS:
        found = factor(covariance + jitter * scale * np.eye(len(covariance)))
        if found is not None:
            return found
    raise FloatingPointError("the covariance matrix is not positive semidefinite, even with jitter 1e-4")


@dataclass(frozen=True)
class Hyperparameters:
    """Those of a Gaussian process on z = (y - mean y) / sd y, natural logarithms.

    log_length_scales: in units of the cube's side, one per dimension or one for all. log_signal_variance,
    log_noise_variance: in units of z.
    """

    log_length_scales: Float[np.ndarray, " p"]
    log_signal_variance: float
    log_noise_variance: float


class Posterior(Component):
    """A fitted model of the objective; all in units of y.

    bounded: whether `bounds` is there. The methods after it are of a posterior that knows how the values at different
    points go together, as the fits of a surrogate with `joint` = True give it; others raise ValueError.
    """

    bounded: ClassVar[bool] = False

    @abstractmethod
    def mean_sd(self, C: CandidatePoints) -> MeanSd:
        """Return the predictive mean and standard deviation at `C`."""

    @property
    def hyperparameters(self) -> Hyperparameters | None:
        """Those that, with the observations, make up this posterior; None for a model that has none of this kind."""
        return None

    def bounds(self, C: CandidatePoints, rough: bool = False) -> MeanSd:
        """Return a mean no higher and an sd > 0 no lower than those of `mean_sd`; `rough`: faster and wider."""
        raise NotImplementedError

    def mean_sd_at(self, C: CandidatePoints, where: Indices, points: Points | None = None) -> tuple[Vector, Vector]:
        """Return `mean_sd` at rows of `C`, of which it may know something already; points: C[where], if it is there."""
        return self.mean_sd(C[where] if points is None else points)

    def bounds_at(self, C: CandidatePoints, where: Indices, rough: bool = False) -> tuple[Vector, Vector]:
        """Return `bounds` at rows of `C`."""
        return self.bounds(C[where], rough)

    @property
    def knows_rows(self) -> bool:
        """Whether rows of an array that is the same at every step are found at once by `mean_sd_at` and `bounds_at`."""
        return False

    @property
    def instant(self) -> bool:
        """Whether `bounds` that are not rough cost next to nothing where rough ones have been asked for."""
        return False

    @property
    def noise(self) -> float:
        """Variance of the observation noise."""
        raise self._no_joint()

    def moments(self, C: CandidatePoints) -> MeanSd:
        """Return mean and variance of the latent function at `C`, whatever `mean_sd` says of the noise."""
        raise self._no_joint()

    def covariance(self, A: Float[np.ndarray, "a d"], B: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "a b"]:
        """Return the latent function's posterior covariances between `A` and `B`."""
        raise self._no_joint()

    def joint(self, C: CandidatePoints) -> Joint:
        """Return the joint distribution of the latent function at `C`."""
        raise self._no_joint()

    def _no_joint(self) -> ValueError:
        return ValueError(f"{type(self).__name__} makes no joint predictions")


class Surrogate(Component, ProblemAware):
    """A model family; an object serves one run and can keep warm-start state from fit to fit.

    joint: whether its posteriors make joint predictions.
    """

    joint: bool = False

    @abstractmethod
    def fit(self, X: Points, y: Vector) -> Posterior:
        """Fit to n >= 1 observations `y` (finite) at unit-cube points `X`."""

    def draw_for(self, seed: int, problem: str) -> None:
        """Draw, if fits draw at random, from streams of the run of this seed on this problem from now on."""

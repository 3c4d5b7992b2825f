"""Surrogates, probabilistic models of the validation error: the protocols `Surrogate` and `Posterior`, and `Joint`.

Optional abilities are protocols, too: fast bounds, joint predictions, random draws.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from harness.surrogates.likelihood import factor, product

# The joint Gaussian of a latent function at finitely many points: conditioning by rank-1 updates, and sampling.

_JITTERS = (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4)  # of the largest variance; points close together are nearly dependent


@dataclass(frozen=True)
class Joint:
    """f at m points ~ N(mean, covariance), observed with noise of variance `noise`; in units of y."""

    mean: Float[np.ndarray, " m"]
    covariance: Float[np.ndarray, "m m"]
    noise: float

    def influence(self, i: int) -> Float[np.ndarray, " m"]:
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


# The protocols: `fit` gives a `Posterior`, which predicts mean and sd anywhere in the unit cube.


@runtime_checkable
class Posterior(Protocol):
    """A fitted model of the objective."""

    def mean_sd(self, C: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return the predictive mean and standard deviation at `C`, in units of y."""
        ...


@runtime_checkable
class BoundedPosterior(Posterior, Protocol):
    """A posterior that has a fast approximation with known error."""

    def bounds(
        self, C: Float[np.ndarray, "m d"], rough: bool = False
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return a mean no higher and an sd > 0 no lower than those of `mean_sd`; `rough`: faster and wider."""
        ...


@runtime_checkable
class RecallingPosterior(BoundedPosterior, Protocol):
    """A posterior that may know bounds from the predictions of the run's earlier ones."""

    def recalled(self, C: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]] | None:
        """Return bounds as `bounds` does, or None where too little is known."""
        ...

    def remember(self, C: Float[np.ndarray, "m d"]) -> None:
        """Keep what was just predicted at `C` for those to come."""
        ...


@runtime_checkable
class JointPosterior(Posterior, Protocol):
    """A posterior that knows how the values at different points go together; all in units of y."""

    @property
    def noise(self) -> float:
        """Variance of the observation noise."""
        ...

    def moments(self, C: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return mean and variance of the latent function at `C`, whatever `mean_sd` says of the noise."""
        ...

    def covariance(self, A: Float[np.ndarray, "a d"], B: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "a b"]:
        """Return the latent function's posterior covariances between `A` and `B`."""
        ...

    def joint(self, C: Float[np.ndarray, "m d"]) -> Joint:
        """Return the joint distribution of the latent function at `C`."""
        ...

    def condition(self, x: Float[np.ndarray, " d"], y: float) -> "JointPosterior":
        """Return the posterior after one more noisy observation `y` at `x`, hyperparameters as they are."""
        ...


@runtime_checkable
class Surrogate(Protocol):
    """A model family; an object serves one run and may keep warm-start state from fit to fit."""

    def fit(self, X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]) -> Posterior:
        """Fit to n >= 1 observations `y` (finite) at unit-cube points `X`."""
        ...


@runtime_checkable
class DrawingSurrogate(Surrogate, Protocol):
    """A surrogate whose fits draw at random."""

    def draw_for(self, seed: int, problem: str) -> None:
        """Draw from streams of the run of this seed on this problem from now on."""
        ...


@runtime_checkable
class JointSurrogate(Surrogate, Protocol):
    """A surrogate whose `fit` gives a `JointPosterior`, as `joint` = True declares."""

    joint: ClassVar[bool]

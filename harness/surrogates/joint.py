"""The joint Gaussian of a latent function at finitely many points: conditioning by rank-1 updates, and sampling."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from harness.surrogates.matrices import factor, product

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

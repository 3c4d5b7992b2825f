"""What a surrogate is: `fit` gives a `Posterior`, which predicts mean and sd anywhere in the unit cube."""

from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from harness.surrogates.joint import Joint


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

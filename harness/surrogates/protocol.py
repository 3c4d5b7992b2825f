"""What a surrogate is: `fit` gives a `Posterior`, which predicts mean and sd anywhere in the unit cube."""

from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float


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
class Surrogate(Protocol):
    """A model family; an object serves one run and may keep warm-start state from fit to fit."""

    def fit(self, X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]) -> Posterior:
        """Fit to n >= 1 observations `y` (finite) at unit-cube points `X`."""
        ...

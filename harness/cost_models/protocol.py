"""What a cost model is: learn from observed costs, predict log cost anywhere in the unit cube."""

from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float


@runtime_checkable
class CostModel(Protocol):
    """A model of log c(x), c in seconds; an object serves one run."""

    def fit(self, X: Float[np.ndarray, "n d"], cost_s: Float[np.ndarray, " n"]) -> None:
        """Fit to n >= 1 costs in seconds; raises BadInput for a cost that is not finite and positive."""
        ...

    def predict(self, C: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return mean and standard deviation of log cost at `C`; both finite."""
        ...

"""The two halves of an acquisition: any `Utility` works with any `CostRule`; both live in log space."""

from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from harness.acquisitions.belief import Belief


@runtime_checkable
class Utility(Protocol):
    """What a candidate is worth, whatever it costs."""

    def log_value(self, belief: Belief) -> Float[np.ndarray, " m"]:
        """Return the log of the utility >= 0 of each candidate; -inf where it is zero, never NaN."""
        ...


@runtime_checkable
class CostRule(Protocol):
    """How worth and cost make one score; the highest score is evaluated next."""

    def score(
        self, log_value: Float[np.ndarray, " m"], log_cost: Float[np.ndarray, " m"], belief: Belief
    ) -> Float[np.ndarray, " m"]:
        """Return the score of each candidate; -inf excludes it, never NaN."""
        ...

"""EI^alpha: utility per cost to the power alpha; alpha = 1 is EIpu, alpha = 0 is EI."""

from typing import ClassVar

import numpy as np
from jaxtyping import Float

from harness.acquisitions.belief import Belief
from harness.checks import number, required


def per_cost(
    log_value: Float[np.ndarray, " m"], log_cost: Float[np.ndarray, " m"], exponent: float
) -> Float[np.ndarray, " m"]:
    """Return log(value / cost^exponent); zero value stays -inf, exponent 0 ignores even infinite costs."""
    if exponent == 0.0:
        return log_value
    with np.errstate(invalid="ignore"):  # -inf + inf, replaced
        return np.where(log_value == -np.inf, -np.inf, log_value - exponent * log_cost)


class Power:
    """score = log EI - alpha log c, alpha >= 0 (Guinet et al. 2020; alpha = 1: Snoek et al. 2012)."""

    on_front: ClassVar[bool] = True

    def __init__(self, alpha: float | None) -> None:
        required("alpha", alpha, "+acq=eialpha needs a number >= 0, for example alpha=0.2")
        self.alpha = number("alpha", alpha, "a number >= 0", 0.0)

    def score(
        self, log_value: Float[np.ndarray, " m"], log_cost: Float[np.ndarray, " m"], belief: Belief
    ) -> Float[np.ndarray, " m"]:
        """Return log EI - alpha log c."""
        return per_cost(log_value, log_cost, self.alpha)

    def exponent(self, belief: Belief) -> float:
        """Return alpha."""
        return self.alpha

"""CEI_lambda, contextual EI: the cheapest point among those of nearly the highest EI."""

import math
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from harness.acquisitions.belief import Belief
from harness.checks import number, required

_DEAREST = float(np.finfo(np.float64).max)


class Contextual:
    """score = -log c where EI >= (1 - lam) max EI, else -inf; lam in [0, 1] (Guinet et al. 2020).

    lam = 0 leaves only the maximisers of EI, lam = 1 every point. Where EI is zero everywhere, all tie.
    """

    on_front: ClassVar[bool] = True

    def __init__(self, lam: float | None) -> None:
        required("lam", lam, "+acq=cei needs a number in [0, 1], for example lam=0.1")
        self.lam = number("lam", lam, "a number in [0, 1]", 0.0, 1.0)
        self._log_share = math.log1p(-self.lam) if self.lam < 1.0 else -math.inf

    def score(
        self, log_value: Float[np.ndarray, " m"], log_cost: Float[np.ndarray, " m"], belief: Belief
    ) -> Float[np.ndarray, " m"]:
        """Return -log c of the eligible points, -inf for the others; eligible at infinite cost beats the others."""
        price = np.minimum(log_cost, _DEAREST)
        if self.lam == 1.0:
            return -price
        return np.where(log_value >= log_value.max() + self._log_share, -price, -np.inf)

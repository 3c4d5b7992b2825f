"""The cost rule of plain EI: cost plays no part."""

from typing import ClassVar

import numpy as np
from jaxtyping import Float

from harness.acquisitions.belief import Belief


class Ignore:
    """score = log EI."""

    on_front: ClassVar[bool] = True

    def score(
        self, log_value: Float[np.ndarray, " m"], log_cost: Float[np.ndarray, " m"], belief: Belief
    ) -> Float[np.ndarray, " m"]:
        """Return `log_value` itself."""
        return log_value

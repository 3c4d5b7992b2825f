"""EI-cool: cost matters fully at first and not at all when the budget is used up."""

from typing import ClassVar

import numpy as np
from jaxtyping import Float

from harness.acquisitions.belief import Belief
from harness.acquisitions.power import per_cost


def exponent(belief: Belief) -> float:
    """Return a_k in [0, 1].

    With a budget tau: a_k = (tau - tau_k) / (tau - tau_init), tau_k the seconds spent before this step and
    tau_init those of the initial design. Without: the share of iterations left after the initial design,
    (N - k) / (N - N_init). Clipped to [0, 1]; 0 if the initial design alone used the budget up.
    """
    if belief.tau is not None:
        left, total = belief.tau - belief.spent, belief.tau - belief.initial_cost
    else:
        left, total = float(belief.iterations - belief.step), float(belief.iterations - belief.n_initial)
    return min(1.0, max(0.0, left / total)) if total > 0 else 0.0


class Cool:
    """score = log EI - a_k log c (Lee et al. 2020, "Cost-aware Bayesian optimization", CArBO: EI-cool)."""

    on_front: ClassVar[bool] = True

    def score(
        self, log_value: Float[np.ndarray, " m"], log_cost: Float[np.ndarray, " m"], belief: Belief
    ) -> Float[np.ndarray, " m"]:
        """Return log EI - a_k log c with `exponent(belief)`."""
        return per_cost(log_value, log_cost, exponent(belief))

    def exponent(self, belief: Belief) -> float:
        """Return a_k."""
        return exponent(belief)

"""The choice among scored candidates, with one tie rule for all acquisitions."""

from typing import no_type_check

import numpy as np
from jaxtyping import Float

from harness.compiler import njit


def choose(
    score: Float[np.ndarray, " m"], log_value: Float[np.ndarray, " m"], log_cost: Float[np.ndarray, " m"]
) -> int:
    """Return the index of the highest score; ties go to the lower cost, the higher value, the lower index.

    Raises ValueError for no candidates and for NaN, naming the array and the row.
    """
    if len(score) == 0:
        raise ValueError("there is no candidate to choose")
    best = _best(score, log_value, log_cost)
    if best < 0:
        for name, values in (("log_cost", log_cost), ("log_value", log_value), ("score", score)):  # made in this order
            if np.isnan(values).any():
                raise ValueError(f"{name} is NaN at candidate {int(np.isnan(values).argmax())}")
    return int(best)


@njit(cache=True, error_model="numpy")
@no_type_check
def _best(score: Float[np.ndarray, " m"], log_value: Float[np.ndarray, " m"], log_cost: Float[np.ndarray, " m"]) -> int:
    """Return the first of the best by score, then cost, then value; -1 if anything is NaN."""
    best = 0
    for i in range(len(score)):
        s, v, c = score[i], log_value[i], log_cost[i]
        if np.isnan(s) or np.isnan(v) or np.isnan(c):
            return -1
        if s < score[best]:
            continue
        if s > score[best] or c < log_cost[best] or (c == log_cost[best] and v > log_value[best]):
            best = i
    return best

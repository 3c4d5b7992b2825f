"""The choice among scored candidates, with one tie rule for all acquisitions."""

import numpy as np
from jaxtyping import Float


def choose(
    score: Float[np.ndarray, " m"], log_value: Float[np.ndarray, " m"], log_cost: Float[np.ndarray, " m"]
) -> int:
    """Return the index of the highest score; ties go to the lower cost, the higher value, the lower index.

    Raises ValueError for no candidates and for NaN, naming the array and the row.
    """
    if len(score) == 0:
        raise ValueError("there is no candidate to choose")
    for name, values in (("score", score), ("log_value", log_value), ("log_cost", log_cost)):
        if np.isnan(values).any():
            raise ValueError(f"{name} is NaN at candidate {int(np.isnan(values).argmax())}")
    tied = np.flatnonzero(score == score.max())
    if len(tied) > 1:
        tied = tied[log_cost[tied] == log_cost[tied].min()]
        tied = tied[log_value[tied] == log_value[tied].max()]
    return int(tied[0])

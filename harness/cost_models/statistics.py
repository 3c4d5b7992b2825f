"""Which number stands for an uncertain cost: log c ~ N(m, s^2), as a cost model predicts it.

    exp_mean          exp(m), the median cost (the default: the paper's)
    expected          E[c] = exp(m + s^2 / 2)
    expected_inverse  E[c^-a]^(-1/a) = exp(m - a s^2 / 2), so that EI c^-a becomes EI E[c^-a]; a is the rule's exponent

Moments of the log-normal distribution.
"""

import numpy as np
from jaxtyping import Float

from datasets.errors import BadInput

DEFAULT = "exp_mean"
STATISTICS = (DEFAULT, "expected", "expected_inverse")


def check(name: object) -> str:
    """Return `name` if it is one of STATISTICS; raises BadInput otherwise."""
    if name not in STATISTICS:
        raise BadInput(f"cost_statistic must be one of {', '.join(STATISTICS)}, got {name!r}")
    return str(name)


def log_statistic(
    name: str, mean: Float[np.ndarray, " m"], sd: Float[np.ndarray, " m"], exponent: float | None
) -> Float[np.ndarray, " m"]:
    """Return the log of the statistic `name`; exponent: a, which only `expected_inverse` needs (ValueError without)."""
    if name == "exp_mean":
        return mean
    if name == "expected":
        return mean + 0.5 * np.square(sd)
    if exponent is None:
        raise ValueError("expected_inverse needs the exponent of the cost rule")
    return mean - 0.5 * exponent * np.square(sd)

"""Shapes of arrays that many annotations name: n observations or m candidates in the d-dimensional unit cube.

And `point_keys`, by which equal points are found.
"""

import numpy as np
from jaxtyping import Bool, Float, Int, UInt

from harness.streams import stream

Points = Float[np.ndarray, "n d"]
Vector = Float[np.ndarray, " n"]  # a number for each of n points
Flags = Bool[np.ndarray, " n"]
Candidates = Float[np.ndarray, "m d"]
PerCandidate = Float[np.ndarray, " m"]
MeanSd = tuple[PerCandidate, PerCandidate]
Indices = Int[np.ndarray, " k"]
Theta = Float[np.ndarray, " t"]  # hyperparameters, on the scales that a search works on

_ODD = stream(0, "keys of points").integers(2**63, size=16, dtype=np.uint64) * 2 + 1


def point_keys(C: Float[np.ndarray, "m d"]) -> UInt[np.ndarray, " m"]:
    """Return one 64-bit number per point, the same for the same bits; for others the same by a 2^-64 chance only."""
    bits = np.ascontiguousarray(C, dtype=np.float64).view(np.uint64)
    return ((bits ^ bits >> np.uint64(29)) * _ODD[: C.shape[1]]).sum(axis=1, dtype=np.uint64)

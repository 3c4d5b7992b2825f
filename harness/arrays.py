"""Shapes of arrays that many annotations name: n observations or m candidates in the d-dimensional unit cube.

And `point_keys`, by which equal points are found.
"""

from typing import no_type_check

import numpy as np
from jaxtyping import Bool, Float, Int, UInt

from harness.compile_cache import njit
from harness.streams import stream

Points = Float[np.ndarray, "n d"]
Vector = Float[np.ndarray, " n"]  # a number for each of n points
Flags = Bool[np.ndarray, " n"]
CandidatePoints = Float[np.ndarray, "m d"]
PerCandidate = Float[np.ndarray, " m"]
MeanSd = tuple[PerCandidate, PerCandidate]
Indices = Int[np.ndarray, " k"]
Theta = Float[np.ndarray, " t"]  # hyperparameters, on the scales that a search works on

_ODD = stream(0, "keys of points").integers(2**63, size=16, dtype=np.uint64) * 2 + 1


def point_keys(C: Float[np.ndarray, "m d"]) -> UInt[np.ndarray, " m"]:
    """Return one 64-bit number per point, the same for the same bits; for others the same by a 2^-64 chance only."""
    return np.asarray(_keys(np.ascontiguousarray(C, dtype=np.float64).view(np.uint64), _ODD))


@njit(cache=True)
@no_type_check
def _keys(bits, odd):  # type: ignore[no-untyped-def]
    """Return the sums over columns of bits mixed and multiplied, modulo 2^64."""
    out = np.zeros(len(bits), np.uint64)
    for i in range(len(bits)):
        for j in range(bits.shape[1]):
            out[i] += (bits[i, j] ^ (bits[i, j] >> np.uint64(29))) * odd[j]
    return out

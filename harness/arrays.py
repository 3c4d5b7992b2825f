"""Shapes of arrays that many annotations name: n observations or m candidates in the d-dimensional unit cube."""

import numpy as np
from jaxtyping import Bool, Float, Int

Points = Float[np.ndarray, "n d"]
Vector = Float[np.ndarray, " n"]  # a number for each of n points
Flags = Bool[np.ndarray, " n"]
Candidates = Float[np.ndarray, "m d"]
PerCandidate = Float[np.ndarray, " m"]
MeanSd = tuple[PerCandidate, PerCandidate]
Indices = Int[np.ndarray, " k"]
Theta = Float[np.ndarray, " t"]  # hyperparameters, on the scales that a search works on

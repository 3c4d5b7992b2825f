"""Set cover: the cheapest sets that together have every element.

Source: Balas and Ho 1980, "Set covering algorithms using cutting planes, heuristics, and subgradient optimization":
costs are whole numbers from 1 to 100, every set has an element, every element is in two sets at least.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float
from scipy.sparse import csc_array

from harness.solvers.models import write_binary_program
from harness.solvers.sizes import draw_sizes
from harness.streams import stream

_SPREAD = 0.3  # instances differ in size by so much either way


@dataclass(frozen=True)
class SetCover:
    """Instances of about `elements` elements and `sets` sets, of which `density` of all pairs are members."""

    elements: int
    sets: int
    density: float
    seed: int = 0

    suffix = "mps"
    features = ("log_elements", "log_sets", "density", "cost_variation", "membership_variation")

    def write(self, i: int, path: Path) -> Float[np.ndarray, " k"]:
        """Write instance `i` and return its features."""
        rng = stream(self.seed, "set cover", str(i))
        elements, sets = draw_sizes(rng, (self.elements, self.sets), _SPREAD)
        member = rng.random((elements, sets)) < self.density
        member[rng.integers(elements, size=sets), np.arange(sets)] = True
        for element in np.flatnonzero(member.sum(axis=1) < 2):
            member[element, rng.choice(sets, size=2, replace=False)] = True
        cost = rng.integers(1, 101, size=sets).astype(np.float64)
        matrix = csc_array(member.astype(np.float64))
        write_binary_program(path, cost, matrix, np.ones(elements), np.full(elements, np.inf), maximise=False)
        covered = member.sum(axis=1)
        variation = covered.std() / covered.mean()
        return np.array([np.log(elements), np.log(sets), member.mean(), cost.std() / cost.mean(), variation])

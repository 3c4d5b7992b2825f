"""Problems on the whole space: fresh Sobol candidates at each step, whatever evaluating one may be."""

from abc import ABC, abstractmethod

import numpy as np
from jaxtyping import Float

from harness.problem import Candidates, Evaluation
from harness.space import XGBOOST_SPACE
from harness.streams import seed_sequence, stream


class ContinuousProblem(ABC):
    """One problem for one run. Its initial design and candidates depend on (name, seed, step) only.

    So runs of two such problems of one name, for example live and emulated, are offered the same points. Ids count
    the points offered so far: an id names its point for the whole run.
    """

    space = XGBOOST_SPACE

    def __init__(self, name: str, seed: int, n_candidates: int) -> None:
        self.name, self._seed, self._n = name, seed, n_candidates
        self._first, self._native = 0, np.empty((0, len(self.space)))

    @abstractmethod
    def measure(self, x: Float[np.ndarray, " d"]) -> Evaluation:
        """Return the outcome at the native hyperparameters `x`."""

    def _offer(self, unit: Float[np.ndarray, "m d"]) -> Candidates:
        self._first += len(self._native)
        self._native = self.space.from_unit(unit)
        return Candidates(self._first + np.arange(len(unit)), self.space.to_unit(self._native))

    def initial(self, n: int) -> Candidates:
        """Return `n` uniform points drawn from (problem, seed)."""
        return self._offer(stream(self._seed, "initial", self.name).random((n, len(self.space))))

    def candidates(self, step: int) -> Candidates:
        """Return the Sobol set of this step, freshly scrambled."""
        seed = seed_sequence(self._seed, "candidates", self.name, str(step))
        return self._offer(self.space.sobol(self._n, seed))

    def evaluate(self, candidate: int) -> Evaluation:
        """Evaluate the candidate, one of those last offered."""
        return self.measure(self._native[candidate - self._first])

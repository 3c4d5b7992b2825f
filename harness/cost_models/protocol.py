"""What a cost model is: learn from observed costs, predict log cost anywhere in the unit cube."""

from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

from harness.problem import Problem


@runtime_checkable
class CostModel(Protocol):
    """A model of log c(x), c in seconds; an object serves one run."""

    def fit(self, X: Float[np.ndarray, "n d"], cost_s: Float[np.ndarray, " n"]) -> None:
        """Fit to n >= 1 costs in seconds; raises BadInput for a cost that is not finite and positive."""
        ...

    def predict(self, C: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return mean and standard deviation of log cost at `C`; both finite."""
        ...


@runtime_checkable
class CensoredCostModel(CostModel, Protocol):
    """A cost model with a way of its own to learn from lower bounds."""

    def fit_censored(
        self, X: Float[np.ndarray, "n d"], cost_s: Float[np.ndarray, " n"], censored: Bool[np.ndarray, " n"]
    ) -> None:
        """Fit to costs in seconds, where censored (some, not all) only lower bounds; raises BadInput as `fit`."""
        ...


@runtime_checkable
class ProblemAware(CostModel, Protocol):
    """A cost model that wants to know the problem before its first evaluation."""

    def start(self, problem: Problem) -> None:
        """Take the problem of this run; raises BadInput for one that the model cannot serve."""
        ...


@runtime_checkable
class Fingerprinted(ProblemAware, Protocol):
    """A cost model that knows something beforehand, which belongs to the description of a run."""

    def fingerprint(self, problem: Problem) -> str:
        """Return a hash of all that the model knows before `problem`; raises BadInput as `start` does."""
        ...


def known_beforehand(model: CostModel, problem: Problem) -> str | None:
    """Return the fingerprint of what `model` knows before `problem`, None if nothing; raises BadInput as `start`."""
    if isinstance(model, Fingerprinted):
        return model.fingerprint(problem)
    if isinstance(model, ProblemAware):
        model.start(problem)
    return None

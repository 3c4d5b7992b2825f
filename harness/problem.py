"""What an optimizer may ask of the world: a `Problem` and the `Evaluation` it answers with.

Live trainings, replayed tables, and any user's own problem implement the same protocol, so they are
interchangeable, and wrappers (noise, cost scaling, failures) compose around any of them.

Notation: m candidates at a step, d = 7 dimensions of the search space.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from harness.space import SearchSpace

OK, FAILED, TIMEOUT, OUT_OF_MEMORY = "ok", "failed", "timeout", "out_of_memory"
STATUSES = (OK, FAILED, TIMEOUT, OUT_OF_MEMORY)


@dataclass(frozen=True)
class Evaluation:
    """One evaluation's outcome.

    error: validation error (misclassification rate or RMSE); NaN unless `status` is ``"ok"``.
    cost_s: CPU seconds of the training, finite and > 0 whatever the status.
    test_error: error on the test rows; for reports only, no optimizer sees it.
    wall_s: wall-clock seconds of the same training.
    """

    error: float
    cost_s: float
    test_error: float
    wall_s: float
    status: str = OK

    @property
    def censored(self) -> bool:
        """Whether it was stopped before its end, so that `cost_s` is only a lower bound of its true cost."""
        return self.status == TIMEOUT

    def __post_init__(self) -> None:
        """Refuse what no training can have: a missing cost is an error, never 0."""
        if not (np.isfinite(self.cost_s) and self.cost_s > 0):
            raise ValueError(f"cost_s must be finite and positive, got {self.cost_s!r}")
        if self.status not in STATUSES:
            raise ValueError(f"status must be one of {', '.join(STATUSES)}, got {self.status!r}")
        if self.status == OK and not np.isfinite(self.error):
            raise ValueError(f"an evaluation with status 'ok' needs a finite error, got {self.error!r}")


@dataclass(frozen=True)
class Candidates:
    """The points an optimizer may choose among at one step: their ids and unit-cube coordinates."""

    ids: Int[np.ndarray, " m"]
    unit: Float[np.ndarray, "m d"]


@dataclass(frozen=True)
class About:
    """What is known of a problem before its first evaluation.

    task: regression, binary or multiclass. rows: of the training part; columns: after the pipeline; classes: 0 for
    regression.
    """

    dataset: str
    pipeline: str
    task: str
    rows: int
    columns: int
    classes: int


@runtime_checkable
class Described(Protocol):
    """A problem that says what it is, which cost models that learned from other problems need."""

    about: About


@runtime_checkable
class KnownCosts(Protocol):
    """A problem whose costs are known beforehand: a table, or a surface."""

    def true_cost_s(self, C: Float[np.ndarray, "m d"]) -> Float[np.ndarray, " m"]:
        """Return the cost in seconds that evaluating each of the points `C` on offer will have."""
        ...


@runtime_checkable
class Cappable(Protocol):
    """A problem whose evaluations can be stopped."""

    def evaluate_capped(self, candidate: int, cap_s: float) -> Evaluation:
        """Evaluate the candidate, stopped past `cap_s` seconds of cost: then censored, its cost no less than that."""
        ...


@runtime_checkable
class Problem(Protocol):
    """A minimisation problem with costs, for one run."""

    name: str
    space: SearchSpace

    def initial(self, n: int) -> Candidates:
        """Return the `n` points of the initial design; it depends on the problem and the seed only."""
        ...

    def candidates(self, step: int) -> Candidates:
        """Return the points on offer at `step` (0-based, counted with the initial design); m = 0 ends the run."""
        ...

    def evaluate(self, candidate: int) -> Evaluation:
        """Evaluate the candidate of that id, one of those last offered."""
        ...


@runtime_checkable
class Bounded(Protocol):
    """An evaluator whose problems have so many points and no more."""

    def check_design(self, dataset: Mapping[str, Any], pipeline: Mapping[str, Any], n: int) -> None:
        """Raise BadInput if an initial design of `n` points cannot be drawn from the problem."""
        ...


@runtime_checkable
class Evaluator(Protocol):
    """What `evaluator=...` names: opens problems, and tells by a fingerprint what they are made of."""

    seeds_per_block: int | None

    def fingerprint(self, dataset: Mapping[str, Any], pipeline: Mapping[str, Any]) -> str:
        """Return a hash of the problem's content; raises BadInput when it cannot be opened."""
        ...

    def open(self, dataset: Mapping[str, Any], pipeline: Mapping[str, Any], seed: int) -> Problem:
        """Return the problem, fresh for one run."""
        ...

"""What acquisitions are made of: a `Utility` (what a point is worth) and a `CostRule` (what that is worth at its cost).

Any utility works with any rule; both live in log space. A user's own acquisition derives from one of these classes,
whose methods with a body are optional abilities, or is any class with `log_value` or `score`, to which the defaults are
added. `StepContext` is all that either can know of a step; `choose` takes the candidate with the highest score.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, no_type_check

import numpy as np

from harness.arrays import CandidatePoints, MeanSd, PerCandidate, Points, Vector
from harness.compile_cache import njit
from harness.component import Component
from harness.cost_models import CostModel
from harness.errors import BadInput
from harness.streams import stream
from harness.surrogates import Posterior, Surrogate


@dataclass(frozen=True)
class FittedData:
    """What the surrogate was fitted to, points of the unit cube and their y, and the fitted posterior."""

    X: Points
    y: Vector
    posterior: Posterior


@dataclass(frozen=True)
class StepContext:
    """The models' predictions on m candidates and the state of the run.

    mean, sd: the surrogate's prediction of y, the error on the scale that it sees (`harness.error_scale`).
    incumbent: lowest y observed so far, f_min.
    log_cost, log_cost_sd: the cost model's prediction of log c, c in seconds.
    step: number of evaluations made so far (the 0-based index of the one to choose now).
    iterations, n_initial: length of the run and, within it, of the initial design.
    spent, initial_cost: seconds used so far and by the initial design; tau: the run's budget or None.
    history: the data behind the prediction; points: the candidates' unit-cube coordinates; None if not given.
    mean_log_cost: of log c, where log_cost is another statistic of the cost; None: log_cost is the mean.
    seed, problem: the run's, which name its random streams.
    cost_s: the cost in seconds of each evaluation so far, in their order; None if not given.
    A rule that uses no models sees NaN for predictions, and no history.
    """

    mean: PerCandidate
    sd: PerCandidate
    incumbent: float
    log_cost: PerCandidate
    log_cost_sd: PerCandidate
    step: int
    iterations: int
    n_initial: int
    spent: float
    initial_cost: float
    tau: float | None
    history: FittedData | None = None
    points: CandidatePoints | None = field(default_factory=lambda: None)  # no default of the class: `__getattr__`
    mean_log_cost: PerCandidate | None = None
    seed: int = 0
    problem: str = ""
    cost_s: Vector | None = None

    def seen(
        self,
        log_cost_sd: Callable[[], PerCandidate],
        points: Callable[[], CandidatePoints],
        **predictions: PerCandidate,
    ) -> "StepContext":
        """Return this state with other candidates and predictions: `dataclasses.replace`, at a tenth of its price.

        log_cost_sd, points: return them, and are called when they are asked for.
        """
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, _log_cost_sd=log_cost_sd, _points=points, **predictions)
        for found in ("latent", "log_cost_sd", "points"):  # of these candidates when they are asked for
            other.__dict__.pop(found, None)
        return other

    def __getattr__(self, name: str) -> np.ndarray:
        """Return `log_cost_sd` or `points`, asked for the first time; raises AttributeError for any other name."""
        if name not in ("log_cost_sd", "points") or f"_{name}" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        found: np.ndarray = self.__dict__.pop(f"_{name}")()
        self.__dict__[name] = found
        return found

    @cached_property
    def latent(self) -> MeanSd:
        """Mean and variance of the latent function at the candidates, whether or not `sd` has the noise in it.

        Raises ValueError if the context lacks the points or a joint posterior.
        """
        if self.history is None or self.points is None:
            raise ValueError("a utility that looks ahead needs a context with a history and points")
        return self.history.posterior.moments(self.points)

    def rng(self, purpose: str) -> np.random.Generator:
        """Return a fresh generator for `purpose` at this step: asked twice, it draws the same again."""
        return stream(self.seed, "utility", purpose, self.problem, str(self.step))


class CostRule(Component):
    """How worth and cost make one score; the highest score is evaluated next.

    on_front: True for a rule that never chooses a candidate for which another has a higher value at no higher cost (or
    as high a value at a lower cost), and whose scores do not depend on such candidates. It is asked only about those
    that can be on the front, which saves most of a step's time.
    plans_ahead: False if no choice depends on the length or budget planned for the run, so that one run serves an
    analysis of all budgets.
    uses_models: False for a rule that needs neither surrogate nor cost model, nor a utility: they are not fitted.
    """

    on_front: ClassVar[bool] = False
    plans_ahead: ClassVar[bool] = True
    uses_models: ClassVar[bool] = True

    @abstractmethod
    def score(self, log_value: PerCandidate, log_cost: PerCandidate, context: StepContext) -> PerCandidate:
        """Return the score of each candidate; -inf excludes it, never NaN."""

    def stays_on_front(self, context: StepContext) -> bool:
        """Return whether `on_front` holds at this step, candidates aside."""
        return self.on_front

    def exponent(self, context: StepContext) -> float | None:
        """Return the power of the cost that the rule divides by at this step, candidates aside; None if by none."""
        return None


@dataclass(frozen=True)
class Setup:
    """What a utility is about to be combined with: the other components, and the run's budget tau or None."""

    surrogate: Surrogate
    cost_model: CostModel
    rule: CostRule
    tau: float | None


class Utility(Component):
    """What a candidate is worth, whatever it costs.

    bounded: whether `log_bound` and `log_floor` are there, so that hopeless candidates need not be scored.
    weighs_cost_sd: whether it depends on how uncertain a cost is; looks_ahead: whether on later evaluations.
    """

    bounded: ClassVar[bool] = False
    weighs_cost_sd: ClassVar[bool] = False
    looks_ahead: ClassVar[bool] = False

    @abstractmethod
    def log_value(self, context: StepContext) -> PerCandidate:
        """Return the log of the utility >= 0 of each candidate; -inf where it is zero, never NaN."""

    def log_bound(self, context: StepContext) -> PerCandidate:
        """Return no less than `log_value` does for any mean no lower and sd no higher than the context's; sd > 0."""
        raise NotImplementedError

    def log_floor(self, context: StepContext) -> PerCandidate:
        """Return no more than `log_value` does, -inf at worst; sd > 0."""
        raise NotImplementedError

    def check(self, setup: Setup) -> None:
        """Raise BadInput, in one line that says which and why, for components that make no sense with it."""


def choose(
    score: PerCandidate,
    log_value: PerCandidate,
    log_cost: PerCandidate,
    *,
    rule: CostRule | None = None,
    utility: Utility | None = None,
) -> int:
    """Return the index of the highest score; ties go to the lower cost, the higher value, the lower index.

    Raises BadInput for no candidates and for NaN, naming the array, the row and, if they are given, the rule or the
    utility that returned it.
    """
    if len(score) == 0:
        raise BadInput("there is no candidate to choose")
    best = _best(score, log_value, log_cost)
    if best < 0:
        made = (
            (None, "log_cost", log_cost),
            (utility, "log_value", log_value),
            (rule, "score", score),
        )  # in this order
        for source, name, values in made:
            if np.isnan(values).any():
                whose = "" if source is None else f"{type(source).__name__}."
                raise BadInput(f"{whose}{name} is NaN at candidate {int(np.isnan(values).argmax())}")
    return int(best)


@njit(cache=True, error_model="numpy")
@no_type_check
def _best(score: PerCandidate, log_value: PerCandidate, log_cost: PerCandidate) -> int:
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

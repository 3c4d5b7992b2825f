"""What acquisitions are made of: a `Utility` (what a point is worth) and a `CostRule` (what that is worth at its cost).

Here are these protocols with their optional abilities, what both may know when they score the candidates of a step
(`StepContext`), and the choice of the candidate with the highest score (`choose`).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol, no_type_check, runtime_checkable

import numpy as np
from jaxtyping import Float

from harness.compile_cache import njit
from harness.cost_models import CostModel
from harness.streams import stream
from harness.surrogates import JointPosterior, Posterior, Surrogate

# What utilities and cost rules may know when they score the candidates of one step.


@dataclass(frozen=True)
class FittedData:
    """What the surrogate was fitted to: n points of the unit cube, their y, and the fitted posterior."""

    X: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    posterior: Posterior


@dataclass(frozen=True)
class StepContext:
    """The models' predictions on m candidates and the state of the run.

    mean, sd: the surrogate's prediction of y, the error on the scale that it sees (`harness.optimizer`).
    incumbent: lowest y observed so far, f_min.
    log_cost, log_cost_sd: the cost model's prediction of log c, c in seconds.
    step: number of evaluations made so far (the 0-based index of the one to choose now).
    iterations, n_initial: length of the run and, within it, of the initial design.
    spent, initial_cost: seconds used so far and by the initial design; tau: the run's budget or None.
    history: the data behind the prediction, for utilities that need more than it; None if not given.
    points: the candidates' unit-cube coordinates, for the same; None if not given.
    mean_log_cost: of log c, where log_cost is another statistic of the cost; None: log_cost is the mean.
    seed, problem: the run's, which name its random streams.
    """

    mean: Float[np.ndarray, " m"]
    sd: Float[np.ndarray, " m"]
    incumbent: float
    log_cost: Float[np.ndarray, " m"]
    log_cost_sd: Float[np.ndarray, " m"]
    step: int
    iterations: int
    n_initial: int
    spent: float
    initial_cost: float
    tau: float | None
    history: FittedData | None = None
    points: Float[np.ndarray, "m d"] | None = None
    mean_log_cost: Float[np.ndarray, " m"] | None = None
    seed: int = 0
    problem: str = ""

    @cached_property
    def latent(self) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Mean and variance of the latent function at the candidates, whether or not `sd` has the noise in it.

        Calculated once per belief. Raises ValueError if the belief lacks the points or a joint posterior.
        """
        if self.history is None or self.points is None:
            raise ValueError("a utility that looks ahead needs a belief with a history and points")
        if not isinstance(self.history.posterior, JointPosterior):
            raise ValueError(f"{type(self.history.posterior).__name__} makes no joint predictions")
        return self.history.posterior.moments(self.points)

    def rng(self, purpose: str) -> np.random.Generator:
        """Return a fresh generator for `purpose` at this step: asked twice, it draws the same again."""
        return stream(self.seed, "utility", purpose, self.problem, str(self.step))


# The choice among scored candidates, with one tie rule for all acquisitions.


def choose(
    score: Float[np.ndarray, " m"], log_value: Float[np.ndarray, " m"], log_cost: Float[np.ndarray, " m"]
) -> int:
    """Return the index of the highest score; ties go to the lower cost, the higher value, the lower index.

    Raises ValueError for no candidates and for NaN, naming the array and the row.
    """
    if len(score) == 0:
        raise ValueError("there is no candidate to choose")
    best = _best(score, log_value, log_cost)
    if best < 0:
        for name, values in (("log_cost", log_cost), ("log_value", log_value), ("score", score)):  # made in this order
            if np.isnan(values).any():
                raise ValueError(f"{name} is NaN at candidate {int(np.isnan(values).argmax())}")
    return int(best)


@njit(cache=True, error_model="numpy")
@no_type_check
def _best(score: Float[np.ndarray, " m"], log_value: Float[np.ndarray, " m"], log_cost: Float[np.ndarray, " m"]) -> int:
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


# The protocols: any `Utility` works with any `CostRule`; both live in log space.


@runtime_checkable
class Utility(Protocol):
    """What a candidate is worth, whatever it costs."""

    def log_value(self, belief: StepContext) -> Float[np.ndarray, " m"]:
        """Return the log of the utility >= 0 of each candidate; -inf where it is zero, never NaN."""
        ...


@runtime_checkable
class BoundedUtility(Utility, Protocol):
    """A utility that can be bounded fast, so that hopeless candidates need not be scored."""

    def log_bound(self, belief: StepContext) -> Float[np.ndarray, " m"]:
        """Return no less than `log_value` does for any mean no lower and sd no higher than the belief's; sd > 0."""
        ...

    def log_floor(self, belief: StepContext) -> Float[np.ndarray, " m"]:
        """Return no more than `log_value` does, -inf at worst; sd > 0."""
        ...


@runtime_checkable
class CostRule(Protocol):
    """How worth and cost make one score; the highest score is evaluated next."""

    def score(
        self, log_value: Float[np.ndarray, " m"], log_cost: Float[np.ndarray, " m"], belief: StepContext
    ) -> Float[np.ndarray, " m"]:
        """Return the score of each candidate; -inf excludes it, never NaN."""
        ...


@runtime_checkable
class FrontRule(CostRule, Protocol):
    """A cost rule whose choice does not change when dominated candidates are left out.

    `on_front` is True for a rule that never chooses a candidate for which another has a higher value at no
    higher cost (or as high a value at a lower cost), and whose scores do not depend on such candidates. It is
    asked only about candidates that may be on the front, which saves most of a step's time.
    """

    on_front: ClassVar[bool]


@runtime_checkable
class PlanningRule(CostRule, Protocol):
    """A cost rule that says whether its choices depend on the length or budget that is planned for the run.

    With `plans_ahead` False a longer run begins with the shorter one, so that one run serves an analysis of all
    budgets. A rule that does not say is taken to plan, and then needs a run for each.
    """

    plans_ahead: ClassVar[bool]


@runtime_checkable
class PowerRule(CostRule, Protocol):
    """A cost rule that divides by a power of the cost."""

    def exponent(self, belief: StepContext) -> float:
        """Return the power at this step; it depends on the state of the run only, not on candidates."""
        ...


@dataclass(frozen=True)
class Setup:
    """What a utility is about to be combined with: the other components, and the run's budget tau or None."""

    surrogate: Surrogate
    cost_model: CostModel
    rule: CostRule
    tau: float | None


@runtime_checkable
class DemandingUtility(Utility, Protocol):
    """A utility that does not go with everything."""

    def check(self, setup: Setup) -> None:
        """Raise BadInput, in one line that says which and why, for components that make no sense with it."""
        ...

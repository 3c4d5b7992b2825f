"""The two halves of an acquisition: any `Utility` works with any `CostRule`; both live in log space."""

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from harness.acquisitions.belief import Belief
from harness.cost_models.protocol import CostModel
from harness.surrogates.protocol import Surrogate


@runtime_checkable
class Utility(Protocol):
    """What a candidate is worth, whatever it costs."""

    def log_value(self, belief: Belief) -> Float[np.ndarray, " m"]:
        """Return the log of the utility >= 0 of each candidate; -inf where it is zero, never NaN."""
        ...


@runtime_checkable
class BoundedUtility(Utility, Protocol):
    """A utility that can be bounded fast, so that hopeless candidates need not be scored."""

    def log_bound(self, belief: Belief) -> Float[np.ndarray, " m"]:
        """Return no less than `log_value` does for any mean no lower and sd no higher than the belief's; sd > 0."""
        ...

    def log_floor(self, belief: Belief) -> Float[np.ndarray, " m"]:
        """Return no more than `log_value` does, -inf at worst; sd > 0."""
        ...


@runtime_checkable
class CostRule(Protocol):
    """How worth and cost make one score; the highest score is evaluated next."""

    def score(
        self, log_value: Float[np.ndarray, " m"], log_cost: Float[np.ndarray, " m"], belief: Belief
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

    def exponent(self, belief: Belief) -> float:
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

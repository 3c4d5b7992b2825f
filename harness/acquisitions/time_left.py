"""The time that a utility which plans ahead has left, and what each candidate takes of it."""

import math
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int
from scipy.special import log_ndtr

from harness.acquisitions.belief import Belief
from harness.acquisitions.power import per_cost
from harness.elementary import exp

_ROUNDING = 1e-12  # an evaluation that takes exactly what is left fits, whatever sums have been rounded


@dataclass(frozen=True)
class Clock:
    """How much is left until the deadline, and what each candidate takes of it.

    With a budget tau: seconds, as the cost model predicts them. Without: evaluations, of which each takes one.
    """

    left: float
    log_cost: Float[np.ndarray, " m"]
    log_cost_sd: Float[np.ndarray, " m"]

    @classmethod
    def of(cls, belief: Belief) -> "Clock":
        """Return the clock of a step."""
        if belief.tau is None:
            none = np.zeros(len(belief.log_cost))
            return cls(float(belief.iterations - belief.step), none, none)
        # the distribution of the cost, whatever statistic of it the rule takes
        log_cost = belief.log_cost if belief.mean_log_cost is None else belief.mean_log_cost
        return cls(belief.tau - belief.spent, log_cost, belief.log_cost_sd)

    def planned(self, log_value: Float[np.ndarray, " m"], steps: int) -> "Clock":
        """Return the clock of a plan of `steps` evaluations: no more left than the best of them per cost would take.

        A plan much shorter than the time left would all fit, whatever it costs, and so not see the deadline at all.
        Our auxiliary policy for the budget of a plan is value per cost, on the present belief; that there be one is
        from Astudillo et al. 2021. It is an allowance in predicted costs, not a risk: a plan is not to miss by chance
        what it was given for itself, so costs count as predicted there, unless the deadline itself is nearer.
        """
        best = np.argsort(-per_cost(log_value, self.log_cost, 1.0), kind="stable")[:steps]
        allowed = float(exp(self.log_cost[best]).sum())
        if allowed >= self.left:
            return self
        return replace(self, left=allowed, log_cost_sd=np.zeros_like(self.log_cost_sd))

    def passed(self, log_value: Float[np.ndarray, " m"]) -> "Clock":
        """Return the clock once the time of the best evaluation per cost has passed, whatever became of it."""
        best = int(per_cost(log_value, self.log_cost, 1.0).argmax())
        return replace(self, left=self.after(math.exp(self.log_cost[best])))

    def after(self, cost: float) -> float:
        """Return what is left after an evaluation of that cost, with room for the rounding of both."""
        return self.left * (1.0 + _ROUNDING) - cost

    def log_left(self) -> float:
        """Return the log of what is left, with room for rounding; -inf when nothing is."""
        return math.log(self.left) + _ROUNDING if self.left > 0.0 else -np.inf

    def log_chance(self) -> Float[np.ndarray, " m"]:
        """Return log P(c <= left), c log-normal as predicted; 0 or -inf where the cost is known."""
        with np.errstate(divide="ignore", invalid="ignore"):
            chance = log_ndtr((self.log_left() - self.log_cost) / self.log_cost_sd)
        known = np.where(self.log_cost <= self.log_left(), 0.0, -np.inf)
        return np.where(self.log_cost_sd == 0.0, known, chance)

    def at(self, where: Int[np.ndarray, " k"], left: float | None = None) -> "Clock":
        """Return the clock of the candidates `where`, with so much left."""
        return Clock(self.left if left is None else left, self.log_cost[where], self.log_cost_sd[where])

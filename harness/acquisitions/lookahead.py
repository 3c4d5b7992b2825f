"""What utilities that look ahead share: their demands, the joint posterior, the time left, leading candidates."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int
from scipy.special import log_ndtr

from harness.acquisitions.belief import Belief
from harness.acquisitions.ei import log_ei
from harness.acquisitions.power import per_cost
from harness.acquisitions.protocol import PowerRule, Setup
from harness.errors import BadInput
from harness.surrogates.joint import Joint
from harness.surrogates.protocol import JointPosterior, JointSurrogate

_ROUNDING = 1e-12  # an evaluation that takes exactly what is left fits, whatever sums have been rounded


class LookAhead(ABC):
    """A utility that asks what the surrogate will say after an observation; it needs the joint posterior."""

    name: ClassVar[str]

    @abstractmethod
    def log_value(self, belief: Belief) -> Float[np.ndarray, " m"]:
        """Return the log of the utility of each candidate."""

    def check(self, setup: Setup) -> None:
        """Raise BadInput for a surrogate without a joint posterior."""
        if not (isinstance(setup.surrogate, JointSurrogate) and setup.surrogate.joint):
            raise BadInput(
                f"utility={self.name} needs joint predictions, which this surrogate does not make: use surrogate=gp"
            )


def refuse_second_discount(name: str, setup: Setup) -> None:
    """Raise BadInput for a rule that divides by the cost, where the utility has counted the cost already."""
    if isinstance(setup.rule, PowerRule) and getattr(setup.rule, "alpha", 1.0) != 0.0:
        raise BadInput(
            f"utility={name} has the cost inside its value, and dividing by it would count it twice: "
            "use +acq=ei (the value as it is) or +acq=cei"
        )


def prior(belief: Belief) -> tuple[JointPosterior, Float[np.ndarray, "n d"], Float[np.ndarray, "m d"]]:
    """Return the joint posterior, the points observed so far and the candidates; ValueError if the belief lacks any."""
    if belief.history is None or belief.points is None:
        raise ValueError("a utility that looks ahead needs a belief with a history and points")
    posterior = belief.history.posterior
    if not isinstance(posterior, JointPosterior):
        raise ValueError(f"{type(posterior).__name__} makes no joint predictions")
    return posterior, belief.history.X, belief.points


def latent_log_ei(belief: Belief) -> Float[np.ndarray, " m"]:
    """Return log EI of the latent function over the lowest observed error, noise in the belief's sd or not."""
    mean, variance = belief.latent
    return log_ei(belief.incumbent - mean, np.sqrt(variance))


def evaluations_ahead(belief: Belief, most: int) -> int:
    """Return how many evaluations a plan may have: those that the run still makes, at least one and at most `most`."""
    return max(1, min(most, belief.iterations - belief.step))


def leaders(
    log_value: Float[np.ndarray, " m"],
    log_cost: Float[np.ndarray, " m"],
    size: int,
    exponents: Sequence[float] = (0.0, 0.3, 1.0),
) -> Int[np.ndarray, " k"]:
    """Return, in order, the best by value, the cheapest, and the best by value / cost^alpha in turns; `size` in all.

    The default exponents serve every cost rule; (0, 1) are EI and EI per second (Snoek et al. 2011).
    """
    if size >= len(log_value):
        return np.arange(len(log_value))
    orders = [np.argsort(-per_cost(log_value, log_cost, alpha), kind="stable")[:size] for alpha in exponents]
    turns = np.insert(np.stack(orders, axis=1).ravel(), 1, log_cost.argmin())
    _, first = np.unique(turns, return_index=True)
    return np.sort(turns[np.sort(first)[:size]])


def pooled(belief: Belief, where: Int[np.ndarray, " k"]) -> Joint:
    """Return the joint posterior at the candidates `where`, its marginals those of `moments` to the last bit."""
    posterior, _, C = prior(belief)
    joint = posterior.joint(C[where])
    mean, variance = posterior.moments(C[where])
    np.fill_diagonal(joint.covariance, variance)
    return Joint(mean, joint.covariance, joint.noise)


def spread(chosen: Int[np.ndarray, " k"], value: Float[np.ndarray, " k"], m: int) -> Float[np.ndarray, " m"]:
    """Return `value` at the `chosen` of m candidates, and -inf elsewhere: what is not on the shortlist is worth 0."""
    out = np.full(m, -np.inf)
    out[chosen] = value
    return out


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
        from Astudillo et al. 2021.
        """
        best = np.argsort(-per_cost(log_value, self.log_cost, 1.0), kind="stable")[:steps]
        return replace(self, left=min(self.left, float(np.exp(self.log_cost[best]).sum())))

    def log_left(self) -> float:
        """Return the log of what is left, with room for rounding; -inf when nothing is."""
        return float(np.log(self.left) + _ROUNDING) if self.left > 0.0 else -np.inf

    def log_chance(self) -> Float[np.ndarray, " m"]:
        """Return log P(c <= left), c log-normal as predicted; 0 or -inf where the cost is known."""
        with np.errstate(divide="ignore", invalid="ignore"):
            chance = log_ndtr((self.log_left() - self.log_cost) / self.log_cost_sd)
        known = np.where(self.log_cost <= self.log_left(), 0.0, -np.inf)
        return np.where(self.log_cost_sd == 0.0, known, chance)

    def at(self, where: Int[np.ndarray, " k"], left: float | None = None) -> "Clock":
        """Return the clock of the candidates `where`, with so much left."""
        return Clock(self.left if left is None else left, self.log_cost[where], self.log_cost_sd[where])

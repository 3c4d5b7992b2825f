"""What utilities that look ahead share: their demands, the joint posterior, leading candidates."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int

from harness.acquisitions import PowerRule, Setup, StepContext
from harness.acquisitions.cost_rules import per_cost
from harness.acquisitions.ei import log_ei
from harness.errors import BadInput
from harness.normal import exp, log1p
from harness.surrogates import Joint, JointPosterior, JointSurrogate

MOST_NODES = 100  # of a Gauss-Hermite rule: far more than any integral here needs, far fewer than overflow


class LookAhead(ABC):
    """A utility that asks what the surrogate will say after an observation; it needs the joint posterior."""

    name: ClassVar[str]
    looks_ahead: ClassVar[bool] = True

    @abstractmethod
    def log_value(self, belief: StepContext) -> Float[np.ndarray, " m"]:
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


def prior(belief: StepContext) -> tuple[JointPosterior, Float[np.ndarray, "n d"], Float[np.ndarray, "m d"]]:
    """Return the joint posterior, the points observed so far and the candidates; ValueError if the belief lacks any."""
    if belief.history is None or belief.points is None:
        raise ValueError("a utility that looks ahead needs a belief with a history and points")
    posterior = belief.history.posterior
    if not isinstance(posterior, JointPosterior):
        raise ValueError(f"{type(posterior).__name__} makes no joint predictions")
    return posterior, belief.history.X, belief.points


def latent_log_ei(belief: StepContext) -> Float[np.ndarray, " m"]:
    """Return log EI of the latent function over the lowest observed error, noise in the belief's sd or not."""
    mean, variance = belief.latent
    return log_ei(belief.incumbent - mean, np.sqrt(variance))


def evaluations_ahead(belief: StepContext, most: int) -> int:
    """Return how many evaluations a plan may have: those that the run still makes, at least one and at most `most`."""
    return max(1, min(most, belief.iterations - belief.step))


def leaders(
    log_value: Float[np.ndarray, " m"],
    log_cost: Float[np.ndarray, " m"],
    size: int,
    exponents: Sequence[float] = (0.0, 0.3, 1.0),
    cheapest: bool = True,
) -> Int[np.ndarray, " k"]:
    """Return the best by value, the cheapest, and the best by value / cost^alpha in turns; `size` in all, ascending.

    The default exponents serve every cost rule; (0, 1) are EI and EI per second (Snoek et al. 2011); (0,) without the
    cheapest are what does not depend on costs.
    """
    if size >= len(log_value):
        return np.arange(len(log_value))
    orders = [_highest(per_cost(log_value, log_cost, alpha), size) for alpha in exponents]
    turns = np.stack(orders, axis=1).ravel()
    if cheapest:
        turns = np.insert(turns, 1, log_cost.argmin())
    _, first = np.unique(turns, return_index=True)
    return np.sort(turns[np.sort(first)[:size]])


def leaders_by_value(belief: StepContext, size: int) -> Int[np.ndarray, " k"]:
    """Return the `size` candidates of the highest EI, whatever they cost; ascending."""
    return leaders(latent_log_ei(belief), belief.log_cost, size, (0.0,), cheapest=False)


def observed_and_leading(belief: StepContext, size: int) -> Float[np.ndarray, "k d"]:
    """Return the points observed so far, and below them those of `leaders_by_value`."""
    _, X, C = prior(belief)
    return np.vstack([X, C[leaders_by_value(belief, size)]])


def _highest(value: Float[np.ndarray, " m"], size: int) -> Int[np.ndarray, " k"]:
    """Return the first `size` of a stable sort, highest first, without sorting the others; no NaN."""
    least = np.partition(value, len(value) - size)[len(value) - size]
    above, level = np.flatnonzero(value > least), np.flatnonzero(value == least)
    both = np.concatenate([above, level[: size - len(above)]])
    return both[np.argsort(-value[both], kind="stable")]


def pooled(belief: StepContext, where: Int[np.ndarray, " k"]) -> Joint:
    """Return the joint posterior at the candidates `where`, its marginals those of `moments` to the last bit."""
    posterior, _, C = prior(belief)
    joint = posterior.joint(C[where])
    mean, variance = posterior.moments(C[where])
    np.fill_diagonal(joint.covariance, variance)
    return Joint(mean, joint.covariance, joint.noise)


def excess(log_value: Float[np.ndarray, " k"], log_base: float) -> Float[np.ndarray, " k"]:
    """Return log(value - base), -inf where that is not > 0; the values themselves where none is, which keeps order."""
    if not log_value.max() > log_base > -np.inf:
        return log_value
    return log_value + log1p(-exp(np.minimum(log_base - log_value, 0.0)))


def spread(chosen: Int[np.ndarray, " k"], value: Float[np.ndarray, " k"], m: int) -> Float[np.ndarray, " m"]:
    """Return `value` at the `chosen` of m candidates, and -inf elsewhere: what is not on the shortlist is worth 0."""
    out = np.full(m, -np.inf)
    out[chosen] = value
    return out

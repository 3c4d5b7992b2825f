"""What utilities that look ahead share: their demands, the joint posterior, leading candidates."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from harness.acquisitions import CostRule, Setup, StepContext, Utility
from harness.acquisitions.cost_rules import per_cost
from harness.acquisitions.ei import log_ei
from harness.arrays import CandidatePoints, Indices, PerCandidate, Points
from harness.errors import BadInput
from harness.normal import exp, log1p
from harness.surrogates import Joint, Posterior

MOST_NODES = 100  # of a Gauss-Hermite rule: far more than any integral here needs, far fewer than overflow


class LookAhead(Utility):
    """A utility that asks what the surrogate will say after an observation; it needs the joint posterior."""

    name: ClassVar[str]
    looks_ahead: ClassVar[bool] = True

    def check(self, setup: Setup) -> None:
        """Raise BadInput for a surrogate without a joint posterior."""
        if not setup.surrogate.joint:
            raise BadInput(
                f"utility={self.name} needs joint predictions, which this surrogate does not make: use surrogate=gp"
            )

    def refuse_second_discount(self, setup: Setup, budget: str) -> None:
        """Raise BadInput for a rule that divides by the cost, where a budget has the utility count it already."""
        divides = type(setup.rule).exponent is not CostRule.exponent and getattr(setup.rule, "alpha", 1.0) != 0.0
        if setup.tau is not None and divides:
            raise BadInput(
                f"utility={self.name} with a {budget} (tau) has the cost inside its value, and dividing by it would "
                "count it twice: use +acq=ei (the value as it is) or +acq=cei"
            )


def joint_posterior(context: StepContext) -> tuple[Posterior, Points, CandidatePoints]:
    """Return the posterior, the points observed so far and the candidates; ValueError if the context lacks any."""
    if context.history is None or context.points is None:
        raise ValueError("a utility that looks ahead needs a context with a history and points")
    return context.history.posterior, context.history.X, context.points


def latent_log_ei(context: StepContext) -> PerCandidate:
    """Return log EI of the latent function over the lowest observed error, noise in the context's sd or not."""
    mean, variance = context.latent
    return log_ei(context.incumbent - mean, np.sqrt(variance))


def evaluations_ahead(context: StepContext, most: int) -> int:
    """Return how many evaluations a plan may have: those that the run still makes, at least one and at most `most`."""
    return max(1, min(most, context.iterations - context.step))


def leaders(
    log_value: PerCandidate,
    log_cost: PerCandidate,
    size: int,
    exponents: Sequence[float] = (0.0, 0.3, 1.0),
    cheapest: bool = True,
) -> Indices:
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


def leaders_by_value(context: StepContext, size: int) -> Indices:
    """Return the `size` candidates of the highest EI, whatever they cost; ascending."""
    return leaders(latent_log_ei(context), context.log_cost, size, (0.0,), cheapest=False)


def observed_and_leading(context: StepContext, size: int) -> Float[np.ndarray, "k d"]:
    """Return the points observed so far, and below them those of `leaders_by_value`."""
    _, X, C = joint_posterior(context)
    return np.vstack([X, C[leaders_by_value(context, size)]])


def _highest(value: PerCandidate, size: int) -> Indices:
    """Return the first `size` of a stable sort, highest first, without sorting the others; no NaN."""
    least = np.partition(value, len(value) - size)[len(value) - size]
    above, level = np.flatnonzero(value > least), np.flatnonzero(value == least)
    both = np.concatenate([above, level[: size - len(above)]])
    return both[np.argsort(-value[both], kind="stable")]


def pooled(context: StepContext, where: Indices) -> Joint:
    """Return the joint posterior at the candidates `where`, its marginals those of `moments` to the last bit."""
    posterior, _, C = joint_posterior(context)
    joint = posterior.joint(C[where])
    mean, variance = posterior.moments(C[where])
    np.fill_diagonal(joint.covariance, variance)
    return Joint(mean, joint.covariance, joint.noise)


def excess(log_value: Float[np.ndarray, " k"], log_base: float) -> Float[np.ndarray, " k"]:
    """Return log(value - base), -inf where that is not > 0; the values themselves where none is, which keeps order."""
    if not log_value.max() > log_base > -np.inf:
        return log_value
    return log_value + log1p(-exp(np.minimum(log_base - log_value, 0.0)))


def spread(chosen: Indices, value: Float[np.ndarray, " k"], m: int) -> PerCandidate:
    """Return `value` at the `chosen` of m candidates, and -inf elsewhere: what is not on the shortlist is worth 0."""
    out = np.full(m, -np.inf)
    out[chosen] = value
    return out

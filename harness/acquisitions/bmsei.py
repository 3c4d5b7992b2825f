"""Budgeted multi-step expected improvement: the best plan of a few evaluations that the budget allows."""

import math
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtr, ndtri

from harness.acquisitions.belief import Belief
from harness.acquisitions.ei import log_ei
from harness.acquisitions.lookahead import (
    MOST_NODES,
    LookAhead,
    evaluations_ahead,
    excess,
    latent_log_ei,
    leaders,
    pooled,
    refuse_second_discount,
    spread,
)
from harness.acquisitions.protocol import Setup
from harness.acquisitions.time_left import Clock
from harness.checks import flag, whole
from harness.elementary import exp, gauss_hermite, log, logsumexp
from harness.surrogates.joint import Joint

_W, _SHARE = gauss_hermite(5)  # f given its noisy observation
_LOG_SHARE = log(_SHARE)


class BudgetedMultiStepEI(LookAhead):
    """Q_n(x | D, b): the expected fall of the incumbent by the best n evaluations that budget b allows, x first.

    Q_1(x | D, b) = EI(x) P(c(x) <= b), and
    Q_n(x | D, b) = Q_1(x | D, b) + E_{y, c}[1{c <= b} max_x' Q_{n-1}(x' | D + (x, y), b - c)].

    steps = 1: the one-step form, every candidate in closed form. steps > 1: the recursion itself, not the paper's
    joint optimisation of a sampled tree, which is for continuous spaces: y by a Gauss-Hermite rule of `outcomes` nodes,
    the log-normal c by `costs` equally likely values below b (1 where it is known), x the `shortlist` best candidates,
    x' the `pool` best, and deeper in the tree the `branch` best by Q_1. f(x') is as independent of c as the models say.
    What an evaluation finds is f(x), not its noisy y, as in MCMS: a plan's next incumbent is min(incumbent, f(x)), by a
    rule of five nodes given y, and its next belief is that given y. The last evaluation, chosen knowing y, falls below
    that incumbent by what f(x), not y, says of it. With steps > 2 those in between are judged given y alone, as if f(x)
    told no more of them, and chosen knowing the incumbent.
    Its worth is what x adds to going on without it: W_n(x | D, b) = Q_n(x | D, b) - max_x' Q_{n-1}(x' | D, b - c*), c*
    the cost of the best evaluation per cost; a constant is subtracted, so that the argmax is Q_n's; W_1 = Q_1.
    marginal=false: Q_n itself, whose common future lets the contextual rule take the cheapest point.
    Budget: tau in seconds; without tau, evaluations. planned: what follows x has no more than `steps` evaluations by EI
    per cost would take (`Clock.planned`); else all that is left, so that far from the end the cost plays no part.
    Source: Astudillo, Jiang, Balandat, Bakshy and Frazier 2021, "Multi-step budgeted Bayesian optimization with unknown
    evaluation costs" (B-MS-EI).
    """

    name: ClassVar[str] = "bmsei"
    weighs_cost_sd: ClassVar[bool] = True

    def __init__(
        self,
        steps: int = 2,
        shortlist: int = 20,
        pool: int = 60,
        outcomes: int = 8,
        costs: int = 3,
        branch: int = 3,
        planned: bool = True,
        marginal: bool = True,
    ) -> None:
        self.steps, self.shortlist = whole("utility.steps", steps, 1), whole("utility.shortlist", shortlist, 1)
        self.pool, self.branch = whole("utility.pool", pool, 1), whole("utility.branch", branch, 1)
        self._z, weight = gauss_hermite(whole("utility.outcomes", outcomes, 2, MOST_NODES))
        self._log_weight = log(weight)
        self.costs, self.planned = whole("utility.costs", costs, 1), flag("utility.planned", planned)
        self.marginal = flag("utility.marginal", marginal)

    def check(self, setup: Setup) -> None:
        """Refuse, besides, rules that divide by the cost when the budget counts it already."""
        super().check(setup)
        if setup.tau is not None:
            refuse_second_discount("bmsei with a budget (tau)", setup)

    def log_value(self, belief: Belief) -> Float[np.ndarray, " m"]:
        """Return log W_steps in units of y; -inf where it is not > 0 and, for steps > 1, off the shortlist."""
        clock = Clock.of(belief)
        first = latent_log_ei(belief) + clock.log_chance()
        steps = evaluations_ahead(belief, self.steps)
        if steps == 1 or not np.isfinite(first).any():
            return first
        chosen = leaders(first, belief.log_cost, self.shortlist, (0.0, 1.0))
        pool = np.union1d(chosen, leaders(first, belief.log_cost, self.pool, (0.0, 1.0)))
        full = clock.planned(first, steps) if self.planned else clock
        plan = full.at(pool)
        joint, where = pooled(belief, pool), np.searchsorted(pool, chosen)
        value = self._with_later(first[chosen], joint, plan, belief.incumbent, steps, where)
        if self.marginal:
            value = excess(value, self._best(joint, full.passed(first).at(pool), belief.incumbent, steps - 1))
        return spread(chosen, value, len(first))

    def _best(self, joint: Joint, clock: Clock, best: float, steps: int) -> float:
        """Return log max Q_steps over the points that `joint` and `clock` describe, for steps > 1 the `branch` best."""
        first = log_ei(best - joint.mean, np.sqrt(np.maximum(joint.covariance.diagonal(), 0.0))) + clock.log_chance()
        if steps == 1:
            return float(first.max())
        chosen = np.argsort(-first, kind="stable")[: self.branch]
        return float(self._with_later(first[chosen], joint, clock, best, steps, chosen).max())

    def _with_later(
        self,
        first: Float[np.ndarray, " k"],
        joint: Joint,
        clock: Clock,
        best: float,
        steps: int,
        chosen: Int[np.ndarray, " k"],
    ) -> Float[np.ndarray, " k"]:
        """Return log(Q_1 + what follows) of the points `chosen`, `first` being their log Q_1."""
        out, chance = first.copy(), clock.log_chance()[chosen]
        for k in np.flatnonzero(chance > -np.inf):
            out[k] = np.logaddexp(out[k], chance[k] + self._later(joint, clock, best, steps - 1, int(chosen[k])))
        return out

    def _later(self, joint: Joint, clock: Clock, best: float, steps: int, i: int) -> float:
        """Return log E[max Q_steps] after an evaluation of point i that fits."""
        rest = np.delete(np.arange(len(joint.mean)), i)
        if len(rest) == 0:
            return -np.inf
        after = joint.condition(i, float(joint.mean[i]))  # the covariance does not depend on the outcome
        mean = joint.mean[rest] + joint.influence(i)[rest] * self._z[:, None]
        sd = np.sqrt(max(after.covariance[i, i], 0.0))  # of what is found, f(i), given its noisy observation y
        low = np.minimum(best, joint.mean[i] + joint.influence(i)[i] * self._z[:, None] + sd * _W)  # (y, f given y)
        clocks = [clock.at(rest, clock.after(cost)) for cost in self._costs(clock, i)]
        if steps == 1:
            step = after.covariance[rest, i] / sd if sd > 0.0 else np.zeros(len(rest))
            left = np.sqrt(np.maximum(after.covariance.diagonal()[rest] - step * step, 0.0))
            gap = low[:, :, None] - (mean[:, None, :] + step * _W[:, None])
            found = log_ei(gap.ravel(), np.broadcast_to(left, gap.shape).ravel()).reshape(gap.shape)
            value = logsumexp(found + _LOG_SHARE[:, None], axis=1)[:, None] + [then.log_chance() for then in clocks]
            highest = value.max(axis=2)  # (y, cost): chosen knowing y, not f
        else:
            covariance, deeper = after.covariance[np.ix_(rest, rest)], np.empty((*low.shape, len(clocks)))
            for k, v, c in np.ndindex(deeper.shape):
                then = Joint(mean[k], covariance, joint.noise)
                deeper[k, v, c] = self._best(then, clocks[c], float(low[k, v]), steps)
            highest = logsumexp(deeper + _LOG_SHARE[:, None], axis=1)
        return float(logsumexp(self._log_weight[:, None] + highest - math.log(len(clocks))))

    def _costs(self, clock: Clock, i: int) -> Float[np.ndarray, " c"]:
        """Return equally likely costs of point i, given that it fits."""
        mean, sd = clock.log_cost[i], clock.log_cost_sd[i]
        if sd == 0.0:
            return exp(np.array([mean]))
        below = ndtr((clock.log_left() - mean) / sd)
        return exp(mean + sd * ndtri(below * (np.arange(self.costs) + 0.5) / self.costs))

"""Utilities that plan until the deadline: B-MS-EI (the best plan of a few evaluations) and MCMS (simulated futures)."""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, no_type_check

import numpy as np
from jaxtyping import Float, Int
from scipy.special import log_ndtr, ndtr, ndtri

from harness.acquisitions import Setup, StepContext
from harness.acquisitions.cost_rules import per_cost
from harness.acquisitions.ei import expected_improvement, improvement_bound, log_ei
from harness.acquisitions.lookahead import (
    MOST_NODES,
    LookAhead,
    evaluations_ahead,
    excess,
    latent_log_ei,
    leaders,
    pooled,
    spread,
)
from harness.arrays import Indices, PerCandidate
from harness.compile_cache import njit
from harness.errors import flag, whole
from harness.normal import exp, gauss_hermite, log, logsumexp
from harness.surrogates import Joint

_ROUNDING = 1e-12  # an evaluation that takes exactly what is left fits, whatever sums have been rounded


@dataclass(frozen=True)
class RemainingBudget:
    """How much is left until the deadline, and what each candidate takes of it.

    With a budget tau: seconds, as the cost model predicts them. Without: evaluations, of which each takes one.
    """

    left: float
    log_cost: PerCandidate
    log_cost_sd: PerCandidate

    @classmethod
    def of(cls, context: StepContext) -> "RemainingBudget":
        """Return the budget at a step."""
        if context.tau is None:
            none = np.zeros(len(context.log_cost))
            return cls(float(context.iterations - context.step), none, none)
        # the distribution of the cost, whatever statistic of it the rule takes
        log_cost = context.log_cost if context.mean_log_cost is None else context.mean_log_cost
        return cls(context.tau - context.spent, log_cost, context.log_cost_sd)

    def planned(self, log_value: PerCandidate, steps: int) -> "RemainingBudget":
        """Return the budget of a plan of `steps` evaluations: no more than the best of them per cost would take.

        A plan much shorter than the time left would all fit, whatever it costs, and so not see the deadline at all.
        Our auxiliary policy for the budget of a plan is value per cost, as predicted now; that there be one is
        from Astudillo et al. 2021. It is a share of the budget in predicted costs, not a risk: a plan is not to miss by
        chance what it was given for itself, so costs count as predicted there, unless the deadline itself is nearer.
        """
        best = np.argsort(-per_cost(log_value, self.log_cost, 1.0), kind="stable")[:steps]
        allowed = float(exp(self.log_cost[best]).sum())
        if allowed >= self.left:
            return self
        return replace(self, left=allowed, log_cost_sd=np.zeros_like(self.log_cost_sd))

    def passed(self, log_value: PerCandidate) -> "RemainingBudget":
        """Return the budget once the time of the best evaluation per cost has passed, whatever became of it."""
        best = int(per_cost(log_value, self.log_cost, 1.0).argmax())
        return replace(self, left=self.after(math.exp(self.log_cost[best])))

    def after(self, cost: float) -> float:
        """Return what is left after an evaluation of that cost, with room for the rounding of both."""
        return self.left * (1.0 + _ROUNDING) - cost

    def log_left(self) -> float:
        """Return the log of what is left, with room for rounding; -inf when nothing is."""
        return math.log(self.left) + _ROUNDING if self.left > 0.0 else -np.inf

    def log_chance(self) -> PerCandidate:
        """Return log P(c <= left), c log-normal as predicted; 0 or -inf where the cost is known."""
        with np.errstate(divide="ignore", invalid="ignore"):
            chance = log_ndtr((self.log_left() - self.log_cost) / self.log_cost_sd)
        known = np.where(self.log_cost <= self.log_left(), 0.0, -np.inf)
        return np.where(self.log_cost_sd == 0.0, known, chance)

    def at(self, where: Indices, left: float | None = None) -> "RemainingBudget":
        """Return the budget of the candidates `where`, with so much left."""
        return RemainingBudget(self.left if left is None else left, self.log_cost[where], self.log_cost_sd[where])


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
    rule of five nodes given y, and its next joint posterior is that given y. The last evaluation, chosen knowing y,
    falls below that incumbent by what f(x), not y, says of it. With steps > 2 those in between are judged given y alone
    and chosen knowing the incumbent.
    Its worth is what x adds to going on without it: W_n(x | D, b) = Q_n(x | D, b) - max_x' Q_{n-1}(x' | D, b - c*), c*
    the cost of the best evaluation per cost; a constant is subtracted, so that the argmax is Q_n's; W_1 = Q_1.
    marginal=false: Q_n itself, whose common future lets the contextual rule take the cheapest point.
    Budget: tau in seconds; without tau, evaluations. planned: what follows x has no more than `steps` evaluations by EI
    per cost would take (`RemainingBudget.planned`); else all that is left, and far from the end the cost plays no part.
    Source: Astudillo, Jiang, Balandat, Bakshy and Frazier 2021, "Multi-step budgeted Bayesian optimization with unknown
    evaluation costs" (B-MS-EI).
    """

    name: ClassVar[str] = "bmsei"
    weighs_cost_sd: ClassVar[bool] = True
    plans_ahead: ClassVar[bool] = True

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
        self.refuse_second_discount(setup, "budget")

    def log_value(self, context: StepContext) -> PerCandidate:
        """Return log W_steps in units of y; -inf where it is not > 0 and, for steps > 1, off the shortlist."""
        budget = RemainingBudget.of(context)
        first = latent_log_ei(context) + budget.log_chance()
        steps = evaluations_ahead(context, self.steps)
        if steps == 1 or not np.isfinite(first).any():
            return first
        chosen = leaders(first, context.log_cost, self.shortlist, (0.0, 1.0))
        pool = np.union1d(chosen, leaders(first, context.log_cost, self.pool, (0.0, 1.0)))
        full = budget.planned(first, steps) if self.planned else budget
        plan = full.at(pool)
        joint, where = pooled(context, pool), np.searchsorted(pool, chosen)
        value = self._with_later(first[chosen], joint, plan, context.incumbent, steps, where)
        if self.marginal:
            value = excess(value, self._best(joint, full.passed(first).at(pool), context.incumbent, steps - 1))
        return spread(chosen, value, len(first))

    def _best(self, joint: Joint, budget: RemainingBudget, best: float, steps: int) -> float:
        """Return log max Q_steps over the points of `joint` and `budget`, for steps > 1 the `branch` best."""
        first = log_ei(best - joint.mean, np.sqrt(np.maximum(joint.covariance.diagonal(), 0.0))) + budget.log_chance()
        if steps == 1:
            return float(first.max())
        chosen = np.argsort(-first, kind="stable")[: self.branch]
        return float(self._with_later(first[chosen], joint, budget, best, steps, chosen).max())

    def _with_later(
        self,
        first: Float[np.ndarray, " k"],
        joint: Joint,
        budget: RemainingBudget,
        best: float,
        steps: int,
        chosen: Indices,
    ) -> Float[np.ndarray, " k"]:
        """Return log(Q_1 + what follows) of the points `chosen`, `first` being their log Q_1."""
        out, chance = first.copy(), budget.log_chance()[chosen]
        for k in np.flatnonzero(chance > -np.inf):
            out[k] = np.logaddexp(out[k], chance[k] + self._later(joint, budget, best, steps - 1, int(chosen[k])))
        return out

    def _later(self, joint: Joint, budget: RemainingBudget, best: float, steps: int, i: int) -> float:
        """Return log E[max Q_steps] after an evaluation of point i that fits."""
        rest = np.delete(np.arange(len(joint.mean)), i)
        if len(rest) == 0:
            return -np.inf
        after = joint.condition(i, float(joint.mean[i]))  # the covariance does not depend on the outcome
        mean = joint.mean[rest] + joint.influence(i)[rest] * self._z[:, None]
        sd = np.sqrt(max(after.covariance[i, i], 0.0))  # of what is found, f(i), given its noisy observation y
        low = np.minimum(best, joint.mean[i] + joint.influence(i)[i] * self._z[:, None] + sd * _W)  # (y, f given y)
        budgets = [budget.at(rest, budget.after(cost)) for cost in self._costs(budget, i)]
        if steps == 1:
            step = after.covariance[rest, i] / sd if sd > 0.0 else np.zeros(len(rest))
            left = np.sqrt(np.maximum(after.covariance.diagonal()[rest] - step * step, 0.0))
            gap = low[:, :, None] - (mean[:, None, :] + step * _W[:, None])
            found = log_ei(gap.ravel(), np.broadcast_to(left, gap.shape).ravel()).reshape(gap.shape)
            value = logsumexp(found + _LOG_SHARE[:, None], axis=1)[:, None] + [then.log_chance() for then in budgets]
            highest = value.max(axis=2)  # (y, cost): chosen knowing y, not f
        else:
            covariance, deeper = after.covariance[np.ix_(rest, rest)], np.empty((*low.shape, len(budgets)))
            for k, v, c in np.ndindex(deeper.shape):
                then = Joint(mean[k], covariance, joint.noise)
                deeper[k, v, c] = self._best(then, budgets[c], float(low[k, v]), steps)
            highest = logsumexp(deeper + _LOG_SHARE[:, None], axis=1)
        return float(logsumexp(self._log_weight[:, None] + highest - math.log(len(budgets))))

    def _costs(self, budget: RemainingBudget, i: int) -> Float[np.ndarray, " c"]:
        """Return equally likely costs of point i, given that it fits."""
        mean, sd = budget.log_cost[i], budget.log_cost_sd[i]
        if sd == 0.0:
            return exp(np.array([mean]))
        below = ndtr((budget.log_left() - mean) / sd)
        return exp(mean + sd * ndtri(below * (np.arange(self.costs) + 0.5) / self.costs))


# Simulated futures: what myopic EI would find until the deadline, path by path, compiled.
#
# Notation: P points of a pool; f at the pool ~ N(mean, covariance). A path observes points one by one; after t of them
# its covariance is covariance - V^T V, V (t, P), each row one rank-1 update. Names ending in `_f`: the same given the
# values found, without their noise.

_RARE = 8.0  # sds by which no draw is off its mean, but for the jitter that draws of nearly dependent points need


def rollout_values(
    joint: Joint,
    budget: RemainingBudget,
    starts: Int[np.ndarray, " s"],
    incumbent: float,
    normals: Float[np.ndarray, "p m 3"],
    steps: int,
    overrun: bool = False,
) -> Float[np.ndarray, "s p"]:
    """Return the expected improvement gathered after the start on each of p paths, at most `steps` evaluations in all.

    A path is one draw of f at the pool's m points, of the noise and the cost of each: all starts walk through the same
    worlds, so that the noise of their difference is small.

    An evaluation of point i takes exp(log_cost_i + log_cost_sd_i z); one that ends after the deadline
    counts for nothing and ends the path. After one in time, f(i) and its noisy observation are seen, the posterior is
    updated, and the next point is the unvisited one of highest EI among those whose predicted cost, exp(log_cost),
    still fits (ties: the first in the pool); none ends the path. It adds E[max(0, best - f)] given the values of f
    found so far, of which best is the lowest: their noise says nothing more of f. The mean over paths is the expected
    fall of the incumbent, with less variance than the falls drawn. (EI given the noisy observations would take f there
    for independent of best, and pay twice for one minimum.) A start of -1 is none: the first point is chosen as the
    next ones are, and counts as they do.
    normals: behind f, noise and cost. overrun: the evaluation that uses up the last of the time counts, and ends the
    path, and any point may be the next, whatever it costs.
    """
    values = np.zeros((len(starts), len(normals)))
    # rounding: what takes just the time left is in time; with overrun it leaves none for another
    left = max(budget.left * (1.0 - _ROUNDING), 0.0) if overrun else math.exp(budget.log_left())
    _paths(
        joint.mean, np.ascontiguousarray(joint.covariance), joint.noise, exp(budget.log_cost), budget.log_cost_sd,
        starts, incumbent, left, joint.draw(normals[:, :, 0]), normals, steps, overrun, values,
    )  # fmt: skip
    return values


@njit(cache=True, error_model="numpy")
@no_type_check
def _paths(mean, covariance, noise, cost, cost_sd, starts, incumbent, left, f, normals, steps, overrun, values):  # type: ignore[no-untyped-def]
    """Fill `values`, (starts, paths)."""
    pool = len(mean)
    mu, var, V = np.empty(pool), np.empty(pool), np.empty((steps, pool))
    mu_f, var_f, V_f = np.empty(pool), np.empty(pool), np.empty((steps, pool))
    free = np.empty(pool, np.bool_)
    for s in range(len(starts)):
        for p in range(len(normals)):
            for j in range(pool):
                mu[j], var[j], free[j] = mean[j], max(covariance[j, j], 0.0), True
                mu_f[j], var_f[j] = mu[j], var[j]
            best, time, i = incumbent, left, starts[s]
            if overrun and not time > 0.0:
                break
            if i < 0:
                i = _next(mu, var, best, cost, np.inf if overrun else time, free)
                if i < 0:
                    break
            for t in range(steps):
                time -= cost[i] * math.exp(cost_sd[i] * normals[p, i, 2])
                if time < 0.0 and not overrun:
                    break
                if t > 0 or starts[s] < 0:
                    values[s, p] += expected_improvement(best - mu_f[i], math.sqrt(var_f[i]))
                if t + 1 == steps or (overrun and not time > 0.0):
                    break
                free[i] = False
                best = min(best, f[p, i])
                _observe(mu, var, V, t, covariance, i, noise, f[p, i] + math.sqrt(noise) * normals[p, i, 1])
                _observe(mu_f, var_f, V_f, t, covariance, i, 0.0, f[p, i])
                i = _next(mu, var, best, cost, np.inf if overrun else time, free)
                if i < 0:
                    break


@njit(cache=True, error_model="numpy")
@no_type_check
def _observe(mu, var, V, t, covariance, i, noise, y):  # type: ignore[no-untyped-def]
    """Condition on the observation y of point i: row t of V, mu and var."""
    total = var[i] + noise
    if not total > 0.0:
        V[t] = 0.0
        return
    sd = math.sqrt(total)
    surprise = min(max((y - mu[i]) / sd, -_RARE), _RARE)
    row = V[t]
    for j in range(len(mu)):
        row[j] = covariance[i, j]
    for k in range(t):
        factor, other = V[k, i], V[k]
        for j in range(len(mu)):
            row[j] -= factor * other[j]
    for j in range(len(mu)):
        row[j] /= sd
        mu[j] += row[j] * surprise
        var[j] = max(var[j] - row[j] * row[j], 0.0)


@njit(cache=True, error_model="numpy")
@no_type_check
def _next(mu, var, best, cost, time, free):  # type: ignore[no-untyped-def]
    """Return the free point of highest EI whose cost fits into `time`, the first of several, -1 if none does.

    EI is calculated only where a bound of it reaches the EI of the point of the highest bound, which few do.
    """
    bound, top = np.empty(len(mu)), -1
    for j in range(len(mu)):
        bound[j] = improvement_bound(best - mu[j], math.sqrt(var[j])) if free[j] and cost[j] <= time else -1.0
        if bound[j] >= 0.0 and (top < 0 or bound[j] > bound[top]):
            top = j
    if top < 0:
        return -1
    found, highest = -1, -1.0
    least = expected_improvement(best - mu[top], math.sqrt(var[top]))
    for j in range(len(mu)):
        if bound[j] >= least:
            value = expected_improvement(best - mu[j], math.sqrt(var[j]))
            if value > highest:
                found, highest = j, value
    return found


class MonteCarloMultiStep(LookAhead):
    """MCMS(x) = U(x) - U_0, U(x): the expected fall of the incumbent until the deadline, x first, then myopic EI.

    U is a mean over `paths` paths. Along a path: draw the candidate's value from the GP, take its run time off what is
    left, update the posterior, go on with the point of highest EI that still fits. The deadline is tau in seconds;
    without tau, the run's last iteration. At most `steps` evaluations ahead; planned: a path then has as much time as
    so many evaluations by EI per second would take (`RemainingBudget.planned`), or all that is left. Scored are the
    `shortlist` best candidates by EI and by EI per second, the others count as 0; the next points of a path come from
    the `pool` best. Run times: known where the cost model is sure (cost_model=oracle), else drawn from its prediction,
    log-normal. A candidate counts by its chance to end in time; where none has any, all count as 0, and the tie rule
    takes the cheapest.
    U_0: the same of myopic EI without x, on the same paths, with one evaluation fewer and the time of the best one per
    cost gone; with one evaluation ahead it is 0 and MCMS is EI. U alone, the paper's, is marginal=false: the argmax is
    the same, but most of U is a future common to all, so that the contextual rule would take the cheapest point.
    The paper's own form is `published` (utility=mcms_paper): no shortlist, no pool, no limit of steps (null), planned
    and marginal false, and overrun: an evaluation counts if it begins before the deadline, the last one whatever it
    takes, so that the first always counts in full. These shortcuts are for speed; what each does to the result stands
    in analysis/papers/snoek2011/README.md.
    Source: Snoek, Larochelle and Adams 2011, "Opportunity cost in Bayesian optimization" (Monte Carlo
    multi-step myopic EI, MCMS).
    """

    name: ClassVar[str] = "mcms"
    weighs_cost_sd: ClassVar[bool] = True
    plans_ahead: ClassVar[bool] = True

    def __init__(
        self,
        shortlist: int | None = 20,
        paths: int = 32,
        steps: int | None = 10,
        pool: int | None = 100,
        planned: bool = True,
        marginal: bool = True,
        overrun: bool = False,
    ) -> None:
        self.paths = whole("utility.paths", paths, 1)
        self.shortlist, self.steps, self.pool = (
            None if value is None else whole(f"utility.{name}", value, 1)
            for name, value in (("shortlist", shortlist), ("steps", steps), ("pool", pool))
        )
        self.planned = flag("utility.planned", planned)
        self.marginal = flag("utility.marginal", marginal)
        self.overrun = flag("utility.overrun", overrun)

    @classmethod
    def published(cls, **shortcuts: Any) -> "MonteCarloMultiStep":
        """Return MCMS as its paper has it, but for the `shortcuts` named."""
        whole_path: dict[str, Any] = {"shortlist": None, "pool": None, "steps": None, "planned": False}
        return cls(**{**whole_path, "marginal": False, "overrun": True, **shortcuts})

    def check(self, setup: Setup) -> None:
        """Refuse, besides, rules that divide by the cost when the deadline counts it already."""
        super().check(setup)
        self.refuse_second_discount(setup, "deadline")

    def log_value(self, context: StepContext) -> PerCandidate:
        """Return log MCMS in units of y; -inf where it is not > 0, off the shortlist, too close to the deadline."""
        budget = RemainingBudget.of(context)
        if self.overrun and budget.left > 0.0:
            first = latent_log_ei(context)  # whatever it takes, it counts
        else:
            first = latent_log_ei(context) + budget.log_chance()
        fits = np.flatnonzero(first > -np.inf)
        if len(fits) == 0:
            return first
        sizes = (len(fits) if size is None else size for size in (self.shortlist, self.pool))
        chosen, pool = (fits[leaders(first[fits], context.log_cost[fits], size, (0.0, 1.0))] for size in sizes)
        pool = np.union1d(chosen, pool)
        steps = evaluations_ahead(context, len(pool) if self.steps is None else self.steps)
        plan = budget.planned(first, steps) if self.planned else budget
        normals = context.rng("mcms").standard_normal((self.paths, len(pool), 3))
        joint, starts = pooled(context, pool), np.searchsorted(pool, chosen)
        best, over = context.incumbent, self.overrun
        later = rollout_values(joint, plan.at(pool), starts, best, normals, steps, over).mean(axis=1)
        value = np.logaddexp(first[chosen], log(later))
        if self.marginal:
            none, left = np.array([-1]), plan.passed(first).at(pool)
            without = rollout_values(joint, left, none, best, normals, steps - 1, over).mean()
            value = excess(value, math.log(without) if without > 0.0 else -math.inf)
        return spread(chosen, value, len(first))

"""Opportunity cost: what a candidate is worth if myopic EI goes on after it until the deadline."""

import math
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from harness.acquisitions.belief import Belief
from harness.acquisitions.lookahead import (
    LookAhead,
    evaluations_ahead,
    excess,
    latent_log_ei,
    leaders,
    pooled,
    refuse_second_discount,
    spread,
)
from harness.acquisitions.paths import path_values
from harness.acquisitions.protocol import Setup
from harness.acquisitions.time_left import Clock
from harness.checks import flag, whole
from harness.elementary import log


class MonteCarloMultiStep(LookAhead):
    """MCMS(x) = U(x) - U_0, U(x): the expected fall of the incumbent until the deadline, x first, then myopic EI.

    U is a mean over `paths` paths. Along a path: draw the candidate's value from the GP, take its run time off what is
    left, update the posterior, go on with the point of highest EI that still fits. The deadline is tau in seconds;
    without tau, the run's last iteration. At most `steps` evaluations ahead; planned: a path then has as much time as
    so many evaluations by EI per second would take (`Clock.planned`), or all that is left. Scored are the `shortlist`
    best candidates by EI and by EI per second, the others count as 0; the next points of a path come from the `pool`
    best. Run times: known where the cost model is sure (cost_model=oracle), else drawn from its prediction, log-normal.
    A candidate counts by its chance to end in time; where none has any, all count as 0, and the tie rule takes the
    cheapest.
    U_0: the same of myopic EI without x, on the same paths, with one evaluation fewer and the time of the best one per
    cost gone; with one evaluation ahead it is 0 and MCMS is EI. U alone, the paper's, is marginal=false: the argmax is
    the same, but most of U is a future common to all, so that the contextual rule would take the cheapest point.
    Source: Snoek, Larochelle and Adams 2011, "Opportunity cost in Bayesian optimization" (Monte Carlo
    multi-step myopic EI, MCMS).
    """

    name: ClassVar[str] = "mcms"
    weighs_cost_sd: ClassVar[bool] = True

    def __init__(
        self,
        shortlist: int = 20,
        paths: int = 32,
        steps: int = 10,
        pool: int = 100,
        planned: bool = True,
        marginal: bool = True,
    ) -> None:
        self.shortlist, self.paths = whole("utility.shortlist", shortlist, 1), whole("utility.paths", paths, 1)
        self.steps, self.pool = whole("utility.steps", steps, 1), whole("utility.pool", pool, 1)
        self.planned = flag("utility.planned", planned)
        self.marginal = flag("utility.marginal", marginal)

    def check(self, setup: Setup) -> None:
        """Refuse, besides, rules that divide by the cost when the deadline counts it already."""
        super().check(setup)
        if setup.tau is not None:
            refuse_second_discount("mcms with a deadline (tau)", setup)

    def log_value(self, belief: Belief) -> Float[np.ndarray, " m"]:
        """Return log MCMS in units of y; -inf where it is not > 0, off the shortlist, too close to the deadline."""
        clock = Clock.of(belief)
        first = latent_log_ei(belief) + clock.log_chance()
        fits = np.flatnonzero(first > -np.inf)
        if len(fits) == 0:
            return first
        chosen, pool = (
            fits[leaders(first[fits], belief.log_cost[fits], size, (0.0, 1.0))] for size in (self.shortlist, self.pool)
        )
        pool, steps = np.union1d(chosen, pool), evaluations_ahead(belief, self.steps)
        plan = clock.planned(first, steps) if self.planned else clock
        normals = belief.rng("mcms").standard_normal((self.paths, len(pool), 3))
        joint, starts = pooled(belief, pool), np.searchsorted(pool, chosen)
        later = path_values(joint, plan.at(pool), starts, belief.incumbent, normals, steps).mean(axis=1)
        value = np.logaddexp(first[chosen], log(later))
        if self.marginal:
            none, left = np.array([-1]), plan.passed(first).at(pool)
            without = path_values(joint, left, none, belief.incumbent, normals, steps - 1).mean()
            value = excess(value, math.log(without) if without > 0.0 else -math.inf)
        return spread(chosen, value, len(first))

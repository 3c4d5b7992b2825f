"""Rules that spread points out: random search, the Sobol sequence, and CArBO, which begins with a cheap design.

The first two use no models (`CostRule.uses_models`); they are what any use of models has to beat. Sources: Bergstra and
Bengio 2012, "Random search for hyper-parameter optimization"; Sobol 1967, scrambled as in Owen 1998; Lee, Perrone,
Archambeau and Seeger 2020, "Cost-aware Bayesian optimization" (CArBO).
"""

import math
from abc import abstractmethod
from functools import lru_cache
from typing import ClassVar, no_type_check

import numpy as np
from jaxtyping import Float

from harness.acquisitions import CostRule, StepContext
from harness.acquisitions.cost_rules import Cool
from harness.arrays import CandidatePoints, PerCandidate, Points, Vector
from harness.compile_cache import njit
from harness.component import Component, ProblemAware
from harness.errors import number
from harness.problem import Candidates, Problem, WrappedProblem
from harness.space import sobol
from harness.streams import seed_sequence

_SHORTEST = 128  # points that are made of a Sobol sequence at once


class Design(Component, ProblemAware):
    """Chooses the points that a run begins with; `design=...` names one."""

    @abstractmethod
    def points(self, problem: Problem, n: int) -> Points:
        """Return up to `n` >= 1 points of the unit cube, in the order in which they are to be evaluated.

        Raises BadInput for a problem that the design cannot serve.
        """


class DesignedProblem(WrappedProblem):
    """A problem whose runs begin with the points of a design, or those nearest to them that can be evaluated."""

    def __init__(self, problem: Problem, design: Design) -> None:
        super().__init__(problem)
        self._design = design

    def initial(self, n: int) -> Candidates:
        """Return the design's points."""
        return self._problem.nearest(self._design.points(self._problem, n))


class RandomSearch(CostRule):
    """Chooses any candidate with the same probability, from the stream of the run and step."""

    plans_ahead: ClassVar[bool] = False
    uses_models: ClassVar[bool] = False
    stateless: ClassVar[bool] = True

    def score(self, log_value: PerCandidate, log_cost: PerCandidate, context: StepContext) -> PerCandidate:
        """Return 0 for the candidate drawn, -inf for the others."""
        m = len(log_value)
        return _only(int(context.rng("random").integers(m)), m)


class SobolSequence(CostRule):
    """Chooses the candidate nearest in the unit cube to point k - n_initial of a scrambled Sobol sequence, k the step.

    The sequence is that of the run's seed and problem. Ties go to the lower index.
    """

    plans_ahead: ClassVar[bool] = False
    uses_models: ClassVar[bool] = False
    stateless: ClassVar[bool] = True

    def score(self, log_value: PerCandidate, log_cost: PerCandidate, context: StepContext) -> PerCandidate:
        """Return 0 for the nearest candidate, -inf for the others; raises ValueError without points."""
        C, k = _points(context), context.step - min(context.n_initial, context.step)
        size = max(_SHORTEST, 1 << k.bit_length())
        target = _sequence(context.seed, context.problem, C.shape[1], size)[k]
        return _only(int(_squared_gaps(C, target[None]).argmin()), len(C))


class Carbo(Cool):
    """CArBO: cheap points that are spread out, for a `share` of the budget, and then EI-cool.

    The design: of the candidates, the most expensive by the cost model and the one closest to the points evaluated so
    far are removed in turn, and the last one left is evaluated next; equal costs go by distance, equal distances by
    cost, then the higher index is removed first. It begins after the initial points that all methods have and goes on
    until `share` of tau is spent or `share` of the iterations are made, whichever comes first; without tau iterations
    are the budget, as they are for EI-cool. Cooling starts where the design ends, with the seconds (tau_init) or
    evaluations (N_init) up to there. The paper has no limit of iterations, and draws the candidates from a discretised
    space; here they are those on offer.
    Source: Lee et al. 2020, algorithm 1 (a greedy design of small fill distance); share = 1/8 is theirs.
    """

    def __init__(self, share: float = 0.125) -> None:
        self.share = number("share", share, "a number in [0, 1]", 0.0, 1.0)

    def stays_on_front(self, context: StepContext) -> bool:
        """Return whether the design is over: its points are cheap and far away, whatever their utility."""
        return not self._designing(context)

    def score(self, log_value: PerCandidate, log_cost: PerCandidate, context: StepContext) -> PerCandidate:
        """Return 0 for the design's next point and -inf for the others, or the score of EI-cool."""
        if not self._designing(context):
            return super().score(log_value, log_cost, context)
        if context.history is None:
            raise ValueError("a design needs a context with a history and points")
        gaps = _squared_gaps(_points(context), np.ascontiguousarray(context.history.X))
        return _only(cheap_and_far(log_cost, gaps), len(log_cost))

    def start(self, context: StepContext) -> tuple[float, int]:
        """Return the seconds and evaluations up to the end of the design, or up to now if it goes on."""
        if context.cost_s is None:
            raise ValueError("a design needs a context with the costs so far")
        spent, end = np.cumsum(context.cost_s), max(context.n_initial, self._most(context))
        if context.tau is not None:
            over = 1 + int(np.searchsorted(spent, self.share * context.tau))  # evaluations at which `share` is spent
            end = min(end, max(context.n_initial, over))
        end = min(end, context.step)
        return float(spent[end - 1]), end

    def _designing(self, context: StepContext) -> bool:
        unspent = context.tau is None or context.spent < self.share * context.tau
        return unspent and context.step < self._most(context)

    def _most(self, context: StepContext) -> int:
        """Return the evaluations of which the design has no more, whatever is left of the budget."""
        return math.ceil(self.share * context.iterations * (1 - 1e-12))  # 0.07 times 100 is above 7


def cheap_and_far(log_cost: PerCandidate, gaps: PerCandidate) -> int:
    """Return the candidate left when the most expensive and the one of the smallest gap are removed in turn."""
    return int(_last_left(np.lexsort((-gaps, log_cost)), np.lexsort((log_cost, -gaps))))


@njit(cache=True)
@no_type_check
def _last_left(cheap_first, far_first):  # type: ignore[no-untyped-def]
    """Return what is left when the last of either order is removed in turn."""
    m = len(cheap_first)
    gone, dear, near = np.zeros(m, np.bool_), m - 1, m - 1
    for left in range(m, 1, -1):
        if (m - left) % 2 == 0:
            while gone[cheap_first[dear]]:
                dear -= 1
            gone[cheap_first[dear]] = True
        else:
            while gone[far_first[near]]:
                near -= 1
            gone[far_first[near]] = True
    while gone[cheap_first[dear]]:
        dear -= 1
    return cheap_first[dear]


@njit(cache=True)
@no_type_check
def _squared_gaps(C: CandidatePoints, X: Points) -> PerCandidate:
    """Return min over X of |c - x|^2 at every c."""
    out = np.full(len(C), np.inf)
    for i in range(len(C)):
        for j in range(len(X)):
            total = 0.0
            for k in range(C.shape[1]):
                total += (C[i, k] - X[j, k]) ** 2
            out[i] = min(out[i], total)
    return out


@lru_cache(maxsize=2)  # runs come one after the other
def _sequence(seed: int, problem: str, d: int, size: int) -> Float[np.ndarray, "n d"]:
    return sobol(d, size, seed_sequence(seed, "sobol", problem))


def _points(context: StepContext) -> CandidatePoints:
    if context.points is None:
        raise ValueError("a rule that spreads points out needs a context with points")
    return np.ascontiguousarray(context.points)


def _only(i: int, m: int) -> Vector:
    score = np.full(m, -np.inf)
    score[i] = 0.0
    return score

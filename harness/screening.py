"""Screening: the candidates that a step's choice can fall on, found without predicting all of them exactly.

A cost rule that stays on the front (`CostRule.on_front`) chooses a candidate that none dominates. Fast upper bounds
of the utility, from a prediction in single precision, and lower bounds of it at a few leaders are enough to rule
out most of the others; what is left is predicted exactly. The choice is that of a full evaluation.
"""

from collections.abc import Callable
from functools import cached_property
from typing import no_type_check

import numpy as np

from harness.acquisitions import StepContext, Utility
from harness.arrays import CandidatePoints, Indices, MeanSd, PerCandidate, Points
from harness.compile_cache import njit
from harness.surrogates import Posterior

FEWEST = 200  # candidates below which screening costs more than it saves
_AGAIN = 400  # candidates left above which a second look at them costs less than predicting them exactly
_AGAIN_AT_ONCE = 30  # the same where the second look is instant
MANY = 70  # observations from which the exact variance costs more than a second look at what passed rough bounds
_RANGES = 31  # of cost, each with a leader: with the cheapest candidate no more than are predicted exactly at a time

ContextOf = Callable[[slice | Indices, PerCandidate, PerCandidate], StepContext]


class Offer:
    """What is on offer at a step: an array of points, or some rows of one that is the same at every step.

    C, rows: that array and the rows, None for all. An object serves one step, so that a caller may fill an array
    without rows again.
    """

    def __init__(self, C: Points, rows: Indices | None = None) -> None:
        self.C, self.rows = C[:] if rows is None else C, rows  # a view is another array to all that remember

    def __len__(self) -> int:
        return len(self.C if self.rows is None else self.rows)

    @cached_property
    def points(self) -> CandidatePoints:
        """The candidates' coordinates, put together when they are asked for."""
        return self.C if self.rows is None else self.C.take(self.rows, axis=0)

    def at(self, where: Indices) -> CandidatePoints:
        """Return the coordinates of some candidates."""
        return self.C.take(where if self.rows is None else self.rows[where], axis=0)  # four times as fast as C[...]

    def bounds(self, posterior: Posterior, rough: bool) -> MeanSd:
        """Return `Posterior.bounds` of all candidates."""
        if self.rows is None or not posterior.knows_rows:
            return posterior.bounds(self.points, rough)
        return posterior.bounds_at(self.C, self.rows, rough)

    def bounds_at(self, posterior: Posterior, where: Indices) -> MeanSd:
        """Return `Posterior.bounds` of some candidates, not rough."""
        return posterior.bounds_at(*self._for(posterior, where))

    def mean_sd_at(self, posterior: Posterior, where: Indices, points: CandidatePoints | None = None) -> MeanSd:
        """Return `Posterior.mean_sd` of some candidates; points: their coordinates, if they are there."""
        return posterior.mean_sd_at(*self._for(posterior, where), points)

    def _for(self, posterior: Posterior, where: Indices) -> tuple[Points, Indices]:
        """Return some candidates as rows of the array that the posterior knows them by."""
        if self.rows is None or not posterior.knows_rows:
            return self.points, where
        return self.C, self.rows[where]


def shortlist(
    utility: Utility,
    posterior: Posterior,
    offer: Offer,
    log_cost: PerCandidate,
    context_of: ContextOf,
    rough: bool,
) -> Indices:
    """Return, in order, the indices of candidates on offer among which all of the front is.

    context_of(where, mean, sd): the context of the candidates `where`, given their prediction. rough: screen first by
    bounds from half of the observations, worth it from `MANY` on.
    """
    bound = utility.log_bound(context_of(slice(None), *offer.bounds(posterior, rough)))
    leaders = _leaders(bound, log_cost)
    if not len(leaders):  # bounds say nothing then; the choice names the candidate
        return np.arange(len(offer))

    def bars(leaders: Indices) -> MeanSd:
        """Return cost and least utility of the leaders; both ascend."""
        value = utility.log_floor(context_of(leaders, *offer.mean_sd_at(posterior, leaders)))
        return log_cost[leaders], np.maximum.accumulate(value)

    first = bars(leaders)
    kept = _ahead(bound, log_cost, *first)
    if not rough or len(kept) <= (_AGAIN_AT_ONCE if posterior.instant else _AGAIN):
        return kept
    bound = utility.log_bound(context_of(kept, *offer.bounds_at(posterior, kept)))
    ahead = _ahead(bound, log_cost[kept], *first)
    if len(ahead) > (
        _AGAIN_AT_ONCE if posterior.instant else FEWEST
    ):  # the rough bounds led astray: better leaders are worth their price
        kept, bound = kept[ahead], bound[ahead]
        ahead = _ahead(bound, log_cost[kept], *bars(kept[_leaders(bound, log_cost[kept])]))
    return kept[ahead]


@njit(cache=True)
@no_type_check
def _leaders(bound, log_cost):  # type: ignore[no-untyped-def]
    """Return, by cost, the cheapest candidate and those of the highest bound in their range of cost and below.

    None where anything is NaN.
    """
    cheapest, highest = log_cost.argmin(), bound.argmax()  # where there is a NaN, if there is any
    low, high = log_cost[cheapest], log_cost[highest]
    if np.isnan(low) or np.isnan(bound[highest]):
        return np.empty(0, np.intp)
    per_unit = _RANGES / (high - low) if high > low else 0.0
    best = np.full(_RANGES, cheapest)
    for i in range(len(bound)):
        if log_cost[i] <= high:
            place = (log_cost[i] - low) * per_unit  # NaN where costs are infinite
            k = int(place) if place < _RANGES else _RANGES - 1
            if bound[i] > bound[best[k]]:
                best[k] = i
    leaders, count = np.empty(_RANGES + 1, np.intp), 1
    leaders[0] = cheapest
    for i in best:
        if bound[i] > bound[leaders[count - 1]]:
            leaders[count] = i
            count += 1
    return leaders[:count]


@njit(cache=True)
@no_type_check
def _ahead(bound, log_cost, leader_cost, bar):  # type: ignore[no-untyped-def]
    """Return, in order, the indices of those that may reach the bar of the dearest leader costing no more than they.

    leader_cost ascends, and with it bar; the cheapest candidate is a leader, so that every one has a bar.
    """
    need = np.full(len(bound), bar[0])
    for k in range(1, len(bar)):
        cost, least = leader_cost[k], bar[k]
        for i in range(len(bound)):  # without a branch, so that many are done at a time
            need[i] = least if log_cost[i] >= cost else need[i]
    ahead, found = np.empty(len(bound), np.intp), 0
    for i in range(len(bound)):
        ahead[found] = i
        found += bound[i] >= need[i]
    return ahead[:found]

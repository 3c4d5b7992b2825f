"""Screening: the candidates that a step's choice can fall on, found without predicting all of them exactly.

A cost rule that stays on the front (`FrontRule`) chooses a candidate that none dominates. Fast upper bounds of
the utility, from a prediction in single precision, and lower bounds of it at a few leaders are enough to rule
out most of the others; what is left is predicted exactly. The choice is that of a full evaluation.
"""

from collections.abc import Callable
from typing import no_type_check

import numpy as np
from jaxtyping import Float, Int

from harness.acquisitions.belief import Belief
from harness.acquisitions.protocol import BoundedUtility, CostRule, FrontRule, Utility
from harness.compiler import njit
from harness.surrogates.protocol import BoundedPosterior, RecallingPosterior

FEWEST = 200  # candidates below which screening costs more than it saves
_AGAIN = 400  # candidates left above which a second look at them costs less than predicting them exactly
MANY = 70  # observations from which the exact variance costs more than a second look at what passed rough bounds
_EXPONENTS = np.array([0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 3.0])  # leaders: the best of bound / cost^alpha
_COUNT = len(_EXPONENTS)


Believe = Callable[[slice | Int[np.ndarray, " k"], Float[np.ndarray, " k"], Float[np.ndarray, " k"]], Belief]


def screened(utility: Utility, rule: CostRule) -> BoundedUtility | None:
    """Return `utility` if its choice by `rule` can be screened, else None."""
    return utility if isinstance(utility, BoundedUtility) and isinstance(rule, FrontRule) and rule.on_front else None


def shortlist(
    utility: BoundedUtility,
    posterior: BoundedPosterior,
    C: Float[np.ndarray, "m d"],
    log_cost: Float[np.ndarray, " m"],
    believe: Believe,
    rough: bool,
) -> Int[np.ndarray, " k"]:
    """Return, in order, the indices of candidates `C` among which all of the front is.

    believe(where, mean, sd): the belief on the candidates `where`, given their prediction. rough: screen first by
    bounds from half of the observations, worth it from `MANY` on; or by what the posterior recalls.
    """
    recalled = posterior.recalled(C) if rough and isinstance(posterior, RecallingPosterior) else None
    bound = utility.log_bound(believe(slice(None), *(recalled or posterior.bounds(C, rough))))
    if np.isnan(bound).any() or np.isnan(log_cost).any():  # bounds say nothing then; the choice names the candidate
        return np.arange(len(C))

    def bars(leaders: Int[np.ndarray, " l"]) -> tuple[Float[np.ndarray, " l"], Float[np.ndarray, " l"]]:
        """Return cost and least utility of the leaders; both ascend."""
        value = utility.log_floor(believe(leaders, *posterior.mean_sd(C[leaders])))
        return log_cost[leaders], np.maximum.accumulate(value)

    first = bars(_leaders(bound, log_cost, _EXPONENTS))
    kept = _ahead(bound, log_cost, *first)
    if recalled or not rough or len(kept) <= _AGAIN:
        return kept
    bound = utility.log_bound(believe(kept, *posterior.bounds(C[kept])))
    ahead = _ahead(bound, log_cost[kept], *first)
    if len(ahead) > FEWEST:  # the rough bounds led astray: better leaders are worth their price
        kept, bound = kept[ahead], bound[ahead]
        ahead = _ahead(bound, log_cost[kept], *bars(kept[_leaders(bound, log_cost[kept], _EXPONENTS)]))
    return kept[ahead]


@njit(cache=True)
@no_type_check
def _leaders(
    bound: Float[np.ndarray, " m"], log_cost: Float[np.ndarray, " m"], exponents: Float[np.ndarray, " e"]
) -> Int[np.ndarray, " f"]:
    """Return the cheapest candidate and, for each alpha, the one of highest bound - alpha log cost: once, by cost."""
    best, highest = np.empty(len(exponents) + 1, np.intp), np.empty(len(exponents))
    best[:], highest[:] = log_cost.argmin(), -np.inf
    for i in range(len(bound)):
        for k in range(_COUNT):
            score = bound[i] - exponents[k] * log_cost[i]
            if score > highest[k]:
                best[k], highest[k] = i, score
    for k in range(1, len(best)):  # insertion by cost, then index: numpy's sorts take seconds to compile
        for at in range(k, 0, -1):
            i, j = best[at - 1], best[at]
            if log_cost[i] < log_cost[j] or (log_cost[i] == log_cost[j] and i <= j):
                break
            best[at - 1], best[at] = j, i
    count = 1
    for k in range(1, len(best)):
        if best[k] != best[count - 1]:
            best[count] = best[k]
            count += 1
    return best[:count]


@njit(cache=True)
@no_type_check
def _ahead(
    bound: Float[np.ndarray, " m"],
    log_cost: Float[np.ndarray, " m"],
    leader_cost: Float[np.ndarray, " k"],
    bar: Float[np.ndarray, " k"],
) -> Int[np.ndarray, " k"]:
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

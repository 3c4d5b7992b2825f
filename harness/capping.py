"""Capping: stopping an evaluation once it has cost more than would make it interesting.

Source: Hutter, Hoos and Leyton-Brown 2013: the threshold is the best value so far times a slack factor;
1 learns only that a point is no better, more learns by how much, at its price.
"""

import math

from harness.checks import number
from harness.problem import TIMEOUT, Evaluation

SLACKS: tuple[float | None, ...] = (1.0, 1.1, 1.3, 1.5, 2.0, None)  # those of the study; None: never before kappa_max

_LEAST_S = math.nextafter(0.0, 1.0)


def slack_factor(value: object) -> float | None:
    """Return a slack factor, None for no capping; raises BadInput for anything but a number >= 1 or null."""
    return None if value is None else number("slack", value, "a number >= 1, or null for no capping", 1.0)


def cap(cap_s: float) -> float:
    """Return `cap_s`, a number of seconds, inf for no cap; raises BadInput for anything not above 0."""
    return cap_s if cap_s == math.inf else number("cap_s", cap_s, "a number of seconds > 0, or inf", _LEAST_S)


def stopped(whole: Evaluation, cap_s: float) -> Evaluation:
    """Return the evaluation as it would have ended at `cap_s` seconds of cost: itself, or censored at the cap."""
    if whole.cost_s <= cap_s:
        return whole
    nan = float("nan")
    return Evaluation(nan, cap_s, nan, whole.wall_s * cap_s / whole.cost_s, TIMEOUT)


def threshold(slack: float | None, best_s: float | None, kappa_max_s: float = math.inf) -> float:
    """Return the cost in seconds at which to stop: min(slack x best_s, kappa_max_s).

    best_s: the lowest cost so far, None while there is none. slack None: kappa_max_s.
    """
    if slack is None or best_s is None:
        return kappa_max_s
    return min(slack * best_s, kappa_max_s)

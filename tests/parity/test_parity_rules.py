"""EI^alpha, EI-cool and CEI against the study's formulas on random fronts with ties, zeros and infinite costs.

The formulas are evaluated on EI and c themselves, to 50 digits; the code under test knows their logarithms only.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import mpmath
import numpy as np
import pytest

from harness.acquisitions import CostRule, StepContext, choose
from harness.acquisitions.cost_rules import Contextual, Cool, Power

FRONTS = 400
ROUNDING = mpmath.mpf(10) ** -40  # relative, of numbers that are equal in truth
CLOSE = mpmath.mpf(10) ** -11  # relative; scores or shares nearer than that are no business of double precision
Number = mpmath.mpf
Formula = Callable[[list[mpmath.mpf], list[mpmath.mpf], StepContext], int | None]
CONTEXT = StepContext(*(np.zeros(1),) * 2, 0.0, *(np.zeros(1),) * 2, 5, 21, 5, 10.0, 4.0, 20.0)


def per_cost(ei: list[Number], c: list[Number], alpha: Number) -> list[Number]:
    """EI(x) / c(x)^alpha, where x^0 = 1 for every x, and no EI is worth nothing at any price."""

    def one(value: Number, cost: Number) -> Number:
        if alpha == 0 or value == 0:
            return value
        return mpmath.inf if cost == 0 else value / cost**alpha

    return [one(value, cost) for value, cost in zip(ei, c, strict=True)]


def cooled(ei: list[Number], c: list[Number], context: StepContext) -> list[Number]:
    """EI(x) / c(x)^a_k, a_k = (tau - tau_k) / (tau - tau_init), or the share of iterations left; never below 0."""
    tau, now, first = (context.tau, context.spent, context.initial_cost)
    if tau is None:
        tau, now, first = context.iterations, context.step, context.n_initial
    return per_cost(ei, c, mpmath.mpf(max(0, tau - now)) / mpmath.mpf(tau - first))


def best(worth: list[Number], ei: list[Number], c: list[Number]) -> int | None:
    """Return the argmax, ties by `cheapest`; None for too close a race."""
    most = max(worth)
    tied = [i for i, value in enumerate(worth) if value == most or abs(value - most) <= ROUNDING * most]
    if any(i not in tied and abs(value - most) <= CLOSE * most < mpmath.inf for i, value in enumerate(worth)):
        return None
    return cheapest(tied, ei, c)


def cheapest(among: list[int], ei: list[Number], c: list[Number]) -> int:
    """Return the cheapest; ties go to the higher EI, then to the lower index."""
    return min(among, key=lambda i: (c[i], -ei[i], i))


def contextual(ei: list[Number], c: list[Number], lam: Number) -> int | None:
    """The cheapest x with EI(x) >= (1 - lambda) max EI; None where one is too close to that bar."""
    bar = (1 - lam) * max(ei)
    if lam > 0 and any(0 < abs(value - bar) <= CLOSE * bar for value in ei):
        return None
    return cheapest([i for i, value in enumerate(ei) if value >= bar], ei, c)


def front(seed: int) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return log EI and log c of up to 12 points; even seeds: on a lattice, where sums are exact and ties abound."""
    rng = np.random.default_rng(seed)
    n, lattice = int(rng.integers(1, 13)), seed % 2 == 0
    if lattice:
        value, cost = rng.integers(-8, 5, n) / 4.0, rng.integers(-4, 5, n) / 2.0
    else:
        value, cost = rng.uniform(-60.0, 3.0, n), rng.uniform(math.log(1e-6), math.log(1e6), n)
        value, cost = value[rng.integers(0, n, n)], cost[rng.integers(0, n, n)]  # repeats are exact ties
    value[rng.random(n) < rng.choice([0.0, 0.2, 0.9])] = -math.inf
    cost[rng.random(n) < rng.choice([0.0, 0.2, 0.9])] = math.inf
    cost[rng.random(n) < rng.choice([0.0, 0.0, 0.2])] = -math.inf
    return value, cost, lattice


def power(seed: int, lattice: bool) -> tuple[CostRule, Formula]:
    alphas = [0.0, 0.25, 0.5, 1.0, 2.0] if lattice else [0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.7, 1.0]
    alpha = float(np.random.default_rng([seed, 1]).choice(alphas))
    return Power(alpha), lambda ei, c, context: best(per_cost(ei, c, mpmath.mpf(alpha)), ei, c)


def cool(seed: int, lattice: bool) -> tuple[CostRule, Formula]:
    return Cool(), lambda ei, c, context: best(cooled(ei, c, context), ei, c)


def cei(seed: int, lattice: bool) -> tuple[CostRule, Formula]:
    lam = float(np.random.default_rng([seed, 2]).choice([0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0]))
    return Contextual(lam), lambda ei, c, context: contextual(ei, c, mpmath.mpf(lam))


def state(seed: int) -> StepContext:
    """Return a state in which a_k = j / 16, exact in binary, by budget or by iterations; j < 1 once used up."""
    j = seed % 19 - 2
    return replace(CONTEXT, spent=20.0 - j, tau=20.0) if seed % 4 < 2 else replace(CONTEXT, step=21 - j, tau=None)


@pytest.mark.parametrize("make", [power, cool, cei])
def test_choices_are_those_of_the_formula(make: Callable[[int, bool], tuple[CostRule, Formula]]) -> None:
    decided = 0
    with mpmath.workdps(50):
        for seed in range(FRONTS):
            value, cost, lattice = front(seed)
            rule, formula = make(seed, lattice)
            ei, c = ([mpmath.exp(mpmath.mpf(x)) for x in logs.tolist()] for logs in (value, cost))
            expected = formula(ei, c, state(seed))
            if expected is not None:
                decided += 1
                found = choose(rule.score(value, cost, state(seed)), value, cost)
                assert found == expected, (seed, vars(rule), value, cost)
    assert decided > 0.97 * FRONTS

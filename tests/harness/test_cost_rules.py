"""The study's identities of the acquisitions, and the choice against brute force."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets.errors import BadInput
from harness.acquisitions import CostRule, StepContext, choose
from harness.acquisitions.cost_rules import Contextual, Cool, Heated, Ignore, Power

CONTEXT = StepContext(*(np.zeros(1),) * 2, 0.0, *(np.zeros(1),) * 2, 5, 100, 5, 10.0, 4.0, 40.0)
INFINITE, FINITE = [-math.inf, -2.0, -1.0, 0.0, 0.5, 3.0, math.inf], [-3.0, -1.0, 0.0, 0.25, 1.0, 2.0]


@st.composite
def fronts(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Log values (some zero: -inf) and finite log costs, with many ties."""
    n = draw(st.integers(1, 12))
    value = st.one_of(st.sampled_from([-math.inf, -1.0, 0.0, 2.0]), st.floats(-50.0, 5.0))
    cost = st.one_of(st.sampled_from(FINITE), st.floats(-14.0, 14.0))
    return np.array(draw(st.lists(value, min_size=n, max_size=n))), np.array(
        draw(st.lists(cost, min_size=n, max_size=n))
    )


RULES: list[CostRule] = [Ignore(), Cool(), *map(Power, (0.0, 0.01, 0.2, 1.0, 2.5))]
RULES += [Contextual(lam) for lam in (0.0, 0.05, 0.5, 0.9, 1.0)]
RULES += [Heated(k) for k in (0.0, 0.5, 1.0)]


def pick(rule: CostRule, value: np.ndarray, cost: np.ndarray, context: StepContext = CONTEXT) -> int:
    return choose(rule.score(value, cost, context), value, cost)


@settings(deadline=None)
@given(st.lists(st.tuples(*(st.sampled_from(INFINITE),) * 3), min_size=1, max_size=12))
def test_choose_follows_the_tie_rule(rows: list[tuple[float, float, float]]) -> None:
    score, value, cost = np.array(rows).T
    brute = min(range(len(rows)), key=lambda i: (-score[i], cost[i], -value[i], i))
    assert choose(score, value, cost) == brute


def test_choose_names_what_is_nan_and_refuses_nothing_to_choose() -> None:
    good, bad = np.array([1.0, 2.0]), np.array([1.0, np.nan])
    for name, arrays in (
        ("score", (bad, good, good)),
        ("log_value", (good, bad, good)),
        ("log_cost", (good, good, bad)),
    ):
        with pytest.raises(ValueError, match=f"{name} is NaN at candidate 1"):
            choose(*arrays)
    with pytest.raises(ValueError, match="no candidate"):
        choose(*(np.empty(0),) * 3)


@settings(deadline=None)
@given(fronts(), st.sampled_from(RULES))
def test_the_chosen_point_is_never_dominated(front: tuple[np.ndarray, np.ndarray], rule: CostRule) -> None:
    value, cost = front
    i = pick(rule, value, cost)
    better = (value >= value[i]) & (cost <= cost[i]) & ((value > value[i]) | (cost < cost[i]))
    assert not better.any()


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(-20, 20))
def test_scaling_all_costs_changes_no_choice(seed: int, doublings: int) -> None:
    rng = np.random.default_rng(seed)
    value = rng.normal(0, 3, 40)
    cost = rng.integers(-64, 64, 40) / 8.0  # exact in binary, as is the shift: no rounding makes or breaks a tie
    scaled = cost + doublings * 2.0
    for rule in RULES:
        assert pick(rule, value, scaled) == pick(rule, value, cost)


def test_infinite_costs_exclude_and_ignored_costs_do_not() -> None:
    value, cost = np.array([1.0, 0.0]), np.array([np.inf, 0.0])
    assert pick(Power(0.0), value, cost) == 0
    assert pick(Power(0.1), value, cost) == 1
    assert pick(Power(1.0), np.array([-np.inf, -9.0]), np.array([-np.inf, 0.0])) == 1


def test_cool_exponents_by_hand() -> None:
    assert Cool().exponent(CONTEXT) == pytest.approx((40 - 10) / (40 - 4))
    assert Cool().exponent(replace(CONTEXT, spent=4.0)) == 1.0
    assert Cool().exponent(replace(CONTEXT, spent=40.0)) == 0.0
    assert Cool().exponent(replace(CONTEXT, spent=50.0)) == 0.0
    assert Cool().exponent(replace(CONTEXT, tau=3.0)) == 0.0
    assert Cool().exponent(replace(CONTEXT, tau=None)) == 1.0
    assert Cool().exponent(replace(CONTEXT, tau=None, step=24)) == pytest.approx(76 / 95)
    assert Cool().exponent(replace(CONTEXT, tau=None, step=100)) == 0.0
    assert Cool().exponent(replace(CONTEXT, tau=None, iterations=5)) == 0.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Contextual(2), r"lam must be a number in \[0, 1\], got 2"),
        (
            lambda: Contextual(None),
            r"lam must be a number in \[0, 1\], and is not set",
        ),
        (lambda: Power(-1), "alpha must be a number >= 0, got -1"),
    ],
)
def test_impossible_parameters_are_reported_in_one_line(make: object, message: str) -> None:
    with pytest.raises(BadInput, match=message) as caught:
        make()  # type: ignore[operator]
    assert "\n" not in str(caught.value)


@settings(deadline=None)
@given(fronts(), st.sampled_from([0.0, 0.3, 1.0]), st.floats(4.0, 40.0))
def test_the_limit_of_cost_rises_from_the_cheapest_to_what_ei_chooses(
    front: tuple[np.ndarray, np.ndarray], k: float, spent: float
) -> None:
    value, cost = front
    share = k * (40.0 - spent) / 36.0
    limit = (1 - share) * cost[pick(Ignore(), value, cost)] + share * cost.min()
    i = pick(Heated(k), value, cost, replace(CONTEXT, spent=spent))
    assert cost[i] <= limit + 1e-9
    assert value[i] >= value[cost <= limit - 1e-9].max(initial=-math.inf)

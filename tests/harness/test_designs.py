"""Random search, the Sobol sequence and CArBO: choices by brute force, and what of a run they depend on."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optimizer_cases import POINTS, evaluate, make_optimizer

from harness.acquisitions import CostRule, FittedData, StepContext
from harness.acquisitions.cost_rules import Cool
from harness.acquisitions.designs import Carbo, RandomSearch, SobolSequence, cheap_and_far
from harness.errors import BadInput
from harness.space import XGBOOST_SPACE
from harness.streams import seed_sequence
from harness.surrogates.gp import GaussianProcess

NAN = np.full(300, math.nan)
STATE = StepContext(NAN, NAN, 0.0, NAN, NAN, 5, 100, 5, 10.0, 4.0, None, points=POINTS, seed=3, problem="a/p")


def chosen(rule: CostRule, context: StepContext) -> int:
    score = rule.score(NAN, NAN, context)
    assert (score > -math.inf).sum() == 1
    return int(score.argmax())


def test_random_search_is_uniform_and_its_draws_are_those_of_seed_problem_and_step() -> None:
    found = np.array([chosen(RandomSearch(), replace(STATE, step=step)) for step in range(1000)])
    counts = np.bincount(found // 30, minlength=10)  # tenths of the candidates
    assert ((counts - 100) ** 2 / 100).sum() < 27.9, "chi-squared, 9 degrees of freedom, 0.1 %"
    for other in ({"seed": 4}, {"problem": "b/p"}):
        again = [chosen(RandomSearch(), replace(STATE, step=step, **other)) for step in range(20)]
        assert again != found[:20].tolist()
    assert [chosen(RandomSearch(), replace(STATE, step=step)) for step in range(20)] == found[:20].tolist()


def test_the_sobol_rule_takes_what_is_nearest_to_the_next_point_of_one_sequence() -> None:
    sequence = XGBOOST_SPACE.sobol(256, seed_sequence(3, "sobol", "a/p"))
    for step in (5, 6, 50, 132, 133, 200):  # beyond 128 points the sequence is made anew, longer
        distance = np.linalg.norm(POINTS - sequence[step - 5], axis=1)
        assert chosen(SobolSequence(), replace(STATE, step=step)) == distance.argmin()
    with pytest.raises(ValueError, match="context with points"):
        SobolSequence().score(NAN, NAN, replace(STATE, points=None))


def brute_force(cost: list[int], gap: list[int]) -> int:
    left = list(range(len(cost)))
    for turn in range(len(cost) - 1):
        dearest, closest = (lambda i: (cost[i], -gap[i], i)), (lambda i: (-gap[i], cost[i], i))
        left.remove(max(left, key=closest if turn % 2 else dearest))
    return left[0]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=20))
def test_the_dearest_and_the_closest_are_removed_in_turn(rows: list[tuple[int, int]]) -> None:
    cost, gap = (list(column) for column in zip(*rows, strict=True))
    assert cheap_and_far(np.array(cost, float), np.array(gap, float)) == brute_force(cost, gap)


COSTS = np.array([1.0, 3.0, 2.0, 0.5, 1.5, 1.0, 1.0])


def carbo_state(step: int, **settings: object) -> StepContext:
    X = POINTS[200 : 200 + step]
    history = FittedData(X, np.zeros(step), GaussianProcess().fit(X, np.zeros(step)))
    cost_s = np.resize(COSTS, step)
    first = {"spent": float(cost_s.sum()), "initial_cost": 8.0, "history": history, "cost_s": cost_s}
    none = np.full(200, math.nan)
    own = {"points": POINTS[:200], "mean": none, "sd": none, "log_cost": none, "log_cost_sd": none}
    return replace(STATE, step=step, **{**own, **first, **settings})


@pytest.mark.parametrize(("tau", "iterations", "end", "seconds"), [
    (None, 60, 8, None),  # an eighth of the iterations, rounded up
    (None, 30, 5, None),  # the initial design is that much already
    (76.0, 60, 7, 10.0),  # 9.5 s are spent after seven evaluations
    (60.0, 60, 5, 8.0),
    (900.0, 60, 8, 11.0),  # the iterations are used up first
])  # fmt: skip
def test_the_design_lasts_for_its_share_and_then_cooling_starts(
    tau: float | None, iterations: int, end: int, seconds: float | None
) -> None:
    rng, rule = np.random.default_rng(1), Carbo()
    value, cost = rng.normal(size=200), rng.normal(size=200)
    for step in range(5, 12):
        context = carbo_state(step, tau=tau, iterations=iterations)
        score = rule.score(value, cost, context)
        assert rule.stays_on_front(context) == (step >= end)
        if step < end:
            gaps = np.linalg.norm(POINTS[:200, None] - POINTS[200 : 200 + step], axis=2).min(axis=1)
            assert score.argmax() == cheap_and_far(cost, gaps) and (score > -math.inf).sum() == 1
            continue
        if tau is None:
            share = (iterations - step) / (iterations - end)
        else:
            assert seconds is not None
            share = (tau - context.spent) / (tau - seconds)
        assert rule.exponent(context) == pytest.approx(share)
        np.testing.assert_allclose(score, value - share * cost, rtol=1e-12)
    whole = carbo_state(9, tau=tau, iterations=iterations)
    assert Carbo(share=0.0).exponent(whole) == Cool().exponent(whole), "without a design it is EI-cool"
    assert not Carbo(share=0.07).stays_on_front(replace(whole, step=6, iterations=100, tau=None))
    assert Carbo(share=0.07).stays_on_front(replace(whole, step=7, iterations=100, tau=None)), "0.07 times 100 is 7"
    with pytest.raises(BadInput, match=r"share must be a number in \[0, 1\], got 2"):
        Carbo(share=2.0)


class _Unfitted(GaussianProcess):
    def fit(self, *_: object) -> None:  # type: ignore[override]
        raise AssertionError("no model is fitted")


@pytest.mark.parametrize("rule", [RandomSearch(), SobolSequence()])
def test_no_model_is_fitted_and_nothing_is_predicted(rule: CostRule) -> None:
    optimizer = make_optimizer(rule, _Unfitted())
    for x in POINTS[:6]:
        optimizer.tell(x, evaluate(x))
    proposal = optimizer.ask(POINTS[6:])
    none = NAN[6:]
    own = replace(STATE, step=6, iterations=40, seed=0, problem="", points=POINTS[6:], mean=none, sd=none,
                  log_cost=none, log_cost_sd=none)  # fmt: skip
    assert proposal.index == rule.score(none, none, own).argmax()
    ends = proposal.effective_alpha, proposal.effective_alpha_high
    assert np.isnan([proposal.log_ei, proposal.predicted_cost_s, *ends]).all() and proposal.hyperparameters is None
    assert proposal.fit_ms == 0.0 and not optimizer.uses_models
    with pytest.raises(ValueError, match="ask before looking"):
        optimizer.outlook(POINTS)

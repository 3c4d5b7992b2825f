"""Utilities that plan ahead: MCMS against full enumeration, B-MS-EI against its recursion, deadlines."""

from typing import Any

import lookahead_truth
import numpy as np
import pytest
from lookahead_cases import data, make_context
from scipy.stats import lognorm

from datasets.errors import BadInput
from harness.acquisitions import choose
from harness.acquisitions.cost_rules import Contextual
from harness.acquisitions.entropy import EntropySearch
from harness.acquisitions.lookahead import latent_log_ei
from harness.acquisitions.rollouts import BudgetedMultiStepEI, MonteCarloMultiStep, RemainingBudget, rollout_values
from harness.surrogates import Joint


@pytest.mark.parametrize("cost", [[1.0, 1.0, 1.0, 1.0], [1.0, 2.0, 1.0, 3.0], [2.0, 1.5, 0.5, 1.0]])
def test_mcms_is_full_enumeration_with_four_candidates_and_three_steps(cost: list[float]) -> None:
    assert lookahead_truth.mcms_by_enumeration(cost) < 0.015


def test_with_a_deadline_of_one_evaluation_mcms_and_bmsei_are_ei() -> None:
    X, y = data(8)
    C = np.random.default_rng(1).random((50, 2))
    assert lookahead_truth.mcms_with_one_evaluation_left_is_ei() == 0.0
    last = make_context(C, X, y, iterations=len(y) + 1)
    seconds = make_context(C, X, y, tau=5.9, spent=4.0)
    for context in (last, seconds):
        expected = latent_log_ei(context)
        np.testing.assert_allclose(BudgetedMultiStepEI(shortlist=50).log_value(context), expected, rtol=1e-12)
        np.testing.assert_array_equal(BudgetedMultiStepEI(steps=1).log_value(context), expected)


def test_a_deadline_below_the_cheapest_evaluation_leaves_nothing() -> None:
    X, y = data()
    C = np.random.default_rng(1).random((9, 2))
    for tau in (4.5, 4.0, 3.0):
        late = make_context(C, X, y, tau=tau, spent=4.0)
        assert (MonteCarloMultiStep().log_value(late) == -np.inf).all()
        assert (BudgetedMultiStepEI().log_value(late) == -np.inf).all()
    one = make_context(C[:1], X, y)
    assert MonteCarloMultiStep().log_value(one)[0] == latent_log_ei(one)[0]


def test_an_uncertain_cost_counts_by_its_chance_to_fit() -> None:
    X, y = data(8)
    C = np.random.default_rng(1).random((20, 2))
    mean, sd = np.random.default_rng(2).normal(0.0, 0.4, 20), np.full(20, 0.7)
    context = make_context(C, X, y, tau=5.7, spent=4.0, log_cost=mean, log_cost_sd=sd)
    chance = lognorm(0.7, scale=np.exp(mean)).cdf(1.7)
    np.testing.assert_allclose(RemainingBudget.of(context).log_chance(), np.log(chance), atol=1e-9)
    one = BudgetedMultiStepEI(steps=1).log_value(context)
    np.testing.assert_allclose(one, latent_log_ei(context) + np.log(chance), atol=1e-9)
    assert (mean > np.log(1.7)).any()  # even those that more probably do not fit count by their chance
    np.testing.assert_allclose(MonteCarloMultiStep(steps=1, shortlist=20).log_value(context), one, atol=1e-9)


@pytest.mark.parametrize("utility", [MonteCarloMultiStep, BudgetedMultiStepEI])
def test_far_from_the_deadline_a_dear_candidate_costs_the_evaluations_that_its_time_would_buy(utility: Any) -> None:
    X, y = data(8)
    C = np.random.default_rng(1).random((30, 2))
    dear = np.where(np.arange(30) % 2 == 0, 0.0, np.log(10.0))

    def value(planned: bool, log_cost: np.ndarray) -> np.ndarray:
        context = make_context(C, X, y, tau=1004.0, spent=4.0, log_cost=log_cost, iterations=len(y) + 1000)
        return utility(shortlist=30, pool=30, planned=planned, marginal=False).log_value(context)

    same, planned, whole = value(True, np.zeros(30)), value(True, dear), value(False, dear)
    np.testing.assert_allclose(same, value(False, np.zeros(30)), rtol=1e-12)  # a plan of equal costs is never cut
    assert np.abs(whole - same).max() < 1e-9  # without a plan's budget, costs do not matter with so much left
    assert (planned[1::2] < whole[1::2]).all() and (whole - planned)[1::2].mean() > 0.005
    own = latent_log_ei(make_context(C, X, y))
    assert (planned >= own - 1e-12).all()  # its own improvement stays


@pytest.mark.parametrize("noise", [1e-6, 0.5])
def test_the_fall_along_a_path_is_that_of_the_values_drawn(noise: float) -> None:
    """By brute force in NumPy: draw f and its noise, choose by EI given the noisy observation, take the fall of f."""
    X, y = data(8)
    C = np.random.default_rng(1).random((5, 2))
    joint = lookahead_truth.posterior(X, y, noise=noise).joint(C)
    best, rng, every = float(y.min()), np.random.default_rng(3), np.arange(20_000)
    f = joint.draw(rng.standard_normal((len(every), 5)))
    seen = f[:, 0] + np.sqrt(noise) * rng.standard_normal(len(every))
    mean, covariance = lookahead_truth.given(joint.mean, joint.covariance, noise, 0, seen)
    low = np.minimum(best, f[:, 0])
    then = 1 + lookahead_truth.ei(low[:, None] - mean[:, 1:], covariance.diagonal()[1:]).argmax(axis=1)
    fall = np.maximum(low - f[every, then], 0.0)
    clock, normals = RemainingBudget(2.0, np.zeros(5), np.zeros(5)), rng.standard_normal((20_000, 5, 3))
    found = rollout_values(joint, clock, np.array([0]), best, normals, 2).mean()
    assert found == pytest.approx(fall.mean(), abs=4.0 * fall.std() / np.sqrt(len(fall))) and fall.mean() > 0.01


def test_paths_draw_costs_from_the_prediction() -> None:
    """Two equal points far from all else: the second is reached iff the two costs drawn fit."""
    joint = Joint(np.zeros(2), np.eye(2), 0.0)
    clock = RemainingBudget(2.5, np.zeros(2), np.full(2, 0.5))
    rng = np.random.default_rng(0)
    normals = rng.standard_normal((200_000, 2, 3))
    found = rollout_values(joint, clock, np.array([0]), 0.0, normals, 2)[0]
    fits = 2.5 - np.exp(0.5 * normals[:, 0, 2]) >= 1.0
    fits &= np.exp(0.5 * normals[:, 0, 2]) + np.exp(0.5 * normals[:, 1, 2]) <= 2.5
    expected = np.where(fits, lookahead_truth.ei(np.minimum(0.0, normals[:, 0, 0]), 1.0), 0.0)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-15)


def test_with_overrun_what_begins_in_time_counts_and_any_point_may_be_next() -> None:
    """Points of 1 s: in 1.5 s two begin and in 2 s no third; a point of 10 s counts beside them like any other."""
    X, y = data(8)
    joint = lookahead_truth.posterior(X, y).joint(np.random.default_rng(1).random((9, 2)))
    starts, normals = np.array([-1, *range(9)]), np.random.default_rng(2).standard_normal((40, 9, 3))

    def found(left: float, steps: int, log_cost: Any = 0.0, overrun: bool = True) -> np.ndarray:
        clock = RemainingBudget(left, np.zeros(9) + log_cost, np.zeros(9))
        return rollout_values(joint, clock, starts, float(y.min()), normals, steps, overrun)

    np.testing.assert_array_equal(found(1.5, 9), found(2.0, 9))
    np.testing.assert_array_equal(found(1.5, 9), found(9.0, 2, overrun=False))
    assert (found(2.5, 9).mean(axis=1) > found(2.0, 9).mean(axis=1)).all()
    dear = found(1.5, 9, np.log(np.where(np.arange(9) == 4, 10.0, 1.0)))
    np.testing.assert_array_equal(np.delete(dear, [0, 5], axis=0), np.delete(found(1.5, 9), [0, 5], axis=0))
    assert (dear[5] == 0.0).all()  # nothing begins after it
    assert (found(0.0, 9)[0] == 0.0).all()


def test_published_mcms_scores_every_candidate_until_time_is_up() -> None:
    X, y = data(8)
    C = np.random.default_rng(1).random((150, 2))
    log_cost = np.random.default_rng(2).normal(0.0, 1.0, 150)
    last = make_context(C, X, y, tau=4.0 + np.exp(log_cost.min()) / 2, spent=4.0, log_cost=log_cost)
    np.testing.assert_allclose(MonteCarloMultiStep.published().log_value(last), latent_log_ei(last), rtol=1e-12)
    long = make_context(C, X, y, tau=14.0, spent=4.0, log_cost=log_cost, iterations=100)
    value, shortcut = (MonteCarloMultiStep.published(**s).log_value(long) for s in ({}, {"shortlist": 20}))
    assert np.isfinite(value).all() and (value >= latent_log_ei(long)).all()
    scored = np.isfinite(shortcut)
    assert scored.sum() == 20
    np.testing.assert_array_equal(shortcut[scored], value[scored])
    over = make_context(C, X, y, tau=4.0, spent=4.0, log_cost=log_cost)
    assert (MonteCarloMultiStep.published().log_value(over) == -np.inf).all()


@pytest.mark.parametrize("uncertain", [False, True])
def test_two_step_bmsei_is_its_recursion(uncertain: bool) -> None:
    assert lookahead_truth.bmsei_by_its_recursion(uncertain, outcomes=24, costs=16) < 0.02
    assert lookahead_truth.bmsei_by_its_recursion(uncertain) < 0.055


@pytest.mark.parametrize(("noise", "apart"), [(1e-6, 0.015), (0.05, 0.015), (0.5, 0.04)])
def test_two_steps_of_mcms_and_of_bmsei_are_one_utility_but_for_the_second_choice(noise: float, apart: float) -> None:
    assert lookahead_truth.mcms_and_bmsei_of_two_steps(noise) < apart


@pytest.mark.parametrize("name", ["mcms", "bmsei", "es"])
def test_the_cheapest_and_the_best_per_cost_are_on_the_shortlist_without_a_deadline_too(name: str) -> None:
    X, y = data(8)
    C = np.random.default_rng(1).random((300, 2))
    log_cost = np.random.default_rng(2).normal(0.0, 1.5, 300)
    context = make_context(C, X, y, log_cost=log_cost, iterations=len(y) + 50)
    own = latent_log_ei(context)
    wanted = [int(log_cost.argmin()), int(own.argmax()), int((own - log_cost).argmax())]
    assert len({*wanted, 0}) == 4  # each another one, none of them the first
    kinds: dict[str, Any] = {"mcms": MonteCarloMultiStep, "bmsei": BudgetedMultiStepEI, "es": EntropySearch}
    found = np.isfinite(kinds[name](shortlist=6).log_value(context))
    assert found[wanted].all()
    assert not found[0] and found.sum() <= 6


UTILITIES = pytest.mark.parametrize("kind", [MonteCarloMultiStep, BudgetedMultiStepEI])


@UTILITIES
@pytest.mark.parametrize("left", [None, 3.0])
def test_worth_is_the_plans_value_less_a_constant_so_that_the_choice_is_the_same(kind: Any, left: float | None) -> None:
    X, y = data(8)
    C, log_cost = np.random.default_rng(1).random((30, 2)), np.random.default_rng(2).normal(0.0, 1.0, 30)
    tau = {} if left is None else {"tau": 4.0 + left, "spent": 4.0}
    context = make_context(C, X, y, log_cost=log_cost, **tau)
    whole, worth = (np.exp(kind(shortlist=30, pool=30, marginal=m).log_value(context)) for m in (False, True))
    assert whole.argmax() == worth.argmax()
    kept = worth > 0.0
    assert kept.sum() >= 2
    base = (whole - worth)[kept].mean()
    assert base > 0.1 * whole.max()
    np.testing.assert_allclose((whole - worth)[kept], base, rtol=1e-9)
    assert (whole[~kept] <= base * (1.0 + 1e-9)).all()


def test_worth_of_mcms_is_over_the_enumerated_myopic_future() -> None:
    assert lookahead_truth.mcms_without_the_candidate() < 0.015


@UTILITIES
def test_under_the_contextual_rule_a_common_future_does_not_make_a_worthless_point_do(kind: Any) -> None:
    """Point 0 lies on an observed one and costs next to nothing; the others cost ten times as much."""
    X, y = data(8)
    C = np.vstack([X[y.argmax()], np.random.default_rng(1).random((29, 2))])
    context = make_context(C, X, y, log_cost=np.where(np.arange(30) == 0, -3.0, np.log(10.0)), iterations=len(y) + 50)
    chosen = []
    for marginal in (False, True):
        value = kind(shortlist=30, pool=30, marginal=marginal, **({"steps": 10} if kind is MonteCarloMultiStep else {}))
        log_value = value.log_value(context)
        chosen.append(choose(Contextual(0.5).score(log_value, context.log_cost, context), log_value, context.log_cost))
    assert chosen[0] == 0
    assert chosen[1] != 0


def test_wrong_settings_are_reported_in_one_line() -> None:
    with pytest.raises(BadInput, match=r"utility\.paths must be a whole number >= 1, got 0"):
        MonteCarloMultiStep(paths=0)
    with pytest.raises(BadInput, match=r"utility\.outcomes must be a whole number from 2 to 100, got 1"):
        BudgetedMultiStepEI(outcomes=1)

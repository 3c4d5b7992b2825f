"""Utilities that plan ahead: MCMS against full enumeration, B-MS-EI against its recursion, deadlines."""

from pathlib import Path
from typing import Any

import lookahead_truth
import numpy as np
import pytest
from fakes import make_tables
from lookahead_cases import believe, data
from scipy.stats import lognorm

from datasets.errors import BadInput
from harness.acquisitions import choose
from harness.acquisitions.cost_rules import Contextual, Ignore
from harness.acquisitions.ei import expected_improvement, log_ei
from harness.acquisitions.entropy import EntropySearch
from harness.acquisitions.lookahead import excess, latent_log_ei, leaders
from harness.acquisitions.rollouts import BudgetedMultiStepEI, MonteCarloMultiStep, RemainingBudget, rollout_values
from harness.cost_models.gp import GaussianProcessCost
from harness.optimizer import Optimizer
from harness.surrogates import Joint
from harness.surrogates.gp import GaussianProcess
from tabular_cache.replay import ReplayProblem
from tabular_cache.table import load_table


@pytest.mark.parametrize("cost", [[1.0, 1.0, 1.0, 1.0], [1.0, 2.0, 1.0, 3.0], [2.0, 1.5, 0.5, 1.0]])
def test_mcms_is_full_enumeration_with_four_candidates_and_three_steps(cost: list[float]) -> None:
    assert lookahead_truth.mcms_by_enumeration(cost) < 0.015


def test_with_a_deadline_of_one_evaluation_mcms_and_bmsei_are_ei() -> None:
    X, y = data(8)
    C = np.random.default_rng(1).random((50, 2))
    assert lookahead_truth.mcms_with_one_evaluation_left_is_ei() == 0.0
    last = believe(C, X, y, iterations=len(y) + 1)
    seconds = believe(C, X, y, tau=5.9, spent=4.0)
    for belief in (last, seconds):
        expected = latent_log_ei(belief)
        np.testing.assert_allclose(BudgetedMultiStepEI(shortlist=50).log_value(belief), expected, rtol=1e-12)
        np.testing.assert_array_equal(BudgetedMultiStepEI(steps=1).log_value(belief), expected)


def test_a_deadline_below_the_cheapest_evaluation_leaves_nothing() -> None:
    X, y = data()
    C = np.random.default_rng(1).random((9, 2))
    for tau in (4.5, 4.0, 3.0):
        late = believe(C, X, y, tau=tau, spent=4.0)
        assert (MonteCarloMultiStep().log_value(late) == -np.inf).all()
        assert (BudgetedMultiStepEI().log_value(late) == -np.inf).all()
    one = believe(C[:1], X, y)
    assert MonteCarloMultiStep().log_value(one)[0] == latent_log_ei(one)[0]


def test_what_does_not_fit_is_worth_nothing_and_more_time_is_worth_more() -> None:
    X, y = data(8)
    C = np.random.default_rng(1).random((30, 2))
    cost = np.where(np.arange(30) % 2 == 0, 0.0, np.log(10.0))
    values = [
        MonteCarloMultiStep(shortlist=30, pool=30, paths=400, marginal=False).log_value(
            believe(C, X, y, tau=4.0 + left, spent=4.0, log_cost=cost)
        )
        for left in (2.0, 4.0, 30.0)
    ]
    assert (values[0][1::2] == -np.inf).all()
    assert np.isfinite(values[0][::2]).all()
    assert (values[1][::2] >= values[0][::2]).all()
    assert np.isfinite(values[2]).all()


def test_an_uncertain_cost_counts_by_its_chance_to_fit() -> None:
    X, y = data(8)
    C = np.random.default_rng(1).random((20, 2))
    mean, sd = np.random.default_rng(2).normal(0.0, 0.4, 20), np.full(20, 0.7)
    belief = believe(C, X, y, tau=5.7, spent=4.0, log_cost=mean, log_cost_sd=sd)
    chance = lognorm(0.7, scale=np.exp(mean)).cdf(1.7)
    np.testing.assert_allclose(RemainingBudget.of(belief).log_chance(), np.log(chance), atol=1e-9)
    one = BudgetedMultiStepEI(steps=1).log_value(belief)
    np.testing.assert_allclose(one, latent_log_ei(belief) + np.log(chance), atol=1e-9)
    assert (mean > np.log(1.7)).any()  # even those that more probably do not fit count by their chance
    np.testing.assert_allclose(MonteCarloMultiStep(steps=1, shortlist=20).log_value(belief), one, atol=1e-9)


@pytest.mark.parametrize("utility", [MonteCarloMultiStep, BudgetedMultiStepEI])
def test_far_from_the_deadline_a_dear_candidate_costs_the_evaluations_that_its_time_would_buy(utility: Any) -> None:
    X, y = data(8)
    C = np.random.default_rng(1).random((30, 2))
    dear = np.where(np.arange(30) % 2 == 0, 0.0, np.log(10.0))

    def value(planned: bool, log_cost: np.ndarray) -> np.ndarray:
        belief = believe(C, X, y, tau=1004.0, spent=4.0, log_cost=log_cost, iterations=len(y) + 1000)
        return utility(shortlist=30, pool=30, planned=planned, marginal=False).log_value(belief)

    same, planned, whole = value(True, np.zeros(30)), value(True, dear), value(False, dear)
    np.testing.assert_allclose(same, value(False, np.zeros(30)), rtol=1e-12)  # a plan of equal costs is never cut
    assert np.abs(whole - same).max() < 1e-9  # without a plan's budget, costs do not matter with so much left
    assert (planned[1::2] < whole[1::2]).all() and (whole - planned)[1::2].mean() > 0.005
    own = latent_log_ei(believe(C, X, y))
    assert (planned >= own - 1e-12).all()  # its own improvement stays


@pytest.mark.parametrize("utility", [MonteCarloMultiStep, BudgetedMultiStepEI])
def test_a_plan_does_not_miss_by_chance_what_it_was_given(utility: Any) -> None:
    """Far from the deadline, equal costs: how sure the cost model is of them plays no part."""
    X, y = data(8)
    C = np.random.default_rng(1).random((30, 2))

    def value(sd: float) -> np.ndarray:
        belief = believe(C, X, y, tau=1004.0, log_cost=np.zeros(30), log_cost_sd=np.full(30, sd), iterations=1000)
        return utility(shortlist=30, pool=30).log_value(belief)

    np.testing.assert_allclose(value(0.3), value(0.0), atol=1e-9)
    X, y = X[:3], y[:3]
    near = believe(C, X, y, tau=4.5, spent=3.0, log_cost=np.zeros(30), log_cost_sd=np.full(30, 0.3), iterations=1000)
    assert RemainingBudget.of(near).planned(latent_log_ei(near), 2).log_cost_sd.all(), (
        "the deadline itself stays a risk"
    )


def test_two_noisy_looks_at_one_value_find_it_once() -> None:
    """Perfectly dependent points: what the first found is what the second finds, whatever the noise on top of it."""
    joint = Joint(np.zeros(2), np.ones((2, 2)), 1.0)
    clock = RemainingBudget(2.0, np.zeros(2), np.zeros(2))
    normals = np.random.default_rng(0).standard_normal((2000, 2, 3))
    assert np.abs(rollout_values(joint, clock, np.array([0]), 0.0, normals, 2)).max() < 1e-4  # the draw's own jitter
    later = BudgetedMultiStepEI(outcomes=24)._later(joint, clock, 0.0, 1, 0)
    assert np.exp(later) < 1e-9


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


@pytest.mark.parametrize("utility", [MonteCarloMultiStep(), BudgetedMultiStepEI()])
def test_a_run_that_ends_before_its_deadline_has_no_future_either(utility: Any) -> None:
    X, y = data(8)
    last = believe(np.random.default_rng(1).random((20, 2)), X, y, tau=1004.0, iterations=len(y) + 1)
    np.testing.assert_allclose(utility.log_value(last), latent_log_ei(last), rtol=1e-12)


@pytest.mark.parametrize("name", ["mcms", "bmsei"])
def test_the_time_taken_is_that_of_the_cost_model_whatever_statistic_the_rule_takes(name: str, tmp_path: Path) -> None:
    problem = ReplayProblem(load_table("a/p", make_tables(tmp_path, ["a/p"], 40)), 0, max_candidates=200)
    design, offered, found = problem.initial(8), problem.candidates(8), []
    for statistic in ("exp_mean", "expected"):
        utility = MonteCarloMultiStep() if name == "mcms" else BudgetedMultiStepEI()
        method = Optimizer(GaussianProcess(), GaussianProcessCost(), utility, Ignore(), iterations=40, n_initial=8,
                           tau=5.0, cost_statistic=statistic)  # fmt: skip
        again = ReplayProblem(load_table("a/p", tmp_path), 0, max_candidates=200)
        for i, point in zip(design.ids, design.unit, strict=True):
            method.tell(point, again.evaluate(int(i)))
        found.append(method.ask(offered.unit))
    assert (found[0].index, found[0].log_ei) == (found[1].index, found[1].log_ei)


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


@pytest.mark.parametrize("uncertain", [False, True])
def test_two_step_bmsei_is_its_recursion(uncertain: bool) -> None:
    assert lookahead_truth.bmsei_by_its_recursion(uncertain, outcomes=24, costs=16) < 0.02
    assert lookahead_truth.bmsei_by_its_recursion(uncertain) < 0.055


@pytest.mark.parametrize(("noise", "apart"), [(1e-6, 0.015), (0.05, 0.015), (0.5, 0.04)])
def test_two_steps_of_mcms_and_of_bmsei_are_one_utility_but_for_the_second_choice(noise: float, apart: float) -> None:
    assert lookahead_truth.mcms_and_bmsei_of_two_steps(noise) < apart


def test_each_step_more_is_worth_more_and_a_third_step_more_than_myopic_paths() -> None:
    X, y = data(6)
    C = np.random.default_rng(3).random((5, 2))
    belief = believe(C, X, y, iterations=len(y) + 3)
    values = [BudgetedMultiStepEI(steps, pool=5, branch=5, marginal=False).log_value(belief) for steps in (1, 2, 3)]
    assert (np.diff(values, axis=0) > 0).all()
    assert (
        np.logaddexp(values[2], -9.0).max()
        >= MonteCarloMultiStep(paths=20_000, marginal=False).log_value(belief).max() - 0.03
    )


def test_the_compiled_ei_is_ei() -> None:
    gap, sd = np.linspace(-4, 4, 41), 0.7
    expected = np.exp(log_ei(gap, np.full(41, sd)))
    np.testing.assert_allclose([expected_improvement(g, sd) for g in gap], expected, rtol=1e-9)
    assert expected_improvement(2.0, 0.0) == 2.0
    assert expected_improvement(-2.0, 0.0) == expected_improvement(-50.0, 1.0) == 0.0


def test_leaders_hold_the_cheapest_and_the_best_by_value_per_cost() -> None:
    rng = np.random.default_rng(0)
    value, cost = rng.normal(size=200), rng.normal(size=200)
    found = leaders(value, cost, 20, (0.0, 1.0))
    assert len(found) == 20
    assert {int(cost.argmin()), int(value.argmax()), int((value - cost).argmax())} <= set(found.tolist())
    order = np.argsort(-value)
    assert set(order[:8].tolist()) <= set(found.tolist())
    np.testing.assert_array_equal(leaders(value, cost + 5.0, 20), leaders(value, cost, 20))
    np.testing.assert_array_equal(leaders(value[:3], cost[:3], 20), [0, 1, 2])
    assert leaders(value, cost, 1).tolist() == [value.argmax()]
    assert set(leaders(value, cost, 2).tolist()) == {int(value.argmax()), int(cost.argmin())}


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("name", ["mcms", "bmsei", "es"])
def test_the_cheapest_and_the_best_per_cost_are_on_the_shortlist_without_a_deadline_too(name: str, timed: bool) -> None:
    X, y = data(8)
    C = np.random.default_rng(1).random((300, 2))
    log_cost = np.random.default_rng(2).normal(0.0, 1.5, 300)
    changes: dict[str, Any] = {"tau": 504.0, "spent": 4.0} if timed else {}
    belief = believe(C, X, y, log_cost=log_cost, iterations=len(y) + 50, **changes)
    own = latent_log_ei(belief)
    wanted = [int(log_cost.argmin()), int(own.argmax()), int((own - log_cost).argmax())]
    assert len({*wanted, 0}) == 4  # each another one, none of them the first
    kinds: dict[str, Any] = {"mcms": MonteCarloMultiStep, "bmsei": BudgetedMultiStepEI, "es": EntropySearch}
    found = np.isfinite(kinds[name](shortlist=6).log_value(belief))
    assert found[wanted].all()
    assert not found[0] and found.sum() <= 6


UTILITIES = pytest.mark.parametrize("kind", [MonteCarloMultiStep, BudgetedMultiStepEI])


@UTILITIES
@pytest.mark.parametrize("left", [None, 3.0, 60.0])
def test_worth_is_the_plans_value_less_a_constant_so_that_the_choice_is_the_same(kind: Any, left: float | None) -> None:
    X, y = data(8)
    C, log_cost = np.random.default_rng(1).random((30, 2)), np.random.default_rng(2).normal(0.0, 1.0, 30)
    tau = {} if left is None else {"tau": 4.0 + left, "spent": 4.0}
    belief = believe(C, X, y, log_cost=log_cost, **tau)
    whole, worth = (np.exp(kind(shortlist=30, pool=30, marginal=m).log_value(belief)) for m in (False, True))
    assert whole.argmax() == worth.argmax()
    kept = worth > 0.0
    assert kept.sum() >= 2
    base = (whole - worth)[kept].mean()
    assert base > 0.1 * whole.max()
    np.testing.assert_allclose((whole - worth)[kept], base, rtol=1e-9)
    assert (whole[~kept] <= base * (1.0 + 1e-9)).all()


@UTILITIES
def test_of_two_evaluations_worth_is_over_the_best_single_one(kind: Any) -> None:
    """EI(x) + E[max EI after x] - max EI: what a plan of one evaluation, without x, has."""
    X, y = data(8)
    belief = believe(np.random.default_rng(1).random((30, 2)), X, y, iterations=len(y) + 2)
    whole, worth = (np.exp(kind(shortlist=30, pool=30, marginal=m).log_value(belief)) for m in (False, True))
    expected = whole - np.exp(latent_log_ei(belief)).max()
    np.testing.assert_allclose(worth, np.maximum(expected, 0.0), rtol=1e-9, atol=1e-15)


def test_worth_of_mcms_is_over_the_enumerated_myopic_future() -> None:
    assert lookahead_truth.mcms_without_the_candidate() < 0.015


@UTILITIES
def test_under_the_contextual_rule_a_common_future_does_not_make_a_worthless_point_do(kind: Any) -> None:
    """Point 0 lies on an observed one and costs next to nothing; the others cost ten times as much."""
    X, y = data(8)
    C = np.vstack([X[y.argmax()], np.random.default_rng(1).random((29, 2))])
    belief = believe(C, X, y, log_cost=np.where(np.arange(30) == 0, -3.0, np.log(10.0)), iterations=len(y) + 50)
    chosen = []
    for marginal in (False, True):
        value = kind(shortlist=30, pool=30, marginal=marginal, **({"steps": 10} if kind is MonteCarloMultiStep else {}))
        log_value = value.log_value(belief)
        chosen.append(choose(Contextual(0.5).score(log_value, belief.log_cost, belief), log_value, belief.log_cost))
    assert chosen[0] == 0
    assert chosen[1] != 0


def test_an_excess_keeps_the_order_where_nothing_is_above_the_base() -> None:
    value = np.array([-np.inf, 0.0, 1.0])
    np.testing.assert_allclose(np.exp(excess(value, np.log(2.0))), [0.0, 0.0, np.e - 2.0])
    for base in (-np.inf, 1.0, 5.0):
        np.testing.assert_array_equal(excess(value, base), value)


def test_wrong_settings_are_told_in_one_line() -> None:
    with pytest.raises(BadInput, match=r"utility\.paths must be a whole number >= 1, got 0"):
        MonteCarloMultiStep(paths=0)
    with pytest.raises(BadInput, match=r"utility\.outcomes must be a whole number from 2 to 100, got 1"):
        BudgetedMultiStepEI(outcomes=1)

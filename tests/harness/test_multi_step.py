"""Utilities that plan ahead: MCMS against full enumeration, B-MS-EI against its recursion, deadlines."""

import numpy as np
import pytest
from lookahead_cases import believe, data, grid, posterior
from scipy.special import ndtr
from scipy.stats import lognorm

from harness.acquisitions.bmsei import BudgetedMultiStepEI
from harness.acquisitions.ei import log_ei
from harness.acquisitions.lookahead import Clock, latent_log_ei, leaders
from harness.acquisitions.mcms import MonteCarloMultiStep
from harness.acquisitions.paths import expected_improvement, path_values
from harness.errors import BadInput
from harness.surrogates.joint import Joint


def ei(gap, variance):
    sd = np.sqrt(np.maximum(variance, 1e-300))
    return gap * ndtr(gap / sd) + sd * np.exp(-0.5 * (gap / sd) ** 2) / np.sqrt(2 * np.pi)


def given(mean, covariance, noise: float, i: int, y: float):
    """The Gaussian after observing y at i, by the textbook formula."""
    gain = covariance[:, i] / (covariance[i, i] + noise)
    return mean + gain * (y - mean[i]), covariance - np.outer(gain, covariance[i])


def enumerate_myopic(mean, covariance, cost, i: int, best: float, left: float, free: list[int], n: int = 120):
    """The expected fall of the incumbent if i is evaluated and myopic EI goes on: every outcome in turn, noiseless."""
    if cost[i] > left + 1e-9:
        return 0.0
    total = float(ei(best - mean[i], covariance[i, i]))
    left, free = left - cost[i], [j for j in free if j != i]
    fits = [j for j in free if cost[j] <= left + 1e-9]
    if not fits:
        return total
    later = []
    for z in grid(n):
        value = mean[i] + np.sqrt(covariance[i, i]) * z
        m, c = given(mean, covariance, 0.0, i, value)
        lowest = min(best, value)
        following = fits[int(ei(lowest - m[fits], c.diagonal()[fits]).argmax())]
        later.append(enumerate_myopic(m, c, cost, following, lowest, left, free, n // 4))
    return total + float(np.mean(later))


@pytest.mark.parametrize("cost", [[1.0, 1.0, 1.0, 1.0], [1.0, 2.0, 1.0, 3.0], [2.0, 1.5, 0.5, 1.0]])
def test_mcms_is_full_enumeration_with_four_candidates_and_three_steps(cost: list[float]) -> None:
    X = np.array([[0.2, 0.2], [0.9, 0.4], [0.5, 0.95]])
    y = np.array([1.0, 0.4, 0.8])
    C = np.array([[0.6, 0.3], [0.1, 0.8], [0.8, 0.75], [0.35, 0.5]])
    seconds = np.array(cost)
    model = posterior(X, y, noise=1e-10)
    belief = believe(C, X, y, model, tau=7.0, spent=4.0, log_cost=np.log(seconds))
    found = np.exp(MonteCarloMultiStep(paths=40_000).log_value(belief))
    joint, best = model.joint(C), belief.incumbent
    every = [0, 1, 2, 3]
    expected = [enumerate_myopic(joint.mean, joint.covariance, seconds, i, best, 3.0, every) for i in every]
    np.testing.assert_allclose(found, expected, rtol=0.015)
    assert (found > np.exp(latent_log_ei(belief)) * (1.02 if max(cost) == 1.0 else 1.0 - 1e-12)).all()


def test_with_a_deadline_of_one_evaluation_mcms_and_bmsei_are_ei() -> None:
    X, y = data(8)
    C = np.random.default_rng(1).random((50, 2))
    last = believe(C, X, y, iterations=len(y) + 1)
    seconds = believe(C, X, y, tau=5.9, spent=4.0)
    for belief in (last, seconds):
        expected = latent_log_ei(belief)
        np.testing.assert_array_equal(MonteCarloMultiStep(shortlist=50).log_value(belief), expected)
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
        MonteCarloMultiStep(shortlist=30, pool=30, paths=400).log_value(
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
    np.testing.assert_allclose(Clock.of(belief).log_chance(), np.log(chance), atol=1e-9)
    one = BudgetedMultiStepEI(steps=1).log_value(belief)
    np.testing.assert_allclose(one, latent_log_ei(belief) + np.log(chance), atol=1e-9)
    simulated = MonteCarloMultiStep(steps=1, shortlist=20).log_value(belief)
    fits = mean <= np.log(1.7)
    np.testing.assert_allclose(simulated[fits], one[fits], atol=1e-9)


def test_paths_draw_costs_from_the_prediction() -> None:
    """Two equal points far from all else: the second is reached iff the two costs drawn fit."""
    joint = Joint(np.zeros(2), np.eye(2), 0.0)
    clock = Clock(2.5, np.zeros(2), np.full(2, 0.5))
    rng = np.random.default_rng(0)
    normals = rng.standard_normal((200_000, 2, 3))
    found = path_values(joint, clock, np.array([0]), 0.0, normals)[0]
    fits = 2.5 - np.exp(0.5 * normals[:, 0, 2]) >= 1.0
    fits &= np.exp(0.5 * normals[:, 0, 2]) + np.exp(0.5 * normals[:, 1, 2]) <= 2.5
    expected = np.where(fits, ei(np.minimum(0.0, normals[:, 0, 0]), 1.0), 0.0)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-15)


def two_steps(joint: Joint, chance, best: float, i: int, costs: np.ndarray, left: float) -> float:
    """Q_2 by a fine grid of outcomes and costs, each equally likely."""
    sd, rest = np.sqrt(joint.covariance[i, i] + joint.noise), [j for j in range(len(joint.mean)) if j != i]
    fit = [c for c in costs if c <= left]
    chances = np.array([chance(left - c)[rest] for c in fit]).reshape(len(fit), len(rest))
    later = []
    for z in grid(200):
        y = joint.mean[i] + sd * z
        mean, covariance = given(joint.mean, joint.covariance, joint.noise, i, y)
        value = ei(min(best, y) - mean[rest], covariance.diagonal()[rest])
        later.append((value * chances).max(axis=1).sum() / len(costs))
    return float(ei(best - joint.mean[i], joint.covariance[i, i]) * chance(left)[i] + np.mean(later))


@pytest.mark.parametrize("uncertain", [False, True])
def test_two_step_bmsei_is_its_recursion(uncertain: bool) -> None:
    X, y = data(6)
    C = np.random.default_rng(3).random((7, 2))
    mean = np.log(np.array([1.0, 0.5, 2.0, 0.7, 1.5, 0.9, 1.2]))
    sd = np.full(7, 0.5 if uncertain else 0.0)
    belief = believe(C, X, y, tau=6.2, spent=4.0, log_cost=mean, log_cost_sd=sd)

    def chance(left: float) -> np.ndarray:
        if left <= 0:
            return np.zeros(7)
        return ndtr((np.log(left) - mean) / 0.5) if uncertain else (np.exp(mean) <= left + 1e-9).astype(float)

    found = np.exp(BudgetedMultiStepEI(outcomes=24, costs=16).log_value(belief))
    joint = belief.history.posterior.joint(C)
    expected = []
    for i in range(7):
        costs = np.exp(mean[i] + 0.5 * grid(200)) if uncertain else np.exp(mean[i : i + 1])
        expected.append(two_steps(joint, chance, belief.incumbent, i, costs, 2.2))
    np.testing.assert_allclose(found, expected, rtol=0.02)
    np.testing.assert_allclose(np.exp(BudgetedMultiStepEI().log_value(belief)), expected, rtol=0.08)


def test_each_step_more_is_worth_more_and_a_third_step_more_than_myopic_paths() -> None:
    X, y = data(6)
    C = np.random.default_rng(3).random((5, 2))
    belief = believe(C, X, y, iterations=len(y) + 3)
    values = [BudgetedMultiStepEI(steps, pool=5, branch=5).log_value(belief) for steps in (1, 2, 3)]
    assert (np.diff(values, axis=0) > 0).all()
    assert np.logaddexp(values[2], -9.0).max() >= MonteCarloMultiStep(paths=20_000).log_value(belief).max() - 0.03


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


def test_wrong_settings_are_told_in_one_line() -> None:
    with pytest.raises(BadInput, match=r"utility\.paths must be a whole number >= 1, got 0"):
        MonteCarloMultiStep(paths=0)
    with pytest.raises(BadInput, match=r"utility\.outcomes must be a whole number >= 2, got 1"):
        BudgetedMultiStepEI(outcomes=1)

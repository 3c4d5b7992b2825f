"""Screened choices are those of a full evaluation; the bounds behind them hold."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import harness.optimizer
import harness.screening
from harness.acquisitions import StepContext
from harness.acquisitions.cost_rules import Contextual, Cool, Ignore, Power
from harness.acquisitions.ei import ExpectedImprovement, log_ei
from harness.cost_models.linear import LowVariance
from harness.errors import BadInput
from harness.fronts import ei_cost_front
from harness.optimizer import Optimizer
from harness.problem import Evaluation
from harness.screening import FEWEST, Offer, shortlist
from harness.space import XGBOOST_SPACE
from harness.streams import stream
from harness.surrogates.gp import GaussianProcess
from harness.surrogates.inducing import InducingSubset, inducing_subset
from tabular_cache.table import read_table

RULES = (Ignore(), Power(0.1), Power(1.0), Cool(), Contextual(0.05), Contextual(0.5), Contextual(1.0))
LOW, HIGH = -40.0, 60.0


def _posterior(seed: int, n: int, noise: float) -> tuple[Any, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.random((n, 7))
    y = np.sin(4 * X[:, 0]) + X[:, 1] * X[:, 6] + noise * rng.standard_normal(n)
    return GaussianProcess().fit(X, y), X, y


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from([1, 2, 5, 30, 120]), st.sampled_from([0.0, 1e-3, 0.1, 1.0]))
def test_the_bounds_hold(seed: int, n: int, noise: float) -> None:
    posterior, X, _ = _posterior(seed, n, noise)
    rng = np.random.default_rng(seed + 1)
    C = np.vstack([rng.random((600, 7)), X, np.clip(X + 1e-3 * rng.standard_normal(X.shape), 0, 1)])
    mean, sd = posterior.mean_sd(C)
    for rough in (False, True):
        low, high = posterior.bounds(C, rough)
        assert (low <= mean).all() and (high >= sd).all()


@pytest.mark.parametrize("n", [3, 47])
def test_equal_candidates_get_equal_values_wherever_they_stand(n: int) -> None:
    posterior, _, _ = _posterior(n, n, 0.1)
    c = np.random.default_rng(0).random((1, 7))
    alone = (*posterior.mean_sd(c), *posterior.bounds(c), *posterior.bounds(c, rough=True))
    for m in (7, 33, 1000):
        C = np.repeat(c, m, axis=0)
        for value, values in zip(
            alone, (*posterior.mean_sd(C), *posterior.bounds(C), *posterior.bounds(C, rough=True)), strict=True
        ):
            assert (values == value).all()


@pytest.mark.parametrize("problem", ["abalone/clean", "wind/quadratic"])
def test_on_a_measured_table_the_bounds_hold_with_room_to_spare(problem: str) -> None:
    table = read_table(problem)
    rows = stream(0, "screening", problem).permutation(np.flatnonzero(table.measured))[:90]
    process = GaussianProcess()
    for n in range(5, 91, 5):
        posterior = process.fit(table.unit[rows[:n]], table["val_error"][rows[:n]].astype(float))
        (mean, sd), (low, high) = posterior.mean_sd(table.unit), posterior.bounds(table.unit)
        (_, mean_error, variance_error, _), scale = posterior._float32[False], posterior._scale
        slack = (high**2 - sd**2) / scale**2 / variance_error
        assert (mean - low).min() >= 0.25 * scale * mean_error
        assert slack.min() > 0.5 or (sd / scale).min() ** 2 < 1e-12


@settings(deadline=None)
@given(st.integers(0, 10**6))
def test_the_bound_of_log_ei_holds_and_is_tight(seed: int) -> None:
    rng = np.random.default_rng(seed)
    u, sd = rng.uniform(LOW, HIGH, 500), np.exp(rng.uniform(-20, 5, 500))
    mean = 0.3 - u * sd
    context, exact = _context(mean, sd, 0.3), log_ei(0.3 - mean, sd)
    bound, floor = ExpectedImprovement().log_bound(context), ExpectedImprovement().log_floor(context)
    assert (floor <= exact).all() and (exact <= bound).all()
    assert (exact - floor <= 4e-5).all() and (bound - exact <= 4e-5).all()


def _context(mean: np.ndarray, sd: np.ndarray, incumbent: float) -> StepContext:
    zero = np.zeros(len(mean))
    return StepContext(
        mean=mean, sd=sd, incumbent=incumbent, log_cost=zero, log_cost_sd=zero, step=5, iterations=10, n_initial=5,
        spent=1.0, initial_cost=1.0, tau=None,
    )  # fmt: skip


def _reported(rule: Any, X: np.ndarray, y: np.ndarray, cost: np.ndarray) -> Optimizer:
    model = LowVariance(("n_estimators", "max_depth", "subsample"))
    optimizer = Optimizer(GaussianProcess(), model, ExpectedImprovement(), rule, iterations=100)
    for x, error, seconds in zip(X, y, cost, strict=True):
        optimizer.tell(x, Evaluation(float(error), float(seconds), 0.0, 0.0))
    return optimizer


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{type(rule).__name__}-{vars(rule)}")
@pytest.mark.parametrize("noise", [0.0, 0.02, 0.5])
def test_screening_changes_no_proposal(rule: Any, noise: float, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed, n in ((0, 6), (1, 20), (2, 100)):
        rng = np.random.default_rng(seed)
        C = XGBOOST_SPACE.snap(rng.random((1500, 7)))
        C[700:] = C[:800]  # ties
        X = XGBOOST_SPACE.snap(rng.random((n, 7)))
        y = np.sin(4 * X[:, 0]) + X[:, 1] * X[:, 6] + noise * rng.standard_normal(n)
        cost = np.exp(3 * X[:, 0] + X[:, 6])
        monkeypatch.setattr(harness.optimizer, "FEWEST", FEWEST)
        fast = _reported(rule, X, y, cost).ask(C)
        monkeypatch.setattr(harness.optimizer, "FEWEST", len(C) + 1)
        full = _reported(rule, X, y, cost).ask(C)
        assert fast.index == full.index
        np.testing.assert_allclose(fast.log_ei, full.log_ei, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(fast.effective_alpha, full.effective_alpha, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("n", [20, 100])
@pytest.mark.parametrize("dimension", range(2))
def test_a_candidate_that_is_no_number_is_named(dimension: int, n: int) -> None:
    """In a dimension that the cost model sees, and in one that it does not."""
    rng = np.random.default_rng(n)
    X, C = rng.random((n, 7)), rng.random((1000, 7))
    C[300, dimension] = np.nan
    with pytest.raises(BadInput, match=rf"lie in the unit cube .*, got nan in column {dimension} of candidate 300"):
        _reported(RULES[0], X, np.sin(4 * X[:, 0]), np.exp(X[:, 6])).ask(C)


@pytest.mark.parametrize("rough", [False, True])
def test_the_shortlist_holds_the_front_and_leaves_out_most(rough: bool) -> None:
    posterior, _, y = _posterior(3, 50, 0.1)
    C = np.random.default_rng(0).random((4000, 7))
    log_cost = np.round(3 * C[:, 0] + C[:, 6], 2)

    def make_context(where: Any, mean: np.ndarray, sd: np.ndarray) -> StepContext:
        return _context(mean, sd, float(y.min()))

    kept = shortlist(ExpectedImprovement(), posterior, Offer(C), log_cost, make_context, rough)
    value = ExpectedImprovement().log_value(make_context(None, *posterior.mean_sd(C)))
    front = [
        i
        for i in range(len(C))
        if not (
            ((value >= value[i]) & (log_cost < log_cost[i])) | ((value > value[i]) & (log_cost <= log_cost[i]))
        ).any()
    ]
    assert set(front) <= set(kept.tolist())
    assert len(kept) < len(C) / 4


VALUES = st.one_of(st.floats(-50.0, 50.0), st.sampled_from([-np.inf, np.inf, 0.0, 1.0]))


@settings(deadline=None, max_examples=300)
@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=40))
def test_leaders_rise_with_their_cost_from_the_cheapest_to_the_best_whatever_is_infinite(pairs: Any) -> None:
    bound, log_cost = np.array(pairs).T.copy()
    leaders = harness.screening._leaders(bound, log_cost)
    assert log_cost[leaders[0]] == log_cost.min()
    assert bound[leaders[-1]] == bound.max()
    assert (log_cost[leaders[1:]] >= log_cost[leaders[:-1]]).all()
    assert (bound[leaders[1:]] > bound[leaders[:-1]]).all()


@pytest.mark.parametrize("n", [20, 100])
def test_the_front_can_be_noted_without_predicting_the_rest(n: int) -> None:
    rng = np.random.default_rng(n)
    X, C = rng.random((n, 7)), XGBOOST_SPACE.snap(rng.random((3000, 7)))
    C[2000:] = C[:1000]  # equal points are on the front together
    optimizer = _reported(Contextual(0.3), X, np.sin(4 * X[:, 0]) + X[:, 1], np.exp(3 * X[:, 0] + X[:, 6]))
    with pytest.raises(ValueError, match="ask before looking"):
        optimizer.seen_front()
    optimizer.ask(C)
    log_value, log_cost = optimizer.outlook(C)
    front, (near, *again) = set(np.flatnonzero(ei_cost_front(log_value, log_cost))), optimizer.near_front(C)
    assert len(near) < len(C) / 4
    for where, *found in (optimizer.seen_front(), (near, *again)):
        assert front <= set(where)
        np.testing.assert_array_equal(found, [log_value[where], log_cost[where]])


@pytest.mark.parametrize("noise", [1e-6, 0.1])
def test_inducing_points_are_those_least_certain_given_the_ones_before(noise: float) -> None:
    A, signal = 2.0 * np.random.default_rng(1).standard_normal((30, 3)), 1.7
    r = np.sqrt(np.square(A[:, None] - A[None]).sum(axis=2))
    K = signal * (1 + r + r * r / 3) * np.exp(-r) + noise * np.eye(30)
    order, inverse = inducing_subset(A, signal, noise, 12)
    assert sorted(order) == list(range(30)) and list(order[12:]) == sorted(order[12:])
    for h in range(1, 12):
        seen = order[:h]
        left = np.diag(K) - np.einsum("ij,ik,kj->j", K[seen], np.linalg.inv(K[np.ix_(seen, seen)]), K[seen])
        left[seen] = -1.0
        assert left[order[h]] >= left.max() * (1 - 1e-9)
    L = np.linalg.cholesky(K[np.ix_(order[:12], order[:12])])
    np.testing.assert_allclose(inverse @ L, np.eye(12), atol=1e-9)


def test_a_choice_of_inducing_points_serves_the_next_observations_too() -> None:
    """The new ones come first, then the old choice; the factor is that of the points as they are now."""
    A, signal, noise = 2.0 * np.random.default_rng(1).standard_normal((60, 3)), 1.7, 0.01
    r = np.sqrt(np.square(A[:, None] - A[None]).sum(axis=2))
    K = signal * (1 + r + r * r / 3) * np.exp(-r) + noise * np.eye(60)
    chosen = InducingSubset()
    known, _ = chosen(A[:40], signal, noise)
    for n in (40, 41, 47, 48):
        order, inverse = chosen(A[:n], signal, noise)
        fresh, _ = inducing_subset(A[:n], signal, noise, (n + 1) // 2)
        expected = fresh if n == 48 else np.r_[40:n, known]
        np.testing.assert_array_equal(order, expected)
        h = (n + 1) // 2
        np.testing.assert_allclose(inverse @ np.linalg.cholesky(K[np.ix_(order[:h], order[:h])]), np.eye(h), atol=1e-9)
    assert sorted(chosen(A[:50], signal, noise)[0]) == list(range(50))
    order, inverse = chosen(A[:20], signal, noise)  # another run of fewer points
    np.testing.assert_array_equal(order, inducing_subset(A[:20], signal, noise, 10)[0])

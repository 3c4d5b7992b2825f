"""The optimizer end to end on a made-up problem, and what it passes to its parts."""

import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from optimizer_cases import POINTS, error_at, evaluate, make_cost_model, make_optimizer

from datasets.errors import BadInput
from harness.acquisitions import CostRule, StepContext
from harness.acquisitions.cost_rules import Contextual, Cool, Ignore, Power, effective_alpha
from harness.acquisitions.ei import ExpectedImprovement
from harness.cost_models.linear import LowVariance
from harness.optimizer import Optimizer, Proposal
from harness.problem import FAILED, TIMEOUT, Curve, Evaluation
from harness.surrogates.gp import GaussianProcess


def _run(rule: CostRule, steps: int = 25, first: int = 0) -> tuple[list[Proposal], np.ndarray, np.ndarray]:
    optimizer, left = make_optimizer(rule), list(range(len(POINTS)))
    errors, costs, proposals = [], [], []
    for step in range(steps):
        if step < 5:
            i = left[first + step * 11]
        else:
            proposals.append(optimizer.ask(POINTS[left]))
            i = left[proposals[-1].index]
        outcome = evaluate(POINTS[i])
        optimizer.tell(POINTS[i], outcome)
        left.remove(i)
        errors.append(outcome.error)
        costs.append(outcome.cost_s)
    return proposals, np.array(errors), np.array(costs)


def test_ei_finds_a_good_point() -> None:
    everywhere = np.array([error_at(u) for u in POINTS])
    found = [_run(Ignore(), first=first)[1].min() for first in range(0, 250, 90)]
    assert np.median(found) <= np.quantile(everywhere, 0.01) and max(found) <= np.quantile(everywhere, 0.03)


@pytest.mark.parametrize("rules", [[Power(a / 4) for a in range(9)], [Contextual(k / 8) for k in range(9)]])
def test_the_more_cost_matters_the_cheaper_the_proposal(rules: list[CostRule]) -> None:
    proposals = []
    for rule in rules:
        optimizer = make_optimizer(rule)
        for x in POINTS[:8]:
            optimizer.tell(x, evaluate(x))
        proposals.append(optimizer.ask(POINTS[8:]))
    costs, values = [p.predicted_cost_s for p in proposals], [p.log_ei for p in proposals]
    assert costs == sorted(costs, reverse=True) and values == sorted(values, reverse=True)
    assert costs[-1] < 0.5 * costs[0]


def test_proposals_predict_cost_and_report_the_alpha_of_their_rule() -> None:
    proposals, _, costs = _run(Power(0.3))
    predicted = np.array([p.predicted_cost_s for p in proposals])
    np.testing.assert_allclose(np.log(predicted[5:]), np.log(costs[10:]), atol=0.05)
    assert all(0 <= p.effective_alpha <= 0.3 + 1e-9 for p in proposals)
    assert all(p.effective_alpha == 0 for p in _run(Ignore())[0])
    assert all(p.fit_ms > 0 and p.propose_ms > 0 for p in proposals)


class _Spy:
    """A cost rule that keeps what it was shown and then ignores cost."""

    def __init__(self) -> None:
        self.seen: list[tuple[np.ndarray, StepContext]] = []

    def score(self, log_value: np.ndarray, log_cost: np.ndarray, context: StepContext) -> np.ndarray:
        self.seen.append((log_value, context))
        return log_value


def test_the_context_is_the_state_of_the_run() -> None:
    spy = _Spy()
    optimizer = make_optimizer(spy, n_initial=3, tau=9.0, iterations=17)
    for i, cost in enumerate((1.0, 2.0, 0.5, 4.0)):
        optimizer.tell(POINTS[i], Evaluation(0.5 - 0.1 * i, cost, 0.0, cost))
    proposal = optimizer.ask(POINTS[10:60])
    value, context = spy.seen[0]
    assert (context.step, context.iterations, context.n_initial, context.tau) == (4, 17, 3, 9.0)
    assert (context.spent, context.initial_cost, context.incumbent) == (7.5, 3.5, pytest.approx(0.2))
    assert proposal.index == int(value.argmax()) and proposal.log_ei == value.max()
    assert proposal.predicted_cost_s == pytest.approx(math.exp(context.log_cost[proposal.index]))
    ends = proposal.effective_alpha, proposal.effective_alpha_high
    np.testing.assert_equal(ends, effective_alpha(proposal.index, value, context.log_cost))
    assert context.history is not None
    np.testing.assert_array_equal(context.history.X, POINTS[:4])


def _failure(cost: float, status: str = FAILED) -> Evaluation:
    return Evaluation(math.nan, cost, math.nan, cost, status)


def test_failures_are_seen_as_the_worst_error_and_their_costs_are_learned() -> None:
    spy = _Spy()
    optimizer = make_optimizer(spy)
    outcomes = [
        Evaluation(0.2, 1.0, 0.2, 1.0),
        _failure(3.0),
        Evaluation(0.6, 2.0, 0.6, 2.0),
        _failure(9.0, TIMEOUT),
    ]
    for x, outcome in zip(POINTS, outcomes, strict=False):
        optimizer.tell(x, outcome)
    optimizer.ask(POINTS[20:])
    context = spy.seen[0][1]
    assert context.history is not None
    np.testing.assert_array_equal(context.history.y, [0.2, 0.6, 0.6, 0.6])
    expected = make_cost_model()
    expected.fit_censored(POINTS[:4], np.array([1.0, 3.0, 2.0, 9.0]), np.array([False, False, False, True]))
    np.testing.assert_array_equal(context.log_cost, expected.predict(POINTS[20:])[0])


def test_misuse_and_wrong_settings_are_refused() -> None:
    optimizer = make_optimizer(Ignore())
    with pytest.raises(ValueError, match="tell the initial design"):
        optimizer.ask(POINTS)
    with pytest.raises(ValueError, match="unit cube"):
        optimizer.tell(POINTS[0] + 1.0, evaluate(POINTS[0]))
    optimizer.tell(POINTS[0], evaluate(POINTS[0]))
    with pytest.raises(ValueError, match="no candidate"):
        optimizer.ask(POINTS[:0])
    for settings, message in (
        ({"iterations": 0}, "iterations must be a whole number >= 1, got 0"),
        ({"n_initial": 0}, "n_initial must be a whole number >= 1, got 0"),
        ({"tau": -1.0}, r"tau must be a number of seconds > 0, or null, got -1\.0"),
        ({"tau": math.nan}, "tau must be a number of seconds > 0, or null, got nan"),
        ({"seed": -1}, "seed must be a whole number >= 0, got -1"),
    ):
        with pytest.raises(BadInput, match=message):
            make_optimizer(Ignore(), **settings)


def test_what_is_told_and_asked_is_checked() -> None:
    optimizer = make_optimizer(Ignore())
    optimizer.tell(POINTS[0], evaluate(POINTS[0]))
    tell, ask = (inspect.unwrap(method) for method in (Optimizer.tell, Optimizer.ask))  # as without checks of types
    number = inspect.unwrap(Evaluation.__init__)
    for call, message in (
        (lambda: tell(optimizer, POINTS[1], 0.3), r"tell needs an Evaluation\(error, cost_s=..., .*, got 0\.3"),
        (lambda: tell(optimizer, "x", evaluate(POINTS[0])), "the point must be an array of numbers, got 'x'"),
        (lambda: ask(optimizer, POINTS.tolist()), r"candidates must be an array of numbers, .* \(m, 7\), got a list"),
        (lambda: ask(optimizer, np.array([["a"] * 7])), "candidates must be an array of numbers, .* got one of <U1"),
        (lambda: ask(optimizer, np.vstack([POINTS, POINTS[:1] + 1])), "candidates must lie in the unit cube"),
        (lambda: Evaluation(np.inf, 1.0, np.nan, 1.0, "failed"), r"error must be .* up to 1e\+150 .*, got inf"),
        (lambda: Evaluation(-1e200, 1.0, 1.0, 1.0), r"error must be a number up to 1e\+150 in size, .*, got -1e\+200"),
        (lambda: Evaluation(-1.0, 1.0, np.nan, 1.0, "failed"), "with status 'failed' has no error, .* NaN, got -1"),
        (lambda: ask(optimizer, POINTS[:, :6]), r"candidates must have the shape \(m, 7\), got \(300, 6\)"),
        (lambda: number(object.__new__(Evaluation), "a", 1.0, 1.0, 1.0), "^error must be a number, got 'a'$"),
        (lambda: number(object.__new__(Evaluation), 1.0, None, 1.0, 1.0), "^cost_s must be a number, got None$"),
        (lambda: inspect.unwrap(Optimizer.__init__)(
            object.__new__(Optimizer), GaussianProcess(), make_cost_model(), ExpectedImprovement(), Ignore(),
            iterations=9, tau="5"), "tau must be a number of seconds > 0, or null, got '5'"),
        (lambda: inspect.unwrap(Optimizer.__init__)(
            object.__new__(Optimizer), GaussianProcess, make_cost_model(), ExpectedImprovement(), Ignore(),
            iterations=9), r"GaussianProcess is a class: give an object of it, GaussianProcess\(...\)"),
    ):  # fmt: skip
        with pytest.raises(BadInput, match=message):
            call()


def test_a_call_that_is_refused_changes_nothing() -> None:
    """EI-cool's exponent is that of what has been spent."""
    optimizers = [make_optimizer(Cool(), tau=60.0) for _ in range(2)]
    for optimizer in optimizers:
        for x in POINTS[:6]:
            optimizer.tell(x, evaluate(x))
    one = Curve((1, 2), (0.5, 0.4), (0.5, 0.4), (1.0, 2.0))
    with pytest.raises(ValueError, match="this evaluation has a learning curve"):
        optimizers[0].tell(POINTS[6], replace(evaluate(POINTS[6]), cost_s=30.0, curve=one))
    first, second = (optimizer.ask(POINTS[7:]) for optimizer in optimizers)
    assert (first.index, first.log_ei) == (second.index, second.log_ei)


class _Writing(Contextual):
    def score(self, log_value: np.ndarray, log_cost: np.ndarray, context: StepContext) -> np.ndarray:
        found = super().score(log_value, log_cost, context)
        log_value[:], log_cost[:] = -1.0, 0.0
        return found


def test_a_rule_that_writes_into_what_it_is_given_spoils_no_record() -> None:
    spoilt, plain = _asked(_Writing(0.3)), _asked(Contextual(0.3))
    for name in ("index", "log_ei", "effective_alpha", "effective_alpha_high", "predicted_cost_s"):
        np.testing.assert_equal(getattr(spoilt, name), getattr(plain, name))


class _NoNumber:
    def score(self, log_value: np.ndarray, log_cost: np.ndarray, context: StepContext) -> np.ndarray:
        return np.full(len(log_value), np.nan)


class _OneArgument:
    def score(self, log_value: np.ndarray) -> np.ndarray:
        return log_value


class _OneOfThree(Ignore):
    def score(self, log_value: np.ndarray) -> np.ndarray:  # type: ignore[override]
        return log_value


class _Anything:
    def score(self, *given: np.ndarray) -> np.ndarray:
        return given[0]


class _Excluding:
    def score(self, log_value: np.ndarray, log_cost: np.ndarray, context: StepContext) -> np.ndarray:
        return np.full(len(log_value), -np.inf)


class _OneArray:
    def fit(self, X: np.ndarray, cost_s: np.ndarray) -> None:
        pass

    def predict(self, C: np.ndarray) -> np.ndarray:
        return np.zeros(len(C))


def _asked(rule: Any, cost_model: Any = None) -> Proposal:
    parts = GaussianProcess(), cost_model or make_cost_model(), ExpectedImprovement(), rule
    optimizer = Optimizer(*parts, iterations=40)
    for x in POINTS[:6]:
        optimizer.tell(x, evaluate(x))
    return optimizer.ask(POINTS)


@pytest.mark.parametrize(("rule", "cost_model", "message"), [
    (_NoNumber(), None, "^_NoNumber.score is NaN at candidate 0$"),
    (_OneArgument(), None, r"^_OneArgument.score must take \(self, log_value, log_cost, context\), as .*CostRule has"),
    (_OneOfThree(), None, r"^_OneOfThree.score must take .*, not \(self, log_value\)$"),
    (Ignore(), _OneArray(), r"^_OneArray.predict returned an array of shape \(300,\), needed two arrays of .* and sd$"),
])  # fmt: skip
def test_code_of_ones_own_that_is_wrong_is_named(rule: Any, cost_model: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        _asked(rule, cost_model)


def test_a_rule_takes_its_arguments_as_it_likes_and_one_that_excludes_all_gets_the_cheapest() -> None:
    assert _asked(_Anything()).index == _asked(Ignore()).index
    assert _asked(_Excluding()).index == _asked(Contextual(1.0)).index


class _Wrong(LowVariance):
    """A cost model of somebody's own that predicts what `given` makes of the right mean."""

    def __init__(self, given: Callable[[np.ndarray], np.ndarray]) -> None:
        super().__init__(("n_estimators",))
        self._given = given

    def predict(self, C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, sd = super().predict(C)
        return self._given(mean), sd


@pytest.mark.parametrize(("given", "message"), [
    (lambda mean: mean[:-1], r"_Wrong must predict mean and sd of 300 log costs each, got shapes \(299,\) and"),
    (lambda mean: np.where(mean == mean[7], np.nan, mean), "_Wrong: the mean of the log cost is NaN at candidate 7$"),
])  # fmt: skip
def test_a_cost_model_that_predicts_no_numbers_is_named(given: Callable, message: str) -> None:
    optimizer = Optimizer(GaussianProcess(), _Wrong(given), ExpectedImprovement(), Ignore(), iterations=40)
    for i in range(6):
        optimizer.tell(POINTS[i], evaluate(POINTS[i]))
    with pytest.raises(ValueError, match=message):
        optimizer.ask(POINTS)

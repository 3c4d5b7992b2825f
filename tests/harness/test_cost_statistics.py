"""Statistics of an uncertain cost against Monte Carlo, and what the optimizer makes of them."""

import numpy as np
import pytest

from datasets.errors import BadInput
from harness.acquisitions import CostRule, StepContext
from harness.acquisitions.cost_rules import Contextual, Cool, Power
from harness.acquisitions.ei import ExpectedImprovement
from harness.cost_models import log_statistic
from harness.optimizer import Optimizer, Proposal
from harness.problem import Evaluation
from harness.surrogates.gp import GaussianProcess


@pytest.mark.parametrize("a", [0.5, 2.0])
def test_they_are_the_moments_of_a_log_normal_cost(a: float) -> None:
    m, s = -1.3, 0.6
    cost = np.exp(m + s * np.random.default_rng(0).standard_normal(1_000_000))
    mean, sd = np.array([m]), np.array([s])
    assert np.exp(log_statistic("exp_mean", mean, sd, None))[0] == pytest.approx(np.median(cost), rel=5e-3)
    assert np.exp(log_statistic("expected", mean, sd, None))[0] == pytest.approx(cost.mean(), rel=5e-3)
    inverse = np.exp(log_statistic("expected_inverse", mean, sd, a))[0] ** -a
    assert inverse == pytest.approx((cost**-a).mean(), rel=1e-2)


class TwoSided:
    """The same mean log cost everywhere; uncertain where x_0 > 1/2."""

    def fit(self, X: np.ndarray, cost_s: np.ndarray) -> None:
        pass

    def predict(self, C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.full(len(C), 0.7), np.where(C[:, 0] > 0.5, 2.0, 0.1)


def propose(rule: CostRule, statistic: str) -> tuple[np.ndarray, Proposal]:
    X, C = np.random.default_rng(0).random((8, 7)), np.random.default_rng(1).random((400, 7))
    optimizer = Optimizer(
        GaussianProcess(), TwoSided(), ExpectedImprovement(), rule, iterations=20, cost_statistic=statistic
    )
    for x in X:
        optimizer.tell(x, Evaluation(float(np.sin(5 * x[1])), 1.0, 0.0, 1.0))
    proposal = optimizer.ask(C)
    return C[proposal.index], proposal


def test_ei_cool_weighs_uncertain_costs_as_ei_alpha_of_its_exponent() -> None:
    """After 8 of 20 evaluations, 5 of them the initial ones: a = 12 / 15."""
    cool, power = (propose(rule, "expected_inverse") for rule in (Cool(), Power(12 / 15)))
    assert np.array_equal(cool[0], power[0])
    assert (cool[1].log_ei, cool[1].index) == (power[1].log_ei, power[1].index)
    asked: list[float] = []

    class Watched(Cool):
        def exponent(self, context: StepContext) -> float:
            asked.append(super().exponent(context))
            return asked[-1]

    propose(Watched(), "expected_inverse")
    assert asked and set(asked) == {12 / 15}


def test_a_rule_without_an_exponent_has_no_inverse() -> None:
    with pytest.raises(BadInput, match="cost_statistic=expected_inverse needs a rule that divides by a power"):
        propose(Contextual(0.1), "expected_inverse")
    with pytest.raises(
        BadInput, match="cost_statistic must be one of exp_mean, expected, expected_inverse, got 'mean'"
    ):
        propose(Power(1.0), "mean")

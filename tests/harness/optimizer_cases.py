"""A made-up problem whose error and cost are smooth functions of the point, and an optimizer for it."""

from typing import Any

import numpy as np

from harness.acquisitions import CostRule
from harness.acquisitions.ei import ExpectedImprovement
from harness.cost_models.linear import LowVariance
from harness.optimizer import Optimizer
from harness.problem import Evaluation
from harness.space import XGBOOST_SPACE
from harness.surrogates import Surrogate
from harness.surrogates.gp import GaussianProcess

POINTS = XGBOOST_SPACE.snap(XGBOOST_SPACE.sobol(300, 7))


def error_at(u: np.ndarray) -> float:
    return float(0.1 + (u[0] - 0.7) ** 2 + 0.5 * (u[1] - 0.4) ** 2 + 0.2 * (u[6] - 0.5) ** 2)


def evaluate(u: np.ndarray) -> Evaluation:
    native = XGBOOST_SPACE.from_unit(u[None])[0]
    cost = float(0.01 * native[0] ** 0.9 * native[6] ** 0.7)
    return Evaluation(error_at(u), cost, error_at(u), cost)


def make_cost_model() -> LowVariance:
    return LowVariance(("n_estimators", "max_depth", "reg_alpha"), ridge=1e-3)


def make_optimizer(rule: CostRule, surrogate: Surrogate | None = None, **settings: Any) -> Optimizer:
    """Combine a rule with EI, and with a Gaussian process unless another surrogate is given."""
    parts = surrogate or GaussianProcess(), make_cost_model(), ExpectedImprovement(), rule
    return Optimizer(*parts, **{"iterations": 40, **settings})

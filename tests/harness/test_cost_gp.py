"""Cost models made of Gaussian processes: what each of them sees, and how its parts add up."""

import numpy as np
import pytest

from harness.acquisitions import StepContext
from harness.acquisitions.cost_rules import Power
from harness.acquisitions.ei import ExpectedImprovement
from harness.cost_models import Features
from harness.cost_models.gp import GaussianProcessCost, ResidualGaussianProcess
from harness.cost_models.linear import LowVariance
from harness.optimizer import Optimizer, Proposal
from harness.problem import Evaluation
from harness.space import XGBOOST_SPACE
from harness.surrogates.gp import GaussianProcess

FEATURES = ("n_estimators", "max_depth", "subsample")
X, C = XGBOOST_SPACE.snap(XGBOOST_SPACE.sobol(40, 0)), XGBOOST_SPACE.snap(XGBOOST_SPACE.sobol(50, 1))
LOG_COST = 3 * X[:, 0] + np.sin(5 * X[:, 6]) + 0.5 * X[:, 3] ** 2 - 2


def test_the_gp_is_the_surrogate_on_log_cost_with_noise_in_its_sd() -> None:
    model = GaussianProcessCost()
    model.fit(X, np.exp(LOG_COST))
    mean, sd = GaussianProcess(noise_in_sd=True).fit(X, LOG_COST).mean_sd(C)
    np.testing.assert_allclose(model.predict(C)[0], mean, rtol=1e-9)
    np.testing.assert_allclose(model.predict(C)[1], sd, rtol=1e-9)


def test_a_gp_on_few_features_sees_only_these() -> None:
    model = GaussianProcessCost(FEATURES)
    model.fit(X, np.exp(LOG_COST))
    other = C.copy()
    other[:, [1, 2, 3, 4]] = 0.5
    np.testing.assert_array_equal(model.predict(C)[0], model.predict(other)[0])
    other[:, 0] = 1 - other[:, 0]
    assert not np.allclose(model.predict(C)[0], model.predict(other)[0])


def test_the_residual_model_is_the_linear_one_plus_a_gp_of_what_it_leaves() -> None:
    model, linear = ResidualGaussianProcess(FEATURES), LowVariance(FEATURES)
    for n in (12, 25, 40):  # warm starts depend on the fits before
        model.fit(X[:n], np.exp(LOG_COST[:n]))
    linear.fit(X, np.exp(LOG_COST))
    process = GaussianProcess(noise_in_sd=True)
    for n in (12, 25, 40):
        part = LowVariance(FEATURES)
        part.fit(X[:n], np.exp(LOG_COST[:n]))
        posterior = process.fit(X[:n], LOG_COST[:n] - part.predict(X[:n])[0])
    residual, sd = posterior.mean_sd(C)
    np.testing.assert_allclose(model.predict(C)[0], linear.predict(C)[0] + residual, rtol=1e-9)
    S, new = (Features(linear.features).columns(U).T for U in (X, C))
    D, d = S - S.mean(axis=0), new - S.mean(axis=0)
    rss = np.square(LOG_COST - linear.predict(X)[0]).sum()
    of_mean = rss / (40 - 3 - 1) * (1 / 40 + np.einsum("ij,jl,il->i", d, np.linalg.inv(D.T @ D + 0.03 * np.eye(3)), d))
    np.testing.assert_allclose(model.predict(C)[1], np.sqrt(sd**2 + of_mean), rtol=1e-9)


class Counting(GaussianProcessCost):
    """Counts how often it has predicted sds."""

    predictions = 0

    def predict(self, C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.predictions += 1
        return super().predict(C)

    def predict_mean(self, C: np.ndarray) -> np.ndarray:
        return super().predict_mean(C)


class Wider(GaussianProcessCost):
    """Changes what its base predicts, and says nothing of means alone."""

    def predict(self, C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, sd = super().predict(C)
        return mean + 1.0, 2.0 * sd


class Looking(Power):
    """Looks at the sds."""

    def score(self, log_value: np.ndarray, log_cost: np.ndarray, context: StepContext) -> np.ndarray:
        with pytest.raises(AttributeError, match="no attribute 'log_cost_s'"):
            context.log_cost_s  # noqa: B018
        self.seen = context.log_cost_sd
        return super().score(log_value, log_cost, context)


def asked(model: GaussianProcessCost, rule: Power) -> Proposal:
    optimizer = Optimizer(GaussianProcess(), model, ExpectedImprovement(), rule, iterations=50, n_initial=5)
    for x, cost in zip(X, np.exp(LOG_COST), strict=True):
        optimizer.tell(x, Evaluation(float(x.sum()), float(cost), 0.0, 0.0))
    return optimizer.ask(C)


def test_sds_of_costs_are_predicted_when_they_are_asked_for() -> None:
    for rule, times in ((Power(0.5), 0), (Looking(0.5), 1)):
        model = Counting()
        proposal = asked(model, rule)
        assert model.predictions == times
        mean, sd = model.predict(C)
        assert proposal.predicted_cost_s == pytest.approx(np.exp(mean[proposal.index]), rel=1e-12)
    np.testing.assert_array_equal(rule.seen, sd)  # type: ignore[attr-defined]


def test_a_model_that_changes_what_its_base_predicts_is_believed() -> None:
    model = Wider()
    proposal = asked(model, Power(0.5))
    assert proposal.predicted_cost_s == pytest.approx(np.exp(model.predict(C)[0][proposal.index]), rel=1e-12)

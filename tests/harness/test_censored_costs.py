"""Cost models that learn lower bounds as such: against the censored likelihood, leave-one-out by refitting, and use."""

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm

from datasets.errors import BadInput
from harness.acquisitions.cost_rules import Power
from harness.acquisitions.ei import ExpectedImprovement
from harness.cost_models import BOUND, DROPPED, IMPUTED, CostModel, Features, fit_with_bounds
from harness.cost_models.gp import GaussianProcessCost, ResidualGaussianProcess, WarpedGaussianProcess
from harness.cost_models.linear import LowVariance
from harness.grid import Study
from harness.live import Live
from harness.optimizer import Optimizer
from harness.problem import TIMEOUT, Evaluation
from harness.space import XGBOOST_SPACE
from harness.streams import stream
from harness.surrogates.gp import GaussianProcess

FEATURES = ("n_estimators", "max_depth")


def data(n: int, noise: float = 0.3, share: float = 0.2) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Points, log costs as observed, which are censored, and the true ones."""
    X = XGBOOST_SPACE.sobol(n, 5)
    log_cost = 4 * X[:, 0] + X[:, 6] + noise * stream(0, "test censored costs").normal(size=n)
    cap = np.quantile(log_cost, 1 - share)
    return X, np.minimum(log_cost, cap), log_cost > cap, log_cost


@pytest.mark.parametrize("share", [0.3, 0.93])
def test_a_linear_model_ends_at_the_maximum_of_the_censored_likelihood(share: float) -> None:
    X, observed, censored, _ = data(1024, share=share)
    model = LowVariance(FEATURES, ridge=1e-9)
    model.fit_censored(X, np.exp(observed), censored)
    S = np.column_stack([np.ones(len(X)), *Features(model.features).columns(X)])

    def minus_log_likelihood(p: np.ndarray) -> float:
        mean, sd = S @ p[:-1], np.exp(p[-1])
        return -norm.logpdf(observed, mean, sd)[~censored].sum() - norm.logsf(observed, mean, sd)[censored].sum()

    best = minimize(minus_log_likelihood, [0, 1, 1, 0.0], method="BFGS", options={"gtol": 1e-4}).x
    mean, sd = model.predict(X)
    np.testing.assert_allclose(mean, S @ best[:-1], atol=2e-3)
    assert np.median(sd) == pytest.approx(np.exp(best[-1]), rel=3e-3)


@pytest.mark.parametrize(
    "model",
    [LowVariance(FEATURES), GaussianProcessCost(), ResidualGaussianProcess(FEATURES), WarpedGaussianProcess()],
    ids=["lv", "gp", "gp_lv", "warped"],
)
def test_imputing_predicts_high_costs_better_than_bounds_or_dropping(model: CostModel) -> None:
    X, observed, censored, _ = data(64, noise=0.05, share=0.3)
    rmse: dict[str, float] = {}
    for treatment in (IMPUTED, BOUND, DROPPED):
        fit_with_bounds(model, X, np.exp(observed), censored, treatment)
        C = XGBOOST_SPACE.sobol(256, 9)
        rmse[treatment] = float(np.sqrt(np.mean(np.square(model.predict(C)[0] - 4 * C[:, 0] - C[:, 6]))))
    assert rmse[IMPUTED] < rmse[BOUND]
    assert rmse[IMPUTED] < 1.05 * rmse[DROPPED]


def test_leave_one_out_is_what_the_others_predict() -> None:
    X, y = data(20)[::3]
    process = GaussianProcess(noise_in_sd=True)
    posterior = process.fit(X, y)
    mean, sd = posterior.leave_one_out(y)
    assert process.optimum is not None
    inputs = np.exp(process.optimum.x)
    r = np.sqrt(5 * np.square((X[:, None] - X[None]) / inputs[:-2]).sum(axis=2))
    K = inputs[-2] * (1 + r + r**2 / 3) * np.exp(-r) + inputs[-1] * np.eye(20)
    z = (y - y.mean()) / y.std()
    for i in range(20):
        rest = np.delete(np.arange(20), i)
        k = np.linalg.solve(K[np.ix_(rest, rest)], K[rest, i])
        assert mean[i] == pytest.approx(y.mean() + y.std() * k @ z[rest], abs=1e-6)
        assert sd[i] == pytest.approx(y.std() * np.sqrt(K[i, i] - k @ K[rest, i]), rel=1e-5)


@pytest.mark.parametrize("model", [LowVariance(FEATURES), GaussianProcessCost()], ids=["lv", "gp"])
def test_edges(model: CostModel) -> None:
    X, observed, _, _ = data(8)
    cost, few = np.exp(observed), np.arange(8) > 0
    for treatment in (IMPUTED, DROPPED, BOUND):
        for censored in (few, np.ones(8, bool), np.zeros(8, bool)):
            fit_with_bounds(model, X, cost, censored, treatment)
            mean, sd = model.predict(X)
            assert np.isfinite(mean).all() and np.isfinite(sd).all()
        bad = np.where(np.arange(8) == 3, 0.0, cost)
        with pytest.raises(BadInput, match=r"got 0.0 in row 3"):
            fit_with_bounds(model, X, bad, few, treatment)


class Spy(LowVariance):
    """Records what it is asked to learn from."""

    def fit_censored(self, X: np.ndarray, cost_s: np.ndarray, censored: np.ndarray) -> None:
        self.seen = censored.tolist()
        super().fit_censored(X, cost_s, censored)


def test_the_optimizer_tells_which_costs_are_bounds() -> None:
    X = XGBOOST_SPACE.sobol(40, 3)
    predicted = {}
    for treatment in (IMPUTED, BOUND):
        spy = Spy(FEATURES)
        optimizer = Optimizer(
            GaussianProcess(), spy, ExpectedImprovement(), Power(1.0), iterations=20, censored_costs=treatment
        )
        for i in range(8):
            cost = float(np.exp(3 * X[i, 0]))
            stopped = cost > 4.0
            outcome = Evaluation(float("nan") if stopped else X[i, 1], min(cost, 4.0), 0.0, 1.0,
                                 *([TIMEOUT] if stopped else []))  # fmt: skip
            optimizer.tell(X[i], outcome)
        optimizer.ask(X[8:])
        predicted[treatment] = spy.predict(X[8:])[0].max()
        assert (treatment == BOUND) != hasattr(spy, "seen")
        assert not hasattr(spy, "seen") or 0 < sum(spy.seen) < 8
    assert predicted[IMPUTED] > predicted[BOUND] + 0.2
    with pytest.raises(BadInput, match="censored_costs must be one of imputed, bound, dropped"):
        Optimizer(GaussianProcess(), Spy(FEATURES), ExpectedImprovement(), Power(1.0), iterations=9, censored_costs="x")


def test_the_default_treatment_is_reported_where_there_is_a_time_limit_and_others_always() -> None:
    """An evaluator of a user's own may stop trainings by settings of other names."""

    def grid(treatment: str = BOUND, **evaluator: Any) -> Study:
        return Study(
            {}, {}, [], [0], 9, 5, None, {"evaluator": evaluator}, {"cost_model": "lv3"}, censored_costs=treatment
        )

    assert grid(IMPUTED, time_limit_s=None).censoring() == grid(IMPUTED).censoring() == {}
    for reported in (grid(time_limit_s=3.0), grid(time_limit_s=None), grid(budget_s=3.0)):
        assert reported.censoring() == {"censored_costs": BOUND, "cost_model": "lv3:bound"}
    assert grid(IMPUTED, time_limit_s=3.0).censoring() == {"censored_costs": IMPUTED}
    assert hasattr(Live(time_limit_s=3.0), "time_limit_s")

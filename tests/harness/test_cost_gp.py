"""Cost models made of Gaussian processes: what each of them sees, and how its parts add up."""

from typing import Any

import numpy as np
import pytest

from datasets.errors import BadInput
from harness.cost_models import log_costs
from harness.cost_models.gp import GaussianProcessCost, ResidualGaussianProcess, WarpedGaussianProcess
from harness.cost_models.hybrid import Hybrid
from harness.cost_models.linear import LowVariance
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
    S, new = (linear._features.columns(U).T for U in (X, C))
    D, d = S - S.mean(axis=0), new - S.mean(axis=0)
    rss = np.square(LOG_COST - linear.predict(X)[0]).sum()
    of_mean = rss / (40 - 3 - 1) * (1 / 40 + np.einsum("ij,jl,il->i", d, np.linalg.inv(D.T @ D + 0.03 * np.eye(3)), d))
    np.testing.assert_allclose(model.predict(C)[1], np.sqrt(sd**2 + of_mean), rtol=1e-9)


def test_curvature_is_learned_that_no_linear_model_has() -> None:
    truth = 3 * C[:, 0] + np.sin(5 * C[:, 6]) + 0.5 * C[:, 3] ** 2 - 2
    rmse = {}
    for name, model in {
        "linear": LowVariance(FEATURES), "gp": GaussianProcessCost(), "both": ResidualGaussianProcess(FEATURES)
    }.items():  # fmt: skip
        model.fit(X, np.exp(LOG_COST))
        rmse[name] = float(np.sqrt(np.mean((model.predict(C)[0] - truth) ** 2)))
    assert rmse["gp"] < 0.5 * rmse["linear"] and rmse["both"] < 0.5 * rmse["linear"]


@pytest.mark.parametrize("model", [GaussianProcessCost(), ResidualGaussianProcess(FEATURES)], ids=["gp", "gp_lv"])
def test_before_the_first_fit_there_is_nothing_to_predict(model: GaussianProcessCost | ResidualGaussianProcess) -> None:
    with pytest.raises(ValueError, match="before fit"):
        model.predict(C)


def test_unknown_features_are_told() -> None:
    with pytest.raises(BadInput, match="features must be different names among n_estimators"):
        GaussianProcessCost(("rounds",))


MODELS: dict[str, Any] = {
    "lv": lambda: LowVariance(FEATURES), "gp": GaussianProcessCost, "gp3": lambda: GaussianProcessCost(FEATURES),
    "gp_lv": lambda: ResidualGaussianProcess(FEATURES), "warped": WarpedGaussianProcess,
    "hybrid": lambda: Hybrid(LowVariance(FEATURES, ridge=1e3)),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("n", [1, 2, 12])
@pytest.mark.parametrize("case", ["constant cost", "identical points", "features that never vary", "huge spread"])
def test_every_model_has_an_answer_for_what_says_little(name: str, n: int, case: str) -> None:
    points, cost = X[:n].copy(), np.exp(LOG_COST[:n])
    if case == "constant cost":
        cost = np.full(n, 2.5)
    elif case == "identical points":
        points[:] = points[0]
    elif case == "features that never vary":
        points[:, [0, 5, 6]] = 0.5
    else:
        cost = np.logspace(-6, 6, n)
    model = MODELS[name]()
    if name == "hybrid":
        model._prior.fit(X, np.exp(LOG_COST))
    model.fit(points, cost)
    mean, sd = model.predict(C)
    assert np.isfinite(mean).all() and np.isfinite(sd).all() and (sd >= 0).all()
    if case == "constant cost" and name != "hybrid":  # whose prior knows better
        np.testing.assert_allclose(np.exp(mean), 2.5, rtol=1e-6)


def test_a_cost_for_every_point() -> None:
    """Under the tests, shapes are checked before; elsewhere this is what finds a missing cost."""
    with pytest.raises(BadInput, match="4 points need 4 costs, row 1 has none"):
        log_costs(np.array([1.0]), 4)
    with pytest.raises(BadInput, match="4 points need 4 costs, there are 5"):
        log_costs(np.ones(5), 4)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_every_model_refuses_an_impossible_cost(name: str, bad: float) -> None:
    with pytest.raises(BadInput, match=f"costs must be finite and positive, got {bad} in row 2"):
        MODELS[name]().fit(X[:4], np.array([1.0, 1.0, bad, 1.0]))

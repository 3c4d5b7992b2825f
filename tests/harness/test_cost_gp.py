"""Cost models made of Gaussian processes: what each of them sees, and how its parts add up."""

import numpy as np

from harness.cost_models import Features
from harness.cost_models.gp import GaussianProcessCost, ResidualGaussianProcess
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
    S, new = (Features(linear.features).columns(U).T for U in (X, C))
    D, d = S - S.mean(axis=0), new - S.mean(axis=0)
    rss = np.square(LOG_COST - linear.predict(X)[0]).sum()
    of_mean = rss / (40 - 3 - 1) * (1 / 40 + np.einsum("ij,jl,il->i", d, np.linalg.inv(D.T @ D + 0.03 * np.eye(3)), d))
    np.testing.assert_allclose(model.predict(C)[1], np.sqrt(sd**2 + of_mean), rtol=1e-9)

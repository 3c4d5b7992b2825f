"""The warped Gaussian process: its likelihood, its inverse, and what the warp is good for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from harness.cost_models.gp import GaussianProcessCost, WarpedGaussianProcess, WarpedLikelihood, unwarp
from harness.space import XGBOOST_SPACE
from harness.surrogates.kernels import Workspace
from harness.surrogates.likelihood import Distances

X, C = XGBOOST_SPACE.sobol(60, 0), XGBOOST_SPACE.sobol(100, 1)
Z = np.random.default_rng(0).standard_normal(60)


def _objective(n: int) -> WarpedLikelihood:
    pairs = Distances(True)
    pairs.update(X[:n])
    return WarpedLikelihood(pairs, Z[:n].copy(), Workspace())


def _theta(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(-0.5, 0.5, 7), rng.normal(0, 0.5, 1), [-3.0], rng.normal(0, 0.7, 3)])


@pytest.mark.parametrize("seed", range(4))
def test_the_gradient_is_that_of_the_value(seed: int) -> None:
    objective, x = _objective(25), _theta(seed)
    _, gradient = objective(x)
    h = 1e-5
    for k, step in enumerate(h * np.eye(len(x))):
        difference = (objective(x + step)[0] - objective(x - step)[0]) / (2 * h)
        assert gradient[k] == pytest.approx(difference, rel=1e-5, abs=1e-6)


def test_the_value_is_the_density_of_log_cost_under_the_change_of_variable() -> None:
    x, n = _theta(1), 12
    a, b, c = np.exp(x[-3]), np.exp(x[-2]), x[-1]
    length, signal, noise = np.exp(x[:7]), np.exp(x[7]), np.exp(x[8])
    r = np.sqrt(5 * (((X[:n, None] - X[None, :n]) / length) ** 2).sum(axis=-1))
    K = signal * (1 + r + r**2 / 3) * np.exp(-r) + noise * np.eye(n)
    g = lambda z: z + a * np.tanh(b * (z + c))  # noqa: E731
    slope = (g(Z[:n] + 1e-6) - g(Z[:n] - 1e-6)) / 2e-6
    expected = -multivariate_normal(np.zeros(n), K).logpdf(g(Z[:n])) - np.log(slope).sum()
    assert _objective(n)(x)[0] == pytest.approx(expected, rel=1e-8)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10**6), st.floats(0.01, 3.0), st.floats(0.3, 5.0), st.floats(-2.5, 2.5))
def test_unwarp_is_the_inverse(seed: int, a: float, b: float, c: float) -> None:
    z = 3 * np.random.default_rng(seed).standard_normal((50, 3))
    np.testing.assert_allclose(unwarp(z + a * np.tanh(b * (z + c)), a, b, c), z, atol=1e-6)


def test_mean_and_sd_are_those_of_the_unwarped_process() -> None:
    model = WarpedGaussianProcess()
    model.fit(X, np.exp(np.tanh(4 * X[:, 0] - 2) + 0.1 * Z))
    assert model._posterior is not None
    mean, sd = model._posterior.mean_sd(C[:5])
    draws = mean[:, None] + sd[:, None] * np.random.default_rng(0).standard_normal((5, 40_000))
    z = model._location[0] + model._location[1] * unwarp(draws, *model._warp)
    np.testing.assert_allclose(model.predict(C[:5])[0], z.mean(axis=1), atol=0.02)
    np.testing.assert_allclose(model.predict(C[:5])[1], z.std(axis=1), rtol=0.05)


def test_a_warp_helps_where_log_cost_is_a_squashed_process() -> None:
    """Log cost that hardly moves where the process behind it runs through its middle, and follows it outside."""
    rng, n = np.random.default_rng(0), 50

    def log_cost(U: np.ndarray) -> np.ndarray:
        behind = 8 * U[:, 0] + 4 * U[:, 6] - 6
        return unwarp(behind[:, None], 2.5, 4.0, 0.0)[:, 0]

    observed = log_cost(X[:n]) + 0.01 * rng.standard_normal(n)
    warped, plain = WarpedGaussianProcess(), GaussianProcessCost()
    for model in (warped, plain):
        model.fit(X[:n], np.exp(observed))
    errors = [float(np.sqrt(np.mean((m.predict(C)[0] - log_cost(C)) ** 2))) for m in (warped, plain)]
    assert errors[0] < 0.8 * errors[1]

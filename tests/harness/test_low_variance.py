"""The low-variance cost model against least squares, and its answers at the edges."""

import numpy as np
import pytest
from scipy.stats import t as student

from datasets.errors import BadInput
from harness.cost_models import Features
from harness.cost_models.linear import LowVariance
from harness.space import XGBOOST_SPACE

FEATURES = ("n_estimators", "max_depth", "reg_alpha")


def _points(n: int, seed: int = 0) -> np.ndarray:
    return XGBOOST_SPACE.snap(XGBOOST_SPACE.sobol(n, seed))


def _log_native(X: np.ndarray, features: tuple[str, ...]) -> np.ndarray:
    native = XGBOOST_SPACE.from_unit(X)
    return np.log(np.stack([native[:, XGBOOST_SPACE.names.index(f)] for f in features], axis=1))


@pytest.mark.parametrize("k", [1, 2, 3])
def test_it_is_least_squares_on_logs_of_native_values(k: int) -> None:
    X, C = _points(60), _points(200, 1)
    cost = np.exp(np.random.default_rng(0).normal(0, 1, 60) + 3 * X[:, 0])
    model = LowVariance(FEATURES[:k], ridge=1e-9)
    model.fit(X, cost)
    mean, sd = model.predict(C)
    A = np.column_stack([np.ones(60), _log_native(X, FEATURES[:k])])
    w, rss = np.linalg.lstsq(A, np.log(cost), rcond=None)[:2]
    # the native values are rounded to float32, hence 1e-6
    np.testing.assert_allclose(mean, np.column_stack([np.ones(200), _log_native(C, FEATURES[:k])]) @ w, atol=1e-6)
    sigma = np.sqrt(rss[0] / (60 - k - 1))
    new = np.column_stack([np.ones(200), _log_native(C, FEATURES[:k])])
    hat = np.einsum("ij,jl,il->i", new, np.linalg.inv(A.T @ A), new)
    np.testing.assert_allclose(sd, sigma * np.sqrt(1 + hat), rtol=1e-5)
    np.testing.assert_allclose(model.sd_of_mean(C), sigma * np.sqrt(hat), rtol=1e-5)
    assert sd.max() > 1.01 * sd.min()


def test_prediction_intervals_cover_what_they_say() -> None:
    """Log costs linear in the features: 95 % z intervals hold as often as Student t has it, less without leverage."""
    rng, C, inside, without = np.random.default_rng(0), _points(64, 1), [], []
    w = np.array([2.0, 1.0, -0.5])
    model, features = LowVariance(FEATURES, ridge=1e-9), Features(FEATURES)
    for trial in range(400):
        X = _points(8, trial)
        model.fit(X, np.exp(features.columns(X).T @ w + 0.3 * rng.standard_normal(8)))
        mean, sd = model.predict(C)
        error = np.abs(features.columns(C).T @ w + 0.3 * rng.standard_normal(64) - mean)
        inside.append(np.mean(error <= 1.959964 * sd))
        without.append(np.mean(error <= 1.959964 * np.sqrt(sd**2 - model.sd_of_mean(C) ** 2)))
    expected = 2 * student.cdf(1.959964, 8 - 3 - 1) - 1
    assert np.mean(inside) == pytest.approx(expected, abs=0.015)
    assert np.mean(without) < expected - 0.05


def test_the_ridge_is_the_stated_penalty() -> None:
    X, ridge = _points(9), 0.37
    cost = np.exp(np.random.default_rng(0).normal(0, 1, 9))
    model = LowVariance(("n_estimators", "reg_alpha"), ridge=ridge)
    model.fit(X, cost)
    S = X[:, [0, 3]] - X[:, [0, 3]].mean(axis=0)
    w = np.linalg.solve(S.T @ S + ridge * np.eye(2), S.T @ (np.log(cost) - np.log(cost).mean()))
    expected = np.log(cost).mean() + S @ w
    mean, sd = model.predict(X)
    np.testing.assert_allclose(mean, expected, rtol=1e-10)
    hat = 1 / 9 + np.einsum("ij,jl,il->i", S, np.linalg.inv(S.T @ S + ridge * np.eye(2)), S)
    sigma = np.sqrt(np.square(np.log(cost) - expected).sum() / (9 - 2 - 1))
    np.testing.assert_allclose(sd, sigma * np.sqrt(1 + hat), rtol=1e-10)


def test_one_point_constant_costs_and_a_feature_that_never_varied() -> None:
    C = _points(20, 1)
    model = LowVariance(FEATURES)
    model.fit(_points(1), np.array([2.5]))
    np.testing.assert_allclose(model.predict(C)[0], np.log(2.5), rtol=1e-12)
    model.fit(_points(8), np.full(8, 1e-6))
    np.testing.assert_allclose(model.predict(C)[0], np.log(1e-6), rtol=1e-12)
    assert (model.predict(C)[1] < 1e-9).all()
    X = _points(8)
    X[:, 6] = 0.4
    model = LowVariance(("max_depth",))
    model.fit(X, np.exp(np.arange(8.0)))
    np.testing.assert_allclose(model.predict(C)[0], 3.5, rtol=1e-12)


@pytest.mark.parametrize(("bad", "shown"), [(0.0, "0.0"), (-1.0, "-1.0"), (np.nan, "nan"), (np.inf, "inf")])
def test_impossible_costs_are_refused_by_row(bad: float, shown: str) -> None:
    with pytest.raises(BadInput, match=f"costs must be finite and positive, got {shown} in row 2"):
        LowVariance(FEATURES).fit(_points(4), np.array([1.0, 2.0, bad, 1.0]))


def test_wrong_settings_are_reported_in_one_line() -> None:
    for features in (("rounds",), (), ("max_depth", "max_depth")):
        with pytest.raises(BadInput, match="features must be different names among n_estimators, learning_rate"):
            LowVariance(features)
    with pytest.raises(BadInput, match="ridge must be a number >= 1e-9, got 0"):
        LowVariance(FEATURES, ridge=0)
    with pytest.raises(ValueError, match="before fit"):
        LowVariance(FEATURES).predict(_points(2))
    with pytest.raises(BadInput, match=r"space has 7 parameters, the points have the shape \(3, 2\): give it yours"):
        LowVariance(FEATURES).fit(np.full((3, 2), 0.5), np.ones(3))

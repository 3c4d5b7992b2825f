"""Joint predictions against scikit-learn and against refitting; rank-1 updates; draws."""

import numpy as np
import pytest
from lookahead_cases import data, posterior
from lookahead_truth import given
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from harness.surrogates import Joint, root
from harness.surrogates.kernels import matern


@pytest.mark.parametrize("n", [1, 2, 9, 40])
def test_means_and_covariances_are_those_of_scikit_learn(n: int) -> None:
    X, y = data(n, 3)
    C = np.vstack([np.random.default_rng(1).random((30, 3)), X])
    ours = posterior(X, y)
    scale = y.std() if n > 1 else 1.0
    kernel = ConstantKernel(1.3) * Matern(np.full(3, 0.4), nu=2.5) + WhiteKernel(0.01)
    theirs = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(X, (y - y.mean()) / scale)
    latent = kernel.k1(C) - kernel.k1(C, X) @ np.linalg.solve(kernel(X), kernel.k1(X, C))
    joint = ours.joint(C)
    np.testing.assert_allclose(joint.mean, y.mean() + scale * theirs.predict(C), rtol=1e-10)
    np.testing.assert_allclose(joint.covariance, scale**2 * latent, rtol=0, atol=1e-11 * scale**2)
    np.testing.assert_allclose(ours.covariance(C[:4], C[4:]), joint.covariance[:4, 4:], rtol=0, atol=1e-12 * scale**2)
    mean, variance = ours.moments(C)
    np.testing.assert_array_equal(mean, ours.mean_sd(C)[0])
    np.testing.assert_allclose(variance, joint.covariance.diagonal(), rtol=0, atol=1e-11 * scale**2)
    assert ours.noise == pytest.approx(0.01 * scale**2)


def test_a_rank_one_update_is_conditioning() -> None:
    X, y = data()
    C = np.random.default_rng(3).random((20, 2))
    model = posterior(X, y)
    joint = model.joint(C)
    updated, (mean, covariance) = joint.condition(7, 3.0), given(joint.mean, joint.covariance, model.noise, 7, 3.0)
    np.testing.assert_allclose(updated.mean, mean, rtol=1e-10)
    np.testing.assert_allclose(updated.covariance, covariance, rtol=0, atol=1e-10)


def test_where_nothing_is_left_to_learn_nothing_changes() -> None:
    joint = Joint(np.array([1.0, 2.0]), np.diag([0.0, 1.0]), 0.0)
    same = joint.condition(0, 5.0)
    np.testing.assert_array_equal(same.mean, joint.mean)
    np.testing.assert_array_equal(same.covariance, joint.covariance)


def test_draws_have_the_mean_and_the_covariance() -> None:
    X, y = data()
    joint = posterior(X, y).joint(np.random.default_rng(4).random((5, 2)))
    draws = joint.draw(np.random.default_rng(5).standard_normal((200_000, 5)))
    scale = np.sqrt(joint.covariance.diagonal())
    np.testing.assert_allclose(draws.mean(axis=0), joint.mean, rtol=0, atol=5 * scale.max() / np.sqrt(200_000))
    np.testing.assert_allclose(np.cov(draws.T), joint.covariance, rtol=0, atol=0.02 * scale.max() ** 2)


def test_a_singular_covariance_has_a_root_and_a_negative_one_has_not() -> None:
    ones = np.ones((6, 6))
    np.testing.assert_allclose(root(ones) @ root(ones).T, ones, atol=1e-9)
    assert np.abs(root(np.zeros((3, 3)))).max() < 1e-15
    with pytest.raises(FloatingPointError, match="semidefinite"):
        root(np.array([[1.0, 2.0], [2.0, 1.0]]))


def test_the_compiled_kernel_is_its_formula() -> None:
    rng = np.random.default_rng(0)
    A, B, weight = rng.random((7, 3)), rng.random((150, 3)), np.array([0.1, 3.0, 40.0])
    r = np.sqrt((np.square((A[:, None] - B) * weight)).sum(axis=2))
    np.testing.assert_allclose(matern(A, B, weight, 2.5), 2.5 * (1 + r + r * r / 3) * np.exp(-r), rtol=1e-12)
    np.testing.assert_array_equal(matern(A, A, weight, 2.5).diagonal(), 2.5)
    assert matern(A[:, ::-1], np.asfortranarray(B[:, ::-1]), weight[::-1], 1.0).shape == (7, 150)

"""Posterior, log marginal likelihood and gradients against GPy, scikit-learn and finite differences.

Hyperparameters are those of a public fit, so that standardisation and growing data are under test as well. The data are
chosen to be well conditioned, and tests make sure of it: K has a condition number below KAPPA, so that rounding, in the
libraries too, moves means and variances by about 8 u KAPPA = 1e-10 (`conditioning`), in fact by 1e-12; y has a mean of
10^4 of its sd, which takes four digits from the means. Tolerances of 1e-9 leave room for any order of summation.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from conditioning import rounding
from scipy.optimize import check_grad
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from harness.surrogates.gp import LENGTH_SCALE, NOISE_VARIANCE, SIGNAL_VARIANCE, GaussianProcess, standardise
from harness.surrogates.kernels import Workspace
from harness.surrogates.likelihood import Distances, Likelihood

D = 7
KAPPA = 1e5
GPY_ADDS = 1e-8  # to the diagonal of K, in GPy's exact inference, besides the noise variance


class Truth(NamedTuple):
    """On standardised y: latent mean and variance, log p and its gradient by theta = (log l, log s2, log v)."""

    mean: np.ndarray
    variance: np.ndarray
    lml: float
    gradient: np.ndarray


def gpy(X: np.ndarray, z: np.ndarray, theta: np.ndarray, C: np.ndarray) -> Truth:
    GPy = pytest.importorskip("GPy", reason="the optional extra gpyopt is not installed")
    lengths, signal, noise = np.exp(theta[:-2]), np.exp(theta[-2]), np.exp(theta[-1])
    kernel = GPy.kern.Matern52(D, signal, lengths if len(lengths) > 1 else lengths[0], ARD=len(lengths) > 1)
    model = GPy.models.GPRegression(X, z[:, None], kernel, noise_var=noise - GPY_ADDS)
    mean, variance = model.predict_noiseless(C)
    slopes = np.r_[kernel.lengthscale.gradient, kernel.variance.gradient, model.likelihood.variance.gradient]
    return Truth(mean[:, 0], variance[:, 0], float(model.log_likelihood()), slopes * np.exp(theta))


def scikit_learn(X: np.ndarray, z: np.ndarray, theta: np.ndarray, C: np.ndarray) -> Truth:
    lengths, signal, noise = np.exp(theta[:-2]), np.exp(theta[-2]), np.exp(theta[-1])
    matern = ConstantKernel(signal) * Matern(lengths if len(lengths) > 1 else lengths[0], nu=2.5)
    model = GaussianProcessRegressor(matern + WhiteKernel(noise), alpha=0.0, optimizer=None).fit(X, z)
    mean, sd = model.predict(C, return_std=True)
    lml, slopes = model.log_marginal_likelihood(model.kernel_.theta, eval_gradient=True)
    return Truth(mean, sd**2 - noise, float(lml), np.r_[slopes[1:-1], slopes[0], slopes[-1]])


def data(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.random((n, D))
    return X, 7.0 + 1e-3 * (np.sin(5 * X[:, 0]) + 2 * (X[:, 1] - 0.5) ** 2 + 0.1 * rng.standard_normal(n))


def likelihood(X: np.ndarray, z: np.ndarray, ard: bool) -> Likelihood:
    pairs = Distances(ard)
    pairs.update(X)
    return Likelihood(pairs, z, Workspace())


@pytest.mark.parametrize("library", [gpy, scikit_learn])
@pytest.mark.parametrize("ard", [True, False])
@pytest.mark.parametrize("n", [3, 40, 161])
def test_a_fit_predicts_what_the_library_does(n: int, ard: bool, library: Callable[..., Truth]) -> None:
    X, y = data(n)
    C = np.vstack([np.random.default_rng(1).random((100, D)), X])
    z, (mu, scale) = standardise(y)
    for noise_in_sd in (True, False):
        process = GaussianProcess(ard=ard, noise_in_sd=noise_in_sd)
        process.fit(X[: n // 2], y[: n // 2])
        mean, sd = process.fit(X, y).mean_sd(C)
        optimum = process.optimum
        assert optimum is not None
        truth = library(X, z, optimum.x, C)
        added = np.exp(optimum.x[-1]) if noise_in_sd else 0.0
        np.testing.assert_allclose(mean, mu + scale * truth.mean, rtol=0, atol=1e-9 * scale)
        np.testing.assert_allclose(sd, scale * np.sqrt(truth.variance + added), rtol=0, atol=1e-9 * scale)
        assert rounding(X, z, optimum.x, C).kappa < KAPPA
    assert -optimum.value == pytest.approx(truth.lml, rel=1e-9)
    gradient = likelihood(X, z, ard)(optimum.x)[1]
    np.testing.assert_allclose(-gradient, truth.gradient, rtol=1e-8, atol=1e-8)  # sums over pairs that may cancel


def _thetas(ard: bool) -> list[np.ndarray]:
    """An everyday theta, and extreme ones; less noise would drown the differences in rounding."""
    p = D if ard else 1
    (short, long), (_, loud), (_, noisy) = LENGTH_SCALE, SIGNAL_VARIANCE, NOISE_VARIANCE
    values = (np.linspace(0.2, 3.0, p), 1.7, 0.02), (np.full(p, short), 1.0, noisy), (np.full(p, long), loud, 0.1)
    return [np.log(np.r_[lengths, signal, noise]) for lengths, signal, noise in values]


def _central(f: Callable[[np.ndarray], float], theta: np.ndarray, step: float = 2e-3) -> np.ndarray:
    """Five-point differences: error of order step^4."""
    h = step * np.eye(len(theta))
    return np.array([8 * (f(theta + e) - f(theta - e)) - (f(theta + 2 * e) - f(theta - 2 * e)) for e in h]) / 12 / step


@pytest.mark.parametrize("ard", [True, False])
@pytest.mark.parametrize("n", [1, 25, 161])
def test_gradients_are_those_of_the_value(n: int, ard: bool) -> None:
    X, y = data(n)
    f = likelihood(X, standardise(y)[0], ard)
    for theta in _thetas(ard):
        value, gradient = f(theta)[0], f(theta)[1].copy()
        # one-sided differences of a step h err by h |f''| / 2, and by rounding, 2 u kappa |f| / h; central ones by h^4
        # and by rounding, of which the larger step leaves less
        size = max(1.0, np.abs(gradient).max(), 1e-3 * abs(value))
        assert check_grad(lambda t: f(t)[0], lambda t: f(t)[1], theta, epsilon=1e-6) < 1e-5 * size
        np.testing.assert_allclose(gradient, _central(lambda t: f(t)[0], theta), rtol=0, atol=1e-8 * size)

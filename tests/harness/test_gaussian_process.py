"""The Gaussian process against scikit-learn and its own definition."""

import numpy as np
import pytest
from scipy.optimize import fmin_l_bfgs_b
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from datasets.errors import BadInput
from harness.surrogates.bfgs import descent, minimise
from harness.surrogates.gp import (
    LENGTH_SCALE,
    NOISE_VARIANCE,
    SIGNAL_VARIANCE,
    GaussianProcess,
    _box,
    _lowest,
    standardise,
)
from harness.surrogates.kernels import Workspace
from harness.surrogates.likelihood import Distances, Likelihood
from harness.surrogates.posterior import GaussianPosterior

D = 7


def _data(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.random((n, D))
    y = np.sin(5 * X[:, 0]) + 2 * (X[:, 1] - 0.5) ** 2 + 0.05 * rng.standard_normal(n)
    return X, y


def _theta(ard: bool, seed: int = 0, noise: float = 0.02) -> np.ndarray:
    lengths = np.random.default_rng(seed).uniform(0.2, 3.0, D if ard else 1)
    return np.log(np.r_[lengths, 1.7, noise])


def _likelihood(X: np.ndarray, z: np.ndarray, ard: bool) -> Likelihood:
    pairs = Distances(ard)
    pairs.update(X)
    return Likelihood(pairs, z, Workspace())


def _sklearn(theta: np.ndarray, X: np.ndarray, z: np.ndarray) -> GaussianProcessRegressor:
    values = np.exp(theta)
    lengths = values[:-2] if len(values) > 3 else float(values[0])
    kernel = ConstantKernel(values[-2]) * Matern(lengths, nu=2.5) + WhiteKernel(values[-1])
    return GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(X, z)


@pytest.mark.parametrize("ard", [True, False])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 5), (33, 1500)])
def test_mean_and_sd_agree_with_scikit_learn(n: int, m: int, ard: bool) -> None:
    X, z = _data(n)
    C, theta = np.random.default_rng(1).random((m, D)), _theta(ard)
    solution = _likelihood(X, z, ard).solution(theta)
    reference = _sklearn(theta, X, z)
    for noise_in_sd in (True, False):
        mean, sd = GaussianPosterior(X, theta, solution, (0.0, 1.0), noise_in_sd).mean_sd(C)
        expected_mean, expected_sd = reference.predict(C, return_std=True)
        if not noise_in_sd:
            expected_sd = np.sqrt(expected_sd**2 - np.exp(theta[-1]))
        np.testing.assert_allclose(mean, expected_mean, rtol=0, atol=1e-9)
        np.testing.assert_allclose(sd, expected_sd, rtol=0, atol=1e-9)


@pytest.mark.parametrize("ard", [True, False])
def test_pairs_grow_to_what_they_would_be_from_scratch(ard: bool) -> None:
    X, _ = _data(40)
    grown, fresh = Distances(ard), Distances(ard)
    for n in (1, 2, 3, 17, 18, 40):
        grown.update(X[:n])
    fresh.update(X)
    q = 40 * 39 // 2
    np.testing.assert_array_equal(grown.squared[:, :q], fresh.squared[:, :q])
    i, j = 29, 11
    differences = (X[i] - X[j]) ** 2
    expected = differences if ard else [differences.sum()]
    np.testing.assert_allclose(grown.squared[:, i * (i - 1) // 2 + j], expected, rtol=1e-14)


@pytest.mark.parametrize("ard", [True, False])
def test_a_compiled_descent_goes_the_way_of_one_that_calls_the_likelihood(ard: bool) -> None:
    X, y = _data(30)
    likelihood, box = _likelihood(X, standardise(y)[0], ard), _box(D if ard else 1)
    first = minimise(likelihood, descent(_theta(ard), None, box, 0.1, 3))
    for hessian, iterations in ((None, 3), (first.hessian, 12), (first.hessian, 0)):
        plain = minimise(likelihood, descent(first.x, hessian, box, 1e-3, iterations))
        compiled = _lowest(likelihood, descent(first.x, hessian, box, 1e-3, iterations))
        np.testing.assert_array_equal(compiled.x, plain.x)
        assert compiled.value == plain.value == likelihood(plain.x)[0]
        np.testing.assert_array_equal(
            likelihood.solution(plain.x).a, _likelihood(X, standardise(y)[0], ard).solution(plain.x).a
        )


def test_warm_fits_reach_the_likelihood_that_scipy_reaches() -> None:
    X, y = _data(80)
    process = GaussianProcess()
    box = np.log([LENGTH_SCALE] * D + [SIGNAL_VARIANCE, NOISE_VARIANCE]).tolist()
    start = np.log([1.0] * D + [1.0, 1e-2])
    for n in range(5, 81):
        process.fit(X[:n], y[:n])
        if n in (60, 70, 80):
            likelihood = _likelihood(X[:n], standardise(y[:n])[0], True)
            _, lowest, _ = fmin_l_bfgs_b(likelihood, start, bounds=box)
            assert process.optimum is not None
            assert likelihood(process.optimum.x)[0] == pytest.approx(process.optimum.value, rel=1e-9)
            assert process.optimum.value < lowest + 0.1  # of log-likelihood; it is about -30 to -60


_RNG = np.random.default_rng(3)
_X = _RNG.random((30, D))
HARD = {
    "one point": (_X[:1], np.array([0.3])),
    "constant": (_X, np.full(30, 0.1)),
    "constant but one": (_X, np.r_[np.full(29, 0.1), 0.1 + 1e-16 + 2e-17]),
    "duplicates": (np.repeat(_X[:3], 10, axis=0), np.tile(np.arange(10.0), 3)),
    "one place": (np.repeat(_X[:1], 30, axis=0), _RNG.random(30)),
    "near duplicates": (_X[:1] + 1e-9 * _X, _X[:, 0]),
    "twelve orders": (_X, 10.0 ** np.linspace(-6, 6, 30)),
    "huge": (_X, 1e200 * _X[:, 0]),
    "tiny": (_X, 1e-200 * _X[:, 0]),
    "offset": (_X, 1e12 + _X[:, 0]),
    "noiseless and smooth": (_X, _X.sum(axis=1)),
    "corners": (np.rint(_X), _X[:, 0]),
}


@pytest.mark.parametrize("ard", [True, False])
@pytest.mark.parametrize("case", HARD)
def test_hard_data_give_finite_predictions(case: str, ard: bool) -> None:
    X, y = HARD[case]
    process = GaussianProcess(ard=ard)
    C = np.vstack([X, np.random.default_rng(0).random((200, D))])
    for n in sorted({1, min(5, len(y)), len(y)}):
        mean, sd = process.fit(X[:n], y[:n]).mean_sd(C)
        assert np.isfinite(mean).all() and np.isfinite(sd).all() and (sd > 0).all()


def test_a_singular_kernel_is_factored_with_jitter() -> None:
    X = np.repeat(_X[:1], 20, axis=0)
    W = _likelihood(X, np.zeros(20), True).solution(np.log(np.r_[np.ones(D), 1.0, 1e-30])).inverse
    L = np.linalg.inv(W)
    assert np.isfinite(L).all()
    np.testing.assert_allclose(L @ L.T, np.ones((20, 20)), atol=1e-4)


def test_impossible_data_and_settings_are_refused() -> None:
    X, y = _data(5)
    for bad in ((X[:0], y[:0]), (X, np.r_[y[:4], np.nan]), (X, np.r_[y[:4], np.inf]), (X * np.nan, y)):
        with pytest.raises(ValueError, match="fit needs n >= 1 finite points and values"):
            GaussianProcess().fit(*bad)
    for wrong, message in (
        ({"iterations": 0}, "iterations must be a whole number >= 1, got 0"),
        ({"tolerance": 0.0}, "tolerance must be a number > 0, got 0.0"),
    ):
        with pytest.raises(BadInput, match=message):
            GaussianProcess(**wrong)

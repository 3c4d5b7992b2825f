"""The hybrid cost model against Bayesian regression written out another way, and at its two ends."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad_vec

from datasets.errors import BadInput
from harness.cost_models.linear import Hybrid, LowVariance
from harness.space import XGBOOST_SPACE as SPACE

FEATURES = ("n_estimators", "max_depth", "subsample")
C = SPACE.snap(SPACE.sobol(50, 3))


class Known:
    """A prior whose mean is curved and whose sd varies, unless set otherwise."""

    def __init__(self, sd: float | None = None) -> None:
        self.sd, self.problem = sd, None

    def start(self, problem: object) -> None:
        self.problem = problem

    def fit(self, X: np.ndarray, cost_s: np.ndarray) -> None:
        raise AssertionError("the prior is not to be fitted")

    def predict(self, C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.sin(4 * C[:, 0]) + C[:, 6], 0.5 + C[:, 1] if self.sd is None else np.full(len(C), self.sd)


def data(n: int, noise: float = 0.2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = SPACE.snap(SPACE.sobol(n, 10 + seed))
    return X, np.exp(Known().predict(X)[0] + 1.5 + 0.8 * X[:, 0] + noise * rng.normal(size=n))


def design(X: np.ndarray, features: tuple[str, ...] = FEATURES) -> np.ndarray:
    """(1, z): logs of native values, in units of their sd over the cube; made from a dense native grid."""
    u = (np.arange(20000) + 0.5) / 20000
    columns = [np.ones(len(X))]
    for name in features:
        p = SPACE.parameters[SPACE.names.index(name)]
        x, grid = X[:, SPACE.names.index(name)], u
        if not p.log and p.low > 0:
            x, grid = np.log(p.low + x * (p.high - p.low)), np.log(p.low + u * (p.high - p.low))
        columns.append((x - grid.mean()) / grid.std())
    return np.column_stack(columns)


@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_it_is_bayesian_regression_integrated_over_the_noise_variance(n: int) -> None:
    noise, slopes, a = 0.2, 0.3, 2.5
    X, cost = data(n)
    model = Hybrid(Known(), FEATURES, noise, slopes, a)
    model.fit(X, cost)
    mean, sd = model.predict(C)
    (m, t), (mc, tc) = Known().predict(X), Known().predict(C)
    u, Phi, phi = (np.log(cost) - m) / t, design(X), design(C)
    V = np.diag([1 - noise - slopes, *[slopes / 3] * 3]) / noise
    K = Phi @ V @ Phi.T + np.eye(n)  # in function space: cov(u) = s2 K
    cross = phi @ V @ Phi.T
    np.testing.assert_allclose(mean, mc + tc * (cross @ np.linalg.solve(K, u)), rtol=1e-5)
    scale = np.einsum("ij,jk,ik->i", phi, V, phi) + 1 - np.einsum("ij,ji->i", cross, np.linalg.solve(K, cross.T))
    prior = stats.invgamma(a, scale=(a - 1) * noise)

    def weighed(log_s2: float) -> np.ndarray:  # p(u | s2) p(s2) (1, s2) ds2
        s2 = np.exp(log_s2)
        p = np.exp(stats.multivariate_normal(np.zeros(n), s2 * K).logpdf(u) + prior.logpdf(s2)) * s2
        return p * np.array([1.0, s2])

    total, moment = quad_vec(weighed, -9.0, 9.0, epsrel=1e-10)[0]
    np.testing.assert_allclose(sd, tc * np.sqrt(scale * moment / total), rtol=1e-5)


def test_before_any_evaluation_it_is_the_prior() -> None:
    dense = SPACE.sobol(4096, 1)
    for features in (None, FEATURES):
        model = Hybrid(Known(0.7), features)
        mean, sd = model.predict(dense)
        assert np.array_equal(mean, Known().predict(dense)[0])
        assert np.sqrt(np.mean(np.square(sd))) == pytest.approx(0.7, rel=1e-3)
        assert 0.6 < sd.min() < sd.max() < 1.0


def test_with_many_evaluations_it_is_least_squares_on_what_the_prior_leaves() -> None:
    X, cost = data(4000, noise=0.3)
    model = Hybrid(Known(1.0), FEATURES)
    model.fit(X, cost)
    mean, sd = model.predict(C)
    m, line = Known().predict(X)[0], LowVariance(FEATURES, ridge=1e-9)
    line.fit(X, cost / np.exp(m))
    np.testing.assert_allclose(mean, Known().predict(C)[0] + line.predict(C)[0], atol=2e-3)
    np.testing.assert_allclose(sd, 0.3, rtol=0.05)


def test_its_sd_is_calibrated_when_the_world_is_as_it_believes() -> None:
    z, n = [], 4
    for seed in range(300):
        rng = np.random.default_rng(seed)
        X = SPACE.snap(rng.random((n + 30, 7)))
        s2 = stats.invgamma(2.0, scale=0.15).rvs(random_state=rng)
        b = rng.normal(size=4) * np.sqrt(s2 * np.array([0.75, *[0.1 / 3] * 3]) / 0.15)
        m, t = Known().predict(X)
        log_cost = m + t * (design(X) @ b + np.sqrt(s2) * rng.normal(size=n + 30))
        model = Hybrid(Known(), FEATURES)
        model.fit(X[:n], np.exp(log_cost[:n]))
        mean, sd = model.predict(X[n:])
        degrees = 2 * 2.0 + n
        z.append(stats.t(degrees).cdf((log_cost[n:] - mean) / (sd * np.sqrt((degrees - 2) / degrees))))
    ranks = np.concatenate(z)
    for p in (0.05, 0.25, 0.5, 0.75, 0.95):
        assert np.mean(ranks < p) == pytest.approx(p, abs=0.03)


def test_wrong_settings_and_impossible_costs_get_one_line() -> None:
    for settings, line in (
        ({"noise": 0.0}, "noise must be a share between 0 and 1, got 0"),
        ({"noise": 0.5, "slopes": 0.5}, r"noise \+ slopes must leave a share for the offset, got 0.5 \+ 0.5"),
    ):
        with pytest.raises(BadInput, match=line):
            Hybrid(Known(), **settings)
    with pytest.raises(BadInput, match=r"needs a predictive sd > 0, got 0\.0"):
        Hybrid(Known(0.0)).predict(C)
    for bad in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(BadInput, match=f"costs must be finite and positive, got {bad} in row 1"):
            Hybrid(Known()).fit(C[:3], np.array([1.0, bad, 1.0]))

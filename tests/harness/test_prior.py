"""A Gaussian process about a prior mean: how far the mean is trusted, and that the posterior is that of y."""

import numpy as np
import pytest
from scipy import stats

from harness.acquisitions.cost_rules import Ignore
from harness.acquisitions.kg import KnowledgeGradient
from harness.arrays import CandidatePoints, PerCandidate
from harness.cost_models.linear import LowVariance
from harness.errors import BadInput
from harness.optimizer import Optimizer
from harness.streams import stream
from harness.surrogates.forest import RandomForest
from harness.surrogates.gp import GaussianProcess
from harness.surrogates.prior import PriorGaussianProcess, PriorMean, slope

RNG = stream(0, "prior mean")
X, C = RNG.random((30, 4)), RNG.random((500, 4))


class Known(PriorMean):
    """A mean that is a function of the first two dimensions."""

    def predict(self, C: CandidatePoints) -> PerCandidate:
        return np.sin(4 * C[:, 0]) + C[:, 1] ** 2


class Constant(PriorMean):
    def predict(self, C: CandidatePoints) -> PerCandidate:
        return np.full(len(C), 3.0)


def model(prior: PriorMean, **settings: float) -> PriorGaussianProcess:
    return PriorGaussianProcess(prior, GaussianProcess(), **settings)


def test_the_slope_is_a_ridge_regression_towards_the_prior_correlation() -> None:
    m, y = RNG.normal(size=12), RNG.normal(size=12)
    plain = stats.linregress(m, y).slope
    assert slope(m, y + 2 * m, 0.0, 0.5) == pytest.approx(plain + 2)
    many = slope(m, 5 * y, 1e9, 0.5)
    assert many == pytest.approx(0.5 * np.std(5 * y) / np.std(m), rel=1e-6)
    assert slope(m, -m, 5.0, 0.8) == 0.0  # no trust in what the run contradicts
    assert slope(np.ones(12), y, 5.0, 0.8) == slope(m, np.ones(12), 5.0, 0.8) == 0.0


def test_a_right_prior_is_trusted_and_a_wrong_one_is_not() -> None:
    y = 3 * Known().predict(X)
    error = {}
    for name, found in (("right", model(Known())), ("without", GaussianProcess())):
        error[name] = np.abs(found.fit(X[:10], y[:10]).mean_sd(C)[0] - 3 * Known().predict(C)).mean()
    assert error["right"] < 0.3 * error["without"]
    wrong, without = (f.fit(X, -y).mean_sd(C) for f in (model(Known()), GaussianProcess()))
    np.testing.assert_array_equal(wrong, without)


def test_a_constant_prior_changes_nothing() -> None:
    y = Known().predict(X)
    for mine, plain in zip(model(Constant()).fit(X, y).mean_sd(C), GaussianProcess().fit(X, y).mean_sd(C), strict=True):
        np.testing.assert_array_equal(mine, plain)


def test_the_posterior_is_that_of_the_rest_and_the_mean_back_on_top() -> None:
    y = 2 * Known().predict(X) + 0.1 * RNG.normal(size=30)
    found = model(Known()).fit(X, y)
    b = slope(Known().predict(X), y, 5.0, 0.8)
    rest = GaussianProcess().fit(X, y - b * Known().predict(X))
    shift = b * Known().predict(C)
    np.testing.assert_allclose(found.mean_sd(C)[0], rest.mean_sd(C)[0] + shift, rtol=1e-12)
    np.testing.assert_array_equal(found.mean_sd(C)[1], rest.mean_sd(C)[1])
    np.testing.assert_allclose(found.joint(C[:5]).mean, found.moments(C[:5])[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(found.covariance(C[:3], C[:4]), rest.covariance(C[:3], C[:4]))
    for rough in (False, True):
        low, high = found.bounds(C, rough)
        assert (low <= found.mean_sd(C)[0]).all() and (high >= found.mean_sd(C)[1]).all()


def test_late_the_slope_is_found_anew_only_as_the_data_have_grown() -> None:
    y = Known().predict(X)
    late = model(Known(), steady_from=10, growth=1.5)
    late.fit(X[:10], y[:10])
    before = late._slope
    late.fit(X[:14], 2 * y[:14])
    assert late._slope == before
    late.fit(X[:15], 2 * y[:15])
    assert late._slope == pytest.approx(2 * before, rel=0.2)


def test_it_makes_joint_predictions_where_its_surrogate_does() -> None:
    cost, utility, rule = LowVariance(("n_estimators",)), KnowledgeGradient(), Ignore()
    assert model(Known()).joint
    Optimizer(model(Known()), cost, utility, rule, iterations=9)
    forest = PriorGaussianProcess(Known(), RandomForest(trees=5))
    assert not forest.joint
    with pytest.raises(BadInput, match=r"^utility=kg needs joint predictions.*surrogate=gp$"):
        Optimizer(forest, cost, utility, rule, iterations=9)

"""Hard inputs through the public Gaussian process and the whole optimizer: answers are finite, and right.

Right means: as in arbitrary precision at the fitted hyperparameters, and the choice a full evaluation would make.
"""

import math

import mpmath
import numpy as np
import pytest
from conditioning import UNIT, rounding
from hard_cases import CLUSTERS, Case, D, cases
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.acquisitions import CostRule, StepContext, choose
from harness.acquisitions.cost_rules import Contextual, Cool, Ignore, Power
from harness.acquisitions.ei import ExpectedImprovement, log_ei
from harness.cost_models.linear import LowVariance
from harness.optimizer import Optimizer
from harness.problem import Evaluation
from harness.screening import FEWEST
from harness.surrogates.gp import GaussianProcess, standardise

RULES = [Ignore(), Power(0.1), Power(1.0), Cool(), Contextual(0.0), Contextual(0.3), Contextual(1.0)]
MOST = 1e-8  # of mean and variance: the directions in which K is ill-conditioned are hardly seen in k(c)
LV3 = ("n_estimators", "max_depth", "subsample")


def exact_posterior(
    X: np.ndarray, y: np.ndarray, location: tuple[float, float], theta: np.ndarray, C: np.ndarray
) -> tuple[list[mpmath.mpf], list[mpmath.mpf], mpmath.mpf]:
    """Return mean and latent variance at `C` and log p(z), z = (y - mu) / scale, by the textbook, to 40 digits."""
    with mpmath.workdps(40):
        n, (mu, scale) = len(y), location
        z = mpmath.matrix([(mpmath.mpf(v) - mu) / scale for v in y.tolist()])
        *lengths, signal, noise = (mpmath.exp(mpmath.mpf(t)) for t in theta.tolist())

        def kernel(a: np.ndarray, b: np.ndarray) -> mpmath.mpf:
            scaled = [(mpmath.mpf(p) - q) / s for p, q, s in zip(a.tolist(), b.tolist(), lengths, strict=True)]
            r = mpmath.sqrt(5 * mpmath.fsum(s * s for s in scaled))
            return signal * (1 + r + r * r / 3) * mpmath.exp(-r)

        K = mpmath.matrix(n)
        for i in range(n):
            for j in range(i + 1):
                K[i, j] = K[j, i] = kernel(X[i], X[j]) + (noise if i == j else 0)
        inverse = K**-1
        k = [mpmath.matrix([kernel(c, x) for x in X]) for c in C]
        mean = [mu + scale * (row.T * inverse * z)[0] for row in k]
        variance = [scale**2 * (signal - (row.T * inverse * row)[0]) for row in k]
        lml = -((z.T * inverse * z)[0] + mpmath.log(mpmath.det(K)) + n * mpmath.log(2 * mpmath.pi)) / 2
        return mean, variance, lml


@settings(max_examples=25)
@given(cases())
def test_fits_to_hard_data_are_exact(case: Case) -> None:
    X, y, _ = case
    process = GaussianProcess()
    C = np.vstack([np.random.default_rng(0).random((3, D)), X[:2], np.clip(X[:1] + 1e-6, 0.0, 1.0)])
    mean, sd = process.fit(X, y).mean_sd(C)
    constant = y.min() == y.max()  # the likelihood says nothing then, and hyperparameters are the first start's
    optimum = process.optimum
    assert (optimum is None) == constant
    theta = np.log(np.r_[np.ones(D), 1.0, 1e-2]) if optimum is None else optimum.x
    location = standardise(y)[1]  # a mean in floating point; of y close together its last digits matter
    exact_mean, exact_variance, lml = exact_posterior(X, y, location, theta, C)
    mu, scale = location
    known = rounding(X, standardise(y)[0], theta, C)
    of_mean = min(known.mean, MOST) * scale + 4 * UNIT * abs(mu)  # the sum of mu and the rest may cancel
    np.testing.assert_allclose(mean, np.array(exact_mean, float), rtol=1e-15, atol=of_mean)
    of_variance = min(known.variance, MOST) * scale**2
    np.testing.assert_allclose(sd**2, np.array(exact_variance, float), rtol=8 * UNIT, atol=of_variance)
    if optimum is not None:
        assert optimum.value == pytest.approx(-float(lml), rel=0, abs=known.lml)


def reported(rule: CostRule, tau: float | None, case: Case) -> Optimizer:
    optimizer = Optimizer(GaussianProcess(), LowVariance(LV3), ExpectedImprovement(), rule, iterations=30, tau=tau)
    for x, error, cost in zip(*case, strict=True):
        optimizer.tell(x, Evaluation(float(error), float(cost), float(error), float(cost)))
    return optimizer


@settings(max_examples=40)
@given(cases(), st.sampled_from(RULES), st.sampled_from([None, 1e-5, 1.0, 1e7]))
@example(CLUSTERS, Power(1.0), None)
def test_the_optimizer_chooses_as_a_full_evaluation_would(case: Case, rule: CostRule, tau: float | None) -> None:
    X, y, cost = case
    spread = np.random.default_rng(len(X)).random((FEWEST, D))  # enough for screening
    C = np.vstack([spread, X, np.zeros((1, D)), np.ones((1, D))])
    proposal = reported(rule, tau, case).ask(C)

    mean, sd = GaussianProcess().fit(X, y).mean_sd(C)
    model = LowVariance(LV3)
    model.fit(X, cost)
    log_cost, log_cost_sd = model.predict(C)
    spent, initial = float(cost.sum()), float(cost[:5].sum())
    context = StepContext(mean, sd, float(y.min()), log_cost, log_cost_sd, len(y), 30, 5, spent, initial, tau)
    value = log_ei(y.min() - mean, sd)
    for answers in (mean, sd, value, log_cost, log_cost_sd):
        assert np.isfinite(answers).all()
    assert proposal.index == choose(rule.score(value, log_cost, context), value, log_cost)
    # the same posterior in other blocks of candidates, and so to the last digits of mean and sd, which EI magnifies
    assert proposal.log_ei == pytest.approx(value[proposal.index], rel=1e-9, abs=1e-9)
    assert 0.0 < proposal.predicted_cost_s < math.inf

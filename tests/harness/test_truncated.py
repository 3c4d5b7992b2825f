"""Truncated normal moments and quantiles against scipy.stats.truncnorm, and against mpmath where that gives up."""

import mpmath
import numpy as np
import pytest
from scipy.stats import truncnorm

from harness.normal import truncated_moments, truncated_quantile

ALPHA = np.array([-40.0, -8.0, -3.0, -1.0, 0.0, 0.5, 2.0, 5.0, 8.0, 12.0])
MU, SD = 1.7, 0.6


@pytest.mark.parametrize("q", [1e-6, 0.1, 0.5, 0.9, 1 - 1e-6])
def test_quantiles_are_scipys_also_12_sd_out(q: float) -> None:
    bound = MU + SD * ALPHA
    found = truncated_quantile(np.full(10, q), np.full(10, MU), np.full(10, SD), bound)
    expected = truncnorm(ALPHA, np.inf, loc=MU, scale=SD).ppf(q)
    np.testing.assert_allclose(found - bound, expected - bound, rtol=1e-6, atol=1e-12)
    assert (found >= bound).all()


def test_moments_are_scipys_also_12_sd_out() -> None:
    bound = MU + SD * ALPHA
    mean, variance = truncated_moments(np.full(10, MU), np.full(10, SD), bound)
    expected = truncnorm(ALPHA, np.inf, loc=MU, scale=SD)
    np.testing.assert_allclose(mean, expected.mean(), rtol=1e-10)
    np.testing.assert_allclose(variance, expected.var(), rtol=1e-6)


@pytest.mark.parametrize("alpha", [12.0, 29.9, 30.1, 60.0, 1e3])
def test_moments_and_quantiles_far_out_against_arbitrary_precision(alpha: float) -> None:
    with mpmath.workdps(60):
        a = mpmath.mpf(alpha)
        tail = mpmath.erfc(a / mpmath.sqrt(2)) / 2
        h = mpmath.npdf(a) / tail
        mean, variance = float(h - a), float(1 + a * h - h * h)
        median = float(mpmath.findroot(lambda x: mpmath.log(mpmath.erfc((a + x) / mpmath.sqrt(2)) / tail), 0.69 / a))
    one, zero = np.ones(1), np.zeros(1)
    found = truncated_moments(zero, one, alpha * one)
    assert found[0][0] - alpha == pytest.approx(mean, rel=1e-8, abs=1e-12)
    assert found[1][0] == pytest.approx(variance, rel=1e-6)
    assert truncated_quantile(0.5 * one, zero, one, alpha * one)[0] - alpha == pytest.approx(median, rel=1e-5)


def test_impossible_arguments_are_refused() -> None:
    one, zero = np.ones(1), np.zeros(1)
    with pytest.raises(ValueError, match="sd of a truncated normal distribution must be positive"):
        truncated_moments(zero, zero, one)
    for q in (zero, one):
        with pytest.raises(ValueError, match=r"quantiles must lie inside \(0, 1\)"):
            truncated_quantile(q, zero, one, one)

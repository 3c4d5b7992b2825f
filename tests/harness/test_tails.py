"""Normal tails against mpmath and SciPy, and the sums made of them against sums of logs."""

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numba import njit
from scipy.special import log_ndtr, logsumexp

from harness.acquisitions.entropy import (
    Gibbon,
    MaxValueEntropySearch,
    density_ratio,
)
from harness.normal import BLOCK, ROWS, log_survival, tails


@njit(error_model="numpy")
def _tails(u: np.ndarray, minus_log: np.ndarray, ratio: np.ndarray) -> None:
    work = np.empty((ROWS, BLOCK))
    for start in range(0, len(u), BLOCK):
        end = min(start + BLOCK, len(u))
        tails(u[start:end], work, minus_log[start:end], ratio[start:end])


def test_logs_and_ratios_are_those_of_mpmath() -> None:
    u = np.concatenate([np.linspace(-40.0, 37.0, 160), [0.0, 1e-12, -1e-12, -1e4]])
    minus_log, ratio = np.empty(len(u)), np.empty(len(u))
    _tails(u, minus_log, ratio)
    with mpmath.workdps(50):
        beyond = [mpmath.erfc(abs(x) / mpmath.sqrt(2)) / 2 for x in map(mpmath.mpf, u[:-1])]
        exact = [-mpmath.log1p(-b) if x > 0 else -mpmath.log(b) for x, b in zip(u[:-1], beyond, strict=True)]
        slopes = [mpmath.npdf(x) * mpmath.exp(e) for x, e in zip(map(mpmath.mpf, u[:-1]), exact, strict=True)]
    np.testing.assert_allclose(minus_log[:-1], [float(e) for e in exact], rtol=2e-13)
    np.testing.assert_allclose(ratio[:-1], [float(s) for s in slopes], rtol=2e-13)
    np.testing.assert_allclose([minus_log[-1], ratio[-1]], [-log_ndtr(-1e4), 1e4 + 1e-4], rtol=1e-13)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from([1, 5, 63, 64, 65, 300]), st.floats(-3, 3))
def test_the_survival_of_a_minimum_and_its_slope(seed: int, m: int, y: float) -> None:
    rng = np.random.default_rng(seed)
    mean, sd = rng.normal(size=m), np.exp(rng.normal(size=m))
    value, slope = log_survival(mean, sd, y)
    assert value == pytest.approx(log_ndtr((mean - y) / sd).sum(), rel=1e-12)
    step = 1e-6
    lower, higher = (log_ndtr((mean - y - d) / sd).sum() for d in (-step, step))
    assert slope == pytest.approx((lower - higher) / (2 * step), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("g", [-2000.0, -213.0, -40.0, -1.4, -1e-9, 0.0, 0.7, 5.9, 12.0, 36.0])
def test_the_ratio_of_density_to_probability(g: float) -> None:
    with mpmath.workdps(60):
        exact = float(mpmath.npdf(g) / mpmath.ncdf(g))
    assert density_ratio(np.array([g]))[0] == pytest.approx(exact, rel=4e-13)


@example(9158, 7, 0.0)  # 200 sd below some of the samples
@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from([1, 7, 64, 100]), st.sampled_from([0.0, 0.1, 10.0]))
@pytest.mark.parametrize("utility", [MaxValueEntropySearch(), Gibbon()], ids=["mes", "gibbon"])
def test_sums_of_terms_are_those_of_their_logs(utility: MaxValueEntropySearch, seed: int, k: int, noise: float) -> None:
    """Wherever the candidate lies: below all samples of the minimum, among them, or so high that sums underflow."""
    rng = np.random.default_rng(seed)
    m = 200
    variance, lowest = np.exp(2 * rng.normal(size=m)), rng.normal(size=k)
    mean = rng.uniform(-10, 60, m) * np.sqrt(variance)
    gap = (mean[:, None] - lowest) / np.sqrt(variance)[:, None]
    terms = utility.log_term(gap, (variance / (variance + noise))[:, None])
    expected = logsumexp(terms, axis=1) - np.log(k)
    found = utility.given(mean, variance, noise, lowest)
    reported = gap.min(axis=1) > (
        -5.0 if noise == 0.0 and isinstance(utility, Gibbon) else -np.inf
    )  # else 1 - share cancels
    np.testing.assert_allclose(found[reported], expected[reported], rtol=1e-9, atol=1e-9)

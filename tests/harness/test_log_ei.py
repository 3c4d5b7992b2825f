"""Log EI against arbitrary precision, and its behaviour at the edges."""

import mpmath
import numpy as np
import pytest

from datasets.errors import BadInput
from harness.acquisitions import FittedData, StepContext
from harness.acquisitions.ei import ExpectedImprovement, log_ei, log_h


def exact_log_h(u: float) -> float:
    with mpmath.workdps(50):
        x = mpmath.mpf(u)
        return float(mpmath.log(mpmath.npdf(x) + x * mpmath.ncdf(x)))


@pytest.mark.parametrize(
    "u",
    [-3000.0, -300.0, -101.0, -100.0, -99.0, -30.0, -12.5, -3.0, -1.0, -1e-3, 0.0, 1e-9, 0.3, 2.0, 8.0, 39.0],
)
def test_log_h_is_exact_from_far_below_to_above(u: float) -> None:
    assert log_h(np.array([u]))[0] == pytest.approx(exact_log_h(u), rel=1e-12, abs=1e-12)


def test_a_known_point_improves_by_its_gap_or_not_at_all() -> None:
    gap, sd = np.array([2.0, 0.0, -1.0, 2.0, -5.0]), np.array([0.0, 0.0, 0.0, 1e-300, 1e-300])
    np.testing.assert_array_equal(log_ei(gap, sd), [np.log(2.0), -np.inf, -np.inf, np.log(2.0), -np.inf])


class _Flat:
    def mean_sd(self, C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.full(len(C), 0.25), np.ones(len(C))


def _context(history: FittedData | None) -> StepContext:
    m = np.array([0.1, 0.4, 0.9])
    return StepContext(m, np.array([0.2, 0.3, 0.1]), 0.3, m, m, 5, 10, 5, 1.0, 1.0, None, history)


def test_incumbent_and_jitter_follow_their_definitions() -> None:
    y = np.array([0.3, 0.5, 0.7, 1.1])
    context = _context(FittedData(np.zeros((4, 7)), y, _Flat()))
    for options, target in (
        ({}, 0.3),
        ({"jitter": 0.01}, 0.3 - 0.01 * y.std()),
        ({"incumbent": "posterior_mean"}, 0.25),
        ({"incumbent": "posterior_mean", "jitter": 0.5}, 0.25 - 0.5 * y.std()),
    ):
        expected = log_ei(target - context.mean, context.sd)
        np.testing.assert_allclose(ExpectedImprovement(**options).log_value(context), expected, rtol=1e-13)
    flat = _context(FittedData(np.zeros((4, 7)), np.full(4, 0.3), _Flat()))
    expected = log_ei(0.3 - 0.01 - flat.mean, flat.sd)  # GPyOpt divides constant y by 1
    np.testing.assert_allclose(ExpectedImprovement(jitter=0.01).log_value(flat), expected, rtol=1e-13)


def test_wrong_settings_are_reported_in_one_line() -> None:
    with pytest.raises(BadInput, match="incumbent must be one of observed, posterior_mean, got 'best'"):
        ExpectedImprovement(incumbent="best")
    with pytest.raises(BadInput, match=r"jitter must be a number >= 0, got -0\.1"):
        ExpectedImprovement(jitter=-0.1)
    with pytest.raises(ValueError, match="history"):
        ExpectedImprovement(jitter=0.1).log_value(_context(None))

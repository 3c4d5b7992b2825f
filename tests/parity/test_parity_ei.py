"""EI and log EI against arbitrary precision and BoTorch; choices where EI itself underflows."""

from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.acquisitions import StepContext
from harness.acquisitions.cost_rules import Ignore
from harness.acquisitions.ei import ExpectedImprovement, log_ei
from harness.cost_models.linear import LowVariance
from harness.optimizer import Optimizer
from harness.problem import Evaluation


def exact(gap: float, sd: float) -> tuple[mpmath.mpf, mpmath.mpf]:
    """Return E[max(0, g)] for g ~ N(gap, sd^2), and its logarithm, to 50 digits."""
    with mpmath.workdps(50):
        g, s = mpmath.mpf(gap), mpmath.mpf(sd)
        u = g / s
        ei = g * mpmath.ncdf(u) + s * mpmath.npdf(u)
        return ei, mpmath.log(ei)


def deviations(gap: np.ndarray, sd: np.ndarray, found: np.ndarray) -> tuple[float, float]:
    """Return the largest relative error of EI = exp(found), and of log EI itself where it is not near 0."""
    of_ei, of_log = 0.0, 0.0
    for g, s, value in zip(gap, sd, found, strict=True):
        ei, log = exact(float(g), float(s))
        of_ei = max(of_ei, float(abs(mpmath.exp(mpmath.mpf(float(value))) / ei - 1)))
        of_log = max(of_log, float(abs(value - log) / max(1, abs(log))))
    return of_ei, of_log


def context(mean: np.ndarray, sd: np.ndarray, incumbent: float) -> StepContext:
    zero = np.zeros(len(mean))
    return StepContext(mean, sd, incumbent, zero, zero, 5, 10, 5, 1.0, 1.0, None)


def test_ei_and_log_ei_are_exact_down_to_minus_thirty_and_beyond() -> None:
    u = np.r_[np.linspace(-30.0, 10.0, 601), -np.logspace(np.log10(30.0), 2.3, 100), [-100.0, 39.9, 40.1, 300.0]]
    sd = 10.0 ** np.random.default_rng(0).uniform(-8, 6, len(u))
    gap = u * sd
    found = ExpectedImprovement().log_value(context(-gap, sd, 0.0))
    near = u >= -30.0
    of_ei, of_log = deviations(gap[near], sd[near], found[near])
    assert of_ei < 1e-10 and of_log < 1e-13  # down to log EI = -460, which an error of 1e-13 of it makes 5e-11 of EI
    assert deviations(gap, sd, found)[1] < 1e-13


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(1e-9, 1e6)), min_size=1, max_size=20))
def test_no_gap_and_sd_gives_nan_or_a_zero(pairs: list[tuple[float, float]]) -> None:
    gap, sd = np.array(pairs).T
    assert np.isfinite(log_ei(gap, sd)).all()


class _Known:
    """A surrogate whose prediction at x is mean 1 + x_0, sd 0.02: EI of every candidate is 0 in floating point."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> "_Known":
        return self

    def mean_sd(self, C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return 1.0 + C[:, 0], np.full(len(C), 0.02)


def test_choices_are_made_where_ei_is_zero_in_floating_point() -> None:
    optimizer = Optimizer(_Known(), LowVariance(["max_depth"]), ExpectedImprovement(), Ignore(), iterations=10)
    optimizer.tell(np.full(7, 0.5), Evaluation(0.1, 1.0, 0.1, 1.0))
    C = np.random.default_rng(0).random((50, 7))
    best, log = C[:, 0].argmin(), exact(0.1 - 1.0 - C[:, 0].min(), 0.02)[1]
    assert np.exp(float(log)) == 0.0
    proposal = optimizer.ask(C)
    assert proposal.index == best
    assert proposal.log_ei == pytest.approx(float(log), rel=1e-13)


@pytest.mark.filterwarnings("ignore:ExpectedImprovement has known numerical issues")
def test_botorch_gives_the_same_values() -> None:
    torch: Any = pytest.importorskip("torch", reason="the optional extra parity (torch) is not installed")
    pytest.importorskip("botorch", reason="the optional extra parity (botorch) is not installed")
    from botorch.acquisition.analytic import ExpectedImprovement as TheirEI
    from botorch.acquisition.analytic import LogExpectedImprovement as TheirLogEI
    from botorch.utils.testing import MockModel, MockPosterior

    u = np.r_[np.linspace(-30.0, 8.0, 401), [-60.0, -300.0]]
    sd = 10.0 ** np.random.default_rng(1).uniform(-3, 3, len(u))
    mean, best = 0.3 - u * sd, 0.3
    ours = ExpectedImprovement().log_value(context(mean, sd, best))

    def theirs(kind: Any) -> np.ndarray:
        shape = (len(u), 1, 1)  # a batch of candidates, one point and one output each
        posterior = MockPosterior(torch.tensor(mean).reshape(shape), torch.tensor(sd**2).reshape(shape))
        double = {"dtype": torch.float64}  # both decide the precision in which their incumbent is kept
        acquisition = kind(MockModel(posterior), torch.tensor(best, **double), maximize=False)
        return acquisition(torch.zeros(len(u), 1, 7, **double)).numpy()

    log, near = theirs(TheirLogEI), u >= -30.0
    # as above, and u = gap / sd is theirs and ours to one unit each, which log EI, about -u^2 / 2, doubles
    np.testing.assert_allclose(ours, log, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(np.exp(ours[near]), np.exp(log[near]), rtol=1e-10, atol=0)
    plain = u > -5.0  # below, the two terms of their plain EI cancel
    np.testing.assert_allclose(np.exp(ours[plain]), theirs(TheirEI)[plain], rtol=1e-10)

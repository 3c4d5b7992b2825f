"""The scale of errors: its formulas, that order is kept, and that all of the optimizer is on it, records apart."""

from typing import Any

import numpy as np
import pytest
from hydra.utils import instantiate
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf
from scipy.stats import iqr

from harness.acquisitions import Utility
from harness.acquisitions.cost_rules import Ignore
from harness.acquisitions.ei import ExpectedImprovement
from harness.config import CONFIGS, options
from harness.cost_models.linear import LowVariance
from harness.error_scale import LOG, RAW, SCALES, WINSORIZED, rescale, upper_limit
from harness.errors import BadInput
from harness.normal import log
from harness.optimizer import Optimizer
from harness.problem import FAILED, Evaluation
from harness.space import XGBOOST_SPACE
from harness.streams import stream
from harness.surrogates import Surrogate
from harness.surrogates.forest import RandomForest
from harness.surrogates.gp import GaussianProcess

X = XGBOOST_SPACE.sobol(60, 3)
ERRORS = np.exp(2 * np.square(X[:, 0] - 0.3) + 0.05 * stream(0, "test error scales").normal(size=60))
ERRORS[3] = 1e9
NAN = float("nan")
MANY = XGBOOST_SPACE.sobol(300, 8)  # enough candidates to be screened


@given(
    st.lists(
        st.one_of(st.just(NAN), st.floats(0, 1e12), st.sampled_from([0.0, 0.1, 0.2])), min_size=1, max_size=30
    ).map(np.array)
)
def test_no_scale_changes_which_of_two_errors_is_the_lower(error: np.ndarray) -> None:
    before = error.copy()
    for name in SCALES:
        y = rescale(name, error)
        np.testing.assert_array_equal(error, before)
        np.testing.assert_array_equal(np.isnan(y), np.isnan(error))
        seen, scaled = error[~np.isnan(error)], y[~np.isnan(error)]
        order = np.argsort(seen, kind="stable")
        rise, scaled_rise = np.diff(seen[order]), np.diff(scaled[order])
        assert np.isfinite(scaled).all() and (scaled_rise >= 0).all() and (scaled_rise[rise == 0] == 0).all()
        if len(seen):
            assert (scaled == scaled.min())[seen == seen.min()].all()
            assert seen.min() == seen.max() or scaled.min() < scaled.max(), "differences are never all lost"
        if name == LOG:
            apart = rise > 1e-12 * seen[order][1:]
            assert (scaled_rise[apart] > 0).all()
        if name == WINSORIZED and len(seen):
            kept = seen <= max(np.quantile(seen, 0.75), seen.min())
            np.testing.assert_array_equal(scaled[kept], seen[kept])


def test_log_puts_half_of_the_smallest_positive_error_for_0() -> None:
    error = np.array([0.5, NAN, 0.0, 0.02, 3e11, 5e-324])
    np.testing.assert_allclose(rescale(LOG, error[:5]), np.log([0.5, NAN, 0.01, 0.02, 3e11]), rtol=1e-15)
    assert rescale(LOG, error)[2] == pytest.approx(-1074 * np.log(2) - np.log(2))
    np.testing.assert_array_equal(rescale(LOG, np.array([0.0, NAN, 0.0])), [0.0, NAN, 0.0])
    with pytest.raises(BadInput, match=r"^error_scale=log needs errors >= 0, got -0.5: take raw or winsorized$"):
        rescale(LOG, np.array([1.0, NAN, -0.5]))


def test_winsorized_pulls_down_to_tukeys_fence() -> None:
    error = np.array([2.0, 3.0, 1.0, 4.0, NAN, 100.0, -1e6])  # quartiles of the six: 1.25 and 3.75
    limit = 3.75 + 1.5 * 2.5
    np.testing.assert_array_equal(rescale(WINSORIZED, error), [2.0, 3.0, 1.0, 4.0, NAN, limit, -1e6])
    drawn = stream(0, "test fence").lognormal(size=101)
    assert upper_limit(drawn) == pytest.approx(np.quantile(drawn, 0.75) + 1.5 * iqr(drawn))
    np.testing.assert_allclose(rescale(WINSORIZED, 7 * drawn - 3), 7 * rescale(WINSORIZED, drawn) - 3)


def test_where_the_fence_is_the_lowest_error_nothing_is_pulled_down() -> None:
    same = np.array([0.2, 0.2, 0.2, 0.2, 0.9])
    np.testing.assert_array_equal(rescale(WINSORIZED, same), same)
    better = np.append(same, 0.1)  # now something lies below it
    np.testing.assert_array_equal(rescale(WINSORIZED, better), [0.2, 0.2, 0.2, 0.2, 0.2, 0.1])


class Spy(GaussianProcess):
    """Keeps what it is fitted to."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Any:
        self.seen = y.copy()
        return super().fit(X, y)


def after(error: np.ndarray, surrogate: Surrogate, utility: Utility, rule: Any = None, **settings: Any) -> Optimizer:
    cost_model = LowVariance(("n_estimators", "max_depth"))
    settings = {"iterations": 40, "tau": 500.0, **settings}
    optimizer = Optimizer(surrogate, cost_model, utility, rule or Ignore(), **settings)
    for x, y in zip(X, error, strict=False):
        status = [FAILED] if np.isnan(y) else []
        optimizer.tell(x, Evaluation(float(y), float(np.exp(x[0])), 0.0, 1.0, *status))
    return optimizer


def test_the_surrogate_sees_the_scale_and_failures_as_the_worst_on_it() -> None:
    error = ERRORS[:20].copy()
    error[5] = NAN
    seen = {}
    for name in SCALES:
        spy = Spy()
        optimizer = after(error, spy, ExpectedImprovement(), error_scale=name)
        optimizer.ask(X[20:])
        seen[name] = spy.seen
    np.testing.assert_array_equal(seen[RAW], np.where(np.isnan(error), 1e9, error))
    np.testing.assert_allclose(seen[LOG], np.log(seen[RAW]), rtol=1e-14)
    limit = upper_limit(error[~np.isnan(error)])
    np.testing.assert_array_equal(seen[WINSORIZED], np.minimum(seen[RAW], limit))
    assert limit < 20, "what failed is no observation of a limit"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("utility", "surrogate"), [*((name, GaussianProcess) for name in options("utility")), ("ei", RandomForest)]
)
def test_a_run_under_a_scale_is_a_raw_run_of_the_rescaled_errors(utility: str, surrogate: type[Surrogate]) -> None:
    """Utilities, incumbent and screening included: nothing is left on the errors' own scale."""
    config = OmegaConf.load(CONFIGS / "utility" / f"{utility}.yaml")
    scaled = {LOG: log(ERRORS[:20]), WINSORIZED: np.minimum(ERRORS[:20], upper_limit(ERRORS[:20]))}
    chosen = []
    for name, y in scaled.items():
        for error, scale in ((ERRORS[:20], name), (y, RAW)):
            proposal = after(error, surrogate(), instantiate(config), error_scale=scale).ask(MANY)
            chosen.append((proposal.index, proposal.log_ei, proposal.effective_alpha))
    np.testing.assert_equal(chosen[0::2], chosen[1::2])
    assert chosen[0][1] != chosen[2][1]


def test_how_far_an_outlier_lies_does_not_matter_to_winsorized() -> None:
    farther = np.where(ERRORS == 1e9, 1e11, ERRORS)[:20]
    (near, far), (raw_near, raw_far) = (
        [
            after(error, GaussianProcess(), ExpectedImprovement(), error_scale=name).ask(X[20:])
            for error in (ERRORS[:20], farther)
        ]
        for name in (WINSORIZED, RAW)
    )
    assert (near.index, near.log_ei) == (far.index, far.log_ei)
    assert raw_near.log_ei != raw_far.log_ei


def test_the_unit_of_errors_does_not_matter_to_the_log() -> None:
    log_ei = [
        after(unit * ERRORS[:20], GaussianProcess(), ExpectedImprovement(), error_scale=LOG).ask(X[20:]).log_ei
        for unit in (1.0, 1e3)
    ]
    assert log_ei[0] == pytest.approx(log_ei[1], abs=1e-6)

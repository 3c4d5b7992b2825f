"""Optuna's own test cases for samplers of one objective, run on ours.

All but those of `MultiObjectiveSamplerTestCase`, of which `SingleOnlySamplerTestCase` asks the contrary: to be refused.
"""

from collections.abc import Callable

import pytest

optuna = pytest.importorskip("optuna", minversion="5", reason="needs the extra `optuna`")
cases = pytest.importorskip("optuna.testing.pytest_samplers")

from harness.interop.sampler import CostAwareSampler  # noqa: E402


@pytest.fixture(autouse=True)
def quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)


class TestBasic(cases.BasicSamplerTestCase, cases.SingleOnlySamplerTestCase):
    @pytest.fixture
    def sampler(self) -> Callable[[], CostAwareSampler]:
        return lambda: CostAwareSampler("cei", lam=0.1, n_startup_trials=3, n_candidates=64, seed=0)


class TestRelative(cases.RelativeSamplerTestCase):
    """They ask for a joint suggestion after one trial."""

    @pytest.fixture
    def sampler(self) -> Callable[[], CostAwareSampler]:
        return lambda: CostAwareSampler("cei", lam=0.1, n_startup_trials=1, n_candidates=64, seed=0)

"""The oracle: costs as the problem will charge them."""

from pathlib import Path

import numpy as np
import pytest
from fakes import make_tables

from datasets.errors import BadInput
from harness.acquisitions.cost_rules import Power
from harness.acquisitions.ei import ExpectedImprovement
from harness.cost_models import Oracle
from harness.loop import run
from harness.optimizer import Optimizer
from harness.problem import ContinuousProblem, Evaluation
from harness.surrogates.gp import GaussianProcess
from tabular_cache.replay import Replay, ReplayProblem


@pytest.fixture
def problem(tmp_path: Path) -> ReplayProblem:
    make_tables(tmp_path, ["a/p"], 12)
    return Replay(str(tmp_path)).open({"name": "a"}, {"name": "p"}, 0)


def test_what_it_predicts_is_what_is_charged(problem: ReplayProblem) -> None:
    optimizer = Optimizer(GaussianProcess(), Oracle(), ExpectedImprovement(), Power(1.0), iterations=12)
    trace = run(problem, optimizer, 0, 12, 5, None).columns
    np.testing.assert_allclose(trace["predicted_cost_s"][5:], trace["cost_s"][5:], rtol=1e-12)
    assert np.isnan(trace["predicted_cost_s"][:5]).all()


def test_points_that_are_no_rows_have_no_known_cost(problem: ReplayProblem) -> None:
    assert problem.costs_known
    with pytest.raises(ValueError, match="the table of a/p does not hold all of these points"):
        problem.true_cost_s(np.full((2, 7), 0.123))


class Measured(ContinuousProblem):
    """A problem of which nothing is known before it is evaluated."""

    def measure(self, x: np.ndarray) -> Evaluation:
        return Evaluation(0.1, 1.0, 0.1, 1.0)


def test_problems_that_do_not_know_their_costs_are_refused() -> None:
    with pytest.raises(BadInput, match="cost_model=oracle needs costs known beforehand: evaluator=replay"):
        Oracle().start(Measured("unknown", 0, 10))
    with pytest.raises(ValueError, match="before start"):
        Oracle().predict(np.zeros((1, 7)))

"""A run ends before its length where nothing is expected to be worth its cost."""

import math
from dataclasses import replace

import numpy as np
import pytest
from optimizer_cases import POINTS, evaluate, make_cost_model
from scipy import stats

from harness.acquisitions import FittedData, StepContext
from harness.acquisitions.cost_rules import Ignore
from harness.acquisitions.designs import RandomSearch
from harness.acquisitions.ei import ExpectedImprovement, log_ei
from harness.acquisitions.stopping import Price
from harness.cost_models.linear import LowVariance
from harness.errors import BadInput
from harness.loop import run
from harness.optimizer import Optimizer
from harness.problem import ContinuousProblem, Evaluation
from harness.streams import stream
from harness.surrogates.gp import GaussianProcess

RNG = stream(0, "stopping")
X, Y, C = RNG.random((9, 3)), RNG.normal(size=9), RNG.random((30, 3))


def context(scale: float = 1.0, unit: float = 1.0) -> StepContext:
    posterior = GaussianProcess().fit(X, scale * Y)
    mean, sd = posterior.mean_sd(C)
    log_cost = math.log(unit) + stream(1, "costs").normal(size=30)
    rest = 9, 20, 5, 9.0 * unit, 10.0 * unit, None
    return StepContext(mean, sd, float(scale * Y.min()), log_cost, log_cost, *rest, FittedData(X, scale * Y, posterior))


def test_it_stops_below_the_price_of_the_best_candidate() -> None:
    now = context()
    gap = now.incumbent - now.mean
    value = gap * stats.norm.cdf(gap / now.sd) + now.sd * stats.norm.pdf(gap / now.sd)
    best = float((value / np.exp(now.log_cost)).max())
    for price, stops in ((1.01 * best, True), (0.99 * best, False)):
        assert Price(price, relative=False).stops(now) == stops
    relative = best * 2.0 / Y.std()  # two seconds: the mean of the initial design
    for scale, unit in ((1.0, 1.0), (50.0, 0.01)):
        for factor in (1.01, 0.99):
            assert Price(factor * relative).stops(context(scale, unit)) == (factor > 1)
    with pytest.raises(ValueError, match="a history"):
        Price().stops(replace(now, history=None))


@pytest.mark.parametrize("utility", [ExpectedImprovement(), ExpectedImprovement(jitter=2.0)])
def test_whatever_the_utility_the_best_of_all_candidates_counts(utility: ExpectedImprovement) -> None:
    for n in (10, 20, 40):
        evaluated, offered = [evaluate(x) for x in POINTS[:n]], POINTS[n:]
        y, cost = np.array([one.error for one in evaluated]), make_cost_model()
        cost.fit(POINTS[:n], np.array([one.cost_s for one in evaluated]))
        mean, sd = GaussianProcess().fit(POINTS[:n], y).mean_sd(offered)
        best = float(np.exp(log_ei(y.min() - mean, sd) - cost.predict(offered)[0]).max())
        for factor in (1.01, 0.99):
            parts = GaussianProcess(), make_cost_model(), utility, Ignore()
            optimizer = Optimizer(*parts, iterations=60, stopping=Price(factor * best, relative=False))
            for x, outcome in zip(POINTS, evaluated, strict=False):
                optimizer.tell(x, outcome)
            assert optimizer.ask(offered).stop == (factor > 1), (n, factor)


class Bowl(ContinuousProblem):
    """Errors that a few evaluations suffice to know."""

    def measure(self, x: np.ndarray) -> Evaluation:
        return Evaluation(float(np.square(self.space.to_unit(x[None])[0] - 0.4).sum()), 1.0, 0.0, 1.0)


def test_a_run_ends_earlier_the_higher_the_price() -> None:
    cost = LowVariance(["n_estimators"])
    lengths = []
    for stopping in (None, Price(1e-3), Price(0.3)):
        optimizer = Optimizer(
            GaussianProcess(), cost, ExpectedImprovement(), Ignore(), iterations=30, stopping=stopping
        )
        assert not (stopping and optimizer.forgets(100))
        lengths.append(len(run(Bowl("bowl", 0, 256), optimizer, 0, 30, 5, None)))
    assert lengths[0] == 30 > lengths[2] >= 5 and lengths[1] >= lengths[2]
    with pytest.raises(BadInput, match="stopping needs models, and RandomSearch uses none"):
        Optimizer(GaussianProcess(), cost, ExpectedImprovement(), RandomSearch(), iterations=9, stopping=Price())

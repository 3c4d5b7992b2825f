"""The Pandora's box Gittins index against its defining equation, and what its price means."""

from dataclasses import replace
from pathlib import Path

import lookahead_truth
import numpy as np
import pytest
from fakes import make_tables
from hydra.utils import instantiate
from hypothesis import given
from hypothesis import strategies as st
from lookahead_cases import data, make_context
from omegaconf import OmegaConf
from scipy.optimize import brentq

from harness.acquisitions.cost_rules import Ignore
from harness.acquisitions.ei import PandorasBoxGittinsIndex, gittins, log_ei, log_h
from harness.config import CONFIGS
from harness.cost_models.linear import LowVariance
from harness.optimizer import Optimizer
from harness.surrogates.gp import GaussianProcess
from tabular_cache.replay import ReplayProblem
from tabular_cache.table import load_table


@given(st.floats(-1e3, 1e3), st.floats(1e-6, 1e4), st.floats(-40.0, 12.0))
def test_the_index_satisfies_its_equation(mean: float, sd: float, log_price: float) -> None:
    m, s, t = np.array([mean]), np.array([sd]), np.array([log_price])
    index = gittins(m, s, t)
    rounding = 8 * np.finfo(float).eps * max(abs(mean), sd) / sd  # of index - mean, in sd
    slope = max(1.0, 2.0 * np.sqrt(max(0.0, -2.0 * (log_price - np.log(sd)))))  # of log h
    assert abs(log_ei(index - m, s)[0] - log_price) < 1e-10 + slope * rounding


def test_the_residual_is_below_1e_10_and_the_root_is_brents() -> None:
    assert lookahead_truth.pbgi_residual() < 1e-10
    rng = np.random.default_rng(1)
    mean, sd, price = rng.normal(0, 2, 30), 10.0 ** rng.uniform(-3, 1, 30), 10.0 ** rng.uniform(-8, 1, 30)
    for m, s, p, g in zip(mean, sd, price, gittins(mean, sd, np.log(price)), strict=True):
        root = brentq(lambda u, p=p, s=s: log_h(np.array([u]))[0] - np.log(p / s), -50.0, 1e5, xtol=1e-13)
        assert g == pytest.approx(m + s * root, rel=1e-10, abs=1e-10)


def test_with_decay_the_price_halves_until_an_index_is_below_the_incumbent() -> None:
    X, y = data(9)
    C = np.random.default_rng(1).random((80, 2))
    context = make_context(C, X, y)
    utility = PandorasBoxGittinsIndex(price=1e4, halve=True)
    value = utility.log_value(context)
    halved = utility.halvings
    assert halved > 5
    assert -value.max() * y.std() < context.incumbent
    before = PandorasBoxGittinsIndex(1e4 * 0.5 ** (halved - 1)).log_value(context)
    assert -before.max() * y.std() >= context.incumbent
    np.testing.assert_allclose(PandorasBoxGittinsIndex(1e4 * 0.5**halved).log_value(context), value, rtol=1e-9)
    utility.log_value(replace(context, incumbent=1e9))
    assert utility.halvings == halved  # for good


def test_looking_does_not_halve_the_price(tmp_path: Path) -> None:
    """What is asked next is the same whether or not somebody has looked at other points in between."""
    table = load_table("a/p", make_tables(tmp_path, ["a/p"], 40))
    chosen = []
    for looks in (False, True):
        problem, utility = ReplayProblem(table, 0, max_candidates=200), PandorasBoxGittinsIndex(price=100.0, halve=True)
        parts = GaussianProcess(), LowVariance(("n_estimators", "max_depth")), utility, Ignore()
        method, design = Optimizer(*parts, iterations=20), problem.initial(5)
        for i, point in zip(design.ids, design.unit, strict=True):
            method.tell(point, problem.evaluate(int(i)))
        method.ask(problem.candidates(5).unit)
        before = utility.halvings
        if looks:
            method.outlook(table.unit[np.argsort(table["val_error"])[-5:]])  # poor points: no index below the incumbent
        assert utility.halvings == before > 0
        chosen.append(method.ask(problem.candidates(6).unit))
    assert (chosen[0].index, chosen[0].log_ei) == (chosen[1].index, chosen[1].log_ei)


@pytest.mark.parametrize("name", ["pbgi", "pbgi_d"])
def test_where_costs_are_learned_the_price_is_that_of_the_expected_cost(name: str) -> None:
    """EI(x; g) = Lambda E[c], whatever statistic of the cost the rules take; with a known cost it is that cost."""
    X, y = data(9)
    C = np.random.default_rng(1).random((80, 2))
    mean, sd = np.random.default_rng(2).normal(0, 1.5, 80), np.random.default_rng(3).uniform(0.1, 2.0, 80)
    utility = instantiate(OmegaConf.load(CONFIGS / "utility" / f"{name}.yaml"), halve=False)
    for statistic in (mean, mean + 0.5 * sd**2, mean - 0.5 * sd**2):
        context = make_context(C, X, y, log_cost=statistic, mean_log_cost=mean, log_cost_sd=sd)
        index = -utility.log_value(context) * y.std()
        price = utility.price * y.std() / (context.initial_cost / context.n_initial)
        expected = price * np.exp(mean + 0.5 * sd**2)
        np.testing.assert_allclose(np.exp(log_ei(index - context.mean, context.sd)), expected, rtol=1e-9)
    known = make_context(C, X, y, log_cost=mean)
    plain = PandorasBoxGittinsIndex(utility.price, expected=False)
    np.testing.assert_array_equal(utility.log_value(known), plain.log_value(known))
    median = plain.log_value(make_context(C, X, y, log_cost=mean, mean_log_cost=mean, log_cost_sd=sd))
    np.testing.assert_array_equal(median, plain.log_value(known))

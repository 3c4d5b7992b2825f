"""MES, GIBBON, ES and PES against their formulas, numerical integration, brute force, and each other."""

from dataclasses import replace
from typing import Any

import lookahead_truth
import numpy as np
import pytest
from lookahead_cases import data, make_context, posterior
from scipy.optimize import brentq
from scipy.special import entr
from scipy.stats import norm, truncnorm

from datasets.errors import BadInput
from harness.acquisitions.entropy import (
    EntropySearch,
    Gibbon,
    MaxValueEntropySearch,
    PredictiveEntropySearch,
    gumbel,
    lowest_values,
    variance_reduction,
)
from harness.acquisitions.rollouts import MonteCarloMultiStep

GAPS = [-40.0, -8.0, -0.3, 0.0, 2.0, 5.9, 6.1, 30.0, 300.0]


@pytest.mark.parametrize("g", GAPS)
def test_one_term_of_mes_is_its_formula_to_fifty_digits(g: float) -> None:
    assert lookahead_truth.mes_term_by_formula(g) < (1e-12 if g > -9.0 else 1e-10)  # far left, two terms of 800 cancel


@pytest.mark.parametrize("g", [-3.0, -1.0, 0.0, 0.7, 2.5])
def test_one_term_of_mes_is_the_entropy_that_knowing_the_minimum_takes_away(g: float) -> None:
    assert lookahead_truth.mes_term_by_integration(g) < 1e-9


@pytest.mark.parametrize("noise", [1e-9, 0.2, 3.0])
def test_gibbon_is_its_formula_and_a_lower_bound(noise: float) -> None:
    mean, variance, lowest = np.array([1.0, 2.0, 0.2]), np.array([0.5, 2.0, 0.9]), np.array([0.3, -0.4, 0.8])
    found = np.exp(Gibbon().given(mean, variance, noise, lowest))
    for i in range(3):
        terms, truth = [], []
        for low in lowest:
            above = truncnorm((low - mean[i]) / np.sqrt(variance[i]), np.inf, mean[i], np.sqrt(variance[i]))
            terms.append(0.5 * np.log((variance[i] + noise) / (above.var() + noise)))
            y = np.linspace(low - 9 * np.sqrt(noise) - 1e-9, mean[i] + 9 * np.sqrt(variance[i] + noise), 20_001)
            post = variance[i] * noise / (variance[i] + noise)  # of f given y
            center = mean[i] + variance[i] / (variance[i] + noise) * (y - mean[i])
            share = norm.sf((low - center) / np.sqrt(post)) / norm.sf((low - mean[i]) / np.sqrt(variance[i]))
            density = norm.pdf(y, mean[i], np.sqrt(variance[i] + noise)) * share
            truth.append(0.5 * np.log(2 * np.pi * np.e * (variance[i] + noise)) - np.trapezoid(entr(density), y))
        assert found[i] == pytest.approx(np.mean(terms), rel=1e-9)
        assert found[i] <= np.mean(truth) + 1e-6


@pytest.mark.parametrize("g", [-5.0, 24.9, 25.1, 60.0])
def test_gibbon_keeps_its_logarithm_where_the_value_underflows(g: float) -> None:
    assert lookahead_truth.gibbon_term_by_formula(g) < 1e-12


def test_the_gumbel_has_the_quartiles_of_the_minimum_of_independent_normals() -> None:
    rng = np.random.default_rng(0)
    mean, sd = rng.normal(0, 1, 300), rng.uniform(0.1, 1.0, 300)
    samples = np.quantile(gumbel(mean, sd, (np.arange(20_000) + 0.5) / 20_000), [0.25, 0.5, 0.75])

    def above(t: float, share: float) -> float:
        return norm.logsf(t, mean, sd).sum() - np.log(1.0 - share)  # P(min > t) is a product

    exact = [brentq(above, mean.min() - 9.0, mean.max(), args=(share,)) for share in (0.25, 0.5, 0.75)]
    np.testing.assert_allclose(samples[1], exact[1], atol=0.02)
    np.testing.assert_allclose(samples[2] - samples[0], exact[2] - exact[0], rtol=0.04)
    certain = gumbel(np.array([1.0, 2.0]), np.array([0.0, 0.0]), np.array([0.1, 0.9]))
    np.testing.assert_allclose(certain, 1.0, atol=1e-9)


def test_no_sample_of_the_minimum_is_above_what_is_known_and_mes_does_not_go_back_there() -> None:
    """One point known to be low, one candidate that hardly can be lower: half of the Gumbel lies above the first."""
    X, y, C = np.array([[0.1], [0.5]]), np.array([-2.0, 2.0]), np.array([[0.1], [0.95]])
    context = make_context(C, X, y, posterior(X, y, 0.05, 1e-6))
    mean, variance = context.latent
    raw = gumbel(mean, np.sqrt(variance), np.linspace(0.01, 0.99, 99))
    assert (raw > mean[0]).mean() > 0.3
    lowest = lowest_values(context, "gumbel", 200, 10)
    assert (lowest <= mean[0] - 0.999 * np.sqrt(variance[0])).all()
    known, unknown = MaxValueEntropySearch().given(mean, variance, 1e-6, lowest)
    assert known < unknown < MaxValueEntropySearch().given(mean, variance, 1e-6, raw)[0]


def test_entropy_search_is_brute_force_on_a_line() -> None:
    assert lookahead_truth.es_on_a_line() < 0.03
    assert lookahead_truth.es_at_its_defaults() < 0.08


def test_the_variance_given_the_minimiser_is_that_of_accepted_draws() -> None:
    """Two factors, f(x*) <= incumbent + noise and f(x*) <= f(x), one at a time by rejection."""
    rng, noise, incumbent = np.random.default_rng(0), 0.04, -0.3
    cov = np.array([[1.0, 0.4], [0.4, 0.7]])
    mean = np.array([0.5, 0.1])
    draws = mean + rng.standard_normal((400_000, 2)) @ np.linalg.cholesky(cov).T
    kept = draws[draws[:, 1] <= incumbent + np.sqrt(noise) * rng.standard_normal(len(draws))]
    second = kept.mean(axis=0) + rng.standard_normal((400_000, 2)) @ np.linalg.cholesky(np.cov(kept.T)).T
    expected = second[second[:, 1] <= second[:, 0], 0].var()
    found = cov[0, 0] - variance_reduction(mean[:1], cov[0, :1], mean[1:], cov[1, 1:], cov[:1, 1:], incumbent, noise)
    assert found[0, 0] == pytest.approx(expected, rel=0.02)
    both = draws[(draws[:, 1] <= incumbent) & (draws[:, 1] <= draws[:, 0]), 0].var()
    assert found[0, 0] == pytest.approx(both, rel=0.15)  # the Gaussian in between costs accuracy, not the sense


def test_where_nothing_can_be_learned_the_value_is_zero() -> None:
    X, y = data()
    one = make_context(np.array([[0.3, 0.4]]), X, y)
    assert EntropySearch(representers=1).log_value(one)[0] == -np.inf
    assert np.isfinite(EntropySearch().log_value(one)[0])  # the candidate or the best point so far
    for utility in (MaxValueEntropySearch(), MaxValueEntropySearch("joint"), Gibbon(), PredictiveEntropySearch()):
        assert not np.isnan(utility.log_value(one)).any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EntropySearch(representers=0), r"utility\.representers must be a whole number >= 1, got 0"),
        (lambda: EntropySearch(outcomes=1), r"utility\.outcomes must be a whole number from 2 to 100, got 1"),
        (lambda: MaxValueEntropySearch("exact"), r"utility\.sampler must be one of gumbel, joint, got 'exact'"),
    ],
)
def test_wrong_settings_are_reported_in_one_line(make, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        make()


@pytest.mark.parametrize("change", [{"step": 9}, {"seed": 1}, {"problem": "wine/clean"}], ids=lambda c: next(iter(c)))
def test_draws_differ_by_step_seed_and_problem_and_by_purpose(change: dict[str, Any]) -> None:
    X, y = data(8)
    context = make_context(
        np.random.default_rng(1).random((20, 2)), X, y, seed=0, problem="abalone/clean", iterations=30
    )
    other = replace(context, **change)
    assert (context.rng("es").random(4) == context.rng("es").random(4)).all()
    assert (context.rng("es").random(4) != other.rng("es").random(4)).all()
    assert (context.rng("es").random(4) != context.rng("es draws").random(4)).all()
    for utility in (EntropySearch(), PredictiveEntropySearch(), MonteCarloMultiStep()):
        values = [utility.log_value(b) for b in (context, context, other)]
        np.testing.assert_array_equal(values[0], values[1])
        finite = np.isfinite(values[0]) & np.isfinite(values[2])
        assert (values[0] != values[2])[finite].any(), type(utility).__name__

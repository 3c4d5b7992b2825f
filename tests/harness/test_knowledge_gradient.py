"""The knowledge gradient against quasi-Monte Carlo, brute force, and EI where they agree."""

import lookahead_truth
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lookahead_cases import data, grid, make_context

from datasets.errors import BadInput
from harness.acquisitions.kg import KnowledgeGradient, log_expected_gain, log_gain_by_sampling


@pytest.mark.parametrize("noise", [1e-6, 0.01, 0.5])
def test_exact_kg_is_quasi_monte_carlo_within_two_in_ten_thousand(noise: float) -> None:
    assert lookahead_truth.kg_by_quasi_monte_carlo(noise) < 2e-4


def test_the_lectures_sampling_form_agrees() -> None:
    X, y = data(8)
    C = np.random.default_rng(1).random((12, 2))
    context = make_context(C, X, y)
    exact, sampled = (np.exp(KnowledgeGradient(12, draws).log_value(context)) for draws in (0, 40_000))
    np.testing.assert_allclose(sampled, exact, atol=5 * y.std() / np.sqrt(40_000))
    z = grid(20_000)
    model = context.history.posterior
    sd = np.sqrt(model.moments(C)[1] + model.noise)
    A = np.vstack([X, C])
    regular = log_gain_by_sampling(
        model.moments(A)[0], model.covariance(C, A) / sd[:, None], model.moments(C)[0], model.moments(C)[1] / sd, z
    )
    np.testing.assert_allclose(np.exp(regular), exact, rtol=0, atol=2e-4)


def test_noiseless_and_observed_only_it_is_ei() -> None:
    assert lookahead_truth.kg_noiseless_observed_only_is_ei() < 1e-4


lines = st.lists(st.tuples(*(st.integers(-4, 4),) * 2), min_size=1, max_size=7)


@given(lines, st.tuples(*(st.integers(-4, 4),) * 2))
def test_the_envelope_is_the_expected_maximum(rows: list[tuple[int, int]], own: tuple[int, int]) -> None:
    a, b = np.array(rows, dtype=float).T
    found = np.exp(log_expected_gain(a, b[None], np.array([own[0]], float), np.array([own[1]], float))[0])
    z = grid(4000)
    every = np.append(a, own[0])[:, None] + np.append(b, own[1])[:, None] * z
    assert found == pytest.approx(every.max(axis=0).mean() - max(a.max(), own[0]), abs=5e-3)


def test_a_gain_far_below_the_smallest_number_keeps_its_logarithm() -> None:
    found = log_expected_gain(np.array([0.0]), np.array([[0.0]]), np.array([-60.0]), np.array([1.0]))[0]
    with mpmath.workdps(60):
        u = mpmath.mpf(-60)
        exact = float(mpmath.log(mpmath.npdf(u) + u * mpmath.ncdf(u)))
    assert found == pytest.approx(exact, rel=1e-12)
    flat = log_expected_gain(np.array([1.0, 0.0]), np.array([[2.0, 2.0]]), np.array([-1.0]), np.array([2.0]))
    assert flat[0] == -np.inf


def test_the_shortlist_loses_little_and_never_gains() -> None:
    X, y = data(10)
    C = np.random.default_rng(3).random((400, 2))
    context = make_context(C, X, y)
    whole, part = (np.exp(KnowledgeGradient(points).log_value(context)) for points in (400, 60))
    assert (part <= whole + 1e-9).all()
    assert whole[part.argmax()] > 0.95 * whole.max()


def test_one_candidate_and_wrong_settings() -> None:
    X, y = data()
    assert np.isfinite(KnowledgeGradient().log_value(make_context(np.array([[0.2, 0.9]]), X, y))).all()
    with pytest.raises(BadInput, match=r"utility.points must be a whole number >= 0, got -1"):
        KnowledgeGradient(points=-1)
    with pytest.raises(BadInput, match=r"utility\.draws must be a whole number >= 0, got True"):
        KnowledgeGradient(draws=True)

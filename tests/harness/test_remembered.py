"""Bounds from the variances of the run's earlier posteriors: they hold, and change nothing of a run."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.acquisitions.cost_rules import Contextual
from harness.acquisitions.ei import ExpectedImprovement
from harness.cost_models.linear import LowVariance
from harness.loop import run
from harness.optimizer import Optimizer
from harness.surrogates import bounds as remembered
from harness.surrogates.bounds import MOST_REMEMBERED, CachedBounds
from harness.surrogates.gp import GaussianProcess
from harness.surrogates.kernels import Workspace
from harness.surrogates.likelihood import CompiledLikelihood, Distances
from harness.surrogates.posterior import GaussianPosterior
from tabular_cache.replay import ReplayProblem
from tabular_cache.table import load_table

THETA = np.zeros(4)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10**6), st.lists(st.integers(0, 60), max_size=8))
def test_the_memory_is_a_dictionary_of_points(seed: int, sizes: list[int]) -> None:
    rng = np.random.default_rng(seed)
    told = [list(zip(rng.integers(0, 41, n).tolist(), rng.random(n).tolist(), strict=True)) for n in sizes]
    points = np.random.default_rng(0).random((41, 2))
    points[1] = points[0] + np.array([0.0, 1e-16 + math.ulp(points[0, 1])])  # next to each other, yet two points
    memory, expected = CachedBounds(), {}
    state = memory.serve(THETA, 1.0, np.empty((0, 2)))
    for part in told:
        index = [i for i, _ in part]
        memory.tell(state, points[index].reshape(-1, 2), np.array([v for _, v in part]))
        expected |= dict(part)
    assert len(memory) == len(expected)
    recalled = memory.recall(state, points)
    if recalled is None:
        assert len(expected) < 0.5 * len(points)
    else:
        np.testing.assert_array_equal(recalled, [expected.get(i, np.nan) for i in range(len(points))])


def test_other_hyperparameters_or_observations_empty_it_and_older_posteriors_are_not_heard() -> None:
    rng = np.random.default_rng(0)
    C, X = rng.random((10, 2)), rng.random((5, 2))
    memory = CachedBounds()
    old = memory.serve(THETA, 1.0, X[:3])
    memory.tell(old, C, np.ones(10))
    new = memory.serve(THETA, 1.0, X[:4])
    memory.tell(old, C, np.zeros(10))
    assert memory.recall(old, C) is None
    np.testing.assert_array_equal(memory.recall(new, C), np.ones(10))
    for theta, diagonal, observed in ((THETA + 1, 1.0, X), (THETA, 2.0, X), (THETA, 1.0, X[1:]), (THETA, 1.0, X[:3])):
        memory.tell(memory.serve(THETA, 1.0, X[:4]), C, np.ones(10))
        assert len(memory) == 10
        assert memory.recall(memory.serve(theta, diagonal, observed), C) is None
        assert len(memory) == 0


def test_it_does_not_grow_without_end() -> None:
    rng, memory = np.random.default_rng(0), CachedBounds()
    state = memory.serve(THETA, 1.0, np.empty((0, 3)))
    for _ in range(30):
        C = rng.random((5000, 3))
        memory.tell(state, C, C[:, 0])
        assert len(memory) <= MOST_REMEMBERED
        np.testing.assert_array_equal(memory.recall(state, C), C[:, 0])
    assert memory.recall(state, rng.random((100, 3))) is None  # nothing of these
    before = len(memory)
    memory.tell(state, rng.random((MOST_REMEMBERED + 1, 3)), np.zeros(MOST_REMEMBERED + 1))
    assert len(memory) == before


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("noise", [1e-6, 1e-3, 0.1])
@pytest.mark.parametrize("scale", [0.05, 0.4, 20.0])
def test_the_bounds_hold_and_are_close(noise: float, scale: float, noisy: bool) -> None:
    """Observation by observation at the same hyperparameters, also where the kernel matrix is all but singular."""
    rng, memory, space = np.random.default_rng(1), CachedBounds(), Workspace()
    X, C = rng.random((170, 3)), rng.random((500, 3))
    X[80:110] = np.clip(X[:30] + 1e-5 * rng.standard_normal((30, 3)), 0, 1)
    C[:50] = np.clip(X[70:120] + 1e-4 * rng.standard_normal((50, 3)), 0, 1)
    y, theta = np.sin(5 * X[:, 0]) + 1e4 * (X[:, 1] > 0.9), np.log([scale] * 3 + [1.0, noise])
    exact = None
    for n in (*range(70, 100), *range(150, len(X))):
        pairs = Distances(True)
        pairs.update(X[:n])
        z = y[:n] / 1e4
        solution = CompiledLikelihood(pairs, z, space).solution(theta)
        posterior = GaussianPosterior(X[:n], theta, solution, (3.0, 1e4), noisy, remembered=memory)
        bounds = posterior.recalled(C)
        assert (bounds is None) == (n == 70)
        before, exact = exact, GaussianPosterior(X[:n], theta, solution, (3.0, 1e4), noisy).mean_sd(C)
        if bounds is not None:
            (low, high), (mean, sd) = bounds, exact
            assert (low <= mean).all() and (high >= sd).all()
            np.testing.assert_allclose(low, mean, atol=1e-3)
            np.testing.assert_allclose(high**2, np.maximum(before[1], sd) ** 2, atol=1e8 * 1e-9)
        posterior.remember(C)


def test_only_what_is_told_is_remembered() -> None:
    """A look at the models, such as the optimizer's `outlook`, leaves no traces."""
    rng = np.random.default_rng(0)
    X, C = rng.random((80, 2)), rng.random((300, 2))
    process = GaussianProcess()
    posterior = process.fit(X, np.sin(9 * X[:, 0]))
    assert posterior.recalled(C) is None
    posterior.mean_sd(C)
    assert posterior.recalled(C) is None
    posterior.remember(C[:250])
    assert posterior.recalled(C) is not None
    assert len(process._remembered) == 300  # the others were predicted, and are known from now on


def test_a_run_is_the_same_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def trace() -> dict[str, list[object]]:
        model = LowVariance(("n_estimators", "max_depth", "subsample"))
        problem = ReplayProblem(load_table("mtp/log_pca"), 0, 1000)
        method = Optimizer(GaussianProcess(), model, ExpectedImprovement(), Contextual(0.3), iterations=140)
        return run(problem, method, 0, 140, 5, None).columns

    heard, recalled = [], GaussianPosterior.recalled

    def listen(self: GaussianPosterior, C: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        heard.append(recalled(self, C))
        return heard[-1]

    monkeypatch.setattr(GaussianPosterior, "recalled", listen)
    monkeypatch.setattr(remembered, "_MANY", 0.0)  # made use of at every step
    monkeypatch.setattr(remembered, "_LEAST", 0.0)
    with_it = trace()
    assert sum(bounds is not None for bounds in heard) > 10
    monkeypatch.setattr(GaussianPosterior, "recalled", lambda self, C: None)
    np.testing.assert_equal(trace(), with_it)

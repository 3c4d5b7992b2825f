"""From the hundredth observation on: hyperparameters on a schedule, solutions and candidates carried on."""

import weakref
from pathlib import Path
from typing import no_type_check

import numba
import numpy as np
import pytest
from optimizer_cases import evaluate, make_optimizer

from harness import optimizer as optimizers
from harness.acquisitions.cost_rules import Contextual
from harness.acquisitions.ei import ExpectedImprovement
from harness.cost_models.linear import LowVariance
from harness.loop import run
from harness.optimizer import Optimizer
from harness.problem import GROWTH, LATE, Candidates, draw_of
from harness.surrogates.candidate_cache import CandidateCache
from harness.surrogates.gp import GaussianProcess, standardise
from harness.surrogates.growing_solution import GrowingSolution
from harness.surrogates.kernels import DOTS, PARTS, Workspace, dot, products
from harness.surrogates.likelihood import Distances, Likelihood, Solution
from harness.surrogates.posterior import GaussianPosterior, weights
from tabular_cache.replay import ReplayProblem
from tabular_cache.table import load_table

TABLES = Path(__file__).parents[1] / "golden" / "tables"
THETA = np.log(np.array([0.5, 0.8, 1.5, 3.0, 0.6, 1.0, 2.0, 1.2, 0.02]))


def made(n: int) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(3).random((n, 7))
    return X, np.sin(5 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * np.cos(9 * X[:, 2])


def solved(X: np.ndarray, y: np.ndarray, theta: np.ndarray = THETA) -> Solution:
    pairs = Distances(ard=True)
    pairs.update(X)
    return Likelihood(pairs, y, Workspace()).solution(theta)


def growing(X: np.ndarray, y: np.ndarray, theta: np.ndarray = THETA) -> GrowingSolution:
    z, location = standardise(y)
    return GrowingSolution(X, y, theta, weights(theta, X.shape[1]), location, solved(X, z, theta))


def test_a_grown_solution_is_that_of_all_observations() -> None:
    X, y = made(60)
    grown = growing(X[:40], y[:40])
    for n in (40, 41, 45, 60):
        assert grown.extended(X[:n], y[:n], THETA)
        z, location = standardise(y[:n])  # of more observations: another mean and sd than those of the first 40
        found, whole = grown.solution(location), solved(X[:n], z)
        np.testing.assert_allclose(found.inverse, whole.inverse, rtol=0, atol=1e-9 * np.abs(whole.inverse).max())
        np.testing.assert_allclose(found.a, whole.a, rtol=0, atol=1e-9 * np.abs(whole.a).max())
    assert not grown.extended(X[::-1], y[::-1], THETA) and not grown.extended(X, y, THETA + 0.1)
    assert not grown.extended(X, y + (y == y[3]), THETA), "an earlier value is another one: what failed counts so"
    noiseless, twice = THETA - 40.0 * (np.arange(9) == 8), np.vstack([X[:9], X[8]])
    exact = growing(X[:9], y[:9], noiseless)
    assert not exact.extended(twice, np.append(y[:9], y[8]), noiseless), "nothing is left to learn there"


@numba.njit
@no_type_check
def _products(W, begin, end, k, out):  # type: ignore[no-untyped-def]
    products(W, begin, end, k, np.empty((DOTS, PARTS)), out)


@numba.njit
@no_type_check
def _dot(W, i, k, n):  # type: ignore[no-untyped-def]
    return dot(W, i, k, n, np.empty((DOTS, PARTS)))


def test_a_sum_of_products_is_the_same_with_and_without_others() -> None:
    n = 23
    rng = np.random.default_rng(7)
    W, k = rng.normal(size=(n, n)), rng.normal(size=n)
    alone = np.array([_dot(W, i, k, i + 1) for i in range(n)])
    np.testing.assert_allclose(alone, np.tril(W) @ k, rtol=1e-12, atol=1e-14)
    for begin in range(n):
        for end in range(begin, n + 1):
            out = np.full(n, np.nan)
            _products(W, begin, end, k, out)
            assert np.array_equal(out[begin:end], alone[begin:end])
            assert np.isnan(out[:begin]).all() and np.isnan(out[end:]).all()


def test_what_is_held_of_candidates_is_what_a_fresh_posterior_says() -> None:
    X, y = made(60)
    C, held, grown = np.random.default_rng(4).random((700, 7)), CandidateCache(), growing(X[:40], y[:40])
    for n, offered in ((40, C[:500]), (41, C[:499]), (45, C[3:520]), (46, C[3:520]), (60, C[200:700])):
        z, location = standardise(y[:n])
        assert grown.extended(X[:n], y[:n], THETA)
        shared = GaussianPosterior(X[:n], THETA, grown.solution(location), location, False, None, None, grown, held)
        fresh = GaussianPosterior(X[:n], THETA, solved(X[:n], z), location, False)
        mean, sd = fresh.mean_sd(offered)
        every, some = slice(None), slice(30, 200)
        for part, rough in ((every, True), (some, False), (every, True), (every, False)):
            low, high = shared.bounds(offered[part], rough)
            assert (low <= mean[part]).all() and (high >= sd[part]).all()
        rows = np.array([3, 250, 40, 3])  # of what was asked for just before, and so not looked up
        np.testing.assert_array_equal(shared.bounds_at(offered, rows), (low[rows], high[rows]))
        np.testing.assert_allclose(shared.mean_sd_at(offered, rows)[0], mean[rows], rtol=0, atol=1e-9)
        np.testing.assert_allclose(shared.mean_sd_at(offered, rows)[1], sd[rows], rtol=1e-7)
        assert np.median(high / sd) < 1.001 and np.median(mean - low) < 1e-3
        for some in (offered[10:60], offered[10:60].copy(), offered[40:90][::-1]):
            again, sd_again = shared.mean_sd(some)
            np.testing.assert_allclose(again, fresh.mean_sd(some)[0], rtol=0, atol=1e-9)
            np.testing.assert_allclose(sd_again, fresh.mean_sd(some)[1], rtol=1e-7)
    strange = np.random.default_rng(5).random((9, 7))
    np.testing.assert_allclose(shared.mean_sd(strange), fresh.mean_sd(strange), rtol=1e-9)


def test_what_is_said_of_a_candidate_does_not_depend_on_when_it_was_asked_for() -> None:
    X, y = made(50)
    C, said = np.random.default_rng(4).random((300, 7)), []
    for asked in ((41, 44, 50), (50,)):
        held, grown = CandidateCache(), growing(X[:40], y[:40])
        for n in range(40, 51):
            location = standardise(y[:n])[1]
            assert grown.extended(X[:n], y[:n], THETA)
            posterior = GaussianPosterior(
                X[:n], THETA, grown.solution(location), location, False, None, None, grown, held
            )
            posterior.bounds(C, rough=n not in asked)
            if n in asked:
                last = posterior.mean_sd(C[20:40] if n < 50 else C)
        said.append(last)
    np.testing.assert_array_equal(said[0], said[1])


def trace(iterations: int, **settings: float) -> dict[str, list]:
    problem = ReplayProblem(load_table("wine/clean", TABLES), 0, max_candidates=600)
    parts = GaussianProcess(**settings), LowVariance(("n_estimators",)), ExpectedImprovement(), Contextual(0.3)  # type: ignore[arg-type]
    return run(problem, Optimizer(*parts, iterations=iterations), 0, iterations, 5, None).columns


class Watched(ReplayProblem):
    """Knows which of the arrays that it has offered are still held by anybody."""

    def candidates(self, step: int) -> Candidates:
        rows = super().candidates(step)
        offered = Candidates(rows.ids, rows.unit.copy())
        self.refs = [ref for ref in getattr(self, "refs", []) if ref() is not None] + [weakref.ref(offered.unit)]
        return offered


def test_a_run_lets_go_of_candidates_once_it_has_chosen() -> None:
    problem = Watched(load_table("wine/clean", TABLES), 0, max_candidates=600)
    parts = GaussianProcess(refit_until=20), LowVariance(("n_estimators",)), ExpectedImprovement(), Contextual(0.3)
    whole = run(problem, Optimizer(*parts, iterations=40), 0, 40, 5, None)
    assert len(whole) == 40
    assert len(problem.refs) <= 3


def test_late_choices_are_those_of_a_full_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    early = {"refit_until": 30}
    quick = trace(80, **early)
    monkeypatch.setattr(optimizers, "FEWEST", 10**9)
    assert trace(80, **early)["candidate"] == quick["candidate"]
    assert trace(80)["candidate"][:30] == quick["candidate"][:30]  # nothing is different before


def test_an_array_of_candidates_may_be_filled_again() -> None:
    rng, array = np.random.default_rng(6), np.empty((300, 7))
    once, again = (make_optimizer(Contextual(0.3), iterations=120) for _ in range(2))
    points, fresh = list(rng.random((98, 7))), []
    for _ in range(6):  # the last four with more than 99 observations
        for x in points:
            once.tell(x, evaluate(x))
            again.tell(x, evaluate(x))
        fresh.append(rng.random((300, 7)))
        array[:] = fresh[-1]
        chosen, found = once.ask(fresh[-1]), again.ask(array)
        assert (found.index, found.log_ei) == (chosen.index, chosen.log_ei)
        points = [fresh[-1][chosen.index]]


def test_rows_of_a_table_are_chosen_as_their_points_are() -> None:
    rng, evaluated = np.random.default_rng(8), list(range(15))
    table = rng.random((900, 7))
    table[400:450] = table[:50]  # rows of a table can have the same coordinates
    surrogates = GaussianProcess(refit_until=30), GaussianProcess(refit_until=30)
    by_rows, by_points = (make_optimizer(Contextual(0.3), surrogate, iterations=90) for surrogate in surrogates)
    told = 0
    while len(evaluated) < 80:
        for i in evaluated[told:]:
            by_rows.tell(table[i], evaluate(table[i]))
            by_points.tell(table[i], evaluate(table[i]))
        told = len(evaluated)
        left = np.setdiff1d(np.arange(900 if told % 9 else 600), evaluated)
        found, expected = by_rows.ask(table, left), by_points.ask(table[left])
        assert (found.index, found.log_ei) == (expected.index, expected.log_ei)
        some = np.sort(rng.choice(left, 250, replace=False))
        for seen, known in zip(by_rows.near_front(table, some), by_points.near_front(table[some]), strict=True):
            np.testing.assert_array_equal(seen, known)
        evaluated.append(int(left[found.index]))


def test_the_first_late_fit_depends_on_the_data_alone() -> None:
    X, y = made(40)
    warm = GaussianProcess(refit_until=40)
    for n in range(5, 41):
        posterior = warm.fit(X[:n], y[:n])
    C = np.random.default_rng(4).random((50, 7))
    np.testing.assert_array_equal(posterior.mean_sd(C), GaussianProcess(refit_until=40).fit(X, y).mean_sd(C))


def test_draws_serve_while_the_evaluations_grow_by_a_fifth() -> None:
    assert [draw_of(step) for step in (0, 57, LATE - 1)] == [0, 57, LATE - 1]
    served = [draw_of(step) for step in range(LATE, 301)]
    assert served == sorted(served) and len(set(served)) == 7
    assert all(first <= step < GROWTH * first for step, first in enumerate(served, LATE))

"""Candidates around the best points: where they lie, what is offered, and runs that are repeated or go on."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from harness.acquisitions.cost_rules import Ignore
from harness.acquisitions.designs import RandomSearch
from harness.acquisitions.ei import ExpectedImprovement
from harness.cost_models.linear import LowVariance
from harness.curves import LearningCurves
from harness.errors import BadInput
from harness.loop import Begun, Trace, run
from harness.more_candidates import ExtendedProblem, Local, around
from harness.optimizer import Optimizer, Proposal
from harness.problem import LATE, ContinuousProblem, Curve, Evaluation, Stop
from harness.space import Parameter, SearchSpace
from harness.streams import stream
from harness.surrogates.gp import GaussianProcess
from tabular_cache.replay import ReplayProblem
from tabular_cache.table import load_table

TABLES = Path(__file__).parents[1] / "golden" / "tables"
RNG = stream(0, "test")


class Valley(ContinuousProblem):
    """A minimum that no Sobol set of hundreds has a point next to; trainings are at their best after one round."""

    rounds = "n_estimators"

    def measure(self, x: np.ndarray) -> Evaluation:
        return Evaluation(float(np.square(self.space.to_unit(x[None])[0] - 0.37).sum()), 1.0, 0.0, 1.0)

    def evaluate_with_curve(self, candidate: int, stop: Stop | None = None) -> Evaluation:
        found, rounds = self.evaluate(candidate), int(self.native(candidate)[0])
        if rounds == 1:
            return found
        return replace(found, curve=Curve((1, rounds), (found.error / 2, found.error), (0.0, 0.0), (0.5, 1.0)))


class Coarse(Valley):
    """Nine points, of which any can be evaluated again."""

    rounds = None
    space = SearchSpace((Parameter("a", 1, 3, integer=True), Parameter("b", 1, 3, integer=True)))


class Fixed:
    """A user's class that returns these points; any class with `points` will do."""

    def __init__(self, found: np.ndarray) -> None:
        self._found = found

    def points(self, X: np.ndarray, errors: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return self._found


def make(candidates: Any = None, **more: Any) -> Optimizer:
    parts = GaussianProcess(), LowVariance(["n_estimators"]), ExpectedImprovement(), more.pop("rule", Ignore())
    return Optimizer(*parts, iterations=40, seed=2, candidates=candidates, **more)


def trace(candidates: Local | None, begun: Begun | None = None, seed: int = 2, n: int = 40) -> Trace:
    return run(Valley("valley", seed, 512), make(candidates), seed, n, 5, None, begun)


def test_distances_are_log_uniform_and_directions_normal() -> None:
    found = around(np.full((1, 7), 0.5), 4000, 0.003, 0.03, RNG) - 0.5
    sd = np.linalg.norm(found, axis=1) / math.sqrt(7)  # of the scale, within the spread of chi of 7
    assert sd.min() > 0.003 / 4 and sd.max() < 0.03 * 2.5
    scale = np.exp(RNG.uniform(math.log(0.003), math.log(0.03), 4000)) * np.sqrt(RNG.chisquare(7, 4000) / 7)
    assert kstest(np.log(sd), np.log(scale)).pvalue > 1e-3
    assert np.abs(np.corrcoef(found.T) - np.eye(7)).max() < 0.1 and np.abs(found.mean(axis=0)).max() < 0.002


@given(st.floats(1e-6, 1.0), st.floats(0.0, 1.0), st.integers(1, 60))
def test_points_stay_in_the_cube_and_around_each_centre(near: float, corner: float, n: int) -> None:
    centres = np.array([[corner] * 3, [0.5] * 3])
    found = around(centres, n, near, 1.0, stream(n, "test"))
    assert found.shape == (n, 3) and ((found >= 0) & (found <= 1)).all()
    narrow = around(centres, 200, 1e-9, 1e-8, stream(n, "test"))
    gaps = np.abs(narrow[:, None] - centres).max(axis=2)
    assert (gaps.min(axis=1) < 1e-6).all() and set(gaps.argmin(axis=1)) == ({0, 1} if corner != 0.5 else {0})


def test_the_best_are_those_of_the_lowest_errors_and_failures_come_last() -> None:
    X, errors = RNG.random((6, 7)), np.array([0.3, math.nan, 0.1, 0.2, 0.1, math.nan])
    for best, among in ((1, [2]), (3, [2, 4, 3]), (9, range(6))):
        found = Local(n=300, best=best, near=1e-9, far=1e-8).points(X, errors, RNG)
        nearest = np.abs(found[:, None] - X).max(axis=2).argmin(axis=1)
        assert set(nearest.tolist()) == set(among)


@pytest.mark.parametrize("curves", [None, LearningCurves()])
def test_a_problem_offers_its_own_and_points_around_the_best_prefix(curves: LearningCurves | None) -> None:
    problem = make(Local(n=64, best=1, near=1e-6, far=1e-5), curves=curves).start(Valley("valley", 2, 512))
    design = problem.initial(5)
    best = int(np.argmin([problem.evaluate(int(i)).error for i in design.ids]))
    offered, alone = problem.candidates(5), Valley("valley", 2, 512).candidates(5)
    np.testing.assert_array_equal(offered.unit[:512], alone.unit)
    centre = design.point(best).copy()
    if curves is not None:
        centre[0] = 0.0  # one round
    assert len(offered.ids) == 512 + 64 and np.abs(offered.unit[512:] - centre).max() < 1e-3


def test_what_has_been_evaluated_is_not_offered_once_more() -> None:
    problem = ExtendedProblem(Coarse("coarse", 0, 4), Local(n=500, far=1.0), 0)
    for i in problem.initial(4).ids:
        problem.evaluate(int(i))
    seen, more = problem.initial(4).unit, problem.candidates(4).unit[4:]
    assert len(more) > 20 and not (more[:, None] == seen).all(axis=2).any()
    assert len(np.unique(np.vstack([more, seen]), axis=0)) == 9


def test_runs_find_more() -> None:
    ends = [[min(trace(more, seed=seed).columns["error"]) for seed in range(4)] for more in (None, Local())]
    assert np.median(ends[1]) < 0.5 * np.median(ends[0])


def test_a_run_goes_on_from_a_record_with_the_same_choices() -> None:
    whole, proposal = trace(Local(n=100), n=LATE + 5), Proposal(0, *[math.nan] * 4, None, 0.0, 0.0)
    begun = {step: (whole.columns["candidate"][step], proposal) for step in range(5, LATE)}
    again = trace(Local(n=100), begun, n=LATE + 5)
    for name in ("candidate", "error"):
        assert again.columns[name] == whole.columns[name]


def test_what_it_cannot_serve_is_named() -> None:
    with pytest.raises(BadInput, match=r"candidates: phoneme/clean offers the points that can be evaluated"):
        make(Local()).start(ReplayProblem(load_table("phoneme/clean", TABLES), 0, max_candidates=20))
    with pytest.raises(BadInput, match="candidates needs models, and RandomSearch uses none: leave candidates= out"):
        make(Local(), rule=RandomSearch())
    for points in (np.full((3, 2), 0.5), np.full((3, 7), 1.5), np.full((3, 7), math.nan)):
        problem = make(Fixed(points)).start(Valley("valley", 0, 4))
        problem.evaluate(int(problem.initial(1).ids[0]))
        with pytest.raises(BadInput, match=r"Fixed\.points must return points of the unit cube in 7 columns"):
            problem.candidates(1)
    for wrong, said in (({"n": 0}, "candidates.n"), ({"near": 0.5, "far": 0.1}, r"candidates.far must be a distance")):
        with pytest.raises(BadInput, match=said):
            Local(**wrong)

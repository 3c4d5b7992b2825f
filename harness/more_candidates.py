"""Candidates besides those that a problem offers, where any point can be evaluated: such as points near the best ones.

A Sobol set hits the maximum of the expected improvement only roughly: of 4,096 points in seven dimensions the one
nearest to any given point is 0.25 away in the median. `candidates=local` adds points around the best, where SMAC
(Hutter, Hoos and Leyton-Brown 2011) and Spearmint (Snoek, Larochelle and Adams 2012) begin a local search.
"""

import math
from abc import abstractmethod

import numpy as np
from jaxtyping import Float

from harness.arrays import Points, Vector, unseen
from harness.component import Component, ProblemAware
from harness.curves import Rounds
from harness.errors import BadInput, number, whole
from harness.normal import exp
from harness.problem import Candidates, Evaluation, Problem, WrappedProblem
from harness.streams import stream


class MoreCandidates(Component, ProblemAware):
    """Chooses points that are on offer besides the problem's own; `candidates=...` names one."""

    @abstractmethod
    def points(self, X: Points, errors: Vector, rng: np.random.Generator) -> Float[np.ndarray, "m d"]:
        """Return any number of points of the unit cube, given those evaluated so far and their errors (NaN: failed)."""

    def start(self, problem: Problem) -> None:
        """Raise BadInput for a problem of which not any point can be evaluated: it offers all that it has."""
        if not problem.anywhere:
            raise BadInput(
                f"candidates: {problem.name} offers the points that can be evaluated and has no others: "
                "evaluator=live or evaluator=surface, or leave candidates= out"
            )


class Local(MoreCandidates):
    """`n` points around the `best` points so far.

    Each is one of these, drawn with equal probability, plus s z, with z standard normal in every coordinate of the unit
    cube and log s uniform between log `near` and log `far`; reflected at the cube's faces, so that these are no sinks.
    """

    def __init__(self, n: int = 1024, best: int = 4, near: float = 0.003, far: float = 0.3) -> None:
        self._n, self._best = whole("candidates.n", n, 1), whole("candidates.best", best, 1)
        self._near = number("candidates.near", near, "a distance in (0, 1]", math.ulp(0.0), 1.0)
        self._far = number("candidates.far", far, "a distance in [near, 1]", self._near, 1.0)

    def points(self, X: Points, errors: Vector, rng: np.random.Generator) -> Float[np.ndarray, "m d"]:
        """Return points around those of the lowest errors; ties go to the earlier, failures come last."""
        best = X[np.argsort(errors, kind="stable")[: self._best]]
        return around(best, self._n, self._near, self._far, rng)


def around(
    centres: Float[np.ndarray, "k d"], n: int, near: float, far: float, rng: np.random.Generator
) -> Float[np.ndarray, "n d"]:
    """Return `n` points of the unit cube around the `centres`, `near` to `far` away in every coordinate (`Local`)."""
    sd = exp(rng.uniform(math.log(near), math.log(far), n))[:, None]
    found = centres[rng.integers(len(centres), size=n)] + sd * rng.standard_normal((n, centres.shape[1]))
    found = np.abs(found) % 2.0
    return np.where(found > 1.0, 2.0 - found, found)


class ExtendedProblem(WrappedProblem):
    """A problem that offers more candidates as well, but for those that have been evaluated.

    It draws them from the stream of `seed`, the problem's name and the step, and knows the errors as they are seen
    outside: of a training with a curve that of its best prefix, at that prefix.
    """

    def __init__(self, problem: Problem, more: MoreCandidates, seed: int) -> None:
        super().__init__(problem)
        more.start(problem)
        self._more, self._seed = more, seed
        self._axis = None if problem.rounds is None else Rounds(problem.space, problem.rounds)
        self._offered = Candidates(np.empty(0, np.int64), np.empty((0, len(problem.space))))
        self._seen, self._errors = list[Vector](), list[float]()

    def initial(self, n: int) -> Candidates:
        """Return the problem's initial design."""
        self._offered = self._problem.initial(n)
        return self._offered

    def candidates(self, step: int) -> Candidates:
        """Return the problem's candidates, and more; raises BadInput where these are no points of the unit cube."""
        own, X = self._problem.candidates(step).unit, np.array(self._seen)
        rng = stream(self._seed, "more candidates", self.name, str(step))
        more = np.asarray(self._more.points(X, np.array(self._errors), rng))
        if more.shape[1:] != own.shape[1:] or not ((more >= 0.0) & (more <= 1.0)).all():
            raise BadInput(
                f"{type(self._more).__name__}.points must return points of the unit cube in {own.shape[1]} columns"
            )
        offered = self._problem.place(np.concatenate([own, more]))
        new = unseen(offered.unit, X)
        new[: len(own)] = True  # the problem's to say
        self._offered = offered.some(np.flatnonzero(new))
        return self._offered

    def offer(self, step: int, candidate: int) -> Candidates:
        """Return the point of that id among those on offer at `step`."""
        return Problem.offer(self, step, candidate)

    def evaluate(self, candidate: int) -> Evaluation:
        """Return the problem's answer."""
        outcome = self._problem.evaluate(candidate)
        x = self._offered.point(int(np.flatnonzero(self._offered.ids == candidate)[0]))
        if outcome.curve is not None and self._axis is not None:
            x = self._axis.best(x, outcome.curve)
        self._seen.append(np.array(x))
        self._errors.append(outcome.error)
        return outcome

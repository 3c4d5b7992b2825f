"""The optimizer's view of the world: a `Problem` and the `Evaluation` that it answers with.

Live trainings, replayed tables and any user's own problem share one base class, so they are interchangeable, and
wrappers compose around any of them. An `Evaluator` opens problems, `ContinuousProblem` is the base of those on the
whole space, and evaluations can be capped.

Notation: m candidates at a step, d dimensions of `space`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int

from harness.errors import BadInput, number, one_of
from harness.space import XGBOOST_SPACE, SearchSpace
from harness.streams import seed_sequence, stream

OK, FAILED, TIMEOUT, OUT_OF_MEMORY = "ok", "failed", "timeout", "out_of_memory"
STATUSES = (OK, FAILED, TIMEOUT, OUT_OF_MEMORY)
LARGEST = 1e150  # of an error: its square is a number, too
PREFIX_GRID = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)  # rounds at which curves are shown


def _numbers(name: str, values: Any) -> tuple[Any, ...]:
    """Return the numbers as a tuple; raises BadInput for what is no list, tuple or one-dimensional array of numbers."""
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    if not isinstance(listed, list | tuple) or not all(isinstance(one, Real) for one in listed):
        raise BadInput(f"a curve's {name} must be a list of numbers, got {values!r}"[:200])
    return tuple(listed)


@dataclass(frozen=True)
class Curve:
    """What a training has shown of itself after so many rounds: k of each, rounds ascending, the last its own.

    error, test_error: of its first so many rounds; NaN where there is none. cost_s: seconds from its beginning up to
    there. Lists and arrays become tuples. Raises BadInput unless there are as many numbers of each, the rounds are
    whole numbers that ascend, the errors are no larger than an evaluation's, and the seconds are positive.
    """

    rounds: tuple[int, ...]
    error: tuple[float, ...]
    test_error: tuple[float, ...]
    cost_s: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse what is no curve."""
        for field in fields(self):
            object.__setattr__(self, field.name, _numbers(field.name, getattr(self, field.name)))
        if not len(self.rounds) == len(self.error) == len(self.test_error) == len(self.cost_s):
            raise BadInput("a curve needs one error, one test error and one number of seconds for each of its rounds")
        rounds = (0, *self.rounds)
        if not all(float(k).is_integer() for k in rounds) or any(a >= b for a, b in pairwise(rounds)):
            raise BadInput(f"a curve's rounds must be whole numbers >= 1 that ascend, got {self.rounds}"[:200])
        object.__setattr__(self, "rounds", tuple(int(k) for k in self.rounds))
        if any(abs(error) > LARGEST for error in (*self.error, *self.test_error)):
            raise BadInput(
                f"a curve's errors must be numbers up to {LARGEST:g} in size, or NaN, got {self.error}"[:200]
            )
        if not all(0 < cost < math.inf for cost in self.cost_s):
            raise BadInput(f"a curve's cost_s must be seconds > 0, got {self.cost_s}"[:200])

    @property
    def best(self) -> int:
        """The index of the lowest error, the first of equal ones."""
        return min(range(len(self.error)), key=lambda i: (math.isnan(self.error[i]), self.error[i]))


Stop = Callable[[Curve], bool]  # whether a training that has shown so much of its curve is to be stopped there


@dataclass(frozen=True)
class Evaluation:
    """One evaluation's outcome.

    error: validation error (misclassification rate or RMSE); NaN where there is none. One that was stopped
    (``"timeout"``) may have the error reached so far, a failed one has none.
    cost_s: CPU seconds of the training, finite and > 0 whatever the status.
    test_error: error on the test rows; for reports only, no optimizer sees it.
    wall_s: wall-clock seconds of the same training.
    curve: of its prefixes, where they were asked for (`Problem.evaluate_with_curve`) and the training succeeded; its
    seconds are all that the training has cost, those of an earlier run that it continued included.
    """

    error: float
    cost_s: float
    test_error: float
    wall_s: float
    status: str = OK
    curve: Curve | None = None

    @property
    def censored(self) -> bool:
        """Whether it was stopped before its end, so that `cost_s` is only a lower bound of its true cost."""
        return self.status == TIMEOUT

    def __post_init__(self) -> None:
        """Refuse what no training can have: a missing cost is an error, never 0."""
        for name in ("error", "cost_s", "test_error", "wall_s"):
            try:
                math.isnan(getattr(self, name))
            except TypeError:
                raise BadInput(f"{name} must be a number, got {getattr(self, name)!r}") from None
        if not (math.isfinite(self.cost_s) and self.cost_s > 0):
            raise BadInput(f"cost_s must be finite and positive, got {self.cost_s!r}")
        one_of("status", self.status, STATUSES)
        if self.status == OK and not math.isfinite(self.error):
            raise BadInput(f"an evaluation with status 'ok' needs a finite error, got {self.error!r}")
        if abs(self.error) > LARGEST:
            raise BadInput(
                f"error must be a number up to {LARGEST:g} in size, or NaN for want of one (status {self.status!r}), "
                f"got {self.error!r}"
            )
        if self.status in (FAILED, OUT_OF_MEMORY) and not math.isnan(self.error):
            raise BadInput(
                f"an evaluation with status {self.status!r} has no error, so it must be NaN, got {self.error!r}"
            )


@dataclass(frozen=True)
class Candidates:
    """The points an optimizer may choose among at one step: their ids and unit-cube coordinates."""

    ids: Int[np.ndarray, " m"]
    unit: Float[np.ndarray, "m d"]

    def point(self, i: int) -> Float[np.ndarray, " d"]:
        """Return the coordinates of one of them."""
        return self.unit[i]

    def some(self, where: Int[np.ndarray, " k"]) -> "Candidates":
        """Return those at the positions `where`."""
        return Candidates(self.ids[where], self.unit.take(where, axis=0))

    @property
    def rows(self) -> tuple[Float[np.ndarray, "r d"], Int[np.ndarray, " m"] | None]:
        """An array of points and which of its rows they are, None for all: what `Optimizer.ask` takes."""
        return self.unit, None

    def same_points(self, other: "Candidates") -> bool:
        """Return whether they are the same points as the others, in the same order."""
        return np.array_equal(self.unit, other.unit)


class TableRows(Candidates):
    """Candidates that are rows of an array which stays as it is for the whole run; their ids say which.

    What an optimizer has found out about a row it then need not look up by its coordinates, which are put together
    (`unit`) only for those who ask for them.
    """

    _table: Float[np.ndarray, "r d"]

    def __init__(self, ids: Int[np.ndarray, " m"], table: Float[np.ndarray, "r d"]) -> None:
        self.__dict__.update(ids=ids, _table=table)  # it is frozen

    @cached_property
    def unit(self) -> Float[np.ndarray, "m d"]:  # type: ignore[override]
        """The unit-cube coordinates."""
        return self._table.take(self.ids, axis=0)

    def point(self, i: int) -> Float[np.ndarray, " d"]:
        """Return the coordinates of one of them."""
        return np.asarray(self._table[self.ids[i]])

    def some(self, where: Int[np.ndarray, " k"]) -> "TableRows":
        """Return those at the positions `where`."""
        return TableRows(self.ids[where], self._table)

    @property
    def rows(self) -> tuple[Float[np.ndarray, "r d"], Int[np.ndarray, " m"] | None]:
        """The array, and the ids."""
        return self._table, self.ids

    def same_points(self, other: Candidates) -> bool:
        """Return whether they are the same points, by their ids where they are rows of the same array."""
        if isinstance(other, TableRows) and other._table is self._table:
            return np.array_equal(self.ids, other.ids)
        return super().same_points(other)


@dataclass(frozen=True)
class About:
    """What is known of a problem before its first evaluation.

    task: regression, binary or multiclass. rows: of the training part; columns: after the pipeline; classes: 0 for
    regression.
    """

    dataset: str
    pipeline: str
    task: str
    rows: int
    columns: int
    classes: int


class Problem(ABC):
    """A minimisation problem with costs, for one run: the seam for a problem of the user's own.

    Attributes: name; space; about, None if unknown; costs_known, whether `true_cost_s` answers; anywhere, whether
    `place` does, and so `nearest`; snaps, whether `nearest` does though `place` does not; rounds, the parameter of the
    space that `evaluate_with_curve` shows the smaller values of, None if it does not; stoppable, whether it stops and
    continues trainings.
    """

    name: str
    space: SearchSpace
    about: About | None = None
    costs_known = False
    anywhere = False
    snaps = False
    rounds: str | None = None
    stoppable = False

    @abstractmethod
    def initial(self, n: int) -> Candidates:
        """Return the `n` points of the initial design; it depends on the problem and the seed only."""

    @abstractmethod
    def candidates(self, step: int) -> Candidates:
        """Return the points on offer at `step` (0-based, counted with the initial design); m = 0 ends the run."""

    def all_candidates(self, step: int) -> Candidates:
        """Return what an optimizer chooses from that predicts nothing: those on offer, or more where there are more."""
        return self.candidates(step)

    def offer(self, step: int, candidate: int) -> Candidates:
        """Return the point of that id among those on offer at `step`; used to repeat a recorded choice.

        Raises ValueError where it is not on offer.
        """
        offered = self.candidates(step)
        chosen = np.flatnonzero(offered.ids == candidate)
        if not len(chosen):
            raise ValueError(f"{self.name} does not offer candidate {candidate} at step {step}")
        return offered.some(chosen)

    @abstractmethod
    def evaluate(self, candidate: int) -> Evaluation:
        """Evaluate the candidate of that id, one of those last offered."""

    def evaluate_capped(self, candidate: int, cap_s: float) -> Evaluation:
        """Evaluate the candidate, stopped past `cap_s` seconds of cost: then censored, its cost no less than that.

        The loop of `harness.capped` asks so; problems without this ability cannot serve there.
        """
        raise NotImplementedError(f"evaluations of {self.name} cannot be stopped")

    def evaluate_with_curve(self, candidate: int, stop: Stop | None = None) -> Evaluation:
        """Evaluate the candidate and show the curve of its training; the evaluation is that of the last round trained.

        stop: asked after some of the rounds, of a problem that is `stoppable`, whether to stop there. A training that
        was stopped, or is asked for again with more rounds, then goes on where it ended, and costs what is added.
        """
        raise NotImplementedError(f"evaluations of {self.name} show no learning curve")

    def recall(self, candidate: int, outcome: Evaluation) -> None:  # noqa: B027
        """Take note of an evaluation by an earlier process that could have stopped; by default there is no need."""

    def place(self, unit: Float[np.ndarray, "m d"]) -> Candidates:
        """Return the points of the unit cube nearest to `unit` that can be evaluated, on offer instead of others."""
        raise NotImplementedError(f"{self.name} offers its own points only")

    def nearest(self, unit: Float[np.ndarray, "k d"]) -> Candidates:
        """Return for each point of the unit cube the nearest that can be evaluated, no two the same."""
        return self.place(unit)

    def true_cost_s(self, C: Float[np.ndarray, "m d"]) -> Float[np.ndarray, " m"]:
        """Return the cost in seconds that evaluating each of the points `C` on offer will have."""
        raise NotImplementedError(f"the costs of {self.name} are not known beforehand")


class WrappedProblem(Problem):
    """Passes everything on to another problem: the base of wrappers that watch it or change one thing."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.name, self.space = problem.name, problem.space
        self.about, self.costs_known, self.anywhere = problem.about, problem.costs_known, problem.anywhere
        self.snaps, self.rounds, self.stoppable = problem.snaps, problem.rounds, problem.stoppable

    def initial(self, n: int) -> Candidates:
        """Return the problem's initial design."""
        return self._problem.initial(n)

    def candidates(self, step: int) -> Candidates:
        """Return the problem's candidates."""
        return self._problem.candidates(step)

    def all_candidates(self, step: int) -> Candidates:
        """Return the problem's candidates, all of them."""
        return self._problem.all_candidates(step)

    def offer(self, step: int, candidate: int) -> Candidates:
        """Return the problem's point of that id."""
        return self._problem.offer(step, candidate)

    def evaluate(self, candidate: int) -> Evaluation:
        """Return the problem's answer."""
        return self._problem.evaluate(candidate)

    def evaluate_capped(self, candidate: int, cap_s: float) -> Evaluation:
        """Return the problem's answer under a cap."""
        return self._problem.evaluate_capped(candidate, cap_s)

    def evaluate_with_curve(self, candidate: int, stop: Stop | None = None) -> Evaluation:
        """Return the problem's answer with its curve."""
        return self._problem.evaluate_with_curve(candidate, stop)

    def recall(self, candidate: int, outcome: Evaluation) -> None:
        """Pass the evaluation on."""
        self._problem.recall(candidate, outcome)

    def place(self, unit: Float[np.ndarray, "m d"]) -> Candidates:
        """Return the problem's candidates there."""
        return self._problem.place(unit)

    def nearest(self, unit: Float[np.ndarray, "k d"]) -> Candidates:
        """Return the problem's candidates nearest to these points."""
        return self._problem.nearest(unit)

    def true_cost_s(self, C: Float[np.ndarray, "m d"]) -> Float[np.ndarray, " m"]:
        """Return the problem's costs in seconds."""
        return self._problem.true_cost_s(C)


Problems = Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]


class Evaluator(ABC):
    """Opens problems, and identifies what they are made of by a fingerprint; `evaluator=...` names one.

    seeds_per_block: runs that a worker does in a row at most, None for all of a problem and method. checkpointed:
    whether evaluations take so long that they are kept as they are made.
    """

    seeds_per_block: int | None = None
    checkpointed: ClassVar[bool] = False

    @abstractmethod
    def fingerprint(self, dataset: Mapping[str, Any], pipeline: Mapping[str, Any]) -> str:
        """Return a hash of the problem's content; raises BadInput when it cannot be opened."""

    @abstractmethod
    def open(self, dataset: Mapping[str, Any], pipeline: Mapping[str, Any], seed: int) -> Problem:
        """Return the problem, fresh for one run."""

    def check_design(self, dataset: Mapping[str, Any], pipeline: Mapping[str, Any], n: int) -> None:  # noqa: B027
        """Raise BadInput if an initial design of `n` points cannot be drawn; by default, any can."""

    def prepare(self, problems: Problems, executor: Callable[[], Executor]) -> None:  # noqa: B027
        """Make what problems need before they can be opened and what takes long, on workers; by default, nothing.

        problems: pairs of a data set's and a pipeline's configuration. executor: starts it, so that it is called only
        where something is missing. What cannot be made is no error here: `fingerprint` raises it.
        """


# Capping: stopping an evaluation once it has cost more than would make it interesting.
#
# Source: Hutter, Hoos and Leyton-Brown 2013: the threshold is the best value so far times a slack factor;
# 1 learns only that a point is no better, more learns by how much, at its price.

SLACKS: tuple[float | None, ...] = (1.0, 1.1, 1.3, 1.5, 2.0, 5.0, 10.0, 30.0, None)  # None: never before kappa_max

_LEAST_S = math.nextafter(0.0, 1.0)


def slack_factor(value: object) -> float | None:
    """Return a slack factor, None for no capping; raises BadInput for anything but a number >= 1 or null."""
    return None if value is None else number("slack", value, "a number >= 1, or null for no capping", 1.0)


def cap(cap_s: float) -> float:
    """Return `cap_s`, a number of seconds, inf for no cap; raises BadInput for anything not above 0."""
    return cap_s if cap_s == math.inf else number("cap_s", cap_s, "a number of seconds > 0, or inf", _LEAST_S)


def stopped(whole: Evaluation, cap_s: float) -> Evaluation:
    """Return the evaluation as it would have ended at `cap_s` seconds of cost: itself, or censored at the cap."""
    if whole.cost_s <= cap_s:
        return whole
    nan = float("nan")
    return Evaluation(nan, cap_s, nan, whole.wall_s * cap_s / whole.cost_s, TIMEOUT)


def threshold(slack: float | None, best_s: float | None, kappa_max_s: float = math.inf) -> float:
    """Return the cost in seconds at which to stop: min(slack x best_s, kappa_max_s).

    best_s: the lowest cost so far, None while there is none. slack None: kappa_max_s.
    """
    if slack is None or best_s is None:
        return kappa_max_s
    return min(slack * best_s, kappa_max_s)


LATE, GROWTH = 100, 1.2


def draw_of(step: int) -> int:
    """Return the step whose draw of candidates serves at `step`: itself, or from `LATE` on an earlier one.

    Late draws serve until the number of evaluations has grown `GROWTH`-fold, as the hyperparameters of the Gaussian
    process do: what was computed of a candidate at one step then helps at the next.
    """
    if step < LATE:
        return step
    serving = LATE
    while step >= GROWTH * serving:
        serving = math.ceil(GROWTH * serving)
    return serving


class ContinuousProblem(Problem):
    """One problem for one run. Its initial design and candidates depend on (name, seed, step) only.

    So runs of two such problems of one name, for example live and emulated, are offered the same points. Ids count
    the points offered so far: an id names its point for the whole run.
    """

    space = XGBOOST_SPACE
    anywhere = True

    def __init__(self, name: str, seed: int, n_candidates: int) -> None:
        self.name, self._seed, self._n = name, seed, n_candidates
        self._first, self._native = 0, np.empty((0, len(self.space)))

    @abstractmethod
    def measure(self, x: Float[np.ndarray, " d"]) -> Evaluation:
        """Return the outcome at the native hyperparameters `x`."""

    def place(self, unit: Float[np.ndarray, "m d"]) -> Candidates:
        """Return the points, rounded to native values."""
        self._first += len(self._native)
        self._native = self.space.from_unit(unit)
        return Candidates(self._first + np.arange(len(unit)), self.space.to_unit(self._native))

    def initial(self, n: int) -> Candidates:
        """Return `n` uniform points drawn from (problem, seed)."""
        return self.place(stream(self._seed, "initial", self.name).random((n, len(self.space))))

    def candidates(self, step: int) -> Candidates:
        """Return the Sobol set of this step, freshly scrambled."""
        seed = seed_sequence(self._seed, "candidates", self.name, str(step))
        return self.place(self.space.sobol(self._n, seed))

    def evaluate(self, candidate: int) -> Evaluation:
        """Evaluate the candidate, one of those last offered."""
        return self.measure(self.native(candidate))

    def native(self, candidate: int) -> Float[np.ndarray, " d"]:
        """Return the native hyperparameters of a candidate, one of those last offered."""
        return np.asarray(self._native[candidate - self._first])

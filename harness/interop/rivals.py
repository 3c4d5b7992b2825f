"""Optimizers from elsewhere in place of ours: what they have to have, and how a run uses them.

One is any class with `ask`, which returns a point of the unit cube, and `tell`, or with HPO-B's
`observe_and_suggest`, which chooses among rows. A run sees it as an `Optimizer`, so that records are as of ours.
There are two tracks. *Discrete*: evaluations are rows of a table; a point asked for stands for the nearest row that is
left. *Continuous* (evaluator=surface or live): the point itself is evaluated, rounded to what the space can represent.
Source of `observe_and_suggest`: Pineda Arango, Jomaa, Wistuba and Grabocka 2021, "HPO-B".
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np
from jaxtyping import Float

from harness.arrays import CandidatePoints, Indices, Points
from harness.compile_cache import clock_s
from harness.config import located
from harness.errors import BadInput
from harness.optimizer import Optimizer, Proposal
from harness.problem import Candidates, Evaluation, Problem, WrappedProblem
from harness.space import Parameter, SearchSpace
from harness.streams import seed_sequence

ROUNDING = 1e-6  # relative: a table holds values in single precision, and bounds are double


@dataclass(frozen=True)
class Run:
    """What an optimizer may know before it starts. seed: of its random draws, its own for every problem and run.

    iterations: evaluations planned, `n_initial` of the initial design included, which it is told first; tau: the
    budget in seconds, or None.
    """

    space: SearchSpace
    seed: int
    iterations: int
    n_initial: int
    tau: float | None

    def values(self, x: Float[np.ndarray, " d"]) -> dict[str, Any]:
        """Return a point of the unit cube as values by name, whole numbers as int, none outside the range."""
        native = self.space.from_unit(np.asarray(x, dtype=np.float64)[None])[0].tolist()
        return {p.name: _inside(p, value) for p, value in zip(self.space.parameters, native, strict=True)}

    def unit(self, values: Mapping[str, Any]) -> Float[np.ndarray, " d"]:
        """Return values by name as a point of the unit cube; raises ValueError for those outside the space."""
        if set(values) != set(self.space.names):
            raise ValueError(f"the point must have {', '.join(self.space.names)}, got {', '.join(map(str, values))}")
        low, high = (
            np.array([getattr(p, end) for p in self.space.parameters], np.float32).astype(np.float64)
            for end in ("low", "high")
        )
        native = np.array([float(values[name]) for name in self.space.names])
        near = np.clip(native, low, high)
        close = np.isclose(near, native, rtol=ROUNDING, atol=0.0)
        return self.space.to_unit(np.where(close, near, native)[None])[0]


def same(asked: Mapping[str, float], evaluated: Mapping[str, float]) -> bool:
    """Say whether two points are one, which was rounded on its way to the evaluation."""
    return all(math.isclose(value, evaluated[name], rel_tol=ROUNDING) for name, value in asked.items())


def _inside(p: Parameter, value: float) -> float | int:
    return int(value) if p.integer else min(max(value, p.low), p.high)


class Rival:
    """The base of the optimizers here; one of your own needs no base, only `ask` and `tell`.

    plans_ahead: False where no choice depends on `Run.iterations` or `Run.tau`, so that one run serves all budgets.
    packages: the distributions that do the work, whose versions identify runs; extra: the one that installs them.
    """

    plans_ahead = False
    packages: tuple[str, ...] = ()
    extra = "rivals"

    def start(self, run: Run) -> None:
        """Take what is known of the run."""

    def ask(self) -> Float[np.ndarray, " d"]:
        """Return the point of the unit cube to evaluate next."""
        raise NotImplementedError

    def tell(self, x: Float[np.ndarray, " d"], error: float, cost_s: float) -> None:
        """Take an evaluation: the point that was evaluated, its error, finite, and its cost in seconds.

        An evaluation that failed has the worst error so far. Where nothing has succeeded yet it waits for the first
        error, so that it may come after other points were asked for.
        """
        raise NotImplementedError


def is_rival(made: object) -> bool:
    """Say whether an object, made by a configuration, is an optimizer and no cost rule."""
    return callable(getattr(made, "observe_and_suggest", None)) or (
        callable(getattr(made, "ask", None)) and callable(getattr(made, "tell", None))
    )


def releases(rule: Mapping[str, Any]) -> dict[str, str]:
    """Return the versions of the distributions that an optimizer's class, and its setting `needs`, name.

    Raises BadInput for one that is not installed. A cost rule of ours names none.
    """
    made, found = located(str(rule["_target_"])), dict[str, str]()
    for package in (*getattr(made, "packages", ()), *rule.get("needs", ())):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            extra = getattr(made, "extra", None)
            remedy = f": pip install -e '.[{extra}]'" if extra else ""
            raise BadInput(f"{made.__name__} needs {package}, which is not installed{remedy}") from None
    return found


class OutsideOptimizer(Optimizer):
    """A rival as the optimizer of one run; its proposals say nothing of models.

    propose_ms: of `ask` and of the `tell`s before it.
    """

    def __init__(
        self, rival: Any, *, iterations: int, n_initial: int, tau: float | None = None, seed: int = 0, **_: Any
    ) -> None:
        self._rival, self._name = rival, type(rival).__name__
        self._plan, self._seed = (iterations, n_initial, tau), seed
        self._suggests = callable(getattr(rival, "observe_and_suggest", None))
        self._X, self._y = list[Float[np.ndarray, " d"]](), list[float]()
        self._waiting: list[tuple[Float[np.ndarray, " d"], float]] = []  # failures before the first success
        self._spent_s, self._placed = 0.0, False

    @property
    def uses_models(self) -> bool:
        """Whether there is an `outlook`: no."""
        return False

    def forgets(self, n: int) -> bool:
        """Return False: the inner state of a rival is unknown."""
        return False

    def start(self, problem: Problem) -> Problem:
        """Start the rival; returns the problem with the rival's own points on offer, where any can be evaluated."""
        words = seed_sequence(self._seed, "rival", self._name, problem.name).generate_state(1)
        if start := getattr(self._rival, "start", None):
            start(Run(problem.space, int(words[0] >> 1), *self._plan))
        self._placed = not self._suggests and (problem.anywhere or problem.snaps)
        return _Placing(problem, self) if self._placed else problem

    def tell(self, x: Float[np.ndarray, " d"], evaluation: Evaluation) -> None:
        """Pass the evaluation on; failures wait for an error that stands for theirs."""
        began, x = clock_s(), np.array(x, dtype=np.float64)
        known = [(x, evaluation.error, evaluation.cost_s)]
        if not math.isfinite(evaluation.error):
            known = [(x, max(self._y), evaluation.cost_s)] if self._y else []
            self._waiting += [] if known else [(x, evaluation.cost_s)]
        else:
            known += [(failed, evaluation.error, cost_s) for failed, cost_s in self._waiting]
            self._waiting = []
        for point, error, cost_s in known:
            self._X.append(point)
            self._y.append(error)
            if not self._suggests:
                self._rival.tell(point, error, cost_s)
        self._spent_s += clock_s() - began

    def place(self) -> Float[np.ndarray, " d"]:
        """Return the point that the rival asks for; raises ValueError for what is none of the unit cube."""
        began = clock_s()
        x = np.asarray(self._rival.ask(), dtype=np.float64)
        d = len(self._X[0]) if self._X else x.size
        if x.shape != (d,) or not ((x >= 0.0) & (x <= 1.0)).all():
            raise ValueError(f"{self._name}.ask must return a point of the unit cube [0, 1]^{d}, got {x}")
        self._spent_s += clock_s() - began
        return x

    def ask(self, candidates: Points, rows: Indices | None = None) -> Proposal:
        """Return the candidate that the rival chooses, or the one nearest to what it asks for; rows: those on offer."""
        candidates = candidates if rows is None else candidates.take(rows, axis=0)
        if self._suggests:
            i = self._suggested(candidates)
        elif self._placed:
            i = 0
        else:
            i = int(np.square(candidates - self.place()).sum(axis=1).argmin())
        spent_s, self._spent_s, nan = self._spent_s, 0.0, math.nan
        return Proposal(i, nan, nan, nan, nan, None, fit_ms=0.0, propose_ms=1e3 * spent_s)

    def _suggested(self, candidates: CandidatePoints) -> int:
        """Return the index that `observe_and_suggest` chooses; raises ValueError for what is no row left.

        HPO-B's methods maximise: y is minus the error.
        """
        began, X, y = clock_s(), np.array(self._X).reshape(-1, candidates.shape[1]), -np.array(self._y)[:, None]
        chosen = self._rival.observe_and_suggest(X, y, candidates)
        self._spent_s += clock_s() - began
        found = np.asarray(chosen).ravel()
        if len(found) != 1 or found.dtype.kind not in "iu" or not 0 <= found[0] < len(candidates):
            raise ValueError(f"{self._name}.observe_and_suggest must return the index of one of the {len(candidates)} "
                             f"rows left, got {chosen!r}")  # fmt: skip
        return int(found[0])


class _Placing(WrappedProblem):
    """A problem that offers what the rival asks for, or the row left that is nearest to it, and nothing else."""

    def __init__(self, problem: Problem, optimizer: OutsideOptimizer) -> None:
        super().__init__(problem)
        self._optimizer = optimizer

    def candidates(self, step: int) -> Candidates:
        """Return that point alone."""
        return self._problem.nearest(self._optimizer.place()[None])

    def all_candidates(self, step: int) -> Candidates:
        """Return that point alone."""
        return self.candidates(step)

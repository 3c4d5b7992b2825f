"""The EI-cost Pareto front of every step, and what becomes of it at the next: the numbers of F1 and F7.

Notation: m candidates of a step; a front's points are those that no candidate beats in EI at no higher cost, or in
cost at no lower EI. Source: Guinet et al. 2020 (every maximiser of their acquisitions lies on it).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from harness.arrays import Indices
from harness.optimizer import Optimizer
from harness.problem import Candidates, Evaluation, Problem, Stop, WrappedProblem
from harness.records import FRONTS


def ei_cost_front(log_value: Float[np.ndarray, " m"], log_cost: Float[np.ndarray, " m"]) -> Bool[np.ndarray, " m"]:
    """Return which points no other dominates (value as high and cost as low, one of them better).

    Equal points are on the front together. Raises ValueError for NaN.
    """
    if np.isnan(log_value).any() or np.isnan(log_cost).any():
        raise ValueError("a front needs numbers, got NaN")
    order = np.lexsort((-log_value, log_cost))  # by cost, the highest value first
    value, cost = log_value[order], log_cost[order]
    best = np.maximum.accumulate(value)
    cheaper = np.searchsorted(cost, cost, side="left")  # how many cost less
    bar = np.concatenate([[-np.inf], best])[cheaper]
    top = value[cheaper]  # the highest of equal cost
    out = np.empty(len(order), dtype=bool)
    out[order] = (value == top) & ((value > bar) | (cheaper == 0))
    return out


def _front(
    where: Indices, log_value: Float[np.ndarray, " k"], log_cost: Float[np.ndarray, " k"]
) -> tuple[Int[np.ndarray, " f"], Float[np.ndarray, " f"], Float[np.ndarray, " f"]]:
    """Return which points are on the front, of those among which it is, and their log utility and log cost."""
    on = ei_cost_front(log_value, log_cost)
    return where[on], log_value[on], log_cost[on]


FOLLOWED = 10  # steps for which points are followed
EVERY = 5  # of every fifth front: of all it takes three times as long


@dataclass
class _Followed:
    """A front that is still followed: its candidates, its points among them, their first row, who is still on it.

    left: the candidates not evaluated since. on_and_on: for more than one step.
    """

    offered: Candidates
    points: Int[np.ndarray, " f"]
    first: int
    on: Bool[np.ndarray, " f"]
    left: Bool[np.ndarray, " m"]
    on_and_on: bool
    steps: int = 0


class FrontRecorder(WrappedProblem):
    """A problem, for one run, that notes the optimizer's front before each evaluation that it proposed.

    At every step the last step's points, without the one evaluated since, are looked at once more: `then_log_ei` and
    `then_log_cost` are what the refitted models say of a point of the front, and `stays` whether it is on the front of
    the same points again. The last front has no such next step (NaN, and null), nor has the point evaluated.

    At every fifth step `stays_for` counts the steps, up to ten, for which a point has been on the front throughout:
    each time of the same candidates, without those evaluated since. It ends with the run or with the point's
    own evaluation.
    """

    def __init__(self, problem: Problem, optimizer: Optimizer, seed: int) -> None:
        super().__init__(problem)
        self._optimizer, self._seed = optimizer, seed
        self._step: int | None = None
        self._offered = Candidates(np.empty(0, np.int64), np.empty((0, len(problem.space))))
        self._followed: list[_Followed] = []
        self.columns: dict[str, list[Any]] = {name: [] for name in FRONTS.names}

    def candidates(self, step: int) -> Candidates:
        """Return the problem's candidates, and keep them for the front."""
        self._step, self._offered = step, self._problem.candidates(step)
        return self._offered

    def evaluate(self, candidate: int) -> Evaluation:
        """Note the front, if this is a proposal's evaluation, and return the problem's own answer."""
        self._note(candidate)
        return self._problem.evaluate(candidate)

    def evaluate_with_curve(self, candidate: int, stop: Stop | None = None) -> Evaluation:
        """Do the same where the problem shows learning curves."""
        self._note(candidate)
        return self._problem.evaluate_with_curve(candidate, stop)

    def _note(self, chosen: int) -> None:
        if self._step is None or not self._optimizer.uses_models:
            return
        step = self._step
        points, log_value, log_cost = _front(*self._optimizer.seen_front())
        for front in self._followed:
            self._follow(front, points)
        n, first = len(points), len(self.columns["seed"])
        ids, nothing = self._offered.ids[points], [np.nan] * n
        rows = [self._seed] * n, [step] * n, ids.tolist(), log_value.tolist(), log_cost.tolist()
        later = nothing, nothing, [None] * n, [None] * n
        for name, values in zip(FRONTS.names, [*rows, (ids == chosen).tolist(), *later], strict=True):
            self.columns[name] += values
        left = np.ones(len(self._offered.ids), dtype=bool)
        self._followed.append(_Followed(self._offered, points, first, np.ones(n, dtype=bool), left, step % EVERY == 0))
        for front in self._followed:
            front.left &= front.offered.ids != chosen
            front.on &= front.left[front.points]
        self._followed = [
            f for f in self._followed if f.steps == 0 or (f.on_and_on and f.steps < FOLLOWED and f.on.any())
        ]

    def _follow(self, front: _Followed, now: Indices) -> None:
        """Fill in what the models now say of a front noted before, and who of its points is on the front again.

        now: the front of this step's own candidates, which is that of the earlier ones where they are the same.
        """
        left, on = np.flatnonzero(front.left), np.zeros(len(front.left), dtype=bool)
        again = front.offered.some(left)
        if again.same_points(self._offered):
            on[left[now]] = True
        elif len(left):
            on[left[_front(*self._optimizer.near_front(*again.rows))[0]]] = True
        rows = np.flatnonzero(front.left[front.points]) if front.steps == 0 else np.empty(0, np.intp)
        if len(rows):
            followed = front.points[rows]
            log_value, log_cost = self._optimizer.outlook(front.offered.some(followed).unit)
            for i, at in enumerate(front.first + rows):
                self.columns["then_log_ei"][at] = float(log_value[i])
                self.columns["then_log_cost"][at] = float(log_cost[i])
                self.columns["stays"][at] = bool(on[followed[i]])
                self.columns["stays_for"][at] = 0 if front.on_and_on else None
        front.on &= on[front.points]
        front.steps += 1
        for row in np.flatnonzero(front.on) if front.on_and_on else ():
            self.columns["stays_for"][front.first + int(row)] = front.steps

"""One run (`run`): a problem and an optimizer, from the initial design to the last iteration or the end of the budget.

A run may begin with what another, planned for less, has recorded (`recorded`), if no choice depends on the plan.
`FrontRecorder` notes the EI-cost Pareto front of every step and what becomes of it at the next: the numbers of F1 and
F7. Notation: m candidates of a step; a front's points are those that no candidate beats in EI at no higher cost, or in
cost at no lower EI. Source: Guinet et al. 2020 (every maximiser of their acquisitions lies on it).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from harness.arrays import Indices, Points
from harness.curves import Rounds
from harness.optimizer import Optimizer, Proposal
from harness.problem import Candidates, Evaluation, Problem, Stop, WrappedProblem
from harness.records import FRONTS, MODELS, TIMINGS, TRACE, read_proposals, versions
from harness.space import XGBOOST_SPACE, SearchSpace
from harness.surrogates import Hyperparameters

# The EI-cost Pareto front, step by step.


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
        for front in self._followed:
            self._follow(front)
        points, log_value, log_cost = self._front(self._offered.unit)
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

    def _front(self, points: Points) -> tuple[Indices, Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
        """Return which points are on the front, and their log utility and log cost."""
        where, log_value, log_cost = self._optimizer.near_front(points)
        on = ei_cost_front(log_value, log_cost)
        return where[on], log_value[on], log_cost[on]

    def _follow(self, front: _Followed) -> None:
        """Fill in what the models now say of a front noted before, and who of its points is on the front again."""
        left, on = np.flatnonzero(front.left), np.zeros(len(front.left), dtype=bool)
        if len(left):
            on[left[self._front(front.offered.unit[left])[0]]] = True
        rows = np.flatnonzero(front.left[front.points]) if front.steps == 0 else np.empty(0, np.intp)
        if len(rows):
            points = front.points[rows]
            log_value, log_cost = self._optimizer.outlook(front.offered.unit[points])
            for i, at in enumerate(front.first + rows):
                self.columns["then_log_ei"][at] = float(log_value[i])
                self.columns["then_log_cost"][at] = float(log_cost[i])
                self.columns["stays"][at] = bool(on[points[i]])
                self.columns["stays_for"][at] = 0 if front.on_and_on else None
        front.on &= on[front.points]
        front.steps += 1
        for row in np.flatnonzero(front.on) if front.on_and_on else ():
            self.columns["stays_for"][front.first + int(row)] = front.steps


# The loop.

NAN = float("nan")


class Trace:
    """The rows of one run, as columns; `timings` holds the optimizer's own milliseconds, `models` what it fitted.

    exhausted: whether it ended since the problem had nothing left to offer. all_design: whether it ended before
    anything was chosen, since its initial design spent its budget. rounds: `Problem.rounds`. An evaluation with a
    learning curve has the hyperparameters of its best prefix, whose errors it has, and the cost of its training.
    """

    def __init__(self, seed: int, space: SearchSpace, rounds: str | None = None) -> None:
        self._seed, self._space = seed, space
        self._rounds = None if rounds is None else Rounds(space, rounds)
        self.exhausted = self.all_design = False
        self._unit: list[Any] = []
        self._columns: dict[str, list[Any]] = {name: [] for name in TRACE.names if name not in XGBOOST_SPACE.names}
        self.timings: dict[str, list[Any]] = {name: [] for name in TIMINGS.names}
        self.models: dict[str, list[Any]] = {name: [] for name in MODELS.names}

    def __len__(self) -> int:
        return len(self._unit)

    @property
    def columns(self) -> dict[str, list[Any]]:
        """The columns of the trace, by name; hyperparameters in native values."""
        native = self._space.from_unit(np.array(self._unit).reshape(-1, len(self._space)))
        return {**self._columns, **dict(zip(self._space.names, native.T.tolist(), strict=True))}

    def add(self, offered: Candidates, i: int, outcome: Evaluation, proposal: Any = None) -> None:
        """Append one evaluation; `proposal` is None for the initial design, which nothing predicted."""
        step, guess = len(self), (NAN, NAN, NAN)
        if proposal is not None:
            guess = (proposal.predicted_cost_s, proposal.log_ei, proposal.effective_alpha)
            times = (self._seed, step, proposal.fit_ms, proposal.propose_ms)
            fitted = proposal.hyperparameters
            theta = (
                (None, NAN, NAN)
                if fitted is None
                else (fitted.log_length_scales.tolist(), fitted.log_signal_variance, fitted.log_noise_variance)
            )
            models = (self._seed, step, proposal.effective_alpha, proposal.effective_alpha_high, *theta)
            for columns, values in ((self.timings, times), (self.models, models)):
                for column, value in zip(columns.values(), values, strict=True):
                    column.append(value)
        seen = (outcome.error, outcome.test_error, outcome.cost_s, outcome.wall_s, outcome.status)
        row = (self._seed, step, int(offered.ids[i]), *seen, *guess)
        for column, value in zip(self._columns.values(), row, strict=True):  # in the order of TRACE
            column.append(value)
        x, curve = offered.unit[i].copy(), outcome.curve  # a view would keep all that was offered
        if curve is not None and self._rounds is not None:
            x = self._rounds.at(x, [curve.rounds[curve.best]])[0]
        self._unit.append(x)


Begun = Mapping[int, tuple[int, Proposal]]  # by step: the candidate that was evaluated, and why


def recorded(results: Path, spec: dict[str, Any]) -> tuple[dict[int, Begun], set[int]]:
    """Return, by seed, the runs of a spec that are on disk whole, made with the versions that are in use here.

    Those that are damaged, or of before models were recorded, are left out: they can be made again. Beside them the
    seeds of those of which less is known than what was chosen, since they come from packed records.
    """
    found: dict[int, dict[int, tuple[int, Proposal]]] = {}
    rounded = set[int]()
    for header, rows in read_proposals(results, spec):
        if header.get("versions") == versions():
            for row in rows:
                found.setdefault(row["seed"], {})[row["step"]] = row["candidate"], _proposal(row)
            rounded.update(header["seeds"] if header.get("rounded") else [])
    return dict(found), rounded


def _proposal(row: Mapping[str, Any]) -> Proposal:
    """Return what `Trace.add` made the row of."""
    lengths, theta = row["log_length_scales"], (row["log_signal_variance"], row["log_noise_variance"])
    return Proposal(
        index=0,
        log_ei=row["log_ei"],
        predicted_cost_s=row["predicted_cost_s"],
        effective_alpha=row["effective_alpha"],
        effective_alpha_high=row["effective_alpha_high"],
        hyperparameters=None if lengths is None else Hyperparameters(np.array(lengths), *theta),
        fit_ms=row["fit_ms"],
        propose_ms=row["propose_ms"],
    )


def run(
    problem: Problem,
    optimizer: Optimizer,
    seed: int,
    iterations: int,
    n_initial: int,
    tau: float | None,
    begun: Begun | None = None,
) -> Trace:
    """Minimise `problem` and return the trace.

    Stops after `iterations` evaluations, the initial design included; when `tau` seconds of cost are spent
    (the evaluation that crosses tau is in the trace: whether it counts is the analysis's to say); when the optimizer
    says so (`Proposal.stop`); or when the problem has nothing left to offer. begun: proposals that need not be made
    again (`Optimizer.forgets`).
    """
    trace, begun = Trace(seed, problem.space, problem.rounds), begun or {}
    spent = 0.0
    problem = optimizer.start(problem)
    design = problem.initial(min(n_initial, iterations))
    for i, candidate in enumerate(design.ids):
        spent += _evaluate(problem, optimizer, trace, design, i, int(candidate), None)
    trace.all_design = tau is not None and spent >= tau and len(trace) < iterations
    while len(trace) < iterations and (tau is None or spent < tau):
        if len(trace) in begun:
            candidate, proposal = begun[len(trace)]
            offered, index = problem.offer(len(trace), candidate), 0
        else:
            offer = problem.candidates if optimizer.uses_models else problem.all_candidates
            offered = offer(len(trace))
            if not len(offered.ids):
                trace.exhausted = True
                break
            proposal = optimizer.ask(offered.unit)
            if proposal.stop:
                break
            index = proposal.index
            candidate = int(offered.ids[index])
        spent += _evaluate(problem, optimizer, trace, offered, index, candidate, proposal)
    return trace


def _evaluate(
    problem: Problem, optimizer: Optimizer, trace: Trace, offered: Candidates, i: int, candidate: int, proposal: Any
) -> float:
    outcome = problem.evaluate(candidate)
    optimizer.tell(offered.unit[i], outcome)
    trace.add(offered, i, outcome, proposal)
    return outcome.cost_s

"""One run (`run`): a problem and an optimizer, from the initial design to the last iteration or the end of the budget.

`FrontRecorder` notes the EI-cost Pareto front of every step and what becomes of it at the next: the numbers of F1 and
F7. Notation: m candidates of a step; a front's points are those that no candidate beats in EI at no higher cost, or in
cost at no lower EI. Source: Guinet et al. 2020 (every maximiser of their acquisitions lies on it).
"""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from harness.optimizer import Optimizer
from harness.problem import Candidates, Evaluation, Problem, WrappedProblem
from harness.records import FRONTS, MODELS, TIMINGS, TRACE
from harness.space import XGBOOST_SPACE, SearchSpace

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


class FrontRecorder(WrappedProblem):
    """A problem, for one run, that notes the optimizer's front before each evaluation that it proposed.

    At every step the last step's points, without the one evaluated since, are looked at once more: `then_log_ei` and
    `then_log_cost` are what the refitted models say of a point of the front, and `stays` whether it is on the front of
    the same points again. The last front has no such next step (NaN, and null), nor has the point evaluated.
    """

    def __init__(self, problem: Problem, optimizer: Optimizer, seed: int) -> None:
        super().__init__(problem)
        self._optimizer, self._seed = optimizer, seed
        self._step: int | None = None
        self._offered = Candidates(np.empty(0, np.int64), np.empty((0, len(problem.space))))
        self._before: tuple[Candidates, Int[np.ndarray, " f"], int] | None = None
        self.columns: dict[str, list[Any]] = {name: [] for name in FRONTS.names}

    def candidates(self, step: int) -> Candidates:
        """Return the problem's candidates, and keep them for the front."""
        self._step, self._offered = step, self._problem.candidates(step)
        return self._offered

    def evaluate(self, candidate: int) -> Evaluation:
        """Note the front, if this is a proposal's evaluation, and return the problem's own answer."""
        if self._step is not None and self._optimizer.uses_models:
            self._note(self._step, candidate)
        return self._problem.evaluate(candidate)

    def _note(self, step: int, chosen: int) -> None:
        if self._before is not None:
            self._follow(*self._before)
        log_value, log_cost = self._optimizer.outlook(self._offered.unit)
        points = np.flatnonzero(ei_cost_front(log_value, log_cost))
        n = len(points)
        ids, nothing = self._offered.ids[points], [np.nan] * n
        rows = [self._seed] * n, [step] * n, ids.tolist(), log_value[points].tolist(), log_cost[points].tolist()
        for name, values in zip(
            FRONTS.names, [*rows, (ids == chosen).tolist(), nothing, nothing, [None] * n], strict=True
        ):
            self.columns[name] += values
        self._before = (self._offered, points, chosen)

    def _follow(self, offered: Candidates, points: Int[np.ndarray, " f"], chosen: int) -> None:
        """Fill in what the models now say of the front noted last."""
        left = offered.ids != chosen
        log_value, log_cost = self._optimizer.outlook(offered.unit)
        on = np.zeros(len(left), dtype=bool)
        on[left] = ei_cost_front(log_value[left], log_cost[left])
        first = len(self.columns["seed"]) - len(points)
        for row, point in enumerate(points, start=first):
            if left[point]:
                self.columns["then_log_ei"][row] = float(log_value[point])
                self.columns["then_log_cost"][row] = float(log_cost[point])
                self.columns["stays"][row] = bool(on[point])


# The loop.

NAN = float("nan")


class Trace:
    """The rows of one run, as columns; `timings` holds the optimizer's own milliseconds, `models` what it fitted."""

    def __init__(self, seed: int, space: SearchSpace) -> None:
        self._seed, self._space = seed, space
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
        self._unit.append(offered.unit[i])


def run(problem: Problem, optimizer: Optimizer, seed: int, iterations: int, n_initial: int, tau: float | None) -> Trace:
    """Minimise `problem` and return the trace.

    Stops after `iterations` evaluations, the initial design included; when `tau` seconds of cost are spent
    (the evaluation that crosses tau is in the trace: whether it counts is the analysis's to say); or when the
    problem has nothing left to offer.
    """
    trace = Trace(seed, problem.space)
    spent = 0.0
    problem = optimizer.start(problem)
    design = problem.initial(min(n_initial, iterations))
    for i, candidate in enumerate(design.ids):
        spent += _evaluate(problem, optimizer, trace, design, i, int(candidate), None)
    while len(trace) < iterations and (tau is None or spent < tau):
        offered = problem.candidates(len(trace))
        if not len(offered.ids):
            break
        proposal = optimizer.ask(offered.unit)
        candidate = int(offered.ids[proposal.index])
        spent += _evaluate(problem, optimizer, trace, offered, proposal.index, candidate, proposal)
    return trace


def _evaluate(
    problem: Problem, optimizer: Optimizer, trace: Trace, offered: Candidates, i: int, candidate: int, proposal: Any
) -> float:
    outcome = problem.evaluate(candidate)
    optimizer.tell(offered.unit[i], outcome)
    trace.add(offered, i, outcome, proposal)
    return outcome.cost_s

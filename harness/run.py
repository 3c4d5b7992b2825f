"""The loop: one problem, one optimizer, from the initial design to the last iteration or the end of the budget."""

from typing import Any

import numpy as np

from harness.optimizer import Optimizer
from harness.problem import Candidates, Evaluation, Problem
from harness.records.layout import TIMINGS, TRACE
from harness.space import SearchSpace

NAN = float("nan")


class Trace:
    """The rows of one run, as columns; `timings` holds the optimizer's own milliseconds."""

    def __init__(self, seed: int, space: SearchSpace) -> None:
        self._seed, self._space = seed, space
        self._unit: list[Any] = []
        self._columns: dict[str, list[Any]] = {name: [] for name in TRACE.names if name not in space.names}
        self.timings: dict[str, list[Any]] = {name: [] for name in TIMINGS.names}

    def __len__(self) -> int:
        return len(self._unit)

    @property
    def columns(self) -> dict[str, list[Any]]:
        """The columns of the trace, by name; hyperparameters in native values."""
        native = self._space.from_unit(np.array(self._unit).reshape(-1, len(self._space)))
        return {**self._columns, **dict(zip(self._space.names, native.T.tolist(), strict=True))}

    def add(self, offered: Candidates, i: int, outcome: Evaluation, proposal: Any = None) -> None:
        """Append one evaluation; `proposal` is None for the initial design, which nothing predicted."""
        step = len(self)
        row = {
            "seed": self._seed,
            "step": step,
            "candidate": int(offered.ids[i]),
            "error": outcome.error,
            "test_error": outcome.test_error,
            "cost_s": outcome.cost_s,
            "wall_s": outcome.wall_s,
            "status": outcome.status,
            "predicted_cost_s": NAN if proposal is None else proposal.predicted_cost_s,
            "log_ei": NAN if proposal is None else proposal.log_ei,
            "effective_alpha": NAN if proposal is None else proposal.effective_alpha,
        }
        self._unit.append(offered.unit[i])
        for name, value in row.items():
            self._columns[name].append(value)
        if proposal is not None:
            times = {"seed": self._seed, "step": step, "fit_ms": proposal.fit_ms, "propose_ms": proposal.propose_ms}
            for name, value in times.items():
                self.timings[name].append(value)


def run(problem: Problem, optimizer: Optimizer, seed: int, iterations: int, n_initial: int, tau: float | None) -> Trace:
    """Minimise `problem` and return the trace.

    Stops after `iterations` evaluations, the initial design included; when `tau` seconds of cost are spent
    (the evaluation that crosses tau is in the trace: whether it counts is the analysis's to say); or when the
    problem has nothing left to offer.
    """
    trace = Trace(seed, problem.space)
    spent = 0.0
    optimizer.start(problem)
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

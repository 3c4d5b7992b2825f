"""One run (`run`): a problem and an optimizer, from the initial design to the last iteration or the end of the budget.

A run may begin with what another, planned for less, has recorded (`recorded`), if no choice depends on the plan.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.curves import Rounds
from harness.optimizer import Optimizer, Proposal
from harness.problem import Candidates, Evaluation, Problem
from harness.records import MODELS, TIMINGS, TRACE, read_proposals, versions
from harness.space import XGBOOST_SPACE, SearchSpace
from harness.surrogates import Hyperparameters

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
        x, curve = offered.point(i).copy(), outcome.curve  # a view would keep all that was offered
        if curve is not None and self._rounds is not None:
            x = self._rounds.best(x, curve)
        self._unit.append(x)


Begun = Mapping[int, tuple[int, Proposal]]  # by step: the candidate that was evaluated, and why


def recorded(results: Path, spec: dict[str, Any]) -> tuple[dict[int, Begun], set[int]]:
    """Return, by seed, the runs of a spec that are on disk whole, made with the versions that are in use here.

    Those that are damaged, or were written before models were recorded, are left out: they can be made again. Beside
    them the seeds of those that come from packed records, which hold little more than what was chosen.
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
            proposal = optimizer.ask(*offered.rows)
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
    if proposal is not None and (later_ms := optimizer.stopping_ms()):
        proposal = replace(proposal, propose_ms=proposal.propose_ms + later_ms)
    optimizer.tell(offered.point(i), outcome)
    trace.add(offered, i, outcome, proposal)
    return outcome.cost_s

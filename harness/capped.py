"""Minimise a runtime by evaluations that are stopped early: `python -m harness.capped [setting=value ...]`.

An evaluation is stopped once it has taken `slack` times the lowest runtime so far: then only a bound is known. From
values and bounds a forest is fitted to log10 seconds (Algorithm 1), the point of highest EI is evaluated next, and so
on until the budget is spent. `CappedOptimizer` is for objectives of any kind (`ask` gives a point and its cap, `tell`
takes a value or a bound), `minimise` for a `Problem` whose evaluations can be stopped, the command line for programs
and for trainings of XGBoost. Source: Hutter, Hoos and Leyton-Brown 2013, "Bayesian optimization with censored response
data", Algorithm 2.
"""

import math
import shlex
import string
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from harness.acquisitions.ei import log_ei
from harness.arrays import unseen
from harness.cli import helped, run_cli
from harness.config import chosen, compose_config
from harness.errors import BadInput, flag, folder, listed, number, positive, whole, writable
from harness.execution import sandbox
from harness.normal import log
from harness.problem import (
    FAILED,
    OK,
    TIMEOUT,
    Candidates,
    ContinuousProblem,
    Evaluation,
    Problem,
    slack_factor,
    threshold,
)
from harness.sealed import is_done, read_record, record_path, write_record
from harness.space import Parameter, SearchSpace
from harness.streams import seed_sequence
from harness.surrogates.forest import SAMPLED, CensoredForest, RandomForest

# The optimizer.


@dataclass(frozen=True)
class CappedProposal:
    """A point to evaluate, in the unit cube and in native values by name, and the seconds at which to stop it.

    index: among the candidates offered. log_ei: of log10 seconds; NaN in the initial design, which nothing predicted.
    """

    index: int
    unit: Float[np.ndarray, " d"]
    settings: dict[str, float]
    cap_s: float
    log_ei: float


class CappedOptimizer:
    """One run of Bayesian optimization of a runtime over `space` with adaptive capping; draws depend on (seed, name).

    slack: an evaluation is stopped at this factor, at least 1, of the lowest runtime so far; None: never before
    kappa_max_s, the most an evaluation may take, which is what one counts for that takes it (inf: no limit). Points:
    `n_initial` of a Sobol design, capped like all, then the best of `n_candidates` by EI below the lowest runtime.
    treatment: of bounds, one of `harness.surrogates.forest.TREATMENTS`.
    """

    def __init__(
        self,
        space: SearchSpace,
        *,
        slack: float | None = 1.3,
        kappa_max_s: float = math.inf,
        n_initial: int = 5,
        n_candidates: int = 2048,
        treatment: str = SAMPLED,
        trees: int = 100,
        seed: int = 0,
        name: str = "",
    ) -> None:
        self._space, self._slack = space, slack_factor(slack)
        self._kappa_max_s = math.inf if kappa_max_s == math.inf else positive("kappa_max_s", kappa_max_s)
        self._n_initial, self._n = whole("n_initial", n_initial, 1), whole("n_candidates", n_candidates, 1)
        self._model = CensoredForest(RandomForest(trees, seed=whole("seed", seed, 0)), treatment)
        self._seed, self._name = seed, name
        self._X: list[Float[np.ndarray, " d"]] = []
        self._seconds: list[float] = []
        self._bound: list[bool] = []

    @property
    def incumbent(self) -> int | None:
        """The number of the evaluation with the lowest runtime that is known, None while none is."""
        known = [i for i, bound in enumerate(self._bound) if not bound]
        return min(known, key=self._seconds.__getitem__) if known else None

    @property
    def cap_s(self) -> float:
        """The seconds at which to stop the next evaluation."""
        best = self.incumbent
        return threshold(self._slack, None if best is None else self._seconds[best], self._kappa_max_s)

    def ask(self, offered: Candidates | None = None) -> CappedProposal:
        """Choose the next point, of the candidates `offered` or else of Sobol points of this step.

        In the initial design, offered candidates are taken in their order.
        """
        step = len(self._X)
        if offered is not None:
            C = offered.unit
        elif step < self._n_initial:
            C = self._space.snap(self._space.sobol(self._n_initial, self._draw("design")))
        else:
            C = self._space.snap(self._space.sobol(self._n, self._draw(str(step))))
        if not len(C):
            raise ValueError("there is no candidate to choose")
        i, value = (step % len(C), math.nan) if step < self._n_initial else self._choose(C, step)
        native = self._space.from_unit(C[i][None])[0]
        return CappedProposal(i, C[i], dict(zip(self._space.names, native.tolist(), strict=True)), self.cap_s, value)

    def _draw(self, what: str) -> np.random.SeedSequence:
        return seed_sequence(self._seed, "capped", self._name, what)

    def _choose(self, C: Float[np.ndarray, "m d"], step: int) -> tuple[int, float]:
        """Return the candidate of highest EI, and its log EI: of those not evaluated yet, where any is left.

        Ties are drawn: while nothing has been solved all candidates can be equal, and the first are neighbours.
        """
        y, bound = log(np.array(self._seconds)) / math.log(10.0), np.array(self._bound)
        kappa_max = math.log10(self._kappa_max_s) if self._kappa_max_s < math.inf else math.inf
        y = np.minimum(y, kappa_max)  # the two logarithms can differ in the last digit
        mean, sd = self._model.fit(np.array(self._X), y, bound, kappa_max).posterior.mean_sd(C)
        best = y.min() if bound.all() else y[~bound].min()
        value = log_ei(best - mean, sd)
        new = unseen(C, np.array(self._X))
        left = np.flatnonzero(new) if new.any() else np.arange(len(C))
        tied = left[value[left] == value[left].max()]
        i = int(np.random.default_rng(self._draw(f"tie-{step}")).choice(tied))
        return i, float(value[i])

    def tell(self, unit: Float[np.ndarray, " d"], seconds: float, stopped: bool = False) -> None:
        """Record an evaluation of a point of the unit cube: its runtime, or, where it was stopped, a lower bound of it.

        What took kappa_max_s counts for that, stopped or not. Raises BadInput for seconds that are no number > 0, and
        ValueError for what is no point of the cube.
        """
        unit = np.array(unit, dtype=np.float64)
        if unit.shape != (len(self._space),) or not ((unit >= 0) & (unit <= 1)).all():
            raise ValueError(f"the point must be one of the unit cube in {len(self._space)} dimensions, got {unit}")
        taken = min(positive("seconds", seconds), self._kappa_max_s)
        self._X.append(unit)
        self._seconds.append(taken)
        self._bound.append(flag("stopped", stopped) and taken < self._kappa_max_s)


# Problems whose evaluations can be stopped.

COLUMNS = ("step", "candidate", "cap_s", "seconds", "status", "error", "spent_s", "log_ei")
SOLVED, STOPPED, UNSOLVED = "solved", "stopped", "unsolved"
_INTEGERS = ("step", "candidate")


def judge(outcome: Evaluation, cap_s: float, kappa_max_s: float, target_error: float | None) -> tuple[float, str]:
    """Return the runtime that an evaluation counts for, or a bound of it, and its status.

    It has solved its task if it ended well within kappa_max_s, with an error of at most `target_error` (None: whatever
    the error). One that ended otherwise counts for kappa_max_s. It was stopped if it reached a cap below kappa_max_s.
    """
    if outcome.status == TIMEOUT:
        return (outcome.cost_s, STOPPED) if max(cap_s, outcome.cost_s) < kappa_max_s else (kappa_max_s, UNSOLVED)
    good = outcome.status == OK and (target_error is None or outcome.error <= target_error)
    return (outcome.cost_s, SOLVED) if good and outcome.cost_s <= kappa_max_s else (kappa_max_s, UNSOLVED)


def minimise(
    problem: Problem,
    optimizer: CappedOptimizer,
    *,
    budget_s: float,
    kappa_max_s: float,
    iterations: int,
    n_initial: int,
    target_error: float | None = None,
    path: Path | None = None,
    spec: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Minimise the seconds of the problem's evaluations, and return a row of `COLUMNS` and parameters for each.

    Ends after `iterations` evaluations, when budget_s seconds of them are spent, or with nothing left to offer.
    path: where the record of `spec` is kept, written after each evaluation. A run on the whole space goes on from
    one that is there. One on a table, whose evaluations are looked up, starts over and replaces the record only by a
    longer one.
    """
    own = {name: pa.float64() for name in problem.space.names}
    types = {name: pa.int64() if name in _INTEGERS else pa.string() if name == "status" else pa.float64()
             for name in COLUMNS}  # fmt: skip
    schema = pa.schema(list((types | own).items()))
    rows: list[dict[str, Any]] = []
    kept = read_record(path)[1].to_pylist() if path is not None and is_done(path) else []
    if problem.anywhere:
        rows = kept[:]
    for step, row in enumerate(rows):
        _offer(problem, step, n_initial)  # candidates are numbered as they are offered
        native = np.array([[row[name] for name in problem.space.names]])
        optimizer.tell(problem.space.to_unit(native)[0], row["seconds"], row["status"] == STOPPED)
    spent = rows[-1]["spent_s"] if rows else 0.0
    while len(rows) < iterations and spent < budget_s:
        step = len(rows)
        offered = _offer(problem, step, n_initial)
        if not len(offered.ids):
            break
        asked = optimizer.ask(offered)
        candidate = int(offered.ids[asked.index])
        outcome = problem.evaluate_capped(candidate, asked.cap_s)
        seconds, status = judge(outcome, asked.cap_s, kappa_max_s, target_error)
        optimizer.tell(asked.unit, seconds, status == STOPPED)
        spent += outcome.cost_s
        values = (step, candidate, asked.cap_s, seconds, status, outcome.error, spent, asked.log_ei)
        rows.append(dict(zip(COLUMNS, values, strict=True)) | asked.settings)
        if path is not None and len(rows) > len(kept):
            write_record(path, rows, schema, dict(spec or {}))
    return rows


def _offer(problem: Problem, step: int, n_initial: int) -> Candidates:
    return problem.initial(n_initial) if step < n_initial else problem.candidates(step)


class ProgramProblem(ContinuousProblem):
    """A program of the user's own, whose CPU seconds are minimised; an exit code other than 0 is a failure.

    command: its words, with {name} for a parameter's value and {seed} for the run's seed.
    """

    def __init__(
        self, name: str, command: str, space: SearchSpace, seed: int, kappa_max_s: float, n_candidates: int = 2048
    ) -> None:
        super().__init__(name, seed, n_candidates)
        self.space, self._native = space, np.empty((0, len(space)))
        self._kappa_max_s = kappa_max_s
        try:
            self._words = shlex.split(command)
            fields = [field for word in self._words for _, field, _, _ in string.Formatter().parse(word)]
        except ValueError as error:  # an open quote, a brace without its other
            raise BadInput(f"command cannot be read ({error}): {command!r}; {{{{ stands for a brace") from None
        used = {field for field in fields if field is not None}
        if not self._words or used - {"seed"} != set(space.names):
            raise BadInput(
                f"command must use each of {', '.join('{' + n + '}' for n in space.names)} (and may use {{seed}}), "
                f"got {command!r}"
            )
        try:
            self._filled(space.from_unit(np.zeros((1, len(space))))[0])
        except (ValueError, LookupError, AttributeError) as error:
            raise BadInput(f"command cannot be filled in ({error}): {command!r}") from None

    def measure(self, x: Float[np.ndarray, " d"]) -> Evaluation:
        """Run the program with the native values `x` for at most kappa_max_s."""
        return self._run(x, self._kappa_max_s)

    def evaluate_capped(self, candidate: int, cap_s: float) -> Evaluation:
        """Run the program, which the kernel ends after `cap_s` CPU seconds."""
        return self._run(self._native[candidate - self._first], min(cap_s, self._kappa_max_s))

    def _filled(self, x: Float[np.ndarray, " d"]) -> list[str]:
        values: dict[str, Any] = {"seed": self._seed}
        for parameter, value in zip(self.space.parameters, x, strict=True):
            values[parameter.name] = int(value) if parameter.integer else np.float32(value)
        return [word.format(**values) for word in self._words]

    def _run(self, x: Float[np.ndarray, " d"], cap_s: float) -> Evaluation:
        outcome = sandbox.program(self._filled(x), cap_s)
        ended = {sandbox.DONE: OK if outcome.value == 0 else FAILED, sandbox.CAPPED: TIMEOUT, sandbox.HUNG: TIMEOUT}
        status, nan = ended.get(outcome.status, FAILED), math.nan
        error = 0.0 if status == OK else nan
        return Evaluation(error, outcome.cpu_s, error, outcome.wall_s, status)


# The command line.


@dataclass(frozen=True)
class CappedRun:
    """One run to make: of a problem or a program, with a seed."""

    name: str
    seed: int
    settings: Mapping[str, Any]
    what: Mapping[str, Any]

    version: ClassVar[int] = 2  # raise it when the same settings mean something else than before

    def spec(self) -> dict[str, Any]:
        """Return all that determines what is done, as plain JSON values."""
        return {"problem": self.name, "seed": self.seed, **self.settings, **self.what, "version": self.version}


def space_of(parameters: object) -> SearchSpace:
    """Return the space of `{name: {low, high, log, integer}}`; raises BadInput for what is none."""
    if not isinstance(parameters, Mapping) or not parameters:
        raise BadInput("command needs parameters, for example 'parameters={x:{low:0.1,high:10,log:true}}'")
    try:
        return SearchSpace(tuple(_parameter(str(name), entry) for name, entry in parameters.items()))
    except BadInput as error:
        raise BadInput(f"parameters: {error}") from None


def _parameter(name: str, entry: object) -> Parameter:
    """Return the parameter of `{low, high, log, integer}`; raises BadInput for what is none."""
    known = {field.name: field.default is MISSING for field in fields(Parameter) if field.name != "name"}
    allowed = ", ".join(known)
    if not isinstance(entry, Mapping):
        raise BadInput(f"{name} must have {allowed} in braces, such as {name}:{{low:0.1,high:10}}, got {entry!r}")
    if unknown := [key for key in entry if key not in known]:
        raise BadInput(f"{name} has no {unknown[0]!r}; allowed: {allowed}")
    if missing := [key for key, needed in known.items() if needed and key not in entry]:
        raise BadInput(f"{name} needs {' and '.join(missing)}; allowed: {allowed}")
    return Parameter(name, **entry)


def main(argv: Sequence[str] | None = None) -> int:
    """Make what is missing of the runs, and print the best of each; returns the exit code."""
    argv = sys.argv[1:] if argv is None else argv
    if helped(__doc__ or "", "capped", argv):
        return 0
    from omegaconf import OmegaConf

    from harness.grid import make_evaluator

    cfg = compose_config("capped", argv)
    CensoredForest(RandomForest(), cfg.treatment)  # refuses an unknown treatment
    target = cfg.target_error
    settings: dict[str, Any] = {
        "slack": slack_factor(cfg.slack),
        "kappa_max_s": positive("kappa_max_s", cfg.kappa_max_s),
        "budget_s": positive("budget_s", cfg.budget_s),
        "target_error": None if target is None else number("target_error", target, "a number >= 0, or null", 0.0),
        "iterations": whole("iterations", cfg.iterations, 1),
        "n_initial": whole("n_initial", cfg.n_initial, 1),
        "treatment": str(cfg.treatment),
    }
    seeds = [whole("each of seeds", seed, 0) for seed in listed("seeds", cfg.seeds)]
    if not seeds:
        raise BadInput("seeds must be one or more, for example 'seeds=[0,1]', got []")
    results = writable("results_dir", folder("results_dir", cfg.results_dir)) / "capped"
    if cfg.command is not None:
        command, parameters = str(cfg.command), OmegaConf.to_container(cfg.parameters or OmegaConf.create())
        name, space = Path(command.strip().partition(" ")[0]).name or "program", space_of(parameters)
        what = {"command": command, "parameters": parameters}
        for seed in seeds:
            program = ProgramProblem(name, command, space, seed, settings["kappa_max_s"])
            _report(CappedRun(name, seed, settings, what), program, results)
        return 0
    evaluator = make_evaluator(cfg.evaluator)
    for dataset in chosen(cfg, "dataset").values():
        for pipeline in chosen(cfg, "pipeline").values():
            what = {
                "evaluator": OmegaConf.to_container(cfg.evaluator),
                "data": evaluator.fingerprint(dataset, pipeline),
            }
            for seed in seeds:
                problem = evaluator.open(dataset, pipeline, seed)
                _report(CappedRun(problem.name, seed, settings, what), problem, results)
    return 0


def _report(run: CappedRun, problem: Problem, results: Path) -> None:
    """Make a run, or what is missing of it, and print what it found."""
    own, path = run.settings, record_path(results / run.name, f"seed-{run.seed}", run.spec())
    common = {name: own[name] for name in ("kappa_max_s", "n_initial")}
    optimizer = CappedOptimizer(
        problem.space, slack=own["slack"], treatment=own["treatment"], seed=run.seed, name=run.name, **common
    )
    loop = {name: own[name] for name in ("budget_s", "iterations", "target_error")}
    rows = minimise(problem, optimizer, **common, **loop, path=path, spec=run.spec())
    counts = {status: sum(row["status"] == status for row in rows) for status in (SOLVED, STOPPED, UNSOLVED)}
    found = ", ".join(f"{n} {status}" for status, n in counts.items())
    print(f"{run.name} seed {run.seed}: {len(rows)} evaluations in {rows[-1]['spent_s']:.4g} s ({found}); {path}")
    if counts[SOLVED]:
        best = min((row for row in rows if row["status"] == SOLVED), key=lambda row: float(row["seconds"]))
        settings = " ".join(f"{name}={best[name]:.6g}" for name in problem.space.names)
        print(f"  best {best['seconds']:.4g} s at step {best['step']}: {settings}")


if __name__ == "__main__":
    run_cli(main)

"""Live evaluation: every evaluation of the optimizer trains XGBoost (`Live`); one training, timed (`train`).

`train` gives errors and cumulative cost at every requested number of boosting rounds: a training of r rounds contains
every shorter one, since its first k trees are the trees of a training of k rounds. Partial predictions give the errors,
and set-up plus cumulative round time gives the cost. `train_within` trains under limits on time and memory.
"""

import json
import math
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import xgboost as xgb
from jaxtyping import Float, Int

from harness.errors import BadInput, number, whole
from harness.execution.sandbox import CAPPED, DONE, HUNG, START_S, Child, Outcome, limit_cpu, limited_memory
from harness.problem import (
    FAILED,
    OK,
    OUT_OF_MEMORY,
    PREFIX_GRID,
    TIMEOUT,
    About,
    ContinuousProblem,
    Curve,
    Evaluation,
    Evaluator,
    Stop,
    cap,
)
from harness.space import XGBOOST_SPACE
from pipelines import prepare
from pipelines.prepared import Prepared

_PACE_EVERY_S = 0.2


class RoundTimer(xgb.callback.TrainingCallback):
    """Records CPU time of this thread and wall time after each round; stops past the CPU limit.

    With `pace` (how many times slower the machine is now than the reference machine), it is asked before, every
    fifth of a second within, and after the training, on time that is not counted; between two askings the
    slowdown is taken as their geometric mean.
    """

    def __init__(self, limit_s: float | None, pace: Callable[[], float] | None = None) -> None:
        self.limit_s, self.expired, self._pace = limit_s, False, pace
        self.cpu: list[float] = []
        self.wall: list[float] = []

    def begin(self) -> None:
        """Start counting."""
        self._knots, self._scaled = [0.0], [0.0]
        self._slow = self._pace() if self._pace else 1.0
        self._start = (time.thread_time(), time.perf_counter())

    def end(self) -> None:
        """Stop counting."""
        self.spent = self.now()
        self._close(*self.spent)

    def now(self) -> tuple[float, float]:
        """Return CPU and wall seconds counted so far."""
        return time.thread_time() - self._start[0], time.perf_counter() - self._start[1]

    def _close(self, cpu: float, wall: float) -> None:
        """End a segment of the training at `cpu`: its seconds at the reference machine's pace."""
        slow = self._pace() if self._pace else 1.0
        self._scaled.append(self._scaled[-1] + (cpu - self._knots[-1]) / np.sqrt(slow * self._slow))
        self._knots.append(cpu)
        self._slow = slow
        self._start = (time.thread_time() - cpu, time.perf_counter() - wall)

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Record a round (XGBoost calls this); True ends the training."""
        cpu, wall = self.now()
        self.cpu.append(cpu)
        self.wall.append(wall)
        self.expired = self.limit_s is not None and cpu > self.limit_s
        if self._pace and cpu - self._knots[-1] > _PACE_EVERY_S:
            self._close(cpu, wall)
        return self.expired

    def at(self, rounds: Int[np.ndarray, " k"]) -> dict[str, Any]:
        """Return the times of a `Training`: cumulative at `rounds`, and what was spent in all."""
        cpu, wall = np.array(self.cpu, dtype=np.float64), np.array(self.wall, dtype=np.float64)
        return {
            "cpu_s": cpu[rounds - 1],
            "wall_s": wall[rounds - 1],
            "scaled_s": np.interp(cpu[rounds - 1], self._knots, self._scaled),
            "spent_cpu_s": self.spent[0],
            "spent_wall_s": self.spent[1],
            "spent_scaled_s": float(self._scaled[-1]),
        }


TREE_METHODS = ("exact", "hist", "approx")
_SEED = 0  # one fixed seed: f(x) and c(x) are functions of x alone
_LOG_LOSS_FLOOR = 1e-15


@dataclass(frozen=True)
class Training:
    """Outcome of one training at k numbers of rounds, ascending; the last is the longest that finished.

    Errors are misclassification rates or RMSE; losses are log-loss or RMSE. `cpu_s`, `wall_s` and `scaled_s` (CPU
    seconds at the reference machine's pace; `cpu_s` where no pace was asked for) are cumulative seconds: set-up
    plus rounds. Those `spent` are the whole training's, also when it failed or ran out of time (status), in
    which case k may be 0.
    """

    rounds: Int[np.ndarray, " k"]
    val_error: Float[np.ndarray, " k"]
    test_error: Float[np.ndarray, " k"]
    val_loss: Float[np.ndarray, " k"]
    test_loss: Float[np.ndarray, " k"]
    cpu_s: Float[np.ndarray, " k"]
    wall_s: Float[np.ndarray, " k"]
    scaled_s: Float[np.ndarray, " k"]
    status: str
    note: str
    spent_cpu_s: float
    spent_wall_s: float
    spent_scaled_s: float


def train(
    data: Prepared,
    x: Float[np.ndarray, " d"],
    prefixes: Sequence[int] = PREFIX_GRID,
    tree_method: str = "exact",
    time_limit_s: float | None = None,
    pace: Callable[[], float] | None = None,
    fitted: Callable[[], None] = lambda: None,
) -> Training:
    """Train XGBoost with the native hyperparameters `x` (order of XGBOOST_SPACE) on one thread.

    Errors are measured at `x`'s own number of rounds and at each of `prefixes` below it. The limit, in CPU
    seconds, is checked after every round; what was finished before it counts. Failures and time-outs come
    back as a status, never as an exception. fitted: called between the last round and scoring.
    """
    model, clock, status, note = _fit(data, x, tree_method, time_limit_s, pace)
    fitted()
    done = len(clock.cpu) if status in (OK, TIMEOUT) else 0
    rounds = np.array(sorted({r for r in (*prefixes, int(x[0])) if r <= done}), dtype=np.int64)
    scores = np.array([_scores(model, data, int(r)) for r in rounds]).reshape(len(rounds), 4)
    return Training(
        rounds=rounds,
        val_error=scores[:, 0],
        test_error=scores[:, 1],
        val_loss=scores[:, 2],
        test_loss=scores[:, 3],
        **clock.at(rounds),
        status=status,
        note=note,
    )


def retime(
    data: Prepared,
    x: Float[np.ndarray, " d"],
    like: Training,
    tree_method: str = "exact",
    pace: Callable[[], float] | None = None,
) -> Training:
    """Train `x` once more and return `like` with the new times; errors do not change, so none are measured.

    Raises RuntimeError if the training fails this time.
    """
    _, clock, status, note = _fit(data, x, tree_method, None, pace)
    if status != OK:
        raise RuntimeError(f"a training that succeeded before is now {status}: {note}")
    return replace(like, **clock.at(like.rounds))


def _fit(
    data: Prepared, x: Float[np.ndarray, " d"], tree_method: str, limit_s: float | None, pace: Any
) -> tuple[Any, RoundTimer, str, str]:
    """Return the fitted model, its clock, and the status with a note."""
    model = make_model(data, x, tree_method)
    clock = RoundTimer(limit_s, pace)
    model.set_params(callbacks=[clock])
    status, note = OK, ""
    try:
        clock.begin()
        model.fit(data.X_train, data.y_train)
    except (xgb.core.XGBoostError, MemoryError, ValueError) as error:
        status, note = _failure(error)
    clock.end()
    total = int(model.n_estimators)
    if status == OK and clock.expired and len(clock.cpu) < total:
        status, note = TIMEOUT, f"stopped after {len(clock.cpu)} of {total} rounds, limit {limit_s:g} s"
    return model, clock, status, note


def make_model(data: Prepared, x: Float[np.ndarray, " d"], tree_method: str) -> Any:
    """Return the unfitted scikit-learn estimator of the native hyperparameters `x`."""
    if tree_method not in TREE_METHODS:
        raise ValueError(f"tree_method must be one of {', '.join(TREE_METHODS)}, got {tree_method!r}")
    kind = xgb.XGBRegressor if data.task == "regression" else xgb.XGBClassifier
    return kind(**parameters(x, tree_method), verbosity=0)


def parameters(x: Float[np.ndarray, " d"], tree_method: str) -> dict[str, Any]:
    """Return the estimator's arguments for the native hyperparameters `x`, the fixed ones included."""
    native = dict(zip(XGBOOST_SPACE.names, (float(v) for v in x), strict=True))
    whole = {p.name: int(native[p.name]) for p in XGBOOST_SPACE.parameters if p.integer}
    return {**native, **whole, "tree_method": tree_method, "n_jobs": 1, "random_state": _SEED}


def model_line(task: str, x: Float[np.ndarray, " d"], tree_method: str) -> str:
    """Return the line of Python that makes this estimator, ``XGBRegressor(n_estimators=87, ...)``.

    Values are the shortest that name the same float32, which is all that XGBoost keeps.
    """
    short = np.array([float(str(np.float32(v))) for v in x])
    given = ", ".join(f"{name}={value!r}" for name, value in parameters(short, tree_method).items())
    return f"XGB{'Regressor' if task == 'regression' else 'Classifier'}({given})"


def _failure(error: Exception) -> tuple[str, str]:
    text = " ".join(str(error).split())
    memory = isinstance(error, MemoryError) or "bad_alloc" in text or "out of memory" in text.lower()
    return (OUT_OF_MEMORY if memory else FAILED), text[:200]


def _scores(model: Any, data: Prepared, rounds: int) -> tuple[float, float, float, float]:
    """Return (validation error, test error, validation loss, test loss) of the first `rounds` rounds."""
    pairs = [
        _error_and_loss(model, features, labels, data.task, rounds)
        for features, labels in ((data.X_valid, data.y_valid), (data.X_test, data.y_test))
    ]
    return pairs[0][0], pairs[1][0], pairs[0][1], pairs[1][1]


def _error_and_loss(model: Any, features: Any, y: np.ndarray, task: str, rounds: int) -> tuple[float, float]:
    if task == "regression":
        residual = model.predict(features, iteration_range=(0, rounds)).astype(np.float64) - y
        rmse = float(np.sqrt(np.mean(residual**2)))
        return rmse, rmse
    p = model.predict_proba(features, iteration_range=(0, rounds)).astype(np.float64)
    likelihood = np.clip(p[np.arange(len(y)), y], _LOG_LOSS_FLOOR, 1.0)
    return float(np.mean(p.argmax(axis=1) != y)), float(-np.mean(np.log(likelihood)))


# Trainings in a child process, under limits that hold, since the system itself ends what exceeds them.
#
# CPU seconds: checked after every round by the training; the kernel ends the child in a round that does not end.
# Memory: what the child holds with the data loaded, plus the limit; XGBoost then fails, or the child dies. Wall
# seconds: a child that neither answers nor works is ended. One child is kept, since loading the data takes longer than
# most trainings do, and a limit on memory beyond the data needs a process that holds them.

_BEYOND_S = 2  # CPU seconds beyond the limit, which is the rounds', before the system steps in
_SCORING, _SCORING_S = 20.0, 60.0  # so many times the limit, and so many seconds, for what follows the rounds
_SLACK = 20.0  # wall seconds per CPU second before a child counts as hung


@dataclass(frozen=True)
class Limits:
    """What one training may take: CPU seconds, and MB of memory beyond the data's; None: no limit."""

    seconds: float | None = None
    memory_mb: float | None = None


_child = Child(quiet=True)
_loaded: tuple[int | None, Prepared | None] = None, None  # the child's id, and what it holds
_data: Prepared  # in the child


def train_within(
    data: Prepared, x: Float[np.ndarray, " d"], tree_method: str, limits: Limits, prefixes: Sequence[int] = ()
) -> Training:
    """Train in this process's child, which is started when it is first needed and ends with this process.

    Never raises for what a training does: past a limit, or if the child dies, the training has that status, no rounds.
    """
    global _loaded
    outcome = None
    if _child.pid is None or _loaded[0] != _child.pid or _loaded[1] is not data:
        outcome = _child.ask(_load, data, wall_s=START_S)
        _loaded = _child.pid, data
    if outcome is None or outcome.status == DONE:
        wall_s = None if limits.seconds is None else START_S + _SLACK * limits.seconds
        outcome = _child.ask(_train, x, tree_method, limits, prefixes, wall_s=wall_s)
    if outcome.status == DONE:
        result: Training = outcome.value
        return result
    return _without_rounds(_status(outcome, limits), outcome, limits)


def _load(data: Prepared) -> None:
    global _data
    _data = data


def _train(x: Float[np.ndarray, " d"], tree_method: str, limits: Limits, prefixes: Sequence[int]) -> Training:
    """Train on the data that this process holds; raises MemoryError where scoring runs out of memory."""
    seconds = limits.seconds

    def scoring() -> None:
        limit_cpu(None if seconds is None else _SCORING * seconds + _SCORING_S)

    limit_cpu(None if seconds is None else seconds + _BEYOND_S)
    try:
        with limited_memory(limits.memory_mb):
            return train(_data, x, prefixes, tree_method, seconds, fitted=scoring)
    finally:
        limit_cpu(None)


def _status(outcome: Outcome, limits: Limits) -> str:
    """Return the status of a training that has no result; the system kills, or a library aborts, for want of memory."""
    if outcome.status in (CAPPED, HUNG):
        return TIMEOUT
    aborted = outcome.code == -signal.SIGABRT and limits.memory_mb is not None
    memory = isinstance(outcome.value, MemoryError) or outcome.code == -signal.SIGKILL or aborted
    return OUT_OF_MEMORY if memory else FAILED


def _without_rounds(status: str, outcome: Outcome, limits: Limits) -> Training:
    spent_s = max(outcome.cpu_s, limits.seconds or 0.0) if status == TIMEOUT else outcome.cpu_s
    names = ("val_error", "test_error", "val_loss", "test_loss", "cpu_s", "wall_s", "scaled_s")
    return Training(
        rounds=np.empty(0, np.int64), **dict.fromkeys(names, np.empty(0)), status=status,
        note=f"the training process {outcome.note}", spent_cpu_s=spent_s, spent_wall_s=outcome.wall_s,
        spent_scaled_s=spent_s,
    )  # fmt: skip


# The problems of live runs, and their evaluator.


class LiveProblem(ContinuousProblem):
    """One problem for one run: a training at each evaluation.

    pace: as for `train`: costs are then at the reference machine's pace. Without limits only.
    """

    rounds = "n_estimators"

    def __init__(
        self,
        data: Prepared,
        seed: int,
        n_candidates: int,
        tree_method: str,
        time_limit_s: float | None,
        memory_limit_mb: float | None = None,
        pace: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(f"{data.dataset}/{data.pipeline}", seed, n_candidates)
        rows, columns = data.X_train.shape
        self.about = About(data.dataset, data.pipeline, data.task, rows, columns, data.n_classes)
        self._data, self._tree_method, self._limits = data, tree_method, Limits(time_limit_s, memory_limit_mb)
        self._pace = pace

    def measure(self, x: Float[np.ndarray, " d"]) -> Evaluation:
        """Train with the native hyperparameters `x`; in a child process where there are limits to hold."""
        return self._measure(x, self._limits)

    def evaluate_capped(self, candidate: int, cap_s: float) -> Evaluation:
        """Train in a child process that the kernel ends soon after `cap_s` CPU seconds, even within a round."""
        seconds = min(cap(cap_s), math.inf if self._limits.seconds is None else self._limits.seconds)
        limits = replace(self._limits, seconds=seconds if seconds < math.inf else None)
        found = self._measure(self.native(candidate), limits)
        if found.status == OK and found.cost_s > cap_s:  # its last round went past the cap
            return replace(found, error=math.nan, test_error=math.nan, status=TIMEOUT)
        return found

    def evaluate_with_curve(self, candidate: int, stop: Stop | None = None) -> Evaluation:
        """Train, and score the model after each number of rounds of PREFIX_GRID too; raises ValueError for `stop`."""
        if stop is not None:
            raise ValueError(f"{self.name}: live trainings are not stopped")
        return self._measure(self.native(candidate), self._limits, PREFIX_GRID)

    def _measure(self, x: Float[np.ndarray, " d"], limits: Limits, prefixes: Sequence[int] = ()) -> Evaluation:
        if self._pace is not None and limits != Limits():
            raise BadInput("trainings at the reference machine's pace take no limits, which are in seconds of this one")
        if limits == Limits():
            result = train(self._data, x, prefixes, self._tree_method, pace=self._pace)
        else:
            result = train_within(self._data, x, self._tree_method, limits, prefixes)
        good = result.status == OK
        columns = (result.rounds, result.val_error, result.test_error, result.scaled_s)
        return Evaluation(
            error=float(result.val_error[-1]) if good else float("nan"),
            cost_s=float(result.scaled_s[-1]) if good else result.spent_scaled_s,
            test_error=float(result.test_error[-1]) if good else float("nan"),
            wall_s=float(result.wall_s[-1]) if good else result.spent_wall_s,
            status=result.status,
            curve=Curve(*(tuple(column.tolist()) for column in columns)) if good and prefixes else None,
        )


@dataclass(frozen=True)
class Live(Evaluator):
    """The evaluator `live`: opens problems that train.

    n_candidates: points offered per step; time_limit_s: CPU seconds a training may take, memory_limit_mb: megabytes it
    may take besides the data, null for no limit. With a limit, trainings run in a child process
    (`train_within`).
    """

    n_candidates: int = 4096
    tree_method: str = "exact"
    time_limit_s: float | None = None
    memory_limit_mb: float | None = None
    split_seed: int = 0
    seeds_per_block: int = 1  # so that workers can share a method's seeds
    checkpointed: ClassVar[bool] = True  # evaluations are kept as they are made (`harness.results_dir`)

    def __post_init__(self) -> None:
        if self.tree_method not in TREE_METHODS:
            allowed = ", ".join(TREE_METHODS)
            raise BadInput(f"evaluator.tree_method must be one of {allowed}, got {self.tree_method!r}")
        whole("evaluator.n_candidates", self.n_candidates, 1)
        for name, unit in (("time_limit_s", "seconds"), ("memory_limit_mb", "megabytes")):
            if getattr(self, name) is not None:
                number(f"evaluator.{name}", getattr(self, name), f"{unit} > 0 or null", math.ulp(0.0))

    def fingerprint(self, dataset: Mapping[str, Any], pipeline: Mapping[str, Any]) -> str:
        """Return the hash of the matrices that will be trained on; raises BadInput if data are missing."""
        return self.data(dataset, pipeline).data_hash

    def open(self, dataset: Mapping[str, Any], pipeline: Mapping[str, Any], seed: int) -> LiveProblem:
        """Return the problem of one run."""
        data = self.data(dataset, pipeline)
        return LiveProblem(data, seed, self.n_candidates, self.tree_method, self.time_limit_s, self.memory_limit_mb)

    def data(self, dataset: Mapping[str, Any], pipeline: Mapping[str, Any]) -> Prepared:
        """Return what XGBoost trains on and is scored on."""
        config = json.dumps(dict(dataset), sort_keys=True)
        return _prepared(config, str(pipeline["name"]), self.split_seed, _stamp(dataset.get("path")))


def _stamp(path: object) -> tuple[object, ...]:
    """Return what tells one content of a user's file from the next, and one folder's file from another's."""
    file = Path(str(path)).absolute()
    if path is None or not file.is_file():
        return ()
    seen = file.stat()
    return file, seen.st_mtime_ns, seen.st_size


@lru_cache(maxsize=2)
def _prepared(dataset_config: str, pipeline: str, split_seed: int, stamp: tuple[object, ...]) -> Prepared:
    """Prepare a problem once per process; a data set of the catalogue by its name, so that the cache knows it."""
    config = json.loads(dataset_config)
    if config["_target_"] == "datasets.load":
        return prepare(config["name"], pipeline, split_seed)
    from hydra.utils import instantiate

    return prepare(instantiate(config), pipeline, split_seed, cache=False)

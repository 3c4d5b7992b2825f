"""Trainings of XGBoost, timed: whole (`train`), under limits (`train_within`), or stopped and continued
(`Interruptible`).

`train` gives errors and cumulative cost at every requested number of boosting rounds: a training of r rounds contains
every shorter one, since its first k trees are the trees of a training of k rounds. Partial predictions give the errors,
and set-up plus cumulative round time gives the cost. `train_within` trains under limits on time and memory.
"""

import hashlib
import math
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import xgboost as xgb
from jaxtyping import Float, Int

from harness.execution.sandbox import CAPPED, DONE, HUNG, START_S, Child, Outcome, limit_cpu, limited_memory
from harness.problem import FAILED, OK, OUT_OF_MEMORY, PREFIX_GRID, TIMEOUT, Curve, Evaluation, Stop
from harness.space import XGBOOST_SPACE
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

    @contextmanager
    def standing_still(self) -> Iterator[tuple[float, float]]:
        """Count nothing within this context; yields the seconds so far: at the reference pace, and by the wall."""
        cpu, wall = self.now()
        self._close(cpu, wall)
        yield self._scaled[-1], wall
        self._start = (time.thread_time() - cpu, time.perf_counter() - wall)

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


_PER_ROUND = {"seed_per_iteration": True}  # random numbers that do not depend on where a training stopped


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


def model_line(task: str, x: Float[np.ndarray, " d"], tree_method: str, continued: bool = False) -> str:
    """Return the line of Python that makes this estimator, ``XGBRegressor(n_estimators=87, ...)``.

    Values are the shortest that name the same float32, which is all that XGBoost keeps. continued: as `Interruptible`
    trains it, whose random numbers do not depend on where it stopped.
    """
    short = np.array([float(str(np.float32(v))) for v in x])
    every = parameters(short, tree_method) | (_PER_ROUND if continued else {})
    given = ", ".join(f"{name}={value!r}" for name, value in every.items())
    return f"XGB{'Regressor' if task == 'regression' else 'Classifier'}({given})"


def _failure(error: Exception) -> tuple[str, str]:
    text = " ".join(str(error).split())
    memory = isinstance(error, MemoryError) or "bad_alloc" in text or "out of memory" in text.lower()
    return (OUT_OF_MEMORY if memory else FAILED), text[:200]


Predict = Callable[[Any, int], np.ndarray]  # features, rounds -> values, or (n, classes) probabilities


def _scores(model: Any, data: Prepared, rounds: int) -> tuple[float, float, float, float]:
    """Return (validation error, test error, validation loss, test loss) of the first `rounds` rounds."""
    name = "predict" if data.task == "regression" else "predict_proba"

    def predict(features: Any, rounds: int) -> np.ndarray:
        return np.asarray(getattr(model, name)(features, iteration_range=(0, rounds)))

    return _scores_of(predict, data, rounds)


def _scores_of(predict: Predict, data: Prepared, rounds: int) -> tuple[float, float, float, float]:
    pairs = [
        _error_and_loss(predict(features, rounds).astype(np.float64), labels, data.task)
        for features, labels in ((data.X_valid, data.y_valid), (data.X_test, data.y_test))
    ]
    return pairs[0][0], pairs[1][0], pairs[0][1], pairs[1][1]


def _error_and_loss(predicted: np.ndarray, y: np.ndarray, task: str) -> tuple[float, float]:
    if task == "regression":
        rmse = float(np.sqrt(np.mean((predicted - y) ** 2)))
        return rmse, rmse
    likelihood = np.clip(predicted[np.arange(len(y)), y], _LOG_LOSS_FLOOR, 1.0)
    return float(np.mean(predicted.argmax(axis=1) != y)), float(-np.mean(np.log(likelihood)))


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
        _loaded = (_child.pid, data) if outcome.status == DONE else (None, None)
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


# Trainings that stop and go on.
#
# A round draws its rows from (seed, round), XGBoost's `seed_per_iteration`, not from one stream for all rounds: so the
# trees are those of a training in one piece, wherever it stopped and whatever was trained between. They differ from
# those of `train` as another seed's do. Continued from a file, this holds for tree_method=exact only.

_AXIS = XGBOOST_SPACE.names.index("n_estimators")


class Interruptible:
    """The trainings of one problem, each of which may stop after a round and go on later from where it ended.

    pace: as for `train`. Models wait in a temporary folder, which goes with this object.
    """

    def __init__(self, data: Prepared, pace: Callable[[], float] | None = None) -> None:
        self._data, self._pace = data, pace
        self._matrix: Any = None
        self._shown: dict[bytes, tuple[Float[np.ndarray, " d"], Curve, float]] = {}
        self._models = tempfile.TemporaryDirectory(prefix="trainings-", ignore_cleanup_errors=True)

    def recall(self, x: Float[np.ndarray, " d"], curve: Curve, wall_s: float) -> None:
        """Take note of a training that an earlier process made so far; wall_s: of its last part."""
        _, _, before_s = self._shown.get(_key(x), (x, curve, 0.0))
        self._shown[_key(x)] = x, curve, before_s + wall_s

    def longer(self) -> Float[np.ndarray, "m d"]:
        """Return what may go on: the native hyperparameters of each training so far with more rounds of PREFIX_GRID."""
        rows = [
            np.concatenate([x[:_AXIS], [rounds], x[_AXIS + 1 :]])
            for x, curve, _ in self._shown.values()
            for rounds in PREFIX_GRID
            if rounds > curve.rounds[-1]
        ]
        return np.array(rows).reshape(-1, len(XGBOOST_SPACE))

    def run(self, x: Float[np.ndarray, " d"], stop: Stop) -> Evaluation:
        """Train with the native hyperparameters `x`, from where a shorter training ended if there is one.

        stop: asked after each of PREFIX_GRID's rounds that is new, before the last. The evaluation is of the last round
        trained, its cost what was added. Failures come back as a status, never as an exception; what was trained before
        stays.
        """
        key, last = _key(x), int(x[_AXIS])
        _, curve, before_wall_s = self._shown.get(key, (x, Curve((), (), (), ()), 0.0))
        before, before_s = (curve.rounds[-1], curve.cost_s[-1]) if curve.rounds else (0, 0.0)
        if last <= before:
            raise ValueError(f"{before} rounds are trained already, {last} are asked for")
        clock = RoundTimer(None, self._pace)
        booster = self._retrained(x, before) if before and not self._file(key).exists() else None
        status = OK
        clock.begin()
        try:
            if booster is None:
                booster = self._load(x, key) if before else self._begin(x)
            done = before
            for rounds in sorted({r for r in (*PREFIX_GRID, last) if before < r <= last}):
                for i in range(done, rounds):
                    booster.update(self._matrix, i)
                    clock.after_iteration(None, i, None)
                done = rounds
                with clock.standing_still() as (spent_s, wall_s):
                    curve = self._after(curve, booster, rounds, before_s + spent_s)
                    stops = rounds < last and stop(curve)
                if stops:
                    break
        except (xgb.core.XGBoostError, MemoryError) as error:
            status, _ = _failure(error)
        clock.end()
        if status != OK:
            nan, spent_s = math.nan, clock.at(np.empty(0, np.int64))["spent_scaled_s"]
            return Evaluation(nan, spent_s, nan, clock.spent[1], status)
        assert booster is not None
        booster.save_model(self._file(key))
        self._shown[key] = x, curve, before_wall_s + wall_s
        return Evaluation(curve.error[-1], spent_s, curve.test_error[-1], wall_s, curve=curve)

    def _after(self, curve: Curve, booster: Any, rounds: int, cost_s: float) -> Curve:
        """Return the curve with one more point."""

        def predict(features: Any, n: int) -> np.ndarray:
            found = np.asarray(booster.inplace_predict(features, iteration_range=(0, n)))
            return (
                np.stack([1 - found, found], axis=1) if self._data.task != "regression" and found.ndim == 1 else found
            )

        error, test_error, *_ = _scores_of(predict, self._data, rounds)
        return Curve(
            (*curve.rounds, rounds), (*curve.error, error), (*curve.test_error, test_error), (*curve.cost_s, cost_s)
        )

    def _begin(self, x: Float[np.ndarray, " d"]) -> Any:
        """Return a model without rounds; setting up the data costs each training, as it does when `train` trains it."""
        self._matrix = xgb.DMatrix(self._data.X_train, self._data.y_train, nthread=1)
        return xgb.Booster(self._parameters(x), [self._matrix])

    def _load(self, x: Float[np.ndarray, " d"], key: bytes) -> Any:
        return xgb.Booster(self._parameters(x), [self._matrix], model_file=str(self._file(key)))

    def _retrained(self, x: Float[np.ndarray, " d"], rounds: int) -> Any:
        """Return the model that an earlier process had, trained again; nobody pays for that twice."""
        booster = self._begin(x)
        for i in range(rounds):
            booster.update(self._matrix, i)
        return booster

    def _parameters(self, x: Float[np.ndarray, " d"]) -> dict[str, Any]:
        data = self._data
        if data.task == "regression":
            objective: dict[str, Any] = {"objective": "reg:squarederror"}
        elif data.n_classes == 2:
            objective = {"objective": "binary:logistic"}
        else:
            objective = {"objective": "multi:softprob", "num_class": data.n_classes}
        given = parameters(x, "exact") | objective | _PER_ROUND | {"verbosity": 0}
        return {name: value for name, value in given.items() if name != "n_estimators"}

    def _file(self, key: bytes) -> Path:
        return Path(self._models.name) / f"{hashlib.sha256(key).hexdigest()[:32]}.ubj"


def _key(x: Float[np.ndarray, " d"]) -> bytes:
    """Return what the trainings of one configuration share: all but the number of rounds."""
    return np.delete(x, _AXIS).tobytes()

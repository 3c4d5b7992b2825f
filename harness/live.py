"""Live evaluation: every evaluation of the optimizer trains XGBoost (`harness.training`)."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from harness.errors import BadInput, number, one_of, whole
from harness.problem import (
    OK,
    PREFIX_GRID,
    TIMEOUT,
    About,
    Candidates,
    ContinuousProblem,
    Curve,
    Evaluation,
    Evaluator,
    Stop,
    cap,
)
from harness.training import TREE_METHODS, Interruptible, Limits, train, train_within
from pipelines import prepare
from pipelines.prepared import Prepared


class LiveProblem(ContinuousProblem):
    """One problem for one run: a training at each evaluation.

    pace: as for `train`: costs are then at the reference machine's pace. Without limits only. Without them, and with
    tree_method=exact, trainings stop and go on where that is asked for; from the first on those so far are on offer
    with more rounds, besides each step's own points.
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
        self.stoppable = self._limits == Limits() and tree_method == "exact"
        self._trainings: Interruptible | None = None

    def candidates(self, step: int) -> Candidates:
        """Return the Sobol set of this step, and what trainings may go on."""
        offered = super().candidates(step)
        if self._trainings is None:
            return offered
        more = self._trainings.longer()
        self._native = np.concatenate([self._native, more])
        ids = self._first + np.arange(len(self._native))
        return Candidates(ids, np.concatenate([offered.unit, self.space.to_unit(more)]))

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
        """Train, and score the model after each number of rounds of PREFIX_GRID too (`Interruptible` with `stop`).

        Raises ValueError for `stop` where trainings do not stop.
        """
        if stop is None:
            return self._measure(self.native(candidate), self._limits, PREFIX_GRID)
        return self._interruptible().run(self.native(candidate), stop)

    def recall(self, candidate: int, outcome: Evaluation) -> None:
        """Take note of a training that stops or goes on, made by an earlier process."""
        trainings = self._interruptible()
        if outcome.curve is not None:
            trainings.recall(self.native(candidate), outcome.curve, outcome.wall_s)

    def _interruptible(self) -> Interruptible:
        if not self.stoppable:
            raise ValueError(f"{self.name}: trainings under limits, or other than exact, are not stopped")
        if self._trainings is None:
            self._trainings = Interruptible(self._data, self._pace)
        return self._trainings

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
        one_of("evaluator.tree_method", self.tree_method, TREE_METHODS)
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
    file = Path(str(path)).expanduser().absolute()
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

"""Measuring one training for a table: what a worker process does."""

import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from typing import Any

import numpy as np

from harness.problem import OK
from harness.space import XGBOOST_SPACE
from harness.training import PREFIX_GRID, Training, retime, train
from pipelines import prepare
from pipelines.prepared import Prepared
from tabular_cache.reference import pace
from tabular_cache.schema import METRICS, MOST_CONFIGS, SOBOL_SEED

MEASURED = "of the matrices that were trained on"  # how an identity is known; `audit.identify` has other ways
QUICK_S = 0.05  # trainings shorter than this are timed three times
_TIMES = 3


@dataclass(frozen=True)
class Measurement:
    """One training to do: a problem and an index of the Sobol sequence.

    purpose: "new"; "again" for one that was disturbed; "noise" to see how much its cost varies. rounds: fewer boosting
    rounds than the configuration's own, None for these.
    """

    dataset: str
    pipeline: str
    config: int
    tree_method: str = "exact"
    time_limit_s: float | None = None
    split_seed: int = 0
    purpose: str = "new"
    rounds: int | None = None

    @property
    def problem(self) -> str:
        """The problem's name."""
        return f"{self.dataset}/{self.pipeline}"


@lru_cache(maxsize=1)
def _configurations() -> np.ndarray:
    return XGBOOST_SPACE.from_unit(XGBOOST_SPACE.sobol(MOST_CONFIGS, SOBOL_SEED))


def configuration(index: int) -> np.ndarray:
    """Return the native hyperparameters of one configuration of the shared Sobol sequence."""
    return np.asarray(_configurations()[index])


@lru_cache(maxsize=3)
def prepared(dataset: str, pipeline: str, split_seed: int) -> Prepared:
    """Return a prepared problem, the last few being remembered."""
    return prepare(dataset, pipeline, split_seed)


def measure(task: Measurement) -> dict[str, Any]:
    """Train one configuration and return its journal line: plain numbers, lists over the prefixes."""
    data = prepared(task.dataset, task.pipeline, task.split_seed)
    load, started, core = os.getloadavg()[0], time.time(), time.process_time()
    x = configuration(task.config)
    result = trained(data, x, task.tree_method, task.time_limit_s)
    return {
        "config": task.config,
        "purpose": task.purpose,
        "load": round(load, 2),
        "started": started,
        "ended": time.time(),
        "core_s": round(time.process_time() - core, 4),
        "status": result.status,
        "note": result.note,
        "spent_cpu_s": result.spent_cpu_s,
        "spent_wall_s": result.spent_wall_s,
        "spent_scaled_s": result.spent_scaled_s,
        "rounds": result.rounds.tolist(),
        **{name: getattr(result, name).tolist() for name in METRICS},
        "problem": describe(data),
    }


def trained(
    data: Prepared,
    x: np.ndarray,
    tree_method: str,
    time_limit_s: float | None = None,
    prefixes: Sequence[int] = PREFIX_GRID,
) -> Training:
    """Train as tables are measured: at the reference machine's pace, a short training being timed three times."""
    result = train(data, x, prefixes, tree_method, time_limit_s, pace)
    quick = result.status == OK and result.spent_cpu_s < QUICK_S
    return _steadied(result, data, x, tree_method) if quick else result


def _steadied(first: Training, data: Prepared, x: np.ndarray, tree_method: str) -> Training:
    """Return a short training with the medians of three timings."""
    timed = [first, *(retime(data, x, first, tree_method, pace) for _ in range(_TIMES - 1))]
    names = ("cpu_s", "wall_s", "scaled_s", "spent_cpu_s", "spent_wall_s", "spent_scaled_s")
    times: dict[str, Any] = {}
    for name in names:
        median = np.median([getattr(t, name) for t in timed], axis=0)
        times[name] = median if median.ndim else float(median)
    return replace(first, **times)


def describe(data: Prepared) -> dict[str, Any]:
    """Return what the manifest says of a problem's data."""
    return {
        **data.description(),
        "identity_confirmed": MEASURED,
        "task": data.task,
        "n_classes": data.n_classes,
        "mark": data.mark,
        "n_train": int(data.X_train.shape[0]),
        "n_valid": int(data.X_valid.shape[0]),
        "n_test": int(data.X_test.shape[0]),
        "width_before": data.width_before,
        "width_after": data.width_after,
        "pipeline_fit_s": round(data.fit_seconds, 4),
    }


def retrain(task: Measurement) -> tuple[Training, dict[str, Any]]:
    """Train one configuration again, for an audit; also return hash and identity of the data it saw."""
    data, x = prepared(task.dataset, task.pipeline, task.split_seed), configuration(task.config).copy()
    x[0] = x[0] if task.rounds is None else task.rounds
    return trained(data, x, task.tree_method), data.description()


def machine() -> dict[str, Any]:
    """Return what a cost depends on: processor, threads, versions of the libraries that train."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "threads_per_training": 1,
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("xgboost-cpu", "scikit-learn", "numpy", "scipy", "pandas")},
    }


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo") as lines:  # noqa: PTH123
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"

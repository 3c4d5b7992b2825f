"""Measuring one training for a table; the machine's pace, which makes costs comparable; and its load.

A machine's speed changes: by tens of percent between machines of one kind, and on shared hosts by up to a factor
of two within seconds, in CPU time too, since neighbours share its caches and its memory. So a short fixed workload,
the *probe*, is timed before, within and after each training, and a training's CPU seconds are divided by the
slowdown that it shows: these are its `scaled_s`, seconds on the reference machine at rest. How well that works is
measured by trainings repeated on several days (`tabular_cache.noise`), and by the *reference training*, one fixed
training timed every ten minutes: its own scaled seconds should never change.
"""

import os
import platform
import sys
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from harness.problem import OK, PREFIX_GRID
from harness.streams import stream
from harness.training import Training, retime, train
from pipelines import prepare
from pipelines.prepared import Prepared
from tabular_cache.schema import METRICS, NEW, configuration, problem_name

MEASURED = "of the matrices that were trained on"  # how an identity is known; for some tables otherwise, see the README
QUICK_S = 0.05  # trainings shorter than this are timed three times
_TIMES = 3


@dataclass(frozen=True)
class Measurement:
    """One training to do: a problem and an index of the Sobol sequence.

    purpose: NEW, AGAIN or NOISE, see `schema`. rounds: fewer boosting rounds than the configuration's own, None for
    these.
    """

    dataset: str
    pipeline: str
    config: int
    tree_method: str = "exact"
    time_limit_s: float | None = None
    purpose: str = NEW
    rounds: int | None = None

    @property
    def problem(self) -> str:
        """The problem's name."""
        return problem_name(self.dataset, self.pipeline)

    def __str__(self) -> str:
        return f"{self.problem} #{self.config}"


@lru_cache(maxsize=3)
def prepared(dataset: str, pipeline: str, split_seed: int = 0) -> Prepared:
    """Return a prepared problem, the last few being remembered."""
    return prepare(dataset, pipeline, split_seed)


def measure(task: Measurement) -> dict[str, Any]:
    """Train one configuration and return its journal line: plain numbers, lists over the prefixes."""
    data = prepared(task.dataset, task.pipeline)
    load, started, core = os.getloadavg()[0], time.time(), time.process_time()
    result = trained(data, configuration(task.config), task.tree_method, task.time_limit_s)
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
    """Train as tables are measured: at the reference machine's pace.

    A short training has the medians of three timings.
    """
    first = train(data, x, prefixes, tree_method, time_limit_s, pace)
    if first.status != OK or first.spent_cpu_s >= QUICK_S:
        return first
    timed = [first, *(retime(data, x, first, tree_method, pace) for _ in range(_TIMES - 1))]
    times: dict[str, Any] = {}
    for name in ("cpu_s", "wall_s", "scaled_s", "spent_cpu_s", "spent_wall_s", "spent_scaled_s"):
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
    data, x = prepared(task.dataset, task.pipeline), configuration(task.config).copy()
    x[0] = x[0] if task.rounds is None else task.rounds
    return trained(data, x, task.tree_method), data.description()


def machine() -> dict[str, Any]:
    """Return what a cost depends on: processor, pace, threads, versions of the libraries that train.

    `levelled_to_s`: that costs are scaled by `level` too, to so many seconds of the reference training. Measurements
    without it are scaled by the probe alone.
    """
    return {
        "cpu": _cpu_model(),
        "levelled_to_s": REFERENCE_S,
        "cores": os.cpu_count(),
        "threads_per_training": 1,
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("xgboost-cpu", "scikit-learn", "numpy", "scipy", "pandas")},
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


# The pace of the machine: the probe, and the reference training.

PROBE_S = 0.0067  # CPU seconds of the probe on the reference machine (Xeon 2.5 GHz, family 6 model 85) at rest
REFERENCE_S = 0.666  # scaled seconds of the reference training by the probe alone: median of 495 timings for tables
_ROWS, _COLUMNS, _PASSES = 4000, 12, 6
_CONFIGURATION = np.array([40, 0.1, 0.0, 1e-3, 1.0, 0.8, 8])  # order of XGBOOST_SPACE


@lru_cache(maxsize=1)
def _workload() -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    rng = stream(0, "probe")
    orders = [rng.permutation(_ROWS).astype(np.int32) for _ in range(_COLUMNS)]
    return orders, rng.normal(size=_ROWS), np.ones(_ROWS)


def probe() -> float:
    """Return the CPU seconds of the probe: gather gradients in the order of a feature, scan the gains of its splits.

    That is what the exact tree method does most of its time, without touching XGBoost (its random state is one
    per thread, so a training within a training would change the outer one).
    """
    orders, gradient, hessian = _workload()
    start, best = time.thread_time(), 0.0
    for _ in range(_PASSES):
        for order in orders:
            g, h = np.cumsum(gradient[order]), np.cumsum(hessian[order])
            gain = g * g / (h + 1.0) + (g[-1] - g) ** 2 / (h[-1] - h + 1.0)
            best = max(best, float(gain.max()))
    return time.thread_time() - start


def _probed() -> float:
    return probe() / PROBE_S


@lru_cache(maxsize=1)
def level() -> float:
    """Return how many times slower than the probe says this machine trains: by one reference training per process.

    The probe follows what changes from second to second; how fast trainings are beside it is the processor's own
    matter (the reference training has had 0.5 to 0.75 scaled seconds by the probe alone). First asked before a
    training begins, never within one: that would be a training within a training (`probe`).
    """
    return time_reference()[1] / REFERENCE_S


def pace() -> float:
    """Return how many times slower this machine trains now than the reference machine at rest."""
    return _probed() * level()


@lru_cache(maxsize=1)
def _reference_data() -> Prepared:
    rng = stream(0, "reference training")
    X = rng.normal(size=(4200, 20)).astype(np.float32)
    y = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + 0.1 * rng.normal(size=len(X))
    train_rows, rest = slice(0, 4000), slice(4000, 4200)
    return Prepared(
        dataset="reference", pipeline="none", task="regression", n_classes=0,
        X_train=X[train_rows], X_valid=X[rest], X_test=X[rest],
        y_train=y[train_rows], y_valid=y[rest], y_test=y[rest],
        width_before=20, width_after=20, fit_seconds=0.0, mark="", data_hash="reference", dropped=(),
    )  # fmt: skip


def time_reference() -> tuple[float, float]:
    """Return the CPU seconds of the reference training and its scaled seconds by the probe alone: medians of three."""
    runs = [train(_reference_data(), _CONFIGURATION, (), pace=_probed) for _ in range(_TIMES)]
    return float(np.median([r.spent_cpu_s for r in runs])), float(np.median([r.spent_scaled_s for r in runs]))


# The load of the machine: with more busy processes than cores a training's CPU time (not only its wall time) grows by
# up to a factor of three, since caches are shared, and every switch empties them. Where the process is bound to some of
# the cores (taskset, a cluster's job), only these count, and only what runs or waits on them.

MOST_BUSY = 1.1  # mean busy processes per core beyond which a training counts as disturbed
_SAMPLE_S, _RECENT = 1.0, 9


def own_cores() -> set[int]:
    """Return the cores that this process may run on."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def runnable() -> float:
    """Return the number of threads that run or wait for one of `own_cores` now, this reader not counted."""
    if not Path("/proc/self/task").is_dir():
        return os.getloadavg()[0]  # a minute's mean, where the present number is not to be had
    cores, reader = own_cores(), str(threading.get_native_id())
    processes = (f"/proc/{name}/task" for name in _listed("/proc") if name.isdigit())
    tasks = (Path(process, name) for process in processes for name in _listed(process) if name != reader)
    return float(sum(_waits_on(task, cores) for task in tasks))


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - `Path.glob` raises where a process ends while it looks
    except OSError:
        return []


def _waits_on(task: Path, cores: set[int]) -> bool:
    try:
        fields = (task / "stat").read_bytes().rpartition(b")")[2].split()  # after the name, which may hold anything
    except OSError:  # it has ended meanwhile
        return False
    return fields[0] == b"R" and int(fields[36]) in cores


class LoadMonitor:
    """Samples the number of runnable processes once a second, from a thread of its own, while open.

    What the counting raises is raised where the monitor is asked next: it must not go blind without a word.
    """

    def __init__(self, cores: int | None = None, count: Callable[[], float] = runnable) -> None:
        self.cores = cores or len(own_cores())
        self._count = count
        self._times: list[float] = []
        self._busy: list[float] = []
        self._failed: Exception | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> "LoadMonitor":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._end.wait(_SAMPLE_S):
            try:
                self._busy.append(self._count())
            except Exception as error:  # whatever it is, whoever relies on this monitor must know
                self._failed = error
                return
            self._times.append(time.time())

    def _check(self) -> None:
        if self._failed is not None:
            raise RuntimeError("the load of this machine cannot be watched any more") from self._failed

    @property
    def undisturbed(self) -> bool:
        """Whether, over the last seconds, no more processes were busy than there are cores."""
        self._check()
        return not self._busy or float(np.median(self._busy[-_RECENT:])) <= self.cores

    def wait(self, most_s: float = np.inf) -> float:
        """Return the seconds waited until nothing disturbs, or `most_s` are up; says so once if it has to wait."""
        start = time.monotonic()
        if not self.undisturbed:
            recent = np.median(self._busy[-_RECENT:])
            text = f"paused: {recent:.0f} busy processes on {self.cores} cores disturb the costs; waiting for their end"
            print(text, file=sys.stderr, flush=True)
            while not self.undisturbed and time.monotonic() - start < most_s:
                time.sleep(_SAMPLE_S)
        return time.monotonic() - start

    def mean(self, start: float, end: float) -> float:
        """Return the mean busy processes per core between two Unix times (else the next sample, or the last)."""
        self._check()
        n = len(self._times)
        if not n:
            return self._count() / self.cores
        low, high = bisect_left(self._times, start, 0, n), bisect_right(self._times, end, 0, n)
        if low == high:
            low = max(0, min(low, n - 1))
            high = low + 1
        return float(np.mean(self._busy[low:high])) / self.cores

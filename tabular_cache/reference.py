"""The reference machine, by which costs measured at different times and on different machines agree; the load monitor.

A machine's speed changes: by tens of percent between machines of one kind, and on shared hosts by up to a factor
of two within seconds, in CPU time too, since neighbours share its caches and its memory. So a short fixed workload,
the *probe*, is timed before, within and after each training, and a training's CPU seconds are divided by the
slowdown that it shows: these are its `scaled_s`, seconds on the reference machine at rest. How well that works is
measured by trainings repeated on several days (`tabular_cache.noise`), and by the *reference training*, one fixed
training timed every ten minutes: its own scaled seconds should never change.
"""

import os
import sys
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np

from harness.streams import stream
from harness.training import train
from pipelines.prepared import Prepared

PROBE_S = 0.0067  # CPU seconds of the probe on the reference machine (Xeon 2.5 GHz, family 6 model 85) at rest
EVERY_S = 600.0
_ROWS, _COLUMNS, _PASSES = 4000, 12, 6
_CONFIGURATION = np.array([40, 0.1, 0.0, 1e-3, 1.0, 0.8, 8])  # order of XGBOOST_SPACE
_TIMES = 3


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


def pace() -> float:
    """Return how many times slower this machine is now than the reference machine at rest."""
    return probe() / PROBE_S


@lru_cache(maxsize=1)
def _data() -> Prepared:
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
    """Return the CPU seconds of the reference training and its scaled seconds: medians of three."""
    runs = [train(_data(), _CONFIGURATION, (), pace=pace) for _ in range(_TIMES)]
    return float(np.median([r.spent_cpu_s for r in runs])), float(np.median([r.spent_scaled_s for r in runs]))


class Reference:
    """The reference timings of one campaign: (Unix time, CPU seconds, scaled seconds), and when the next is due."""

    def __init__(self) -> None:
        self.timings: list[tuple[int, float, float]] = []
        self._last = -np.inf

    @property
    def due(self) -> bool:
        """Whether ten minutes have passed since the last timing was asked for."""
        return time.monotonic() - self._last >= EVERY_S

    def asked(self) -> None:
        """Note that a timing is under way."""
        self._last = time.monotonic()

    def add(self, cpu_s: float, scaled_s: float) -> None:
        """Keep one timing."""
        self.timings.append((int(time.time()), round(cpu_s, 5), round(scaled_s, 5)))


# Is the machine quiet enough to measure a cost? Counts the runnable processes and waits while they are too many.
#
# With more busy processes than cores a training's CPU time (not only its wall time) grows by up to a factor of
# three: caches are shared, and every switch empties them. Where the process is bound to some of the cores (taskset,
# a cluster's job), only these count, and only what runs or waits on them.

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

    What the counting raises is raised where the watch is asked next: it must not go blind without a word.
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
            except Exception as error:  # whatever it is, whoever relies on this watch must know
                self._failed = error
                return
            self._times.append(time.time())

    @property
    def quiet(self) -> bool:
        """Whether, over the last seconds, no more processes were busy than there are cores."""
        self._check()
        return not self._busy or float(np.median(self._busy[-_RECENT:])) <= self.cores

    def wait(self, most_s: float = np.inf) -> float:
        """Return once the machine is quiet, or `most_s` are up, with the seconds waited; says so once if it has to."""
        start = time.monotonic()
        if not self.quiet:
            recent = np.median(self._busy[-_RECENT:])
            text = f"paused: {recent:.0f} busy processes on {self.cores} cores disturb the costs; waiting for quiet"
            print(text, file=sys.stderr, flush=True)
            while not self.quiet and time.monotonic() - start < most_s:
                time.sleep(_SAMPLE_S)
        return time.monotonic() - start

    def mean(self, start: float, end: float) -> float:
        """Return the mean busy processes per core between two Unix times (the nearest sample if none is inside)."""
        self._check()
        n = len(self._times)
        if not n:
            return self._count() / self.cores
        low, high = bisect_left(self._times, start, 0, n), bisect_right(self._times, end, 0, n)
        if low == high:
            low = max(0, min(low, n - 1))
            high = low + 1
        return float(np.mean(self._busy[low:high])) / self.cores

    def _check(self) -> None:
        if self._failed is not None:
            raise RuntimeError("the load of this machine cannot be watched any more") from self._failed

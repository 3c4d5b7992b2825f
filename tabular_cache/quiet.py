"""Is the machine quiet enough to measure a cost? Counts the runnable processes and waits while they are too many.

With more busy processes than cores a training's CPU time (not only its wall time) grows by up to a factor of
three: caches are shared, and every switch empties them. Where the process is bound to some of the cores (taskset,
a cluster's job), only these count, and only what runs or waits on them.
"""

import os
import sys
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from pathlib import Path

import numpy as np

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


class Watch:
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

    def __enter__(self) -> "Watch":
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

"""Executors (`concurrent.futures`): serial, local processes, Dask, Slurm; each is made by a function named in YAML.

`run_tasks` and `run_all` give independent tasks to an executor; `Lanes` is the pool of local worker processes.
"""

import contextlib
import os
import re
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, TypeVar

from harness.errors import BadInput
from harness.execution.sandbox import end_with_parent
from harness.execution.supervisor import HastyExecutor, WorkerLost, worker_count
from harness.progress import Progress

Task = TypeVar("Task")


class SerialExecutor(Executor):
    """Runs each task at once, in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Run `fn` now and return its finished future."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # as any executor does: the error belongs to the future
            future.set_exception(error)
        return future


def serial() -> Executor:
    """Return an executor that works in this process."""
    return SerialExecutor()


def local(n_jobs: int | None = None, limit_s: float | None = None) -> Executor:
    """Return `n_jobs` worker processes (null: one per available core), see `harness.execution`.

    limit_s: seconds that a task may take before its process is ended and it is tried again; null for no limit.
    """
    if n_jobs is None:
        n_jobs = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not isinstance(n_jobs, int) or isinstance(n_jobs, bool) or n_jobs < 1:
        raise BadInput(f"executor.n_jobs must be a whole number >= 1 or null, got {n_jobs!r}")

    return Lanes(n_jobs, seconds_or_none("executor.limit_s", limit_s))


def dask(
    address: str | None = None, n_workers: int = 2, limit_s: float | None = None, wait_s: float = 30.0
) -> Executor:
    """Return the workers of a Dask scheduler at `address`; null: `n_workers` of a scheduler of our own, for trying.

    wait_s: how long to wait for the scheduler and its first worker. Raises BadInput if there is none by then, or
    without the extra `dask`.
    """
    from harness.execution.dask_workers import DaskWorkers

    return DaskWorkers(address, n_workers, seconds_or_none("executor.limit_s", limit_s), wait_s)


def slurm(
    folder: str,
    cluster: str = "slurm",
    max_jobs: int = 100,
    limit_s: float | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> Executor:
    """Return a cluster that starts a job for every task, through submitit; see `harness.execution.slurm_jobs`.

    folder: on a disk that all nodes share, for the jobs' papers. cluster: slurm, or local (processes of this machine).
    parameters: submitit's, such as timeout_min, mem_gb, slurm_partition. Raises BadInput without the extra `slurm`.
    """
    from harness.execution.slurm_jobs import SlurmJobs

    limit_s = seconds_or_none("executor.limit_s", limit_s)
    return SlurmJobs(Path(folder), cluster, max_jobs, limit_s, dict(parameters or {}))


def seconds_or_none(name: str, value: Any) -> float | None:
    """Return `value` if it is a number of seconds > 0 or None; raises BadInput naming the setting."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise BadInput(f"{name} must be a number of seconds > 0 or null, got {value!r}")
    return float(value)


def run_tasks(
    executor: Executor,
    fn: Callable[[Task], Any],
    tasks: Iterable[Task],
    window: int = 8,
    ready: Callable[[], bool] = lambda: True,
) -> Iterator[tuple[Task, Any]]:
    """Run `fn` on every task and yield (task, result) as each finishes; an exception is yielded as the result.

    At most `window` tasks are submitted ahead, so that stopping early leaves little behind. What has finished is
    yielded before `tasks` is asked for more, which may take its time: while tasks run, only if it is `ready`.
    """
    waiting = iter(tasks)
    running: dict[Future[Any], Task] = {}
    while True:
        while len(running) < window and not any(f.done() for f in running) and (not running or ready()):
            try:
                task = next(waiting)
            except StopIteration:
                break
            running[executor.submit(fn, task)] = task
        if not running:
            return
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            error = future.exception()
            yield running.pop(future), (future.result() if error is None else error)


def run_all(
    executor: Executor,
    fn: Callable[[Task], Any],
    tasks: Sequence[Task],
    name: Callable[[Task], str],
    unit: str,
    label: str,
) -> list[str]:
    """Run `fn`, which keeps its own result, on every task, with progress; returns a line for each that failed."""
    failed = []
    with Progress(len(tasks), unit, label, worker_count(executor)) as progress:
        for task, outcome in run_tasks(executor, fn, tasks):
            if isinstance(outcome, BaseException):
                failed.append(f"{name(task)}: {type(outcome).__name__}: {outcome}")
            progress.advance()
    return failed


# Worker processes on this machine, each on its own lane: losing one loses one task, and a hung one can be ended.


class Lanes(HastyExecutor):
    """`slots` loky pools of one process each, all behind one `submit`.

    One pool of several would break whole when a process dies, and say of every task that it may have done it.
    limit_s: wall seconds that a task may take before its process is killed; None: no limit.
    """

    def __init__(self, n_jobs: int, limit_s: float | None = None) -> None:
        self.slots, self._limit_s = n_jobs, limit_s
        self._threads = ThreadPoolExecutor(n_jobs, thread_name_prefix="lane")
        self._lane = threading.local()
        self._pools: set[Any] = set()
        self._closing = threading.Event()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Run `fn` in a worker process; the future has WorkerLost if that died or hung past its limit."""
        return self._threads.submit(self._run, fn, args, kwargs)

    def _run(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if self._closing.is_set():
            raise WorkerLost("stopped")
        try:
            future = self._pool().submit(fn, *args, **kwargs)
            if wait([future], timeout=self._limit_s).done:
                return future.result()
            self._end()
            raise WorkerLost(f"hung: took more than {self._limit_s:g} s")
        except BrokenExecutor as error:
            self._end()
            codes = re.search(r"exit codes of the workers are \{(.*?)\}", str(error))
            raise WorkerLost(f"its worker process died{f' ({codes[1]})' if codes else ''}") from None

    def _pool(self) -> Any:
        if getattr(self._lane, "pool", None) is None:
            from joblib.externals.loky import ProcessPoolExecutor

            self._lane.pool = ProcessPoolExecutor(1, initializer=_begin, initargs=(os.getpid(),))
            self._pools.add(self._lane.pool)
            self._lane.pool.submit(os.getpid).result()  # started: from here on time is the task's
        return self._lane.pool

    def _end(self) -> None:
        """End this lane's process; the lane's next task gets a new one."""
        self._pools.discard(self._lane.pool)
        self._lane.pool.shutdown(wait=False, kill_workers=True)
        self._lane.pool = None

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let the tasks end and the processes with them; with `cancel_futures`, kill them at once."""
        if cancel_futures:
            self._closing.set()
            for pool in list(self._pools):
                pool.shutdown(wait=False, kill_workers=True)
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)
        for pool in list(self._pools):
            pool.shutdown(wait=wait, kill_workers=cancel_futures)


def _begin(parent: int) -> None:
    """Leave Ctrl-C to the driver, and end soon after it: a killed driver must not leave idle processes behind.

    Where psutil is installed, loky ends workers that have grown by 300 MB since their first task, which data and
    compiled code do; as without psutil, they stay. It would then collect garbage after every task instead, 90 ms each
    time: Python's own collection is enough.
    """
    from joblib.externals.loky import process_executor

    process_executor._USE_PSUTIL = False
    process_executor._MEMORY_LEAK_CHECK_DELAY = float("inf")

    with contextlib.suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(parent)

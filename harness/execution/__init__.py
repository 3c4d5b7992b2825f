"""Executors (`concurrent.futures`): serial, local processes, Dask, Slurm; each is made by a function named in YAML.

`run_tasks`, `run_counted` and `run_all` give independent tasks to any of them, whose workers may die or hang.
"""

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from functools import partial
from queue import LifoQueue
from types import TracebackType
from typing import Any, TypeVar

from harness.errors import BadInput, number, whole
from harness.errors import folder as named_folder
from harness.execution.sandbox import DONE, HUNG, RAISED, Child, exit_name
from harness.progress import Progress

RETRIES = 3
_GLANCE_S = 1.0  # how often the number of workers is looked at
Task = TypeVar("Task")


class NoWaitOnErrorExecutor(Executor):
    """An executor that after an exception, Ctrl-C among them, closes without waiting for what is running."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; wait only after success."""
        self.shutdown(wait=kind is None, cancel_futures=kind is not None)


class WorkerLost(RuntimeError):
    """A worker died, hung past its limit or ran out of memory; `times` workers, one after the other."""

    def __init__(self, reason: str, times: int = 1) -> None:
        super().__init__(reason, times)
        self.reason, self.times = reason, times

    def __str__(self) -> str:
        return self.reason


class ExecutorGone(RuntimeError):
    """There is nobody left to give tasks to."""


def worker_count(executor: Executor) -> int:
    """Return how many tasks an executor can work on at once: its `slots`, where it has that property."""
    found = getattr(executor, "slots", None)
    return int(found if found is not None else getattr(executor, "_max_workers", 1))


def run_tasks(
    executor: Executor,
    fn: Callable[[Task], Any],
    tasks: Iterable[Task],
    window: int | None = None,
    ready: Callable[[], bool] = lambda: True,
    retries: int = 0,
) -> Iterator[tuple[Task, Any]]:
    """Run `fn` on every task and yield (task, result) as each is settled; an exception is yielded as the result.

    window: tasks submitted at once; None: as many as there are workers now, so that none waits behind one that kills
    its worker. Tasks of a sequence are given out before results are yielded, so that no worker waits for what is done
    with these. Any other source, which may take its time, is asked for more only after what has finished is yielded,
    and while tasks run only if it is `ready`.
    retries: how often a task is tried again whose worker was lost (it died, or MemoryError, OSError); other exceptions
    are the task's own.
    Raises ExecutorGone when the executor itself has ended.
    """
    at_hand, source = isinstance(tasks, Sequence), iter(tasks)
    waiting, running = deque[tuple[Task, int]](), dict[Future[Any], tuple[Task, int]]()
    ended, gone = False, list[ExecutorGone]()

    def refill() -> None:
        nonlocal ended
        try:
            while not gone and len(running) < (worker_count(executor) if window is None else window):
                if not at_hand and running and (any(future.done() for future in running) or not ready()):
                    return
                attempt = waiting.popleft() if waiting else next(((task, 0) for task in source), None)
                if attempt is None:
                    ended = True
                    return
                running[_submit(executor, fn, attempt[0])] = attempt
        except ExecutorGone as error:
            gone.append(error)

    refill()
    while running or (not gone and (waiting or not ended)):
        settled = []
        for future in wait(running, _GLANCE_S if at_hand else None, FIRST_COMPLETED).done:
            (task, before), outcome = running.pop(future), _outcome(future)
            lost = before + _workers_lost(outcome)
            if isinstance(outcome, ExecutorGone):
                gone.append(outcome)
            elif before < lost <= retries:
                waiting.appendleft((task, lost))
            elif retries and lost > before:
                kind = "" if isinstance(outcome, WorkerLost) else f"{type(outcome).__name__}: "
                settled.append((task, WorkerLost(f"given up after {lost} tries: {kind}{outcome}", lost)))
            else:
                settled.append((task, outcome))
        if at_hand:
            refill()
        yield from settled  # what is finished is kept, also when the executor ends
        if gone:
            break
        refill()
        if not running and (waiting or not ended):
            time.sleep(_GLANCE_S)  # no workers now; some may come
    if gone:
        raise gone[0]


def _submit(executor: Executor, fn: Callable[[Task], Any], task: Task) -> "Future[Any]":
    try:
        return executor.submit(fn, task)
    except RuntimeError as error:  # shut down, or broken for good
        raise ExecutorGone(str(error)) from None


def _outcome(future: "Future[Any]") -> Any:
    try:
        error = future.exception()
    except CancelledError:
        return ExecutorGone("its tasks were cancelled")
    return future.result() if error is None else error


def _workers_lost(outcome: Any) -> int:
    if isinstance(outcome, WorkerLost):
        return outcome.times
    return int(isinstance(outcome, BrokenExecutor | MemoryError | OSError))


def run_counted(
    executor: Executor, fn: Callable[[Task], Any], tasks: Sequence[Task], unit: str, label: str, retries: int = 0
) -> Iterator[tuple[Task, Any]]:
    """Run `fn` on every task as `run_tasks` does, with progress."""
    with Progress(len(tasks), unit, label, worker_count(executor)) as progress:
        for task, outcome in run_tasks(executor, fn, tasks, retries=retries):
            yield task, outcome
            progress.advance()


def run_all(
    executor: Executor,
    fn: Callable[[Task], Any],
    tasks: Sequence[Task],
    name: Callable[[Task], str],
    unit: str,
    label: str,
) -> list[str]:
    """Run `fn`, which keeps its own result, on every task, with progress; returns a line for each that failed.

    A task whose worker was lost is tried again.
    """
    return [
        f"{name(task)}: {type(outcome).__name__}: {outcome}"
        for task, outcome in run_counted(executor, fn, tasks, unit, label, RETRIES)
        if isinstance(outcome, BaseException)
    ]


# Executors on this machine.


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
    """Return `n_jobs` worker processes (null: one per available core), see `LocalProcesses`.

    limit_s: seconds that a task may take before its process is ended and it is tried again; null for no limit.
    """
    if n_jobs is None:
        n_jobs = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not isinstance(n_jobs, int) or isinstance(n_jobs, bool) or n_jobs < 1:
        raise BadInput(f"executor.n_jobs must be a whole number >= 1 or null, got {n_jobs!r}")
    return LocalProcesses(n_jobs, _limit(limit_s))


def dask(
    address: str | None = None, n_workers: int = 2, limit_s: float | None = None, wait_s: float = 30.0
) -> Executor:
    """Return the workers of a Dask scheduler at `address`; null: `n_workers` of one that is started here, for trying.

    wait_s: how long to wait for the scheduler and its first worker. Raises BadInput if there is none by then, or
    without the extra `dask`.
    """
    from harness.execution.clusters import DaskWorkers

    wait_s = number("executor.wait_s", wait_s, "a number of seconds > 0", math.ulp(0.0))
    return DaskWorkers(address, whole("executor.n_workers", n_workers, 1), _limit(limit_s), wait_s)


def slurm(
    folder: str,
    cluster: str = "slurm",
    max_jobs: int = 100,
    limit_s: float | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> Executor:
    """Return a cluster that starts a job for every task, through submitit; see `SlurmJobs`.

    folder: on a disk that all nodes share, for the jobs' papers. cluster: slurm, or local (processes of this machine).
    parameters: submitit's, such as timeout_min, mem_gb, slurm_partition. Raises BadInput without the extra `slurm`.
    """
    from harness.execution.clusters import SlurmJobs

    slots = whole("executor.max_jobs", max_jobs, 1)
    return SlurmJobs(named_folder("executor.folder", folder), cluster, slots, _limit(limit_s), dict(parameters or {}))


def _limit(limit_s: Any) -> float | None:
    allowed = "a number of seconds > 0 or null"
    return None if limit_s is None else number("executor.limit_s", limit_s, allowed, math.ulp(0.0))


class LocalProcesses(NoWaitOnErrorExecutor):
    """`slots` worker processes on this machine: losing one loses one task, and a hung one is ended.

    limit_s: wall seconds that a task may take before its process is killed; None: no limit. A pool of loky or pebble
    would break whole when a process dies at a bad moment, and say of every task that it may have been its fault.
    """

    def __init__(self, n_jobs: int, limit_s: float | None = None) -> None:
        self.slots, self._limit_s = n_jobs, limit_s
        self._threads = ThreadPoolExecutor(n_jobs, thread_name_prefix="worker")
        self._children = [Child() for _ in range(n_jobs)]
        self._idle: LifoQueue[Child] = LifoQueue()  # the last used first: it has started
        for child in self._children:
            self._idle.put(child)
        self._closing = threading.Event()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Run `fn` in a worker process; the future has WorkerLost if that died or hung past its limit."""
        return self._threads.submit(self._run, partial(fn, *args, **kwargs))

    def _run(self, task: Callable[[], Any]) -> Any:
        if self._closing.is_set():
            raise WorkerLost("stopped")
        child = self._idle.get()
        try:
            outcome = child.ask(task, wall_s=self._limit_s)
        finally:
            self._idle.put(child)
        if outcome.status == DONE:
            return outcome.value
        if outcome.status == RAISED:
            raise outcome.value
        if outcome.status == HUNG:
            raise WorkerLost(f"hung: took more than {self._limit_s:g} s")
        raise WorkerLost(f"its worker process died ({exit_name(outcome.code)})")

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let the tasks end and the processes with them; with `cancel_futures`, kill them at once."""
        if cancel_futures:
            self._closing.set()
            for child in self._children:
                child.kill()
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)
        if wait:
            for child in self._children:
                child.close()

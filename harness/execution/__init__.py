"""Executors (`concurrent.futures`): serial, local processes, Dask, Slurm; each is made by a function named in YAML.

`run_tasks`, `run_counted` and `run_all` give independent tasks to any of them.
"""

import math
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import LifoQueue
from typing import Any

from harness.errors import BadInput, number, whole
from harness.execution.sandbox import DONE, HUNG, RAISED, Child, exit_name
from harness.execution.supervisor import HastyExecutor, WorkerLost, run_all, run_counted, run_tasks

__all__ = ["LocalProcesses", "SerialExecutor", "dask", "local", "run_all", "run_counted", "run_tasks", "serial",
           "slurm"]  # fmt: skip


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
    return LocalProcesses(n_jobs, _limit(limit_s))


def dask(
    address: str | None = None, n_workers: int = 2, limit_s: float | None = None, wait_s: float = 30.0
) -> Executor:
    """Return the workers of a Dask scheduler at `address`; null: `n_workers` of a scheduler of our own, for trying.

    wait_s: how long to wait for the scheduler and its first worker. Raises BadInput if there is none by then, or
    without the extra `dask`.
    """
    from harness.execution.clusters import DaskWorkers

    return DaskWorkers(address, whole("executor.n_workers", n_workers, 1), _limit(limit_s), wait_s)


def slurm(
    folder: str,
    cluster: str = "slurm",
    max_jobs: int = 100,
    limit_s: float | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> Executor:
    """Return a cluster that starts a job for every task, through submitit; see `harness.execution.clusters`.

    folder: on a disk that all nodes share, for the jobs' papers. cluster: slurm, or local (processes of this machine).
    parameters: submitit's, such as timeout_min, mem_gb, slurm_partition. Raises BadInput without the extra `slurm`.
    """
    from harness.execution.clusters import SlurmJobs

    slots = whole("executor.max_jobs", max_jobs, 1)
    return SlurmJobs(Path(folder), cluster, slots, _limit(limit_s), dict(parameters or {}))


def _limit(limit_s: Any) -> float | None:
    allowed = "a number of seconds > 0 or null"
    return None if limit_s is None else number("executor.limit_s", limit_s, allowed, math.ulp(0.0))


class LocalProcesses(HastyExecutor):
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

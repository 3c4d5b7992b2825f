"""Executors: anything with the `concurrent.futures` interface, made by a function named in a YAML file."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from pathlib import Path
from typing import Any, TypeVar

from datasets.errors import BadInput
from harness.progress import Progress
from harness.supervise import slots

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
    """Return `n_jobs` worker processes (null: one per available core), see `harness.lanes`.

    limit_s: seconds that a task may take before its process is ended and it is tried again; null for no limit.
    """
    if n_jobs is None:
        n_jobs = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not isinstance(n_jobs, int) or isinstance(n_jobs, bool) or n_jobs < 1:
        raise BadInput(f"executor.n_jobs must be a whole number >= 1 or null, got {n_jobs!r}")
    from harness.lanes import Lanes

    return Lanes(n_jobs, seconds_or_none("executor.limit_s", limit_s))


def dask(
    address: str | None = None, n_workers: int = 2, limit_s: float | None = None, wait_s: float = 30.0
) -> Executor:
    """Return the workers of a Dask scheduler at `address`; null: `n_workers` of a scheduler of our own, for trying.

    wait_s: how long to wait for the scheduler and its first worker. Raises BadInput if there is none by then, or
    without the extra `dask`.
    """
    from harness.dask_workers import DaskWorkers

    return DaskWorkers(address, n_workers, seconds_or_none("executor.limit_s", limit_s), wait_s)


def slurm(
    folder: str,
    cluster: str = "slurm",
    max_jobs: int = 100,
    limit_s: float | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> Executor:
    """Return a cluster that starts a job for every task, through submitit; see `harness.slurm_jobs`.

    folder: on a disk that all nodes share, for the jobs' papers. cluster: slurm, or local (processes of this machine).
    parameters: submitit's, such as timeout_min, mem_gb, slurm_partition. Raises BadInput without the extra `slurm`.
    """
    from harness.slurm_jobs import SlurmJobs

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
    with Progress(len(tasks), unit, label, slots(executor)) as progress:
        for task, outcome in run_tasks(executor, fn, tasks):
            if isinstance(outcome, BaseException):
                failed.append(f"{name(task)}: {type(outcome).__name__}: {outcome}")
            progress.advance()
    return failed

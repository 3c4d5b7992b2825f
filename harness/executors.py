"""Executors: anything with the `concurrent.futures` interface, made by a function named in a YAML file."""

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from typing import Any, TypeVar

from harness.errors import BadInput

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


def local(n_jobs: int | None = None) -> Executor:
    """Return a pool of `n_jobs` worker processes (null: one per available core)."""
    if n_jobs is None:
        n_jobs = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not isinstance(n_jobs, int) or isinstance(n_jobs, bool) or n_jobs < 1:
        raise BadInput(f"executor.n_jobs must be a whole number >= 1 or null, got {n_jobs!r}")
    from joblib.externals.loky import ProcessPoolExecutor

    return ProcessPoolExecutor(max_workers=n_jobs, initializer=_end_with, initargs=(os.getpid(),))


def _end_with(parent: int) -> None:
    """End this worker soon after its parent: a killed driver must not leave idle processes behind."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def run_tasks(
    executor: Executor, fn: Callable[[Task], Any], tasks: Iterable[Task], window: int = 8
) -> Iterator[tuple[Task, Any]]:
    """Run `fn` on every task and yield (task, result) as each finishes; an exception is yielded as the result.

    At most `window` tasks are submitted ahead, so that stopping early leaves little behind.
    """
    waiting = iter(tasks)
    running: dict[Future[Any], Task] = {}
    while True:
        for task in waiting:
            running[executor.submit(fn, task)] = task
            if len(running) >= window:
                break
        if not running:
            return
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            error = future.exception()
            yield running.pop(future), (future.result() if error is None else error)

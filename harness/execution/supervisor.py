"""Tasks on an executor whose workers may die or hang (`run_tasks`), and what executors have in common.

`within` ends a process past its limit; `HastyExecutor` is the base of executors that close without waiting.
"""

import faulthandler
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from types import TracebackType
from typing import Any, TypeVar

from harness.progress import Progress

RETRIES = 3
_GLANCE_S = 1.0  # how often the number of workers is looked at
Task = TypeVar("Task")


class HastyExecutor(Executor):
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


def within(limit_s: float | None, fn: Callable[..., Any], *args: Any) -> Any:
    """Return fn(*args); past `limit_s` wall seconds the whole process ends, also from within compiled code.

    faulthandler's watchdog needs no interpreter lock. One task at a time per process.
    """
    if limit_s is None:
        return fn(*args)
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - no traceback: the driver says the reason
        faulthandler.dump_traceback_later(limit_s, exit=True, file=nowhere)
        try:
            return fn(*args)
        finally:
            faulthandler.cancel_dump_traceback_later()


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

"""Tasks on workers that may die or hang: each is tried elsewhere, or set aside with a reason (`supervised`).

`within` ends a process past its limit; `HastyExecutor` is the base of executors that close without waiting.
"""

import faulthandler
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Generic, TypeVar


class HastyExecutor(Executor):
    """An executor that after an exception, Ctrl-C among them, closes without waiting for what is running."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; wait only after success."""
        self.shutdown(wait=kind is None, cancel_futures=kind is not None)


def within(limit_s: float | None, fn: Callable[..., Any], *args: Any) -> Any:
    """Return fn(*args); past `limit_s` wall seconds the whole process ends, also from within compiled code.

    faulthandler's watchdog needs no interpreter lock. One task at a time per process.
    """
    if limit_s is None:
        return fn(*args)
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - no traceback: the driver tells the reason
        faulthandler.dump_traceback_later(limit_s, exit=True, file=nowhere)
        try:
            return fn(*args)
        finally:
            faulthandler.cancel_dump_traceback_later()


# Supervision, on any `concurrent.futures` executor. One that has a property `slots`, the tasks it can work on at once,
# gets no more than those, so that a task never waits behind the one that kills its worker.

RETRIES = 3
_GLANCE_S = 1.0  # how often the number of workers is looked at
Task = TypeVar("Task")


class WorkerLost(RuntimeError):
    """A worker died, hung past its limit or ran out of memory; `times` workers, one after the other."""

    def __init__(self, reason: str, times: int = 1) -> None:
        super().__init__(reason, times)
        self.reason, self.times = reason, times

    def __str__(self) -> str:
        return self.reason


class ExecutorGone(RuntimeError):
    """There is nobody left to give tasks to."""


@dataclass(frozen=True)
class _Attempt(Generic[Task]):
    task: Task
    lost: int = 0  # workers so far


def worker_count(executor: Executor) -> int:
    """Return how many tasks an executor can work on at once."""
    found = getattr(executor, "slots", None)
    return int(found if found is not None else getattr(executor, "_max_workers", 1))


def supervised(
    executor: Executor,
    fn: Callable[[Task], Any],
    tasks: Iterable[Task],
    adapt: Callable[[Task, Any], Task | None] = lambda task, outcome: None,
) -> Iterator[tuple[Task, Any]]:
    """Run `fn` on every task and yield (task, result or exception) as each is settled.

    A task whose worker is lost (it died, or MemoryError, OSError) is tried again, RETRIES times; other exceptions
    are the task's own and settle it. adapt: returns what to try instead after an outcome, None if that settles it.
    Raises ExecutorGone when the executor itself has ended.
    """
    waiting = deque(_Attempt(task) for task in tasks)
    running: dict[Future[Any], _Attempt[Task]] = {}

    def refill() -> None:
        while waiting and len(running) < worker_count(executor):
            attempt = waiting.popleft()
            running[_submit(executor, fn, attempt.task)] = attempt

    refill()
    while waiting or running:
        settled, gone = [], list[ExecutorGone]()
        for future in wait(running, timeout=_GLANCE_S, return_when=FIRST_COMPLETED).done:
            attempt, outcome = running.pop(future), _outcome(future)
            lost = attempt.lost + _workers_lost(outcome)
            if isinstance(outcome, ExecutorGone):
                gone.append(outcome)
            elif attempt.lost < lost <= RETRIES:
                waiting.appendleft(replace(attempt, lost=lost))
            elif (changed := adapt(attempt.task, outcome)) is not None:
                waiting.appendleft(replace(attempt, task=changed))
            else:
                settled.append((attempt.task, _reasoned(outcome, lost) if lost > attempt.lost else outcome))
        try:
            if not gone:
                refill()  # before the results are looked at, so that no worker waits for that
        except ExecutorGone as error:
            gone.append(error)
        yield from settled  # what is finished is kept, also when the executor ends
        if gone:
            raise gone[0]
        if not running and waiting:
            time.sleep(_GLANCE_S)  # no workers now; some may come


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


def _reasoned(error: BaseException, times: int) -> WorkerLost:
    kind = "" if isinstance(error, WorkerLost) else f"{type(error).__name__}: "
    return WorkerLost(f"given up after {times} tries: {kind}{error}", times)

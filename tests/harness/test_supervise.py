"""Whatever becomes of a worker, its task is tried elsewhere or set aside with a reason."""

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path

import pytest

from harness.execution import local, serial
from harness.execution.supervisor import ExecutorGone, WorkerLost, supervised, worker_count


class Scripted(Executor):
    """Answers each task with the next of its outcomes."""

    def __init__(self, outcomes: dict[str, list[object]], n: int = 2) -> None:
        self.outcomes, self.slots, self.given = outcomes, n, list[str]()

    def submit(self, fn: Callable, /, *args: object, **kwargs: object) -> "Future[object]":
        self.given.append(str(args[0]))
        outcome = self.outcomes[str(args[0])].pop(0)
        future: Future[object] = Future()
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
        return future


def outcomes(executor: Executor, tasks: list[str]) -> dict[str, object]:
    return dict(supervised(executor, str, tasks))


LOST = WorkerLost("died")


def test_a_lost_worker_is_made_good_three_times_and_then_the_task_is_set_aside() -> None:
    executor = Scripted(
        {"a": [LOST] * 3 + [1], "b": [2], "c": [LOST] * 4, "d": [MemoryError(), 4], "e": [OSError(), 5]}
    )
    found = outcomes(executor, list("abcde"))
    assert {k: found[k] for k in "abde"} == {"a": 1, "b": 2, "d": 4, "e": 5}
    assert isinstance(found["c"], WorkerLost) and str(found["c"]) == "given up after 4 tries: died"
    assert [executor.given.count(task) for task in "abcde"] == [4, 1, 4, 2, 2]


def test_an_executor_that_has_retried_itself_is_not_asked_again() -> None:
    executor = Scripted({"a": [WorkerLost("all died", 4)], "b": [1]})
    assert str(outcomes(executor, ["a", "b"])["a"]) == "given up after 4 tries: all died"
    assert executor.given == ["a", "b"]


def test_a_tasks_own_error_is_final() -> None:
    executor = Scripted({"a": [ValueError("mine")], "b": [1]})
    assert isinstance(outcomes(executor, ["a", "b"])["a"], ValueError)
    assert executor.given == ["a", "b"]


def test_an_executor_that_is_gone_ends_it() -> None:
    executor = Scripted({"a": [ExecutorGone("no scheduler")], "b": [1]})
    with pytest.raises(ExecutorGone, match="no scheduler"):
        outcomes(executor, ["a", "b"])
    executor = Scripted({})
    executor.submit = lambda *a, **k: (_ for _ in ()).throw(RuntimeError("shut down"))  # type: ignore[method-assign]
    with pytest.raises(ExecutorGone, match="shut down"):
        outcomes(executor, ["a"])


@pytest.mark.parametrize("ending", ["a future says so", "no more are taken"])
def test_what_was_finished_by_then_is_kept(ending: str) -> None:
    """Two tasks were done when the executor ended, told by a third one's future, or as the next is given."""
    executor = Scripted({"a": [1], "b": [ExecutorGone("gone")] if ending == "a future says so" else [2], "c": [3]})
    if ending == "no more are taken":
        submit = executor.submit

        def twice(fn: Callable, /, *args: object, **kwargs: object) -> "Future[object]":
            if len(executor.given) == 2:
                raise RuntimeError("gone")
            return submit(fn, *args, **kwargs)

        executor.submit = twice  # type: ignore[method-assign]
    found = []
    with pytest.raises(ExecutorGone, match="gone"):
        for task, outcome in supervised(executor, str, list("abc")):
            found.append((task, outcome))
    assert sorted(found) == ([("a", 1)] if ending == "a future says so" else [("a", 1), ("b", 2)])


def test_no_more_tasks_are_given_than_there_are_slots() -> None:
    held: list[Future[int]] = []

    class Holding(Executor):
        slots = 3

        def submit(self, fn: Callable, /, *args: object, **kwargs: object) -> "Future[int]":
            held.append(Future())
            assert sum(not future.done() for future in held) <= 3
            if len(held) >= 3:
                next(future for future in held if not future.done()).set_result(1)
            return held[-1]

    rest = supervised(Holding(), str, list("abcdefg"))
    seen = [next(rest) for _ in range(5)]
    assert len(seen) == 5 and len(held) == 7


def test_what_comes_back_can_be_answered_with_another_task() -> None:
    executor = Scripted({"a": ["absent"], "a+": ["done"]})
    found = dict(supervised(executor, str, ["a"], lambda task, outcome: f"{task}+" if outcome == "absent" else None))
    assert found == {"a+": "done"}


def die_unless(path: str) -> int:
    """Kill this process the first time; and every time if `path` is empty."""
    if not path or not Path(path).exists():
        if path:
            Path(path).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def sleep_or_pid(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def act(task: tuple[str, str | float]) -> int:
    name, value = task
    return die_unless(str(value)) if name == "die" else sleep_or_pid(float(value))


def test_killed_and_hung_processes_cost_only_their_own_task(tmp_path: Path) -> None:
    tasks: list[tuple[str, str | float]] = [("die", str(tmp_path / "once")), ("sleep", 0.0), ("sleep", 0.1)]
    with local(2) as executor:
        assert worker_count(executor) == 2
        found = dict(supervised(executor, act, [*tasks, ("die", "")]))
    assert all(isinstance(found[task], int) for task in tasks)
    assert str(found["die", ""]) == "given up after 4 tries: its worker process died (SIGKILL(-9))"
    with local(1, limit_s=2.0) as executor:
        future = executor.submit(sleep_or_pid, 600.0)
        assert "hung: took more than 2 s" in str(future.exception())
        assert executor.submit(os.getpid).result() > 0


def test_serial_has_one_slot() -> None:
    with serial() as executor:
        assert worker_count(executor) == 1
        assert dict(supervised(executor, len, ["ab", "c"])) == {"ab": 2, "c": 1}

"""Whatever becomes of a worker, its task is tried elsewhere or set aside with a reason."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path

import loads
import pytest

from harness.errors import BadInput
from harness.execution import RETRIES, ExecutorGone, WorkerLost, local, run_tasks, sandbox, serial, worker_count

ROOT = Path(__file__).resolve().parents[2]
LOST = WorkerLost("died")
DRIVER = """
import os, time
from harness.execution import local
with local(2) as executor:
    print(*{future.result() for future in [executor.submit(os.getpid) for _ in range(8)]}, flush=True)
    time.sleep(60)
"""


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


def outcomes(executor: Executor, tasks: str) -> dict[str, object]:
    return dict(run_tasks(executor, str, list(tasks), retries=RETRIES))


def test_a_lost_worker_is_made_good_three_times_and_then_the_task_is_set_aside() -> None:
    executor = Scripted(
        {"a": [LOST] * 3 + [1], "b": [ValueError("own")], "c": [LOST] * 4, "d": [MemoryError(), 4], "e": [OSError(), 5]}
    )
    found = outcomes(executor, "abcde")
    assert {k: found[k] for k in "ade"} == {"a": 1, "d": 4, "e": 5}
    assert isinstance(found["b"], ValueError)
    assert isinstance(found["c"], WorkerLost) and str(found["c"]) == "given up after 4 tries: died"
    assert [executor.given.count(task) for task in "abcde"] == [4, 1, 4, 2, 2]
    executor = Scripted({"a": [WorkerLost("all died", 4)], "b": [LOST]})  # one that has tried again itself
    assert str(outcomes(executor, "a")["a"]) == "given up after 4 tries: all died"
    assert dict(run_tasks(executor, str, ["b"])) == {"b": LOST}  # without retries


@pytest.mark.parametrize("ending", ["a future says so", "no more are taken"])
def test_an_executor_that_is_gone_ends_it_and_what_was_finished_is_kept(ending: str) -> None:
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
        for task, outcome in run_tasks(executor, str, list("abc")):
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

    rest = run_tasks(Holding(), str, list("abcdefg"))
    seen = [next(rest) for _ in range(5)]
    assert len(seen) == 5 and len(held) == 7


def act(task: tuple[str, str | float]) -> int:
    name, value = task
    return loads.die_unless(str(value)) if name == "die" else loads.sleep(float(value))


@pytest.mark.slow
def test_killed_and_hung_processes_cost_only_their_own_task(tmp_path: Path) -> None:
    tasks: list[tuple[str, str | float]] = [("die", str(tmp_path / "once")), ("sleep", 0.0), ("sleep", 0.1)]
    with local(2) as executor:
        assert worker_count(executor) == 2
        found = dict(run_tasks(executor, act, [*tasks, ("die", "")], retries=RETRIES))
        assert all(isinstance(found[task], int) for task in tasks)
        assert str(found["die", ""]) == "given up after 4 tries: its worker process died (SIGKILL(-9))"
        called = executor.submit(sandbox.call, loads.busy, (0.01,), 5.0).result()  # workers have children, too
        assert (called.status, called.value) == (sandbox.DONE, 0.01)
    with local(1, limit_s=1.0) as executor:
        assert "hung: took more than 1 s" in str(executor.submit(loads.sleep, 600.0).exception())
        assert executor.submit(os.getpid).result() > 0


def test_after_an_error_running_tasks_are_not_waited_for() -> None:
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), local(1) as executor:
        future = executor.submit(loads.sleep, 600.0)
        raise KeyboardInterrupt
    assert isinstance(future.exception(), WorkerLost) and time.monotonic() - began < 300.0


def test_workers_end_with_a_killed_driver() -> None:
    driver = subprocess.Popen([sys.executable, "-c", DRIVER], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    workers = [int(pid) for pid in driver.stdout.readline().split()]
    assert len(workers) == 2 and all(loads.alive(pid) for pid in workers)
    driver.kill()
    driver.communicate()
    until = time.monotonic() + 30
    while any(loads.alive(pid) for pid in workers) and time.monotonic() < until:
        time.sleep(0.1)
    assert not any(loads.alive(pid) for pid in workers)


def test_numbers_of_workers() -> None:
    with serial() as executor:
        assert worker_count(executor) == 1
        assert dict(run_tasks(executor, len, ["ab", "c"])) == {"ab": 2, "c": 1}
    with local() as executor:
        assert worker_count(executor) == len(os.sched_getaffinity(0))
    for wrong in (0, True):
        with pytest.raises(BadInput, match=f"executor.n_jobs must be a whole number >= 1 or null, got {wrong!r}"):
            local(wrong)
    with pytest.raises(BadInput, match=r"executor.limit_s must be a number of seconds > 0 or null, got -1"):
        local(1, limit_s=-1)

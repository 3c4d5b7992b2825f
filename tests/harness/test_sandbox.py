"""Child processes: they die, hang and are ended without harm to this one, and their limits hold whatever they do."""

import os
import shlex
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import loads
import numpy as np
import pytest
from fakes import prepared

from harness.errors import BadInput
from harness.execution import sandbox
from harness.execution.sandbox import CAPPED, DIED, DONE, HUNG, RAISED, Child, Outcome
from harness.live import LiveProblem
from harness.problem import OK, OUT_OF_MEMORY, TIMEOUT
from harness.training import Limits, train, train_within

X = np.array([20, 0.3, 0.0, 0.01, 1.0, 1.0, 3])
DATA = prepared()


def test_a_child_answers_is_kept_and_is_replaced_after_its_end() -> None:
    child = Child()
    first = child.ask(os.getpid).value
    assert first == child.ask(os.getpid).value == child.pid != os.getpid()
    raised = child.ask(loads.wrong)
    assert (raised.status, raised.note) == (RAISED, "ValueError: wrong")
    assert "in wrong" in str(raised.value.__cause__)  # the traceback of over there
    assert "cannot hand over TextIOWrapper" in child.ask(open, os.devnull).note
    died = child.ask(loads.die_unless, "")
    assert (died.status, died.note, died.code) == (DIED, "ended with SIGKILL(-9)", -9)
    hung = child.ask(loads.sleep, 60.0, wall_s=0.2)
    assert (hung.status, hung.value) == (HUNG, None) and 0.2 <= hung.wall_s < 60.0
    assert child.ask(loads.sleep, 0.0).value not in (first, None)
    child.close()
    assert child.pid is None


def test_a_call_is_ended_at_its_limit_and_not_before() -> None:
    done = sandbox.call(loads.busy, (0.05,), 5.0)
    assert (done.status, done.value) == (DONE, 0.05)
    assert 0.05 <= done.cpu_s < 5.0
    for function, args in ((loads.busy, (60.0,)), (loads.in_compiled_code, ())):
        capped = sandbox.call(function, args, 0.1)
        assert (capped.status, capped.cpu_s) == (CAPPED, 0.1)


def test_a_call_that_breaks_says_why() -> None:
    assert sandbox.call(loads.wrong, (), 5.0).note == "ValueError: wrong"
    ended = sandbox.call(os._exit, (7,), 5.0)
    assert (ended.status, ended.note) == (DIED, "ended with 7")
    assert ended.cpu_s <= ended.wall_s < 5.0  # not the whole limit
    with pytest.raises(ValueError, match="cap_s must be a finite number of seconds > 0"):
        sandbox.call(loads.busy, (1.0,), 0.0)


def test_a_program_is_ended_at_its_limit() -> None:
    capped = sandbox.program([sys.executable, "-c", "while True: pass"], 0.2)
    assert (capped.status, capped.cpu_s) == (CAPPED, 0.2)
    for code, ending in ((20, "raise SystemExit(20)"), (0, "")):
        done = sandbox.program([sys.executable, "-S", "-c", ending], 30.0)
        assert (done.status, done.value) == (DONE, code)
        assert 0 < done.cpu_s < 30.0
    aborted = sandbox.program([sys.executable, "-S", "-c", "import os; os.abort()"], 30.0)
    assert (aborted.status, aborted.note) == (DIED, "ended with SIGABRT(-6)")
    with pytest.raises(BadInput, match="cannot run no-such-program"):
        sandbox.program(["no-such-program"], 1.0)


def test_a_program_is_ended_with_those_that_it_starts(tmp_path: Path) -> None:
    """A script whose work another program does, while it waits."""
    python = f"{shlex.quote(sys.executable)} -S -c"
    work = "import os; open('pid', 'w').write(str(os.getpid()))\nwhile True: pass"
    script = f"cd {shlex.quote(str(tmp_path))}; {python} {shlex.quote(work)}; true"
    capped = sandbox.program(["/bin/sh", "-c", script], 0.3)
    assert (capped.status, capped.cpu_s) == (CAPPED, 0.3) and capped.wall_s < 30.0
    until = time.monotonic() + 30.0
    while loads.alive(int((tmp_path / "pid").read_text())):
        assert time.monotonic() < until
        time.sleep(0.01)
    done = sandbox.program(["/bin/sh", "-c", f"{python} 'sum(range(1000000))'; exit 3"], 30.0)
    assert (done.status, done.value) == (DONE, 3) and done.cpu_s > 0.005


def test_what_a_program_leaves_behind_counts_and_ends_with_it(tmp_path: Path) -> None:
    python = f"{shlex.quote(sys.executable)} -S -c"
    work = "import os, time; open('pid', 'w').write(str(os.getpid()))\nwhile time.process_time() < 60: pass"
    wait = "until [ -s pid ]; do :; done; sleep 0.2"
    script = f"cd {shlex.quote(str(tmp_path))}; {python} {shlex.quote(work)} & {wait}; exit 0"
    done = sandbox.program(["/bin/sh", "-c", script], 30.0)
    assert (done.status, done.value) == (DONE, 0) and done.cpu_s >= 0.05
    assert not loads.alive(int((tmp_path / "pid").read_text()))


def test_answers_go_to_who_asked() -> None:
    child, found = Child(), dict[float, object]()

    def ask(seconds: float) -> None:
        found[seconds] = child.ask(loads.busy, seconds).value

    threads = [threading.Thread(target=ask, args=(seconds,)) for seconds in (0.2, 0.05, 0.1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30.0)
    assert found == {0.2: 0.2, 0.05: 0.05, 0.1: 0.1}
    child.close()


def test_a_child_trains_as_this_process_does() -> None:
    for data in (DATA, prepared(n=60)):
        here, there = train(data, X, ()), train_within(data, X, "exact", Limits(60.0, 500.0))
        assert there.status == OK
        assert there.val_error.tolist() == here.val_error.tolist()
        assert there.test_error.tolist() == here.test_error.tolist()


def test_data_that_could_not_be_loaded_are_loaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not those of the problem before taken for them."""
    child, other = Child(quiet=True), prepared(n=60)
    monkeypatch.setattr("harness.training._child", child)
    train_within(DATA, X, "exact", Limits(60.0))
    ask = child.ask
    failed = Outcome(RAISED, MemoryError(), 0.1)
    monkeypatch.setattr(child, "ask", lambda function, *args, **more: failed)
    assert train_within(other, X, "exact", Limits(60.0)).status == OUT_OF_MEMORY
    monkeypatch.setattr(child, "ask", ask)
    again = train_within(other, X, "exact", Limits(60.0))
    assert again.status == OK and again.val_error.tolist() == train(other, X, ()).val_error.tolist()
    child.close()


def test_too_little_memory_is_a_status_and_the_next_training_succeeds() -> None:
    live = LiveProblem(prepared("multiclass", n=20_000, d=20, classes=12), 0, 64, "exact", None, 1.0)
    offer = live.candidates(5)
    outcome = live.evaluate(int(offer.ids[np.argmax(offer.unit[:, 0] + offer.unit[:, 6] + offer.unit[:, 5])]))
    assert outcome.status == OUT_OF_MEMORY
    assert np.isnan(outcome.error) and outcome.cost_s > 0
    assert train_within(DATA, X, "exact", Limits(60.0)).status == OK


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prepare", "limit_s", "status", "note"),
    [
        (loads.endless_training, 0.1, TIMEOUT, "the training process ended with SIGPROF(-27)"),
        (loads.killed_training, 5.0, OUT_OF_MEMORY, "the training process ended with SIGKILL(-9)"),
        (loads.slow_scoring, 0.4, OK, ""),  # not charged to the limit of the rounds
    ],
)
def test_the_system_ends_what_exceeds_its_limit(
    prepare: Callable[[], None], limit_s: float, status: str, note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = Child(quiet=True)
    monkeypatch.setattr("harness.training._child", child)
    child.ask(prepare)
    result = train_within(DATA, X, "exact", Limits(limit_s))
    assert (result.status, result.note, len(result.rounds)) == (status, note, int(status == OK))
    assert (limit_s if status == TIMEOUT else 0.0) <= result.spent_cpu_s < (limit_s if status == OK else 30.0)
    child.close()

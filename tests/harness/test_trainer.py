"""Limits on trainings hold whatever the training does: the system ends the child process."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fakes import prepared

from harness.execution.sandbox import Limits, Trainer
from harness.live import LiveProblem
from harness.problem import OK, OUT_OF_MEMORY, TIMEOUT
from harness.training import train

X = np.array([20, 0.3, 0.0, 0.01, 1.0, 1.0, 3])
DATA = prepared()


@pytest.fixture(scope="module")
def trainer() -> Iterator[Trainer]:
    made = Trainer()
    yield made
    made.close()


def pid(trainer: Trainer) -> int:
    assert trainer._child is not None
    return trainer._child.pid


def test_a_child_trains_as_this_process_does_and_is_kept(trainer: Trainer) -> None:
    here = train(DATA, X, ())
    there = trainer.train(DATA, X, "exact", Limits(60.0, 500.0))
    first = pid(trainer)
    assert there.status == OK
    assert there.val_error.tolist() == here.val_error.tolist()
    assert there.test_error.tolist() == here.test_error.tolist()
    other = prepared(n=60)
    assert trainer.train(other, X, "exact", Limits(60.0)).val_error.tolist() == train(other, X, ()).val_error.tolist()
    assert pid(trainer) == first != os.getpid()


def test_too_little_memory_is_a_status_and_the_next_training_succeeds(trainer: Trainer) -> None:
    data = prepared("multiclass", n=20_000, d=20, classes=12)
    deep = np.array([30, 0.3, 0.0, 1e-3, 1e-3, 1.0, 16])
    result = trainer.train(data, deep, "exact", Limits(memory_mb=1.0))
    assert result.status == OUT_OF_MEMORY
    assert len(result.rounds) == 0 and result.spent_cpu_s > 0
    assert trainer.train(DATA, X, "exact", Limits(60.0)).status == OK


def test_live_problems_with_a_memory_limit(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.execution.sandbox._trainer", trainer)
    live = LiveProblem(prepared("multiclass", n=20_000, d=20, classes=12), 0, 64, "exact", None, 1.0)
    offer = live.candidates(5)
    longest = int(np.argmax(offer.unit[:, 0] + offer.unit[:, 6] + offer.unit[:, 5]))
    outcome = live.evaluate(int(offer.ids[longest]))
    assert outcome.status == OUT_OF_MEMORY
    assert np.isnan(outcome.error) and outcome.cost_s > 0


def test_a_child_that_is_killed_was_out_of_memory(trainer: Trainer) -> None:
    child = trainer._ready(DATA)
    os.kill(child.pid, signal.SIGKILL)
    while Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "_ready", lambda data: child)
        result = trainer.train(DATA, X, "exact", Limits(5.0))
    assert (result.status, result.note) == (OUT_OF_MEMORY, "the training process ended with SIGKILL")
    assert result.spent_cpu_s > 0


def test_the_system_ends_a_round_that_does_not_end(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that works on without ever looking at the clock: the kernel's CPU limit ends it."""
    trainer.close()
    monkeypatch.setattr("harness.execution.sandbox.SERVE", ENDLESS)
    result = trainer.train(DATA, X, "exact", Limits(seconds=0.1))
    assert result.status == TIMEOUT
    assert "SIGPROF" in result.note
    assert 0.1 <= result.spent_cpu_s < 30


def test_scoring_is_not_charged_to_the_limit_of_the_rounds(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer.close()
    monkeypatch.setattr("harness.execution.sandbox.SERVE", SLOW_SCORING)
    result = trainer.train(DATA, X, "exact", Limits(seconds=0.5))
    assert (result.status, len(result.rounds)) == (OK, 1)
    assert result.spent_cpu_s < 0.5
    trainer.close()


def test_a_child_does_not_outlive_a_parent_that_was_killed(tmp_path: Path) -> None:
    """Its training never ends, and it reads nothing; the parent is gone without a word."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    time.sleep(0.3)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until = time.monotonic() + 10
    while _alive(child) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _alive(child)


def _alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


SLOW_SCORING = """
import time
import harness.execution.sandbox as trainee
import harness.training as training

scores = training._scores

def slow(*arguments):
    end = time.process_time() + 1.5
    while time.process_time() < end:
        pass
    return scores(*arguments)

training._scores, trainee._BEYOND_S = slow, 0
trainee.serve()
"""


PARENT = """
import os, subprocess, sys, time
serve = "import harness.execution.sandbox as t; t.pickle.load = lambda stream: [None for _ in iter(int, 1)]; t.serve()"
child = subprocess.Popen([sys.executable, "-c", serve, str(os.getpid())], stdin=subprocess.PIPE)
print(child.pid, flush=True)
time.sleep(60)
"""


ENDLESS = """
import harness.execution.sandbox as trainee

def endless(*arguments, **more):
    while True:
        pass

trainee.train = endless
trainee._BEYOND_S = 0
trainee.serve()
"""

"""The time left, by the rate of what is worked on together, starting up apart."""

import time
from pathlib import Path

import numba
import numpy as np
import pytest
from fakes import make_tables
from test_study import grid

from harness import progress
from harness.compile_cache import clock_s, compiled
from harness.execution import serial
from harness.progress import Progress
from harness.study import blocks, run_study


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


def test_starting_up_is_no_part_of_the_rate(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(6, "blocks", "ei", at_once=2) as shown:
        for now in (200.0, 201.0, 231.0, 261.0, 262.0, 292.0):  # 100 s of starting up, then 2 blocks in a minute
            clock.now = now
            shown.advance()
    assert capsys.readouterr().err.splitlines() == [
        "ei 1/6 blocks",
        "ei 3/6 blocks, 1 min 30 s left",
        "ei 4/6 blocks, 1 min 0 s left",
        "ei 6/6 blocks, 0 s left",
    ]


def test_the_caller_may_know_better(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(2, "blocks") as shown:
        for left in (75.0, 0.0):
            clock.now += 40
            shown.advance(left, "(a note)")
    assert capsys.readouterr().err.splitlines() == [
        "1/2 blocks, 1 min 15 s left (a note)",
        "2/2 blocks, 0 s left (a note)",
    ]


def test_time_spent_compiling_is_not_counted() -> None:
    began, clock, before = time.perf_counter(), clock_s(), compiled()
    numba.njit(lambda x: np.sqrt(x) + 1.0)(np.ones(3))
    counted, passed = clock_s() - clock, time.perf_counter() - began
    assert compiled() > before
    assert 0.0 <= counted < 0.2 * passed


def test_a_study_goes_by_the_seconds_of_its_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = list[float]()
    monkeypatch.setattr(Progress, "advance", lambda self, left_s=None, note="": left.append(left_s))
    tables = make_tables(tmp_path / "tables", ["a/p", "b/p"], 24)
    todo, _ = blocks(grid(tables, iterations=6), tmp_path / "results")
    report = run_study(todo, 0, serial(), "ei")
    assert len(left) == len(todo) == 4 and left[-1] == 0.0
    assert 0.0 < left[0] < 3 * report.seconds <= 3 * report.wall_s

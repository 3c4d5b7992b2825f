"""The results directory: one writer at a time, damage moved aside, status, checkpoints, interruptions, progress."""

import errno
import fcntl
import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_lines import ENVIRONMENT, CommandLines
from forked import STUDY, Forked
from study_cases import contents, grid

from harness import progress, records
from harness.errors import BadInput
from harness.execution import serial
from harness.problem import Candidates, Evaluation, Problem
from harness.progress import Progress
from harness.records import TARGET, read_traces, specs, trace_files, versions
from harness.results_dir import (
    FOLDER,
    Checkpointed,
    check_made_with,
    is_locked,
    locked,
    path_of,
    read_failed,
    remove_checkpoint,
    repair,
    saved_evaluations,
    write_failed,
    write_plan,
)
from harness.space import XGBOOST_SPACE
from harness.status import lines, read_status
from harness.study import blocks, run_study


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    results = tmp_path / "r"
    assert not is_locked(results)
    with locked(results):
        assert is_locked(results)
        with pytest.raises(BadInput, match=rf"another study is writing to .*process {os.getpid()} on .*wait for it"):
            locked(results).__enter__()
    assert not is_locked(results)
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="results_dir: cannot write to"):
        locked(tmp_path / "file").__enter__()


def test_who_asks_whether_a_study_runs_stops_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`is_locked` holds the lock itself for an instant: here, until the study has tried and waits."""
    (tmp_path / FOLDER).mkdir()
    with (tmp_path / FOLDER / "lock").open("a") as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        monkeypatch.setattr("harness.results_dir.time.sleep", lambda seconds: fcntl.flock(asking, fcntl.LOCK_UN))
        with locked(tmp_path):
            assert is_locked(tmp_path)


def test_a_file_system_without_locks_is_named_and_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("harness.results_dir.fcntl.flock", refuse)
    with locked(tmp_path / "r"):
        write_plan(tmp_path / "r", [], 1)
    assert f"r cannot be locked ({os.strerror(errno.ENOLCK)}): see that no other study" in capsys.readouterr().err


def test_damaged_records_are_moved_aside_and_done_again_to_the_same_bytes(tables: Path, tmp_path: Path) -> None:
    study = grid(tables, iterations=6)
    run_study(blocks(study, tmp_path)[0], 0, serial(), "test")
    before = contents(tmp_path)
    paths = trace_files(tmp_path)
    flipped = bytearray(paths[0].read_bytes())
    flipped[len(flipped) // 2] ^= 1
    paths[0].write_bytes(flipped)
    paths[1].write_bytes(paths[1].read_bytes()[:-100])
    (paths[0].parent / ".seeds-9.parquet.abc.tmp").write_bytes(b"half")
    (tmp_path / ".mine.tmp").write_bytes(b"not ours")
    notes, made = repair(tmp_path)
    ours = versions()
    assert made == [ours] and check_made_with(tmp_path, made, ours) == []
    assert [note.partition(" (")[0] for note in notes] == [f"damaged record {p}" for p in paths[:2]]
    assert paths[0].with_name(f"{paths[0].name}.damaged").read_bytes() == flipped
    assert not list(tmp_path.rglob(".seeds*.tmp")) and (tmp_path / ".mine.tmp").exists()
    todo, skipped = blocks(study, tmp_path)
    assert (len(todo), skipped) == (2, 4)
    run_study(todo, skipped, serial(), "test")
    assert contents(tmp_path) == before
    with pytest.raises(BadInput, match=r"code compiled for a-1 and b-2, here it is compiled for "):
        check_made_with(tmp_path, [{TARGET: name} for name in ("b-2", ours[TARGET], "a-1")], ours)
    (note,) = check_made_with(tmp_path, [ours, {**ours, "numpy": "1.0"}, {}], ours)
    assert f"holds records made with numpy 1.0 (here {ours['numpy']}): last digits may differ" in note
    paths[2].rename(paths[1])
    with pytest.raises(BadInput, match=r"foreign record .*its spec is [0-9a-f]{16}, its name says"):
        repair(tmp_path)


def test_status(tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="no study in"):
        read_status(tmp_path / "r")
    results = tmp_path / "r"
    todo, _ = blocks(grid(tables, iterations=6), results)
    rows = [block.row() for block in todo]
    with locked(results):
        write_plan(results, rows, 2)
        run_study([todo[0]], 0, serial(), "")
        write_failed(results, rows[1], "its workers died")
        status = read_status(results)
    assert status.running
    assert (status.total.done, status.total.missing, status.total.failed) == (2, 4, 2)
    assert (status.by["dataset"]["a"].failed, status.by["dataset"]["b"].missing) == (2, 4)
    assert status.seconds_left == pytest.approx(4 * status.total.seconds / 2) and status.total.seconds > 0
    plain = json.loads(json.dumps(status.as_json()))
    assert plain["wall_seconds_left"] == pytest.approx(plain["seconds_left"] / 2)
    text = "\n".join(lines(status))
    assert "2 runs done, 4 missing, 2 set aside" in text and "its workers died" in text
    write_plan(results, rows[1:], 2)  # the next start tries again what was set aside
    assert read_failed(results) == []
    run_study(todo[1:], 0, serial(), "")
    trace_files(results)[0].write_bytes(b"garbage")
    odd = [3, {"folder": 1}, *({**rows[0], **wrong} for wrong in ({"seeds": 3}, {"seeds": ["a"]}, {"folder": None}))]
    (results / FOLDER / "plan.json").write_text(json.dumps({"blocks": odd, "workers": -1}))
    status = read_status(results)
    assert (status.running, status.total.done, len(status.damaged), status.workers) == (False, 6, 1, 1)
    monkeypatch.setattr(records, "RECORD_SCHEMA", 1)
    with pytest.raises(BadInput, match="has record schema 2, this version reads 1"):
        read_status(results)


def test_a_run_counts_once_in_overlapping_plans_and_is_done_with_its_fronts(tables: Path, tmp_path: Path) -> None:
    def total(fronts: bool, *seeds: int) -> tuple[int, int, int]:
        study = replace(grid(tables, seeds=seeds, iterations=6), fronts=fronts)
        todo = [b for b in blocks(study, tmp_path)[0] if (b.spec["dataset"], b.spec["method"]) == ("a", "ei")]
        write_plan(tmp_path, [block.row() for block in todo], 1)
        found = read_status(tmp_path).total
        todos.append(todo)
        return found.done, found.missing, found.failed

    todos: list = []
    assert [total(False, 0), total(False, 0, 1), total(False, 0, 1, 2)] == [(0, 1, 0), (0, 2, 0), (0, 3, 0)]
    write_failed(tmp_path, todos[1][0].row(), "its workers died")
    assert [vars(read_status(tmp_path).total)[name] for name in ("missing", "failed")] == [1, 2]
    run_study(todos[2], 0, serial(), "")
    assert total(True, 0) == (2, 1, 0)
    run_study(todos[3], 0, serial(), "")
    assert total(False, 0, 1, 2) == (3, 0, 0)


def test_methods_are_told_apart_by_the_components_in_which_they_differ(tables: Path, tmp_path: Path) -> None:
    one = grid(tables, seeds=(0,), iterations=6)
    other = replace(one, names=one.names | {"cost_model": "gp"})
    todo = [blocks(study, tmp_path)[0][0] for study in (one, other)]
    with locked(tmp_path):
        write_plan(tmp_path, [block.row() for block in todo], 1)
        run_study(todo[:1], 0, serial(), "")
        write_failed(tmp_path, todo[1].row(), "its workers died")
        status = read_status(tmp_path)
    assert sorted(status.by["method"]) == ["ei cost_model=gp", "ei cost_model=lv1"]
    assert "set aside: a/p ei cost_model=gp seeds [0]: its workers died" in "\n".join(lines(status))


# Checkpoints of live runs.

SPEC = {"dataset": "d", "pipeline": "p", "method": "ei", "iterations": 4}


class Counted(Problem):
    """A problem that notes the candidates it is asked for."""

    name, space = "d/p", XGBOOST_SPACE

    def __init__(self, failed: tuple[int, ...] = ()) -> None:
        self.asked: list[int] = []
        self._failed = failed

    def initial(self, n: int) -> Candidates:
        return self.candidates(0)

    def candidates(self, step: int) -> Candidates:
        return Candidates(np.arange(3), XGBOOST_SPACE.sobol(3, step))

    def evaluate(self, candidate: int) -> Evaluation:
        self.asked.append(candidate)
        if candidate in self._failed:
            return Evaluation(float("nan"), 1.0, float("nan"), 1.0, "failed")
        return Evaluation(1.0 / (1 + candidate), 0.1 + len(self.asked), 0.5, 1.0)


def opened(folder: Path, *failed: int) -> tuple[Counted, Checkpointed]:
    (folder / FOLDER).mkdir(exist_ok=True)
    problem = Counted(failed)
    return problem, Checkpointed(problem, folder, SPEC, 0, price_per_hour=900.0)


def test_saved_evaluations_are_not_made_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem, checkpointed = opened(tmp_path)
    first = [checkpointed.evaluate(i) for i in (0, 2)]
    checkpointed.close()
    assert saved_evaluations(tmp_path) == 2
    with path_of(tmp_path, SPEC, 0).open("ab") as file:
        file.write(b'{"candidate": 1, "err')  # killed while writing
    problem, checkpointed = opened(tmp_path)
    assert [checkpointed.evaluate(i) for i in (0, 2)] == first and problem.asked == []
    capsys.readouterr()
    assert checkpointed.evaluate(1).error == 0.5 and problem.asked == [1]
    checkpointed.evaluate(0)
    assert (
        "evaluation 4/4, best error 0.33333, 6 s (1.60 in money) of training, about 0 s (0.00 in money) left"
        in capsys.readouterr().err
    )
    checkpointed.close()
    problem, checkpointed = opened(tmp_path)
    checkpointed.evaluate(0)
    checkpointed.evaluate(1)  # another choice than then: the rest is given up
    assert problem.asked == [1] and saved_evaluations(tmp_path) == 2
    checkpointed.close()
    written = path_of(tmp_path, SPEC, 0).read_bytes()
    assert [json.loads(line[9:])["candidate"] for line in written.splitlines()[1:]] == [0, 1]
    for damaged in (written.replace(b'"error": 0.5', b'"error": 0.4'), written[:-50] + bytes(49) + b"\n"):
        path_of(tmp_path, SPEC, 0).write_bytes(damaged)  # its line and what follows are made again
        problem, checkpointed = opened(tmp_path)
        assert "its checkpoint is damaged: 1 evaluation of 2 made again" in capsys.readouterr().err
        assert [checkpointed.evaluate(i).error for i in (0, 1)] == [1.0, 0.5] and problem.asked == [1]
        checkpointed.close()
    remove_checkpoint(tmp_path, SPEC, [0])
    assert saved_evaluations(tmp_path) == 0


def test_a_failure_is_not_the_best_and_other_versions_begin_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, checkpointed = opened(tmp_path, 0)
    for i in (0, 2, 0, 1):
        checkpointed.evaluate(i)
    checkpointed.close()
    assert "evaluation 4/4, best error 0.33333, " in capsys.readouterr().err
    monkeypatch.setattr("harness.results_dir.libraries", lambda: {"numpy": "0"})
    problem, checkpointed = opened(tmp_path)
    checkpointed.evaluate(0)
    checkpointed.close()
    assert problem.asked == [0] and saved_evaluations(tmp_path) == 1
    (aside,) = (tmp_path / FOLDER).glob("*.other-versions")
    said = f"4 evaluations made with other versions of the libraries: kept in {aside}, made again"
    assert said in capsys.readouterr().err and len(aside.read_bytes().splitlines()) == 5
    monkeypatch.undo()
    opened(tmp_path)[1].close()
    assert {path.suffix for path in (tmp_path / FOLDER).glob("live-*versions*")} == {".other-versions", ".2"}


@pytest.mark.slow
def test_an_interrupted_live_run_trains_nothing_twice(
    tmp_path: Path, command_line: CommandLines, studies: Forked
) -> None:
    x = np.random.default_rng(0).uniform(size=(200, 3))
    pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": x @ np.arange(3.0)}).to_csv(tmp_path / "my.csv")
    run = ["dataset=csv", "dataset.path=my.csv", "dataset.target=y", "+acq=ei", "evaluator.n_candidates=64"]
    results, deadline = tmp_path / "results", time.monotonic() + 300

    def interrupted(trainings: int) -> str:
        long = ("iterations=2000", "executor=serial")
        process = studies.start(STUDY, *run, *long, cwd=tmp_path, environment=ENVIRONMENT)
        while saved_evaluations(results) < trainings and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        assert process.poll() is None, process.err.read_text()
        os.kill(process.pid, signal.SIGINT)
        assert process.wait() == 130, process.err.read_text()
        return process.err.read_text()

    err = interrupted(8)
    assert "my.csv/clean ei seed 0: evaluation" in err
    assert "trainings of unfinished runs are kept: the same command goes on from them" in err
    checkpoint = next((results / FOLDER).glob("live-*"))
    written = checkpoint.read_text().splitlines()
    short = command_line("harness", *run, "iterations=7", "executor=serial", cwd=tmp_path)  # of another spec
    assert short.returncode == 0, short.stderr
    assert [path.name for path in (results / FOLDER).glob("live-*")] == [checkpoint.name]
    assert len(specs(results)) == 1 and len(read_traces(results)) == 7
    interrupted(len(written) + 2)
    assert checkpoint.read_text().splitlines()[: len(written)] == written


# The time left.


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


def test_the_time_left_is_by_the_rate_after_starting_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "time", clock := Clock())
    with Progress(6, "blocks", "ei", at_once=2) as shown:
        for now in (200.0, 201.0, 231.0, 261.0, 262.0, 292.0):  # 100 s of starting up, then 2 blocks in a minute
            clock.now = now
            shown.advance()
    reported = ["ei 1/6 blocks", "ei 3/6 blocks, 1 min 30 s left", "ei 4/6 blocks, 1 min 0 s left"]
    assert capsys.readouterr().err.splitlines() == [*reported, "ei 6/6 blocks, 0 s left"]
    with Progress(1, "blocks") as shown:
        clock.now += 40
        shown.advance(75.0, "(a note)")
    assert capsys.readouterr().err.splitlines() == ["1/1 blocks, 1 min 15 s left (a note)"]

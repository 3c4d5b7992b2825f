"""One writer at a time, what is damaged is moved aside, and the status tells what there is."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_lines import ENVIRONMENT, without_notice
from fakes import make_tables
from test_study import contents, grid

from datasets.errors import BadInput
from harness import records
from harness.execution import serial
from harness.records import TARGET, libraries, versions
from harness.results_dir import (
    FOLDER,
    check_compiled_for,
    is_locked,
    locked,
    read_failed,
    repair,
    write_failed,
    write_plan,
)
from harness.status import lines, read_status
from harness.study import blocks, run_study


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tables(tmp_path_factory.mktemp("tables"), ["a/p", "b/p"], 24)


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    results = tmp_path / "r"
    assert not is_locked(results)
    with locked(results):
        assert is_locked(results)
        with pytest.raises(BadInput, match=rf"another study is writing to .*process {os.getpid()} on .*wait for it"):
            locked(results).__enter__()
    assert not is_locked(results)
    with locked(results):
        pass


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK])
def test_a_file_system_without_locks_is_told_and_used(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("harness.results_dir.fcntl.flock", refuse)
    with locked(tmp_path / "r"):
        write_plan(tmp_path / "r", [], 1)
    assert f"r cannot be locked ({os.strerror(number)}): see that no other study" in capsys.readouterr().err


def test_a_disk_full_from_the_start_is_one_line(tmp_path: Path) -> None:
    full = """
import errno, harness.results_dir
def refuse(*_):
    raise OSError(errno.ENOSPC, "No space left")
harness.results_dir.write_atomically = refuse"""
    run = "import runpy, sys; sys.argv = ['harness', *sys.argv[1:]]; runpy.run_module('harness', run_name='__main__')"
    tables = make_tables(tmp_path / "tables", ["abalone/clean"], 12)
    settings = [f"evaluator.tables={tables}", "dataset=[abalone]", "pipeline=[clean]", "seeds=[0]", "+acq=ei"]
    done = subprocess.run(
        [sys.executable, "-c", f"{full}\n{run}", *settings, f"results_dir={tmp_path / 'r'}", "executor=serial"],
        capture_output=True, text=True, env=ENVIRONMENT, check=False,
    )  # fmt: skip
    assert (done.returncode, without_notice(done.stderr).splitlines()) == (
        2, [f"error: results_dir: cannot write to {tmp_path / 'r'}: No space left"]
    )  # fmt: skip


def test_what_was_made_for_nothing_is_removed(tmp_path: Path) -> None:
    with pytest.raises(BadInput), locked(tmp_path / "r"):
        raise BadInput("no such table")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "r").mkdir()
    with pytest.raises(BadInput), locked(tmp_path / "r"):
        raise BadInput("no such table")
    assert (tmp_path / "r").exists()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="results_dir: cannot write to"):
        locked(tmp_path / "file").__enter__()


def test_damaged_records_are_moved_aside_and_done_again_to_the_same_bytes(tables: Path, tmp_path: Path) -> None:
    study = grid(tables, iterations=6)
    run_study(blocks(study, tmp_path)[0], 0, serial(), "test")
    before = contents(tmp_path)
    paths = sorted(p for p in tmp_path.rglob("seeds-*.parquet") if "timings" not in p.name)
    flipped = bytearray(paths[0].read_bytes())
    flipped[len(flipped) // 2] ^= 1
    paths[0].write_bytes(flipped)
    paths[1].write_bytes(paths[1].read_bytes()[:-100])
    (paths[0].parent / ".seeds-9.parquet.abc.tmp").write_bytes(b"half")
    (tmp_path / ".mine.tmp").write_bytes(b"not ours")
    notes, targets = repair(tmp_path)
    assert targets == {versions()[TARGET]: 2}
    assert [note.partition(" (")[0] for note in notes] == [f"damaged record {p}" for p in paths[:2]]
    assert paths[0].with_name(f"{paths[0].name}.damaged").read_bytes() == flipped
    assert not list(tmp_path.rglob(".seeds*.tmp")) and (tmp_path / ".mine.tmp").exists()
    todo, skipped = blocks(study, tmp_path)
    assert (len(todo), skipped) == (2, 4)
    run_study(todo, skipped, serial(), "test")
    assert contents(tmp_path) == before
    paths[1].rename(paths[1].with_name("seeds-7.parquet"))
    paths[2].rename(paths[1])
    with pytest.raises(BadInput, match=r"foreign record .*its spec is [0-9a-f]{16}, its name says"):
        repair(tmp_path)


def test_records_of_two_targets_are_not_mixed(tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = grid(tables, iterations=6)
    run_study(blocks(first, tmp_path)[0], 0, serial(), "test")
    _, targets = repair(tmp_path)
    ours = versions()[TARGET]
    assert targets == {ours: 4}
    assert check_compiled_for(tmp_path, targets, ours) == ""
    with pytest.raises(
        BadInput, match=rf"results_dir: {tmp_path} holds .* for {ours}, here it is compiled for znver3-1,"
    ):
        check_compiled_for(tmp_path, targets, "znver3-1")
    with pytest.raises(BadInput, match=r"for a-1 and b-2, here"):
        check_compiled_for(tmp_path, {"b-2": 1, ours: 7, "a-1": 2}, ours)
    monkeypatch.setattr("harness.records.versions", libraries)  # as before targets were written down
    run_study(blocks(grid(tables, iterations=7), tmp_path)[0], 0, serial(), "test")
    _, targets = repair(tmp_path)
    assert targets == {ours: 4, "": 4}
    line = check_compiled_for(tmp_path, targets, ours)
    assert line.startswith(f"4 records in {tmp_path} do not say what they were compiled for: if that was not {ours}")


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
    assert status.by["method"]["ei"].done == 2
    assert status.total.seconds > 0
    assert status.seconds_left == pytest.approx(4 * status.total.seconds / 2)
    plain = json.loads(json.dumps(status.as_json()))
    assert plain["wall_seconds_left"] == pytest.approx(plain["seconds_left"] / 2)
    text = "\n".join(lines(status))
    assert "2 runs done, 4 missing, 2 set aside" in text and "its workers died" in text
    with locked(results):
        write_plan(results, rows[1:], 2)  # the next start tries again what was set aside
    assert read_failed(results) == []
    for block in todo:
        run_study([block], 0, serial(), "")
    status = read_status(results)
    assert (status.running, status.total.done, status.total.missing, status.total.failed) == (False, 8, 0, 0)
    path = next(p for p in results.rglob("seeds-*.parquet") if "timings" not in p.name)
    path.write_bytes(b"garbage")
    (results / FOLDER / "plan.json").write_text('{"blocks": [3, {"folder": 1}], "workers": -1}')
    status = read_status(results)
    assert (status.total.done, len(status.damaged), status.workers) == (6, 1, 1)
    monkeypatch.setattr(records, "RECORD_SCHEMA", 1)
    with pytest.raises(BadInput, match="has record schema 2, this version reads up to 1"):
        read_status(results)

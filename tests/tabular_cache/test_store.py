import itertools
import json
import re
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes import journal_line, make_tables
from forked import Forked

from datasets.errors import BadInput
from datasets.files import write_atomically
from tabular_cache.build import MeasurementBudget, Planner
from tabular_cache.measure import configuration
from tabular_cache.reference import own_cores
from tabular_cache.rows import to_rows
from tabular_cache.schema import METRICS, SCHEMA
from tabular_cache.store import Store
from tabular_cache.table import load_table, read_table
from tabular_cache.transfer import sources

PROBLEMS = [("a", "p"), ("b", "p"), ("c", "p")]


def test_a_journal_line_becomes_rows_to_the_last_bit() -> None:
    line = journal_line(5)
    rows = to_rows(line)
    assert rows.schema.names == SCHEMA.names
    for name in METRICS:
        assert np.array_equal(rows[name].to_numpy(), np.float32(line[name]))
    assert rows["n_estimators"].to_pylist() == line["rounds"]
    assert rows["own"].to_pylist() == [r == configuration(5)[0] for r in line["rounds"]]
    assert rows["subsample"].to_pylist() == [np.float32(configuration(5)[5])] * len(rows)


def test_a_failed_training_is_one_row_with_its_cost_and_no_error() -> None:
    line = journal_line(5, status="failed") | {"rounds": [], **{name: [] for name in METRICS}}
    rows = to_rows(line)
    assert len(rows) == 1
    assert rows["status"].to_pylist() == ["failed"]
    assert rows["own"].to_pylist() == [True]
    assert np.isnan(rows["val_error"].to_numpy()).all()
    assert rows["cpu_s"].to_pylist() == [np.float32(line["spent_cpu_s"])]


def test_packing_in_parts_gives_the_same_bytes_as_at_once(tmp_path: Path) -> None:
    once = make_tables(tmp_path / "once", ["a/p"], 12)
    store = Store(tmp_path / "parts")
    with store.locked():
        for config in (7, 3, 11, 0, 5):
            store.append("a/p", journal_line(config, "a/p"))
        store.pack("a/p")
        for config in (1, 2, 4, 6, 8, 9, 10):
            store.append("a/p", journal_line(config, "a/p"))
        store.pack("a/p")
    assert (once / "a--p.parquet").read_bytes() == (tmp_path / "parts" / "a--p.parquet").read_bytes()


def test_a_torn_last_line_loses_only_itself(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.locked():
        store.append("a/p", journal_line(0))
        path = tmp_path / "journal" / "a--p.jsonl"
        whole = path.read_bytes()
        path.write_bytes(whole + json.dumps(journal_line(1)).encode()[:100])  # killed while writing
        assert [line["config"] for line in store.lines("a/p")] == [0]
        store.append("a/p", journal_line(2))
        assert [line["config"] for line in store.lines("a/p")] == [0, 2]


def test_killed_between_packing_and_dropping_the_journal(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.locked():
        for config in range(4):
            store.append("a/p", journal_line(config))
        journal = (tmp_path / "journal" / "a--p.jsonl").read_bytes()
        store.pack("a/p")
        before = (tmp_path / "a--p.parquet").read_bytes()
        (tmp_path / "journal" / "a--p.jsonl").write_bytes(journal)
        Store(tmp_path).pack("a/p")
    assert (tmp_path / "a--p.parquet").read_bytes() == before


def test_breadth_first_by_machine_time(tmp_path: Path) -> None:
    """Each pass gives every problem about the same time: one that costs a tenth gets ten times the trainings."""
    store = Store(tmp_path)
    planner = Planner(store, PROBLEMS, MeasurementBudget(seconds=60, at_least=40, at_most=100), slice_s=10)
    with store.locked():
        for config, problem in itertools.product(range(32), ("a/p", "b/p", "c/p")):
            if (problem, config) != ("b/p", 7):
                core_s = {"a/p": 0.1, "b/p": 1.0, "c/p": 0.4}[problem]
                store.append(problem, journal_line(config, problem) | {"core_s": core_s})
        first = planner.next_pass()  # nothing is packed yet: all is to be done
        assert [task.config for task in first if task.problem == "a/p"] == list(range(32))
        for problem in ("a/p", "b/p", "c/p"):
            store.pack(problem)
        seen = {p: [task.config for task in planner.next_pass() if task.problem == p] for p in ("a/p", "b/p", "c/p")}
    assert seen["a/p"] == list(range(32, 100))  # 10 s of 0.1 s each would be 100 more: at_most ends it
    assert seen["b/p"] == [7]  # first the rest of its pilot
    assert seen["c/p"] == list(range(32, 57))  # 10 s of 0.4 s each


def test_a_problem_has_had_its_share(tmp_path: Path) -> None:
    share = MeasurementBudget(seconds=60, at_least=40, at_most=100)
    assert not share.done(39, 1e6)
    assert share.done(40, 60)
    assert not share.done(99, 59)
    assert share.done(100, 1)
    store = Store(tmp_path)
    with store.locked():
        for config in range(40):
            store.append("a/p", journal_line(config) | {"core_s": 1.0})
        store.pack("a/p")
        planner = Planner(store, [("a", "p")], share)
        assert planner.core_seconds_left() == pytest.approx(20.0)
        assert [task.config for task in planner.next_pass()] == list(range(40, 60))


def test_what_raised_is_not_planned_again(tmp_path: Path) -> None:
    planner = Planner(Store(tmp_path), [("a", "p")], MeasurementBudget(0, 3, 3))
    planner.given_up.add(("a/p", 1))
    assert [task.config for task in planner.next_pass()] == [0, 2]


def test_trainings_on_other_data_do_not_come_into_a_table(tmp_path: Path) -> None:
    """Neither one by one, nor by a journal that an earlier build left; where the table was moved away, they do."""

    def line(config: int, data: str) -> dict[str, Any]:
        one = journal_line(config)
        return {**one, "problem": {**one["problem"], "data_hash": data}}

    told = r"a/p was measured on other data before \(data_hash (one|other), now (one|other)\)"
    store = Store(tmp_path)
    with store.locked():
        store.append("a/p", line(0, "one"))
        with pytest.raises(BadInput, match=told):
            store.append("a/p", line(1, "other"))
        store.pack("a/p")
        before = (tmp_path / "a--p.parquet").read_bytes()
        for again in (store, Store(tmp_path)):
            with pytest.raises(BadInput, match=told):
                again.append("a/p", line(1, "other"))
        journal = tmp_path / "journal" / "a--p.jsonl"
        journal.write_text(json.dumps(line(1, "other")) + "\n")
        with pytest.raises(BadInput, match=told):
            Store(tmp_path).pack("a/p")
        assert (tmp_path / "a--p.parquet").read_bytes() == before and journal.exists()
        (tmp_path / "a--p.parquet").rename(tmp_path / "away")
        Store(tmp_path).pack("a/p")
        assert load_table("a/p", tmp_path).meta["data_hash"] == "other"
        journal.write_text(json.dumps(line(2, "other")) + "\n" + json.dumps(line(3, "one")) + "\n")
        with pytest.raises(BadInput, match=told):
            Store(tmp_path).pack("a/p")


def test_a_table_that_a_killed_build_left_half_written_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(path: Path, content: bytes) -> None:
        if when == "before the table" and path.suffix == ".parquet":
            raise KeyboardInterrupt
        write_atomically(path, content)
        if path.suffix == ".parquet":
            raise KeyboardInterrupt

    store = Store(tmp_path)
    told = r"table of a/p is half written, .* `python -m tabular_cache build dataset=\[a\] pipeline=\[p\] tables="
    with store.locked():
        store.append("b/p", journal_line(0, "b/p"))
        store.pack("b/p")
        for when, config in (("before the table", 0), ("after it", 1), ("before the table", 2), ("after it", 3)):
            store.append("a/p", journal_line(config))
            with monkeypatch.context() as patch:
                patch.setattr("tabular_cache.store.write_atomically", killed)
                with pytest.raises(KeyboardInterrupt):
                    store.pack("a/p")
            if (when, config) == ("before the table", 2):  # the table of before, and its checksum, are there still
                assert load_table("a/p", tmp_path).meta["configs"] == 2
            else:
                with pytest.raises(BadInput, match=told):
                    load_table("a/p", tmp_path)
            if config < 2:
                with pytest.raises(BadInput, match=told):
                    sources(tmp_path)
                assert load_table("b/p", tmp_path).meta["configs"] == 1
            if when == "after it":
                Store(tmp_path).pack("a/p")
                store = Store(tmp_path)
                assert load_table("a/p", tmp_path).meta["configs"] == config + 1
    assert set(sources(tmp_path)) == {"a/p", "b/p"}


def test_what_a_limit_cut_short_is_done_again_only_under_a_higher_one(tmp_path: Path) -> None:
    store = Store(tmp_path)
    cut = journal_line(3, status="timeout")
    with store.locked():
        store.append("a/p", cut)
        store.append("a/p", journal_line(4))
        store.pack("a/p")
        limit = cut["spent_cpu_s"]
        assert set(store.done("a/p", limit * 0.9)) == {3, 4}
        assert set(store.done("a/p", limit * 1.1)) == {4}
        assert set(store.done("a/p", None)) == {4}
        store.append("a/p", journal_line(3))
        store.pack("a/p")
        assert set(store.done("a/p", None)) == {3, 4}
    read_table.cache_clear()
    table = read_table("a/p", tmp_path)
    assert table.measured.all()
    assert table.meta["configs"] == 2


def test_the_way_to_a_missing_table_is_told(tmp_path: Path) -> None:
    store = Store(tmp_path, "hist")
    with store.locked():
        store.append("a/p", journal_line(0))
        store.pack("a/p")
    with pytest.raises(BadInput, match="of tree_method hist; give tables=DIR for exact"):
        Store(tmp_path, "exact")
    command = f"build dataset=[b] pipeline=[p] tables={tmp_path} tree_method=hist`"
    with pytest.raises(BadInput, match=re.escape(command)):
        read_table("b/p", tmp_path)


def test_one_builder_at_a_time(tmp_path: Path) -> None:
    with Store(tmp_path).locked(), pytest.raises(BadInput, match="another build is writing"), Store(tmp_path).locked():
        pass


def test_a_damaged_table_stops_the_builder(tmp_path: Path) -> None:
    make_tables(tmp_path, ["a/p"], 2)
    (tmp_path / "a--p.parquet").write_bytes(b"nonsense")
    told = r"is damaged or foreign: .* `python -m tabular_cache build dataset=\[a\] pipeline=\[p\] tables="
    with pytest.raises(BadInput, match=told):
        Store(tmp_path).done("a/p", None)


def test_a_changed_table_stops_the_builder_too(tmp_path: Path) -> None:
    """A file that can be read but is not what was packed: packing more would vouch for it with a new checksum."""
    store = Store(tmp_path)
    with store.locked():
        store.append("a/p", journal_line(0))
        store.pack("a/p")
        path = tmp_path / "a--p.parquet"
        rows = pq.read_table(path)
        where = rows.schema.get_field_index("val_error")
        field = rows.schema.field(where)
        pq.write_table(rows.set_column(where, field, pa.array(np.zeros(len(rows)), field.type)), path)
        store.append("a/p", journal_line(1))
        for opened in (store, Store(tmp_path)):
            with pytest.raises(BadInput, match="its checksum is not that of the manifest"):
                opened.pack("a/p")


def test_a_table_that_was_moved_away_is_measured_anew(tmp_path: Path) -> None:
    """Neither what it had cost nor what it had counts any more; its time limit does."""
    store = Store(tmp_path)
    share = MeasurementBudget(seconds=60, at_least=40, at_most=100)
    with store.locked():
        for config in range(40):
            store.append("a/p", journal_line(config) | {"core_s": 2.0})
        store.pack("a/p")
        planner = Planner(store, [("a", "p")], share)
        assert planner.next_pass() == []
        limit = planner.limit("a/p")
        (tmp_path / "a--p.parquet").unlink()
        assert [task.config for task in planner.next_pass()] == list(range(32))
        store.append("a/p", journal_line(0) | {"core_s": 2.0})
        store.pack("a/p")
        entry = store.manifest["tables"]["a/p"]
        assert (entry["configs"], entry["core_s"], entry.get("time_limit_s")) == (1, 2.0, limit)
        del entry["time_limit_s"]
        entry["configs"] = 40  # as it was when the table was moved away before a limit was set
        (tmp_path / "a--p.parquet").unlink()
        assert planner.limit("a/p") == share.floor_s


def test_no_training_is_planned_beyond_the_most(tmp_path: Path) -> None:
    """More are done than are asked for now, and some of them wait for a higher limit."""
    store = Store(tmp_path)
    with store.locked():
        for config in range(60):
            store.append("a/p", journal_line(config, status="timeout" if config == 7 else "ok"))
        store.pack("a/p")
        assert [t.config for t in Planner(store, [("a", "p")], MeasurementBudget(0, 50, 50), None).next_pass()] == []


def test_killed_between_the_table_and_the_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, whole = Store(tmp_path / "killed"), Store(tmp_path / "whole")
    with store.locked(), whole.locked():
        for part in (range(2), range(2, 4)):
            for one in (store, whole):
                for config in part:
                    one.append("a/p", journal_line(config))
            whole.pack("a/p")
            with monkeypatch.context() as patch:
                written: list[int] = []

                def die(self: Store, written: list[int] = written, real: Any = Store.write_manifest) -> None:
                    if written:
                        raise KeyboardInterrupt
                    written.append(1)
                    real(self)

                patch.setattr(Store, "write_manifest", die)
                with pytest.raises(KeyboardInterrupt):
                    store.pack("a/p")
            store = Store(tmp_path / "killed")
            assert len(store.done("a/p", None)) == max(part) + 1
            store.pack("a/p")
    names = ("a--p.parquet", "manifest.json")
    assert [(tmp_path / "killed" / n).read_bytes() for n in names] == [
        (tmp_path / "whole" / n).read_bytes() for n in names
    ]


BUILD = """
import sys, time
from pathlib import Path
import tabular_cache.build as build_module
from harness.execution import serial
from tabular_cache import noise
from tabular_cache.build import MeasurementBudget as Allowance
from tabular_cache.build import Builder
from tabular_cache.build import Planner
from tabular_cache.reference import LoadMonitor as Watch
from tabular_cache.store import Store
from fakes import journal_line

def slow(task):  # stands in for a training: the same line for the same task
    time.sleep(0.02)
    return journal_line(task.config, task.problem) | {"ended": 1_700_000_000.1 + task.config}

build_module.measure = slow
build_module.time_reference = lambda: (0.5, 0.5)
noise.REPEATS = 1
store = Store(Path(sys.argv[1]))
with store.locked(), Watch(count=lambda: 1.0) as watch:
    for name in ("a/p", "b/p"):
        store.pack(name)
    planner = Planner(store, [("a", "p"), ("b", "p")], Allowance(0, 24, 24))
    print("planned", len(planner.next_pass()), flush=True)
    Builder(planner, serial(), 1, watch).run(max_passes=9)
"""


def test_kill_9_loses_and_repeats_no_finished_training(tmp_path: Path) -> None:
    def finished() -> int:
        store = Store(tmp_path / "t")
        journalled = {(p, line["config"]) for p in ("a/p", "b/p") for line in store.lines(p)}
        packed = {(p, c) for p in ("a/p", "b/p") for c in store.done(p, None)}
        return len(journalled | packed)

    with Forked("import fakes, tabular_cache.build, tabular_cache.noise, tabular_cache.reference") as forked:
        for _ in range(3):
            before = finished() if (tmp_path / "t").exists() else 0
            process = forked.start(BUILD, str(tmp_path / "t"))
            while (kept := finished() if (tmp_path / "t").exists() else 0) <= before and process.poll() is None:
                time.sleep(0.1)
            assert process.kill() == -signal.SIGKILL
            planned = process.out.read_text().splitlines()[0]
            assert planned == f"planned {48 - before}"  # nothing finished is planned again
            assert finished() >= kept > before
        assert forked.start(BUILD, str(tmp_path / "t")).wait() == 0
    busy = round(1 / len(own_cores()), 3)
    undisturbed = Store(tmp_path / "undisturbed")
    with undisturbed.locked():
        for problem in ("a/p", "b/p"):
            for config in range(24):
                undisturbed.append(problem, journal_line(config, problem) | {"busy": busy})
            undisturbed.pack(problem)
    for name in ("a--p.parquet", "b--p.parquet"):
        assert (tmp_path / "t" / name).read_bytes() == (tmp_path / "undisturbed" / name).read_bytes()
        assert pq.read_table(tmp_path / "t" / name)["own"].to_pylist().count(True) == 24


def test_what_another_build_packed_meanwhile_is_kept(tmp_path: Path) -> None:
    """The second was opened before the first ended, and locked after it."""
    first, second = Store(tmp_path), Store(tmp_path)
    with first.locked():
        first.append("a/p", journal_line(0))
        first.pack("a/p")
    with second.locked():
        second.append("b/p", journal_line(0))
        second.pack("b/p")
    assert {load_table(name, tmp_path).problem for name in ("a/p", "b/p")} == {"a/p", "b/p"}

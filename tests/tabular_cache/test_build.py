"""Building tables: the journal and the store, the plan of a build, and the builder with made-up trainings."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from fakes import journal_line, make_tables
from hypothesis import given
from hypothesis import strategies as st

from datasets.errors import BadInput
from datasets.files import write_atomically
from harness.execution import serial
from harness.problem import TIMEOUT
from tabular_cache import build, noise
from tabular_cache.audit import summarise
from tabular_cache.build import PILOT, BuildReport, MeasurementBudget, Planner, uncut_costs
from tabular_cache.measure import LoadMonitor, Measurement
from tabular_cache.schema import merge_rows, sha256_of
from tabular_cache.store import Store
from tabular_cache.table import PENDING, base_manifest, load_table, read_manifest, read_table, table_entries, to_table

PROBLEMS = [("a", "p"), ("b", "p")]


# The measurement budget.


@given(st.lists(st.floats(0.01, 1e4), min_size=2, max_size=40), st.floats(0.1, 100))
def test_the_limit_is_the_longest_that_fits(costs: list[float], mean: float) -> None:
    uncut = np.array(costs)
    budget = MeasurementBudget(limit_for=10, longest_s=10 * mean, floor_s=1e-6)
    limit, mean = budget.limit(uncut), budget.longest_s / 10  # 10 mean / 10 need not be mean
    if uncut.mean() <= mean:
        assert limit is None
    else:
        assert limit is not None
        assert np.minimum(uncut, limit).mean() == pytest.approx(mean, rel=0.06)  # two digits


def test_costs_that_were_cut_short_go_on_along_their_prefixes() -> None:
    whole, cut = journal_line(8), journal_line(9, status=TIMEOUT)
    table = to_table("a/p", merge_rows(None, [whole, cut]), {})
    own = table.native[table["config"] == 9, 0].max()
    expected = max(cut["spent_cpu_s"], cut["cpu_s"][-1] / cut["rounds"][-1] * own)
    assert uncut_costs(table) == pytest.approx([whole["cpu_s"][-1], expected])
    none = {name: [] for name, value in cut.items() if isinstance(value, list)}  # not one round was finished
    table = to_table("a/p", merge_rows(None, [cut | none | {"spent_cpu_s": 6.0}]), {})
    assert uncut_costs(table) == pytest.approx([6.0 * own])


# The store.


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


def test_two_kills_leave_noise_that_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first between the file and the manifest that knows it alone, the second before the next file."""
    (tmp_path / "parts").mkdir()
    store = Store(tmp_path / "parts")
    store._keep_noise(b"first")
    store.write_manifest()
    store._keep_noise(b"second")  # killed before the manifest was written again
    again = Store(tmp_path / "parts")

    def killed(path: Path, content: bytes) -> None:
        if path.name == noise.FILE:
            raise KeyboardInterrupt
        write_atomically(path, content)

    monkeypatch.setattr("tabular_cache.store.write_atomically", killed)
    with pytest.raises(KeyboardInterrupt):
        again._keep_noise(b"third")
    known = base_manifest(tmp_path / "parts")["noise"]
    assert known == {"sha256": sha256_of(b"second"), PENDING: sha256_of(b"third")}


def test_a_torn_last_line_loses_only_itself(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.locked():
        store.append("a/p", journal_line(0))
        path = tmp_path / "journal" / "a--p.jsonl"
        whole = path.read_bytes()
        path.write_bytes(whole + json.dumps(journal_line(1)).encode()[:100])  # killed while writing
        assert [line["config"] for line in store.journal("a/p").lines()] == [0]
        store.append("a/p", journal_line(2))
        assert [line["config"] for line in store.journal("a/p").lines()] == [0, 2]


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


def test_trainings_on_other_data_do_not_come_into_a_table(tmp_path: Path) -> None:
    """Neither one by one, nor by a journal that an earlier build left; where the table was moved away, they do."""

    def line(config: int, data: str) -> dict[str, Any]:
        one = journal_line(config)
        return {**one, "problem": {**one["problem"], "data_hash": data}}

    reported = r"a/p was measured on other data before \(data_hash (one|other), now (one|other)\)"
    store = Store(tmp_path)
    with store.locked():
        store.append("a/p", line(0, "one"))
        with pytest.raises(BadInput, match=reported):
            store.append("a/p", line(1, "other"))
        store.pack("a/p")
        before = (tmp_path / "a--p.parquet").read_bytes()
        for again in (store, Store(tmp_path)):
            with pytest.raises(BadInput, match=reported):
                again.append("a/p", line(1, "other"))
        journal = tmp_path / "journal" / "a--p.jsonl"
        journal.write_text(json.dumps(line(1, "other")) + "\n")
        with pytest.raises(BadInput, match=reported):
            Store(tmp_path).pack("a/p")
        assert (tmp_path / "a--p.parquet").read_bytes() == before and journal.exists()
        (tmp_path / "a--p.parquet").rename(tmp_path / "away")
        Store(tmp_path).pack("a/p")
        assert load_table("a/p", tmp_path).meta["data_hash"] == "other"
        journal.write_text(json.dumps(line(2, "other")) + "\n" + json.dumps(line(3, "one")) + "\n")
        with pytest.raises(BadInput, match=reported):
            Store(tmp_path).pack("a/p")


def test_a_table_that_a_killed_build_left_half_written_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(path: Path, content: bytes) -> None:
        if when == "before the table" and path.suffix == ".parquet":
            raise KeyboardInterrupt
        write_atomically(path, content)
        if path.suffix == ".parquet":
            raise KeyboardInterrupt

    store = Store(tmp_path)
    reported = (
        r"table of a/p is half written, .* `python -m tabular_cache build 'dataset=\[a\]' 'pipeline=\[p\]' tables="
    )
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
                with pytest.raises(BadInput, match=reported):
                    load_table("a/p", tmp_path)
            if config < 2:
                with pytest.raises(BadInput, match=reported):
                    table_entries(tmp_path)
                assert load_table("b/p", tmp_path).meta["configs"] == 1
            if when == "after it":
                Store(tmp_path).pack("a/p")
                store = Store(tmp_path)
                assert load_table("a/p", tmp_path).meta["configs"] == config + 1
    assert set(table_entries(tmp_path)) == {"a/p", "b/p"}


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


def test_the_way_to_a_missing_table_is_reported(tmp_path: Path) -> None:
    store = Store(tmp_path, "hist")
    with store.locked():
        store.append("a/p", journal_line(0))
        store.pack("a/p")
    with pytest.raises(BadInput, match="of tree_method hist; give tables=DIR for exact"):
        Store(tmp_path, "exact")
    command = f"build 'dataset=[b]' 'pipeline=[p]' tables={tmp_path} tree_method=hist`"
    with pytest.raises(BadInput, match=re.escape(command)):
        read_table("b/p", tmp_path)


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


# The builder.


def test_disturbed_trainings_are_repeated_twice_at_most(tmp_path: Path) -> None:
    store = Store(tmp_path)
    planner = Planner(store, [("a", "p")], MeasurementBudget(0, 4, 4))
    stretched, cut = journal_line(1), journal_line(2, status="timeout") | {"busy": 1.5}
    stretched["wall_s"] = [1.3 * v for v in stretched["cpu_s"]]
    with store.locked():
        for line in (journal_line(0), stretched, cut, journal_line(3, status="timeout")):
            store.append("a/p", line)
        store.pack("a/p")
        for later in (100.0, 200.0):
            assert [(task.config, task.purpose) for task in planner.repeats()] == [(1, "again"), (2, "again")]
            for line in (stretched, cut):
                times = {name: [2 * v for v in line[name]] for name in ("cpu_s", "wall_s", "scaled_s")}
                store.append("a/p", line | times | {"purpose": "again", "started": line["started"] + later})
            store.pack("a/p")
        assert planner.repeats() == []


def built(
    folder: Path, monkeypatch: pytest.MonkeyPatch, measure: Callable[[Measurement], dict[str, Any]], n: int = 3
) -> BuildReport:
    """A build of n configurations of a/p and b/p with a stand-in for the training."""
    store = Store(folder)
    monkeypatch.setattr(build, "measure", measure)
    with store.locked(), LoadMonitor(count=lambda: 1.0) as watch:
        return build.Builder(Planner(store, PROBLEMS, MeasurementBudget(0, n, n)), serial(), 1, watch).run(max_passes=9)


def fine(task: Measurement, **changes: Any) -> dict[str, Any]:
    line = journal_line(task.config, task.problem, **changes)
    return line | {"purpose": task.purpose, "started": time.time(), "ended": time.time()}


@pytest.fixture(autouse=True)
def reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "time_reference", lambda: (1.0, 0.9))


@pytest.mark.parametrize("purpose", ["again", "noise"])
@pytest.mark.parametrize("how", ["raises", "fails"])
def test_a_repeat_that_cannot_be_made_is_not_tried_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, purpose: str, how: str
) -> None:
    config = min(noise.sample("a/p"))
    store = Store(tmp_path)
    with store.locked(), LoadMonitor(count=lambda: 1.0) as watch:
        store.append("a/p", journal_line(0))
        store.append("a/p", journal_line(config) | ({"busy": 3.0} if purpose == "again" else {}))
        for later in (1.0, 2.0) if purpose == "again" else ():  # and its noise sample is full
            line = journal_line(config)
            store.append("a/p", line | {"purpose": "noise", "started": line["started"] + later})
        store.pack("a/p")
        asked: list[str] = []

        def measure(task: Measurement) -> dict[str, Any]:
            asked.append(task.purpose)
            if how == "raises":
                raise RuntimeError("lost")
            return fine(task, status="failed")

        monkeypatch.setattr(build, "measure", measure)
        planner = Planner(store, [("a", "p")], MeasurementBudget(0, 1, 1))
        report = build.Builder(planner, serial(), 1, watch).run(max_passes=9)
    assert set(asked) == {purpose}
    assert len(asked) == len(report.failed) <= 2


def test_a_killed_build_leaves_its_campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(task: Measurement) -> dict[str, Any]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        built(tmp_path, monkeypatch, killed)
    (campaign,) = read_manifest(tmp_path)["campaigns"]
    assert [timing[1:] for timing in campaign["reference"]] == [[1.0, 0.9]]
    assert campaign["cpu"]


@pytest.mark.parametrize("where", ["in the training", "in the table"])
def test_a_problem_whose_data_cannot_be_had_costs_no_other(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    if where == "in the table":
        store = Store(tmp_path)
        with store.locked():
            other = journal_line(0, "a/p")
            store.append("a/p", other | {"problem": {**other["problem"], "data_hash": "another"}})
            store.pack("a/p")

    def measure(task: Measurement) -> dict[str, Any]:
        asked.append(task.problem)
        if task.problem == "a/p" and where == "in the training":
            raise BadInput("a is not to be had")
        return fine(task)

    report = built(tmp_path, monkeypatch, measure)
    assert len(report.failed) == 1 and report.failed[0].startswith("a/p: ")
    assert asked.count("a/p") == 1 and asked.count("b/p") == 3
    assert set(Store(tmp_path).done("b/p", None)) == {0, 1, 2}


def test_a_problem_whose_pilot_raises_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def measure(task: Measurement) -> dict[str, Any]:
        asked.append(task.problem)
        if task.problem == "a/p":
            raise RuntimeError("lost")
        return fine(task)

    report = built(tmp_path, monkeypatch, measure, 60)
    assert asked.count("a/p") == len(report.failed) == PILOT
    assert asked.count("b/p") >= 60


def test_what_failed_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def measure(task: Measurement) -> dict[str, Any]:
        tried.append(task.config)
        for_good, for_once = task.config == 1, task.config == 2 and tried.count(2) == 1
        return fine(task, status="out_of_memory") if for_good or for_once else fine(task)

    report = built(tmp_path, monkeypatch, measure)
    assert [tried.count(config) for config in (0, 1, 2)] == [2, 2 * 3, 2 + 1]  # of two problems
    assert len(report.failed) == 2 * 3 + 1
    status = {p: Store(tmp_path).packed(p).filter(pc.field("own"))["status"].to_pylist() for p in ("a/p", "b/p")}  # type: ignore[union-attr]
    assert all(found == ["ok", "out_of_memory", "ok"] for found in status.values())
    assert summarise(load_table("a/p", tmp_path))["failed"] == 1


def test_the_reference_is_timed_every_ten_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr("tabular_cache.build.time.monotonic", lambda: clock[0])

    def measure(task: Measurement) -> dict[str, Any]:
        clock[0] += 250.0
        return fine(task)

    built(tmp_path, monkeypatch, measure)  # 0, 250, ..., 1250: due at 0 and from 600 on, and 600 later
    (campaign,) = read_manifest(tmp_path)["campaigns"]
    assert len(campaign["reference"]) == 2 and campaign["trainings"] == 6

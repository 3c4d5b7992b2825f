"""What goes to workers and comes back: tables by content hash, records checked, nothing of another block accepted."""

from dataclasses import replace
from pathlib import Path

import pytest
from fakes import make_tables
from test_study import contents, grid

from datasets.errors import BadInput
from harness.execution import serial
from harness.records import read_traces
from harness.study import (
    Absent,
    Block,
    Delivery,
    Parcel,
    Stopped,
    blocks,
    receive,
    run_block,
    run_study,
    with_cargo,
    work,
)
from tabular_cache.table import read_table


@pytest.fixture
def parcel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Parcel:
    monkeypatch.setenv("COST_AWARE_BO_CACHE", str(tmp_path / "cache"))
    folder = make_tables(tmp_path / "tables", ["a/p", "b/p"], 24)
    return Parcel(blocks(grid(folder, iterations=7), tmp_path / "results")[0][0])


def gone(tmp_path: Path) -> None:
    """Let the tables be where no worker finds them."""
    (tmp_path / "tables").rename(tmp_path / "elsewhere")
    read_table.cache_clear()


def test_a_worker_without_the_table_asks_for_it_once(parcel: Parcel, tmp_path: Path) -> None:
    at_home = work(run_block, parcel)
    sent = with_cargo(parcel)
    assert set(sent.cargo) == {"a--p.parquet", "manifest.json"}
    gone(tmp_path)
    assert isinstance(work(run_block, parcel), Absent)
    shipped = work(run_block, sent)
    assert isinstance(shipped, Delivery) and isinstance(at_home, Delivery)
    cached = work(run_block, parcel)  # from the worker's cache now
    assert isinstance(cached, Delivery)
    trace = [name for name in at_home.files if "timings" not in name]
    assert len(trace) == 1
    assert at_home.files[trace[0]] == shipped.files[trace[0]] == cached.files[trace[0]]
    damaged = next((tmp_path / "cache").rglob("a--p.parquet"))
    damaged.write_bytes(damaged.read_bytes()[:-7])
    read_table.cache_clear()
    assert isinstance(work(run_block, parcel), Absent)


def test_a_worker_with_another_table_of_that_name_does_not_use_it(parcel: Parcel, tmp_path: Path) -> None:
    sent = with_cargo(parcel)
    gone(tmp_path)
    make_tables(tmp_path / "tables", ["b/p", "a/p"], 24)  # other noise, other costs
    assert isinstance(work(run_block, parcel), Absent)
    assert isinstance(work(run_block, sent), Delivery)
    with pytest.raises(BadInput, match="the table of a/p has changed since the study began"):
        with_cargo(parcel)


def test_a_worker_whose_cost_model_would_learn_from_other_data_refuses(
    parcel: Parcel, monkeypatch: pytest.MonkeyPatch
) -> None:
    taught = Parcel(replace(parcel.block, spec={**parcel.block.spec, "cost_model_data": "0123456789abcdef"}))
    with pytest.raises(BadInput, match="cost_model=lv1 would learn from other data on this worker: none"):
        work(run_block, taught)
    monkeypatch.setattr("harness.study.known_beforehand", lambda model, problem: "fedcba9876543210")
    with pytest.raises(BadInput, match="on this worker: fedcba987654, the study's is 0123456789ab"):
        work(run_block, taught)
    monkeypatch.setattr("harness.study.known_beforehand", lambda model, problem: "0123456789abcdef")
    assert isinstance(work(run_block, taught), Delivery)


def test_a_study_whose_workers_have_no_tables(parcel: Parcel, tmp_path: Path) -> None:
    study = grid(tmp_path / "tables", iterations=7)
    todo, _ = blocks(study, tmp_path / "results")
    first = run_study(todo, 0, serial(), "test")
    assert (first.failed, first.runs) == ([], 8)
    again, _ = blocks(study, tmp_path / "again")
    gone(tmp_path)  # for driver and workers: there is nothing to send
    report = run_study(again, 0, serial(), "test")
    assert len(report.failed) == 4
    assert "a worker has not the table of the study" in report.failed[0]


def deliver(parcel: Parcel) -> Delivery:
    delivery = work(run_block, parcel)
    assert isinstance(delivery, Delivery)
    return delivery


def test_what_a_worker_sends_is_checked(parcel: Parcel, tmp_path: Path) -> None:
    good, results = deliver(parcel), tmp_path / "results"
    name = max(good.files, key=len)
    torn = replace(good, files={**good.files, name: good.files[name][:-1]})
    other = deliver(Parcel(replace(parcel.block, seeds=[5])))
    moved = replace(good, files={f"../../{name}": content for name, content in good.files.items()})
    for wrong, message in (
        (torn, "damaged record"),
        (other, "is not of this block"),
        (moved, "is not of this block"),
        (replace(good, versions={**good.versions, "numpy": "1.0"}), r"other versions.*numpy 1\.0 there"),
    ):
        with pytest.raises(BadInput, match=message):
            receive(results, parcel, wrong)
        assert not results.exists()
    receive(results, parcel, good)
    before = contents(results)
    (path,) = (p for p in results.rglob("seeds-*.parquet") if "timings" not in p.name)
    stamp = path.stat().st_mtime_ns
    receive(results, parcel, good)  # a record that is there stays as it is
    assert contents(results) == before
    assert path.stat().st_mtime_ns == stamp
    assert len(read_traces(results)) == 14


def test_a_full_disk_stops_the_study_and_keeps_what_is_there(
    parcel: Parcel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    todo: list[Block] = blocks(grid(tmp_path / "tables", iterations=7), tmp_path / "results")[0]
    written = []

    def full(path: Path, content: bytes) -> None:
        if len(written) >= 4:
            raise OSError(28, "No space left on device")
        written.append(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    monkeypatch.setattr("harness.records.write_atomically", full)
    with pytest.raises(Stopped, match=r"cannot write records to .*: No space left on device") as stopped:
        run_study(todo, 0, serial(), "test")
    assert stopped.value.report.runs == 4
    monkeypatch.undo()
    monkeypatch.setenv("COST_AWARE_BO_CACHE", str(tmp_path / "cache"))
    todo, skipped = blocks(grid(tmp_path / "tables", iterations=7), tmp_path / "results")
    assert (len(todo), skipped) == (2, 4)

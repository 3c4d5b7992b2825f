"""What keeps costs comparable: the watch on the load, repeats, the reference machine's pace, the noise sample."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from fakes import journal_line, prepared
from scipy.stats import chi2

from datasets.errors import BadInput
from harness.execution import serial
from harness.execution.supervisor import WorkerLost
from harness.streams import stream
from harness.training import retime, train
from tabular_cache import build, noise
from tabular_cache.audit import summarise
from tabular_cache.build import PILOT, MeasurementBudget, Planner
from tabular_cache.measure import Measurement
from tabular_cache.reference import LoadMonitor, Reference, _waits_on, pace, probe, runnable, time_reference
from tabular_cache.rows import merge_rows, parquet_bytes
from tabular_cache.schema import NOISE_SCHEMA
from tabular_cache.store import Store
from tabular_cache.table import load_table, read_manifest

X = np.array([60, 0.3, 0.01, 0.01, 1.0, 0.7, 5.0])


def test_the_watch_waits_until_the_machine_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    busy = iter([5.0] * 3 + [1.0] * 100)
    with LoadMonitor(cores=2, count=lambda: next(busy)) as watch:
        assert watch.quiet  # nothing seen yet
        while not watch._busy:  # once a second it looks
            time.sleep(0.05)
        assert not watch.quiet
        start, began = time.time(), time.monotonic()
        waited = watch.wait()
        assert watch.quiet
        assert 0 < waited <= time.monotonic() - began
        assert watch.mean(start - 1.5, start) > 1 > watch.mean(time.time(), time.time() + 9)
    assert capsys.readouterr().err.count("paused: 5 busy processes on 2 cores") == 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no process to a core")
def test_only_what_shares_the_own_cores_is_counted() -> None:
    """Three busy processes on one core are seen by a reader bound to it, whatever else the machine does."""
    cores = os.sched_getaffinity(0)
    code = f"import os; os.sched_setaffinity(0, {{{min(cores)}}}); print(flush=True)\nwhile True: pass"
    busy = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(3)]
    try:
        for process in busy:
            assert process.stdout is not None
            process.stdout.readline()
        os.sched_setaffinity(0, {min(cores)})
        assert runnable() >= 3
        assert LoadMonitor().cores == 1
        for process in busy[1:]:
            process.kill()
            process.wait()
        bound = [task for task in Path("/proc").glob("[0-9]*/task/[0-9]*") if _waits_on(task, {min(cores)})]
        assert str(busy[0].pid) in {task.name for task in bound}
        assert not {str(process.pid) for process in busy[1:]} & {task.name for task in bound}
        assert str(busy[0].pid) not in {
            task.name for task in Path("/proc").glob("[0-9]*/task/[0-9]*") if _waits_on(task, {max(cores) + 1})
        }
    finally:
        os.sched_setaffinity(0, cores)
        for process in busy:
            process.kill()
            process.wait()


def repeat(config: int, factor: float, later: float = 100.0, **changes: object) -> dict[str, object]:
    line = journal_line(config) | {"purpose": "again", "busy": 0.5, **changes}
    times = {name: [v * factor for v in line[name]] for name in ("cpu_s", "wall_s", "scaled_s")}
    return line | times | {"started": line["started"] + later}


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_repeat_keeps_the_cheaper_and_counts(factor: float) -> None:
    first = journal_line(7) | {"busy": 2.0}
    rows = merge_rows(merge_rows(None, [first]), [repeat(7, factor)])
    assert rows["scaled_s"].to_numpy() == pytest.approx(np.array(first["scaled_s"]) * min(1.0, factor), rel=1e-6)
    assert rows["busy"][0].as_py() == (0.5 if factor < 1 else 2.0)
    assert set(rows["repeats"].to_pylist()) == {1}
    assert merge_rows(rows, [repeat(7, factor)]).equals(rows)  # packed twice after a kill
    assert set(merge_rows(rows, [repeat(7, factor, 200.0)])["repeats"].to_pylist()) == {2}


def test_disturbed_trainings_are_repeated_twice_at_most(tmp_path: Path) -> None:
    store = Store(tmp_path)
    planner = Planner(store, [("a", "p")], MeasurementBudget(0, 4, 4))
    stretched = journal_line(1)
    stretched["wall_s"] = [1.3 * v for v in stretched["cpu_s"]]
    with store.locked():
        for line in (journal_line(0), stretched, journal_line(2) | {"busy": 1.5}, journal_line(3)):
            store.append("a/p", line)
        store.pack("a/p")
        for later in (100.0, 200.0):
            assert [(task.config, task.purpose) for task in planner.repeats()] == [(1, "again"), (2, "again")]
            store.append("a/p", repeat(1, 2.0, later))
            store.append("a/p", repeat(2, 2.0, later))
            store.pack("a/p")
        assert planner.repeats() == []


def test_what_was_cut_short_beside_other_work_is_repeated_too(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.locked():
        store.append("a/p", journal_line(2, status="timeout") | {"busy": 1.5})
        store.append("a/p", journal_line(3, status="timeout"))
        store.pack("a/p")
        assert [task.config for task in Planner(store, [("a", "p")], MeasurementBudget(0, 4, 4)).repeats()] == [2]


def shortened(line: dict[str, object], n: int) -> dict[str, object]:
    """A training that was cut short after its first n prefixes."""
    return {name: value[:n] if isinstance(value, list) else value for name, value in line.items()}


@pytest.mark.parametrize(("factor", "kept"), [(0.5, 3), (1.5, 5)])
def test_two_that_were_cut_are_compared_where_both_have_been(factor: float, kept: int) -> None:
    """The repeat came less far; that says nothing of its pace."""
    first = shortened(journal_line(7, status="timeout"), 5)
    rows = merge_rows(merge_rows(None, [first]), [shortened(repeat(7, factor, status="timeout"), 3)])
    assert len(rows) == kept + 1
    expected = np.array(first["scaled_s"])[:kept] * min(1.0, factor)
    assert rows["scaled_s"].to_numpy()[:kept] == pytest.approx(expected, rel=1e-6)
    assert set(rows["repeats"].to_pylist()) == {1}


def test_a_training_that_ended_is_preferred_to_one_cut_short() -> None:
    cut = shortened(journal_line(7, status="timeout"), 3)
    whole = merge_rows(merge_rows(None, [cut]), [repeat(7, 2.0)])
    assert set(whole["status"].to_pylist()) == {"ok"}
    again = merge_rows(merge_rows(None, [journal_line(7)]), [shortened(repeat(7, 0.5, status="timeout"), 3)])
    assert set(again["status"].to_pylist()) == {"ok"}
    assert again["scaled_s"].to_numpy() == pytest.approx(np.array(journal_line(7)["scaled_s"]), rel=1e-6)


@pytest.mark.parametrize("purpose", ["again", "noise"])
@pytest.mark.parametrize("how", ["raises", "fails"])
def test_a_repeat_that_cannot_be_made_is_not_tried_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, purpose: str, how: str
) -> None:
    config = min(noise.sample("a/p"))
    store = Store(tmp_path)
    planner = Planner(store, [("a", "p")], MeasurementBudget(0, 1, 1))
    with store.locked(), LoadMonitor(count=lambda: 1.0) as watch:
        store.append("a/p", journal_line(0))
        store.append("a/p", journal_line(config) | ({"busy": 3.0} if purpose == "again" else {}))
        if purpose == "again":  # and its noise sample is full
            for later in (1.0, 2.0):
                line = journal_line(config)
                store.append("a/p", line | {"purpose": "noise", "started": line["started"] + later})
        store.pack("a/p")
        asked: list[str] = []

        def measure(task: Measurement) -> dict[str, object]:
            asked.append(task.purpose)
            if how == "raises":
                raise RuntimeError("lost")
            line = journal_line(task.config, status="failed")
            return line | {"purpose": task.purpose, "started": time.time(), "ended": time.time()}

        monkeypatch.setattr(build, "measure", measure)
        monkeypatch.setattr(build, "time_reference", lambda: (1.0, 1.0))
        report = build.Builder(planner, serial(), 1, watch).run(max_passes=9)
    assert set(asked) == {purpose}
    assert len(asked) == len(report.failed) <= 2


def test_a_killed_build_leaves_its_campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)

    def killed(task: Measurement) -> dict[str, object]:
        raise KeyboardInterrupt

    monkeypatch.setattr(build, "measure", killed)
    monkeypatch.setattr(build, "time_reference", lambda: (1.0, 0.9))
    with store.locked(), LoadMonitor(count=lambda: 1.0) as watch, pytest.raises(KeyboardInterrupt):
        build.Builder(Planner(store, [("a", "p")], MeasurementBudget(0, 1, 1)), serial(), 1, watch).run()
    campaign = read_manifest(tmp_path)["campaigns"][0]
    assert [timing[1:] for timing in campaign["reference"]] == [[1.0, 0.9]]
    assert campaign["cpu"]


def test_a_repeat_that_is_quiet_and_cheaper_settles_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.locked():
        store.append("a/p", journal_line(2) | {"busy": 1.5})
        store.append("a/p", repeat(2, 0.9))
        store.pack("a/p")
        assert Planner(store, [("a", "p")], MeasurementBudget(0, 4, 4)).repeats() == []


def test_asking_for_the_pace_changes_no_error_and_is_not_counted() -> None:
    data = prepared(n=3000, d=20)

    asking = 0.0

    def slow() -> float:
        nonlocal asking
        began, start = time.perf_counter(), time.thread_time()
        while time.thread_time() - start < 0.1:  # costs time that must not be counted
            pass
        asking += time.perf_counter() - began
        return 4.0

    plain, began = train(data, X), time.perf_counter()
    paced = train(data, X, pace=slow)
    whole = time.perf_counter() - began
    assert np.array_equal(plain.val_error, paced.val_error)
    assert plain.spent_scaled_s == pytest.approx(plain.spent_cpu_s)
    assert paced.scaled_s == pytest.approx(paced.cpu_s / 4)
    assert paced.spent_scaled_s == pytest.approx(paced.spent_cpu_s / 4)
    assert 0.1 < asking < whole and paced.spent_wall_s <= whole - asking
    again = retime(data, X, plain, pace=slow)
    assert np.array_equal(again.val_error, plain.val_error)
    assert again.cpu_s[-1] != plain.cpu_s[-1]


def test_a_changing_pace_counts_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked after every round, with a slowdown of 1 at first and 9 from the third asking on."""
    monkeypatch.setattr("harness.training._PACE_EVERY_S", 0.0)
    asked: list[float] = []

    def changing() -> float:
        asked.append(1.0 if len(asked) < 2 else 9.0)
        return asked[-1]

    result = train(prepared(n=2000), np.array([3, 0.3, 0, 1, 1, 1, 6.0]), (1, 2), pace=changing)
    rounds = np.diff(result.cpu_s, prepend=0.0)
    assert np.diff(result.scaled_s, prepend=0.0) == pytest.approx(rounds / [1, 3, 9])


def test_the_reference_is_timed_every_ten_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    reference, clock = Reference(), [1000.0]
    monkeypatch.setattr("tabular_cache.reference.time.monotonic", lambda: clock[0])
    assert reference.due
    reference.asked()
    clock[0] += 599
    assert not reference.due
    clock[0] += 1
    assert reference.due
    reference.add(0.7, 0.6)
    assert reference.timings[0][1:] == (0.7, 0.6)
    assert probe() > 0
    assert pace() > 0.1
    cpu, scaled = time_reference()
    assert 0 < scaled < 20 * cpu


def sampled_line(problem: str, started: float, factor: float = 1.0, **changes: object) -> dict[str, object]:
    config = min(noise.sample(problem))
    line = journal_line(config) | {"started": started, **changes}
    return line | {name: [factor * v for v in line[name]] for name in ("cpu_s", "scaled_s")}


def test_two_percent_are_measured_three_times_hours_apart(tmp_path: Path) -> None:
    share = np.mean([len(noise.sample(f"d{i}/p")) for i in range(20)]) / (1 << 14)
    assert share == pytest.approx(noise.SHARE, rel=0.05)
    store, name, now = Store(tmp_path), "a/p", 1_700_000_000.0
    config = min(noise.sample(name))
    with store.locked():
        store.append(name, journal_line(next(c for c in range(999) if c not in noise.sample(name))))
        store.append(name, sampled_line(name, now))
        store.pack(name)
        assert noise.due(tmp_path, [name], now + 0.9 * noise.GAP_S) == []
        assert noise.due(tmp_path, [name], now + noise.GAP_S) == [(name, config)]
        assert noise.due(tmp_path, ["b/p"], now + noise.GAP_S) == []
        before = store.packed(name)
        for k, factor in ((1, 1.2), (2, 0.8)):
            store.append(name, sampled_line(name, now + k * noise.GAP_S, factor, purpose="noise"))
            store.append(
                name, sampled_line(name, now + k * noise.GAP_S, factor, purpose="noise")
            )  # twice, as after a kill
            store.pack(name)
        assert noise.due(tmp_path, [name], now + 99 * noise.GAP_S) == []
        assert before is not None
        assert store.packed(name).equals(before)  # the table keeps its first measurement
    line = noise.spread(tmp_path).iloc[0]
    assert (line["n"], line["days"]) == (3, pytest.approx(2 * noise.GAP_S / 86400))
    bands = noise.by_cost(tmp_path).set_index("cost")
    assert len(bands) == 2 and bands.index[-1] == "all" and (bands["3 times"] == 1).all()
    assert bands["median cv % (scaled_s)"].to_list() == [pytest.approx(100 * line["cv_scaled"])] * 2
    low, high = bands.index[0].removesuffix(" s").split(" to ")
    assert float(low) <= line["cost_s"] < float(high)
    assert line["cv_raw"] == pytest.approx(0.2 / np.sqrt(chi2.median(2) / 2), rel=1e-5)  # of 1, 1.2, 0.8 times a cost


@pytest.mark.parametrize("times", [2, 3, 8])
def test_the_noise_is_the_same_however_often_it_was_measured(times: int, tmp_path: Path) -> None:
    """Of 4,000 trainings whose costs vary by 5 %, the median is 5 %."""
    drawn = stream(0, "noise test").normal(1.0, 0.05, size=(4000, times))
    rows = [
        {"problem": "a/p", "config": config, "cpu_s": cost, "wall_s": cost, "scaled_s": cost, "busy": 0.0, "started": k}
        for config, costs in enumerate(drawn)
        for k, cost in enumerate(costs)
    ]
    (tmp_path / noise.FILE).write_bytes(parquet_bytes(pa.Table.from_pylist(rows, NOISE_SCHEMA)))
    assert noise.by_cost(tmp_path).iloc[-1]["median cv % (scaled_s)"] == pytest.approx(5.0, rel=0.04)


def test_a_damaged_file_of_repeats_is_named(tmp_path: Path) -> None:
    (tmp_path / noise.FILE).write_bytes(b"nonsense")
    with pytest.raises(BadInput, match="holds no repeated measurements"):
        noise.by_cost(tmp_path)


def test_changed_repeats_are_refused_and_not_vouched_for(tmp_path: Path) -> None:
    """What can be read but is not what was packed, and what another version wrote."""
    store, name, path = Store(tmp_path), "a/p", tmp_path / noise.FILE
    with store.locked():
        store.append(name, sampled_line(name, 1_700_000_000.0))
        store.pack(name)
        whole = path.read_bytes()
        assert len(noise.read(tmp_path)) == 1
        path.write_bytes(parquet_bytes(noise.read(tmp_path).slice(0, 0)))
        store.append(name, sampled_line(name, 1_700_009_000.0, purpose="noise"))
        with pytest.raises(BadInput, match="its checksum is not that of the manifest"):
            store.pack(name)
        path.write_bytes(whole)
        store.pack(name)
        assert len(noise.read(tmp_path)) == 2
    (tmp_path / "manifest.json").unlink()
    pq.write_table(noise.read(tmp_path).replace_schema_metadata({"schema_version": "0"}), path)
    with pytest.raises(BadInput, match="has schema 0"):
        noise.read(tmp_path)


def test_a_process_that_ends_while_the_load_is_sampled_is_no_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = os.listdir

    def ends(folder: str) -> list[str]:
        if folder.startswith("/proc/") and folder != f"/proc/{os.getpid()}/task":
            raise FileNotFoundError(folder)
        return inner(folder)

    monkeypatch.setattr(os, "listdir", ends)
    assert runnable() >= 0


def test_a_watch_that_has_died_says_so() -> None:
    def count() -> float:
        raise OSError("gone")

    with LoadMonitor(cores=2, count=count) as watch:
        watch._thread.join()
        for ask in (lambda: watch.quiet, watch.wait, lambda: watch.mean(0.0, 1.0)):
            with pytest.raises(RuntimeError, match="cannot be watched any more") as told:
                ask()
            assert isinstance(told.value.__cause__, OSError)


def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measure: object, n: int = 3) -> build.BuildReport:
    """A build of n configurations of a/p and b/p with a stand-in for the training."""
    store = Store(tmp_path)
    monkeypatch.setattr(build, "measure", measure)
    with store.locked(), LoadMonitor(count=lambda: 1.0) as watch:
        planner = Planner(store, [("a", "p"), ("b", "p")], MeasurementBudget(0, n, n))
        return build.Builder(planner, serial(), 1, watch).run(max_passes=9)


def fine(task: Measurement, **changes: object) -> dict[str, object]:
    line = journal_line(task.config, task.problem, **changes)
    return line | {"purpose": task.purpose, "started": time.time(), "ended": time.time()}


@pytest.mark.parametrize("where", ["in the training", "in the table"])
def test_a_problem_whose_data_cannot_be_had_costs_no_other(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "time_reference", lambda: (1.0, 1.0))
    asked: list[str] = []
    if where == "in the table":
        store = Store(tmp_path)
        with store.locked():
            other = journal_line(0, "a/p")
            store.append("a/p", other | {"problem": {**other["problem"], "data_hash": "another"}})
            store.pack("a/p")

    def measure(task: Measurement) -> dict[str, object]:
        asked.append(task.problem)
        if task.problem == "a/p" and where == "in the training":
            raise BadInput("a is not to be had")
        return fine(task)

    report = built(tmp_path, monkeypatch, measure)
    assert len(report.failed) == 1 and report.failed[0].startswith("a/p: ")
    assert asked.count("a/p") == 1 and asked.count("b/p") == 3
    assert set(Store(tmp_path).done("b/p", None)) == {0, 1, 2}


def test_a_problem_whose_pilot_raises_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "time_reference", lambda: (1.0, 1.0))
    asked: list[str] = []

    def measure(task: Measurement) -> dict[str, object]:
        asked.append(task.problem)
        if task.problem == "a/p":
            raise RuntimeError("lost")
        return fine(task)

    report = built(tmp_path, monkeypatch, measure, 500)
    assert asked.count("a/p") == len(report.failed) == PILOT
    assert asked.count("b/p") >= 500


def test_what_failed_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "time_reference", lambda: (1.0, 1.0))
    tried: list[int] = []

    def measure(task: Measurement) -> dict[str, object]:
        tried.append(task.config)
        for_good, for_once = task.config == 1, task.config == 2 and tried.count(2) == 1
        return fine(task, status="out_of_memory") if for_good or for_once else fine(task)

    report = built(tmp_path, monkeypatch, measure)
    assert [tried.count(config) for config in (0, 1, 2)] == [2, 2 * 3, 2 + 1]  # of two problems
    assert len(report.failed) == 2 * 3 + 1
    status = {p: Store(tmp_path).packed(p).filter(pc.field("own"))["status"].to_pylist() for p in ("a/p", "b/p")}
    assert all(found == ["ok", "out_of_memory", "ok"] for found in status.values())
    assert summarise(load_table("a/p", tmp_path))["failed"] == 1


def test_a_lost_reference_training_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> tuple[float, float]:
        raise WorkerLost("its worker process died")

    monkeypatch.setattr(build, "time_reference", lost)
    report = built(tmp_path, monkeypatch, fine)
    assert len(report.failed) == 1 and "the reference training" in report.failed[0]
    assert report.trainings >= 6

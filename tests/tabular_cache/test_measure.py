"""What keeps costs comparable: the watch on the load, repeats, the reference machine's pace, the noise sample."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes import journal_line, prepared
from scipy.stats import chi2

from datasets.errors import BadInput
from harness.streams import stream
from harness.training import retime, train
from tabular_cache import measure, noise
from tabular_cache.measure import LoadMonitor, _waits_on, runnable
from tabular_cache.schema import NOISE_SCHEMA, parquet_bytes
from tabular_cache.store import Store

X = np.array([60, 0.3, 0.01, 0.01, 1.0, 0.7, 5.0])


@pytest.mark.slow
def test_the_watch_waits_while_something_disturbs(capsys: pytest.CaptureFixture[str]) -> None:
    busy = iter([5.0] * 3 + [1.0] * 100)
    with LoadMonitor(cores=2, count=lambda: next(busy)) as watch:
        assert watch.undisturbed  # nothing seen yet
        while not watch._busy:  # once a second it looks
            time.sleep(0.05)
        assert not watch.undisturbed
        start, began = time.time(), time.monotonic()
        waited = watch.wait()
        assert watch.undisturbed
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
        task = Path(f"/proc/{busy[0].pid}/task/{busy[0].pid}")
        assert _waits_on(task, {min(cores)}) and not _waits_on(task, {max(cores) + 1})
    finally:
        os.sched_setaffinity(0, cores)
        for process in busy:
            process.kill()
            process.wait()


def test_asking_for_the_pace_changes_no_error_and_is_not_counted() -> None:
    data = prepared(n=1500, d=20)

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


def test_the_pace_is_by_the_reference_training_where_the_probe_errs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe that says k times slower than trainings are leaves them 1/k of their seconds, and the level takes it out.

    The reference training here takes twice the seconds that it should, of which the probe takes 2 k out.
    """
    paces = []
    for k in (1.0, 1.3):
        monkeypatch.setattr(measure, "probe", lambda k=k: 2 * k * measure.PROBE_S)
        monkeypatch.setattr(measure, "time_reference", lambda k=k: (2 * measure.REFERENCE_S, measure.REFERENCE_S / k))
        measure.level.cache_clear()
        paces.append(measure.pace())
    measure.level.cache_clear()
    assert paces == pytest.approx([2.0, 2.0])


def test_the_reference_training_is_timed_by_the_probe_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "probe", lambda: 3 * measure.PROBE_S)
    cpu, scaled = measure.time_reference()
    assert scaled == pytest.approx(cpu / 3, rel=0.05)  # medians of three each


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


@pytest.mark.parametrize("times", [2, 8])
def test_the_noise_is_the_same_however_often_it_was_measured(times: int, tmp_path: Path) -> None:
    """Of 2,000 trainings whose costs vary by 5 %, the median is 5 %."""
    drawn = stream(0, "noise test").normal(1.0, 0.05, size=(2000, times))
    rows = [
        {"problem": "a/p", "config": config, "cpu_s": cost, "wall_s": cost, "scaled_s": cost, "busy": 0.0, "started": k}
        for config, costs in enumerate(drawn)
        for k, cost in enumerate(costs)
    ]
    (tmp_path / noise.FILE).write_bytes(parquet_bytes(pa.Table.from_pylist(rows, NOISE_SCHEMA)))
    assert noise.by_cost(tmp_path).iloc[-1]["median cv % (scaled_s)"] == pytest.approx(5.0, rel=0.05)


def test_the_noise_on_each_kind_of_processor_and_between_them(tmp_path: Path) -> None:
    """Of 500 trainings, each measured twice on both: 2 and 6 % on them, and 1.1 times the cost on the one."""
    rng, hour = stream(0, "noise test", "processors"), 3600.0
    campaigns = [{"cpu": cpu, "reference": [[day + k * hour, 0.7, 0.7] for k in range(8)]}
                 for cpu, day in (("a", 0.0), ("b", 24 * hour))]  # fmt: skip
    rows = [
        {"problem": "p", "config": config, "cpu_s": cost, "wall_s": cost, "scaled_s": cost, "busy": 0.0, "started": at}
        for config in range(500)
        for day, factor, sd in ((0.0, 1.1, 0.02), (24 * hour, 1.0, 0.06))
        for at in (day + hour, day + 8.3 * hour)
        for cost in [factor * rng.normal(1.0, sd)]
    ]
    (tmp_path / noise.FILE).write_bytes(parquet_bytes(pa.Table.from_pylist(rows, NOISE_SCHEMA)))
    on_each, between = noise.by_processor(tmp_path, campaigns)
    assert on_each["processor"].tolist() == ["a", "b"] and on_each["trainings"].tolist() == [500, 500]
    assert on_each["median cv % (scaled_s)"].tolist() == pytest.approx([2.0, 6.0], rel=0.15)
    (pair,) = between.to_dict("records")
    assert (pair["processors"], pair["trainings"]) == ("a / b", 500)
    sd = np.sqrt((0.02**2 + 0.06**2) / 2)  # of the ratio of two means, divided by 1.1
    expected = [1.1, 1.1 * (1 - 1.645 * sd), 1.1 * (1 + 1.645 * sd)]
    assert [pair[name] for name in ("median ratio", "5 %", "95 %")] == pytest.approx(expected, abs=0.02)


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


def test_a_watch_that_has_died_says_so() -> None:
    def count() -> float:
        raise OSError("gone")

    with LoadMonitor(cores=2, count=count) as watch:
        watch._thread.join()
        for ask in (lambda: watch.undisturbed, watch.wait, lambda: watch.mean(0.0, 1.0)):
            with pytest.raises(RuntimeError, match="cannot be watched any more") as reported:
                ask()
            assert isinstance(reported.value.__cause__, OSError)

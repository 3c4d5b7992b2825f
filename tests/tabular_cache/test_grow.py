"""Tables that grow by stages, in parts: the plan, the parts, and what kills and changed data leave."""

import itertools
import json
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import journal_line, make_tables, prepared, vouch
from forked import Forked

from datasets.errors import BadInput
from datasets.files import write_atomically
from harness.execution import serial
from harness.problem import TIMEOUT
from tabular_cache import build, noise, table
from tabular_cache import grow as grow_module
from tabular_cache.__main__ import main
from tabular_cache.audit import print_info
from tabular_cache.build import BuildReport
from tabular_cache.grow import (
    Grower,
    PartStore,
    Plan,
    read_plan,
)
from tabular_cache.measure import LoadMonitor, Measurement, describe
from tabular_cache.replay import Replay
from tabular_cache.schema import METRICS
from tabular_cache.store import Store
from tabular_cache.table import (
    TABLES,
    Table,
    _sidecars,
    base_manifest,
    data_of,
    load_table,
    read_manifest,
    sidecars,
    table_entry,
)

LIMIT_S = 120.0
NOW = time.time()
Stages = dict[str, list[tuple[str, int | None]]]


def plan_of(stages: Stages, limit_s: float = LIMIT_S, **changes: Any) -> Plan:
    known: dict[str, Any] = {"anew": (), "cost_s": {}, **changes}
    return Plan("2026-11-24", limit_s, stages=stages, **known)


def write_plan(folder: Path, plan: Plan) -> None:
    (folder / "parts").mkdir(parents=True, exist_ok=True)
    (folder / "parts" / "plan.json").write_text(json.dumps(asdict(plan)))


def trained(task: Measurement, data_hash: str = "0" * 64) -> dict[str, Any]:
    """Stands in for a training: the same errors for the same task, cut short where it costs more than the limit."""
    line = journal_line(task.config, task.problem, seed=int(task.problem == "b/p"))  # as `make_tables` numbers them
    line |= {"problem": {**line["problem"], "data_hash": data_hash}, "purpose": task.purpose, "started": time.time()}
    limit = task.time_limit_s
    if limit is not None and line["cpu_s"][-1] > limit:
        done = sum(cost <= limit for cost in line["cpu_s"])
        line |= {name: line[name][:done] for name in ("rounds", *METRICS)}
        line |= {"status": TIMEOUT, "spent_cpu_s": limit, "spent_wall_s": limit, "spent_scaled_s": limit}
    return line | {"ended": line["started"] + 0.01}


def sitting(
    folder: Path,
    plan: Plan,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[Measurement], Any] = trained,
    hours: float | None = None,
    busy: float = 1.0,
) -> tuple[BuildReport, Grower, list[Measurement]]:
    """One sitting with made-up trainings; returns its report, the grower and the trainings that it asked for."""
    asked: list[Measurement] = []

    def one(task: Measurement) -> Any:
        asked.append(task)
        return work(task)

    monkeypatch.setattr(build, "measure", one)
    monkeypatch.setattr(build, "time_reference", lambda: (0.5, 0.5))
    store = PartStore(folder, plan)
    with store.locked(), LoadMonitor(cores=1, count=lambda: busy) as watch:
        grower = Grower(store, serial(), 1, watch, hours)
        return grower.run(), grower, asked


def same(one: Table, other: Table) -> bool:
    """Whether two tables hold the same rows, whenever each was measured."""
    columns = [name for name in one.columns if name not in ("started", "busy", "load", "repeats")]
    return len(one) == len(other) and all(
        np.array_equal(one[name], other[name], equal_nan=name in METRICS) for name in columns
    )


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({"time_limit_s": -1}, "time_limit_s: Input should be greater than 0"),
        ({"stages": {"i": [["a/p", 0]]}}, "stages.i.0.1.* greater than or equal to 1"),
        ({"stages": 7}, "stages: "),
    ],
)
def test_a_damaged_plan_is_one_line(change: dict[str, Any], reported: str, tmp_path: Path) -> None:
    write_plan(tmp_path, plan_of({}))
    path = tmp_path / "parts" / "plan.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(BadInput, match=rf"the plan .* is damaged .*{reported}"):
        read_plan(tmp_path)


def test_a_table_is_its_base_file_and_its_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that were there do not change; what readers see is what measuring all at once gives."""
    folder, whole = make_tables(tmp_path / "t", ["a/p", "b/p"], 6), make_tables(tmp_path / "w", ["a/p"], 14)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    old = table_entry("a/p", folder)
    for n in (10, 14):
        report, grower, asked = sitting(folder, plan_of({"i": [("a/p", n)]}), monkeypatch)
        assert (report.failed, grower.finished[0]) == ([], "a/p, i")
    assert [task.config for task in asked] == [10, 11, 12, 13]
    assert sorted(path.name for path in (folder / "parts").glob("a--p*")) == [
        "a--p--0001.json", "a--p--0001.parquet", "a--p--0002.json", "a--p--0002.parquet"
    ]  # fmt: skip
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    assert same(load_table("a/p", folder), load_table("a/p", whole))
    entry, all_at_once = table_entry("a/p", folder), table_entry("a/p", whole)
    assert [entry[name] for name in ("configs", "rows")] == [all_at_once[name] for name in ("configs", "rows")]
    assert entry["sha256"] not in (old["sha256"], all_at_once["sha256"]) and entry["core_s"] > old["core_s"]
    assert table_entry("b/p", folder) == base_manifest(folder)["tables"]["b/p"]  # no parts: as it was
    fingerprint = Replay(tables=str(folder)).fingerprint({"name": "a"}, {"name": "p"})
    assert fingerprint == entry["sha256"]
    with pytest.raises(BadInput, match=r"no table for c/p .*a folder of its own with .*'dataset=\[c\]'.*tables=DIR`"):
        table_entry("c/p", folder)
    assert print_info([("a", "p"), ("b", "p")], folder) == 0
    campaigns = read_manifest(folder)["campaigns"]
    assert len(campaigns) == 1 and campaigns[0]["trainings"] == 8 and len(campaigns[0]["reference"]) == 2


def test_the_parts_of_a_users_own_pipeline_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is that of a module, with dots."""
    name = "a/my.pkg.recipe"
    folder = make_tables(tmp_path / "t", [name], 6)
    for n in (10, 14):
        assert sitting(folder, plan_of({"i": [(name, n)]}), monkeypatch)[0].failed == []
    assert sorted(path.name for path in (folder / "parts").glob("a--*.parquet")) == [
        "a--my.pkg.recipe--0001.parquet", "a--my.pkg.recipe--0002.parquet"
    ]  # fmt: skip
    assert table_entry(name, folder)["configs"] == 14


def test_what_was_cut_short_is_done_again_and_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the plan's limit two of the three reach their rounds; the third is cut again, and that is final."""
    costs = {config: journal_line(config, "a/p")["cpu_s"][-1] for config in range(8)}
    limit = float(np.median([costs[2], costs[5], costs[6]])) + 1e-6
    store = Store(tmp_path)
    with store.locked():
        for config in range(8):
            cut = config in (2, 5, 6)
            line = journal_line(config, "a/p", status=TIMEOUT if cut else "ok")
            short = {name: line[name][:2] for name in ("rounds", *METRICS)} if cut else {}
            store.append("a/p", line | short | ({"spent_cpu_s": limit / 9} if cut else {}))
        store.pack("a/p")
    assert (~load_table("a/p", tmp_path).measured).sum() == 3
    plan = plan_of({"ii": [("a/p", None)]}, limit)
    report, _, asked = sitting(tmp_path, plan, monkeypatch)
    assert [task.config for task in asked] == [2, 5, 6] and {task.time_limit_s for task in asked} == {limit}
    table = load_table("a/p", tmp_path)
    dear = max((2, 5, 6), key=lambda config: costs[config])
    assert table["config"][~table.measured].tolist() == [dear]
    assert table["cpu_s"][~table.measured] == pytest.approx([limit])
    assert (report.cut, table.meta["cut"], table.meta["time_limit_s"], table.meta["configs"]) == (1, 1, limit, 8)
    assert table.measured[(table["config"] != dear) & table["own"]].all()
    assert sitting(tmp_path, plan, monkeypatch)[2] == []


def other(task: Measurement) -> dict[str, Any]:
    return trained(task, "1" * 64)


def test_a_table_measured_from_scratch_takes_the_old_ones_place_when_it_has_as_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_tables(tmp_path, ["a/p", "b/p"], 6)
    old, file = load_table("a/p", folder), (folder / "a--p.parquet").read_bytes()
    sitting(folder, plan_of({"ii": [("a/p", 5)]}, anew=("a/p",)), monkeypatch, other)
    before = load_table("a/p", folder)
    assert same(before, old) and before.meta == old.meta  # five are not six: readers go on with the old one
    plan = plan_of({"ii": [("a/p", 6)], "iii": [("a/p", 8)]}, anew=("a/p",))
    _, _, asked = sitting(folder, plan, monkeypatch, other)
    assert [task.config for task in asked] == [5, 6, 7]
    new = load_table("a/p", folder)
    assert (new.meta["data_hash"], new.meta["configs"], set(new["config"])) == ("1" * 64, 8, set(range(8)))
    assert new.meta["sha256"] != old.meta["sha256"]
    assert (folder / "a--p.parquet").read_bytes() == file  # nothing measured is deleted
    (folder / "a--p.parquet").unlink()  # once it is withdrawn
    assert same(load_table("a/p", folder), new)
    report, _, _ = sitting(folder, plan_of({"i": [("a/p", 9)]}, anew=("a/p",)), monkeypatch)
    assert "are those of the old table" in report.failed[0]


def test_trainings_on_other_data_do_not_come_into_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But those on data of which another processor computed the last digits do, and the sidecar says so."""
    here = prepared()
    elsewhere = replace(here, X_train=here.X_train * np.float32(1 + 1.2e-7), data_hash="1" * 64)
    folder = make_tables(tmp_path, ["b/p"], 4)
    store = Store(folder)
    with store.locked():
        for config in range(4):
            store.append("a/p", journal_line(config, "a/p") | {"problem": describe(here)})
        store.pack("a/p")

    def there(task: Measurement) -> dict[str, Any]:
        return trained(task) | {"problem": describe(elsewhere)}

    plan = plan_of({"i": [("a/p", 6), ("b/p", 6)]})
    report, _, asked = sitting(folder, plan, monkeypatch, there)
    assert [line.partition(" was measured on other data before")[0] for line in report.failed] == ["b/p: b/p"]
    assert [task.problem for task in asked] == ["a/p", "a/p", "b/p"]  # one training tells
    assert load_table("a/p", folder).meta["configs"] == 6
    assert table_entry("a/p", folder)["data_hash"] == here.data_hash
    data = data_of(folder, table_entry("a/p", folder))
    assert {config: one["data_hash"] for config, one in data.items()} == {4: "1" * 64, 5: "1" * 64}


def test_a_part_that_continues_another_table_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_tables(tmp_path, ["a/p"], 4)
    sitting(folder, plan_of({"i": [("a/p", 6)]}), monkeypatch)
    vouch(folder, "a/p", data_hash="2" * 64)
    with pytest.raises(BadInput, match=r"the part a--p--0001.parquet continues a table of other data"):
        load_table("a/p", folder)


@pytest.mark.parametrize("what", ["parquet", "json", "gone", "edited"])
def test_a_damaged_part_is_reported(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_tables(tmp_path, ["a/p"], 4)
    sitting(folder, plan_of({"i": [("a/p", 6)]}), monkeypatch)
    path = folder / "parts" / f"a--p--0001.{'json' if what == 'json' else 'parquet'}"
    content = path.read_bytes()
    path.unlink()
    if what == "edited":
        path.write_bytes(content)
        path = path.with_suffix(".json")
        path.write_text(json.dumps(json.loads(path.read_text()) | {"core_s": 1e6}))
        _sidecars.cache_clear()  # as in another process
    elif what != "gone":
        path.write_bytes(content[:-9] + b"nonsense" + content[-1:])
    reported = {"parquet": "is damaged or foreign: sha256", "json": "the sidecar .* is damaged", "gone": "cannot read"}
    reported["edited"] = "its seal is that of other values"
    with pytest.raises(BadInput, match=reported[what]):
        load_table("a/p", folder)


@pytest.mark.parametrize("when", ["before the file", "before the sidecar", "before the journal goes"])
def test_killed_while_packing(when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, whole = make_tables(tmp_path / "t", ["a/p"], 4), make_tables(tmp_path / "w", ["a/p"], 9)
    plan, unlink, write = plan_of({"i": [("a/p", 9)]}), Path.unlink, write_atomically

    def killed_write(path: Path, content: bytes) -> None:
        if (when, path.suffix) in (("before the file", ".parquet"), ("before the sidecar", ".json")):
            raise KeyboardInterrupt
        write(path, content)

    def killed_unlink(path: Path, missing_ok: bool = False) -> None:
        if path.name == "a--p.part.jsonl":
            raise KeyboardInterrupt
        unlink(path, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(table, "write_atomically", killed_write)
        if when == "before the journal goes":
            patch.setattr(Path, "unlink", killed_unlink)
        with pytest.raises(KeyboardInterrupt):
            sitting(folder, plan, patch)
    assert (folder / "journal" / "a--p.part.jsonl").exists()
    _, _, asked = sitting(folder, plan, monkeypatch)
    assert asked == []
    assert not (folder / "journal" / "a--p.part.jsonl").exists()
    assert [part["number"] for part in sidecars(folder)["a/p"]] == [1]
    assert same(load_table("a/p", folder), load_table("a/p", whole))


def test_a_sitting_ends_in_time_and_packs_what_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_tables(tmp_path / "t", ["a/p"], 4)
    plan = plan_of({"i": [("a/p", 400)]})
    monkeypatch.setattr(grow_module, "FEW_ROWS", 3)

    def slow(task: Measurement) -> dict[str, Any]:
        time.sleep(0.05)
        return trained(task)

    report, _, asked = sitting(folder, plan, monkeypatch, slow, hours=0.5 / 3600)
    assert 3 <= report.trainings < 300 and report.wall_s < 10
    assert sidecars(folder)["a/p"][0]["configs"] == len(asked)
    _, _, more = sitting(folder, plan, monkeypatch, slow, hours=0.5 / 3600)
    assert [task.config for task in more] == [task.config for task in asked][-1:] or more[0].config == len(asked) + 4


def test_disturbed_trainings_are_repeated_twice_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that an earlier sitting had no time to repeat; the cheapest of the three is kept."""
    folder, factor = make_tables(tmp_path, ["a/p"], 4), iter([2.0, 1.5, 1.0, 0.5])

    def beside_other_work(task: Measurement) -> dict[str, Any]:
        line = trained(task)
        slow = next(factor) if task.config == 5 else 1.0
        line |= {name: [slow * v for v in line[name]] for name in ("cpu_s", "scaled_s")}
        return line | {"wall_s": [(1.3 if task.config == 5 else 1.0) * v for v in line["cpu_s"]]}

    plan = plan_of({"i": [("a/p", 7)]})
    with monkeypatch.context() as patch:
        patch.setattr(PartStore, "disturbed", lambda *_: [])
        _, _, asked = sitting(folder, plan, patch, beside_other_work)
    assert [task.purpose for task in asked] == ["new"] * 3
    _, _, asked = sitting(folder, plan, monkeypatch, beside_other_work)
    assert [(task.config, task.purpose) for task in asked] == [(5, "again"), (5, "again")]
    assert sitting(folder, plan, monkeypatch, beside_other_work)[2] == []
    table = load_table("a/p", folder)
    mine = table["config"] == 5
    assert set(table["repeats"][mine]) == {2} and set(table["repeats"][~mine]) == {0}
    assert table["scaled_s"][mine] == pytest.approx(np.array(journal_line(5, "a/p")["scaled_s"]), rel=1e-6)


def test_a_repeated_training_that_fails_does_not_cost_the_rows_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    with store.locked():
        store.append("a/p", journal_line(3, "a/p", status=TIMEOUT))
        store.pack("a/p")
    before = load_table("a/p", tmp_path)

    def failed(task: Measurement) -> dict[str, Any]:
        nothing: dict[str, Any] = {name: [] for name in ("rounds", *METRICS)}
        return trained(task) | nothing | {"status": "failed", "note": "no memory"}

    report, _, _ = sitting(tmp_path, plan_of({"ii": [("a/p", None)]}), monkeypatch, failed)
    assert report.failed == ["a/p #3: failed no memory"]
    assert same(load_table("a/p", tmp_path), before) and not sidecars(tmp_path)


def test_repeats_of_the_noise_sample_come_first_and_are_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(noise, "sample", lambda _: {1, 3, 5})
    folder = make_tables(tmp_path, ["a/p", "b/p"], 4)  # measured years ago
    plan = plan_of({"i": [("a/p", 6)], "ii": [("b/p", 5)]}, anew=("b/p",))

    def dearer(task: Measurement) -> dict[str, Any]:
        line = trained(task, ("1" if task.problem == "b/p" else "0") * 64)
        return line | {"scaled_s": [1.3 * v for v in line["scaled_s"]]}

    _, _, asked = sitting(folder, plan, monkeypatch, dearer)
    assert [(task.problem, task.config, task.purpose) for task in asked[:3]] == [
        ("a/p", 1, "noise"), ("a/p", 3, "noise"), ("a/p", 4, "new")
    ]  # fmt: skip
    assert [task.problem for task in asked if task.purpose == "noise"] == ["a/p"] * 2  # b/p has other data now
    part = sidecars(folder)["noise"][0]
    assert part["rows"] == 3  # the two repeats, and the first measurement of number 5
    measured = noise.read(folder).to_pandas()
    assert measured.groupby(["problem", "config"]).size().to_dict() == {
        ("a/p", 1): 2, ("a/p", 3): 2, ("a/p", 5): 1, ("b/p", 1): 1, ("b/p", 3): 1
    }  # fmt: skip
    assert noise.ratios(folder) == pytest.approx([1.3, 1.3], abs=0.01)
    noise.print_differences(folder)
    assert (
        "2 repeats: 90 % of them cost within 30.0% of the first measurement (more than 10%" in capsys.readouterr().out
    )
    assert sitting(folder, plan, monkeypatch, dearer)[2] == []  # the next repeats are due in two hours


def costly(folder: Path, costs: dict[str, float], configs: int = 6) -> Path:
    """Tables whose trainings cost so many times what made-up ones do; under 1,000 times the last two are cut short."""
    store = Store(folder)
    with store.locked():
        for problem, factor in costs.items():
            for config in range(configs):
                cut = factor >= 1000 and config >= configs - 2
                line = journal_line(config, problem, status=TIMEOUT if cut else "ok")
                times = {name: [factor * v for v in line[name]] for name in ("cpu_s", "wall_s", "scaled_s")}
                times |= {f"spent_{name}": factor * line[f"spent_{name}"] for name in times}
                store.append(problem, line | times)
            store.pack(problem)
    return folder


def test_what_is_left_is_counted_once_and_by_measured_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = costly(tmp_path, {"a/p": 100.0, "b/p": 1000.0}, 40)
    plan = plan_of({"i": [("a/p", 44)], "ii": [("b/p", None)], "v": [("a/p", 50), ("b/p", 40)]}, 1e6)
    rest = PartStore(folder, plan).left()
    assert [(stage.stage, stage.problems, stage.trainings) for stage in rest] == [
        ("i", 1, 4),
        ("ii", 1, 2),
        ("v", 1, 6),
    ]
    table = load_table("a/p", folder)
    own = table["cpu_s"][table["own"]]
    assert rest[0].core_hours == pytest.approx(4 * own.mean() * max(table.meta["core_s"] / own.sum(), 1) / 3600)
    assert rest[2].core_hours == pytest.approx(rest[0].core_hours * 6 / 4)
    sitting(folder, plan_of({"i": [("a/p", 44)]}, 1e6), monkeypatch)
    assert [stage.trainings for stage in PartStore(folder, plan).left()] == [0, 2, 6]


GROW = """
import sys, time
from pathlib import Path
sys.path.insert(0, "tests/tabular_cache")
from tabular_cache import build
from harness.execution import serial
from tabular_cache.grow import Grower, PartStore, read_plan
from tabular_cache.measure import LoadMonitor
from test_grow import trained

def slow(task):
    time.sleep(0.03)
    return trained(task)

build.measure = slow
build.time_reference = lambda: (0.5, 0.5)
folder = Path(sys.argv[1])
store = PartStore(folder, read_plan(folder))
with store.locked(), LoadMonitor(cores=1, count=lambda: 1.0) as watch:
    print("began", flush=True)
    report = Grower(store, serial(), 1, watch, None).run()
print(report.trainings)
"""


@pytest.mark.slow
def test_kill_9_loses_and_repeats_no_finished_training(tmp_path: Path) -> None:
    folder, whole = make_tables(tmp_path / "t", ["a/p", "b/p"], 4), make_tables(tmp_path / "w", ["a/p", "b/p"], 20)
    plan = plan_of({"i": [("a/p", 12), ("b/p", 16)], "iii": [("a/p", 20), ("b/p", 20)]})
    write_plan(folder, plan)

    def finished() -> int:
        store = PartStore(folder, plan)
        return sum(len(set(store.rows(p)["config"].to_pylist())) - 4 for p in ("a/p", "b/p"))  # type: ignore[index]

    with Forked('import sys; sys.path.insert(0, "tests/tabular_cache"); import test_grow') as forked:
        for wanted in (3, 22):  # in the first unit, in the second stage
            process = forked.start(GROW, str(folder))
            while (kept := finished()) < wanted:
                assert process.poll() is None
                time.sleep(0.06)
            assert process.kill() == -signal.SIGKILL
            assert kept <= finished() < 32
        kept = finished()
        last = forked.start(GROW, str(folder))
        assert last.wait() == 0
        assert int(last.out.read_text().splitlines()[-1]) == 32 - kept  # no finished training is done again
    assert not list((folder / "journal").glob("*--p.part.jsonl"))
    for problem in ("a/p", "b/p"):
        assert same(load_table(problem, folder), load_table(problem, whole))
        rows = sum(part["configs"] for part in sidecars(folder)[problem])
        assert rows == 16  # each configuration is in one part


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_tables(tmp_path, ["wine/clean"], 4)

    def run(*arguments: str) -> int:
        trains = [] if arguments[0] == "left" else ["executor=serial"]
        monkeypatch.setattr("sys.argv", ["tabular_cache", *arguments, f"tables={folder}", *trains])
        return main()

    with pytest.raises(BadInput, match=r"no plan in .*: its stages belong into .*plan\.json"):
        run("grow")
    write_plan(folder, plan_of({"i": [("wine/clean", 6)]}))
    assert run("left") == 0
    assert "2 trainings,   1 problems  i\n" in capsys.readouterr().out
    monkeypatch.setattr(build, "measure", trained)
    monkeypatch.setattr(build, "time_reference", lambda: (0.5, 0.5))
    monkeypatch.setattr("tabular_cache.measure.runnable", lambda: 1.0)
    monkeypatch.setattr(LoadMonitor, "undisturbed", property(lambda _: True))
    assert run("grow", "hours=1") == 0
    said = capsys.readouterr().out
    assert "0.00 core-hours are left" in said and "part: wine/clean, i" in said
    with pytest.raises(BadInput, match="grow by parts: `python -m tabular_cache grow` goes on"):
        run("build")
    with pytest.raises(BadInput, match="hours must be null or hours > 0, got -1"):
        run("grow", "hours=-1")


def test_the_shipped_plan_is_that_of_the_shipped_tables() -> None:
    """All 144 problems come to 1,024 configurations; the dearest 40 are the dearest."""
    plan = read_plan(TABLES)
    tables = base_manifest()["tables"]
    assert set(plan.problems) == set(tables) == set(plan.cost_s) and plan.time_limit_s == LIMIT_S
    cost = list(plan.cost_s.values())
    assert cost == sorted(cost, reverse=True)
    most = [max(n for p, n in itertools.chain(*plan.stages.values()) if p == problem and n) for problem in tables]
    assert min(most) == 1024
    same = {"letters/log_pca", "letters/quadratic"}  # whose tables were measured on today's data
    changed = {problem for problem in tables if problem.startswith("letters/")} - same
    assert set(plan.anew) == changed | {f"{d}/{p}" for d in ("coil2000", "mtp") for p in ("quantile_pca", "log_pca")}
    dearest = set(list(plan.cost_s)[:40])
    assert {p for p, _ in next(iter(plan.stages.values()))} == set(tables) - dearest - set(plan.anew)

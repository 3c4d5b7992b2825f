"""Tables and the data they were measured on, where another processor gives other last digits."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import needs_data
from fakes import journal_line, prepared

import datasets
import pipelines
from datasets.errors import BadInput
from harness.execution import serial
from harness.problem import OK
from harness.training import train
from pipelines import prepare
from pipelines.identity import Identity, difference
from pipelines.prepared import Prepared
from tabular_cache import audit as audit_module
from tabular_cache.__main__ import main
from tabular_cache.audit import audit, identify
from tabular_cache.grow import read_plan
from tabular_cache.measure import MEASURED, Measurement, describe
from tabular_cache.schema import ERRORS, configuration
from tabular_cache.store import Store
from tabular_cache.table import TABLES, load_table, read_manifest

HERE = prepared()
ELSEWHERE = replace(HERE, X_train=HERE.X_train * np.float32(1 + 1.2e-7), data_hash="elsewhere")
OTHER = replace(HERE, X_train=HERE.X_train[::-1].copy(), data_hash="other")


def line(config: int, data: Prepared, identity: bool = True) -> dict[str, Any]:
    one = describe(data)
    for key in () if identity else ("identity", "identity_confirmed"):
        one.pop(key)
    return journal_line(config) | {"problem": one}


def measured(config: int, data: Prepared) -> dict[str, Any]:
    """The journal line of a real training."""
    found = train(data, configuration(config), prefixes=())
    values = {name: getattr(found, name).tolist() for name in ERRORS}
    costs = {name: [0.01 * (1 + config)] for name in ("cpu_s", "wall_s", "scaled_s")}
    return line(config, data, identity=False) | values | costs | {"rounds": found.rounds.tolist(), "status": OK}


def test_trainings_of_another_processor_come_into_a_table(tmp_path: Path) -> None:
    """The table keeps hash and identity of its first trainings, so that small differences never add up."""
    assert (HERE.X_train != ELSEWHERE.X_train).mean() > 0.5
    store = Store(tmp_path)
    with store.locked():
        store.append("fake/raw", line(0, HERE))
        store.append("fake/raw", line(1, ELSEWHERE))
        store.pack("fake/raw")
        first = load_table("fake/raw", tmp_path).meta
        assert {key: first[key] for key in ("data_hash", "identity", "identity_confirmed")} == {
            **HERE.description(), "identity_confirmed": MEASURED,
        }  # fmt: skip
        for again in (store, Store(tmp_path)):
            again.append("fake/raw", line(2, ELSEWHERE))
            with pytest.raises(BadInput, match=r"measured on other data before .*other values in the train matrix"):
                again.append("fake/raw", line(3, OTHER))
        store.pack("fake/raw")
    table = load_table("fake/raw", tmp_path)
    assert set(table["config"]) == {0, 1, 2}
    assert (table.meta["data_hash"], table.meta["identity"]) == (first["data_hash"], first["identity"])


def test_a_table_without_identity_gets_one_from_trainings_on_the_same_bytes_only(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.locked():
        store.append("fake/raw", line(0, HERE, identity=False))
        store.pack("fake/raw")
        with pytest.raises(BadInput, match=r"measured on other data before \(data_hash fake, now elsewhere\)"):
            store.append("fake/raw", line(1, ELSEWHERE))
        store.append("fake/raw", line(1, HERE))
        store.pack("fake/raw")
        store.append("fake/raw", line(2, ELSEWHERE))


@pytest.fixture
def old_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two tables from before there were identities, of real trainings on the same data."""
    store = Store(tmp_path)
    with store.locked():
        for problem in ("fake/raw", "fake/twin"):
            for config in range(3):
                store.append(problem, measured(config, HERE))
            store.pack(problem)
    monkeypatch.setattr("pipelines.names", lambda: ("raw", "twin"))
    return tmp_path


def present(monkeypatch: pytest.MonkeyPatch, data: dict[str, Prepared]) -> None:
    """Let these be the data that are there, by pipeline."""

    def retrain(task: Measurement) -> Any:
        x = configuration(task.config).copy()
        x[0] = x[0] if task.rounds is None else task.rounds
        found = data[task.pipeline]
        return train(found, x, prefixes=()), found.description()

    monkeypatch.setattr(audit_module, "prepared", lambda _, pipeline, __: data[pipeline])
    monkeypatch.setattr(audit_module, "retrain", retrain)


def test_old_tables_are_identified_by_hash_or_by_trainings(
    old_tables: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    doubled = replace(HERE, X_train=HERE.X_train * 2, X_valid=HERE.X_valid * 2, X_test=HERE.X_test * 2, data_hash="2")
    present(monkeypatch, {"raw": HERE, "twin": doubled})  # to trees, all columns twice as large are the same
    before = read_manifest(old_tables)["tables"]
    problems = [("fake", "raw"), ("fake", "twin")]
    assert identify(serial(), problems, old_tables, 2, 0) == 0
    entries = read_manifest(old_tables)["tables"]
    assert entries["fake/raw"]["identity_confirmed"] == "data_hash of the matrices it was computed on"
    told = entries["fake/twin"]["identity_confirmed"]
    assert told.startswith("trainings of configurations ") and told.endswith("equal to the last bit")
    for (_, name), data in zip(problems, (HERE, doubled), strict=True):
        entry = entries[f"fake/{name}"]
        assert entry["identity"] == data.identity.to_json()
        kept = {k: v for k, v in entry.items() if not k.startswith("identity")}
        assert kept == before[f"fake/{name}"] | {"seal": entry["seal"]}
    assert "2 of 2 tables had no identity, 2 have one now" in capsys.readouterr().out
    content = (old_tables / "manifest.json").read_bytes()
    assert identify(serial(), problems, old_tables, 2, 0) == 0  # nothing to do
    assert (old_tables / "manifest.json").read_bytes() == content


def test_what_cannot_be_confirmed_gets_no_identity(
    old_tables: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    present(monkeypatch, {"raw": OTHER, "twin": HERE})
    assert identify(serial(), [("fake", "raw"), ("fake", "twin")], old_tables, 3, 0) == 3
    entries = read_manifest(old_tables)["tables"]
    assert "identity" not in entries["fake/raw"] and "identity" in entries["fake/twin"]
    assert "fake/raw: NOT the data of its table" in capsys.readouterr().out


def test_an_audit_says_whether_the_problem_is_the_same(old_tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = [("fake", "raw")]
    present(monkeypatch, {"raw": ELSEWHERE})
    assert not any(row.same_data for row in audit(serial(), pair, old_tables, 2, 0))  # no identity to compare by
    present(monkeypatch, {"raw": HERE})
    identify(serial(), pair, old_tables, 1, 0)
    for data, same in ((HERE, True), (ELSEWHERE, True), (OTHER, False)):
        present(monkeypatch, {"raw": data})
        assert {row.same_data for row in audit(serial(), pair, old_tables, 2, 0)} == {same}


def test_the_command_takes_no_code_from_a_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    with store.locked():
        store.append("wine/os.path", journal_line(0))
        store.pack("wine/os.path")
    monkeypatch.setattr("sys.argv", ["tabular_cache", "identify", f"tables={tmp_path}", "executor=serial"])
    with pytest.raises(BadInput, match=r"pipeline os\.path: its module would run as code"):
        main()


FOLDERS = [TABLES, TABLES.with_name("tables_hist"), TABLES.with_name("tables_figures")]


def test_every_shipped_table_says_how_its_identity_is_known() -> None:
    """But the old tables of those that are measured anew, whose data are no more to be had."""
    changed = read_plan(TABLES).anew
    for folder in FOLDERS:
        for problem, entry in read_manifest(folder)["tables"].items():
            if problem in changed and "identity" not in entry:
                continue
            Identity.from_json(entry["identity"])
            how = entry["identity_confirmed"]
            assert how in (MEASURED, "data_hash of the matrices it was computed on") or how.endswith("to the last bit")
    sketches = [json.dumps(entry.get("identity")) for entry in read_manifest()["tables"].values()]
    assert sum(map(len, sketches)) < 200_000


def test_tables_of_one_problem_in_two_folders_are_of_the_same_data() -> None:
    exact = read_manifest()["tables"]
    for problem, entry in read_manifest(FOLDERS[1])["tables"].items():
        assert difference(exact[problem], entry) == ""


@needs_data
@pytest.mark.parametrize("dataset", ["abalone", "phoneme", "wine"])
def test_the_problems_here_are_those_of_the_shipped_tables(dataset: str) -> None:
    """Whatever this machine's processor is: all pipelines of some data sets."""
    assert dataset in datasets.names()
    for pipeline in pipelines.names():
        entry = read_manifest()["tables"][f"{dataset}/{pipeline}"]
        assert difference(entry, prepare(dataset, pipeline).description()) == ""

"""The shipped tables, audits of tables, and their data, where another processor gives other last digits."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import journal_line, make_tables, prepared
from raw_data import needs_data

import datasets
import pipelines
from datasets.errors import BadInput
from harness.execution import serial
from harness.problem import OK, PREFIX_GRID
from harness.training import Training, train
from pipelines import prepare
from pipelines.identity import Identity, difference
from pipelines.prepared import Prepared
from tabular_cache import audit as audit_module
from tabular_cache.__main__ import main
from tabular_cache.audit import AuditRow, audit, drawn, held, print_audit, print_info, sample, summarise
from tabular_cache.build import Builder, BuildReport, MeasurementBudget, Planner
from tabular_cache.grow import read_plan
from tabular_cache.measure import MEASURED, LoadMonitor, Measurement, describe
from tabular_cache.schema import METRICS, configuration
from tabular_cache.store import Store
from tabular_cache.table import TABLES, load_table, read_manifest, read_table

STUDY = [(d, p) for d in datasets.names() for p in pipelines.names()]


def test_info_shows_what_a_folder_holds(tmp_path: Path) -> None:
    """Those of the study in its order, others after them; what was asked for by name, and is not there, is an error."""
    folder = make_tables(tmp_path, ["wine/clean", "abalone/onehot", "a1a/clean", "abalone/clean"], 4)
    shown = [("abalone", "clean"), ("abalone", "onehot"), ("wine", "clean"), ("a1a", "clean")]
    assert held(folder, STUDY) == shown
    with pytest.raises(BadInput, match="no table for wine/onehot"):
        print_info([("wine", "onehot")], folder)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "manifest.json").write_text(json.dumps({**read_manifest(folder), "tables": {}}))
    with pytest.raises(BadInput, match=r"no table in .*: build some with `python -m tabular_cache build tables="):
        held(tmp_path / "empty", STUDY)


@pytest.mark.parametrize("dataset", datasets.names())
def test_shipped_tables_are_of_the_shared_sequence_and_its_prefixes(dataset: str) -> None:
    for pipeline in pipelines.names()[::3]:
        table = read_table(f"{dataset}/{pipeline}", TABLES)
        measured = table.measured
        configs, mine = np.unique(table["config"], return_inverse=True)
        x = np.array([configuration(int(c)) for c in configs])[mine]
        assert (table.native[:, 1:] == x[:, 1:]).all()
        rounds = table.native[:, 0]
        assert (np.isin(rounds, PREFIX_GRID) | (rounds == x[:, 0]))[measured].all()
        rows = np.flatnonzero(measured)[np.argsort(mine[measured], kind="stable")]
        more = np.diff(table["cpu_s"][rows])
        assert (more[np.diff(mine[rows]) == 0] > 0).all()  # more rounds of one configuration cost more


def test_summaries_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_tables(tmp_path, ["a/p", "b/p"], 6)
    table = read_table("a/p", tmp_path)
    line = summarise(table)
    own = [i for i in range(len(table)) if table["own"][i]]
    assert line["mean cost s"] == pytest.approx(sum(table["scaled_s"][i] for i in own) / 6)
    assert line["max cost s"] == max(table["scaled_s"])
    assert line["slowest/fastest"] == max(table["scaled_s"]) / min(table["scaled_s"])
    assert (line["best error"], line["worst error"]) == (min(table["val_error"]), max(table["val_error"]))
    assert (line["configs"], line["rows"], line["cut short"]) == (6, len(table), 0)
    assert print_info([("a", "p"), ("b", "p")], tmp_path) == 0
    out = capsys.readouterr().out
    assert "2 problems, 12 configurations" in out and "Noise of the costs" not in out


PROBLEMS = [("phoneme", "pca_small"), ("abalone", "clean")]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Planner, BuildReport]:
    """A build of three configurations of two problems, and what it said."""
    store = Store(tmp_path_factory.mktemp("built"))
    planner = Planner(store, PROBLEMS, MeasurementBudget(0, 3, 3))
    with store.locked(), LoadMonitor(count=lambda: 1.0) as watch:
        return planner, Builder(planner, serial(), 1, watch).run()


@needs_data
def test_build_measures_and_audit_confirms(
    built: tuple[Planner, BuildReport], capsys: pytest.CaptureFixture[str]
) -> None:
    planner, report = built
    folder = planner.store.folder
    assert (report.trainings - report.repeats, report.failed) == (6, [])
    assert planner.next_pass() == []
    campaign = read_manifest(folder)["campaigns"][-1]
    assert print_info(PROBLEMS, folder) == 0
    said = capsys.readouterr().out.partition("The reference training")[2]
    assert campaign["cpu"] in said and f"{np.median([t[2] for t in campaign['reference']]):.3f}" in said
    assert campaign["trainings"] == report.trainings
    assert len(campaign["reference"]) == 1
    assert campaign["versions"]["xgboost-cpu"]
    rows = audit(serial(), PROBLEMS, folder, 2, seed=0)
    assert len(rows) == 4
    assert all(row.same_errors and row.same_data and row.worst_difference == 0 for row in rows)
    assert print_audit(rows, read_manifest(folder)) == 0
    assert "4 with identical errors, 0 not; cost now / table: median " in (said := capsys.readouterr().out)
    assert "library versions differ" not in said
    ratio = [row.cost_ratio for row in rows]
    assert f"median {np.median(ratio):.3f}, 90 % of them in [{np.quantile(ratio, 0.05):.3f}" in said


def test_an_audit_repeats_what_was_cut_short_as_far_as_it_came(tmp_path: Path) -> None:
    store = Store(tmp_path)
    lines = [journal_line(config, status="timeout" if config % 2 else "ok") for config in range(8)]
    with store.locked():
        for line in lines:
            store.append("a/p", line)
        store.pack("a/p")
    reached = {line["config"]: line["rounds"][-1] for line in lines if line["rounds"]}
    assert sample(load_table("a/p", tmp_path), 8, seed=0) == reached
    assert len(sample(load_table("a/p", tmp_path), 3, seed=0)) == 3


def test_an_audit_of_a_folder_draws_from_what_it_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, seen = make_tables(tmp_path, ["wine/clean", "abalone/onehot"], 4), []

    def no_audit(executor: object, problems: list[tuple[str, str]], *_: object) -> list[AuditRow]:
        seen.append(problems)
        return [AuditRow(f"{d}/{p}", 0, worst_difference=0.0) for d, p in problems]

    monkeypatch.setattr(audit_module, "audit", no_audit)
    for asked in ([], ["dataset=[wine]", "pipeline=[clean]"]):
        monkeypatch.setattr("sys.argv", ["tabular_cache", "audit", f"tables={folder}", "executor=serial", *asked])
        assert main() == 0
    assert seen == [[("abalone", "onehot"), ("wine", "clean")], [("wine", "clean")]]
    make_tables(tmp_path / "foreign", ["wine/os.path"], 4)
    monkeypatch.setattr("sys.argv", ["tabular_cache", "audit", f"tables={tmp_path / 'foreign'}"])
    with pytest.raises(BadInput, match=r"pipeline os\.path: its module would run as code; .* 'allow_targets=\[os\]'"):
        main()


def test_problems_are_drawn_for_an_audit() -> None:
    some = drawn(STUDY, 36, 0)
    assert len(set(some)) == 36
    assert some == [p for p in STUDY if p in some] == drawn(STUDY, 36, 0) != drawn(STUDY, 36, 1)
    assert len({pipeline for _, pipeline in some}) == len(pipelines.names())
    assert drawn(STUDY, None, 0) == STUDY
    with pytest.raises(BadInput, match="n_problems=145: there are 144 to draw from"):
        drawn(STUDY, 145, 0)


def test_what_could_not_be_repeated_is_reported_and_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_tables(tmp_path, ["a/p"], 3)
    nothing = {name: np.array([]) for name in METRICS} | {"rounds": np.array([], dtype=np.int64)}
    short = replace(train(prepared(), configuration(1)), **nothing, status="failed", note="no")

    def lost(task: Measurement) -> tuple[Training, dict[str, str]]:
        if task.config == 0:
            raise OSError("worker lost")
        return short, {"data_hash": "0" * 64}

    monkeypatch.setattr(audit_module, "retrain", lost)
    rows = audit(serial(), [("a", "p")], tmp_path, 2, 0)
    assert len(rows) == 2 and not any(row.same_errors for row in rows)
    manifest = read_manifest(tmp_path) | {"campaigns": [{"versions": {"xgboost-cpu": "0.1"}}]}
    assert print_audit(rows, manifest) == 3
    said = capsys.readouterr().out
    assert "library versions differ: measured by {'xgboost-cpu': '0.1'}" in said
    assert "not compared: failed no" in said and "median" not in said
    if rows[0].config == 0:
        assert "worker lost" in said


@needs_data
def test_audit_finds_a_wrong_error(
    built: tuple[Planner, BuildReport], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = built[0].store.folder
    table = load_table("abalone/clean", folder)  # not the remembered one, since it is changed
    assert list(sample(table, 5, 0)) == [0, 1, 2]
    assert set(np.array(table.statuses)[table.status]) == {OK}
    table["val_error"][-1] += 1e-4
    monkeypatch.setattr(audit_module, "load_table", lambda *_: table)
    rows = audit(serial(), [("abalone", "clean")], folder, 3, 0)
    assert [row.same_errors for row in rows] == [True, True, False]
    assert print_audit(rows, read_manifest(folder)) == 3
    assert "errors differ by up to 0.0001" in capsys.readouterr().out


# Identities of data.

HERE = prepared()
ELSEWHERE = replace(HERE, X_train=HERE.X_train * np.float32(1 + 1.2e-7), data_hash="elsewhere")
OTHER = replace(HERE, X_train=HERE.X_train[::-1].copy(), data_hash="other")


def line(config: int, data: Prepared, identity: bool = True) -> dict[str, Any]:
    one = describe(data)
    for key in () if identity else ("identity", "identity_confirmed"):
        one.pop(key)
    return journal_line(config) | {"problem": one}


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


def test_an_audit_says_whether_the_problem_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    with store.locked():
        store.append("fake/raw", line(0, HERE))
        store.append("fake/old", line(0, HERE, identity=False))
        for name in ("fake/raw", "fake/old"):
            store.pack(name)
    seen = train(HERE, configuration(0), prefixes=())
    for pipeline, data, same in (
        *(("raw", HERE, True), ("raw", ELSEWHERE, True), ("raw", OTHER, False)),
        *(("old", HERE, True), ("old", ELSEWHERE, False)),  # no identity to compare by
    ):
        monkeypatch.setattr(audit_module, "retrain", lambda _, data=data: (seen, data.description()))
        assert [row.same_data for row in audit(serial(), [("fake", pipeline)], tmp_path, 1, 0)] == [same]


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


@needs_data
@pytest.mark.parametrize("dataset", ["abalone", "phoneme", "wine"])
def test_the_problems_here_are_those_of_the_shipped_tables(dataset: str) -> None:
    """Whatever this machine's processor is: all pipelines of some data sets."""
    assert dataset in datasets.names()
    for pipeline in pipelines.names():
        entry = read_manifest()["tables"][f"{dataset}/{pipeline}"]
        assert difference(entry, prepare(dataset, pipeline).description()) == ""

"""Training live what emulated runs chose."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fakes import make_tables, prepared

from datasets.errors import BadInput
from harness.execution import serial
from harness.records import TRACE, block_files, write_block
from harness.space import XGBOOST_SPACE
from harness.training import train
from tabular_cache import live_truth as confirm_module
from tabular_cache.live_truth import Choice, choices, confirm, print_confirmed
from tabular_cache.table import read_manifest


def record(
    results: Path,
    method: str,
    errors: list[float],
    rounds: list[int],
    evaluator: dict[str, object],
    kind: str = "surface",
    dataset: str = "fake",
    **more: object,
) -> None:
    n = len(errors)
    trace: dict[str, list[object]] = {name: [0.5] * n for name in TRACE.names}
    trace |= {"seed": [0] * n, "step": list(range(n)), "candidate": list(range(n)), "status": ["ok"] * n}
    trace |= {"error": list(errors), "cost_s": [0.1] * n, "n_estimators": list(rounds), "max_depth": [3.0] * n}
    trace |= {"learning_rate": [0.3] * n, "gamma": [0.01] * n, "reg_alpha": [0.01] * n, "reg_lambda": [1.0] * n}
    spec = {"dataset": dataset, "pipeline": "raw", "method": method, "acq": method, "iterations": n, "lam": None}
    spec |= {
        "alpha": None,
        "tau": None,
        "evaluator": kind,
        "utility": "ei",
        "surrogate": "gp",
        "cost_model": "lv3",
        "components": {"evaluator": evaluator, **more},
        "data": "of the tables",
    }
    write_block(results, block_files(spec, [0], trace, {"seed": [], "step": [], "fit_ms": [], "propose_ms": []}))


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four runs; three of them chose the same, one of these with trainings by histograms."""
    data = replace(prepared(), data_hash="of the tables")
    monkeypatch.setattr(confirm_module, "prepared", lambda *_: data)
    exact, hist = ({"tree_method": m} for m in ("exact", "hist"))
    record(tmp_path, "ei", [0.9, 0.3, 0.4], [4, 7, 9], exact)
    record(tmp_path, "eipu", [0.9, 0.2, 0.4], [4, 7, 9], exact)  # chose the same, saw something else
    record(tmp_path, "cei", [0.8, np.nan, 0.5], [4, 7, 9], exact)
    record(tmp_path, "logei", [0.9, 0.3, 0.4], [4, 7, 9], hist)
    return tmp_path


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Choice]:
    seen: list[Choice] = []
    inner = confirm_module.retrain

    def retrain(choice: Choice) -> dict[str, object]:
        seen.append(choice)
        return inner(choice)

    monkeypatch.setattr(confirm_module, "retrain", retrain)
    return seen


def test_every_run_has_a_row_and_every_training_is_done_once(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = counted(monkeypatch)
    frame = confirm(serial(), results, {("fake", "raw")}).set_index("method")
    assert len(trained) == 3
    assert frame["told_error"].to_dict() == {"ei": 0.3, "eipu": 0.2, "cei": 0.5, "logei": 0.3}
    assert frame["n_estimators"].to_dict() == {"ei": 7, "eipu": 7, "cei": 9, "logei": 7}
    for _, row in frame.iterrows():
        x = np.array([row[name] for name in XGBOOST_SPACE.names])
        alone = train(prepared(), x, (), row["tree_method"])
        assert row["error"] == alone.val_error[-1]
        assert 0 < row["cost_s"] < 100 * alone.scaled_s[-1]
    assert frame.loc["ei", ["error", "cost_s"]].equals(frame.loc["eipu", ["error", "cost_s"]])
    assert len(pd.read_csv(results / "confirmed.csv")) == 4
    assert print_confirmed(frame.reset_index()) == 0
    off = np.median(np.abs(100 * (frame["error"] / frame["told_error"] - 1)))
    assert f"median over problems: error {off:.2f} %" in capsys.readouterr().out
    with pytest.raises(BadInput, match="no runs of these problems"):
        confirm(serial(), results, {("other", "raw")})


def test_the_cost_of_what_learning_curves_chose_is_not_compared(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An evaluation's cost is then of the whole training, or of what was added to an earlier one."""
    record(results, "curves", [0.9, 0.3], [4, 7], {"tree_method": "exact"}, curves={"continues": True})
    frame = confirm(serial(), results, {("fake", "raw")})
    assert frame.set_index("method")["told_cost_s"].isna().to_dict() == {
        "ei": False, "eipu": False, "cei": False, "logei": False, "curves": True,
    }  # fmt: skip
    assert print_confirmed(frame[frame["method"] == "curves"]) == 0
    assert "cost not compared, as with curves= it is not that of the model chosen" in capsys.readouterr().out


def test_what_was_trained_is_not_trained_again(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = confirm(serial(), results, {("fake", "raw")})
    record(results, "later", [0.9, 0.35], [4, 5], {"tree_method": "exact"})
    trained = counted(monkeypatch)
    again = confirm(serial(), results, {("fake", "raw")})
    assert [choice.x[0] for choice in trained] == [5.0]
    pd.testing.assert_frame_equal(again[again["method"] != "later"].reset_index(drop=True), first)
    (results / "confirmed.csv").write_text("a,b\n1,2\n")
    with pytest.raises(BadInput, match="holds no confirmed choices"):
        confirm(serial(), results, {("fake", "raw")})


def test_a_lost_training_loses_no_other(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = confirm_module.retrain

    def fragile(choice: Choice) -> dict[str, object]:
        if choice.tree_method == "hist":
            raise OSError("lost")
        return inner(choice)

    monkeypatch.setattr(confirm_module, "retrain", fragile)
    found = confirm(serial(), results, {("fake", "raw")})
    assert print_confirmed(found) == 3
    assert "not confirmed: fake/raw logei seed 0: OSError: lost" in capsys.readouterr().out
    assert found["error"].notna().tolist() == [True, True, True, False]
    monkeypatch.setattr(confirm_module, "retrain", inner)
    trained = counted(monkeypatch)
    assert print_confirmed(confirm(serial(), results, {("fake", "raw")})) == 0
    assert [choice.tree_method for choice in trained] == ["hist"]  # what was lost is tried again, and nothing else


def test_beside_runs_on_surfaces_those_on_rows_are_not_trained(results: Path) -> None:
    record(results, "rows", [0.9, 0.1], [4, 5], {"tree_method": "exact"}, "replay")
    assert set(confirm(serial(), results, {("fake", "raw")})["method"]) == {"ei", "eipu", "cei", "logei"}


def test_live_runs_of_other_problems_are_no_hindrance(results: Path) -> None:
    record(results, "live", [0.9, 0.3], [4, 7], {"tree_method": "exact"}, "live", "other")
    assert len(confirm(serial(), results, {("fake", "raw")})) == 4
    with pytest.raises(BadInput, match="there is nothing to confirm"):
        confirm(serial(), results, {("fake", "raw"), ("other", "raw")})


@pytest.mark.parametrize(("evaluator", "name", "message"), [
    ({"tables": None, "objective": "loss"}, "replay_loss", "its runs saw log-loss"),
    ({"tables": None, "cost": "wall"}, "replay", "or cost=cpu or wall"),
    ({"tree_method": "exact"}, "live", "there is nothing to confirm"),
])  # fmt: skip
def test_what_saw_something_else_is_not_compared(
    evaluator: dict[str, object], name: str, message: str, tmp_path: Path
) -> None:
    record(tmp_path, "ei", [0.9, 0.3], [4, 7], evaluator, name)
    with pytest.raises(BadInput, match=message):
        choices(tmp_path, {("fake", "raw")})


def test_other_data_than_those_of_the_table_are_refused(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirm_module, "prepared", lambda *_: replace(prepared(), data_hash="other"))
    with pytest.raises(BadInput, match=r"fake/raw: the data here .* are not those that its table was trained on"):
        confirm(serial(), results, {("fake", "raw")})
    tables = make_tables(tmp_path / "tables", ["fake/raw"], 4)  # says what it was trained on itself
    record(tmp_path / "r", "ei", [0.9, 0.3], [4, 7], {"tables": str(tables), "n_configs": 4})
    with pytest.raises(BadInput, match="are not those that its table was trained on"):
        confirm(serial(), tmp_path / "r", {("fake", "raw")})
    there = read_manifest(tables)["tables"]["fake/raw"]["data_hash"]
    monkeypatch.setattr(confirm_module, "prepared", lambda *_: replace(prepared(), data_hash=there))
    assert len(confirm(serial(), tmp_path / "r", {("fake", "raw")})) == 1

"""Offline studies of cost models: censored costs and prediction."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from fakes import journal_line, make_tables

from analysis.papers.hutter2013.records import read_censored
from harness.execution import serial
from harness.surrogates.forest import RandomForest
from tabular_cache.__main__ import main
from tabular_cache.cost_study import (
    SLACK,
    TIMEOUT,
    CensoringData,
    CensoringTrial,
    PredictionTrial,
    cap_sequence,
    halves,
    learn,
    run_all,
    run_trial,
    score,
    slack_rows,
    timeout_rows,
)
from tabular_cache.store import Store
from tabular_cache.table import load_table

LV = {"_target_": "harness.cost_models.linear.LowVariance", "features": ["n_estimators", "max_depth"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tables(tmp_path_factory.mktemp("tables"), ["a/p", "b/p", "c/p"], 60)


def case(folder: Path, results: Path) -> CensoringTrial:
    return CensoringTrial(SLACK, "a/p", (0,), (40,), (1.0, 2.0, None), 10, {"lv2": LV}, 0.25, str(folder), str(results))


def test_each_evaluation_is_stopped_at_slack_times_the_lowest_cost_so_far_of_its_group() -> None:
    y = np.log([4.0, 2.0, 2.5, 5.0, 1.0, 9.0])
    observed, censored = cap_sequence(y, 1.5, np.log(8.0))
    np.testing.assert_allclose(np.exp(observed), [4, 2, 2.5, 3, 1, 1.5])
    assert censored.tolist() == [False, False, False, True, False, True]
    observed, censored = cap_sequence(y, None, np.log(8.0))
    np.testing.assert_allclose(np.exp(observed), [4, 2, 2.5, 5, 1, 8])
    assert not censored.any()  # kappa_max is what the last counts for
    observed, censored = cap_sequence(y, 1.0, np.log(8.0), np.array([0, 1, 0, 1, 2, 2]))
    np.testing.assert_allclose(np.exp(observed), [4, 2, 2.5, 2, 1, 1])
    assert censored.tolist() == [False, False, False, True, False, True]


def test_no_configuration_is_both_learned_from_and_asked_about(folder: Path) -> None:
    table = load_table("a/p", folder)
    data = halves(table, 0)
    rows = {tuple(u): c for u, c in zip(table.unit, table["config"], strict=True)}
    known, asked = ({rows[tuple(u)] for u in part} for part in (data.X, data.C))
    assert len(known) == len(asked) == 30 and not known & asked
    assert not np.array_equal(data.X[:5], halves(table, 1).X[:5])


def test_scores_know_the_truth_and_treatments_are_one_where_nothing_is_stopped(folder: Path) -> None:
    rows = slack_rows(halves(load_table("a/p", folder), 0), (1.0, 2.0, None), RandomForest(trees=10))
    assert [(r["slack"], r["treatment"]) for r in rows[:2]] == [(1.0, "sampled"), (1.0, "mean")]
    free = [r for r in rows if np.isnan(r["slack"])]
    assert len(free) == 4 and len({r["rmse"] for r in free}) == 1 and free[0]["censored"] == 0
    stopped = {r["treatment"]: r for r in rows if r["slack"] == 1.0}
    assert stopped["sampled"]["censored"] > 0.5
    assert stopped["sampled"]["rmse"] < stopped["bound"]["rmse"]
    assert stopped["sampled"]["log_likelihood"] > stopped["bound"]["log_likelihood"]


def test_costs_that_nobody_saw_make_no_difference(folder: Path) -> None:
    """What lies beyond the bounds, among what is learned from or asked about, may be anything: the forests stay."""
    data = halves(load_table("a/p", folder), 0)
    observed, hidden = cap_sequence(data.y, 1.0, np.inf)
    far = CensoringData(
        data.X, data.y + 5.0 * hidden, data.C, np.where(data.truth > observed.max(), data.truth + 5.0, data.truth)
    )
    assert hidden.mean() > 0.5 and (far.truth > data.truth).any()
    below = [
        [r["rmse_below"] for r in slack_rows(part, (1.0,), RandomForest(trees=5), kappa_max)]
        for part, kappa_max in ((data, np.inf), (far, np.inf), (far, float(observed.max())))
    ]
    assert below[0] == below[1]
    assert below[1] != below[2]  # as they would if what is imputed were limited


def test_timeouts_cost_a_linear_model_accuracy_that_imputing_gives_back(folder: Path) -> None:
    table = load_table("a/p", folder)
    rows = {r["treatment"]: r for r in timeout_rows(halves(table, 0), {"lv2": LV}, 0.25, table, 0)}
    assert rows["known"]["censored"] == pytest.approx(0.25, abs=0.01)
    assert rows["known"]["rmse"] <= rows["imputed"]["rmse"] < rows["bound"]["rmse"]
    assert rows["imputed"]["rmse_beyond"] < rows["bound"]["rmse_beyond"]


def test_more_seeds_are_added_to_those_that_are_there(folder: Path, tmp_path: Path) -> None:
    one = case(folder, tmp_path / "parts")
    run_trial(one)
    (first,) = (tmp_path / "parts").rglob("*.parquet")
    before = first.read_bytes(), first.stat().st_mtime_ns
    run_trial(replace(one, seeds=(0, 1)))
    assert (first.read_bytes(), first.stat().st_mtime_ns) == before
    run_trial(replace(one, seeds=(0, 1), results=str(tmp_path / "whole")))
    parts, whole = (read_censored(tmp_path / name) for name in ("parts", "whole"))
    assert len(parts) == 2 * 3 * 4
    keys = ["seed", "slack", "treatment"]
    pd.testing.assert_frame_equal(*(f.sort_values(keys, ignore_index=True) for f in (parts, whole)))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("experiments=[all]", "each of experiments must be one of slack, timeout, got 'all'"),
        ("share=2", "share must be a share"),
        ("slack=[0.5]", "slack must be a number >= 1, or null"),
        ("cost_models=[]", "must not be empty"),
        ("slack=1.3", r"slack must be a list, \[a,b\], got 1.3"),
        ("sizes=40", r"sizes must be a list, \[a,b\], got 40"),
    ],
)
def test_wrong_settings_are_reported(setting: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["tabular_cache", "censored", setting, "executor=serial"])
    with pytest.raises(ValueError, match=message):
        main()


def test_what_a_transferred_model_has_learned_belongs_to_the_spec(tmp_path: Path) -> None:
    """The record of the default models stays what it was; that of transferred ones changes with the other tables."""
    tables = make_tables(tmp_path / "tables", ["a/p", "b/p", "c/p"], 20)
    regressor = {"_target_": "sklearn.linear_model.LinearRegression"}
    transferred = {"_target_": "tabular_cache.transfer.Transfer", "regressor": regressor, "tables": str(tables)}
    plain = replace(case(tables, tmp_path / "r"), experiment=TIMEOUT, problem="a/p")
    own = replace(plain, models={"transfer": transferred})
    before = own.spec()
    assert set(before["known"]) == {"transfer"} and "known" not in plain.spec()
    store = Store(tables)
    with store.locked():
        store.append("c/p", journal_line(99, "c/p"))
        store.pack("c/p")
    assert own.spec()["known"] != before["known"]


# Prediction.

ORACLE = {"_target_": "harness.cost_models.Oracle"}


def trial(folder: Path, results: Path, **changes: object) -> PredictionTrial:
    settings = {"problem": "a/p", "name": "lv2", "config": LV, "seeds": (0, 1), "sizes": (4, 8, 20, 50)}
    return PredictionTrial(**{**settings, "tables": str(folder), "results": str(results), **changes})  # type: ignore[arg-type]


def test_scores_by_hand() -> None:
    found = score(np.zeros(4), np.array([0.1, -0.1, 1.0, -3.0]), np.array([1.0, 0.1, 1.0, 1.0]))
    assert found["rmse"] == pytest.approx(np.sqrt((0.01 + 0.01 + 1 + 9) / 4))
    assert (found["bias"], found["asked"], found["sd"]) == (pytest.approx(-0.5), 4, 1.0)
    # z = 0.1, 1, 1, 3 against 0.674, 1.282, 1.960
    assert (found["cover50"], found["cover80"], found["cover95"]) == (0.25, 0.75, 0.75)


def test_what_is_asked_was_never_learned_from_and_is_the_same_for_every_n(folder: Path) -> None:
    table, seen = load_table("a/p", folder), []

    class Spy:
        def fit(self, X: np.ndarray, cost_s: np.ndarray) -> None:
            self.X = X

        def predict(self, C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            seen.append((self.X, C))
            return np.zeros(len(C)), np.ones(len(C))

    Spy.__module__, Spy.__qualname__ = __name__, "Spy"
    globals()["Spy"] = Spy
    rows = learn(table, {"_target_": f"{__name__}.Spy"}, 3, (4, 8, 20, 50))
    assert [row["n"] for row in rows] == [4, 8, 20]  # 50 would leave 10 of 60 configurations
    assert [len(X) for X, _ in seen] == [4, 8, 20]
    own = {tuple(u) for u in table.unit[table.longest]}
    for X, C in seen:
        assert len(C) == 40 and np.array_equal(C, seen[0][1])
        assert not {tuple(x) for x in X} & {tuple(c) for c in C}
        assert {tuple(x) for x in X} <= own and {tuple(c) for c in C} <= own
    assert np.array_equal(seen[2][0][:8], seen[1][0])


def test_the_oracle_makes_no_error(folder: Path) -> None:
    rows = learn(load_table("a/p", folder), ORACLE, 0, (4, 8))
    assert all(row["rmse"] < 1e-12 for row in rows)


def test_records_are_complete_say_what_made_them_and_are_not_redone(folder: Path, tmp_path: Path) -> None:
    trials = [
        trial(folder, tmp_path),
        trial(folder, tmp_path, problem="b/p"),
        trial(folder, tmp_path, name="bad", config={"_target_": "no.such"}),
    ]
    failed = run_all(serial(), trials)
    assert len(failed) == 1 and failed[0].startswith("a/p bad: ")
    paths = sorted((tmp_path / "costs").rglob("*.parquet"))
    assert [p.parent.name for p in paths] == ["a--p", "b--p"]
    table = pq.read_table(paths[0])
    spec = json.loads(table.schema.metadata[b"spec"])
    assert (spec["cost_model"], spec["problem"], spec["task"]) == ("lv2", "a/p", "binary")
    assert sorted(set(zip(table["seed"].to_pylist(), table["n"].to_pylist(), strict=True))) == [
        (s, n) for s in (0, 1) for n in (4, 8, 20)
    ]
    before = [(p.read_bytes(), p.stat().st_mtime_ns) for p in paths]
    run_all(serial(), trials[:2])
    assert before == [(p.read_bytes(), p.stat().st_mtime_ns) for p in paths]


# Features and ridge.

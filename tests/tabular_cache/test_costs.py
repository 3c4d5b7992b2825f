"""The comparison of cost models: what is learned from, what is asked, and records that are never redone."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from fakes import make_tables

from harness.execution import serial
from tabular_cache.cost_study import PredictionTrial, learn, run_all, score
from tabular_cache.table import load_table

LV = {"_target_": "harness.cost_models.linear.LowVariance", "features": ["n_estimators", "max_depth"]}
ORACLE = {"_target_": "harness.cost_models.Oracle"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tables(tmp_path_factory.mktemp("tables"), ["a/p", "a/q"], 60)


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
        trial(folder, tmp_path, problem="a/q"),
        trial(folder, tmp_path, name="bad", config={"_target_": "no.such"}),
    ]
    failed = run_all(serial(), trials)
    assert len(failed) == 1 and failed[0].startswith("a/p bad: ")
    paths = sorted((tmp_path / "costs").rglob("*.parquet"))
    assert [p.parent.name for p in paths] == ["a--p", "a--q"]
    table = pq.read_table(paths[0])
    spec = json.loads(table.schema.metadata[b"spec"])
    assert (spec["cost_model"], spec["problem"], spec["task"]) == ("lv2", "a/p", "binary")
    assert sorted(set(zip(table["seed"].to_pylist(), table["n"].to_pylist(), strict=True))) == [
        (s, n) for s in (0, 1) for n in (4, 8, 20)
    ]
    before = [(p.read_bytes(), p.stat().st_mtime_ns) for p in paths]
    run_all(serial(), trials[:2])
    assert before == [(p.read_bytes(), p.stat().st_mtime_ns) for p in paths]

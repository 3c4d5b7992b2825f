"""F2, F8 and the page about cost models, on made-up records."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from synthetic_records import Way, frame

from analysis import costs_figures, costs_report
from analysis.__main__ import main
from analysis.costs import calibration, learning_curves, models, per_problem, read_costs
from analysis.costs_fronts import f9, trade_offs
from harness.errors import BadInput
from harness.executors import serial
from tabular_cache.costs import Trial, run_all

SIZES = (4, 8)
LEVEL = {"lv3": 0.5, "gp": 0.9, "transfer_tree": 0.7}


@pytest.fixture
def costs() -> pd.DataFrame:
    """RMSE = the model's level / n (transferred: whatever n) + 0.1 per seed + 0.01 on problem b/q."""
    rows = []
    for dataset, pipeline, task in (("a", "p", "regression"), ("a", "q", "regression"), ("b", "q", "binary")):
        for seed in (0, 1):
            for name, level in LEVEL.items():
                for n in SIZES:
                    other = name.startswith("transfer")
                    scores = {"rmse": level / (1 if other else n) + 0.1 * seed + 0.01 * (dataset == "b")}
                    scores |= {"cover50": 0.4, "cover80": 0.7 + 0.1 * seed, "cover95": 0.9}
                    cell = {"dataset": dataset, "pipeline": pipeline, "task": task, "seed": seed}
                    rows.append({**cell, "cost_model": name, "n": n, "trained_on": 900 if other else n, **scores})
    return pd.DataFrame(rows)


def test_curves_by_hand(costs: pd.DataFrame) -> None:
    found = learning_curves(costs).set_index(["cost_model", "n"])
    assert found.loc[("gp", 8), "value"] == pytest.approx(0.9 / 8 + 0.05 + 0.01 / 3)
    assert found.loc[("gp", 8), ["off_value", "off_low", "off_high"]].to_numpy() == pytest.approx([0.4 / 8] * 3)
    assert (found["cells"] == 6).all()
    assert models(costs) == ["lv3", "gp", "transfer_tree"]
    shorter = costs[~((costs["cost_model"] == "gp") & (costs["n"] == 8) & (costs["dataset"] == "b"))]
    assert learning_curves(shorter).set_index(["cost_model", "n"]).loc[("lv3", 8), "cells"] == 4
    covered = calibration(costs).set_index(["cost_model", "n"])
    assert covered.loc[("lv3", 4), ["cover50", "cover80", "cover95"]].to_numpy() == pytest.approx([0.4, 0.75, 0.9])
    assert len(per_problem(costs, 8)) == 9


def test_both_figures_say_what_they_show(costs: pd.DataFrame, tmp_path: Path) -> None:
    drawn = costs_figures.f2(costs, tmp_path)
    assert set(drawn.numbers["cost_model"]) == {"lv3", "gp"}
    assert "2 seeds (tables)" in drawn.caption
    boxes = costs_figures.f8(costs, tmp_path)
    assert list(dict.fromkeys(boxes.numbers["box"])) == ["LV-3 [4], 3", "GP [4], 3", "tree [900], 3"]
    assert len(boxes.numbers) == 9
    for name in ("f2", "f8"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG") and (tmp_path / f"{name}.csv").exists()
    with pytest.raises(BadInput, match="F8 needs records of transferred models"):
        costs_figures.f8(costs[costs["cost_model"] != "transfer_tree"], tmp_path)


def test_what_short_tables_leave_out_is_counted(costs: pd.DataFrame, tmp_path: Path) -> None:
    """Nothing of b/q beyond n = 4; coverage is that of the problems in the same column."""
    costs["n"] = costs["n"].replace({8: 10})
    short = costs[(costs["dataset"] != "b") | (costs["n"] == 4)].copy()
    short.loc[short["dataset"] == "b", "cover50"] = 1.0
    lines = costs_report.write(short, tmp_path).read_text().splitlines()
    assert [line for line in lines if line.startswith("| problems")] == ["| problems | 3 |"] * 3
    shown = costs_report.SHOWN
    try:
        costs_report.SHOWN = (4, 10)
        text = costs_report.write(short, tmp_path).read_text()
    finally:
        costs_report.SHOWN = shown
    assert text.count("| problems | 3 | 2 |") == 3
    assert re.search(r"\| lv3 \| 60 / 75 \[\d+, \d+\] / 90 \| 40 / 75 \[70, 80\] / 90 \|", text)
    boxes = costs_figures.f8(short, tmp_path)
    assert list(dict.fromkeys(boxes.numbers["box"]))[:2] == ["LV-3 [4], 3", "LV-3 [10], 2"]
    assert "medians over the 2 problems that every box has" in " ".join(boxes.caption.split())


def test_from_records_to_the_page(tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = {"_target_": "harness.cost_models.lv.LowVariance", "features": ["n_estimators"]}
    trials = [Trial("a/p", name, config, (0, 1), SIZES, str(tables), str(tmp_path)) for name in ("lv1", "lv3")]
    assert run_all(serial(), trials) == []
    rows = read_costs(tmp_path)
    assert len(rows) == 8 and set(rows["task"]) == {"binary"} and np.isfinite(rows["rmse"]).all()
    assert main(["costs", f"results_dir={tmp_path}", f"out_dir={tmp_path / 'out'}"]) == 3  # F8 has nothing to draw
    out, err = capsys.readouterr()
    assert "F8 needs records of transferred models" in err
    text = Path(out.split()[-1]).read_text()
    assert "| model | n = 4 | n = 8 |" in text and "| lv1 |" in text and "50 / 80 / 95 %" in text


def test_f9_pairs_every_cost_model_with_the_same_runs_of_ei(tmp_path: Path) -> None:
    problems, ways = [("a", "p"), ("a", "q"), ("b", "p")], (Way("ei"), Way("eialpha", alpha=0.3), Way("eipu"))
    plain = frame(problems, ways, (0, 1), 30)
    gp = frame(problems[:2], ways[1:], (0, 1), 30).assign(cost_model="gp", spec="other")
    gp["cost_s"] *= 2.0
    numbers, kept, n, evaluator = trade_offs(pd.concat([plain, gp], ignore_index=True))
    assert (n, evaluator, list(kept)) == (30, "replay", ["lv3", "gp"])
    assert (numbers["n"] == 4).all()  # b/p was not run under both
    found = numbers[numbers["statistic"] == "mean"].set_index(["cost_model", "method"])
    assert found.loc[("gp", "ei"), "cost_pct"] == pytest.approx(100)
    for method in ("eialpha(alpha=0.3)", "eipu"):
        assert found.loc[("gp", method), "cost_pct"] == pytest.approx(2 * found.loc[("lv3", method), "cost_pct"])
        assert found.loc[("gp", method), "error_pct"] == pytest.approx(found.loc[("lv3", method), "error_pct"])
    foreign = plain[plain["acq"] == "ei"].assign(utility="kg", spec="a", cost_s=7.0)  # found before EI's own runs
    again = trade_offs(pd.concat([foreign, plain, gp], ignore_index=True))
    pd.testing.assert_frame_equal(again[0], numbers)
    assert [pairs.unpaired for pairs in again[1].values()] == [0, 0]
    drawn = f9(pd.concat([plain, gp], ignore_index=True), tmp_path)
    assert "2 seeds (replay), 4 pairs per method" in drawn.caption and (tmp_path / "f9.svg").exists()
    with pytest.raises(BadInput, match=r"F9 needs records of EI\^alpha under two cost models or more; there are: lv3"):
        trade_offs(plain)
    with pytest.raises(BadInput, match="F9 needs the method ei"):
        trade_offs(pd.concat([plain, gp])[lambda f: f["acq"] != "ei"])


def test_records_of_two_settings_and_damaged_ones_are_refused(tables: Path, tmp_path: Path) -> None:
    config = {"_target_": "harness.cost_models.lv.LowVariance", "features": ["n_estimators"]}
    with pytest.raises(BadInput, match="no records in"):
        read_costs(tmp_path)
    for sizes in ((4,), (8,)):
        run_all(serial(), [Trial("a/p", "lv1", config, (0,), sizes, str(tables), str(tmp_path))])
    with pytest.raises(BadInput, match="lv1 on a/p is recorded under two settings"):
        read_costs(tmp_path)
    path = next((tmp_path / "costs").rglob("*.parquet"))
    path.write_bytes(b"PAR1")
    with pytest.raises(BadInput, match="damaged record"):
        read_costs(tmp_path)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from fakes import make_tables

    return make_tables(tmp_path_factory.mktemp("tables"), ["a/p"], 50)

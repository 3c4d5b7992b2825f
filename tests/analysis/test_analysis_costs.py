"""F2, F8 and the page about cost models, on made-up records."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fakes import make_tables
from synthetic_records import Way, frame, on_disk

from analysis import cost_models
from analysis.__main__ import main
from analysis.cost_models import (
    CURVES,
    calibration,
    compare_cost_models,
    learning_curves,
    models,
    per_problem,
    read_costs,
)
from analysis.figures import f2_f8_f9
from analysis.figures.f2_f8_f9 import f9
from analysis.report import sections
from datasets.errors import BadInput
from harness.execution import serial
from tabular_cache.cost_study import PredictionTrial, run_all

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
    assert found.loc[("gp", 8), "value"] == pytest.approx(0.9 / 8 + 0.05 + 0.01 / 2)  # by data set
    assert found.loc[("gp", 8), ["off_value", "off_low", "off_high"]].to_numpy() == pytest.approx([0.4 / 8] * 3)
    assert (found["cells"] == 6).all()
    assert models(costs) == ["lv3", "gp", "transfer_tree"]
    shorter = costs[~((costs["cost_model"] == "gp") & (costs["n"] == 8) & (costs["dataset"] == "b"))]
    assert learning_curves(shorter).set_index(["cost_model", "n"]).loc[("lv3", 8), "cells"] == 4
    covered = calibration(costs).set_index(["cost_model", "n"])
    assert covered.loc[("lv3", 4), ["cover50", "cover80", "cover95"]].to_numpy() == pytest.approx([0.4, 0.75, 0.9])
    assert len(per_problem(costs, 8)) == 9


@pytest.mark.usefixtures("undrawn")
def test_both_figures_say_what_they_show(costs: pd.DataFrame, tmp_path: Path) -> None:
    drawn = f2_f8_f9.f2(costs, tmp_path)
    assert set(drawn.numbers["cost_model"]) == {"lv3", "gp"}
    assert "2 seeds (tables)" in drawn.caption
    boxes = f2_f8_f9.f8(costs, tmp_path)
    assert list(dict.fromkeys(boxes.numbers["box"])) == ["LV-3 [4]", "GP [4]", "tree"]
    assert len(boxes.numbers) == 9
    for name in ("f2", "f8"):
        assert (tmp_path / f"{name}.png").exists() and (tmp_path / f"{name}.csv").exists()
    with pytest.raises(BadInput, match="F8 needs records of transferred models"):
        f2_f8_f9.f8(costs[costs["cost_model"] != "transfer_tree"], tmp_path)


@pytest.mark.usefixtures("undrawn")
def test_what_short_tables_leave_out_is_counted(costs: pd.DataFrame, tmp_path: Path) -> None:
    """Nothing of b/q beyond n = 4; coverage is that of the problems in the same column."""
    costs["n"] = costs["n"].replace({8: 10})
    short = costs[(costs["dataset"] != "b") | (costs["n"] == 4)].copy()
    short.loc[short["dataset"] == "b", "cover50"] = 1.0
    lines = cost_models.write_cost_page(short, tmp_path).read_text().splitlines()
    assert [line for line in lines if line.startswith("| problems")] == ["| problems | 3 |"] * 3
    shown = cost_models.SHOWN
    try:
        cost_models.SHOWN = (4, 10)
        text = cost_models.write_cost_page(short, tmp_path).read_text()
    finally:
        cost_models.SHOWN = shown
    assert text.count("| problems | 3 | 2 |") == 3
    assert re.search(r"\| lv3 \| 70 / 75 \[\d+, \d+\] / 90 \| 40 / 75 / 90 \|", text)
    boxes = f2_f8_f9.f8(short, tmp_path)
    labels = boxes.numbers.groupby("panel")["label"].unique()
    assert list(labels["regression"])[:2] == ["LV-3 [4], 2", "LV-3 [10], 2"]
    assert list(labels["classification"])[:2] == ["LV-3 [4], 1", "GP [4], 1"]  # nothing at 10
    assert "medians over the 2 problems that every box has" in " ".join(boxes.caption.split())


def _ragged(costs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    first = costs[costs["n"] == 4]
    two = first[(first["pipeline"] == "p") | (first["dataset"] == "b")]
    apart = two[(two["cost_model"] == "lv3") == (two["dataset"] == "a")]
    return {
        "only large sizes": costs.assign(n=costs["n"].replace({4: 20, 8: 50})),
        "disjoint problems": apart[apart["cost_model"] != "transfer_tree"],
        "transferred only": first[first["cost_model"] == "transfer_tree"],
    }


REFUSED_BY_F2 = ("disjoint problems", "transferred only")
REFUSED_BY_F8 = ("disjoint problems",)
SHAPES = ("only large sizes", "disjoint problems", "transferred only")


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("case", SHAPES)
def test_records_of_any_shape_are_shown_or_refused_in_one_line(case: str, costs: pd.DataFrame, tmp_path: Path) -> None:
    part = _ragged(costs)[case]
    assert set(CURVES) <= set(learning_curves(part).columns)
    assert {"cost_model", "n", "cover80"} <= set(calibration(part).columns)
    (section,) = sections.cost_models(part, tmp_path)
    if case == "disjoint problems":
        assert section.text[0].startswith("Not made: the records of cost models have no problem, seed and number of")
    else:
        size = {"only large sizes": 20}.get(case, 4)
        assert f"n = {size}" in section.text[0] and "Calibration" in section.text[0]
    for draw, refused in ((f2_f8_f9.f2, REFUSED_BY_F2), (f2_f8_f9.f8, REFUSED_BY_F8)):
        if case in refused:
            with pytest.raises(BadInput, match="needs records of"):
                draw(part, tmp_path)
        else:
            assert draw(part, tmp_path).paths


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_the_report_stands_without_cost_records_that_can_be_compared(
    costs: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str], tables: Path
) -> None:
    """Two settings of one model: the page, claims and costs say so in place; with one, that sizes are unusual."""
    results, config = (
        tmp_path / "r",
        {"_target_": "harness.cost_models.linear.LowVariance", "features": ["n_estimators"]},
    )
    on_disk(results, [("wind", "clean"), ("wine", "clean")], [Way("ei"), Way("eialpha", alpha=0.2)], (0, 1), 12)
    for sizes in ((5,), (7,)):
        run_all(serial(), [PredictionTrial("a/p", "lv3", config, (0,), sizes, str(tables), str(results))])
    assert main(["report", f"results_dir={results}", f"out_dir={tmp_path / 'o'}"]) == 0
    page = (tmp_path / "o" / "report.md").read_text()
    assert "Not made: lv3 on a/p is recorded under two settings (sizes)" in page
    assert page.count("Not drawn: lv3 on a/p is recorded under two settings (sizes)") == 2  # F2, F8
    assert page.count("**Undecided:** lv3 on a/p is recorded under two settings (sizes)") == 2  # claims 9, 10
    capsys.readouterr()
    assert main(["claims", f"results_dir={results}", f"out_dir={tmp_path / 'o'}"]) == 3
    out, err = capsys.readouterr()
    assert "records of cost models were left out: lv3 on a/p is recorded" in err
    assert out.count("recorded under two settings") == 2


def test_records_of_more_seeds_stand_beside_those_of_before(tables: Path, tmp_path: Path) -> None:
    """A call with more seeds adds the missing ones and leaves the record of before; the rows are those of one call."""
    config = {"_target_": "harness.cost_models.linear.LowVariance", "features": ["n_estimators"]}

    def run(results: Path, seeds: tuple[int, ...]) -> None:
        assert run_all(serial(), [PredictionTrial("a/p", "lv1", config, seeds, SIZES, str(tables), str(results))]) == []

    run(tmp_path / "parts", (1,))
    (first,) = (tmp_path / "parts").rglob("*.parquet")
    before = first.read_bytes(), first.stat().st_mtime_ns
    run(tmp_path / "parts", (0, 1, 2))
    run(tmp_path / "parts", (2, 0))
    assert (first.read_bytes(), first.stat().st_mtime_ns) == before
    assert len(list((tmp_path / "parts").rglob("*.parquet"))) == 2
    run(tmp_path / "whole", (0, 1, 2))
    order = ["seed", "n"]
    parts, whole = (read_costs(tmp_path / name).sort_values(order, ignore_index=True) for name in ("parts", "whole"))
    pd.testing.assert_frame_equal(parts, whole)
    assert len(whole) == 6
    for path in (tmp_path / "whole" / "costs").rglob("*.parquet"):  # seeds recorded twice, as by versions of before
        (tmp_path / "parts" / "costs" / "a--p" / path.name).write_bytes(path.read_bytes())
    pd.testing.assert_frame_equal(read_costs(tmp_path / "parts").sort_values(order, ignore_index=True), whole)


def test_cost_models_that_were_not_asked_the_same_are_refused(tables: Path, tmp_path: Path) -> None:
    config = {"_target_": "harness.cost_models.linear.LowVariance", "features": ["n_estimators"]}
    other = make_tables(tmp_path / "tables", ["a/p"], 30)
    for name, sizes, folder in (("lv1", (4, 8), tables), ("lv3", (4,), tables), ("gp", (4, 8), other)):
        results = tmp_path / name
        for model, asked, where in (("lv1", (4, 8), tables), (name, sizes, folder)):
            assert (
                run_all(serial(), [PredictionTrial("a/p", model, config, (0,), asked, str(where), str(results))]) == []
            )
        if name == "lv1":
            assert len(read_costs(results)) == 2
            continue
        what = "sizes" if name == "lv3" else "data"
        with pytest.raises(
            BadInput, match=rf"a/p: the records of .*{name}.* do not compare, since they differ in {what}:"
        ):
            read_costs(results)


@pytest.mark.usefixtures("undrawn")
def test_from_records_to_the_page(tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = {"_target_": "harness.cost_models.linear.LowVariance", "features": ["n_estimators"]}
    trials = [
        PredictionTrial("a/p", name, config, (0, 1), SIZES, str(tables), str(tmp_path)) for name in ("lv1", "lv3")
    ]
    assert run_all(serial(), trials) == []
    rows = read_costs(tmp_path)
    assert len(rows) == 8 and set(rows["task"]) == {"binary"} and np.isfinite(rows["rmse"]).all()
    assert main(["costs", f"results_dir={tmp_path}", f"out_dir={tmp_path / 'out'}"]) == 3  # F8 has nothing to draw
    out, err = capsys.readouterr()
    assert "F8 needs records of transferred models" in err
    text = Path(out.split()[-1]).read_text()
    assert "| model | n = 4 | n = 8 |" in text and "| lv1 |" in text and "50 / 80 / 95 %" in text


@pytest.mark.usefixtures("undrawn")
def test_f9_pairs_every_cost_model_with_the_same_runs_of_ei(tmp_path: Path) -> None:
    problems, ways = [("a", "p"), ("a", "q"), ("b", "p")], (Way("ei"), Way("eialpha", alpha=0.3), Way("eipu"))
    plain = frame(problems, ways, (0, 1), 30)
    gp = frame(problems[:2], ways[1:], (0, 1), 30).assign(cost_model="gp", spec="other")
    gp["cost_s"] *= 2.0
    compared = compare_cost_models(pd.concat([plain, gp], ignore_index=True))
    numbers = compared.numbers
    assert (compared.n, compared.components["evaluator"], list(compared.pairs)) == (30, "replay", ["lv3", "gp"])
    assert (numbers["n"] == 4).all()  # b/p was not run under both
    found = numbers[numbers["statistic"] == "mean"].set_index(["cost_model", "method"])
    assert found.loc[("gp", "ei"), "cost_pct"] == pytest.approx(100)
    for method in ("eialpha(alpha=0.3)", "eipu"):
        assert found.loc[("gp", method), "cost_pct"] == pytest.approx(2 * found.loc[("lv3", method), "cost_pct"])
        assert found.loc[("gp", method), "error_pct"] == pytest.approx(found.loc[("lv3", method), "error_pct"])
    foreign = plain[plain["acq"] == "ei"].assign(utility="kg", spec="a", cost_s=7.0)  # found before EI's own runs
    again = compare_cost_models(pd.concat([foreign, plain, gp], ignore_index=True))
    pd.testing.assert_frame_equal(again.numbers, numbers)
    assert [pairs.unpaired for pairs in again.pairs.values()] == [0, 0]
    drawn = f9(pd.concat([plain, gp], ignore_index=True), tmp_path)
    assert "2 seeds (replay), 4 pairs per method" in drawn.caption and (tmp_path / "f9.svg").exists()
    with pytest.raises(BadInput, match=r"F9 needs records of EI\^alpha under two cost models or more; there are: lv3"):
        compare_cost_models(plain)
    with pytest.raises(BadInput, match="F9 needs the method ei"):
        compare_cost_models(pd.concat([plain, gp])[lambda f: f["acq"] != "ei"])


@pytest.mark.usefixtures("undrawn")
def test_f9_counts_what_it_leaves_out_on_the_cells_that_all_cost_models_have(tmp_path: Path) -> None:
    """b/p was run under LV-3 only; on a/q seed 1, EI's error is 0; a/p seed 1 under GP ends too early."""
    problems, ways = [("a", "p"), ("a", "q"), ("b", "p")], (Way("ei"), Way("eialpha", alpha=0.3), Way("eipu"))
    plain = frame(problems, ways, (0, 1), 30)
    zero = (plain["pipeline"] == "q") & (plain["seed"] == 1) & (plain["acq"] == "ei") & (plain["step"] == 7)
    plain.loc[zero | ((plain["dataset"] == "b") & (plain["acq"] == "ei")), "error"] = 0.0
    gp = frame(problems[:2], ways[1:], (0, 1), 30).assign(cost_model="gp", spec="other")
    cut = (gp["pipeline"] == "p") & (gp["seed"] == 1) & (gp["acq"] == "eipu") & (gp["step"] >= 20)
    both = pd.concat([plain, gp[~cut]], ignore_index=True)
    found = compare_cost_models(both)
    assert found.dropped == 2 and found.n == 30  # b/p's two seeds; their pairs with an error of 0 are not counted
    assert {name: (p.zero, p.failed, p.unpaired) for name, p in found.pairs.items()} == {
        "lv3": (3, 0, 0),  # EI with itself, too
        "gp": (3, 0, 0),
    }
    assert found.short == {"lv3": 0, "gp": 1}
    caption = f9(both, tmp_path).caption
    assert "run under every cost model (2 problem-seed pairs were not), alpha by alpha." in caption
    short, zero = "1 run of fewer than 30 iterations or planned for another length", "3 pairs in which EI's error is 0"
    assert f"GP: Left out: {short}, {zero}." in caption and f"LV-3: Left out: {zero}." in caption
    gone = (gp["pipeline"] == "q") & (gp["seed"] == 0)
    gp.loc[gone, "error"] = np.nan  # nothing of it succeeded, under GP alone
    found = compare_cost_models(pd.concat([plain, gp], ignore_index=True))
    assert found.dropped == 3 and [p.failed for p in found.pairs.values()] == [0, 2]
    shorter = compare_cost_models(pd.concat([plain, gp[gp["step"] < 20]], ignore_index=True))
    assert shorter.n == 20 and all(p.table["cost_pct"].notna().all() for p in shorter.pairs.values())
    lv3 = shorter.numbers[(shorter.numbers["cost_model"] == "lv3") & (shorter.numbers["statistic"] == "mean")]
    gp_ = shorter.numbers[(shorter.numbers["cost_model"] == "gp") & (shorter.numbers["statistic"] == "mean")]
    np.testing.assert_allclose(lv3["cost_pct"], gp_["cost_pct"])  # both after 20, not 30 and 20


@pytest.mark.usefixtures("undrawn")
def test_f9_compares_every_alpha_on_the_cells_that_all_cost_models_have_of_it(tmp_path: Path) -> None:
    """Under GP, 0.3 was run on one problem of two: there its point under LV-3 counts that problem only, too."""
    problems, ways = [("a", "p"), ("b", "p")], (Way("ei"), Way("eialpha", alpha=0.3), Way("eipu"))
    plain = frame(problems, ways, (0, 1), 30)
    gp = frame(problems, ways[1:], (0, 1), 30).assign(cost_model="gp", spec="other")
    gp = gp[(gp["dataset"] == "a") | (gp["acq"] == "eipu")]
    other = frame(problems, (Way("eialpha", alpha=0.5),), (0, 1), 30)  # under LV-3 only: stays as it is
    found = compare_cost_models(pd.concat([plain, gp, other], ignore_index=True)).numbers
    counts = found[found["statistic"] == "mean"].pivot(index="cost_model", columns="method", values="n")
    assert counts.loc["lv3"].to_dict() == {"ei": 4, "eialpha(alpha=0.3)": 2, "eialpha(alpha=0.5)": 4, "eipu": 4}
    assert counts.loc["gp"].dropna().to_dict() == {"ei": 4, "eialpha(alpha=0.3)": 2, "eipu": 4}
    assert "2 to 4 pairs per method" in f9(pd.concat([plain, gp], ignore_index=True), tmp_path).caption


def test_records_of_two_settings_and_damaged_ones_are_refused(tables: Path, tmp_path: Path) -> None:
    config = {"_target_": "harness.cost_models.linear.LowVariance", "features": ["n_estimators"]}
    with pytest.raises(BadInput, match="no records in"):
        read_costs(tmp_path)
    for sizes in ((4,), (8,)):
        run_all(serial(), [PredictionTrial("a/p", "lv1", config, (0,), sizes, str(tables), str(tmp_path))])
    with pytest.raises(BadInput, match=r"lv1 on a/p is recorded under two settings \(sizes\): "):
        read_costs(tmp_path)
    path = next((tmp_path / "costs").rglob("*.parquet"))
    path.write_bytes(b"PAR1")
    with pytest.raises(BadInput, match="damaged record"):
        read_costs(tmp_path)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from fakes import make_tables

    return make_tables(tmp_path_factory.mktemp("tables"), ["a/p"], 50)

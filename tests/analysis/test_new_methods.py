"""The outcome of the registered test on made-up records, against brute force; the halves are those of the page."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests
from synthetic_records import Way, frame, on_disk

import datasets
from analysis.__main__ import main
from analysis.new_methods import BELOW_EI, hypotheses, verdicts
from analysis.registered_runs import BOTH, BUDGETS, HALVES, Half
from analysis.statistics import holm
from datasets.errors import BadInput

GRID = [
    ("wind", "clean"),
    ("wind", "onehot"),
    ("hiva", "clean"),
    ("phoneme", "clean"),
    ("wine", "clean"),
    ("bach", "clean"),
]
WAYS = (Way("ei"), Way("eialpha", alpha=0.1), Way("eialpha", alpha=0.5), Way("random"), Way("tpe"), Way("informed"))
ABLATION = Way("informed(curves=none)")
SEEDS, STEPS = (0, 1), 30
ROWS = frame(GRID, (*WAYS, ABLATION), SEEDS, STEPS)


def errors(percent: float, sets: list[str]) -> pd.DataFrame:
    """The data sets' mean errors of every method within a share of EI's cost, in percent of EI's final error."""
    found = {}
    for cell, part in ROWS[ROWS["dataset"].isin(sets)].groupby(["dataset", "pipeline", "seed"]):
        runs = {str(name): run.sort_values("step") for name, run in part.groupby("method")}
        budget, final = percent / 100 * runs["ei"]["cost_s"].sum(), runs["ei"]["error"].min()
        found[cell] = {m: 100 * r["error"][r["cost_s"].cumsum() <= budget].min() / final for m, r in runs.items()}
    return pd.DataFrame(found).T.dropna().rename_axis(["dataset", "pipeline", "seed"]).groupby("dataset").mean()


def test_halves_budgets_and_hypotheses_are_those_of_the_page() -> None:
    page = (Path(__file__).resolve().parents[2] / "analysis/NEW_METHODS.md").read_text()
    for name, sets in HALVES.items():
        listed = re.search(rf"\*{name.capitalize()}\* \(.*?\):(.*?)\.\n", page, re.DOTALL)
        assert listed is not None and re.findall(r"\w+", listed[1]) == sets
    assert sorted(name for sets in HALVES.values() for name in sets) == sorted(datasets.names())
    text = ", ".join(f"{budget:g}" for budget in BUDGETS[:-1])
    assert f"{text} and {BUDGETS[-1]:g} %" in " ".join(page.split()) and f"at {BELOW_EI:g} % of EI's cost" in page


@pytest.mark.slow
def test_the_outcome_is_that_of_paired_t_tests_over_data_sets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    on_disk(tmp_path / "results", GRID, (*WAYS, ABLATION), SEEDS, STEPS)
    assert main(["new_methods", f"results_dir={tmp_path / 'results'}", f"out_dir={tmp_path / 'out'}"]) == 0
    said = capsys.readouterr().out
    assert "Development half: 3 data sets" in said and "Judgement half: 2 data sets" in said
    assert "Both halves: 5 data sets" in said
    tests = pd.read_csv(tmp_path / "out/new_methods_tests.csv")
    numbers = pd.read_csv(tmp_path / "out/new_methods.csv")
    drawn = pd.read_csv(tmp_path / "out/registered.csv").set_index(["half", "against", "cost_pct"])["error_pct"]
    assert set(tests["hypothesis"]) == {"H1", "H2", "H3", "H4"} and "informed(curves=none)" in set(numbers["method"])
    for half, sets in {**HALVES, BOTH: datasets.names()}.items():
        for budget in (60.0, 100.0):
            means = errors(budget, sets)
            alpha = means[["eialpha(alpha=0.1)", "eialpha(alpha=0.5)"]]
            others = means[["random", "tpe"]]
            for against, beside in (
                ("EI-n", means["ei"]),
                ("EI^alpha", alpha[alpha.mean().idxmin()]),
                ("best of the others", others[others.mean().idxmin()]),
            ):
                off = means["informed"] - beside
                row = tests.set_index(["half", "against", "cost_pct"]).loc[(half, against, budget)]
                whole = stats.ttest_1samp(off, 0.0)
                expected = [off.mean(), *whole.confidence_interval(0.95), whole.pvalue]
                assert np.allclose(row[["off", "low", "high", "p"]].to_numpy(float), expected, rtol=1e-6)
            best = min(means[method].mean() for method in ("random", "tpe"))
            assert np.isclose(drawn[half, "best of the others", budget], best)
            assert np.isclose(drawn[half, "informed", budget], means["informed"].mean())
            row = numbers.query("half == @half and method == 'tpe' and cost_pct == @budget").iloc[0]
            assert np.isclose(row["off_method"], (means["tpe"] - means["informed"]).mean())
        last = tests.query("half == @half and hypothesis == 'H4'").iloc[0]
        assert np.isclose(last["off"], errors(BELOW_EI, sets)["informed"].mean() - 100)
        own = tests[(tests["half"] == half) & tests["p"].notna()]  # there is none where all runs are equal
        assert np.allclose(own["holm"], multipletests(own["p"], method="holm")[1])


def test_another_method_is_tested_and_informed_is_no_rival_of_it(tmp_path: Path) -> None:
    ways = (Way("ei"), Way("random"), Way("informed"), Way("ei(curves=stopped)"), ABLATION)
    on_disk(tmp_path / "results", GRID, ways, SEEDS, STEPS)
    command = ["new_methods", f"results_dir={tmp_path / 'results'}", f"out_dir={tmp_path / 'out'}"]
    assert main([*command, "method=ei(curves=stopped)"]) == 0
    tests = pd.read_csv(tmp_path / "out/new_methods_tests.csv").set_index(["half", "against", "cost_pct"])
    numbers = pd.read_csv(tmp_path / "out/new_methods.csv").set_index(["half", "method", "cost_pct"])
    assert set(tests["off"].dropna().index.get_level_values(1)) == {"EI-n", "best of the others", "EI's final error"}
    better = 0
    for budget in BUDGETS:
        mean = numbers["error_pct"].xs((BOTH, budget), level=("half", "cost_pct"))
        against = tests.loc[(BOTH, "best of the others", budget), "off"]
        assert np.isclose(against, mean["ei(curves=stopped)"] - mean["random"])
        off = numbers.loc[(BOTH, "informed", budget), "off_method"]
        assert np.isclose(off, mean["informed"] - mean["ei(curves=stopped)"])
        better += mean["informed"] < mean["random"]
    assert better  # and yet it does not stand for the others


def test_halves_that_do_not_go_together_are_reported_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ways = (Way("ei"), Way("random"), Way("informed"))
    on_disk(tmp_path / "results", GRID[:4], (*ways, Way("tpe")), SEEDS, STEPS)
    on_disk(tmp_path / "results", GRID[4:], ways, SEEDS, STEPS)
    assert main(["new_methods", f"results_dir={tmp_path / 'results'}", f"out_dir={tmp_path / 'out'}"]) == 0
    said = capsys.readouterr().out
    assert "Both halves together were left out: the halves: judgement has other methods than development: tpe." in said
    assert set(pd.read_csv(tmp_path / "out/new_methods.csv")["half"]) == set(HALVES)


def test_a_method_is_not_compared_with_itself(tmp_path: Path) -> None:
    on_disk(tmp_path / "results", GRID, (Way("ei"), Way("eialpha", alpha=0.1), Way("eialpha", alpha=0.5)), SEEDS, STEPS)
    command = ["new_methods", f"results_dir={tmp_path / 'results'}", f"out_dir={tmp_path / 'out'}"]
    with pytest.raises(BadInput, match="method=ei is what the others are compared with"):
        main([*command, "method=ei"])
    assert main([*command, "method=eialpha(alpha=0.1)"]) == 0
    tests = pd.read_csv(tmp_path / "out/new_methods_tests.csv").set_index(["half", "against", "cost_pct"])
    mean = pd.read_csv(tmp_path / "out/new_methods.csv").set_index(["half", "method", "cost_pct"])["error_pct"]
    for budget in BUDGETS:
        one, other = (mean[BOTH, f"eialpha(alpha={alpha})", budget] for alpha in (0.1, 0.5))
        assert np.isclose(tests.loc[(BOTH, "EI^alpha", budget), "off"], one - other)


@pytest.mark.slow
def test_runs_of_some_data_sets_at_a_time_have_the_outcome_of_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, grid in (("all", GRID), ("one", GRID[:2]), ("two", GRID[2:])):
        on_disk(tmp_path / name, grid, (*WAYS, ABLATION), SEEDS, STEPS)
        assert main(["new_methods", f"results_dir={tmp_path / name}", f"out_dir={tmp_path / name / 'out'}"]) == 0
    kept = tmp_path / "kept"
    kept.mkdir()
    for name in ("one", "two"):
        (tmp_path / name / "out/new_methods_runs.parquet").rename(kept / f"new_methods_runs_{name}.parquet")
    whole = (tmp_path / "all/out/new_methods.md").read_text()
    assert main(["new_methods", f"results_dir={kept}", f"out_dir={tmp_path / 'out'}"]) == 0
    assert (tmp_path / "out/new_methods.md").read_text() == whole and len(whole) > 1000
    for setting, said in (
        ("judge=test", "judged by validation error"),
        ("evaluator=replay", "method=, judge= and out_dir= only"),
        ("method=ei(curves=stopped)", "keeps no runs of ei.curves=stopped., but of ei, eialpha"),
    ):
        with pytest.raises(BadInput, match=said):
            main(["new_methods", f"results_dir={kept}", f"out_dir={tmp_path / 'out'}", setting])
    (kept / "new_methods_runs_three.parquet").write_bytes((kept / "new_methods_runs_one.parquet").read_bytes())
    with pytest.raises(BadInput, match="keeps the run of ei on wind/clean with seed 0 twice"):
        main(["new_methods", f"results_dir={kept}", f"out_dir={tmp_path / 'out'}"])


def test_a_hypothesis_holds_where_every_interval_is_below_zero() -> None:
    rows = [("H1", -2.0, -1.0), ("H1", -3.0, -0.1), ("H2", -2.0, 0.1), ("H3", -2.0, -1.0), ("H3", 0.1, 1.0)]
    table = pd.DataFrame([("x", *row) for row in rows], columns=["half", "hypothesis", "low", "high"])
    table = table.assign(off=table["low"], used_up=[1.0, 1.0, 0.95, 1.0, 0.5], absent=0)
    table.loc[5] = ["x", "H4", -2.0, -1.0, np.nan, np.nan, 0]
    table.loc[6] = ["x", "H5", -2.0, -1.0, -2.0, 1.0, 0]
    table.loc[7] = ["x", "H5", *[np.nan] * 4, 0]  # a rival without runs
    found = verdicts(table)
    assert found["verdict"].tolist() == ["holds", "undecided", "fails", "incomplete", "incomplete"]
    assert found["spent"].tolist() == ["holds", "undecided", "holds", "incomplete", "incomplete"]
    assert found["spent_tests"].tolist() == [2, 1, 1, 0, 1]
    assert set(verdicts(table.assign(absent=1))["verdict"]) == {"incomplete"}
    assert np.isnan(holm(np.array([np.nan, 0.01]))[0]) and holm(np.array([np.nan, 0.01]))[1] == 0.01


def test_one_line_without_what_it_needs(tmp_path: Path) -> None:
    on_disk(tmp_path, GRID, WAYS[:-1], SEEDS, STEPS)
    with pytest.raises(BadInput, match="the registered test needs the method informed"):
        main(["new_methods", f"results_dir={tmp_path}", f"out_dir={tmp_path / 'out'}"])


def test_a_data_set_without_a_cell_that_counts_decides_nothing() -> None:
    """At a budget within which some method has no evaluation there: of the others the best family member is taken."""
    error = np.full((3, len(BUDGETS), 2), np.nan)
    error[1:, 0] = [[104.0, 102.0], [103.0, 102.0]]
    cells = pd.DataFrame({"dataset": ["abalone", "hiva", "wind"], "pipeline": "clean", "seed": 0})
    families = {"EI-n": [0], "informed": [1]}
    many, none, ms = np.full(error.shape, 9), pd.DataFrame(), np.ones((3, 2))
    half = Half("development", "informed", ["ei", "informed"], families, cells, none, error, many, many > 9, ms,
                "validation", 100, 0, 0, "", "")  # fmt: skip
    np.testing.assert_array_equal(half.best(BUDGETS[0], [0, 1])[1], [np.nan, 102.0, 102.0])
    assert half.best(BUDGETS[0], [0, 1])[0] == 1 and half.used_up(BUDGETS[0], [0, 1]) == 1.0
    assert np.isnan(half.best(BUDGETS[1], [0, 1])[1]).all() and np.isnan(half.used_up(BUDGETS[1], [0, 1]))
    tests = hypotheses(half).set_index(["hypothesis", "against", "cost_pct"])
    assert tests.loc[("H1", "EI-n", BUDGETS[0]), "off"] == -1.5 and tests["off"].notna().sum() == 1
    assert set(verdicts(tests.reset_index())["verdict"]) == {"incomplete"}

"""F1, F7 and the critical-difference view, on made-up records."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from synthetic_records import Way, frame, fronts_on_disk, on_disk

from analysis.__main__ import main
from analysis.figures import front_figures, trace_figures
from analysis.figures.f1_f7 import ALPHAS, maximiser
from analysis.traces import collect
from analysis.tradeoffs import all_fronts, over_steps, persistence, read_fronts, reference
from datasets.errors import BadInput
from harness.settings import read_budgets

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture(scope="module")
def fronts(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """Two seeds of EI on a1a and splice, of 8 iterations, their points anywhere and staying or not."""
    folder, rng = tmp_path_factory.mktemp("fronts"), np.random.default_rng(0)
    fronts_on_disk(folder, [("a1a", "clean"), ("splice", "clean")], [0, 1], stays=True)
    found = read_fronts(folder)
    places = {name: rng.normal(size=len(found)) for name in ("log_ei", "log_cost", "then_log_ei", "then_log_cost")}
    stays = found["stays"].where(found["stays"].isna(), rng.uniform(size=len(found)) < 0.7)
    return found.assign(**places, stays=stays)


@pytest.mark.usefixtures("laid_out")
def test_the_command_draws_both(tmp_path: Path) -> None:
    results = tmp_path / "results"
    fronts_on_disk(results, [("a1a", "clean"), ("splice", "clean")], [0, 1], stays=False)
    assert main(["fronts", f"results_dir={results}", f"out_dir={tmp_path}"]) == 0
    caption = (tmp_path / "f7.txt").read_text()
    assert "Not in the records: a3a." in caption and "splice/clean (seed 0, replay, 8 iterations)" in caption
    assert "0 of 144 problems and 2 outside the study, 2 seeds" in caption


def test_a_run_in_both_folders_counts_once(tmp_path: Path) -> None:
    first, beside = tmp_path / "results", tmp_path / "results-fronts"
    fronts_on_disk(first, [("a1a", "clean")], [0, 1], stays=True)
    fronts_on_disk(beside, [("a1a", "clean")], [0, 1, 2], stays=True)
    fronts_on_disk(beside, [("splice", "clean")], [0], stays=True)
    found, rows = all_fronts(first), ["spec", "seed", "step", "candidate"]
    assert not found.duplicated(rows).any()
    assert set(found.groupby("dataset", observed=True)["seed"].unique()["a1a"]) == {0, 1, 2}
    apart = [read_fronts(folder) for folder in (first, beside)]
    assert len(found) == len(pd.concat(apart)[rows].drop_duplicates())


def test_the_share_that_stays_is_the_studys(fronts: pd.DataFrame, tmp_path: Path) -> None:
    """Beside a1a and splice, which have figures of their own, the records hold one problem of the study."""
    own = fronts[fronts["dataset"] == "a1a"].assign(dataset="wind", stays=True)
    caption = front_figures()["f7"](pd.concat([fronts, own], ignore_index=True), tmp_path).caption
    assert "100.0 % of the points stay on the front; 1 of 144 problems, 2 seeds (replay)" in caption
    alone = front_figures()["f7"](fronts, tmp_path).caption
    assert " 100.0 % of the points" not in alone and "0 of 144 problems and 2 outside the study" in alone


def test_f1_shows_each_alphas_maximiser(fronts: pd.DataFrame, tmp_path: Path) -> None:
    drawn = front_figures()["f1"](fronts, tmp_path).numbers
    for (dataset, iteration), points in drawn.groupby(["dataset", "iteration"]):
        mine = fronts[(fronts.dataset == dataset) & (fronts.seed == 0) & (fronts.step == iteration - 1)]
        now = points[points["front"] == "now"]
        assert set(now["candidate"]) == set(mine["candidate"]) and now["y"].max() == pytest.approx(1.0)
        for alpha in ALPHAS:
            score = mine["log_ei"] - alpha * mine["log_cost"]
            marked = now[[f"{alpha:g}" in alphas.split() for alphas in now["alphas"]]]
            assert len(marked) == 1
            best = score.max()
            assert score[mine["candidate"] == marked["candidate"].iloc[0]].iloc[0] == pytest.approx(best)


def test_ties_on_the_front_go_to_the_cheaper() -> None:
    points = pd.DataFrame({"log_ei": [0.0, 1.0, 2.0], "log_cost": [0.0, 1.0, 3.0]})
    assert [maximiser(points, alpha) for alpha in (0.0, 0.5, 1.0, 2.0)] == [2, 1, 0, 0]


def test_persistence_by_plain_loops(fronts: pd.DataFrame) -> None:
    found = over_steps(persistence(reference(fronts)))
    for (dataset, seed), run in fronts.groupby(["dataset", "seed"]):
        shares = []
        for step in range(5, 7):  # the last front, of step 7, has no next one
            stays = [s for s in run.loc[run["step"] == step, "stays"] if s is not None and not pd.isna(s)]
            shares.append(np.mean(stays))
        assert found[dataset, "clean", seed] == pytest.approx(np.mean(shares))


def test_without_fronts_there_is_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    on_disk(tmp_path / "r", [("wind", "clean")], [Way("ei")], [0], 6)
    assert main(["fronts", f"results_dir={tmp_path / 'r'}", f"out_dir={tmp_path / 'o'}"]) == 3
    assert "F1 needs fronts: run `python -m harness +acq=ei fronts=true`" in capsys.readouterr().err
    with pytest.raises(BadInput, match="no fronts of ei; there are: eipu"):
        reference(pd.DataFrame({"acq": ["eipu"], "method": ["eipu"]}))


def test_critical_differences_say_what_they_compare(tmp_path: Path) -> None:
    problems = [(d, p) for d in ("wind", "wine", "spam") for p in ("clean", "onehot")]
    rows = frame(problems, [Way("ei"), Way("eipu"), Way("cei", lam=0.3), Way("eicool")], [0, 1], 20)
    rows["iterations"] = rows["iterations"].where(rows["acq"] == "eicool", 300)  # the table had no more
    drawn = trace_figures()["cd"](collect(rows), tmp_path)
    first = drawn.numbers[drawn.numbers["panel"] == "best validation error after 20 iterations"].set_index("method")
    ends = rows.groupby(["dataset", "pipeline", "seed", "method"])["error"].min().unstack("method")
    by_dataset = ends.rank(axis=1).groupby(level="dataset").mean()
    expected = by_dataset.rank(axis=1).mean()
    np.testing.assert_allclose(first["mean_rank"].loc[expected.index], expected)
    assert "3 data sets" in drawn.caption and "Friedman's test p" in drawn.caption
    assert set(drawn.numbers.loc[drawn.numbers["panel"] != first["panel"].iloc[0], "method"]) == {
        "ei", "eipu", "cei(lam=0.3)"
    }, "EI-cool has no run for a budget"  # fmt: skip
    assert "every method, and EI-cool (without a run for that budget on enough pairs)." in drawn.caption
    failed = rows.assign(error=rows["error"].where(~(rows["method"].eq("eipu") & rows["dataset"].eq("wind"))))
    gone = failed.assign(error=failed["error"].where(failed["method"] != "eicool"))
    caption = trace_figures()["cd"](collect(gone), tmp_path).caption
    assert "Left out: 4 problem-seed pairs without a result of every method, and EI-cool (without 20" in caption
    with pytest.raises(BadInput, match="needs two methods or more, got: ei"):
        trace_figures()["cd"](collect(rows[rows["method"] == "ei"]), tmp_path)


def test_critical_differences_within_a_budget_need_runs_that_are_long_enough(tmp_path: Path) -> None:
    """Of three seeds on six data sets one goes on; where none does, there is no second diagram.

    A run of CEI and more end before the budget is spent: all of a problem are cut at what the cheapest spent.
    """
    problems = [(d, "clean") for d in ("wind", "wine", "abalone", "kin8nm", "hiva", "bach")]
    ways = [Way("ei"), Way("eipu"), Way("cei", lam=0.3)]
    long, short = (frame(problems, ways, seeds, steps) for seeds, steps in (([0], 300), ([1, 2], 100)))
    both = collect(pd.concat([long, short], ignore_index=True))
    drawn = trace_figures()["cd"](both, tmp_path)
    name = "best validation error at equal money within 100% of the minimal budget"
    found = drawn.numbers[drawn.numbers["panel"] == name].set_index("method")["mean_rank"]
    cost = both.cost_s[:, :100].sum(axis=1)
    total = both.runs.assign(cost=cost)[both.runs["method"] != "cei(lam=0.3)"]
    budget = total.groupby(["dataset", "method"])["cost"].median().groupby("dataset").min()
    ranks = []
    for dataset, rows in long.groupby("dataset"):
        money = min(budget[dataset], rows.groupby("method")["cost_s"].sum().min() * (1 + 1e-12))
        done = rows[rows.groupby("method")["cost_s"].cumsum() <= money]
        ranks.append(done.groupby("method")["error"].min().rank())
    expected = pd.concat(ranks, axis=1).mean(axis=1)
    np.testing.assert_allclose(found.loc[expected.index], expected)
    assert "equal money within 100% of the minimal budget: 6 of 144 problems, 1 seed (replay)" in drawn.caption
    assert "for which runs were planned too short: 12 (100%)." in drawn.caption
    alone = trace_figures()["cd"](collect(short), tmp_path)
    assert set(alone.numbers["panel"]) == {"best validation error after 100 iterations"}
    assert "No diagram for 100% of the minimal budget: 22% of runs too short" in alone.caption


def test_minimal_budgets_for_the_time_study(tmp_path: Path) -> None:
    on_disk(tmp_path / "r", [("wind", "clean"), ("wine", "clean")], [Way("ei"), Way("eipu")], (0, 1, 2), 12)
    assert main(["budgets", f"results_dir={tmp_path / 'r'}", f"out_dir={tmp_path / 'o'}"]) == 0
    rows = frame([("wind", "clean"), ("wine", "clean")], [Way("ei"), Way("eipu")], (0, 1, 2), 12)
    total = rows.groupby(["dataset", "method", "seed"])["cost_s"].sum().groupby(["dataset", "method"]).median()
    found = read_budgets(tmp_path / "o" / "budgets.csv")
    assert set(found) == {"wind/clean", "wine/clean"}
    for dataset in ("wind", "wine"):
        assert found[f"{dataset}/clean"] == pytest.approx(total[dataset].min(), rel=1e-12)

"""Time studies whose runs differ in length: which cells and budgets count, and how runs ended."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from drawing import not_drawing
from some_claims import verdicts_on
from synthetic_records import Way, block, frame, fronts_on_disk, on_disk, spec

from analysis import report
from analysis.__main__ import main
from analysis.figures import trace_figures
from analysis.ranks import Ranks, minimal_budgets, rank_curves, ranks
from analysis.selection import (
    BUDGET_MULTIPLES,
    REACHED,
    SHORT,
    SPENT,
    USED_UP,
    at_horizon,
    budgets_that_count,
    cells_that_count,
    endings,
)
from analysis.traces import Traces, collect
from harness.records import TIMINGS, block_files, write_block

pytestmark = pytest.mark.usefixtures("undrawn")

WAYS = [Way("ei"), *(Way("eialpha", alpha=a) for a in (0.1, 0.2, 0.5)), Way("eipu"), Way("cei", lam=0.3)]
ALPHAS = ["ei", "eialpha(alpha=0.1)", "eialpha(alpha=0.2)", "eialpha(alpha=0.5)", "eipu"]
PROBLEMS = [(d, "clean") for d in ("wind", "wine", "abalone", "spam", "letters")]


@pytest.fixture(scope="module")
def ragged() -> pd.DataFrame:
    """Seed 0 goes on to 300 iterations, seeds 1 to 5 end at the study's 100."""
    parts = [frame(PROBLEMS, WAYS, [0], 300), frame(PROBLEMS, WAYS, [1, 2, 3, 4, 5], 100)]
    return pd.concat(parts, ignore_index=True)


def ranked(traces: Traces, methods: list[str]) -> Ranks:
    budgets = minimal_budgets(at_horizon(traces, 100)[0])
    return ranks(traces, budgets, methods, shares=np.ones(1))


def test_budgets_are_judged_on_the_seed_that_went_on(ragged: pd.DataFrame) -> None:
    """By plain loops: from 100 % on, mean ranks are seed 0's; the minimal budget is that of all seeds."""
    found = ranked(collect(ragged), ALPHAS)
    assert found.long_enough.all() and found.multiples.tolist() == list(BUDGET_MULTIPLES)
    curves = rank_curves(found).set_index(["multiple", "method"])
    inner = ragged[ragged["acq"] != "cei"]
    label = inner["method"]
    for multiple in (1.0, 2.0, 5.0, 10.0, 20.0):
        by_hand = []
        for dataset, rows in inner.groupby("dataset"):
            total = rows[rows["step"] < 100].groupby(["method", "seed"])["cost_s"].sum()
            budget = total.groupby("method").median().min()
            reached = {}
            for method, run in rows[rows["seed"] == 0].groupby(label):
                done = run.sort_values("step")["cost_s"].cumsum() <= multiple * budget
                reached[method] = run.sort_values("step")["error"][done].min()
            by_hand.append(pd.Series(reached).fillna(np.inf).rank().rename(dataset))
        expected = pd.concat(by_hand, axis=1).mean(axis=1)
        here = curves.loc[multiple]
        np.testing.assert_allclose(here["value"], [expected[m] for m in here.index])
        assert (here["n"] == 5).all()
        assert found.used[:, list(BUDGET_MULTIPLES).index(multiple)].sum() == 5
    assert found.at(20.0).index.get_level_values("seed").tolist() == [0] * 5


def test_claims_and_captions_of_a_ragged_study_say_what_they_leave_out(ragged: pd.DataFrame, tmp_path: Path) -> None:
    verdicts = verdicts_on([4, 5, 6], ragged)
    for number in verdicts:
        assert "[" in verdicts[number].ours and "planned too short for" not in verdicts[number].why
        assert "left out of a budget for which runs were planned too short: " in verdicts[number].taken_over
        assert "25 at 100%" in verdicts[number].taken_over and "25 at 2000%" in verdicts[number].taken_over
    caption = trace_figures()["f4"](collect(ragged), tmp_path).caption
    assert "Problem-seed pairs left out of a budget for which runs were planned too short: " in caption
    assert "25 (100%), 25 (200%)" in caption and "all pairs are shown" not in caption


def test_a_cell_counts_whose_time_study_was_over_within_100_evaluations(ragged: pd.DataFrame) -> None:
    """EI on wind is so dear that it spends 20 budgets within 100 evaluations; its run of 100 was not cut there."""
    shorter = ragged[(ragged["seed"] == 0) & (ragged["step"] < 100)].assign(iterations=100, spec="100")
    rows = pd.concat([ragged, shorter], ignore_index=True)
    rows.loc[(rows["dataset"] == "wind") & (rows["acq"] == "ei"), "cost_s"] *= 300.0
    budgets = minimal_budgets(at_horizon(collect(rows), 100)[0])
    largest = BUDGET_MULTIPLES[-1] * budgets.loc[("wind", "clean"), "budget_s"]
    long = (rows["dataset"] == "wind") & (rows["iterations"] == 300)
    spent = rows[long].groupby("method")["cost_s"].cumsum() - rows.loc[long, "cost_s"]
    rows.loc[long, "tau"] = largest
    rows = rows.drop(index=spent.index[spent >= largest])
    assert (rows.loc[(rows["iterations"] == 300) & (rows["dataset"] == "wind"), "acq"] == "ei").sum() < 100
    found = ranked(collect(rows), ALPHAS)
    assert found.long_enough[-1] and found.at(20.0).index.get_level_values("seed").tolist() == [0] * 5


def test_which_cells_count_by_hand() -> None:
    """Ten cells, two methods, one budget."""
    ending, brief = np.full((10, 1, 2), SPENT), np.zeros((10, 1, 2), dtype=bool)
    ending[0, 0, 0], brief[:5, 0, :] = SHORT, True
    assert cells_that_count(ending, brief)[:, 0].tolist() == [False] + [True] * 9, "a tenth of the cells"
    ending[1, 0, 1] = SHORT  # of no method more, but of the cells
    assert cells_that_count(ending, brief)[:, 0].tolist() == [False] * 5 + [True] * 5, (
        "brief cells are a choice by cost"
    )
    ending[:, 0, 1] = USED_UP
    ending[1, 0, 0] = SHORT
    assert cells_that_count(ending, brief)[:, 0].sum() == 5, "a table that is used up is no plan"


@pytest.mark.parametrize(("held", "left", "counts"), [(14, 12, True), (14, 11, False), (3, 3, True), (3, 2, False)])
def test_a_budget_counts_on_twelve_data_sets_or_all(held: int, left: int, counts: bool) -> None:
    cells = pd.DataFrame({"dataset": [f"d{k // 2}" for k in range(2 * held)]})
    kept = (np.arange(2 * held) < 2 * left)[:, None]
    assert budgets_that_count(kept, cells).tolist() == [counts]


def test_how_runs_end_by_hand() -> None:
    """Runs of 5 evaluations at 1 s each, and one of 300 in 3 s, against budgets of 2.9 s and 8 s."""
    plans = {"a": (300, None), "b": (5, None), "c": (300, 5.0), "d": (300, 8.0), "e": (5, 5.0)}
    parts = [
        frame([(name, "clean")], [Way("ei")], [0], 5).assign(cost_s=1.0, iterations=n, tau=np.nan if t is None else t)
        for name, (n, t) in plans.items()
    ]
    long = frame([("f", "clean")], [Way("ei")], [0], 300).assign(cost_s=1 / 100)
    traces = collect(pd.concat([*parts, long]))
    assert traces.runs["dataset"].tolist() == list("abcdef")
    rows, whole = np.tile(np.arange(6)[:, None, None], (1, 2, 1)), np.tile([2.9, 8.0], (6, 1))
    ending, brief = (array[:, :, 0] for array in endings(traces, rows, whole))
    assert ending[:, 0].tolist() == [SPENT] * 6
    assert ending[:, 1].tolist() == [USED_UP, SHORT, SHORT, USED_UP, SHORT, REACHED]
    assert brief[:, 1].tolist() == [False, True, True, False, True, False]
    assert (endings(traces, np.full((6, 2, 1), -1), whole)[0] == SPENT).all()


@pytest.mark.slow
def test_the_page_is_made_whatever_is_lacking(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """CEI ended before EI did; the longest run is EI-cool's under a budget."""
    for acq, steps in {"ei": 20, "eialpha": 20, "cei": 12}.items():
        way = Way(acq, alpha=0.3 if acq == "eialpha" else None, lam=0.3 if acq == "cei" else None)
        store(tmp_path / "r", spec("wind", "clean", way, steps), block("wind", "clean", way, (0,), steps))
    cool = Way("eicool")
    store(tmp_path / "r", spec("wind", "clean", cool, 30) | {"tau": 9.0}, block("wind", "clean", cool, (0,), 30))
    assert main(["report", f"results_dir={tmp_path / 'r'}", f"out_dir={tmp_path / 'o'}"]) == 0
    assert "F5 needs a method cei of 20 iterations" in (tmp_path / "o" / "report.md").read_text()
    assert "f5 was not drawn" in capsys.readouterr().out


def store(results: Path, described: dict[str, Any], trace: dict[str, Any]) -> None:
    timings: dict[str, list[float]] = {name: [] for name in TIMINGS.names}
    write_block(results, block_files(described, sorted(set(trace["seed"])), trace, timings))


@pytest.fixture(scope="module")
def report_of_ragged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A report of ragged records with fronts beside them: none of the study's points stays, all of a1a's do."""
    results, out, said = tmp_path_factory.mktemp("all") / "results", tmp_path_factory.mktemp("out"), list[str]()
    on_disk(results, PROBLEMS, WAYS, [0], 300)
    on_disk(results, PROBLEMS[:4], WAYS, [1, 2], 100)
    fronts_on_disk(Path(f"{results}-fronts"), PROBLEMS, [0], stays=False, steps=14)
    fronts_on_disk(Path(f"{results}-fronts"), [("a1a", "clean"), ("splice", "clean")], [0], stays=True)
    with not_drawing():
        report.write(results, out, {}, say=said.append)
    return out, said


def test_the_report_of_a_ragged_grid_says_so(report_of_ragged: tuple[Path, list[str]]) -> None:
    out, _ = report_of_ragged
    text = (out / "report.md").read_text()
    assert "5 of 144 problems, 3 seeds, 13 problem-seed pairs of 1 to 3 seeds each (replay)" in text
    claims = pd.read_csv(out / "claims.csv").set_index("number")
    assert claims.loc[[4, 5, 6], "low"].notna().all()
    assert claims.loc[[4, 5, 6, 8], "taken_over"].str.contains("8 at 100%").all()
    ranks_csv = pd.read_csv(out / "ranks.csv")
    assert (ranks_csv.loc[ranks_csv["multiple"] >= 1, "n"] == 5).all()


def test_the_report_draws_the_fronts_kept_beside_the_records(report_of_ragged: tuple[Path, list[str]]) -> None:
    out, said = report_of_ragged
    for name in ("f1", "f7"):
        assert str(out / f"{name}.svg") in said and (out / f"{name}.svg").is_file()
    text = " ".join((out / "report.md").read_text().split())
    assert "One run of EI on each of a1a/clean (seed 0, replay, 8 iterations), splice/clean" in text
    assert "0.0 [0.0, 0.0] % of the points stay on the front; 5 of 144 problems, 1 seed (replay)" in text
    twelve = pd.read_csv(out / "claims.csv").set_index("number").loc[12]
    assert (twelve["low"], twelve["high"]) == (0.0, 0.0) and "5 data sets only" in twelve["why"]
    assert "5 of 144 problems, 1 seed (replay), steps 5 to 13 of EI" in twelve["taken_over"]

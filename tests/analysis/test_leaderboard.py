"""The leaderboard on made-up records, other people's optimizers among them, against brute force."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from synthetic_records import Way, frame, on_disk

from analysis.__main__ import main
from analysis.equal_cost import BUDGETS
from analysis.evaluations import without_settings
from analysis.leaderboard import milliseconds, tracks
from analysis.report import sections
from datasets.errors import BadInput
from harness.records import specs
from harness.sealed import spec_hash

GRID = [("wind", "clean"), ("wind", "onehot"), ("hiva", "clean"), ("wine", "clean")]
WAYS = (Way("ei"), Way("cei", lam=0.1), Way("random"), Way("tpe"), Way("cfo"), Way("asha"))
SEEDS, STEPS = (0, 1), 20


def error_pct(rows: pd.DataFrame, method: str, percent: float) -> pd.Series:
    """A method's best error within a share of EI's cost, in percent of EI's mean final one, by problem and seed."""
    found = {}
    final = rows[rows["method"] == "ei"].groupby(["dataset", "pipeline", "seed"])["error"].min()
    for cell, part in rows.groupby(["dataset", "pipeline", "seed"]):
        runs = {str(name): run.sort_values("step") for name, run in part.groupby("method")}
        budget = percent / 100 * runs["ei"]["cost_s"].sum()
        within = runs[method]["cost_s"].cumsum() <= budget
        found[cell] = 100 * runs[method]["error"][within].min() / final.loc[cell[:2]].mean()
    return pd.Series(found).rename_axis(["dataset", "pipeline", "seed"])


def test_all_tracks_with_other_peoples_optimizers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for evaluator in ("replay", "surface", "live"):
        on_disk(tmp_path / "results", GRID, WAYS, SEEDS, STEPS, evaluator=evaluator)
    assert main(["leaderboard", f"results_dir={tmp_path / 'results'}", f"out_dir={tmp_path / 'out'}"]) == 0
    numbers = pd.read_csv(tmp_path / "out/leaderboard.csv")
    names = {way.method for way in WAYS}
    for track in ("discrete", "continuous", "live"):
        part = numbers[numbers["track"] == track]
        assert set(part["method"]) == names and set(part["cost_pct"]) <= set(BUDGETS)
        whole = part[part["cost_pct"] == 100].set_index("method")
        assert np.isclose(whole.loc["ei", "error_pct"], 100) and (whole["ms"] == 2.0).all()
        assert np.isclose(whole["rank"].sum(), 6 * 7 / 2) and np.isnan(whole.loc["ei", "p_ei"])
    rows = frame(GRID, WAYS, SEEDS, STEPS)
    for percent in (60.0, 100.0):
        values = pd.DataFrame({name: error_pct(rows, name, percent) for name in names}).dropna()
        ranks = values.rank(axis=1).groupby("dataset").mean().rank(axis=1).mean()
        for name in ("tpe", "random"):
            means = values[name].groupby("dataset").mean()
            row = numbers.query("track == 'discrete' and method == @name and cost_pct == @percent").iloc[0]
            expected = [means.mean(), *stats.ttest_1samp(means, 0.0).confidence_interval(0.95), ranks[name]]
            assert np.allclose(row[["error_pct", "low", "high", "rank"]].to_numpy(float), expected, rtol=1e-4)
            assert row["n"] == len(values)
    assert "leaderboard.png" in capsys.readouterr().out
    text = (tmp_path / "out/leaderboard.md").read_text()
    for k, wanted in enumerate(("discrete", "continuous", "live")):
        said = re.findall(r"At 100 % .*EI-n .*?: (.*?); .*: (.*?)\. Ahead .* mean: (.*)\.", text)[k]
        at = numbers[(numbers["track"] == wanted) & (numbers["cost_pct"] == 100)].set_index("method")
        outside = at.loc[["tpe", "cfo", "asha"]].sort_values("error_pct")
        rows = (
            outside["off_high"] < 0,
            outside["off_low"] > 0,
            outside["error_pct"] < at.loc["cei(lam=0.1)", "error_pct"],
        )
        assert said == tuple(", ".join(outside.index[row]) or "none" for row in rows)
    (section,) = sections.leaderboard(tmp_path / "out")
    assert section.text[0].count("### ") == 3 and "error (%) at 20 %" in section.text[0]
    assert "make leaderboard" in sections.leaderboard(tmp_path)[0].text[0]


def test_choices_on_surfaces_that_were_trained_live(tmp_path: Path) -> None:
    """The surface promised 5 % too little for tpe on one data set and 10 % on the other, nothing on a third seed."""
    results = tmp_path / "results"
    on_disk(results, GRID, WAYS, SEEDS, STEPS, evaluator="surface")
    on_disk(results, GRID, WAYS[:2], SEEDS, STEPS, evaluator="surface", surrogate="gp+local")
    command = ["leaderboard", f"results_dir={results}", f"out_dir={tmp_path / 'out'}"]
    assert main(command) == 0
    assert "How far the surfaces are off is unknown" in (tmp_path / "out/leaderboard.md").read_text()
    (local,) = {
        spec_hash(spec)
        for spec in specs(results)
        if (spec["surrogate"], spec["method"], spec["dataset"], spec["pipeline"]) == ("gp+local", "ei", "hiva", "clean")
    }
    cell = {"pipeline": "clean", "told_error": 0.2, "seed": 0, "spec": "not there any more"}
    rows = [
        {**cell, "dataset": "wind", "method": "tpe", "error": 0.19},
        {**cell, "dataset": "hiva", "method": "tpe", "error": 0.18},
        {**cell, "dataset": "hiva", "method": "ei", "error": 0.2},
        {**cell, "dataset": "hiva", "method": "ei", "error": 0.24, "spec": local},
        {**cell, "dataset": "hiva", "method": "ei", "error": None, "seed": 1},
    ]
    pd.DataFrame(rows).to_csv(results / "confirmed.csv", index=False)
    assert main(command) == 0
    text = (tmp_path / "out/leaderboard.md").read_text()
    low, high = stats.ttest_1samp([-5.0, -10.0], 0.0).confidence_interval(0.95)
    assert f"| TPE | -7.5 [{low:.1f}, {high:.1f}] |" in text and "| EI | 0.0 |" in text
    assert "| EI(candidates=local) | 20.0 |" in text
    assert "4 runs on surfaces of 2 problems of 2 data sets" in text and "by 7.5 % in the median" in text


def test_a_name_without_what_it_has_besides_is_that_of_the_plain_method() -> None:
    for plain in ("ei", "cei(lam=0.1)", "eicool"):
        for settings in ("curves=stopped", "design=portfolio,candidates=local"):
            more = f"{plain[:-1]},{settings})" if plain.endswith(")") else f"{plain}({settings})"
            assert without_settings(more) == without_settings(plain) == plain


def test_one_line_where_there_is_no_track_or_no_ei() -> None:
    with pytest.raises(BadInput, match="needs the method ei"):
        tracks(frame(GRID, WAYS[1:], SEEDS, STEPS), {})
    with pytest.raises(BadInput, match="none of evaluator=replay, surface, live"):
        tracks(frame(GRID, WAYS, SEEDS, STEPS, evaluator="disturbed"), {})


def test_own_time_is_the_mean_but_for_the_first_suggestion() -> None:
    """Of the run 0: design, loading, then a model at every other suggestion; of the run 1, one suggestion alone."""
    ms = [0.0, 900.0, 9.0, 1.0, 9.0, 1.0, 7.0]
    timings = pd.DataFrame({"spec": "s", "seed": [0] * 6 + [1], "step": [0, 1, 2, 3, 4, 5, 1], "propose_ms": ms})
    assert milliseconds(timings.assign(fit_ms=0.0)).to_dict() == {("s", 0): 5.0, ("s", 1): 7.0}

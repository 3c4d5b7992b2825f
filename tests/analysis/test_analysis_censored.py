"""C1 to C3 and their tables: what they count, what they mark, and that they are drawn from records."""

import hashlib
import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fakes import make_tables
from scipy.stats import mannwhitneyu

from analysis.__main__ import main
from analysis.papers.hutter2013.example import GRID, SLACK, cost, steps
from analysis.papers.hutter2013.figures import gain
from analysis.papers.hutter2013.records import (
    by_model,
    by_slack,
    medians,
    read_censored,
    read_runs,
    solver_slack_rows,
    test_times,
)
from datasets.errors import BadInput
from harness.configurator.experiment import read, trials
from harness.configurator.experiment import run_all as run_trials
from harness.execution import serial
from harness.sealed import read_record, record_path, spec_hash, write_record
from tabular_cache.cost_study import CENSORING_COLUMNS, CensoringTrial, run_trial

test_times.__test__ = False  # type: ignore[attr-defined]
LV = {"_target_": "harness.cost_models.linear.LowVariance", "features": ["n_estimators", "max_depth"]}


pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("results")
    problems = ["a/p", "b/p"]
    tables = make_tables(tmp_path_factory.mktemp("tables"), problems, 24)
    for problem, experiment in itertools.product(problems, ("slack", "timeout")):
        run_trial(
            CensoringTrial(experiment, problem, (0,), (20,), (1.0, None), 5, {"lv2": LV}, 0.25, str(tables), str(out)),
        )
    part = "test_configurator_experiment"
    config = {
        "made": {"name": "made", "solver": {"_target_": f"{part}.Made"}, "instances": {"_target_": f"{part}.Sizes"}}
    }
    settings = {"budget_s": 6.0, "kappa_max_s": 2.0, "train": 4, "test": 3, "treatment": "sampled"}
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[1] / "harness"))
        assert run_trials(serial(), trials(config, (1.0, None), 1, settings, str(out))) == []
    return out


def test_the_example_caps_as_it_says_and_steps_to_the_highest_ei() -> None:
    before, after = steps()
    best = np.inf
    for x, y, censored in zip(after.x, after.y, after.censored, strict=True):
        true = float(cost(np.array([x]))[0])
        assert y == pytest.approx(min(true, SLACK * best) if np.isfinite(best) else true)
        assert censored == (y < true)
        best = min(best, y)
    assert before.censored.sum() >= 3 and len(after.x) == len(before.x) + 1
    assert after.x[-1] == GRID[np.argmax(before.ei)]
    for one in (before, after):
        at = np.abs(GRID[:, None] - one.x[one.censored]).argmin(axis=0)
        assert (one.mean[at] > one.y[one.censored]).all() and (one.sd[at] > 0.02).all() and (one.ei >= 0).all()


def test_medians_are_marked_by_mann_whitney_against_the_best() -> None:
    rng = np.random.default_rng(0)
    groups = {1.0: rng.normal(1.0, 0.1, 10), 1.3: rng.normal(1.03, 0.1, 10), np.inf: rng.normal(2.0, 0.1, 10)}
    rows = [
        {"scenario": "s", "slack": slack, "run": k, "test_s": v, "target_runs": 5, "configurations": 3,
         "own_share": 0.1, "unsolved": k % 2}
        for slack, values in groups.items()
        for k, v in enumerate(values)
    ]  # fmt: skip
    rows.append({"scenario": "s", "slack": np.nan, "run": -1, "test_s": 3.0, "target_runs": 0, "configurations": 0})
    found = medians(pd.DataFrame(rows)).set_index("slack")
    best = min(groups, key=lambda s: float(np.median(groups[s])))
    for slack, values in groups.items():
        assert found.loc[slack, "median_s"] == np.median(values) and found.loc[slack, "unsolved"] == 0.5
        if slack != best:
            p = mannwhitneyu(values, groups[best]).pvalue
            assert found.loc[slack, "p"] == pytest.approx(p) and found.loc[slack, "best"] == (p >= 0.05)
    assert found["best"].tolist() == [True, True, False] and (found["default_s"] == 3.0).all()


def test_what_capping_gains_is_a_ratio_of_medians() -> None:
    times = pd.DataFrame(
        {"slack": np.repeat([1.3, np.inf], 30), "test_s": np.r_[np.linspace(1, 3, 30), np.full(30, 6.0)]}
    )
    value, low, high = gain(times, 1.3)
    assert value == 3.0 and 2.0 < low < 3.0 < high < 6.0
    with pytest.raises(BadInput, match=r"no runs under slack factor 1\.1"):
        gain(times, 1.1)


def test_numbers_are_those_of_the_records(results: Path) -> None:
    found = read_censored(results)
    slack = by_slack(found)
    own = found[(found["experiment"] == "slack") & (found["slack"] == 1.0) & (found["treatment"] == "bound")]
    row = slack[(slack["slack"] == 1.0) & (slack["treatment"] == "bound")].iloc[0]
    assert row["rmse"] == pytest.approx(own["rmse"].mean()) and row["cells"] == 2
    assert row["log_likelihood"] == pytest.approx(own["log_likelihood"].median())
    free = slack[np.isinf(slack["slack"])]
    assert free["rmse"].nunique() == 1 and (free["censored"] == 0).all()
    model = by_model(found).iloc[0]
    times = found[found["experiment"] == "timeout"].groupby("treatment")["rmse"].mean()
    assert model["gain"] == pytest.approx(times["bound"] - times["imputed"])
    records = read_runs(results)
    shown = test_times(records)
    assert shown["slack"].isna().sum() == 1 and np.isinf(shown["slack"]).sum() == 1
    rows = solver_slack_rows(records, (1.0, None))
    assert set(rows["treatment"]) == {"sampled", "mean", "dropped", "bound"}
    assert rows.loc[rows["slack"].isna(), "rmse"].nunique() == 1


def test_everything_is_drawn_and_says_what_is_missing(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["censored", f"results_dir={results}", f"out_dir={tmp_path}"]) == 0
    assert {p.name for p in tmp_path.glob("*.png")} == {"c1.png", "c2.png", "c3.png"}
    text = (tmp_path / "censored.md").read_text()
    for title in (
        "on the tables",
        "on solver runtimes",
        "25 % of the trainings time out",
        "Configured solvers",
        "table 1",
    ):
        assert title in text
    (tmp_path / "nothing").mkdir()
    assert main(["censored", f"results_dir={tmp_path / 'nothing'}", f"out_dir={tmp_path}"]) == 3
    assert "run `python -m tabular_cache censored` first" in capsys.readouterr().err


def test_the_halves_of_solver_runs_do_not_go_by_how_configurations_were_found(results: Path) -> None:
    """Challengers alternate, promising and random: by order, one half would be the promising ones."""
    records = [r for r in read_runs(results) if r["spec"].get("slack", 0) is None]
    asked: list[np.ndarray] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "analysis.papers.hutter2013.records.slack_rows", lambda data, *rest: asked.append(data.X[:, 0]) or []
        )
        for k in range(2):
            solver_slack_rows([{**r, "spec": {**r["spec"], "run": k}} for r in records], (None,))
    rows = np.array(records[0]["rows"])[:, 0]
    for half in asked:
        odd = np.isin(rows[1::2], half).mean()
        assert 0.2 < odd < 0.8
    assert not np.array_equal(*[np.unique(half) for half in asked])


def test_tables_under_two_settings_are_not_mixed(results: Path, tmp_path: Path) -> None:
    for path in (results / "censored").rglob("slack-*.parquet"):
        spec, _ = read_record(path)
        spec |= {"trees": 7} if spec["problem"] == "b/p" else {}
        write_record(record_path(tmp_path / "censored", "slack", spec), [], CENSORING_COLUMNS, spec)
    with pytest.raises(BadInput, match="do not compare, trees is 5 and 7"):
        read_censored(tmp_path)


def test_two_settings_are_not_mixed(results: Path, tmp_path: Path) -> None:
    (path,) = (results / "configurator").rglob("default*.json")
    for k in range(2):
        (tmp_path / "configurator").mkdir(exist_ok=True)
        (tmp_path / "configurator" / f"{k}-{path.name}").write_bytes(path.read_bytes())
    with pytest.raises(BadInput, match="recorded under two settings"):
        read_runs(tmp_path)
    (tmp_path / "configurator" / f"1-{path.name}").unlink()
    spec, record = read(path)
    for change, line in (
        ({"spec": {**spec, "slack": 1.3, "run": 0, "test": 5}}, "test is 3 and 5"),
        ({"spec": {**spec, "slack": 1.3, "run": 0}, "release": "made 2"}, 'release is "made 2" and null'),
    ):
        body = json.dumps({**record, **change})
        other = tmp_path / "configurator" / "made" / f"slack-1.3-run-0-{spec_hash(change['spec'])}.json"
        other.parent.mkdir(exist_ok=True)
        other.write_text(json.dumps({"sha256": hashlib.sha256(body.encode()).hexdigest(), "record": body}))
        with pytest.raises(BadInput, match=f"do not compare, {line}"):
            read_runs(tmp_path)
        other.unlink()
    (tmp_path / "configurator" / f"1-{path.name}").write_text("{}")
    with pytest.raises(BadInput, match="damaged record"):
        read_runs(tmp_path)

"""The Python API: the examples of harness/API.md as they stand, and studies as the command line reads them."""

import contextlib
import inspect
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_lines import CommandLines

import harness
from analysis import mean_ranks, tradeoff
from analysis.statistics import resampling
from harness.cost_models.gp import GaussianProcessCost
from harness.execution import serial

PAGE = Path(__file__).resolve().parents[1] / "harness" / "API.md"
SMALL = ("dataset=[abalone]", "pipeline=[clean]", "seeds=[0,1]", "iterations=7")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], list[str]]:
    """The folder in which the page's examples ran, the names that they made, and the names after each of them."""
    folder, names = tmp_path_factory.mktemp("page"), dict[str, Any]()
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    said = (folder / "said").open("w+")
    with contextlib.chdir(folder), contextlib.redirect_stdout(said):
        for block in blocks:
            exec(compile(block, PAGE.name, "exec"), names)
            print("-- end of block")
    said.seek(0)
    return folder, names, said.read().split("-- end of block\n")[:-1]


def test_the_studies_of_the_page_are_compared(page: tuple[Path, dict[str, Any], list[str]]) -> None:
    folder, names, said = page
    traces = names["traces"]
    assert set(traces["method"]) == {"ei", "cei(lam=0.1)"} and len(traces) == 2 * 2 * 20
    assert len(harness.read(folder / "results")) == len(traces) + 8, "and the eight trainings on the file"
    assert said[1].strip() == "lam must be a number in [0, 1], got 2"
    totals = traces.groupby(["method", "seed"], observed=True)["cost_s"].sum()
    ratio = 100 * totals["cei(lam=0.1)"].sum() / totals["ei"].sum()
    assert tradeoff(traces)[["cost_pct_low", "cost_pct_high"]].isna().all(axis=None), "one data set"
    with resampling("plain"):
        means = tradeoff(traces).query("statistic == 'mean'").set_index("method")
        ranks = mean_ranks(traces)
    assert means.loc["cei(lam=0.1)", "cost_pct"] == pytest.approx(ratio, rel=1e-12)
    assert means.loc["cei(lam=0.1)", "cost_pct_low"] <= ratio <= means.loc["cei(lam=0.1)", "cost_pct_high"]
    np.testing.assert_allclose(ranks.groupby("multiple")["rank"].sum(), 3.0)  # of two methods: 1 + 2, or 1.5 twice
    assert ((ranks["low"] <= ranks["rank"]) & (ranks["rank"] <= ranks["high"])).all()
    with pytest.raises(harness.BadInput, match=r"ranking needs the method nope: the records hold ei, cei\(lam=0.1\)"):
        mean_ranks(traces, ["ei", "nope"])
    with pytest.raises(harness.BadInput, match="ranking takes each method once, got: ei, ei"):
        mean_ranks(traces, ["ei", "ei"])


def test_the_loop_of_the_page_finds_the_minimum(page: tuple[Path, dict[str, Any], list[str]]) -> None:
    evaluated = page[1]["evaluated"]
    assert min(evaluated)[0] < min(evaluated[:5])[0] and abs(min(evaluated)[3] - 1) < 0.2


def test_the_page_reproduces_the_errors_of_a_tuned_file(page: tuple[Path, dict[str, Any], list[str]]) -> None:
    lines = [line.split() for line in page[2][-1].splitlines()[-2:]]
    assert [line[0] for line in lines] == ["error", "test_error"]
    for _, again, recorded in lines:
        assert float(again) == pytest.approx(float(recorded), rel=1e-9)


def test_both_ways_run_the_same_study(tmp_path: Path, command_line: CommandLines) -> None:
    done = command_line("harness", "+acq=cei", "lam=0.1", *SMALL, "executor=serial", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    files = {path: path.read_bytes() for path in (tmp_path / "results").rglob("*.parquet")}
    study = harness.compose("+acq=cei", "lam=0.1", *SMALL)
    traces = harness.run(study, tmp_path / "results", serial())
    assert files and files == {path: path.read_bytes() for path in (tmp_path / "results").rglob("*.parquet")}
    pd.testing.assert_frame_equal(traces, harness.read(tmp_path / "results"))
    fewer = harness.compose("+acq=cei", "lam=0.1", *SMALL, "seeds=[1]")
    assert set(harness.run(fewer, tmp_path / "results", serial())["seed"]) == {1}


@pytest.mark.parametrize(
    "settings",
    [
        ["+acq=nope"],
        ["+acq=ei", "lam=0.1"],
        ["+acq=ei", "seeds=[-1]"],
        ["+acq=ei,eipu"],
        ["setting=ard_off", "surrogate=rf"],
        ["evaluator=replay", "dataset=csv", "dataset.path=my.csv", "dataset.target=y", "+acq=ei"],
        ["+acq=ei", "surrogate._target_=os.system"],
    ],
)
def test_both_ways_say_the_same_of_a_mistake(settings: list[str], tmp_path: Path, command_line: CommandLines) -> None:
    done = command_line("harness", *settings, cwd=tmp_path)
    with pytest.raises(harness.BadInput) as reported:
        harness.compose(*settings)
    assert done.returncode == 2 and done.stderr == f"error: {' '.join(str(reported.value).split())}\n"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["results_dir=here"], r"results_dir is no part of a study: harness.run\(study, results_dir="),
        (["executor.n_jobs=2"], "executor is no part of a study"),
        (["-m", "+acq=ei"], "-m is for the command line alone"),
        ([["+acq=ei"]], "settings are strings"),
        (["+acq=ei", "seeds=3"], r"seeds must be a list, 'seeds=\[3\]' for that seed, 'seeds=\[0,1,2\]' for three"),
    ],
)
def test_settings_of_the_run_are_refused(settings: list[Any], message: str) -> None:
    with pytest.raises(harness.BadInput, match=message):
        inspect.unwrap(harness.compose)(*settings)  # as without the checks of types that tests make


def test_composing_leaves_nothing_behind() -> None:
    first, _, again = (harness.compose(f"study={study}") for study in ("demo", "deadlines", "demo"))
    assert asdict(first) == asdict(again) and len(first.methods) == 8


def test_runs_that_fail_are_named(tmp_path: Path) -> None:
    class Failing(harness.GaussianProcess):
        def fit(self, X: np.ndarray, y: np.ndarray) -> Any:
            raise RuntimeError("no fit today")

    study = harness.compose("+acq=ei", *SMALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.surrogates.gp.GaussianProcess", Failing)
        with pytest.raises(harness.Stopped, match=r"1 blocks set aside, the first: .*no fit today") as stopped:
            harness.run(study, tmp_path, serial())
    assert len(stopped.value.report.failed) == 1
    assert len(harness.run(study, tmp_path, serial())) == 14, "the same call does the rest"
    with pytest.raises(harness.BadInput, match=r"executor must be one such as harness.execution.serial"):
        inspect.unwrap(harness.run)(study, tmp_path, "serial")  # as without the checks of types that tests make


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["dataset.task=classify"], "dataset.task must be one of auto, regression, classification, got 'classify'"),
        (["dataset.sep=x"], "has one column only with this separator"),
        (["dataset.drop=[zzz]"], "dataset.drop: 'zzz' is none of the inputs a, b"),
        (["evaluator.time_limit_s=-1"], "evaluator.time_limit_s must be seconds > 0 or null, got -1"),
        (["evaluator.time_limit_s=nan"], "evaluator.time_limit_s must be seconds > 0 or null, got nan"),
        (["evaluator.memory_limit_mb=0"], "evaluator.memory_limit_mb must be megabytes > 0 or null, got 0"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_as_on_the_command_line(
    settings: list[str], message: str, tmp_path: Path
) -> None:
    pd.DataFrame(np.random.default_rng(0).random((30, 3)), columns=["a", "b", "y"]).to_csv(
        tmp_path / "my.csv", index=False
    )
    own = ["dataset=csv", f"dataset.path={tmp_path}/my.csv", "dataset.target=y", "+acq=ei", "iterations=7"]
    with pytest.raises(harness.BadInput, match=f"^[^\n]*{message}"):
        harness.run(harness.compose(*own, *settings), tmp_path / "results", serial())
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(("call", "message"), [
    (lambda: inspect.unwrap(harness.run)("+acq=ei"), r"study must be one that harness.compose\(...\) returns, got"),
    (lambda: inspect.unwrap(harness.read)(None), "results_dir must name a folder, .* got nothing"),
])  # fmt: skip
def test_arguments_of_another_kind_are_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(harness.BadInput, match=message):
        call()


def test_features_of_another_space_name_the_remedy() -> None:
    space = harness.SearchSpace((harness.Parameter("x", 1, 9), harness.Parameter("y", 0, 1)))
    for model in (harness.LowVariance, GaussianProcessCost):
        with pytest.raises(harness.BadInput, match=r"got \['x', 'y'\] \(.* space="):
            model(["x", "y"])
        model(["x", "y"], space=space)
    with pytest.raises(harness.BadInput, match=r"among x, y, got \['z'\]$"):
        harness.LowVariance(["z"], space=space)
    with pytest.raises(ValueError, match="parameters of different names, got x, x"):
        harness.SearchSpace((space.parameters[0], space.parameters[0]))

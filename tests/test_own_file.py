"""`dataset=csv`: from a user's file on the command line to the best configuration, its line and its picture."""

import ast
import contextlib
import io
import json
import shutil
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_lines import CommandLines
from drawing import not_drawing
from xgboost import XGBRegressor

from analysis.__main__ import main
from analysis.best import _content_now, draw
from datasets import split
from datasets.csv_file import load_csv, load_rows
from harness.records import read_traces
from harness.space import XGBOOST_SPACE
from pipelines import prepare
from pipelines.prepared import Fitted
from pipelines.steps import dense

RUN = ["+acq=cei", "lam=0.1", "iterations=8", "executor=serial", "evaluator.n_candidates=64"]


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory, command_line: CommandLines) -> tuple[Path, list[str]]:
    """A folder with a tuned file, and what the command line said."""
    folder, rng = tmp_path_factory.mktemp("own"), np.random.default_rng(0)
    x = rng.uniform(size=(120, 2))
    frame = pd.DataFrame({"id": range(120), "x": x[:, 0], "z": x[:, 1], "price": 10 * x[:, 0] + x[:, 1]})
    frame.to_csv(folder / "my.csv", index=False, sep=";")
    mine = ["evaluator=live", "dataset=csv", "dataset.path=my.csv", "dataset.target=price"]
    done = command_line("harness", *mine, *RUN, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout.splitlines()


def best_of(folder: Path) -> dict:
    return json.loads((folder / "results/my.csv/best.json").read_text())


def test_the_best_configuration_is_that_of_the_records_and_its_line_makes_the_model_that_had_this_error(
    tuned: tuple[Path, list[str]], tmp_path: Path
) -> None:
    folder, out = tuned
    found, frame = best_of(folder), read_traces(folder / "results")
    assert set(frame["pipeline"]) == {"clean"} and set(frame["seed"]) == {0} and len(frame) == 8
    row = frame.loc[frame["error"].idxmin()]
    assert found["validation_error"] == row["error"] == frame["error"].min()
    assert found["test_error"] == row["test_error"]
    assert found["found_by"] == {"method": "cei(lam=0.1)", "seed": 0, "evaluation": row["step"] + 1}
    assert found["spent_cpu_s"] == pytest.approx(frame["cost_s"].sum())
    for name in XGBOOST_SPACE.names:
        assert np.float32(found["configuration"][name]) == row[name]
    assert "id left out: it numbers the rows" in found["notes"]
    assert f"  {found['model']}" in out and f"  {json.dumps(found['configuration'])}" in out

    assert found["front"][-1]["validation_error"] == row["error"]
    errors, costs = ([m[key] for m in found["front"]] for key in ("validation_error", "training_cpu_s"))
    assert errors == sorted(errors, reverse=True) and costs == sorted(costs)
    for model in found["front"]:
        assert not ((frame["error"] < model["validation_error"]) & (frame["cost_s"] <= model["training_cpu_s"])).any()

    said = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(said):
        exec("\n".join(found["check"]), {})
    assert [float(line) for line in said.getvalue().split()] == pytest.approx(
        [found["validation_error"], found["test_error"]], rel=1e-9
    )

    data = prepare(load_csv(None, str(folder / "my.csv"), "price"), found["pipeline"], cache=False)
    model = eval(found["model"], {"XGBRegressor": XGBRegressor}).fit(data.X_train, data.y_train)
    for X, y, error in ((data.X_valid, data.y_valid, "validation_error"), (data.X_test, data.y_test, "test_error")):
        assert np.sqrt(np.mean((model.predict(X).astype(float) - y) ** 2)) == pytest.approx(found[error], rel=1e-9)

    drawn = folder / "results/my.csv"
    assert (drawn / "best.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert ET.parse(drawn / "best.svg").getroot().tag.endswith("svg")
    assert pd.read_csv(drawn / "best.csv")["step"].tolist() == list(range(8))
    with not_drawing():
        caption = draw(frame.assign(utility="mes"), found, tmp_path).caption
    assert "Right: utility (mes) and" in caption


def test_with_learning_curves_no_seconds_are_said_of_a_model(tmp_path: Path, command_line: CommandLines) -> None:
    x = np.random.default_rng(0).uniform(size=(120, 2))
    frame = pd.DataFrame({"x": x[:, 0], "z": x[:, 1], "price": 10 * x[:, 0] + x[:, 1] + np.sin(40 * x[:, 1])})
    frame.to_csv(tmp_path / "my.csv", index=False)
    run = ["dataset=csv", "dataset.path=my.csv", "dataset.target=price", "+acq=ei", "curves=stopped", *RUN[2:]]
    done = command_line("harness", *run, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found, said = best_of(tmp_path), io.StringIO()
    assert (found["training_cpu_s"], found["front"]) == (None, []) and found["evaluation_cpu_s"] > 0
    assert "note: of a training the best prefix counts" in done.stdout and "cheaper models" not in done.stdout
    with contextlib.chdir(tmp_path), contextlib.redirect_stdout(said):
        exec("\n".join(found["check"]), {})
    errors = [found["validation_error"], found["test_error"]]
    assert [float(line) for line in said.getvalue().split()] == pytest.approx(errors, rel=1e-9)


def test_the_lines_of_code_predict_the_rows_of_another_file(tmp_path: Path, command_line: CommandLines) -> None:
    rng = np.random.default_rng(1)
    day, size = rng.integers(0, 300, 150), rng.uniform(1, 9, 150)
    when = (pd.Timestamp("2024-01-01") + pd.to_timedelta(day, unit="D")).strftime("%d.%m.%Y")
    kind = np.where(day > 150, "late", "early")
    frame = pd.DataFrame({"id": range(150), "when": when, "size": size, "colour": rng.choice(["red", "blue"], 150)})
    frame.assign(kind=kind).to_csv(tmp_path / "my.csv", index=False, sep=";", decimal=",")
    frame.head(30).to_csv(tmp_path / "new.csv", index=False, sep=";", decimal=",")
    run = ["dataset=csv", "dataset.path=my.csv", "dataset.target=kind", "dataset.decimal=comma", *RUN]
    done = command_line("harness", *run, "pipeline=[onehot]", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = best_of(tmp_path)
    assert (found["task"], found["metric"], found["pipeline"]) == ("binary", "share misclassified", "onehot")
    assert all(f"    {line}" in done.stdout for line in found["code"])
    said = io.StringIO()
    with contextlib.chdir(tmp_path), contextlib.redirect_stdout(said):
        exec("\n".join(found["code"]), {})
    predicted = ast.literal_eval(said.getvalue())
    assert len(predicted) == 30
    assert np.mean([a == b for a, b in zip(predicted, kind, strict=False)]) >= 0.9


@pytest.mark.parametrize("pipeline", ["clean", "onehot"])
def test_rows_to_come_are_prepared_as_those_of_the_runs(tmp_path: Path, pipeline: str) -> None:
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({f"c{j}": rng.choice(list("abcdefgh"), 200) for j in range(6)}).assign(
        x=rng.normal(size=200), y=rng.normal(size=200)
    )
    frame.to_csv(tmp_path / "my.csv", index=False)
    data = load_csv(None, str(tmp_path / "my.csv"), "y")
    expected, train = prepare(data, pipeline, cache=False), split(data).train
    part = replace(data, X=data.X.iloc[train].reset_index(drop=True), y=data.y[train])
    frame.iloc[split(data).valid].drop(columns="y").to_csv(tmp_path / "new.csv", index=False)
    found = Fitted(part, pipeline).matrix(load_rows(str(tmp_path / "new.csv"), data))
    assert type(found) is type(expected.X_valid)
    np.testing.assert_allclose(dense(found), dense(expected.X_valid), rtol=1e-5, atol=1e-6)


def test_a_rerun_trains_nothing(
    tuned: tuple[Path, list[str]], command_line: CommandLines, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = tuned
    base = ["dataset=csv", "dataset.path=my.csv", "dataset.target=price", *RUN]  # live and clean by itself
    again = command_line("harness", *base, cwd=folder)
    assert again.returncode == 0 and "1 run was there already" in again.stdout
    assert again.stdout.splitlines()[1:] == out[1:]
    (folder / "report").write_text("a file of the user's, which `best` has no use for")
    with contextlib.chdir(folder):
        assert main(["best"]) == 0
    assert capsys.readouterr().out.splitlines() == out[1:]


@pytest.mark.slow
def test_another_run_adds_to_the_best_but_not_one_on_another_target_or_other_rows(
    tuned: tuple[Path, list[str]], command_line: CommandLines, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Whatever found it, the best stays the best of all runs on the same question."""
    folder = tmp_path / "mine"
    shutil.copytree(tuned[0], folder)

    def run(*more: str) -> dict:
        base = ["dataset=csv", "dataset.path=my.csv", "+acq=ei", "iterations=6", *RUN[3:], *more]
        done = command_line("harness", *base, cwd=folder)
        assert done.returncode == 0, done.stderr
        return best_of(folder)

    found = run("dataset.target=price", "seeds=[1]", "pipeline=[pca_small]")
    frame = read_traces(folder / "results")
    assert found["evaluations"] == len(frame) == 14 and found["validation_error"] == frame["error"].min()
    with contextlib.chdir(folder):
        assert main(["best"]) == 0
    assert best_of(folder) == found
    found = run("dataset.target=z")
    assert found["data"]["target"] == "z" and found["evaluations"] == 6
    capsys.readouterr()
    with contextlib.chdir(folder):
        assert main(["best"]) == 0
    assert "my.csv: not compared, its records differ in data or target" in capsys.readouterr().out
    (folder / "my.csv").write_text("".join((folder / "my.csv").read_text().splitlines(keepends=True)[:101]))
    found = run("dataset.target=price", "pipeline=[quadratic]")
    assert (found["evaluations"], found["pipeline"]) == (6, "quadratic")


def test_runs_on_what_the_file_held_before_do_not_count(
    tmp_path: Path, command_line: CommandLines, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor for `best`, whatever their pipeline; and a name of its own, by which rows are split, is in the lines."""
    frame = pd.DataFrame({"x": np.random.default_rng(0).uniform(size=120)})
    base = ["dataset=csv", "dataset.path=my.csv", "dataset.target=y", "dataset.name=mine", *RUN]
    for pipeline, factor in (("clean", 1.0), ("pca_small", 100.0)):
        frame.assign(y=factor * frame["x"] ** 2).to_csv(tmp_path / "my.csv", index=False)
        assert command_line("harness", *base, f"pipeline=[{pipeline}]", cwd=tmp_path).returncode == 0
    with contextlib.chdir(tmp_path):
        assert main(["best"]) == 0
        assert "mine: records of 1 block left out, made of other data than the file" in capsys.readouterr().out
        found = json.loads(Path("results/mine/best.json").read_text())
        assert found["pipeline"] == "pca_small"
        exec("\n".join(found["check"]), {})
    expected = [found["validation_error"], found["test_error"]]
    assert [float(line) for line in capsys.readouterr().out.split()] == pytest.approx(expected, rel=1e-9)


def test_a_mistake_is_one_line(tuned: tuple[Path, list[str]], command_line: CommandLines) -> None:
    wrong = ["dataset.path=my.csv", "dataset.target=prize", "results_dir=wrong"]
    done = command_line("harness", "dataset=csv", *wrong, *RUN, cwd=tuned[0])
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert "my.csv has no column 'prize'; its columns: id, x, z, price" in done.stderr
    for evaluator in ("replay", "disturbed"):
        wrong[1:] = ["dataset.target=price", f"evaluator={evaluator}", "results_dir=wrong"]
        done = command_line("harness", "dataset=csv", *wrong, *RUN[:-1], cwd=tuned[0])
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
        assert "my.csv is a file of your own and has no table to replay: evaluator=live" in done.stderr
    assert not (tuned[0] / "wrong").exists()


def test_a_file_that_cannot_be_read_is_no_question_of_the_others(tmp_path: Path) -> None:
    gone = {"_target_": "datasets.csv_file.load_csv", "name": "a.csv", "path": str(tmp_path / "a.csv"), "target": "y"}
    evaluator = {"_target_": "harness.live.Live"}
    spec = {"components": {"evaluator": evaluator}, "dataset_config": gone}
    assert _content_now({**spec, "pipeline_config": {"_target_": "pipelines.build", "name": "clean"}}) == ""

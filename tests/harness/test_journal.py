"""Live evaluations are kept as they are made: an interrupted run goes on from them."""

import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_lines import ENVIRONMENT, CommandLines
from conftest import STUDY
from forked import Forked

from harness.problem import Candidates, Evaluation
from harness.records import read_traces, specs
from harness.results_dir import FOLDER, Checkpointed, path_of, remove_checkpoint, saved_evaluations
from harness.space import XGBOOST_SPACE

SPEC = {"dataset": "d", "pipeline": "p", "method": "ei", "iterations": 4}


class Counted:
    """A problem that counts what it is asked."""

    name, space = "d/p", XGBOOST_SPACE

    def __init__(self) -> None:
        self.asked: list[int] = []

    def initial(self, n: int) -> Candidates:
        return self.candidates(0)

    def candidates(self, step: int) -> Candidates:
        return Candidates(np.arange(3), XGBOOST_SPACE.sobol(3, step))

    def evaluate(self, candidate: int) -> Evaluation:
        self.asked.append(candidate)
        return Evaluation(1.0 / (1 + candidate), 0.1 + len(self.asked), 0.5, 1.0)


def opened(folder: Path) -> tuple[Counted, Checkpointed]:
    (folder / FOLDER).mkdir(exist_ok=True)
    problem = Counted()
    return problem, Checkpointed(problem, folder, SPEC, 0)


def test_what_is_written_is_not_evaluated_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem, journaled = opened(tmp_path)
    first = [journaled.evaluate(i) for i in (0, 2)]
    journaled.close()
    assert saved_evaluations(tmp_path) == 2
    with path_of(tmp_path, SPEC, 0).open("ab") as file:
        file.write(b'{"candidate": 1, "err')  # killed while writing
    problem, journaled = opened(tmp_path)
    assert [journaled.evaluate(i) for i in (0, 2)] == first and problem.asked == []
    capsys.readouterr()
    assert journaled.evaluate(1).error == 0.5 and problem.asked == [1]
    journaled.evaluate(0)
    assert "d/p ei seed 0: evaluation 4/4, best error 0.33333, 6 s of training" in capsys.readouterr().err
    journaled.close()
    problem, journaled = opened(tmp_path)
    assert journaled.evaluate(0) == first[0]
    journaled.evaluate(1)  # another choice than then: the rest is given up
    assert problem.asked == [1] and saved_evaluations(tmp_path) == 2
    journaled.close()
    assert [json.loads(line).get("candidate") for line in path_of(tmp_path, SPEC, 0).open()] == [None, 0, 1]
    remove_checkpoint(tmp_path, SPEC, [0])
    assert saved_evaluations(tmp_path) == 0


def test_a_failure_is_not_the_best_so_far(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem, journaled = opened(tmp_path)
    failed = Evaluation(float("nan"), 1.0, float("nan"), 1.0, "failed")
    outcomes = iter([failed, Evaluation(0.1, 1.0, 0.5, 1.0), failed, Evaluation(0.3, 1.0, 0.5, 1.0)])
    problem.evaluate = lambda _: next(outcomes)  # type: ignore[method-assign]
    for i in range(4):
        journaled.evaluate(i)
    journaled.close()
    assert "evaluation 4/4, best error 0.1, 4 s of training" in capsys.readouterr().err


def test_other_versions_begin_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, journaled = opened(tmp_path)
    journaled.evaluate(0)
    journaled.close()
    monkeypatch.setattr("harness.results_dir.libraries", lambda: {"numpy": "0"})
    problem, journaled = opened(tmp_path)
    journaled.evaluate(0)
    assert problem.asked == [0] and saved_evaluations(tmp_path) == 1
    journaled.close()


def test_an_interrupted_live_run_trains_nothing_twice(
    tmp_path: Path, command_line: CommandLines, studies: Forked
) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(400, 4))
    pd.DataFrame({**{f"x{j}": x[:, j] for j in range(4)}, "y": x @ np.arange(4.0)}).to_csv(tmp_path / "my.csv")
    run = ["dataset=csv", "dataset.path=my.csv", "dataset.target=y", "+acq=ei", "evaluator.n_candidates=64"]
    there = {"cwd": tmp_path, "environment": ENVIRONMENT}
    process = studies.start(STUDY, *run, "iterations=2000", "executor=local", "executor.n_jobs=1", **there)
    results = tmp_path / "results"
    deadline = time.monotonic() + 300
    while saved_evaluations(results) < 8 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    code, err = process.wait(), process.err.read_text()
    assert code == 130, err
    before = saved_evaluations(results)
    assert before >= 8 and "my.csv/clean ei seed 0: evaluation" in err
    assert "trainings of unfinished runs are kept: the same command goes on from them" in err
    journal = next((results / FOLDER).glob("live-*"))
    written = [json.loads(line) for line in journal.read_text().splitlines()[1:]]
    spec_of_2000 = journal.name
    # another spec: its own journal, then none
    short = command_line("harness", *run, "iterations=7", "executor=serial", cwd=tmp_path)
    assert short.returncode == 0, short.stderr
    assert [path.name for path in (results / FOLDER).glob("live-*")] == [spec_of_2000]
    assert len(specs(results)) == 1 and len(read_traces(results)) == 7
    again = studies.start(STUDY, *run, "iterations=2000", "executor=serial", **there)
    while saved_evaluations(results) < before + 3 and again.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(again.pid, signal.SIGINT)
    again.wait()
    lines = [json.loads(line) for line in journal.read_text().splitlines()[1:]]
    assert len(lines) >= before + 3 and lines[: len(written)] == written

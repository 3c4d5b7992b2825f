"""Records are compared only where they are compatible, and a key only reaches a command that has a use for it."""

import inspect
from pathlib import Path

import pandas as pd
import pytest

from analysis.__main__ import parse
from analysis.claims.evidence import Evidence
from analysis.evaluations import check_same_data, check_same_origin
from analysis.traces import collect
from datasets.errors import BadInput

ROW = {"evaluator": "replay", "dataset": "a", "pipeline": "p", "data": "0" * 64, "engine": "2"}


def frame(*changes: dict[str, str]) -> pd.DataFrame:
    return pd.DataFrame([{**ROW, **change} for change in changes]).astype("category")


def test_one_target_per_data_set() -> None:
    one, other = ({"dataset": "my.csv", "dataset_config": {"path": "my.csv", "target": t}} for t in ("price", "rooms"))
    check_same_data([one, one, {"dataset": "wine", "dataset_config": {"name": "wine"}}])
    with pytest.raises(BadInput, match=r"my\.csv are of dataset\.target=price and dataset\.target=rooms: .*mixed=true"):
        check_same_data([one, other])


def test_one_table_per_problem_and_evaluator_and_one_engine() -> None:
    check_same_origin(frame({}, {}, {"dataset": "b", "data": "1" * 64}, {"evaluator": "live", "data": "2" * 64}))
    with pytest.raises(BadInput, match=r"records of a/p are of different tables \(0{12}, 1{12}\).*mixed=true"):
        check_same_origin(frame({}, {"data": "1" * 64}))
    with pytest.raises(BadInput, match=r"live records of a/p are of data that changed .*results_dir per content"):
        check_same_origin(frame({"evaluator": "live"}, {"evaluator": "live", "data": "1" * 64}))
    with pytest.raises(BadInput, match=r"engines 1, 2, which choose differently.*mixed=true"):
        check_same_origin(frame({}, {"engine": "1"}))


def test_an_unknown_judge_is_refused() -> None:
    calls = inspect.unwrap(collect), inspect.unwrap(Evidence.__init__)  # as without the checks of types that tests make
    for call, arguments in zip(calls, ((frame({}),), (object.__new__(Evidence), frame({}))), strict=True):
        with pytest.raises(BadInput, match=r"unknown judge 'tst' \(did you mean test\?\); allowed: validation, test"):
            call(*arguments, judge="tst")


@pytest.mark.parametrize(("command", "key", "takes"), [
    ("density", "judge=test", "results_dir, out_dir, bootstrap"),
    ("engines", "evaluator=live", "results_dir, out_dir, bootstrap"),
    ("fronts", "mixed=true", "results_dir, out_dir, bootstrap"),
    ("best", "out_dir=elsewhere", "results_dir"),
    ("tables", "results_dir=.", "out_dir"),
    ("budgets", "judge=test", "results_dir, out_dir, mixed, evaluator"),
])  # fmt: skip
def test_a_key_that_a_command_has_no_use_for_is_refused(command: str, key: str, takes: str) -> None:
    name = key.partition("=")[0]
    for argv in ([command, key], [key, command]):
        with pytest.raises(BadInput, match=f"^{name}= means nothing to '{command}', which takes {takes}"):
            parse(argv)


def test_the_word_that_allows_it(tmp_path: Path) -> None:
    assert parse([f"results_dir={tmp_path}"]).options["mixed"] == "false"
    assert parse([f"results_dir={tmp_path}", "mixed=true"]).options["mixed"] == "true"
    with pytest.raises(BadInput, match="mixed must be one of false, true, got 'yes'"):
        parse([f"results_dir={tmp_path}", "mixed=yes"])

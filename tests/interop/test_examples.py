"""The examples of the room's README, run as they stand."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

TEXT = (Path(__file__).resolve().parents[2] / "harness/interop/README.md").read_text()


def example(heading: str, k: int = 0) -> str:
    section = TEXT.split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)[k]


@pytest.mark.slow
def test_a_forest_on_a_budget() -> None:
    optuna = pytest.importorskip("optuna", minversion="5", reason="needs the extra `optuna`")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    program, names = example("Our optimizer in Optuna"), dict[str, Any]()
    assert len([line for line in program.splitlines() if line]) <= 15
    exec(compile(program.replace("timeout=20", "timeout=1"), "README.md", "exec"), names)
    assert names["study"].best_value < 0.5
    assert names["figure"].axes[0].get_ylabel() == "error"


def test_earlier_studies() -> None:
    optuna = pytest.importorskip("optuna", minversion="5", reason="needs the extra `optuna`")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    program, names = example("Our optimizer in Optuna", 1), dict[str, Any]()
    exec(compile(program, "README.md", "exec"), names)
    assert len(names["new"].trials) == 10 and names["new"].best_value < 0.05


def test_trials_that_stop() -> None:
    optuna = pytest.importorskip("optuna", minversion="5", reason="needs the extra `optuna`")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    program, names = example("Our optimizer in Optuna", 2), dict[str, Any]()
    program = program.replace("n_trials=20", "n_trials=9").replace("1, 300", "1, 40")
    exec(compile(program, "README.md", "exec"), names)
    trials = names["study"].trials
    assert names["study"].best_value < 65
    assert any(max(trial.intermediate_values) < trial.params["n_estimators"] for trial in trials[5:])


def test_an_optimizer_of_ones_own() -> None:
    from harness.interop.rivals import Run, is_rival
    from harness.space import XGBOOST_SPACE

    names = dict[str, Any]()
    exec(compile(example("Other people's optimizers on our problems"), "README.md", "exec"), names)
    made = names["Halfway"]()
    assert is_rival(made)
    made.start(Run(XGBOOST_SPACE, 1, 10, 1, None))
    made.tell(np.ones(7), 2.0, 1.0)
    assert ((made.ask() >= 0.5) & (made.ask() <= 1.0)).all()


def test_both_packages_of_optunahub(tmp_path: Path) -> None:
    from tabular_cache.export import to_optunahub
    from tabular_cache.table import TABLES

    optuna = pytest.importorskip("optuna", minversion="5", reason="needs the extra `optuna`")
    pytest.importorskip("optunahub", reason="needs the package `optunahub`")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    to_optunahub([("abalone", "clean")], TABLES, tmp_path)
    names = dict[str, Any]()
    exec(compile(example("Tables for other tools").replace("FOLDER", str(tmp_path)), "README.md", "exec"), names)
    costs = [trial.user_attrs["cost"] for trial in names["study"].trials]
    assert len(costs) == 30 and min(costs) > 0
    assert names["study"].best_value < min(trial.value for trial in names["study"].trials[:5])

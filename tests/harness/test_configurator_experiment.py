"""The configuration experiment end to end on a made-up solver: records, tests on unseen instances, reruns."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from datasets.errors import BadInput
from datasets.files import write_atomically
from harness.configurator.__main__ import main
from harness.configurator.experiment import TEST, read, run_all, trials
from harness.configurator.solvers import CRASHED, CUT, SOLVED, InstanceSet, Option, OptionSpace, Solver, SolverRun
from harness.execution import serial
from harness.sealed import DamagedRecord

SETTINGS = {"budget_s": 3.0, "kappa_max_s": 2.0, "train": 4, "test": 3, "treatment": "sampled"}


class Sizes:
    """Instances that are a number between 1 and 2."""

    suffix = "txt"
    features = ("size",)

    def write(self, i: int, path: Path) -> np.ndarray:
        size = 1.0 + (i * 0.37) % 1.0
        write_atomically(path, f"{size}".encode())
        return np.array([size])


class Made:
    """Takes as many seconds as the instance says, times what its one option says."""

    def __init__(self) -> None:
        self.space = OptionSpace([Option("factor", 0.5, low=0.05, high=1.0)])

    def run(self, row: np.ndarray, instance: Path, seed: int, cap_s: float) -> SolverRun:
        seconds = 0.3 * float(instance.read_text()) * self.space.settings(row)["factor"]
        return SolverRun(seconds, SOLVED) if seconds <= cap_s else SolverRun(cap_s, CUT)


CONFIG = {"made": {"name": "made", "solver": {"_target_": f"{__name__}.Made"},
                   "instances": {"_target_": f"{__name__}.Sizes"}}}  # fmt: skip


def test_records_hold_what_was_done_and_are_not_redone(tmp_path: Path) -> None:
    assert isinstance(Made(), Solver) and isinstance(Sizes(), InstanceSet)
    todo = trials(CONFIG, (1.0, None), 1, SETTINGS, str(tmp_path))
    assert [trial.slack for trial in todo] == ["default", 1.0, None]
    assert run_all(serial(), todo) == []
    default, capped, free = (read(trial.path())[1] for trial in todo)
    seconds = [0.3 * 0.5 * (1.0 + (i * 0.37) % 1.0) for i in range(TEST, TEST + 3)]
    np.testing.assert_allclose([t["seconds"] for t in default["test"]], seconds)
    for record in (capped, free):
        assert record["settings"]["factor"] < 0.2
        assert sum(t["seconds"] for t in record["test"]) < 0.5 * sum(seconds)
        assert record["target_s"] == pytest.approx(sum(run["cpu_s"] for run in record["runs"]))
        assert record["target_s"] + record["model_s"] >= 3.0
    assert {run["status"] for run in capped["runs"]} == {"solved", "capped"}
    assert {run["status"] for run in free["runs"]} == {"solved"}
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.json")}
    assert len(before) == 3
    run_all(serial(), todo)
    assert before == {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.json")}


class Crashing(Made):
    """Runs with its defaults on the instances to configure on, if at all, and on no other."""

    def __init__(self, trained: bool) -> None:
        super().__init__()
        self.trained = trained

    def run(self, row: np.ndarray, instance: Path, seed: int, cap_s: float) -> SolverRun:
        works = self.trained and int(instance.stem) < TEST
        return super().run(row, instance, seed, cap_s) if works else SolverRun(0.01, CRASHED, "no licence")


@pytest.mark.parametrize(
    ("trained", "where"), [(False, "with its defaults, on instance "), (True, "on every test instance: ")]
)
def test_a_solver_that_only_crashes_is_a_failure_and_no_record(tmp_path: Path, trained: bool, where: str) -> None:
    solver = {"_target_": f"{__name__}.Crashing", "trained": trained}
    todo = trials({"made": CONFIG["made"] | {"solver": solver}}, (1.0,), 1, SETTINGS, str(tmp_path))[1:]
    (line,) = run_all(serial(), todo)
    assert f"the solver crashes {where}" in line and "no licence" in line
    assert not list(tmp_path.rglob("*.json"))


def test_a_damaged_record_is_refused_and_done_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (trial,) = trials(CONFIG, (1.0,), 0, SETTINGS, str(tmp_path))
    path = trial.path()
    run_all(serial(), [trial])
    sealed: dict[str, Any] = json.loads(path.read_text())
    sealed["record"] = sealed["record"].replace("0.", "1.", 1)
    path.write_text(json.dumps(sealed))
    with pytest.raises(DamagedRecord, match="does not match its checksum"):
        read(path)
    assert run_all(serial(), [trial]) == []
    assert read(path)[0] == trial.spec() and path.with_name(f"{path.name}.damaged").exists()
    assert f"moved to {path.name}.damaged" in capsys.readouterr().err
    foreign = path.with_name(f"default-{'0' * 16}.json")
    path.rename(foreign)
    with pytest.raises(BadInput, match="foreign record"):
        read(foreign)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("scenario=[none]", "unknown scenario 'none'; allowed: highs_auctions, highs_knapsacks, highs_set_cover"),
        ("budget_s=0", "budget_s must be a number > 0"),
        ("slack=1.3", r"slack must be a list, \[a,b\], got 1.3"),
        ("treatment=guess", "treatment must be one of sampled, mean, dropped, bound"),
        ("bogus=1", "unknown setting 'bogus'; allowed: budget_s, executor"),
    ],
)
def test_wrong_settings_are_reported(setting: str, message: str) -> None:
    if "scenario" not in setting:
        pytest.importorskip("highspy", reason="the extra `solvers` is not installed")
    with pytest.raises(ValueError, match=message):
        main([setting, "executor=serial", "runs=0"])

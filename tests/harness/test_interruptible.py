"""Live trainings that stop and go on: against trainings in one piece, and through an interruption of the run."""

import math
from pathlib import Path

import numpy as np
import pytest
import xgboost as xgb
from fakes import prepared

from harness.acquisitions.cost_rules import Ignore
from harness.acquisitions.ei import ExpectedImprovement
from harness.cost_models.linear import LowVariance
from harness.curves import LearningCurves
from harness.live import LiveProblem
from harness.loop import run
from harness.optimizer import Optimizer
from harness.problem import FAILED, PREFIX_GRID, Curve
from harness.results_dir import Checkpointed
from harness.space import XGBOOST_SPACE as SPACE
from harness.surrogates.gp import GaussianProcess
from harness.training import Interruptible, model_line, train

TASKS = [("regression", 3), ("binary", 2), ("multiclass", 3)]


def point(rounds: int, subsample: float = 0.7) -> np.ndarray:
    values = {"n_estimators": rounds, "learning_rate": 0.2, "gamma": 0.01, "reg_alpha": 0.01, "reg_lambda": 0.3}
    return np.array([float({**values, "subsample": subsample, "max_depth": 4}[name]) for name in SPACE.names])


def never(curve: Curve) -> bool:
    return False


@pytest.mark.parametrize(("task", "classes"), TASKS)
def test_where_no_rows_are_drawn_the_errors_are_those_of_an_ordinary_training(task: str, classes: int) -> None:
    data = prepared(task, classes=classes)
    whole = train(data, point(40, subsample=1.0))
    trainings = Interruptible(data)
    trainings.run(point(9, subsample=1.0), never)
    found = trainings.run(point(40, subsample=1.0), never)
    assert found.curve is not None
    shown = dict(zip(found.curve.rounds, zip(found.curve.error, found.curve.test_error, strict=True), strict=True))
    expected = dict(zip(whole.rounds.tolist(), zip(whole.val_error, whole.test_error, strict=True), strict=True))
    assert shown.keys() == {*expected, 9}
    assert {rounds: shown[rounds] for rounds in expected} == expected


@pytest.mark.parametrize(("task", "classes"), TASKS)
def test_stopped_and_continued_is_the_training_in_one_piece(task: str, classes: int) -> None:
    data = prepared(task, classes=classes)
    whole = Interruptible(data).run(point(100), never)
    trainings = Interruptible(data)
    first = trainings.run(point(100), lambda curve: curve.rounds[-1] >= 12)
    other = trainings.run(point(24, subsample=0.9), never)  # in between, of another configuration
    second = trainings.run(point(100), lambda curve: curve.rounds[-1] >= 48)
    third = trainings.run(point(100), never)
    assert whole.curve and first.curve and second.curve and third.curve
    assert [e.curve.rounds[-1] for e in (first, second, third) if e.curve] == [12, 48, 100]
    assert (third.curve.rounds, third.curve.error) == (whole.curve.rounds, whole.curve.error)
    assert (third.error, third.test_error) == (whole.error, whole.test_error) != (other.error, other.test_error)
    paid = math.fsum(part.cost_s for part in (first, second, third))
    assert third.curve.cost_s[-1] == pytest.approx(paid) and np.diff(third.curve.cost_s).min() > 0
    assert first.curve.cost_s == third.curve.cost_s[: len(first.curve.cost_s)]


def test_the_line_of_a_continued_model_makes_it_again() -> None:
    """Random rows of each round, drawn so that they do not depend on where a training stopped."""
    data, trainings = prepared(), Interruptible(prepared())
    trainings.run(point(40), lambda curve: curve.rounds[-1] >= 12)
    found = trainings.run(point(40), never)
    line = model_line(data.task, point(40), "exact", continued=True)
    model = eval(line, {"XGBRegressor": xgb.XGBRegressor}).fit(data.X_train, data.y_train)
    off = model.predict(data.X_valid).astype(float) - data.y_valid
    assert found.error == pytest.approx(np.sqrt(np.mean(off**2)), rel=1e-9)


def test_what_may_go_on_is_offered_with_more_rounds_and_only_once_something_may() -> None:
    live = LiveProblem(prepared(), 0, 16, "exact", None)
    assert len(live.candidates(5).ids) == 16
    offered = live.candidates(6)
    found = live.evaluate_with_curve(int(offered.ids[3]), lambda curve: curve.rounds[-1] >= 4)
    assert found.curve is not None
    trained = live.space.from_unit(offered.unit[3:4])[0]
    more = live.candidates(7)
    longer = live.space.from_unit(more.unit[16:])
    assert len(np.unique(more.ids)) == len(more.ids) and more.ids.min() > offered.ids.max()
    assert longer[:, 0].tolist() == [r for r in PREFIX_GRID if r > found.curve.rounds[-1]]
    assert np.array_equal(longer[:, 1:], np.tile(trained[1:], (len(longer), 1)))
    assert np.array_equal(live.native(int(more.ids[-1])), longer[-1])
    live.evaluate_with_curve(int(more.ids[-1]), never)
    assert len(live.candidates(8).ids) == 16, "256 rounds are the most there are"
    with pytest.raises(ValueError, match="256 rounds are trained already"):
        live.evaluate_with_curve(int(live.place(more.unit[-1:]).ids[0]), never)


def test_an_interrupted_run_goes_on_with_what_was_paid(tmp_path: Path) -> None:
    spec = {"dataset": "fake", "pipeline": "raw", "method": "ei", "iterations": 9}
    (tmp_path / ".study").mkdir()

    def begin() -> tuple[LiveProblem, Checkpointed, int]:
        live = LiveProblem(prepared(), 0, 16, "exact", None)
        kept = Checkpointed(live, tmp_path, spec, 0)
        chosen = int(kept.initial(3).ids[1])
        first = kept.evaluate_with_curve(chosen, lambda curve: curve.rounds[-1] >= 8)
        assert first.curve is not None
        offered = kept.candidates(3)
        kept.evaluate_with_curve(int(offered.ids[16]), never)  # the next longer
        return live, kept, int(kept.candidates(4).ids[-1])

    whole, kept, last = begin()
    expected = kept.evaluate_with_curve(last, never)
    kept.close()
    path = next((tmp_path / ".study").glob("live-*.jsonl"))
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))  # the last evaluation was not reached
    again, kept, last = begin()
    found = kept.evaluate_with_curve(last, never)
    kept.close()
    assert found.curve and expected.curve
    assert (found.curve.error, found.test_error) == (expected.curve.error, expected.test_error)
    paid = [cost for cost, other in zip(found.curve.cost_s, expected.curve.cost_s, strict=True) if cost == other]
    assert 0 < len(paid) < len(found.curve.cost_s), "what was paid is not paid again"
    assert found.cost_s == pytest.approx(found.curve.cost_s[-1] - paid[-1])
    assert whole is not again


def test_a_failure_is_a_status_and_what_was_trained_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    trainings = Interruptible(prepared())
    trainings.run(point(100), lambda curve: curve.rounds[-1] >= 8)
    before = trainings.longer()

    def fails(*arguments: object) -> None:
        raise xgb.core.XGBoostError("no")

    monkeypatch.setattr(xgb.Booster, "update", fails)
    found = trainings.run(point(100), never)
    assert found.status == FAILED and math.isnan(found.error) and found.cost_s > 0 and found.curve is None
    assert np.array_equal(trainings.longer(), before)


def test_costs_are_at_the_reference_pace() -> None:
    """A machine that is always four times as slow: a quarter of the CPU seconds counts."""
    seconds = [
        min(Interruptible(prepared(n=400), pace).run(point(64), never).cost_s for _ in range(3))
        for pace in (None, lambda: 4.0)
    ]
    assert seconds[1] == pytest.approx(seconds[0] / 4, rel=0.5)


def test_a_live_run_stops_trainings_and_goes_on_with_some() -> None:
    parts = GaussianProcess(), LowVariance(["n_estimators", "max_depth"]), ExpectedImprovement(), Ignore()
    curves = LearningCurves(continues=True, stop_below=0.5)
    problem = LiveProblem(prepared(), 0, 64, "exact", None)
    trace = run(problem, Optimizer(*parts, iterations=20, curves=curves), 0, 20, 5, None)
    assert len(trace) == 20 and np.isfinite(trace.columns["error"]).all()
    other = np.delete(np.array([trace.columns[name] for name in SPACE.names]).T, 0, axis=1)
    assert problem._trainings is not None
    assert len(problem._trainings.longer()) > 0 and len(np.unique(other, axis=0)) <= 20

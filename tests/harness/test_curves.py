"""Learning curves: what of them the surrogate is told, what an evaluation counts as, and going on with trainings."""

from pathlib import Path

import numpy as np
import pytest
from fakes import Unasked, make_tables, prepared
from scipy import stats

from harness.acquisitions.cost_rules import Ignore, Power
from harness.acquisitions.ei import ExpectedImprovement
from harness.cost_models import Oracle
from harness.cost_models.linear import LowVariance
from harness.curves import CurvedProblem, LearningCurves, Paid, Rounds, log_improvement
from harness.errors import BadInput
from harness.live import LiveProblem
from harness.loop import run
from harness.optimizer import Optimizer
from harness.problem import FAILED, PREFIX_GRID, Curve, Evaluation, Stop, WrappedProblem
from harness.results_dir import Checkpointed
from harness.space import XGBOOST_SPACE as SPACE
from harness.streams import stream
from harness.surrogates import Posterior
from harness.surrogates.forest import RandomForest
from harness.surrogates.gp import GaussianProcess
from harness.training import train
from tabular_cache.replay import ReplayProblem
from tabular_cache.table import Table, load_table

ROUNDS = Rounds(SPACE, "n_estimators")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return load_table("a/p", make_tables(tmp_path_factory.mktemp("tables"), ["a/p"], 24))


def optimizer(
    curves: LearningCurves | None,
    rule: Ignore | Power | None = None,
    surrogate: GaussianProcess | None = None,
    **settings: object,
) -> Optimizer:
    model = surrogate or GaussianProcess()
    parts = model, LowVariance(["n_estimators", "max_depth"]), ExpectedImprovement(), rule or Ignore()
    return Optimizer(*parts, iterations=30, curves=curves, **settings)  # type: ignore[arg-type]


def curve_of(table: Table, row: int) -> np.ndarray:
    return np.flatnonzero((table["config"] == table["config"][row]) & (table.native[:, 0] <= table.native[row, 0]))


def test_the_prefixes_shown_are_the_nearest_by_ratio_and_the_best() -> None:
    rounds = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 60)
    error = [0.5] * 12
    error[7] = 0.1
    curve = Curve(rounds, tuple(error), tuple(error), tuple(float(r) for r in rounds))
    assert curve.best == 7
    shown = LearningCurves((2, 6, 20)).shown_prefixes(curve)
    log = np.log(rounds)
    nearest = {int(np.abs(log - np.log(60 / d)).argmin()) for d in (2, 6, 20)}
    assert shown == sorted(nearest | {7})
    alone = Curve((1,), (0.5,), (0.5,), (1.0,))
    assert LearningCurves().shown_prefixes(alone) == []


def test_a_replayed_evaluation_counts_with_its_best_prefix_and_costs_the_whole(table: Table) -> None:
    problem = CurvedProblem(ReplayProblem(table, 0, 5000), None)
    row = int(np.flatnonzero(table.longest)[3])
    same, found = curve_of(table, row), problem.evaluate(row)
    best = same[table["val_error"][same].argmin()]
    assert (found.error, found.test_error) == (table["val_error"][best], table["test_error"][best])
    assert found.cost_s == table["scaled_s"][row]
    assert found.curve is not None and found.curve.rounds == tuple(table.native[same, 0])
    assert problem.candidates(6).ids.tolist() == np.setdiff1d(np.arange(len(table)), same).tolist()


def test_the_models_see_the_prefixes_and_the_run_counts_evaluations(table: Table) -> None:
    curves, seen = LearningCurves((2, 6)), {}

    class Watched(GaussianProcess):
        def fit(self, X, y):  # type: ignore[no-untyped-def]
            seen["X"], seen["y"] = X, y
            return super().fit(X, y)

    parts = Watched(), LowVariance(["n_estimators"]), ExpectedImprovement(), Ignore()
    made = Optimizer(*parts, iterations=9, curves=curves)
    trace = run(ReplayProblem(table, 0, 5000), made, 0, 9, 5, None).columns
    rows = {tuple(x): k for k, x in enumerate(table.unit)}
    observed = [rows[tuple(x)] for x in seen["X"]]
    np.testing.assert_array_equal(seen["y"], table["val_error"][observed])
    assert len(observed) == len(set(observed)) > 2 * 8  # of eight evaluations
    assert len(trace["step"]) == 9 and min(trace["error"][:8]) == seen["y"].min()
    for candidate, error, rounds, cost in zip(
        trace["candidate"], trace["error"], trace["n_estimators"], trace["cost_s"], strict=True
    ):
        same = curve_of(table, candidate)
        best = same[table["val_error"][same].argmin()]
        assert (error, rounds, cost) == (table["val_error"][best], table.native[best, 0], table["scaled_s"][candidate])


def test_a_training_goes_on_at_the_price_of_what_is_added(table: Table) -> None:
    replay = ReplayProblem(table, 0, 5000)
    same = curve_of(table, int(np.flatnonzero(table.longest & (table.native[:, 0] > 20))[0]))
    first, last = int(same[3]), int(same[-1])
    assert replay.evaluate_with_curve(first, lambda _: False).cost_s == table["scaled_s"][first]
    asked: list[int] = []
    second = replay.evaluate_with_curve(last, lambda curve: bool(asked.append(curve.rounds[-1])))
    assert second.cost_s == pytest.approx(table["scaled_s"][last] - table["scaled_s"][first])
    assert asked == table.native[same[4:-1], 0].tolist()  # what is new, before the end
    again = ReplayProblem(table, 0, 5000)
    stopped = again.evaluate_with_curve(last, lambda curve: curve.rounds[-1] >= 4)
    assert stopped.curve is not None and stopped.curve.rounds[-1] == 4
    assert stopped.cost_s == table["scaled_s"][same[table.native[same, 0] == 4][0]]
    left = again.candidates(7).ids
    assert np.isin(same, left).tolist() == (table.native[same, 0] > 4).tolist()


def test_candidates_are_priced_at_what_is_left_to_pay(table: Table) -> None:
    oracle, problem = Oracle(), ReplayProblem(table, 0, 5000)
    oracle.start(problem)
    same, paid = curve_of(table, int(np.flatnonzero(table.longest)[0])), Paid(ROUNDS)
    paid.add(table.unit[same[2]])
    cost = np.log(table["scaled_s"].astype(float))
    left = np.exp(paid.left(table.unit, cost, lambda points: oracle.predict(points)[0]))
    expected = table["scaled_s"].astype(float)
    expected[same] = np.maximum(expected[same] - expected[same[2]], 0.02 * expected[same])
    np.testing.assert_allclose(left, expected, rtol=1e-9)


class FailsAtFirst(WrappedProblem):
    """The first five trainings fail."""

    made = 0

    def evaluate_with_curve(self, candidate: int, stop: Stop | None = None) -> Evaluation:
        self.made += 1
        if self.made > 5:
            return self._problem.evaluate_with_curve(candidate, stop)
        cost_s = self._problem.evaluate(candidate).cost_s
        return Evaluation(np.nan, cost_s, np.nan, cost_s, FAILED)


def test_a_run_goes_on_after_a_design_that_failed(table: Table) -> None:
    problem = FailsAtFirst(ReplayProblem(table, 0, 5000))
    trace = run(problem, optimizer(LearningCurves(continues=True), Power(1.0)), 0, 9, 5, None).columns
    assert trace["status"] == ["failed"] * 5 + ["ok"] * 4
    cost = np.log(table["scaled_s"].astype(float))
    np.testing.assert_array_equal(Paid(ROUNDS).left(table.unit, cost, lambda points: np.zeros(len(points))), cost)


def test_the_improvement_of_going_on_is_that_of_the_conditioned_process() -> None:
    rng = stream(0, "going on")
    X, y = rng.random((12, 7)), rng.normal(size=12)
    posterior = GaussianProcess().fit(X, y)
    x, seen, values = rng.random(7), rng.random((3, 7)), [0.3, -2.9, 0.1]
    points = np.concatenate([x[None], seen])
    mean, covariance = posterior.moments(points)[0], posterior.covariance(points, points)
    gain = covariance[0, 1:] @ np.linalg.inv(covariance[1:, 1:] + posterior.noise * np.eye(3))
    m, v = mean[0] + gain @ (values - mean[1:]), covariance[0, 0] - gain @ covariance[1:, 0]
    gap, sd = -2.9 - m, np.sqrt(v)
    expected = gap * stats.norm.cdf(gap / sd) + sd * stats.norm.pdf(gap / sd)
    assert log_improvement(posterior, -2.9, x, seen, values) == pytest.approx(np.log(expected), rel=1e-6)


def test_what_a_training_was_chosen_for_is_that_of_the_function_alone(table: Table) -> None:
    """Also where the surrogate's sd is that of a noisy observation: what is asked of a curve later is of the former."""
    made = optimizer(LearningCurves(continues=True, stop_below=0.5), surrogate=GaussianProcess(noise_in_sd=True))
    run(ReplayProblem(table, 0, 5000), made, 0, 12, 5, None)
    assert made._chosen is not None and made._asked is not None
    (x, log_improvement_then, incumbent), posterior = made._chosen, made._asked[0].posterior
    mean, covariance = posterior.moments(x[None])[0][0], posterior.covariance(x[None], x[None])[0, 0]
    gap, sd = incumbent - mean, np.sqrt(covariance)
    expected = gap * stats.norm.cdf(gap / sd) + sd * stats.norm.pdf(gap / sd)
    assert log_improvement_then == pytest.approx(np.log(expected), rel=1e-6) and posterior.noise > 0


def test_what_is_observed_is_not_observed_again_when_a_training_goes_on(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, again = [], 0

    def spied(posterior: Posterior, incumbent: float, x: np.ndarray, seen: np.ndarray, y: list[float]) -> float:
        asked.append(seen)
        assert len(seen) == len(y)
        return log_improvement(posterior, incumbent, x, seen, y)

    monkeypatch.setattr("harness.optimizer.log_improvement", spied)
    made = optimizer(LearningCurves(continues=True, stop_below=0.9))
    told, tell = list[bytes](), made.tell

    def watched(x: np.ndarray, evaluation: Evaluation) -> None:
        nonlocal again
        assert evaluation.curve is not None
        assert [len(seen) > 0 for seen in asked] == [k > 0 for k in range(len(asked))]  # first where it was chosen
        points = {point.tobytes() for seen in asked for point in seen}
        assert not points & set(told)
        asked.clear()
        again += ROUNDS.at(x, evaluation.curve.rounds[:1])[0].tobytes() in told
        tell(x, evaluation)
        told.extend(point.tobytes() for point in made._points[: made._n])

    monkeypatch.setattr(made, "tell", watched)
    timings = run(ReplayProblem(table, 0, 5000), made, 0, 18, 5, None).timings
    assert again > 0 and made.stopping_ms() > 0.0 and timings["propose_ms"][-1] > made.stopping_ms()


def test_more_is_stopped_the_higher_the_bar(table: Table) -> None:
    rounds = []
    for bar in (None, 1e-6, 0.9):
        made = optimizer(LearningCurves(continues=True, stop_below=bar))
        trace = run(ReplayProblem(table, 0, 5000), made, 0, 18, 5, None).columns
        rounds.append(sum(trace["cost_s"]))
        assert bar is not None or len(set(trace["candidate"])) == 18  # what was stopped can be chosen again
    assert rounds[2] < rounds[1] <= rounds[0]


def test_a_live_training_shows_its_curve_and_a_checkpoint_keeps_it(tmp_path: Path) -> None:
    spec = {"dataset": "fake", "pipeline": "raw", "method": "ei", "iterations": 3}
    (tmp_path / ".study").mkdir()
    found = []
    for _ in range(2):  # the second time from the checkpoint
        live = LiveProblem(prepared(), 0, 16, "exact", None)
        kept = Checkpointed(live, tmp_path, spec, 0)
        offer = kept.initial(3)
        found.append([kept.evaluate_with_curve(int(i)) for i in offer.ids])
        kept.close()
    assert found[0] == found[1]
    whole = train(prepared(), SPACE.from_unit(offer.unit[:1])[0])
    curve = found[0][0].curve
    assert curve is not None and list(curve.rounds) == whole.rounds.tolist()
    assert set(curve.rounds[:-1]) <= {*PREFIX_GRID}
    np.testing.assert_array_equal(curve.error, whole.val_error)
    assert found[0][0].error == whole.val_error[-1] and np.diff(curve.cost_s).min() > 0


class NoCurve(Unasked):
    name, space = "mine", SPACE


def test_what_cannot_be_is_said_in_one_line(table: Table) -> None:
    with pytest.raises(BadInput, match=r"^curves: evaluations of mine show no learning curve"):
        optimizer(LearningCurves()).start(NoCurve())
    with pytest.raises(BadInput, match=r"cannot be stopped and continued: evaluator=replay"):
        optimizer(LearningCurves(continues=True)).start(LiveProblem(prepared(), 0, 16, "hist", None))
    with pytest.raises(BadInput, match=r"stop_below needs curves\.continues=true"):
        LearningCurves(stop_below=0.1)
    with pytest.raises(BadInput, match=r"stop_below must be a share in \(0, 1\), or null, got 1"):
        LearningCurves(continues=True, stop_below=1)
    with pytest.raises(BadInput, match="list of numbers > 1, got 1"):
        LearningCurves((1,))
    with pytest.raises(BadInput, match="a surrogate with joint predictions"):
        forest, cost = RandomForest(trees=2), LowVariance(["n_estimators"])
        stopping = LearningCurves(continues=True, stop_below=0.1)
        Optimizer(forest, cost, ExpectedImprovement(), Ignore(), iterations=9, curves=stopping)
    shown = ReplayProblem(table, 0, 5000).evaluate_with_curve(5)
    with pytest.raises(ValueError, match="set `curves`, and call `start` or `watch_curves` first"):
        optimizer(None).tell(table.unit[5], shown)

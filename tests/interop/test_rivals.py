"""Optimizers from elsewhere on our problems: the seam, the two tracks, bad input, and each one that is installed."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import harness
from harness.config import options
from harness.errors import BadInput
from harness.execution import serial
from harness.interop.bandits import Asha, Hyperband
from harness.interop.optuna_rivals import OptunaRival
from harness.interop.rivals import OutsideOptimizer, Run, same
from harness.interop.smac_rival import Smac
from harness.loop import run as run_once
from harness.problem import FAILED, Candidates, Evaluation, Problem
from harness.space import XGBOOST_SPACE, Parameter, SearchSpace
from harness.study import Stopped
from tabular_cache.replay import ReplayProblem
from tabular_cache.table import first_configs, load_table, read_table

TABLES = Path(__file__).parents[1] / "golden" / "tables"
PROBLEM = ("dataset=[abalone,wind]", "pipeline=[clean]", "seeds=[0]")
MINE = """
import numpy as np

class Corner:
    def __init__(self, at=0.9): self.at, self.told = at, []
    def ask(self): return np.full(7, self.at)
    def tell(self, x, error, cost_s): self.told.append((x, error, cost_s))

class First:
    plans_ahead = False
    def observe_and_suggest(self, X_obs, y_obs, X_pending):
        assert X_obs.shape == (len(y_obs), 7) and y_obs.shape[1] == 1
        return 0

class Wrong:
    def __init__(self, what): self.what = what
    def start(self, run): self.n = 0
    def tell(self, x, error, cost_s): self.n += 1
    def ask(self):
        if self.what == "outside": return np.full(7, 1.5)
        if self.what == "shape": return np.zeros(3)
        if self.what == "nan": return np.full(7, np.nan)
        raise ArithmeticError("out of ideas")

class Row:
    def observe_and_suggest(self, X_obs, y_obs, X_pending): return len(X_pending)
"""


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Return the settings with which a package of somebody's own is found."""
    name = f"theirs_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MINE)
    (tmp_path / "conf/optimizer").mkdir(parents=True)
    for file, body in {
        "corner": "_target_: {}.Corner\nat: 0.9",
        "first": "_target_: {}.First",
        "row": "_target_: {}.Row",
        "wrong": "_target_: {}.Wrong\nwhat: outside",
        "ei": "_target_: {}.First",
    }.items():
        (tmp_path / f"conf/optimizer/{file}.yaml").write_text(f"name: {file}\n{body.format(name)}\n")
    monkeypatch.syspath_prepend(tmp_path)
    return f"hydra.searchpath=[file://{tmp_path}/conf]", f"allow_targets=[{name}]"


def run(results: Path, *settings: str) -> Any:
    study = harness.compose(*PROBLEM, "iterations=9", *settings)
    return harness.run(study, results, serial())


def unit(rows: Any) -> np.ndarray:
    return XGBOOST_SPACE.to_unit(rows[list(XGBOOST_SPACE.names)].to_numpy(float))


def test_a_users_own_on_both_tracks(tmp_path: Path, outside: tuple[str, str]) -> None:
    """Discrete: the nearest rows to its corner, the nearest first, none twice. Continuous: the corner itself."""
    discrete = run(tmp_path / "d", "optimizer=corner", *outside)
    mine = unit(discrete[discrete["dataset"] == "wind"])
    gaps = np.square(mine[5:] - 0.9).sum(axis=1)
    assert (np.diff(gaps) > 0).all()
    random = run(tmp_path / "d", "+acq=random")
    assert np.array_equal(unit(random[random["dataset"] == "wind"])[:5], mine[:5])  # the same initial design
    placed = run(tmp_path / "c", "optimizer=corner", "evaluator=surface", *outside)
    want = XGBOOST_SPACE.from_unit(np.full((1, 7), 0.9))[0]
    assert (placed[placed["step"] >= 5][list(XGBOOST_SPACE.names)].to_numpy() == want.astype(np.float32)).all()
    assert set(placed["method"].astype(str)) == {"corner(at=0.9)"}


def test_observe_and_suggest(tmp_path: Path, outside: tuple[str, str]) -> None:
    traces = run(tmp_path, "optimizer=first", *outside)
    assert len(traces) == 18 and not traces.duplicated(["dataset", "candidate"]).any()
    assert not harness.read(tmp_path)["plans_ahead"].any()


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("outside", "Wrong.ask must return a point of the unit cube [0, 1]^7, got [1.5"),
        ("shape", "Wrong.ask must return a point"),
        ("nan", "Wrong.ask must return a point"),
        ("raises", "ArithmeticError: out of ideas"),
    ],
)
def test_one_that_errs_is_a_recorded_failure_and_the_others_go_on(
    tmp_path: Path, outside: tuple[str, str], what: str, why: str
) -> None:
    both = "study.methods=[{optimizer: wrong},{acq: random}]"
    if what != "outside":
        file = Path(outside[0].split("file://")[1].rstrip("]")) / "optimizer/wrong.yaml"
        file.write_text(file.read_text().replace("what: outside", f"what: {what}"))
    with pytest.raises(Stopped) as caught:
        run(tmp_path, both, *outside)
    failed = caught.value.report.failed
    assert len(failed) == 2 and all(why in line and "\n" not in line for line in failed), failed
    assert set(harness.read(tmp_path)["method"].astype(str)) == {"random"} and len(harness.read(tmp_path)) == 18


def test_a_row_that_is_not_left_is_a_recorded_failure(tmp_path: Path, outside: tuple[str, str]) -> None:
    with pytest.raises(Stopped, match=r"index of one of the \d+ rows left"):
        run(tmp_path, "optimizer=row", *outside)


def test_settings_that_make_no_sense_are_refused_in_a_line(outside: tuple[str, str]) -> None:
    for settings, why in (
        (["optimizer=asha", "+acq=ei"], "+acq is set, but optimizer=asha chooses by itself"),
        (["optimizer=asha", "lam=0.1"], "lam is set, but optimizer=asha chooses by itself"),
        (["optimizer=asha", "error_scale=log"], "error_scale is set, but optimizer=asha chooses by itself"),
        (["optimizer=asha", "surrogate=rf"], "surrogate is set, but optimizer=asha chooses by itself"),
        (["optimizer=asha", "setting=winsorized"], "error_scale is set by setting=winsorized, but optimizer=asha"),
        (["optimizer=asha", "fit=gpyopt"], "surrogate is set by fit=gpyopt, but optimizer=asha"),
        (["study.methods=[{optimizer: asha}]", "error_scale=log"], "error_scale is set, but optimizer=asha"),
        (["optimizer=nobody"], "unknown optimizer 'nobody'; allowed: asha"),
        (["optimizer=asha", "optimizer.eta=1"], "eta must be a whole number >= 2, got 1"),
        (["optimizer=asha", "optimizer.least=0"], "least must be a number > 0, got 0"),
        (["optimizer=asha", "optimizer.least=0.5"], "least must be n_estimators from 1 to 256, got 0.5"),
        (["optimizer=asha", "optimizer.fidelity=foo"], "fidelity must be one of"),
        (["optimizer=tpe", "optimizer.sampler=my.pkg:Sampler"], "sampler must be one of Optuna's or of the packages"),
        (["optimizer=asha", "+optimizer.speed=1"], "Asha has no setting 'speed'"),
        (["optimizer=ei", *outside], "ei is the name of an acquisition of the project"),
        (["optimizer=first", outside[0]], "it would run as code; if you trust it"),
    ):
        with pytest.raises(BadInput, match=re.escape(why)):
            harness.compose(*PROBLEM, *settings)


def test_failures_are_told_as_the_worst_error_so_far() -> None:
    class Listener:
        def __init__(self) -> None:
            self.told: list[float] = []

        def ask(self) -> np.ndarray:
            return np.zeros(1)

        def tell(self, x: np.ndarray, error: float, cost_s: float) -> None:
            self.told.append(error)

    listener = Listener()
    optimizer = OutsideOptimizer(listener, iterations=9, n_initial=2)
    for error in (math.nan, 3.0, 1.0, math.nan):
        status = {"status": FAILED} if math.isnan(error) else {}
        optimizer.tell(np.zeros(1), Evaluation(error, 1.0, math.nan, math.nan, **status))
    assert listener.told == [3.0, 3.0, 1.0, 3.0]


def test_where_the_first_evaluations_fail_nothing_stays_open() -> None:
    class Shapes:
        def observe_and_suggest(self, X: np.ndarray, y: np.ndarray, pending: np.ndarray) -> int:
            assert X.shape == (len(y), 7) and y.shape == (len(X), 1)
            return 0

    def play(rival: Any) -> None:
        optimizer = OutsideOptimizer(rival, iterations=9, n_initial=1)
        if hasattr(rival, "start"):
            rival.start(Run(XGBOOST_SPACE, 3, 9, 1, None))
        points = np.random.default_rng(0).random((8, 7))
        for error in (math.nan, math.nan, 0.5, 0.4):
            i = optimizer.ask(points).index
            status = {"status": FAILED} if math.isnan(error) else {}
            optimizer.tell(points[i], Evaluation(error, 1.0, math.nan, math.nan, **status))

    play(Shapes())
    pytest.importorskip("optuna", minversion="5", reason="needs the extra `optuna`")
    rival = OptunaRival("TPESampler")
    play(rival)
    assert {trial.state.name for trial in rival._study.trials} == {"FAIL", "COMPLETE"}
    assert sorted(trial.value for trial in rival._study.trials if trial.value is not None) == [0.4, 0.5, 0.5, 0.5]
    pytest.importorskip("flaml", reason="needs the extra `rivals`")
    from harness.interop.flaml_rivals import Flaml

    for searcher in Flaml.searchers:
        play(Flaml(searcher))


class Corner:
    """Asks for one point again and again."""

    def __init__(self, d: int) -> None:
        self.d = d

    def ask(self) -> np.ndarray:
        return np.full(self.d, 0.9)

    def tell(self, x: np.ndarray, error: float, cost_s: float) -> None:
        pass


class Listed(Problem):
    """A problem of the user's own, with the methods that it must have and no other."""

    name, space = "mine/p", SearchSpace((Parameter("x", 0.0, 1.0), Parameter("y", 0.0, 1.0)))

    def __init__(self) -> None:
        self.points, self.left = self.space.sobol(16, 3), list(range(16))

    def initial(self, n: int) -> Candidates:
        return Candidates(np.arange(n), self.points[:n])

    def candidates(self, step: int) -> Candidates:
        return Candidates(np.array(self.left, dtype=np.intp), self.points[self.left])

    def evaluate(self, candidate: int) -> Evaluation:
        self.left.remove(candidate)
        return Evaluation(1.0, 1.0, 1.0, 1.0)


def test_of_a_problem_of_the_users_own_the_nearest_point_on_offer_is_evaluated() -> None:
    trace = run_once(problem := Listed(), OutsideOptimizer(Corner(2), iterations=99, n_initial=3), 0, 99, 3, None)
    nearest = np.square(problem.points - 0.9).sum(axis=1).argsort()
    assert trace.columns["candidate"] == [0, 1, 2, *nearest[nearest > 2]] and trace.exhausted


def test_a_run_ends_with_the_rows_of_its_table() -> None:
    table = load_table("wine/clean", TABLES)
    rows = np.flatnonzero(table.measured & first_configs(table, 6))
    problem = ReplayProblem(table, 0, 5000, n_configs=6)
    trace = run_once(problem, OutsideOptimizer(Corner(7), iterations=999, n_initial=5), 0, 999, 5, None)
    assert trace.exhausted and sorted(trace.columns["candidate"]) == rows.tolist()


# Bandits, against what the papers say by hand.

ROUNDS = SearchSpace((Parameter("n_estimators", 1, 64, log=True, integer=True), Parameter("x", 0.0, 1.0)))


def played(rival: Any, n: int) -> list[tuple[int, float]]:
    """Return rounds and x of n questions, where the error is x whatever the rounds."""
    rival.start(Run(ROUNDS, 0, n, 0, None))
    found = []
    for _ in range(n):
        point = rival.ask()
        values = Run(ROUNDS, 0, n, 0, None).values(point)
        found.append((values["n_estimators"], values["x"]))
        rival.tell(point, values["x"], 1.0)
    return found


def test_asha_promotes_the_best_quarter_of_each_rung() -> None:
    found = played(Asha(), 120)
    rungs = {rounds: [x for r, x in found if r == rounds] for rounds in (1, 4, 16, 64)}
    assert sum(map(len, rungs.values())) == 120
    assert found[:5] == [(1, x) for x in rungs[1][:4]] + [(4, min(rungs[1][:4]))]
    for low, high in ((1, 4), (4, 16), (16, 64)):
        assert len(rungs[high]) >= len(rungs[low]) // 4 > 0
        assert set(rungs[high]) <= set(rungs[low])
        assert min(rungs[low]) in rungs[high] or found[-1][1] == min(rungs[low])


def test_the_least_fidelity_is_that_of_the_lowest_rung() -> None:
    assert {rounds for rounds, _ in played(Asha(least=16), 100)} == {16, 64}
    with pytest.raises(BadInput, match="least must be n_estimators from 1 to 64, got 65"):
        played(Hyperband(least=65), 1)


def test_hyperband_runs_the_brackets_of_its_paper() -> None:
    """R = 64, eta = 4: n = 64, 22, 8, 4 configurations in brackets s = 3, 2, 1, 0, cut to a quarter at each rung."""
    found = played(Hyperband(), 64 + 16 + 4 + 1 + 22 + 5 + 1 + 8 + 2 + 4 + 64)
    rounds = [r for r, _ in found]
    want = (
        [1] * 64 + [4] * 16 + [16] * 4 + [64] + [4] * 22 + [16] * 5 + [64] + [16] * 8 + [64] * 2 + [64] * 4 + [1] * 64
    )
    assert rounds == want
    assert sorted(x for _, x in found[:64])[:16] == [x for _, x in found[64:80]]


def test_smacs_forest_is_its_facades_but_for_room_and_threads() -> None:
    smac = pytest.importorskip("smac", reason="needs the extra `rivals`")
    rival = Smac()
    rival.start(Run(ROUNDS, 3, 100, 5, None))
    rival.tell(np.zeros(2), 1.0, 1.0)
    rival.ask()
    theirs = smac.HyperparameterOptimizationFacade.get_model(rival._smac.scenario)
    own, kept = rival._smac._model._rf_opts, {**theirs._rf_opts, "max_leaf_nodes": 1024, "n_jobs": 1}
    assert own == kept


def test_smacs_share_of_random_choices_is_a_probability() -> None:
    with pytest.raises(BadInput, match="random must be a probability, from 0 to 1, got 2"):
        Smac(random=2.0)


def test_smacs_first_choice_is_its_models() -> None:
    pytest.importorskip("smac", reason="needs the extra `rivals`")
    rival, rng = Smac(random=0.0), np.random.default_rng(0)
    rival.start(Run(ROUNDS, 3, 100, 5, None))
    for _ in range(5):
        rival.tell(rng.random(2), float(rng.random()), 1.0)
    rival.ask()
    assert rival._asked.config.origin.startswith("Acquisition Function Maximizer")


def test_smac_learns_of_the_row_that_stood_in_for_its_point() -> None:
    pytest.importorskip("smac", reason="needs the extra `rivals`")
    rival, rng = Smac(), np.random.default_rng(0)
    run = Run(ROUNDS, 3, 100, 5, None)
    rival.start(run)
    told = [rng.random(2) for _ in range(12)]
    for k, x in enumerate(told):
        if k >= 5:
            assert not np.allclose(rival.ask(), x)
        rival.tell(x, float(x.sum()), 1.0)
    asked = rival.ask()
    rival.tell(asked, 1.5, 1.0)
    history = rival._smac.runhistory
    known = history.get_configs()
    for x in (*told, asked):
        own = next(config for config in known if same(dict(config), run.values(x)))
        assert history.get_cost(own) == pytest.approx(1.5 if x is asked else float(x.sum()))
    assert len(known) == 12 + 1 + 7  # those that were asked for and not evaluated stay open


def test_blendsearch_weighs_costs_alike_whatever_they_are_above_milliseconds() -> None:
    pytest.importorskip("flaml", reason="needs the extra `rivals`")
    from harness.interop.flaml_rivals import Flaml

    asked = []
    for factor in (1.0, 1000.0):
        rival = Flaml("BlendSearch", {"n_estimators": 1, "max_depth": 1})
        rival.start(Run(XGBOOST_SPACE, 3, 100, 5, None))
        for _ in range(60):
            x = rival.ask()
            rival.tell(x, float(np.square(x - 0.4).sum()), factor * 0.05 * float(np.exp(3 * x[0])))
            asked.append(x)
    np.testing.assert_array_equal(asked[:60], asked[60:])


@pytest.mark.parametrize("searcher", ["CFO", "BlendSearch"])
def test_flaml_starts_where_training_is_cheap(searcher: str) -> None:
    pytest.importorskip("flaml", reason="needs the extra `rivals`")
    from harness.interop.flaml_rivals import Flaml

    rival = Flaml(searcher, {"n_estimators": 1, "max_depth": 1})
    rival.start(Run(XGBOOST_SPACE, 3, 100, 5, None))
    for x in np.random.default_rng(0).random((5, 7)):
        rival.tell(x, float(x.sum()), 50.0)
    first = XGBOOST_SPACE.from_unit(rival.ask()[None])[0]
    assert first[list(XGBOOST_SPACE.names).index("n_estimators")] == 1.0
    assert first[list(XGBOOST_SPACE.names).index("max_depth")] == 1.0


def test_optunas_trial_ends_where_its_point_was_evaluated_but_for_rounding() -> None:
    pytest.importorskip("optuna", minversion="5", reason="needs the extra `optuna`")
    rival = OptunaRival("NSGAIISampler")
    rival.start(Run(XGBOOST_SPACE, seed=0, iterations=9, n_initial=1, tau=None))
    for _ in range(3):
        x = rival.ask()
        rival.tell(XGBOOST_SPACE.to_unit(XGBOOST_SPACE.from_unit(x[None]).astype(np.float32))[0], 0.5, 1.0)
    x = rival.ask()
    rival.tell(np.where(x < 0.5, x + 0.25, x - 0.25), 0.5, 1.0)
    assert [trial.state.name for trial in rival._study.trials] == ["COMPLETE"] * 3 + ["FAIL", "COMPLETE"]


def test_on_a_table_the_nearest_of_all_rows_left_is_evaluated(tmp_path: Path, outside: tuple[str, str]) -> None:
    """Not only of those that the project's own methods would be offered at that step."""
    found = run(tmp_path, "optimizer=corner", "evaluator.max_candidates=20", *outside)
    table, mine = read_table("wind/clean"), found[found["dataset"] == "wind"]
    left = table.measured.copy()
    for step, candidate in zip(mine["step"], mine["candidate"], strict=True):
        rows = np.flatnonzero(left)
        if step >= 5:
            assert candidate == rows[np.square(table.unit[rows] - 0.9).sum(axis=1).argmin()]
        left[candidate] = False


@pytest.mark.slow
@pytest.mark.parametrize("name", options("optimizer"))
@pytest.mark.parametrize("evaluator", ["replay", "surface"])
def test_each_one_that_is_installed(tmp_path: Path, name: str, evaluator: str) -> None:
    """It finishes, by choices of its own; on the surface, a second time in the same words, it is the same run."""
    settings = ("dataset=[wind]", "pipeline=[clean]", "seeds=[3]", "iterations=8", f"evaluator={evaluator}")
    try:
        study = harness.compose(*settings, f"optimizer={name}")
    except BadInput as error:
        pytest.skip(str(error))
    first = harness.run(study, tmp_path, serial())
    assert len(first) == 8 and (first["status"].astype(str) == "ok").all()
    assert np.unique(unit(first), axis=0).shape[0] == 8
    assert set(first["method"].astype(str)) == {name}
    if evaluator == "surface":
        assert np.array_equal(unit(first), unit(harness.run(study, tmp_path / "again", serial())))

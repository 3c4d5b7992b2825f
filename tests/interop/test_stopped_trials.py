"""`CostAwareSampler(rounds=...)` and `CostAwarePruner`: what reports are to the models, and when a trial ends."""

import copy
import inspect
import pickle
import re
from typing import Any

import numpy as np
import pytest

optuna = pytest.importorskip("optuna", minversion="5", reason="needs the extra `optuna`")

from optuna.distributions import IntDistribution  # noqa: E402
from optuna.trial import TrialState, create_trial  # noqa: E402

from harness.acquisitions.cost_rules import Ignore  # noqa: E402
from harness.acquisitions.ei import ExpectedImprovement  # noqa: E402
from harness.cost_models.linear import LowVariance  # noqa: E402
from harness.curves import LearningCurves, log_improvement  # noqa: E402
from harness.errors import BadInput  # noqa: E402
from harness.interop import CostAwarePruner, CostAwareSampler  # noqa: E402
from harness.interop.reports import STOPPED, as_trained, curve_of, interval, was_stopped  # noqa: E402
from harness.optimizer import Optimizer  # noqa: E402
from harness.problem import Curve, Evaluation  # noqa: E402
from harness.space import Parameter, SearchSpace  # noqa: E402
from harness.surrogates.gp import GaussianProcess  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.WARNING)
SIGN = {"minimize": 1.0, "maximize": -1.0}


def curve(rate: float, k: int) -> float:
    """A value that falls fast and rises again, the more so the higher the rate."""
    return float(np.exp(-rate * k) + 0.002 * rate * k + (np.log(rate) + 2) ** 2 / 50)


def suggested(trial: Any) -> tuple[int, float]:
    return trial.suggest_int("rounds", 4, 200, log=True), trial.suggest_float("rate", 0.01, 1.0, log=True)


def study_of(n: int, direction: str = "minimize", stops: bool = True, ended: str = "returns", **settings: Any) -> Any:
    def objective(trial: Any) -> float:
        rounds, rate = suggested(trial)
        values = []
        for k in range(1, rounds + 1):
            values.append(curve(rate, k))
            trial.report(SIGN[direction] * values[-1], k)
            if trial.should_prune():
                trial.set_user_attr("asked_to_stop", k)
                break
        trial.set_user_attr("cost", 0.5 * len(values))
        if "asked_to_stop" in trial.user_attrs and ended == "raises":
            raise optuna.TrialPruned
        return SIGN[direction] * min(values)

    sampler = CostAwareSampler("ei", rounds="rounds", seed=1, **settings)
    pruner = CostAwarePruner(sampler) if stops else optuna.pruners.NopPruner()
    study = optuna.create_study(sampler=sampler, pruner=pruner, direction=direction)
    study.optimize(objective, n_trials=n)
    return study


def rounds_made(study: Any) -> list[int]:
    return [max(trial.intermediate_values) for trial in study.trials]


def test_what_a_trial_reported_is_observed(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluations = dict[bytes, Evaluation]()
    tell = Optimizer.tell

    def watched(self: Optimizer, x: np.ndarray, evaluation: Evaluation) -> None:
        evaluations[x.tobytes()] = evaluation
        tell(self, x, evaluation)
        assert evaluation.curve is not None
        best = self._outcomes[: self._n, 0].min()
        assert best <= evaluation.error == min(evaluation.curve.error) and self._paid is None  # nothing goes on

    monkeypatch.setattr(Optimizer, "tell", watched)
    study = study_of(9, stops=False)
    assert len(evaluations) == 8
    for trial, evaluation in zip(study.trials, evaluations.values(), strict=False):
        found, n, rate = evaluation.curve, trial.params["rounds"], trial.params["rate"]
        assert found is not None and found.rounds[-1] == n and evaluation.status == "ok"
        assert found.error == tuple(curve(rate, k) for k in found.rounds)
        assert evaluation.error == min(curve(rate, k) for k in range(4, n + 1))  # of the rounds that the space has
        assert found.cost_s == pytest.approx([0.5 * k for k in found.rounds]) and evaluation.cost_s == 0.5 * n
        gaps = np.diff(np.log(found.rounds))
        assert found.rounds[0] == 4 and gaps.max() < np.log(4 / 3) * 2 and len(found.rounds) < 20


def test_a_trial_ends_where_its_expected_improvement_has_fallen(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, looked = list[tuple[bool, bool]](), list[tuple[int, int]]()
    hopeless = Optimizer.hopeless

    def watched(self: Optimizer, found: Any) -> bool:
        said = hopeless(self, found)
        (x, then, incumbent), posterior = self._chosen, self._asked[0].posterior  # type: ignore[misc, index]
        seen = self._rounds.at(x, found.rounds)  # type: ignore[union-attr]
        looked.append((len(self._charged), interval(found.rounds[-1])))
        now = log_improvement(posterior, min(incumbent, *found.error), x, seen, list(found.error))
        asked.append((said, now < then + np.log(0.3)))
        return said

    monkeypatch.setattr(Optimizer, "hopeless", watched)
    study = study_of(16)
    stopped = [trial for trial in study.trials if "asked_to_stop" in trial.user_attrs]
    assert len(stopped) >= 3 and all(trial.number >= 5 for trial in stopped)
    assert [said for said, _ in asked] == [wanted for _, wanted in asked] and sum(said for said, _ in asked) == len(
        stopped
    )
    assert len(set(looked)) == len(looked)  # once for each interval of a trial
    assert sum(rounds_made(study)) < 0.8 * sum(rounds_made(study_of(16, stops=False)))


def test_maximising_is_minimising_the_negative_and_returning_is_raising() -> None:
    made = [trial.params for trial in study_of(12).trials]
    assert made == [trial.params for trial in study_of(12, "maximize").trials]
    raising = study_of(12, ended="raises")
    assert made == [trial.params for trial in raising.trials]
    assert TrialState.PRUNED in {trial.state for trial in raising.trials}


def test_prefixes_alone_stop_nothing() -> None:
    study = study_of(12, curves="prefixes")
    assert rounds_made(study) == [trial.params["rounds"] for trial in study.trials]


def test_a_trial_of_another_process_is_not_ended() -> None:
    study = study_of(12)
    sampler, last = study.sampler, study.trials[-1]
    assert list(sampler._running) == [((study._storage, study.study_name), last.number)]  # of no other that has ended
    sampler._running.clear()
    assert not any(sampler.hopeless(study, trial) for trial in study.trials)


@pytest.mark.parametrize("n", [9, 40])  # below and above where hyperparameters are kept
def test_what_is_said_of_a_trial_does_not_change_while_others_are_chosen(n: int) -> None:
    earlier = study_of(9, stops=False)
    study = study_of(n, stops=False, earlier=[earlier])
    trial = study.ask()
    suggested(trial)
    optimizer, rng = list(study.sampler._running.values())[-1].optimizer, np.random.default_rng(0)
    points = rng.random((4, 2))

    def said() -> tuple[np.ndarray, np.ndarray]:
        joint = optimizer._asked[0].posterior.joint(points.copy())
        return joint.mean, joint.covariance

    before = said()
    for _ in range(3):
        other = study.ask()
        k, rate = suggested(other)
        other.set_user_attr("cost", 1.0)
        study.tell(other, curve(rate, k))
    for one, again in zip(before, said(), strict=True):
        np.testing.assert_array_equal(one, again)


def test_what_is_wrong_is_said_in_a_line() -> None:
    with pytest.raises(
        BadInput, match="rounds must name the parameter that counts a training's rounds, or be None, got ''"
    ):
        CostAwareSampler("ei", rounds="")
    with pytest.raises(BadInput, match="say by rounds= which parameter"):
        CostAwareSampler("ei", curves="prefixes")
    with pytest.raises(BadInput, match="needs the study's CostAwareSampler, with rounds= naming a parameter"):
        CostAwarePruner(CostAwareSampler("ei"))
    with pytest.raises(BadInput, match="unknown curves 'stoped'"):
        CostAwareSampler("ei", rounds="n", curves="stoped")
    with pytest.raises(BadInput, match="a surrogate with joint predictions"):
        CostAwareSampler("ei", rounds="n", surrogate="rf")
    study = study_of(0)
    for value, said in ((0, "has 5 rounds (rounds): report(value, k) takes k = 1 to 5, got 0"), (6, "1 to 5, got 6")):
        with pytest.raises(BadInput, match=re.escape(said)):
            study.sampler.hopeless(study, a_trial({value: 1.0}, state=TrialState.RUNNING))
        with pytest.warns(UserWarning, match=f"no learning curve: .*{re.escape(said)}"):
            assert study.sampler._curve(("x", value), a_trial({value: 1.0}), 1.0, 1.0, 1) is None
    study = optuna.create_study(sampler=CostAwareSampler("ei", rounds="n", n_startup_trials=1))
    with pytest.raises(BadInput, match="rounds='n' must be an integer parameter, it is a FloatDistribution"):
        study.optimize(lambda trial: trial.suggest_float("n", 1, 9), n_trials=2)


def a_loop() -> tuple[SearchSpace, Optimizer]:
    space = SearchSpace((Parameter("n", 1, 9, integer=True), Parameter("x", 0.0, 1.0)))
    models = GaussianProcess(), LowVariance(["n"], space=space), ExpectedImprovement(), Ignore()
    return space, Optimizer(*models, iterations=9, curves=LearningCurves(stop_below=0.3, continues=True))


def test_mistakes_in_a_loop_written_by_hand_are_said_in_a_line() -> None:
    space, made = a_loop()
    made.tell(np.array([0.5, 0.5]), Evaluation(1.0, 1.0, np.nan, 1.0))
    made.ask(np.array([[0.1, 0.2]]))
    with pytest.raises(BadInput, match="call `start` or `watch_curves` first"):
        made.hopeless(Curve((1,), (1.0,), (1.0,), (1.0,)))
    with pytest.raises(BadInput, match="unknown parameter 'm'"):
        made.watch_curves(space, "m")
    with pytest.raises(BadInput, match="x must be an integer parameter"):
        made.watch_curves(space, "x")
    with pytest.raises(BadInput, match="a curve needs one error"):
        Curve((1, 2), (1.0,), (1.0,), (1.0,))
    with pytest.raises(BadInput, match=r"rounds must be whole numbers >= 1 that ascend, got \(2, 1\)"):
        Curve((2, 1), (1.0, 1.0), (1.0, 1.0), (1.0, 1.0))
    with pytest.raises(BadInput, match="a curve's error must be a list of numbers, got 'ab'"):
        inspect.unwrap(Curve.__init__)(object.__new__(Curve), (1, 2), "ab", (1.0, 1.0), (1.0, 1.0))
    for errors, seconds, message in (((np.inf,), (1.0,), r"a curve's errors must be .* up to 1e\+150"),
                                     ((1.0,), (0.0,), "a curve's cost_s must be seconds > 0")):  # fmt: skip
        with pytest.raises(BadInput, match=message):
            Curve((1,), errors, (np.nan,), seconds)
    made.watch_curves(space, "n")
    hopeless, tell = (inspect.unwrap(method) for method in (Optimizer.hopeless, Optimizer.tell))
    shown = Evaluation(1.0, 1.0, 1.0, 1.0)
    for curve, message in (
        (Curve((), (), (), ()), "must show one round at least"),
        ([1.0], r"must be a Curve\(.* list$"),
    ):
        object.__setattr__(shown, "curve", curve)
        for asked in (lambda: hopeless(made, shown.curve), lambda: tell(made, np.zeros(2), shown)):
            with pytest.raises(BadInput, match=message):
                asked()


def test_rounds_without_an_error_say_nothing_of_a_training() -> None:
    space, made = a_loop()
    made.watch_curves(space, "n")
    for x in space.sobol(6, seed=0):
        made.tell(x, Evaluation(float(x.sum()), 1.0, np.nan, 1.0))
    made.ask(np.array([[0.9, 0.2]]))
    said = []
    for bad, rounds in ((0.1, (1, 2)), (9.0, (1, 2)), (9.0, (1, 2, 3))):
        errors = (np.nan, bad, np.nan)[: len(rounds)]
        said.append(made.hopeless(Curve(rounds, errors, errors, tuple(map(float, rounds)))))
        assert said[-1] == made.hopeless(Curve((2,), (bad,), (bad,), (1.0,)))
    assert said == [True, False, False]


def test_a_curve_of_arrays_is_one_of_tuples() -> None:
    make = inspect.unwrap(Curve.__init__)
    made, given = object.__new__(Curve), ([1, 2], [0.5, 0.25], [0.5, np.nan], [1.0, 2.0])
    make(made, *map(np.array, given))
    assert (made.rounds, made.error, made.cost_s, made.best) == ((1, 2), (0.5, 0.25), (1.0, 2.0), 1)


# Trials as they come.


def a_trial(reports: dict[int, float], rounds: int = 5, state: Any = TrialState.COMPLETE, **settings: Any) -> Any:
    space = {"rounds": IntDistribution(1, 9)}
    value = 0.5 if state == TrialState.COMPLETE else None
    return create_trial(params={"rounds": rounds}, distributions=space, value=value, state=state,
                        intermediate_values=reports, **settings)  # fmt: skip


def test_what_trials_report_as_curves() -> None:
    def seen(trial: Any, least: int = 1) -> Any:
        found = curve_of(trial, "rounds", -1.0, 10.0, least)
        return found and (found.rounds, found.error, found.cost_s)

    whole = {k: float(k) for k in range(1, 6)}
    assert seen(a_trial(whole)) == ((1, 2, 3, 4, 5), (-1.0, -2.0, -3.0, -4.0, -5.0), (2.0, 4.0, 6.0, 8.0, 10.0))
    assert seen(a_trial(whole), 4) == ((4, 5), (-4.0, -5.0), (8.0, 10.0))
    assert seen(a_trial({2: 7.0})) == ((2, 5), (-7.0, -0.5), (4.0, 10.0))  # its value is that of all rounds
    stopped = a_trial({2: 7.0}, system_attrs={STOPPED: {"rounds": 2}})
    assert seen(stopped) == ((2,), (-7.0,), (10.0,)) and seen(stopped, 3) is None
    went_on = a_trial({2: 7.0, 3: 6.0}, system_attrs={STOPPED: {"rounds": 2}})
    assert seen(went_on) == ((2, 3, 5), (-7.0, -6.0, -0.5), (4.0, 6.0, 10.0))
    assert seen(a_trial({1: 7.0, 2: 6.0}, state=TrialState.PRUNED)) == ((1, 2), (-7.0, -6.0), (5.0, 10.0))
    rounds, error, cost = seen(a_trial({1: 7.0, 2: np.nan, 3: 6.0, 4: np.inf}, state=TrialState.PRUNED))
    assert rounds == (1, 3, 5) and error[:2] == (-7.0, -6.0) and np.isnan(error[2]) and cost == (2.5, 7.5, 12.5)
    assert seen(a_trial({1: 1e200}, state=TrialState.PRUNED)) is None and seen(a_trial({})) is None
    best = as_trained(a_trial({1: 3.0, 2: 4.0, 3: 1.0}, system_attrs={STOPPED: {"rounds": 3}}), -1.0)
    assert best.params == {"rounds": 2} and best.values == [4.0] and as_trained(a_trial(whole), 1.0).values == [0.5]


def test_a_training_that_diverges_is_ended_and_not_chosen_again() -> None:
    def objective(trial: Any) -> float:
        rounds, rate = suggested(trial)
        best = np.inf
        for k in range(1, rounds + 1):
            value = float("nan") if rate > 0.1 and k >= 5 else curve(rate, k)
            trial.report(value, k)
            best = min(best, value)
            if trial.should_prune():
                break
        trial.set_user_attr("cost", float(k))
        return best

    sampler = CostAwareSampler("ei", rounds="rounds", seed=1)
    study = optuna.create_study(sampler=sampler, pruner=CostAwarePruner(sampler))
    study.optimize(objective, n_trials=20)
    diverged = [trial for trial in study.trials if any(np.isnan(v) for v in trial.intermediate_values.values())]
    assert diverged and {max(trial.intermediate_values) for trial in diverged} == {5}
    assert len(diverged) <= 6 and study.best_value < 0.05  # at rates up to 0.1


@pytest.mark.parametrize("ranges", [((1, 60), (10, 60)), ((10, 60), (1, 60))])
def test_a_range_of_rounds_may_change(ranges: Any) -> None:
    sampler = CostAwareSampler("ei", rounds="n", n_startup_trials=3, seed=0)
    study = optuna.create_study(sampler=sampler, pruner=CostAwarePruner(sampler))
    for low, high in ranges:
        study.optimize(lambda trial, low=low, high=high: reported(trial, trial.suggest_int("n", low, high)), n_trials=6)
    assert {trial.state for trial in study.trials} == {TrialState.COMPLETE} and len(study.trials) == 12


def reported(trial: Any, n: int, every: int = 1) -> float:
    """A training of n rounds that asks after each so many of them whether to go on."""
    x = trial.suggest_float("x", 0.0, 1.0)
    for k in range(1, n + 1):
        trial.report((x - 0.3) ** 2 + 1 / k, k)
        if k % every == 0 and trial.should_prune():
            break
    trial.set_user_attr("cost", float(k))
    return (x - 0.3) ** 2 + 1 / k


def test_a_branch_without_rounds_may_report_what_it_likes() -> None:
    def objective(trial: Any) -> float:
        if trial.suggest_categorical("kind", ["trees", "kernel"]) == "trees":
            return reported(trial, trial.suggest_int("n", 1, 30))
        trial.report(1.0, 0)
        trial.set_user_attr("cost", 1.0)
        assert not trial.should_prune()
        return trial.suggest_float("width", 0.0, 1.0)

    sampler = CostAwareSampler("ei", rounds="n", n_startup_trials=3, seed=0)
    study = optuna.create_study(sampler=sampler, pruner=CostAwarePruner(sampler))
    study.optimize(objective, n_trials=16)
    assert len(study.get_trials(states=(TrialState.COMPLETE,))) == 16


def test_a_success_after_a_failure_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, ask = list[Any](), Optimizer.ask

    def watched(self: Optimizer, *asked: Any) -> Any:
        seen.append(self._outcomes[: self._n, 0].copy())
        return ask(self, *asked)

    monkeypatch.setattr(Optimizer, "ask", watched)
    study = optuna.create_study(sampler=CostAwareSampler("ei", rounds="n", n_startup_trials=2, seed=0))
    study.optimize(lambda trial: reported(trial, trial.suggest_int("n", 1, 30)), n_trials=3)

    def failing(trial: Any) -> float:
        reported(trial, trial.suggest_int("n", 1, 30))
        raise ValueError

    study.optimize(failing, n_trials=1, catch=ValueError)
    study.enqueue_trial(study.trials[-1].params)
    study.optimize(lambda trial: reported(trial, trial.suggest_int("n", 1, 30)), n_trials=2)
    assert np.isnan(seen[-1]).sum() == 1 and study.trials[-2].value in seen[-1]


def test_looking_seldom_is_looking_all_the_same() -> None:
    made = []
    for every in (1, 5):
        sampler = CostAwareSampler("ei", rounds="n", seed=0)
        study = optuna.create_study(sampler=sampler, pruner=CostAwarePruner(sampler))
        study.optimize(lambda trial, e=every: reported(trial, trial.suggest_int("n", 1, 300), e), n_trials=15)
        made.append([max(trial.intermediate_values) for trial in study.trials if was_stopped(trial)])
    assert len(made[0]) >= 4 and len(made[1]) >= 3 and all(k % 5 == 0 for k in made[1])


def test_many_trials_at_once_are_all_looked_at() -> None:
    study = study_of(6, stops=False)
    asked = [study.ask() for _ in range(40)]
    for trial in asked:
        suggested(trial)
    assert {number for _, number in study.sampler._running} == {trial.number for trial in asked}
    assert not pickle.loads(pickle.dumps(study.sampler))._running


def test_a_trial_of_other_values_than_were_chosen_is_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Optimizer, "hopeless", lambda *asked: True)
    study = study_of(6, stops=False)
    trial = study.ask()
    suggested(trial)
    trial.report(1.0, 4)
    frozen = study.get_trials(deepcopy=True)[-1]
    other = copy.copy(frozen)
    other.params = {**frozen.params, "rate": 0.5 * frozen.params["rate"]}
    assert not study.sampler.hopeless(study, other)
    study.sampler._running[(study._storage, study.study_name), trial.number].looked = -1
    assert study.sampler.hopeless(study, frozen)


def test_set_ups_in_which_nothing_would_ever_end_are_warned_of() -> None:
    def study(sampler: Any, pruned_by: Any) -> Any:
        return optuna.create_study(sampler=sampler, pruner=CostAwarePruner(pruned_by))

    def sampler(rounds: str = "n") -> CostAwareSampler:
        return CostAwareSampler("ei", rounds=rounds, n_startup_trials=2)

    own = sampler("m")
    with pytest.warns(UserWarning, match="unknown parameter of several values in rounds 'm'; allowed: n, x"):
        study(own, own).optimize(lambda trial: reported(trial, trial.suggest_int("n", 1, 30)), n_trials=4)
    own = sampler()
    with pytest.warns(UserWarning, match="unknown parameter of several values in rounds 'n'"):
        study(own, own).optimize(lambda trial: reported(trial, trial.suggest_int("n", 5, 5)), n_trials=4)
    with pytest.warns(UserWarning, match="another sampler than its own"):
        study(sampler(), sampler()).optimize(lambda trial: reported(trial, trial.suggest_int("n", 1, 30)), n_trials=1)

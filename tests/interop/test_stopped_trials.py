"""`CostAwareSampler(rounds=...)` and `CostAwarePruner`: what reports are to the models, and when a trial ends."""

import re
from typing import Any

import numpy as np
import pytest

optuna = pytest.importorskip("optuna", minversion="5", reason="needs the extra `optuna`")

from optuna.trial import TrialState, create_trial  # noqa: E402

from harness.curves import log_improvement  # noqa: E402
from harness.errors import BadInput  # noqa: E402
from harness.interop import CostAwarePruner, CostAwareSampler  # noqa: E402
from harness.optimizer import Optimizer  # noqa: E402
from harness.problem import Evaluation  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.WARNING)
SIGN = {"minimize": 1.0, "maximize": -1.0}


def curve(rate: float, k: int) -> float:
    """A value that falls fast and rises again, the more so the higher the rate."""
    return float(np.exp(-rate * k) + 0.002 * rate * k + (np.log(rate) + 2) ** 2 / 50)


def study_of(n: int, direction: str = "minimize", stops: bool = True, ended: str = "returns", **settings: Any) -> Any:
    def objective(trial: Any) -> float:
        rounds, rate = trial.suggest_int("rounds", 4, 200, log=True), trial.suggest_float("rate", 0.01, 1.0, log=True)
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
    told = dict[bytes, Evaluation]()
    tell = Optimizer.tell

    def watched(self: Optimizer, x: np.ndarray, evaluation: Evaluation) -> None:
        told[x.tobytes()] = evaluation
        tell(self, x, evaluation)
        assert evaluation.curve is not None
        best = self._outcomes[: self._n, 0].min()
        assert best <= evaluation.error == min(evaluation.curve.error)

    monkeypatch.setattr(Optimizer, "tell", watched)
    study = study_of(9, stops=False)
    assert len(told) == 8
    for trial, evaluation in zip(study.trials, told.values(), strict=False):
        found, n, rate = evaluation.curve, trial.params["rounds"], trial.params["rate"]
        assert found is not None and found.rounds[-1] == n and evaluation.status == "ok"
        assert found.error == tuple(curve(rate, k) for k in found.rounds)
        assert evaluation.error == min(curve(rate, k) for k in range(4, n + 1))  # of the rounds that the space has
        assert found.cost_s == pytest.approx([0.5 * k for k in found.rounds]) and evaluation.cost_s == 0.5 * n
        gaps = np.diff(np.log(found.rounds))
        assert found.rounds[0] == 4 and gaps.max() < np.log(4 / 3) * 2 and len(found.rounds) < 20


def test_a_trial_ends_where_its_expected_improvement_has_fallen(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[tuple[bool, bool]]()
    hopeless = Optimizer.hopeless

    def watched(self: Optimizer, found: Any) -> bool:
        said = hopeless(self, found)
        (x, then, incumbent), posterior = self._chosen, self._asked[0].posterior  # type: ignore[misc, index]
        seen = self._rounds.at(x, found.rounds)  # type: ignore[union-attr]
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
    trial.suggest_int("rounds", 4, 200, log=True), trial.suggest_float("rate", 0.01, 1.0, log=True)
    (_, optimizer), rng = list(study.sampler._running.values())[-1], np.random.default_rng(0)
    points = rng.random((4, 2))

    def said() -> tuple[np.ndarray, np.ndarray]:
        joint = optimizer._asked[0].posterior.joint(points.copy())
        return joint.mean, joint.covariance

    before = said()
    for _ in range(3):
        other = study.ask()
        k, rate = other.suggest_int("rounds", 4, 200, log=True), other.suggest_float("rate", 0.01, 1.0, log=True)
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
    for space, report, said in (
        (optuna.distributions.IntDistribution(1, 9), 0, r"has 5 rounds (n): report(value, k) takes k = 1 to 5, got 0"),
        (optuna.distributions.IntDistribution(1, 9), 6, r"report(value, k) takes k = 1 to 5, got 6"),
        (optuna.distributions.FloatDistribution(1, 9), 1, r"rounds='n' must be an integer parameter"),
    ):
        sampler = CostAwareSampler("ei", rounds="n", n_startup_trials=1)
        study = optuna.create_study(sampler=sampler, pruner=CostAwarePruner(sampler))
        study.add_trial(create_trial(params={"n": 5}, distributions={"n": space}, value=1.0,
                                     intermediate_values={report: 1.0}, user_attrs={"cost": 1.0}))  # fmt: skip
        with pytest.raises(BadInput, match=re.escape(said)):
            study.optimize(lambda trial: float(trial.suggest_int("n", 1, 9)), n_trials=1)

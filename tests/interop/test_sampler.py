"""`CostAwareSampler`: what it makes of trials, costs and spaces; Optuna's own cases are in test_sampler_cases.py."""

import datetime
import inspect
import math
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forked import Forked
from hypothesis import given
from hypothesis import strategies as st

optuna = pytest.importorskip("optuna", minversion="5", reason="needs the extra `optuna`")

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution  # noqa: E402
from optuna.trial import FrozenTrial, TrialState, create_trial  # noqa: E402

from harness.acquisitions.cost_rules import Cool  # noqa: E402
from harness.errors import BadInput  # noqa: E402
from harness.interop import CostAwareSampler, components  # noqa: E402
from harness.interop.encoding import Encoding  # noqa: E402
from harness.optimizer import Optimizer  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.WARNING)

SPACES: list[BaseDistribution] = [
    FloatDistribution(-3.0, 5.0),
    FloatDistribution(1e-7, 10.0, log=True),
    FloatDistribution(-1.0, 1.0, step=0.1),
    IntDistribution(-7, 8, step=3),
    IntDistribution(1, 1000, log=True),
    IntDistribution(4, 4),
    CategoricalDistribution(["a", None]),
    CategoricalDistribution([1, 2.5, "z", False]),
]


@given(st.lists(st.floats(0.0, 1.0), min_size=len(SPACES), max_size=len(SPACES)))
def test_a_point_is_the_same_there_and_back(u: list[float]) -> None:
    encoding = Encoding({str(j): distribution for j, distribution in enumerate(SPACES)})
    values = encoding.draw(np.array([u]))
    params = encoding.external(values[0])
    assert all(d._contains(d.to_internal_repr(params[str(j)])) for j, d in enumerate(SPACES))
    assert np.array_equal(encoding.internal([params]), values)
    np.testing.assert_allclose(encoding.draw(encoding.uniform(values)), values, rtol=1e-12, atol=1e-12)
    unit = encoding.unit(values)
    assert unit.shape == (1, len(encoding.space)) == (1, 11)  # the last parameter has four columns, the others one each
    assert ((unit >= 0) & (unit <= 1)).all()
    assert unit[0, -4:].sum() == 1.0


def test_counted_values_have_equal_shares() -> None:
    encoding = Encoding({"x": IntDistribution(-7, 8, step=3), "y": CategoricalDistribution("abc")})
    u = (np.arange(600) + 0.5) / 600
    values = encoding.draw(np.column_stack([u, u]))
    assert np.unique(values[:, 0], return_counts=True)[1].tolist() == [100] * 6
    assert np.unique(values[:, 1], return_counts=True)[1].tolist() == [200] * 3


def study_of(n: int = 12, sign: float = 1.0, **settings: Any) -> Any:
    """Return a study of `n` trials of (x - 0.3)^2 at cost 10^k."""
    direction = "minimize" if sign > 0 else "maximize"
    made = {"acq": "cei", "lam": 0.1, "seed": 3, "n_candidates": 256} | settings
    study = optuna.create_study(sampler=CostAwareSampler(**made), direction=direction)
    study.optimize(lambda trial: sign * priced(trial), n_trials=n)
    return study


def priced(trial: Any) -> float:
    x, k = trial.suggest_float("x", 0.0, 1.0), trial.suggest_float("k", 0.0, 3.0)
    trial.set_user_attr("cost", 10.0**k)
    return float((x - 0.3) ** 2)


ask, tell = Optimizer.ask, Optimizer.tell


def a_trial(x: float, state: TrialState, value: float | None = None, **times: Any) -> FrozenTrial:
    trial = create_trial(params={"x": x}, distributions={"x": FloatDistribution(0.0, 1.0)}, value=value, state=state)
    for name, time_of_day in times.items():
        setattr(trial, name, time_of_day)
    return trial


def params(study: Any) -> list[dict[str, Any]]:
    return [trial.params for trial in study.trials]


def test_maximising_is_minimising_the_negative_and_a_seed_names_the_run() -> None:
    assert params(study_of()) == params(study_of(sign=-1.0))
    assert params(study_of()) != params(study_of(seed=4))


def test_studies_of_one_name_in_two_storages_are_kept_apart() -> None:
    def sampler() -> CostAwareSampler:
        return CostAwareSampler("cei", lam=0.1, seed=3, n_candidates=256)

    def study(own: CostAwareSampler) -> Any:
        return optuna.create_study(study_name="s", storage=optuna.storages.InMemoryStorage(), sampler=own)

    both = sampler()
    shared, alone = [study(both), study(both)], [study(sampler()), study(sampler())]
    for _ in range(14):
        for pair in (shared, alone):
            for sign, one in zip((1.0, -1.0), pair, strict=True):
                one.optimize(lambda trial, sign=sign: sign * priced(trial), n_trials=1)
    assert [params(one) for one in shared] == [params(one) for one in alone]


def test_lam_1_pays_the_least() -> None:
    """It takes the cheapest point on offer, by a cost that is linear in k; the error does not depend on k."""
    assert max(p["k"] for p in params(study_of(lam=1.0))[5:]) < 0.2
    blind = study_of(acq="ei", lam=None)
    assert min(p["k"] for p in params(blind)[5:]) < max(p["k"] for p in params(blind)[5:]) - 1.0
    assert study_of().best_value < 0.01


@pytest.mark.parametrize("acq", [name for name in components.names("acq") if name != "informed"])  # brings tables along
def test_every_cost_rule_by_name(acq: str) -> None:
    own = {"cei": {"lam": 0.1}, "eialpha": {"alpha": 0.5}}.get(acq, {})
    study = study_of(7, acq=acq, **{"lam": None, **own}, n_trials=10)
    assert len({tuple(p.values()) for p in params(study)}) == 7


@pytest.mark.parametrize("utility", components.names("utility"))
def test_every_utility_by_name(utility: str) -> None:
    assert len(study_of(6, acq="ei", lam=None, utility=utility, n_trials=10, tau=1e4).trials) == 6


@pytest.mark.parametrize("name", components.names("cost_model"))
def test_every_cost_model_by_name_but_those_of_the_benchmark(name: str) -> None:
    if name.startswith("transfer_") or name in ("oracle", "hybrid"):
        with pytest.raises(BadInput, match=f"cost_model={name} knows the costs of this benchmark's problems"):
            CostAwareSampler("ei", cost_model=name)
    else:
        assert len(study_of(7, cost_model=name).trials) == 7


def test_a_surrogate_of_the_benchmark_is_refused_before_the_first_trial() -> None:
    with pytest.raises(BadInput, match=r"surrogate=gp_transfer learns from this benchmark's problems: use earlier="):
        CostAwareSampler("ei", surrogate="gp_transfer")


def test_a_linear_cost_model_sees_the_parameters_that_it_is_given() -> None:
    """Without k it knows nothing of the cost, and the cheapest of equal points is any."""
    assert max(p["k"] for p in params(study_of(lam=1.0, cost_features=["x"]))[5:]) > 1.0


def test_of_a_cost_feature_that_no_trial_has_a_warning_tells() -> None:
    with pytest.warns(UserWarning, match=r"unknown parameter in cost_features 'kk' .did you mean k.*; allowed: k, x"):
        study_of(6, cost_features=["x", "kk"])


def told(study: Any, cost: Any, value: float | None = 1.0, state: Any = None, **attrs: Any) -> Any:
    trial = study.ask({"x": FloatDistribution(0.0, 1.0)})
    if cost is not None:
        trial.set_user_attr("cost", cost)
    for name, values in attrs.items():
        trial.set_constraint(name, values)
    study.tell(trial, value, state=state)
    return trial


@pytest.mark.parametrize("cost", [None, 0.0, -1.0, math.nan, "1", True])
def test_a_cost_that_is_none_is_an_error(cost: Any) -> None:
    study = optuna.create_study(sampler=CostAwareSampler("ei", n_startup_trials=2))
    told(study, 1.0)
    with pytest.raises(
        ValueError, match=r"the cost of trial 1 must be a number > 0, user_attrs\['cost'\] is"
    ) as caught:
        for _ in range(2):
            told(study, cost)
    assert "\n" not in str(caught.value)


def test_durations_are_costs_where_no_trial_names_one() -> None:
    study = optuna.create_study(sampler=CostAwareSampler("ei", n_startup_trials=1))
    told(study, None)
    told(study, None)
    own = optuna.create_trial(params={"x": 0.5}, distributions={"x": FloatDistribution(0.0, 1.0)}, value=1.0)
    study.add_trial(own)
    with pytest.raises(ValueError, match=r"trial 2 .* its duration in seconds is 0.0; give costs by .*'cost'"):
        told(study, None)


def test_what_makes_no_sense_is_refused_in_a_line() -> None:
    for wrong, why in (
        ({"acq": "cei"}, "lam must be a number"),
        ({"acq": "ei", "lam": 0.1}, "lam is set, but acq=ei"),
        ({"acq": "nothing"}, "unknown acq 'nothing'; allowed: carbo, cei"),
        ({"acq": "eicool"}, "Cool plans ahead: say n_trials= or tau="),
        ({"acq": "ei", "utility": "mcms"}, "MonteCarloMultiStep plans ahead"),
        ({"acq": "ei", "n_startup_trials": 0}, "n_startup_trials must be a whole number >= 1"),
        ({"acq": "ei", "cost_features": "xk"}, "cost_features must be a list, [a,b], got 'xk'"),
        ({"acq": "ei", "cost_features": []}, "cost_features must be different names of the study's parameters"),
        ({"acq": "ei", "cost_features": ["x", "x"]}, "cost_features must be different names of the study's parameters"),
        ({"acq": "ei", "cost": 3}, "cost must name the user attribute that holds a trial's cost, or be None, got 3"),
        ({"acq": "ei", "earlier": 3}, "earlier must be a list, [a,b], got 3"),
        ({"acq": "ei", "earlier": [3]}, "earlier must be a list of Optuna studies, [study, ...], got 3 in it"),
    ):
        with pytest.raises(BadInput, match=re.escape(why)):
            inspect.unwrap(CostAwareSampler.__init__)(object.__new__(CostAwareSampler), **wrong)
    study = optuna.create_study(sampler=CostAwareSampler("ei", n_startup_trials=1))
    told(study, 1.0, c=0.5)
    with pytest.raises(ValueError, match="takes no constraints, trial 0 has some"):
        told(study, 1.0)
    with pytest.raises(ValueError, match="the study has 2"):
        optuna.create_study(directions=["minimize"] * 2, sampler=CostAwareSampler("ei")).ask().suggest_float("x", 0, 1)


def test_a_penalty_beyond_all_measure_is_a_failure() -> None:
    """It ends no study: a value, or the last one of a pruned trial."""

    def chosen(penalty: float) -> list[dict[str, Any]]:
        def objective(trial: Any) -> float:
            x = trial.suggest_float("x", 0.0, 1.0)
            trial.set_user_attr("cost", 1.0)
            if x < 0.3:
                trial.report(penalty, 0)
                raise optuna.TrialPruned
            return penalty if x > 0.5 else -x

        study = optuna.create_study(sampler=CostAwareSampler("ei", seed=0, n_startup_trials=4, n_candidates=64))
        study.optimize(objective, n_trials=14)
        states = {trial.state for trial in study.trials if trial.params["x"] > 0.5}
        assert states == {TrialState.FAIL if math.isnan(penalty) else TrialState.COMPLETE}
        assert any(trial.state == TrialState.PRUNED for trial in study.trials)
        return params(study)

    assert chosen(math.nan) == chosen(math.inf) == chosen(sys.float_info.max)


def test_failed_and_pruned_trials_count() -> None:
    """Failures at x > 0.5 keep the search away from there, as the worst value would."""

    def objective(trial: Any) -> float:
        x = trial.suggest_float("x", 0.0, 1.0)
        trial.set_user_attr("cost", 1.0)
        if x > 0.5:
            raise ArithmeticError
        if x < 0.1:
            trial.report(1.0, 0)
            raise optuna.TrialPruned
        return -x

    study = optuna.create_study(sampler=CostAwareSampler("ei", seed=0, n_startup_trials=6, n_candidates=256))
    study.optimize(objective, n_trials=20, catch=ArithmeticError)
    late = [trial.params["x"] for trial in study.trials[10:]]
    assert np.mean([x > 0.6 for x in late]) <= 0.3
    assert study.best_value < -0.45


def test_running_trials_keep_workers_apart() -> None:
    study = study_of(10, acq="ei", lam=None)
    space = {"x": FloatDistribution(0.0, 1.0), "k": FloatDistribution(0.0, 3.0)}
    asked = [study.ask(space).params for _ in range(6)]
    x = np.array([(p["x"], p["k"] / 3) for p in asked])
    gaps = np.linalg.norm(x[:, None] - x[None], axis=2) + np.eye(6)
    assert gaps.min() > 0.01


def test_enqueued_values_are_kept_and_the_others_fit_them() -> None:
    study = study_of(8)
    study.enqueue_trial({"k": 2.5})
    study.optimize(priced, n_trials=1)
    assert study.trials[-1].params["k"] == 2.5
    assert study.trials[-1].params.keys() == {"x", "k"}


def test_conditional_parameters_are_learned() -> None:
    def objective(trial: Any) -> float:
        trial.set_user_attr("cost", 1.0)
        if trial.suggest_categorical("kind", ["a", "b"]) == "a":
            return float((trial.suggest_float("u", 0.0, 1.0) - 0.7) ** 2)
        return 1.0 + trial.suggest_int("v", 1, 1000, log=True)

    study = optuna.create_study(sampler=CostAwareSampler("ei", seed=1, n_startup_trials=4, n_candidates=256))
    study.optimize(objective, n_trials=25)
    assert study.best_value < 1e-3  # 20 at random come this close in one run of four


def test_a_budget_is_the_whole_studys_whatever_branch_a_trial_is_of() -> None:
    seen: list[tuple[int, float, float]] = []

    class Watched(Cool):
        def score(self, log_value: Any, log_cost: Any, context: Any) -> Any:
            seen.append((context.step, context.spent, context.initial_cost))
            return super().score(log_value, log_cost, context)

    def objective(trial: Any) -> float:
        kind = trial.suggest_categorical("kind", ["a", "b", "c"])
        trial.set_user_attr("cost", 10.0)
        return float(trial.suggest_float(f"x_{kind}", 0.0, 1.0))

    study = optuna.create_study(sampler=CostAwareSampler(Watched(), seed=1, n_startup_trials=3, tau=300.0))
    for number in range(13):
        seen.clear()
        study.enqueue_trial({"kind": "abc"[number % 3]})
        study.optimize(objective, n_trials=1)
    assert seen and {*seen} == {(12, 120.0, 30.0)}  # of x_a alone there were four


def test_a_trial_that_a_killed_worker_left_says_no_more_than_the_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs are durations here, and it runs for ever."""
    evaluations: list[Any] = []
    monkeypatch.setattr(
        Optimizer, "tell", lambda self, x, evaluation: evaluations.append(evaluation) or tell(self, x, evaluation)
    )
    start = datetime.datetime.now() - datetime.timedelta(days=7)
    study = optuna.create_study(sampler=CostAwareSampler("ei", seed=0, n_startup_trials=2, n_candidates=64))
    space = {"x": FloatDistribution(0.0, 1.0)}
    for number in range(4):
        end = {"datetime_start": start, "datetime_complete": start + datetime.timedelta(seconds=1 + number)}
        study.add_trial(a_trial(number / 4, TrialState.COMPLETE, value=0.1 * number, **end))
    study.add_trial(a_trial(0.9, TrialState.RUNNING, datetime_start=start, datetime_complete=None))
    study.ask(space)
    assert [one.cost_s for one in evaluations] == [1.0, 2.0, 3.0, 4.0, 4.0] and evaluations[-1].censored


@pytest.mark.filterwarnings("ignore:Choices for a categorical distribution")
def test_choices_that_are_lists_numpys_numbers_and_wide_ranges() -> None:
    def objective(trial: Any) -> float:
        layers = trial.suggest_categorical("layers", [[16], [32, 32], [64]])
        trial.set_user_attr("cost", np.int64(len(layers)))
        return float(trial.suggest_float("x", 0.0, 1.0))

    study = optuna.create_study(sampler=CostAwareSampler("ei", seed=0, n_startup_trials=3, n_candidates=64))
    study.optimize(objective, n_trials=8)
    assert len(study.trials) == 8 and study.best_value < 0.1
    with pytest.raises(BadInput, match="parameter rate: low must be a number, finite in single precision"):
        Encoding({"x": FloatDistribution(0.0, 1.0), "rate": FloatDistribution(-1e40, 1.0)})


def test_pruned_trials_with_values_are_enough_to_ask_models(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(Optimizer, "ask", lambda self, candidates: asked.append(self._n) or ask(self, candidates))

    def objective(trial: Any) -> float:
        trial.report(trial.suggest_float("x", 0.0, 1.0), 0)
        trial.set_user_attr("cost", 1.0)
        raise optuna.TrialPruned

    study = optuna.create_study(sampler=CostAwareSampler("ei", seed=0, n_startup_trials=3, n_candidates=64))
    study.optimize(objective, n_trials=6)
    assert asked == [3, 4, 5]


def test_models_of_ranges_that_change_are_not_kept_for_ever() -> None:
    sampler = CostAwareSampler("ei", seed=0, n_startup_trials=1, n_candidates=8)

    def objective(trial: Any) -> float:
        trial.set_user_attr("cost", 1.0)
        return float(trial.suggest_float("x", 0.0, 1.0 + trial.number))

    optuna.create_study(sampler=sampler).optimize(objective, n_trials=40)
    assert len(sampler._parts) == 32


def test_a_step_counted_from_elsewhere_is_the_same_point() -> None:
    study = optuna.create_study(sampler=CostAwareSampler("ei", seed=0, n_startup_trials=2, n_candidates=256))

    def objective(trial: Any) -> float:
        trial.set_user_attr("cost", 1.0)
        return float(trial.suggest_float("x", 0.0, 0.9, step=0.3))

    for x in (0.9, 0.6, 0.3):  # 3 * 0.3 is not 0.9
        study.enqueue_trial({"x": x})
    study.optimize(objective, n_trials=4)
    assert study.trials[-1].params["x"] == 0.0


def test_parameters_of_a_branch_are_chosen_together() -> None:
    """u and v matter by their sum above all: chosen one by one, u would tell nothing (1e-4 at the median, not 1e-6)."""

    def objective(trial: Any) -> float:
        trial.set_user_attr("cost", 1.0)
        if trial.suggest_categorical("kind", ["a", "b"]) == "b":
            return 0.3 + trial.suggest_float("w", 0.0, 1.0)
        u, v = trial.suggest_float("u", 0.0, 1.0), trial.suggest_float("v", 0.0, 1.0)
        return float((u + v - 1.1) ** 2 + 0.1 * (u - v - 0.5) ** 2)

    def best(seed: int) -> float:
        study = optuna.create_study(sampler=CostAwareSampler("ei", seed=seed, n_candidates=256))
        study.enqueue_trial({"kind": "a", "v": 0.5})
        study.optimize(objective, n_trials=25)
        assert study.trials[0].params["v"] == 0.5
        return float(study.best_value)

    assert np.median([best(seed) for seed in range(3)]) < 3e-5


@pytest.mark.slow
def test_a_storage_that_vanishes_ends_the_study_with_its_own_error(tmp_path: Path) -> None:
    file = tmp_path / "study.db"
    sampler = CostAwareSampler("ei", seed=0, n_startup_trials=1)
    study = optuna.create_study(storage=f"sqlite:///{file}", sampler=sampler)
    told(study, 1.0)
    told(study, 1.0)
    file.unlink()
    with pytest.raises(optuna.exceptions.StorageInternalError):
        told(study, 1.0)


WORKER = """
import sys, time, optuna
from harness.interop import CostAwareSampler
optuna.logging.set_verbosity(optuna.logging.ERROR)
study = optuna.load_study(study_name="s", storage=sys.argv[1], sampler=CostAwareSampler("cei", lam=0.1, seed=5))
def objective(trial):
    x, k = trial.suggest_float("x", 0, 1), trial.suggest_int("k", 1, 100, log=True)
    time.sleep(0.01)
    trial.set_user_attr("cost", float(k))
    return (x - 0.3) ** 2 + 0.1 / k
study.optimize(objective, callbacks=[optuna.study.MaxTrialsCallback(int(sys.argv[2]), None)])
"""


@pytest.mark.slow
def test_two_workers_on_one_storage_killed_and_resumed(tmp_path: Path) -> None:
    """Trials that ran when their worker was killed stay `RUNNING`: the others go on beside them."""
    storage = f"sqlite:///{tmp_path}/study.db"
    study = optuna.create_study(study_name="s", storage=storage)
    with Forked("import optuna, optuna.storages, harness.optimizer, harness.interop.sampler") as forked:
        first = [forked.start(WORKER, storage, "10000") for _ in range(2)]
        until = time.monotonic() + 120
        while len(study.trials) < 14 and time.monotonic() < until:
            time.sleep(0.1)
        assert [worker.kill() for worker in first] == [-9, -9]
        before = len(study.trials)
        assert before >= 14
        again = [forked.start(WORKER, storage, str(before + 10)) for _ in range(2)]
        assert [worker.wait() for worker in again] == [0, 0], again[0].err.read_text()
    trials = study.trials
    assert len(trials) >= before + 10
    done = [trial for trial in trials if trial.state == optuna.trial.TrialState.COMPLETE]
    assert len(trials) - len(done) <= 2
    assert len({(t.params["x"], t.params["k"]) for t in done}) == len(done)
    assert study.best_value < 0.02

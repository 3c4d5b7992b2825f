"""A prior mean from earlier Optuna studies: what it is made of, that it helps, and that a wrong one costs little."""

import pickle

import numpy as np
import pytest

optuna = pytest.importorskip("optuna", minversion="5", reason="needs the extra `optuna`")

from harness.errors import BadInput  # noqa: E402
from harness.interop import CostAwareSampler  # noqa: E402
from harness.interop.earlier import Earlier, EarlierStudies  # noqa: E402
from harness.interop.encoding import Encoding  # noqa: E402
from harness.surrogates.gp import GaussianProcess  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.WARNING)
SPACE = {name: optuna.distributions.FloatDistribution(-5.0, 5.0) for name in "xy"}


def study(sign: float, n: int = 20, seed: int = 0, direction: str = "minimize") -> "optuna.Study":
    """Random trials of sign ((x - 2)^2 + (y + 1)^2)."""
    made, rng = optuna.create_study(direction=direction), np.random.default_rng(seed)
    for x, y in rng.uniform(-5, 5, (n, 2)):
        value = sign * ((x - 2) ** 2 + (y + 1) ** 2)
        trial = optuna.trial.create_trial(params={"x": x, "y": y}, distributions=SPACE, value=value)
        made.add_trial(trial)
    return made


def test_the_mean_is_that_of_the_studies_models() -> None:
    encoding, C = Encoding(SPACE), np.random.default_rng(1).random((9, 2))
    studies = [study(1.0, 20, 1), study(-3.0, 30, 2, "maximize"), study(1.0, 2, 3)]  # two trials are too few
    prior = EarlierStudies(encoding, [Earlier.of(one) for one in studies])
    assert prior.models == 2
    means = []
    for one, sign in zip(studies[:2], (1.0, -1.0), strict=True):
        y = sign * np.array([trial.value for trial in one.trials])
        q1, q3 = np.quantile(y, [0.25, 0.75])
        y = np.minimum(y, q3 + 1.5 * (q3 - q1))
        X = (np.array([[trial.params[name] for name in "xy"] for trial in one.trials]) + 5) / 10
        means.append(GaussianProcess().fit(X, (y - y.mean()) / y.std()).mean_sd(C)[0])
    np.testing.assert_allclose(prior.predict(C), np.mean(means, axis=0), rtol=1e-6, atol=1e-9)
    narrow = Encoding({**SPACE, "z": optuna.distributions.FloatDistribution(0.0, 1.0)})
    assert EarlierStudies(narrow, [Earlier.of(one) for one in studies]).models == 0


def best_after(n: int, *earlier: "optuna.Study") -> float:
    """The mean over seeds of the best value after n trials, the first four at random."""
    found = []
    for seed in range(4):
        sampler = CostAwareSampler("ei", earlier=earlier, n_startup_trials=4, n_candidates=256, cost=None, seed=seed)
        sampler = pickle.loads(pickle.dumps(sampler))
        new = optuna.create_study(sampler=sampler)

        def objective(trial: "optuna.Trial") -> float:
            x, y = trial.suggest_float("x", -5, 5), trial.suggest_float("y", -5, 5)
            return (x - 2.3) ** 2 + (y + 1) ** 2

        new.optimize(objective, n_trials=n)
        found.append(new.best_value)
    return float(np.mean(found))


def test_a_right_study_helps_and_a_wrong_one_is_given_up() -> None:
    assert best_after(6, study(1.0, 40)) < 0.5 * best_after(6)
    assert best_after(16, study(-1.0, 40)) < 0.5


def test_what_cannot_be_learned_from_is_refused() -> None:
    with pytest.raises(BadInput, match="acq=informed brings components that learn from this benchmark's problems"):
        CostAwareSampler("informed")
    with pytest.raises(BadInput, match="earlier studies must have one value each"):
        CostAwareSampler("ei", earlier=[optuna.create_study(directions=["minimize", "minimize"])])

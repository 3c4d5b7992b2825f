import time

import numpy as np
import pytest
import xgboost as xgb
from fakes import prepared
from sklearn.metrics import log_loss

from harness.problem import FAILED, OK, OUT_OF_MEMORY, PREFIX_GRID, TIMEOUT
from harness.space import XGBOOST_SPACE
from harness.training import make_model, train

X = np.array([40, 0.3, 0.01, 0.01, 1.0, 0.7, 5.0])
TASKS = ("regression", "binary", "multiclass")


def data_of(task: str):
    return prepared(task, classes=2 if task == "binary" else 4)


@pytest.mark.parametrize(("task", "tree_method"), [("regression", "hist"), ("multiclass", "exact")])
def test_a_prefix_equals_a_training_of_its_own(task: str, tree_method: str) -> None:
    """The prefix property: the first r rounds of a long training predict exactly what r rounds do."""
    data = data_of(task)
    long = make_model(data, X, tree_method).fit(data.X_train, data.y_train)
    whole = train(data, X, tree_method=tree_method)
    for r in (1, 3, 24):
        x = X.copy()
        x[0] = r
        short = make_model(data, x, tree_method).fit(data.X_train, data.y_train)
        kwargs = {"iteration_range": (0, r), "output_margin": True}
        assert np.array_equal(short.predict(data.X_valid, output_margin=True), long.predict(data.X_valid, **kwargs))
        alone = train(data, x, (), tree_method)
        at = list(whole.rounds).index(r)
        for name in ("val_error", "test_error", "val_loss", "test_loss"):
            assert getattr(whole, name)[at] == getattr(alone, name)[-1]


@pytest.mark.parametrize("task", TASKS)
def test_errors_and_losses_are_scikit_learns(task: str) -> None:
    data = data_of(task)
    model = make_model(data, X, "exact").fit(data.X_train, data.y_train)
    result = train(data, X)
    assert result.status == OK
    assert result.rounds.tolist() == [*(r for r in PREFIX_GRID if r < 40), 40]
    for features, y, error, loss in (
        (data.X_valid, data.y_valid, result.val_error[-1], result.val_loss[-1]),
        (data.X_test, data.y_test, result.test_error[-1], result.test_loss[-1]),
    ):
        if task == "regression":
            assert error == loss == pytest.approx(np.sqrt(np.mean((model.predict(features) - y) ** 2)), rel=1e-6)
        else:
            assert error == pytest.approx(1 - model.score(features, y), abs=1e-12)
            p = model.predict_proba(features).astype(np.float64)
            assert loss == pytest.approx(log_loss(y, p / p.sum(axis=1, keepdims=True)), rel=1e-5)


def test_costs_are_cumulative_cpu_time_of_one_thread() -> None:
    data = prepared(n=2000, d=20)
    before = time.process_time()
    result = train(data, np.array([60, 0.1, 0.0, 0.01, 1.0, 1.0, 8.0]))
    everything = time.process_time() - before
    assert (np.diff(result.cpu_s) > 0).all()
    assert (np.diff(result.wall_s) > 0).all()
    assert 0 < result.cpu_s[0] < result.cpu_s[-1] <= result.spent_cpu_s
    # what this thread spent is what the process spent: nothing trains in other threads, unmeasured
    assert 0.5 * everything < result.spent_cpu_s <= everything + 0.01


def test_a_training_past_its_limit_keeps_what_it_finished() -> None:
    data = prepared(n=2000, d=20)
    x = np.array([60, 0.1, 0.0, 0.01, 1.0, 1.0, 10.0])
    result = train(data, x, time_limit_s=0.05)
    assert result.status == TIMEOUT
    assert "of 60 rounds, limit 0.05 s" in result.note
    assert 0 < result.rounds[-1] < 60
    whole = train(data, x)
    assert np.array_equal(result.val_error, whole.val_error[: len(result.rounds)])


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (MemoryError(), OUT_OF_MEMORY),
        (xgb.core.XGBoostError("std::bad_alloc"), OUT_OF_MEMORY),
        (xgb.core.XGBoostError("Check failed: something"), FAILED),
    ],
)
def test_failures_become_a_status(monkeypatch: pytest.MonkeyPatch, error: Exception, status: str) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr(xgb.XGBRegressor, "fit", fail)
    result = train(prepared(), X)
    assert result.status == status
    assert len(result.rounds) == 0
    assert result.spent_cpu_s > 0


def test_the_estimator_gets_every_hyperparameter() -> None:
    params = make_model(prepared(), X, "exact").get_params()
    assert {name: params[name] for name in XGBOOST_SPACE.names} == dict(zip(XGBOOST_SPACE.names, X, strict=True))
    assert (params["tree_method"], params["n_jobs"], params["random_state"]) == ("exact", 1, 0)
    with pytest.raises(ValueError, match="tree_method must be one of exact, hist, approx"):
        make_model(prepared(), X, "gpu_hist")

"""The portfolio and the prior mean, which learn from other data sets' tables alone."""

from pathlib import Path

import numpy as np
import pytest
from fakes import journal_line, make_tables
from hydra.utils import instantiate
from sklearn.tree import DecisionTreeRegressor

from harness.errors import BadInput
from harness.streams import stream
from tabular_cache.portfolio import Portfolio, greedy
from tabular_cache.replay import ReplayProblem
from tabular_cache.store import Store
from tabular_cache.table import load_table
from tabular_cache.transfer import LOG_REGRET, TransferPrior, described, log_regret, other_tables, training_rows


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tables(tmp_path_factory.mktemp("tables"), ["a/p", "b/p", "b/q", "c/p"], 8)


def opened(tables: Path, problem: str = "a/p") -> ReplayProblem:
    return ReplayProblem(load_table(problem, tables), 0, 5000)


def test_each_next_configuration_is_the_one_that_adds_most_per_cost() -> None:
    rng = stream(0, "portfolio")
    regret, cost = 3 * rng.random((6, 40)), 0.1 + rng.random((6, 40))
    for alpha in (0.0, 0.7):
        chosen: list[int] = []
        for _ in range(5):

            def lowest(rows: list[int]) -> np.ndarray:
                return np.min([np.full(6, 3.0), *(regret[:, i] for i in rows)], axis=0)

            gains = [(lowest(chosen) - lowest([*chosen, i])).mean() / cost[:, i].mean() ** alpha for i in range(40)]
            chosen.append(int(np.argmax(gains)))
        assert greedy(regret, cost, alpha, 5).tolist() == chosen
    assert len(greedy(np.zeros((2, 3)), np.ones((2, 3)), 1.0, 3)) == 1  # the others add nothing


def test_regret_is_of_the_errors_of_one_table() -> None:
    error = np.array([2.0, 4.0, 3.0, 1000.0, 1.0])
    np.testing.assert_allclose(np.exp(log_regret(error)) - 0.01, [0.5, 1.5, 1.0, 10.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(log_regret(7 * error), log_regret(error))
    assert np.isfinite(log_regret(np.ones(4))).all()


def test_a_run_begins_with_rows_of_its_own_table(tables: Path) -> None:
    problem = opened(tables)
    points = Portfolio(tables=str(tables)).points(problem, 4)
    offered = problem.nearest(points)
    np.testing.assert_array_equal(offered.unit, points)
    twice = problem.nearest(np.repeat(points[:1], 3, axis=0))
    assert len(set(twice.ids.tolist())) == 3
    np.testing.assert_array_equal(twice.unit[0], points[0])


def test_nothing_is_learned_from_the_data_set_itself(tables: Path, tmp_path: Path) -> None:
    assert list(other_tables(described(opened(tables)), tables, related=False)) == ["b/p", "b/q", "c/p"]
    few = make_tables(tmp_path / "few", ["a/p", "b/p", "b/q"], 8)
    for make in (
        lambda folder: Portfolio(tables=str(folder)),
        lambda folder: TransferPrior(DecisionTreeRegressor(), meta="task", tables=str(folder)),
    ):
        assert make(tables).fingerprint(opened(tables)) != make(tables).fingerprint(opened(tables, "b/p"))
        with pytest.raises(BadInput, match="two data sets other than a"):
            make(few).fingerprint(opened(tables))


def test_a_failed_row_changes_nothing(tmp_path: Path) -> None:
    """The other table is the same without it: a row that was cut short counts as not measured."""

    def written(status: str) -> Path:
        store = Store(tmp_path / status)
        with store.locked():
            for number, problem in enumerate(("a/p", "b/p", "c/p")):
                for config in range(8):
                    wrong = (problem, config) == ("b/p", 5)
                    store.append(problem, journal_line(config, problem, status if wrong else "ok", number))
                store.pack(problem)
        return store.folder

    points, rows = [], []
    for folder, more in ((written("failed"), 1), (written("timeout"), 0)):
        table = load_table("b/p", folder)
        assert np.isnan(table["val_error"][table.measured]).sum() == more
        points.append(Portfolio(tables=str(folder)).points(opened(folder), 6))
        rows.append(training_rows("b/p", table.meta["sha256"], folder, 60, 0, LOG_REGRET))
    np.testing.assert_array_equal(*points)
    np.testing.assert_array_equal(*rows)
    assert np.isfinite(rows[0]).all()


def test_a_prior_expects_what_the_others_had(tables: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COST_AWARE_BO_CACHE", str(tmp_path))
    prior = TransferPrior(DecisionTreeRegressor(random_state=0), meta=None, rows=1000, tables=str(tables))
    problem = opened(tables)
    with pytest.raises(ValueError, match="before start"):
        prior.predict(problem.candidates(0).unit)
    prior.start(problem)
    other = load_table("c/p", tables)
    rows = np.flatnonzero(other.measured)
    found = [np.exp(log_regret(load_table(p, tables)["val_error"][rows].astype(float))) for p in ("b/p", "b/q", "c/p")]
    logs = np.log(found).mean(axis=0)  # a tree that is grown out returns the mean of rows that are equal
    np.testing.assert_allclose(prior.predict(other.unit[rows]), np.exp(logs), rtol=1e-6)
    assert instantiate({"_target_": "tabular_cache.portfolio.Portfolio"})

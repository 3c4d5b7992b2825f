"""Transferred cost models: whose tables they learn from, how sure they are, and what is kept in the cache."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Unasked, journal_line
from hydra.utils import instantiate
from omegaconf import OmegaConf
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

from datasets.errors import BadInput
from harness.config import CONFIGS
from harness.cost_models import known_beforehand
from harness.cost_models.linear import Hybrid
from harness.problem import About
from harness.space import XGBOOST_SPACE as SPACE
from harness.streams import stream
from tabular_cache import transfer
from tabular_cache.replay import Replay
from tabular_cache.store import Store
from tabular_cache.table import load_table
from tabular_cache.transfer import Transfer, predictions_of, related_datasets

C = SPACE.snap(SPACE.sobol(64, 5))
SIZES = {  # task, rows, columns, classes; the cost is proportional to rows x columns x trees per round
    "a/p": ("binary", 1000, 10, 2), "a/q": ("binary", 1000, 20, 2), "b/p": ("regression", 500, 4, 0),
    "b/q": ("regression", 500, 9, 0), "c/p": ("multiclass", 2000, 6, 5), "d/p": ("regression", 3000, 30, 0),
    "d/r": ("regression", 3000, 60, 0), "e/p": ("binary", 700, 50, 2),
}  # fmt: skip
FILES = sorted(p.stem for p in (CONFIGS / "cost_model").glob("*.yaml") if "Transfer" in p.read_text())


def write_tables(folder: Path, factors: dict[str, float] | None = None, sizes: dict[str, Any] = SIZES) -> Path:
    """Tables of the problems in SIZES; a problem's costs times its factor."""
    store = Store(folder)
    with store.locked():
        for number, (problem, (task, rows, columns, classes)) in enumerate(sizes.items()):
            work = 1e-4 * rows * columns * max(1, classes if classes > 2 else 1) * (factors or {}).get(problem, 1.0)
            for config in range(12):
                line = journal_line(config, problem, seed=number)
                for name in ("cpu_s", "wall_s", "scaled_s"):
                    line[name] = [work * value for value in line[name]]
                line["problem"] |= {"task": task, "n_classes": classes, "n_train": rows, "width_after": columns}
                store.append(problem, line)
            store.pack(problem)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tables(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def dearer(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same with other costs of the data set a, and with other costs of another data set."""
    mine, other = tmp_path_factory.mktemp("mine"), tmp_path_factory.mktemp("other")
    return write_tables(mine, {"a/p": 3.0, "a/q": 0.2}), write_tables(other, {"e/p": 3.0})


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COST_AWARE_BO_CACHE", str(tmp_path / "cache"))
    transfer.train_transfer.cache_clear()
    transfer.training_rows.cache_clear()
    return tmp_path / "cache" / "transfer"


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The digests of what was trained, in order."""
    done: list[str] = []
    train = transfer._train

    def counted(training_set: Any) -> Any:
        done.append(training_set.digest)
        return train(training_set)

    monkeypatch.setattr(transfer, "_train", counted)
    return done


def opened(problem: str, folder: Path) -> Any:
    dataset, _, pipeline = problem.partition("/")
    return Replay(str(folder)).open({"name": dataset}, {"name": pipeline}, seed=0)


def started(folder: Path, problem: Any = "a/p", regressor: Any = None, **settings: Any) -> Transfer:
    model = Transfer(regressor or LinearRegression(), **{"tables": str(folder), "rows": 40, **settings})
    model.start(opened(problem, folder) if isinstance(problem, str) else problem)
    return model


class Silent(Unasked):
    """A problem that says nothing of itself."""

    name, space = "mine/p", SPACE


class Described(Silent):
    def __init__(self, about: About) -> None:
        self.about = about


def from_yaml(name: str, folder: Path) -> Any:
    config = OmegaConf.load(CONFIGS / "cost_model" / f"{name}.yaml")
    (config if "tables" in config else config.prior).tables = str(folder)
    return instantiate(config)


def test_log_cost_linear_in_its_inputs_is_found_on_a_data_set_never_seen(folder: Path) -> None:
    model = started(folder, regressor=DecisionTreeRegressor(), meta="work")
    assert model.trained_on == 6 * 40
    table = load_table("a/p", folder)
    cost = np.log(table["scaled_s"])
    for meta, worst in (("work", 0.35), ("sizes", 0.6), (None, 5.0)):
        mean, sd = started(folder, meta=meta).predict(table.unit)
        rmse = np.sqrt(np.mean(np.square(mean - cost)))
        assert rmse < worst
        assert np.unique(sd).size == 1 and 0.2 * rmse < sd[0] < 5 * rmse


def test_it_is_least_squares_on_the_rows_of_the_other_data_sets(folder: Path) -> None:
    A, y = [], []
    for problem in ("b/p", "b/q", "c/p", "d/p", "d/r", "e/p"):
        table = load_table(problem, folder)
        rows = stream(0, "transfer", problem).permutation(np.flatnonzero(table.measured))[:40]
        native, (_, n, width, classes) = table.native[rows], SIZES[problem]
        logs = np.log(native[:, [0, 1, 3, 4, 5, 6]])
        meta = [[np.log(n), np.log(width), np.log(max(classes - (classes == 2), 1))]] * 40
        A.append(np.column_stack([np.ones(40), native[:, 2], logs, meta]))
        y.append(np.log(table["scaled_s"][rows]))
    weights = np.linalg.lstsq(np.concatenate(A), np.concatenate(y), rcond=None)[0]
    native = SPACE.from_unit(C)
    rest = np.column_stack([np.ones(64), native[:, 2], np.log(native[:, [0, 1, 3, 4, 5, 6]])])
    expected = rest @ weights[:8] + np.array([np.log(1000), np.log(10), 0.0]) @ weights[8:]
    np.testing.assert_allclose(started(folder).predict(C)[0], expected, atol=1e-5)  # native values are float32


@pytest.mark.parametrize("name", FILES)
def test_the_whole_data_set_is_left_out(name: str, folder: Path, dearer: tuple[Path, Path], cache: Path) -> None:
    def predictions(tables: Path) -> np.ndarray:
        model = from_yaml(name, tables)
        model.start(opened("a/p", tables))
        return np.concatenate(model.predict(C))

    mine, other = dearer
    base = predictions(folder)
    for file in cache.iterdir():
        file.unlink()
    transfer.train_transfer.cache_clear()
    assert np.array_equal(predictions(mine), base)
    assert not np.allclose(predictions(other), base)


def test_a_data_set_of_the_same_raw_file_is_left_out_too(tmp_path: Path) -> None:
    assert related_datasets("satimage_code") == related_datasets("satellite") == {"satellite", "satimage_code"}
    assert related_datasets("a1a") == related_datasets("a3a") == {"a1a", "a3a"}  # one holds every row of the other
    assert related_datasets("wine") == {"wine"} and related_datasets("mine") == {"mine"}
    sizes = {problem.replace("a/", "satellite/").replace("d/", "satimage_code/"): v for problem, v in SIZES.items()}
    tables = write_tables(tmp_path, sizes=sizes)
    used = Transfer(LinearRegression(), tables=str(tables)).training_set(opened("satellite/p", tables).about).sources
    assert {problem.partition("/")[0] for problem in used} == {"b", "c", "e"}


def test_related_problems_are_of_the_same_kind_and_pipeline_where_there_are_two_such_data_sets(folder: Path) -> None:
    def used(about: About, related: bool = True) -> set[str]:
        return set(Transfer(LinearRegression(), related=related, tables=str(folder)).training_set(about).sources)

    mine = About("mine", "p", "multiclass", 100, 5, 3)
    assert used(mine, related=False) == set(SIZES)
    assert used(mine) == {"a/p", "c/p", "e/p"}
    assert used(replace(mine, pipeline="own")) == {"a/p", "a/q", "c/p", "e/p"}
    assert used(replace(mine, pipeline="q")) == {"a/p", "a/q", "c/p", "e/p"}  # one data set behind q is too few
    assert used(replace(mine, task="regression", classes=0)) == {"b/p", "d/p"}
    assert used(replace(mine, dataset="e")) == {"a/p", "c/p"}


def test_trained_once_for_all_problems_of_a_data_set_then_kept(
    folder: Path, cache: Path, trained: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = started(folder).predict(C)
    started(folder, "a/q")
    assert len(trained) == 1
    transfer.train_transfer.cache_clear()
    assert np.array_equal(started(folder).predict(C), first)
    assert len(trained) == 1
    for settings in ({"seed": 1}, {"rows": 41}, {"meta": "work"}, {"related": True}, {"problem": "b/p"}):
        started(folder, **settings)
    started(folder, regressor=LinearRegression(positive=True))
    monkeypatch.setattr(transfer.clone.__globals__["np"], "__version__", "0")
    started(folder)
    assert len(set(trained)) == len(trained) == 8
    assert sum(path.suffix == ".skops" for path in cache.iterdir()) == 8
    assert not list(cache.glob("*.tmp"))


def test_the_sd_is_that_of_the_error_on_a_new_data_set(tmp_path: Path) -> None:
    levels = stream(0, "levels").normal(size=14)
    sizes = {f"s{i}/p": ("binary", 100, 5, 2) for i in range(14)}
    tables = write_tables(tmp_path, {f"s{i}/p": float(np.exp(level)) for i, level in enumerate(levels)}, sizes)
    errors, sds = [], []
    for problem in sizes:
        table = load_table(problem, tables)
        mean, sd = started(tables, problem, meta=None, rows=20).predict(table.unit)
        errors.append(np.sqrt(np.mean(np.square(np.log(table["scaled_s"]) - mean))))
        sds.append(sd[0])
    assert 0.75 < np.mean(sds) / np.sqrt(np.mean(np.square(errors))) < 1.33
    assert np.mean(sds) > 0.8 * levels.std()  # data sets, not rows, are what it is unsure of


def test_every_problem_weighs_the_same_however_many_rows_it_has(folder: Path) -> None:
    table = load_table("a/p", folder)
    n = int(table.measured.sum())
    rows = transfer.training_rows("a/p", table.meta["sha256"], folder, n + 7, 0)
    assert rows.shape == (n + 7, 8)
    assert np.array_equal(rows[n:], rows[:7])
    order = np.lexsort(rows[:n].T)
    truth = np.column_stack([table.unit, np.log(table["scaled_s"])])[table.measured]
    assert np.array_equal(rows[:n][order], truth[np.lexsort(truth.T)])


def test_what_was_asked_before_is_remembered_and_not_mixed_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edge = C.copy()
    edge[:, 6] = 0.0
    edge[:8] = 0.0
    once = started(folder, regressor=KNeighborsRegressor(3, p=1)).predict(edge)[0]
    predictions_of.cache_clear()  # which runs share
    model, asked = started(folder, regressor=KNeighborsRegressor(3, p=1)), []
    predict = model._trained.model.predict
    monkeypatch.setattr(model._trained.model, "predict", lambda X: asked.append(len(X)) or predict(X))
    for part in (edge[:30], edge[20:], edge[::-1], edge[:0]):
        mean, sd = model.predict(part)
        assert mean.shape == sd.shape == (len(part),)
    assert asked == [30, 34]
    assert np.array_equal(model.predict(edge)[0], once)
    monkeypatch.setattr("tabular_cache.transfer._MOST_REMEMBERED", 70)
    model.predict(C)
    new = len({x.tobytes() for x in C} - {x.tobytes() for x in edge})
    assert asked == [30, 34, new] and new > 50 and model._predictions._n <= 70


def test_wrong_settings_and_problems_that_cannot_be_served_get_one_line(folder: Path, tmp_path: Path) -> None:
    model = Transfer(LinearRegression(), tables=str(folder))
    with pytest.raises(ValueError, match="before start"):
        model.predict(C)
    with pytest.raises(BadInput, match=r"needs a problem that says what it is \(`about`\).*; mine/p does not"):
        model.start(Silent())
    for bad in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(BadInput, match=f"costs must be finite and positive, got {bad} in row 2"):
            model.fit(C[:3], np.array([1.0, 1.0, bad]))
    with pytest.raises(BadInput, match=r"mine/p: rows and columns must be >= 1, got About\(.*rows=100, columns=0"):
        started(folder, Described(About("mine", "p", "binary", 100, 0, 2))).predict(C)
    few = write_tables(tmp_path / "few", sizes={name: SIZES[name] for name in ("a/p", "b/p", "c/p")})
    with pytest.raises(BadInput, match=r"tables of two classification data sets other than a; .*few has 1$"):
        started(few, related=True)
    assert started(few).trained_on == 80
    with pytest.raises(BadInput, match="no tables in"):
        started(tmp_path / "nowhere", opened("a/p", folder))
    for settings, line in (
        ({"regressor": 3}, "regressor must be a scikit-learn style regressor, got 3"),
        ({"meta": "rows"}, "meta must be sizes, work, task or null, got 'rows'"),
        ({"rows": 0}, "rows must be a whole number >= 1, got 0"),
        ({"seed": -1}, "seed must be a whole number >= 0, got -1"),
    ):
        with pytest.raises(BadInput, match=line):
            Transfer(**{"regressor": LinearRegression(), **settings})


@pytest.mark.parametrize("bad", [np.nan, 0.0, -2.0])
def test_a_table_with_an_impossible_cost_is_an_error(bad: float, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = load_table("b/q", folder)
    cost = table["scaled_s"].copy()
    cost[3] = bad
    broken = replace(table, columns={**table.columns, "scaled_s": cost})
    monkeypatch.setattr("tabular_cache.table.load_table", lambda p, f: broken if p == "b/q" else load_table(p, f))
    transfer.training_rows.cache_clear()
    with pytest.raises(BadInput, match=f"the table of b/q: costs must be finite and positive, got {bad} in row 3"):
        started(folder)


def test_the_fingerprint_covers_the_tables_learned_from_and_no_others(folder: Path, tmp_path: Path) -> None:
    def found(where: Path, problem: str) -> list[str]:
        model = Transfer(LinearRegression(), tables=str(where), rows=40)
        return [known_beforehand(m, opened(problem, where)) or "" for m in (model, Hybrid(model))]

    before = found(folder, "a/p")
    assert before[0] == before[1] and len(before[0]) == 64
    own, other = (write_tables(tmp_path / name[0], {name: 3.0}) for name in ("a/p", "b/q"))
    assert found(own, "a/p") == before
    assert found(other, "a/p") != before
    assert found(folder, "b/q") != before

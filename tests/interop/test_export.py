"""Tables exported for other tools, read back by those tools' own layouts, against the tables."""

import inspect
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml

from harness.space import XGBOOST_SPACE
from tabular_cache.export import PACKAGES, to_hpob, to_optunahub, to_synetune
from tabular_cache.replay import ReplayProblem
from tabular_cache.table import TABLES, read_table

PROBLEMS = [("abalone", "clean"), ("wind", "onehot")]
NAMES = ["abalone/clean", "wind/onehot"]


def test_hpob_as_its_handler_reads_it(tmp_path: Path) -> None:
    """X, y and first rows by space, problem and seed; y is maximised."""
    paths = to_hpob(PROBLEMS, TABLES, tmp_path / "new")
    data, begin = (json.loads(path.read_text()) for path in paths)
    (space,) = data
    for name in NAMES:
        X, y, cost = (np.array(data[space][name][key]) for key in ("X", "y", "cost"))
        table = read_table(name, TABLES)
        assert X.shape == (len(y), 7) and y.shape == cost.shape == (len(X), 1)
        assert ((X >= 0) & (X <= 1)).all() and np.isfinite(y).all() and (cost > 0).all()
        assert y.max() == -np.nanmin(table["val_error"][table.measured])
        for seed in (0, 4):
            ids = ReplayProblem(table, seed, 5).initial(5).ids
            assert np.array_equal(X[begin[space][name][f"test{seed}"]], table.unit[ids])


def test_synetune_as_its_deserialize_reads_it(tmp_path: Path) -> None:
    to_synetune(PROBLEMS, TABLES, tmp_path)
    metadata = json.loads((tmp_path / "metadata.json").read_text())
    frame = pd.read_parquet(tmp_path / "hyperparameters.parquet")
    values = np.load(tmp_path / "objectives_evaluations.npy")
    assert values.shape == (2, len(frame), 1, 1, 4) and values.dtype == np.float32
    assert metadata["task_names"] == NAMES and np.load(tmp_path / "fidelities_values.npy").tolist() == [1]
    for task, name in enumerate(NAMES):
        table = read_table(name, TABLES)
        rows = np.flatnonzero(table["own"] & table.measured)[[0, 10, -1]]
        for row in rows:
            config = table["config"][row]
            assert np.array_equal(frame.iloc[config].to_numpy(float), table.native[row])
            cost = values[task, config, 0, 0, metadata["objectives_names"].index("metric_elapsed_time")]
            assert np.isnan(table["val_error"][row]) or cost == np.float32(table["scaled_s"][row])
    space = json.loads((tmp_path / "configspace.json").read_text())
    assert list(space) == list(XGBOOST_SPACE.names)
    assert space["n_estimators"]["domain_cls"] == "Integer" and space["n_estimators"]["sampler_cls"] == "LogUniform"
    assert space["gamma"] == {"domain_cls": "Float", "domain_kwargs": {"lower": 0.0, "upper": 0.1},
                              "sampler_cls": "Uniform", "sampler_kwargs": {}}  # fmt: skip
    encodings = pq.ParquetFile(tmp_path / "hyperparameters.parquet").metadata.row_group(0)
    used = {e for j in range(7) for e in encodings.column(j).encodings}
    assert used <= {"PLAIN", "RLE"}  # RLE: of the levels


def test_optunahub_loads_both_packages(tmp_path: Path) -> None:
    optuna, optunahub = pytest.importorskip("optuna"), pytest.importorskip("optunahub")
    to_optunahub(PROBLEMS, TABLES, tmp_path)
    module = optunahub.load_local_module("benchmarks/cost_aware_xgboost", registry_root=str(tmp_path))
    assert module.problems() == PROBLEMS
    with pytest.raises(ValueError, match="no table of wind/clean; there are: abalone/clean, wind/onehot"):
        module.Problem("wind", "clean")
    problem, table = module.Problem("wind", "onehot"), read_table("wind/onehot", TABLES)
    sampler = optunahub.load_local_module("samplers/cost_aware_bo", registry_root=str(tmp_path)).CostAwareSampler
    study = optuna.create_study(directions=problem.directions, sampler=sampler("cei", lam=0.1, seed=0))
    study.optimize(problem, n_trials=8)
    rows = np.flatnonzero(table.measured & np.isfinite(table["val_error"]))
    assert np.isclose(problem.best, table["val_error"][rows].min(), rtol=1e-6)
    for trial in study.trials:
        asked = XGBOOST_SPACE.to_unit(np.array([[trial.params[name] for name in XGBOOST_SPACE.names]]))
        row = rows[np.square(table.unit[rows] - asked).sum(axis=1).argmin()]
        expected = [table[name][row] for name in ("val_error", "scaled_s", "test_error")]
        assert np.allclose([trial.value, trial.user_attrs["cost"], trial.user_attrs["test_error"]], expected, 1e-6)


def test_the_samplers_page_has_its_signature() -> None:
    sampler = pytest.importorskip("harness.interop.sampler", reason="needs the extra `optuna`").CostAwareSampler
    page = (PACKAGES / "samplers" / "cost_aware_bo" / "README.md").read_text()
    (shown,) = re.findall(r"`CostAwareSampler\((.*?)\)`", page, re.DOTALL)
    parameters = inspect.signature(sampler).parameters.values()
    expected = [f"{p.name}={p.default!r}".replace("'", '"') for p in parameters]
    assert [part for part in re.split(r",\s+", shown) if part != "*"] == expected


def test_optunahub_pages_have_the_registrys_front_matter(tmp_path: Path) -> None:
    to_optunahub([], TABLES, tmp_path)
    pages = [path.relative_to(tmp_path) for path in tmp_path.rglob("README.md")]
    assert len(pages) == 2 and {path.parent for path in pages} == {
        path.relative_to(PACKAGES) for path in PACKAGES.glob("*/*")
    }
    for page in pages:
        _, front, text = (tmp_path / page).read_text().split("---\n", 2)
        told = yaml.safe_load(front)
        assert set(told) == {"author", "title", "description", "tags", "optuna_versions", "license"}
        assert told["license"] == "MIT License" and page.parts[0].rstrip("s") in told["tags"]
        headings = [line for line in text.splitlines() if line.startswith("## ")]
        assert headings == ["## Abstract", "## APIs", "## Installation", "## Example", "## Others"]
        assert (tmp_path / page.parent / "LICENSE").is_file()

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pipeline_frames import dataset_of, mixed_frame, targets
from scipy import sparse

from datasets.catalogue import Dataset
from datasets.errors import BadInput
from datasets.loading import split
from pipelines import names, prepare, prepared
from pipelines.prepared import Prepared

ROOT = Path(__file__).resolve().parents[2]
FRAME = mixed_frame(600)
REAL = dataset_of(FRAME, targets(FRAME))
CODES = dataset_of(FRAME, np.random.default_rng(0).integers(0, 3, 600), "multiclass")
HUGE = FRAME[["normal"]] * 1e300
INDICATORS = pd.DataFrame({f"x{j}": np.random.default_rng(j).normal(size=600) for j in range(3)})


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COST_AWARE_BO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "prepared"


@cache
def of_real(name: str) -> Prepared:
    return prepare(REAL, name, cache=False)


@pytest.mark.parametrize(("data", "name"), [*((REAL, name) for name in names()), (CODES, "quadratic")])
def test_what_is_prepared_is_what_the_record_says(data: Dataset, name: str) -> None:
    p = of_real(name) if data is REAL else prepare(data, name, cache=False)
    rows = split(data)
    for X, y, part in [
        (p.X_train, p.y_train, rows.train),
        (p.X_valid, p.y_valid, rows.valid),
        (p.X_test, p.y_test, rows.test),
    ]:
        assert X.shape == (len(part), p.width_after)
        assert X.dtype == np.float32
        np.testing.assert_array_equal(y, data.y[part])
    assert (p.dataset, p.pipeline, p.task, p.mark) == ("synthetic", name, data.task, "")
    assert p.n_classes == len(data.classes)
    assert p.y_train.dtype == (np.float64 if data.task == "regression" else np.int64)
    assert p.width_before == FRAME.shape[1]
    assert p.fit_seconds > 0
    assert "empty: all missing" in p.dropped


def test_thin_indicators_are_sparse_and_values_dense() -> None:
    data = dataset_of(INDICATORS, targets(FRAME))
    assert sparse.issparse(prepare(data, "onehot", cache=False).X_train)
    assert isinstance(prepare(data, "clean", cache=False).X_train, np.ndarray)


def test_mostly_empty_indicator_columns_are_sparse_but_real_zeros_stay_stored() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame((rng.random((600, 30)) < 0.05).astype(float)).add_prefix("flag")
    frame["real"] = rng.integers(-1, 2, 600).astype(float)
    p = prepare(dataset_of(frame, targets(FRAME)), "clean", cache=False)
    assert sparse.issparse(p.X_train)
    for X in map(sparse.csr_matrix, (p.X_train, p.X_valid, p.X_test)):
        assert np.diff(X.tocsc().indptr)[-1] == X.shape[0]  # every entry of `real`, zeros too
        assert X.nnz == np.count_nonzero(X.toarray()[:, :-1]) + X.shape[0]


@pytest.mark.parametrize("name", names())
def test_validation_and_test_rows_change_nothing_in_the_fit(name: str) -> None:
    """Whatever rows lie outside the training part, the training matrix keeps its bytes: so does the fit."""
    train = split(REAL).train
    other = FRAME.copy()
    outside = np.setdiff1d(np.arange(len(FRAME)), train)
    for column in ("normal", "heavy", "gaps", "few"):
        other.loc[outside, column] = 1e5 * (1 + np.arange(len(outside)))
    other.loc[outside, "empty"] = 1.0
    other.loc[outside, "level"] = "elsewhere"
    other.loc[outside, "text"] = "other words than these"
    y = REAL.y.copy()
    y[outside] = 1e6
    a = of_real(name)
    b = prepare(dataset_of(other, y), name, cache=False)
    assert prepared.content_hash([a.X_train, a.y_train]) == prepared.content_hash([b.X_train, b.y_train])
    assert a.dropped == b.dropped
    assert a.data_hash != b.data_hash


def test_another_split_seed_gives_other_rows() -> None:
    assert prepare(REAL, "clean", 0, False).data_hash != prepare(REAL, "clean", 1, False).data_hash


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("no_such_set", "clean"), "unknown data set 'no_such_set'; known are: "),
        (("abalone", "no_such_pipeline"), "unknown pipeline 'no_such_pipeline'; known are: clean"),
        (("abalone", "no_such.module"), "No module named 'no_such'"),
        (("abalone", "clean", -1), "split_seed must be an integer of 0 or more, got -1"),
        (("abalone", "clean", True), "split_seed must be an integer"),
        ((dataset_of(FRAME, REAL.y, sha=""), "clean"), "'synthetic' has no SHA-256 to cache it by"),
        ((dataset_of(FRAME[["constant"]], REAL.y), "clean"), "synthetic/clean: no usable column"),
        ((dataset_of(HUGE, REAL.y), "clean"), "no usable column in 360 training rows: normal: all missing"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_clear_line(arguments: tuple, message: str) -> None:
    with pytest.raises(BadInput, match=message) as caught:
        prepare(*arguments)
    assert "\n" not in str(caught.value)


def test_values_beyond_float32_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "unscaled_recipe").mkdir()
    (tmp_path / "unscaled_recipe" / "__init__.py").write_text("")
    (tmp_path / "unscaled_recipe" / "as_is.py").write_text(
        "from sklearn.pipeline import Pipeline\n"
        "from sklearn.preprocessing import FunctionTransformer\n"
        "def build():\n"
        "    return Pipeline([('as_is', FunctionTransformer(lambda X: X.to_numpy()))])\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    fine = dataset_of(FRAME[["normal", "scaled"]], REAL.y)
    assert prepare(fine, "unscaled_recipe.as_is").width_after == 2
    with pytest.raises(BadInput, match=r"synthetic/unscaled_recipe.as_is: .* beyond float32's range"):
        prepare(dataset_of(FRAME[["normal"]] * 1e200, REAL.y, sha="b" * 64), "unscaled_recipe.as_is")


STEP = """
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline


class Step(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.n_ = {fit}
        return self

    def transform(self, X):
        return {transform}


def build():
    return Pipeline([("step", Step())])
"""


@pytest.mark.parametrize(
    ("fit", "transform", "told"),
    [
        ("[][3]", "X", r"IndexError: list index out of range at own_steps/recipe.py:8$"),
        ("1", "X.to_numpy()[:, 99]", r"IndexError: index 99 is out of bounds for axis 1 .* at own_steps/recipe.py:12$"),
        ("1", "X", "the pipeline must give an array or a sparse matrix, got DataFrame$"),
        ("1", "X['normal'].to_numpy()", r"the pipeline must give 360 rows of numbers, got float64 of shape \(360,\)$"),
        ("1", "X.to_numpy()[1:]", r"the pipeline must give 360 rows of numbers, got float64 of shape \(359, 2\)$"),
    ],
)
def test_an_error_of_a_step_is_one_line_with_its_place(
    fit: str, transform: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_steps").mkdir()
    (tmp_path / "own_steps" / "recipe.py").write_text(STEP.format(fit=fit, transform=transform))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    for module in ("own_steps", "own_steps.recipe"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(BadInput, match=rf"^synthetic/own_steps\.recipe: {told}") as caught:
        prepare(dataset_of(FRAME[["normal", "scaled"]], REAL.y), "own_steps.recipe", cache=False)
    assert "\n" not in str(caught.value)


SCRIPT = """
from pipeline_frames import dataset_of, mixed_frame, targets
from pipelines import prepare
frame = mixed_frame(600)
for name in ("quantile_pca", "onehot_svd"):
    print(prepare(dataset_of(frame, targets(frame)), name, cache=False).data_hash)
"""


def test_fresh_processes_give_the_same_bits_whatever_threads_they_are_offered() -> None:
    found = []
    for threads in ("1", "2"):
        asked = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), threads)
        path = os.pathsep.join([str(ROOT), str(Path(__file__).parent)])
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env=os.environ | asked | {"PYTHONPATH": path, "PYTHONHASHSEED": threads},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        found.append(done.stdout.split())
    here = [of_real(name).data_hash for name in ("quantile_pca", "onehot_svd")]
    assert found[0] == found[1] == here

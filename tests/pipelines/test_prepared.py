import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pipeline_frames import dataset_of, mixed_frame, targets
from raw_data import ROOT, loaded, needs_data
from scipy import sparse

from datasets import split
from datasets.catalogue import Dataset
from datasets.errors import BadInput
from pipelines import names, prepare, prepared
from pipelines.prepared import Prepared

FRAME = mixed_frame(600)
REAL = dataset_of(FRAME, targets(FRAME))
CODES = dataset_of(FRAME, np.random.default_rng(0).integers(0, 3, 600), "multiclass")
INDICATORS = pd.DataFrame({f"x{j}": np.random.default_rng(j).normal(size=600) for j in range(3)})
SMALL = dataset_of(INDICATORS, REAL.y)


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
        (p.X_train, p.y_train, rows.train), (p.X_valid, p.y_valid, rows.valid), (p.X_test, p.y_test, rows.test)
    ]:  # fmt: skip
        assert (X.shape, X.dtype) == ((len(part), p.width_after), np.float32)
        np.testing.assert_array_equal(y, data.y[part])
    assert (p.dataset, p.pipeline, p.task, p.mark) == ("synthetic", name, data.task, "")
    assert p.n_classes == len(data.classes)
    assert p.y_train.dtype == (np.float64 if data.task == "regression" else np.int64)
    assert p.width_before == FRAME.shape[1]
    assert p.fit_seconds > 0
    assert "empty: all missing" in p.dropped


def test_mostly_empty_indicator_columns_are_sparse_but_real_zeros_stay_stored() -> None:
    assert sparse.issparse(prepare(SMALL, "onehot", cache=False).X_train)
    assert isinstance(prepare(SMALL, "clean", cache=False).X_train, np.ndarray)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame((rng.random((600, 30)) < 0.05).astype(float)).add_prefix("flag")
    frame["real"] = rng.integers(-1, 2, 600).astype(float)
    p = prepare(dataset_of(frame, REAL.y), "clean", cache=False)
    assert sparse.issparse(p.X_train)
    for X in map(sparse.csr_matrix, (p.X_train, p.X_valid, p.X_test)):
        assert np.diff(X.tocsc().indptr)[-1] == X.shape[0]  # every entry of `real`, zeros too
        assert X.nnz == np.count_nonzero(X.toarray()[:, :-1]) + X.shape[0]


@pytest.mark.parametrize("name", names())
def test_validation_and_test_rows_change_nothing_in_the_fit(name: str) -> None:
    """Whatever rows lie outside the training part, the training matrix keeps its bytes: so does the fit."""
    train = split(REAL).train
    other, y = FRAME.copy(), REAL.y.copy()
    outside = np.setdiff1d(np.arange(len(FRAME)), train)
    for column in ("normal", "heavy", "gaps", "few"):
        other.loc[outside, column] = 1e5 * (1 + np.arange(len(outside)))
    other.loc[outside, "empty"] = 1.0
    other.loc[outside, "level"] = "elsewhere"
    other.loc[outside, "text"] = "other words than these"
    y[outside] = 1e6
    a, b = of_real(name), prepare(dataset_of(other, y), name, cache=False)
    assert prepared.content_hash([a.X_train, a.y_train]) == prepared.content_hash([b.X_train, b.y_train])


@pytest.mark.parametrize(("arguments", "message"), [
    (("no_such_set", "clean"), "unknown data set 'no_such_set'; known are: "),
    (("abalone", "no_such_pipeline"), "unknown pipeline 'no_such_pipeline'; known are: clean"),
    (("abalone", "clean", -1), "split_seed must be an integer of 0 or more, got -1"),
    ((dataset_of(FRAME, REAL.y, sha=""), "clean"), "'synthetic' has no SHA-256 to cache it by"),
    ((dataset_of(FRAME[["constant"]], REAL.y), "clean"), "synthetic/clean: no usable column"),
    ((dataset_of(FRAME[["normal"]] * 1e300, REAL.y), "clean"), "in 360 training rows: normal: all missing"),
])  # fmt: skip
def test_wrong_input_is_one_clear_line(arguments: tuple, message: str) -> None:
    with pytest.raises(BadInput, match=message) as caught:
        prepare(*arguments)
    assert "\n" not in str(caught.value)


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


@pytest.mark.parametrize(("fit", "transform", "message"), [
    ("[][3]", "X", r"IndexError: list index out of range at own_steps/recipe.py:8$"),
    ("1", "X.to_numpy()[:, 99]", r"IndexError: index 99 is out of bounds for axis 1 .* at own_steps/recipe.py:12$"),
    ("1", "X", "the pipeline must give an array or a sparse matrix, got DataFrame$"),
    ("1", "X['normal'].to_numpy()", r"the pipeline must give 360 rows of numbers, got float64 of shape \(360,\)$"),
    ("1", "X.to_numpy()[1:]", r"the pipeline must give 360 rows of numbers, got float64 of shape \(359, 2\)$"),
    ("1", "X.to_numpy() * 1e200", "the pipeline gave values beyond float32's range$"),
    ("1", "X.to_numpy()[:, :0]", "the pipeline left no columns$"),
])  # fmt: skip
def test_an_error_of_a_step_is_one_line_with_its_place(
    fit: str, transform: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_steps").mkdir()
    (tmp_path / "own_steps" / "recipe.py").write_text(STEP.format(fit=fit, transform=transform))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    for module in ("own_steps", "own_steps.recipe"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(BadInput, match=rf"^synthetic/own_steps\.recipe: {message}") as caught:
        prepare(dataset_of(FRAME[["normal", "scaled"]], REAL.y), "own_steps.recipe", cache=False)
    assert "\n" not in str(caught.value)


SCRIPT = """
from pipeline_frames import dataset_of, mixed_frame, targets
from pipelines import prepare
frame = mixed_frame(600)
for name in ("quantile_pca", "onehot_svd"):
    print(prepare(dataset_of(frame, targets(frame)), name, cache=False).data_hash)
"""


def test_a_fresh_process_gives_the_same_bits_whatever_threads_it_is_offered() -> None:
    asked = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "2")
    asked |= {"PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(__file__).parent)]), "PYTHONHASHSEED": "2"}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, env=os.environ | asked, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [of_real(name).data_hash for name in ("quantile_pca", "onehot_svd")]


# The cache.


def assert_same(a: Prepared, b: Prepared) -> None:
    assert type(a.X_train) is type(b.X_train)
    assert prepared.content_hash([a.X_train, a.X_valid, a.X_test, a.y_train, a.y_valid, a.y_test]) == b.data_hash
    assert ({k: v for k, v in vars(a).items() if k[:2] not in ("X_", "y_")}
            == {k: v for k, v in vars(b).items() if k[:2] not in ("X_", "y_")})  # fmt: skip


@pytest.mark.parametrize("name", ["clean", "onehot"])
def test_the_cache_gives_back_what_was_put_in_and_a_damaged_file_is_computed_again(
    name: str, own_cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prepare(SMALL, name, cache=False)
    assert not own_cache.exists()
    first = prepare(SMALL, name)
    (path,) = own_cache.iterdir()
    stamp, whole = path.stat().st_mtime_ns, path.read_bytes()
    assert_same(prepare(SMALL, name), first)  # fit_seconds too: those of the first time
    assert path.stat().st_mtime_ns == stamp
    for damaged in (b"", whole[: len(whole) // 2], whole[:3000] + bytes([whole[3000] ^ 1]) + whole[3001:]):
        path.write_bytes(damaged)
        assert prepare(SMALL, name).data_hash == first.data_hash
        assert prepare(SMALL, name).fit_seconds != first.fit_seconds
    assert caplog.text.count("is damaged") == 3


def test_a_failed_write_leaves_nothing_behind_and_costs_only_the_cache(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full_disk(_: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("datasets.files.os.fsync", full_disk)
    assert prepare(SMALL, "clean").data_hash == prepare(SMALL, "clean", cache=False).data_hash
    assert "is not kept in the cache (no space left on device)" in caplog.text
    assert list(own_cache.iterdir()) == []


def test_the_key_covers_all_that_goes_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = ("abalone", "0" * 64, "", "clean", 0)
    others = [("wine", *base[1:]), (base[0], "1" * 64, *base[2:]), (*base[:2], "partial", *base[3:]),
              (*base[:3], "onehot", 0), (*base[:4], 1)]  # fmt: skip
    keys = [prepared.cache_key(*base), *(prepared.cache_key(*other) for other in others)]
    monkeypatch.setattr(prepared, "_versions", lambda: {"numpy": "0"})
    keys.append(prepared.cache_key(*base))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "outside").mkdir()
    for name, text in (("recipe", "A = 1\n"), ("recipe", "A = 2\n"), ("helper", "B = 1\n"), ("helper", "B = 2\n")):
        (tmp_path / f"outside/{name}.py").write_text(text)  # which the recipe may import
        prepared._sources.cache_clear()
        keys.append(prepared.cache_key(*base[:3], "outside.recipe", 0))
    assert len(set(keys)) == 11


@needs_data
def test_by_name_and_by_data_set_are_the_same_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    by_data = prepare(loaded("phoneme"), "pca_small")

    def unread(*_: object) -> None:
        raise AssertionError("a stored problem must not read the raw data")

    monkeypatch.setattr(prepared, "load", unread)
    assert_same(prepare("phoneme", "pca_small"), by_data)

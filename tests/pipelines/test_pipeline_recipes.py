import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import hydra.utils
import numpy as np
import pandas as pd
import pytest
import yaml
from pipeline_frames import mixed_frame, targets
from scipy import sparse
from sklearn.base import clone
from sklearn.feature_selection import f_regression
from sklearn.pipeline import Pipeline

import pipelines
from datasets.errors import BadInput, user_errors
from pipelines import all_names, build, names
from pipelines.compare import same_pairs

ROOT = Path(__file__).resolve().parents[2]
STUDY = (
    "clean", "onehot", "quadratic", "pca_small", "quantile_pca", "log_pca", "clean_plus_pca", "onehot_svd"
)  # fmt: skip
FRAME = mixed_frame()
TARGETS = targets(FRAME)


@cache
def fitted(name: str) -> Pipeline:
    return build(name).fit(FRAME, TARGETS)


def plain(X: np.ndarray | sparse.csr_matrix) -> np.ndarray:
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


def test_the_eight_are_found_in_the_studys_order() -> None:
    assert names() == STUDY
    assert all_names()[:8] == STUDY


def test_a_recipe_without_a_place_is_run_by_name_and_is_no_part_of_the_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "pipelines"
    shutil.copytree(ROOT / "pipelines", copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "mine.py").write_text(
        "from pipelines.recipes import clean as study_clean\n\n\ndef build():\n    return study_clean()\n"
    )
    code = (
        "import pipelines; print(pipelines.names(), pipelines.all_names()[8:], type(pipelines.build('mine')).__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == f"{STUDY} ('mine',) Pipeline"


@pytest.mark.parametrize("name", all_names())
def test_each_has_one_short_configuration_that_builds_it(name: str) -> None:
    text = (ROOT / "configs" / "pipeline" / f"{name}.yaml").read_text()
    assert len(text.splitlines()) <= 10
    content = yaml.safe_load(text)
    assert list(content) == [name]
    made = hydra.utils.instantiate(content[name])
    assert isinstance(made, Pipeline)
    assert repr(made) == repr(build(name))


def test_no_configuration_is_without_a_pipeline() -> None:
    assert {path.stem for path in (ROOT / "configs" / "pipeline").glob("*.yaml")} == set(all_names())


@pytest.mark.parametrize("name", all_names())
def test_any_rows_pass_that_have_the_columns(name: str) -> None:
    odd = FRAME.iloc[:6].copy()
    odd["level"] = ["zebra", "a", None, "b", "c", "rare"]
    odd["code"] = pd.Categorical([9, 1, None, 2, 3, 4])
    odd["text"] = [None, "", "zebra", "call me", "free prize now", "stop"]
    odd["few"] = [77.0, np.nan, np.inf, 0.0, 1.0, 2.0]
    odd["normal"] = [np.inf, -np.inf, np.nan, 1e12, 0.0, 1.0]
    odd["empty"] = 1.0
    model = fitted(name)
    out = plain(model.transform(odd))
    train = plain(model.transform(FRAME))
    assert out.shape == (6, train.shape[1])
    assert not np.isinf(out).any()
    assert np.isnan(out).any() == (name == "clean")
    assert np.isnan(train).any() == (name == "clean")
    assert (train.std(axis=0)[~np.isnan(train.std(axis=0))] > 0).all()


@pytest.mark.parametrize("name", all_names())
def test_fitting_twice_gives_the_same_bytes(name: str) -> None:
    first, second = fitted(name).transform(FRAME), clone(build(name)).fit(FRAME, TARGETS).transform(FRAME)
    assert plain(first).tobytes() == plain(second).tobytes()


@pytest.mark.parametrize("name", all_names())
def test_a_row_is_mapped_by_itself(name: str) -> None:
    """What other rows are transformed beside it changes nothing."""
    model = fitted(name)
    whole = plain(model.transform(FRAME))[5:9]
    np.testing.assert_allclose(plain(model.transform(FRAME.iloc[5:9])), whole, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", all_names())
def test_what_is_dropped_is_noted(name: str) -> None:
    notes = fitted(name).named_steps["encode"].dropped_
    assert {"constant: constant", "empty: all missing"} <= set(notes)


@pytest.mark.parametrize("kind", ["normal", "level", "text", "few", "flag"])
@pytest.mark.parametrize("name", all_names())
def test_one_kind_of_column_is_enough(name: str, kind: str) -> None:
    frame = FRAME[[kind]]
    out = plain(build(name).fit(frame, TARGETS).transform(frame))
    assert out.shape[0] == len(frame)
    assert out.shape[1] >= 1
    assert np.isfinite(out).all()


def test_the_eight_differ_on_complete_continuous_data() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(-1, 1, (300, 8)), columns=list("abcdefgh"))
    y = frame["a"].to_numpy() * frame["b"].to_numpy()
    made = {name: build(name).fit(frame, y).transform(frame) for name in STUDY}
    assert same_pairs(made) == []
    widths = {name: X.shape[1] for name, X in made.items()}
    assert widths == {
        "clean": 8, "onehot": 80, "quadratic": 8 + 36, "pca_small": 4, "quantile_pca": 4, "log_pca": 8,
        "clean_plus_pca": 13, "onehot_svd": 40,
    }  # fmt: skip


def test_clean_scales_and_keeps_gaps() -> None:
    out = fitted("clean").transform(FRAME[FRAME.columns])
    gaps = FRAME["gaps"].to_numpy()
    np.testing.assert_allclose(out[:, 3], gaps / np.nanstd(gaps))


def test_quadratic_multiplies_centred_numbers_of_the_best_twenty_columns() -> None:
    rng = np.random.default_rng(0)
    X = rng.lognormal(size=(500, 25))
    y = X[:, :20].sum(axis=1)
    out = build("quadratic").fit(pd.DataFrame(X).add_prefix("x"), y).transform(pd.DataFrame(X).add_prefix("x"))
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    best = np.sort(np.argsort(f_regression(Z, y)[0], kind="stable")[-20:])
    i, j = np.triu_indices(20)
    expected = Z[:, best[i]] * Z[:, best[j]]
    assert out.shape == (500, 25 + 210)
    np.testing.assert_allclose(out[:, 25:], expected / expected.std(axis=0), atol=1e-9)


@pytest.mark.parametrize("name", ["pca_small", "quantile_pca", "log_pca"])
def test_components_are_uncorrelated_and_of_unit_variance_on_the_training_rows(name: str) -> None:
    out = fitted(name).transform(FRAME)
    np.testing.assert_allclose(np.cov(out.T, bias=True), np.eye(out.shape[1]), atol=1e-8)


def test_quantile_and_log_standardise_before_the_rotation_and_the_small_pca_does_not() -> None:
    """`scaled` has a thousand times the others' spread: it is the small PCA's first component, no other's."""
    frame = FRAME[["normal", "scaled", "gaps", "infinite"]]
    lead = {}
    for name in ("pca_small", "quantile_pca", "log_pca"):
        out = build(name).fit(frame, TARGETS).transform(frame)
        lead[name] = abs(np.corrcoef(out[:, 0], frame["scaled"])[0, 1])
    assert lead["pca_small"] > 0.999
    assert max(lead["quantile_pca"], lead["log_pca"]) < 0.95


def test_onehot_holds_only_indicators() -> None:
    out = plain(build("onehot").fit(FRAME.drop(columns="text"), TARGETS).transform(FRAME.drop(columns="text")))
    assert set(np.unique(out)) == {0.0, 1.0}


def test_unknown_pipelines_are_refused_with_the_list_of_known_ones() -> None:
    with pytest.raises(BadInput, match=r"unknown pipeline 'claen'; known are: clean, onehot"):
        build("claen")
    with pytest.raises(BadInput, match=r"pipeline 'no_such.module': No module named 'no_such'"):
        build("no_such.module")
    with pytest.raises(BadInput, match=r"module os.path has no function build\(\)"):
        build("os.path")


@pytest.mark.parametrize("text", ["from sklearn import nope\n", "def build(:\n"])
def test_a_recipe_that_cannot_be_imported_is_told(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wrong").mkdir()
    (tmp_path / "wrong" / "__init__.py").write_text("")
    (tmp_path / "wrong" / "recipe.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "wrong", raising=False)
    with pytest.raises(BadInput, match=r"pipeline 'wrong\.recipe': "):
        build("wrong.recipe")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("build = lambda: part()\ndef part(x): ...\n",
         r"TypeError: part\(\) missing 1 required positional argument: 'x' at failing/recipe.py:1$"),
        ("x = 1\nbuild = y\n", r"NameError: name 'y' is not defined at failing/recipe.py:2$"),
        ("def build():\n    return 7\n", r"build\(\) must return a Pipeline of scikit-learn, got int$"),
    ],
)  # fmt: skip
def test_an_error_in_a_recipe_is_one_line_with_its_place(
    text: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing").mkdir()
    (tmp_path / "failing" / "recipe.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    for module in ("failing", "failing.recipe"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(BadInput, match=rf"^pipeline 'failing\.recipe': {line}") as caught:
        build("failing.recipe")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_what_is_no_error_of_a_recipe_passes(error: type[BaseException]) -> None:
    with pytest.raises(error), user_errors("a pipeline"):
        raise error


def test_a_recipe_of_another_package_is_named_by_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "my_features"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "plain.py").write_text("from pipelines.recipes import clean as build\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert isinstance(build("my_features.plain"), Pipeline)


def test_importing_the_package_is_light() -> None:
    code = (
        "import os, sys, pipelines; pipelines.names();"
        "assert os.environ['OMP_NUM_THREADS'] == '1';"
        "print(*sorted({'sklearn', 'pandas', 'xgboost'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_the_package_offers_what_it_names() -> None:
    assert all(hasattr(pipelines, name) for name in pipelines.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        pipelines.nothing  # noqa: B018

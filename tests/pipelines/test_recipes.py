import ast
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import hydra.utils
import numpy as np
import pandas as pd
import pytest
import yaml
from pipeline_frames import mixed_frame, targets
from raw_data import ROOT, needs_data
from sklearn.base import clone
from sklearn.feature_selection import f_regression
from sklearn.pipeline import Pipeline

import pipelines
from datasets.catalogue import entry_of
from datasets.download import find
from datasets.errors import BadInput, user_errors
from pipelines import all_names, build, names, prepare
from pipelines.identity import same_pairs
from pipelines.steps import dense

STUDY = (
    "clean", "onehot", "quadratic", "pca_small", "quantile_pca", "log_pca", "clean_plus_pca", "onehot_svd"
)  # fmt: skip
FRAME = mixed_frame()
TARGETS = targets(FRAME)


@cache
def fitted(name: str) -> Pipeline:
    return build(name).fit(FRAME, TARGETS)


def test_a_recipe_without_a_place_is_run_by_name_and_is_no_part_of_the_study(tmp_path: Path) -> None:
    assert names() == all_names() == STUDY
    copy = tmp_path / "pipelines"
    shutil.copytree(ROOT / "pipelines", copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "mine.py").write_text("from pipelines.recipes import clean\ndef build():\n    return clean()\n")
    code = "import pipelines as p; print(p.names(), p.all_names()[8:], p.module_name('mine'))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == f"{STUDY} ('mine',) pipelines.mine"


def test_each_has_one_short_configuration_that_builds_it() -> None:
    files = {path.stem: path.read_text() for path in (ROOT / "configs" / "pipeline").glob("*.yaml")}
    assert set(files) == set(all_names())
    for name, text in files.items():
        content = yaml.safe_load(text)
        assert list(content) == [name] and len(text.splitlines()) <= 10
        assert repr(hydra.utils.instantiate(content[name])) == repr(build(name))


@pytest.mark.parametrize("name", all_names())
def test_any_rows_pass_that_have_the_columns_each_by_itself(name: str) -> None:
    odd = FRAME.iloc[:6].copy()
    odd["level"] = ["zebra", "a", None, "b", "c", "rare"]
    odd["code"] = pd.Categorical([9, 1, None, 2, 3, 4])
    odd["text"] = [None, "", "zebra", "call me", "free prize now", "stop"]
    odd["few"] = [77.0, np.nan, np.inf, 0.0, 1.0, 2.0]
    odd["normal"] = [np.inf, -np.inf, np.nan, 1e12, 0.0, 1.0]
    odd["empty"] = 1.0
    model = fitted(name)
    out, train = dense(model.transform(odd)), dense(model.transform(FRAME))
    assert out.shape == (6, train.shape[1])
    assert not np.isinf(out).any()
    assert np.isnan(out).any() == np.isnan(train).any() == (name == "clean")
    assert (np.nanstd(train, axis=0) > 0).all()
    # what other rows are transformed beside a row changes nothing
    np.testing.assert_allclose(dense(model.transform(FRAME.iloc[5:9])), train[5:9], rtol=1e-9, atol=1e-9)
    again = dense(clone(build(name)).fit(FRAME, TARGETS).transform(FRAME))
    assert again.tobytes() == train.tobytes()
    assert {"constant: constant", "empty: all missing"} <= set(model.named_steps["encode"].dropped_)


@pytest.mark.parametrize("name", all_names())
def test_one_kind_of_column_is_enough(name: str) -> None:
    for kind in ("normal", "level", "text", "few", "flag"):
        out = dense(build(name).fit(FRAME[[kind]], TARGETS).transform(FRAME[[kind]]))
        assert out.shape[0] == len(FRAME) and out.shape[1] >= 1
        assert np.isfinite(out).all()


def test_the_eight_differ_on_complete_continuous_data() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(-1, 1, (300, 8)), columns=list("abcdefgh"))
    y = frame["a"].to_numpy() * frame["b"].to_numpy()
    made = {name: build(name).fit(frame, y).transform(frame) for name in STUDY}
    assert same_pairs(made) == []
    assert [X.shape[1] for X in made.values()] == [8, 80, 8 + 36, 4, 4, 8, 13, 40]
    np.testing.assert_allclose(made["clean"], frame / frame.std(ddof=0))
    assert set(np.unique(dense(made["onehot"]))) == {0.0, 1.0}


def test_quadratic_multiplies_centred_numbers_of_the_best_twenty_columns() -> None:
    X = np.random.default_rng(0).lognormal(size=(500, 25))
    y = X[:, :20].sum(axis=1)
    out = build("quadratic").fit(pd.DataFrame(X).add_prefix("x"), y).transform(pd.DataFrame(X).add_prefix("x"))
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    best = np.sort(np.argsort(f_regression(Z, y)[0], kind="stable")[-20:])
    i, j = np.triu_indices(20)
    expected = Z[:, best[i]] * Z[:, best[j]]
    assert out.shape == (500, 25 + 210)
    np.testing.assert_allclose(out[:, 25:], expected / expected.std(axis=0), atol=1e-9)


@pytest.mark.parametrize("name", ["pca_small", "quantile_pca", "log_pca"])
def test_components_are_uncorrelated_and_only_the_small_pca_does_not_standardise_before(name: str) -> None:
    """`scaled` has a thousand times the others' spread: it is the small PCA's first component, no other's."""
    out = fitted(name).transform(FRAME)
    np.testing.assert_allclose(np.cov(out.T, bias=True), np.eye(out.shape[1]), atol=1e-8)
    frame = FRAME[["normal", "scaled", "gaps", "infinite"]]
    lead = build(name).fit(frame, TARGETS).transform(frame)[:, 0]
    correlation = abs(np.corrcoef(lead, frame["scaled"])[0, 1])
    assert correlation > 0.999 if name == "pca_small" else correlation < 0.95


@pytest.mark.parametrize("name", ["clean", "pca_small"])
def test_a_column_of_text_without_common_terms_is_dropped_with_a_note(name: str) -> None:
    """Three words of their own in every row: no pipeline learns from them, and none is stopped by them."""
    owner = [f"w{i} v{i} u{i}" for i in range(120)]
    X = pd.DataFrame({"area": np.arange(120) ** 1.5, "rooms": np.arange(120) % 13, "owner": owner})
    model = build(name).fit(X, np.arange(120.0))
    dropped = "owner: no term occurs in 10 of the 120 training rows" in model.named_steps["encode"].dropped_
    assert dropped == (name == "clean")  # the other looks at characters: "w1" and the like are in many rows
    if dropped:
        plain = build(name).fit(X[["area", "rooms"]], np.arange(120.0))
        np.testing.assert_array_equal(model.transform(X), plain.transform(X[["area", "rooms"]]))
        with pytest.raises(BadInput, match="no term occurs in 10"):
            build(name).fit(X[["owner"]], np.arange(120.0))


@pytest.mark.parametrize(("name", "text", "message"), [
    ("claen", "", r"unknown pipeline 'claen'; known are: clean, onehot"),
    ("no_such.module", "", r"pipeline 'no_such.module': No module named 'no_such'"),
    ("os.path", "", r"module os.path has no function build\(\)"),
    ("mine.recipe", "from sklearn import nope\n", r"^pipeline 'mine\.recipe': cannot import name 'nope'"),
    ("mine.recipe", "def build(:\n", r"^pipeline 'mine\.recipe': invalid syntax"),
    ("mine.recipe", "build = lambda: part()\ndef part(x): ...\n",
     r"'mine\.recipe': TypeError: part\(\) missing 1 required positional argument: 'x' at mine/recipe.py:1$"),
    ("mine.recipe", "x = 1\nbuild = y\n", r"'mine\.recipe': NameError: name 'y' is not defined at mine/recipe.py:2$"),
    ("mine.recipe", "def build():\n    return 7\n", r"build\(\) must return a Pipeline of scikit-learn, got int$"),
])  # fmt: skip
def test_a_wrong_name_or_recipe_is_one_line_with_its_place(
    name: str, text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "recipe.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    for module in ("mine", "mine.recipe"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(BadInput, match=message) as caught:
        build(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_what_is_no_error_of_a_recipe_passes(error: type[BaseException]) -> None:
    with pytest.raises(error), user_errors("a pipeline"):
        raise error


def test_the_package_offers_what_it_names() -> None:
    assert all(hasattr(pipelines, name) for name in pipelines.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        pipelines.nothing  # noqa: B018


@needs_data
def test_the_example_of_the_readme_gives_what_is_prepared_without_this_code(monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "pipelines/README.md").read_text(), re.DOTALL)
    nodes = list(ast.walk(ast.parse(block)))
    used = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    used |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in used} == {"hashlib", "math", "os", "numpy", "pandas", "sklearn"}
    found = find(entry_of("abalone"))
    assert found is not None
    monkeypatch.setenv("DATASETS_HOME", str(found.paths[0].parents[1]))
    made: dict[str, Any] = {}
    exec(compile(block, "pipelines/README.md", "exec"), made)
    assert set(made["matrices"]) == {"clean", "onehot", "quantile_pca"}
    for name, matrices in made["matrices"].items():
        p = prepare("abalone", name, cache=False)
        for X, expected in zip(matrices, (p.X_train, p.X_valid, p.X_test), strict=True):
            assert (type(X), X.dtype, X.shape) == (type(expected), np.float32, expected.shape)
            np.testing.assert_allclose(dense(X), dense(expected), rtol=1e-6, atol=1e-6)  # a few roundings of float32
        for y, labels in zip(made["labels"], (p.y_train, p.y_valid, p.y_test), strict=True):
            np.testing.assert_array_equal(y, labels)

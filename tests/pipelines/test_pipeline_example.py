"""The script at the end of `pipelines/README.md`: it needs none of this project's code, and gives the same matrices."""

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import needs_data
from scipy import sparse

import pipelines
from datasets.catalogue import entry_of
from datasets.download import find
from pipelines import prepare

LIBRARIES = {"hashlib", "math", "os", "numpy", "pandas", "sklearn"}


def example() -> str:
    """Return the one block of Python on the page."""
    text = (Path(pipelines.__file__).parent / "README.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return str(block)


def test_the_example_imports_pandas_numpy_and_scikit_learn_only() -> None:
    nodes = list(ast.walk(ast.parse(example())))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    parts = {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in plain | parts} == LIBRARIES
    assert not {"exec", "eval", "__import__"} & {node.id for node in nodes if isinstance(node, ast.Name)}


@needs_data
def test_the_example_gives_the_rows_labels_and_matrices_that_are_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    found = find(entry_of("abalone"))
    assert found is not None
    monkeypatch.setenv("DATASETS_HOME", str(found.paths[0].parents[1]))
    made: dict[str, Any] = {}
    exec(compile(example(), "pipelines/README.md", "exec"), made)
    assert set(made["matrices"]) == {"clean", "onehot", "quantile_pca"}
    for name, matrices in made["matrices"].items():
        p = prepare("abalone", name, cache=False)
        for X, expected in zip(matrices, (p.X_train, p.X_valid, p.X_test), strict=True):
            assert X.dtype == np.float32
            assert X.shape == expected.shape
            assert sparse.issparse(X) == sparse.issparse(expected) == (name == "onehot")
            if sparse.issparse(X):
                X, expected = X.toarray(), expected.toarray()
            np.testing.assert_allclose(X, expected, rtol=1e-6, atol=1e-6)  # a few roundings of float32
        for y, labels in zip(made["labels"], (p.y_train, p.y_valid, p.y_test), strict=True):
            np.testing.assert_array_equal(y, labels)

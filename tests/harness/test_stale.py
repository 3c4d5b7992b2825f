"""Compiled code is dropped when what it has inside it changed."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core.caching import UserProvidedCacheLocator

from harness.stale import HERE, MARK, SHARED, drop_stale


def _taken(tree: ast.Module) -> set[tuple[str, str]]:
    """Return what compiled functions take from other files: (module, name), directly or through a constant."""
    compiled = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(mark).startswith(("njit", "intrinsic")) for mark in node.decorator_list)
    ]
    used = {word for node in compiled for part in node.body for word in _words(part)}
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(_words(target) & used for target in node.targets):
            used |= _words(node.value)
    return {
        (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "harness"
        for alias in node.names
        if (alias.asname or alias.name) in used
    }


def _words(node: ast.AST) -> set[str]:
    return {word.id for word in ast.walk(node) if isinstance(word, ast.Name)}


def test_every_file_that_compiled_functions_take_from_is_named() -> None:
    taken = {module for path in HERE.rglob("*.py") for module, _ in _taken(ast.parse(path.read_text()))}
    assert {f"{module.removeprefix('harness.').replace('.', '/')}.py" for module in taken} == set(SHARED)


def _tree(root: Path) -> Path:
    for name in SHARED:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


@pytest.mark.parametrize("where", ["tree", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME"])
def test_what_was_compiled_with_other_files_is_dropped(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = _tree(tmp_path / "harness")
    folder = root / "surrogates" / "__pycache__"
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    if where != "tree":
        monkeypatch.setenv(where, str(tmp_path / "cache"))
        named = UserProvidedCacheLocator.get_suitable_cache_subpath(str(root / "surrogates" / "predict.py"))
        folder = tmp_path / "cache" / ("" if where == "NUMBA_CACHE_DIR" else "numba") / named
    folder.mkdir(parents=True)
    for name in ("one.nbi", "one.1.nbc"):
        (folder / name).touch()
    assert drop_stale(root) == 1  # nothing says what it was compiled with
    assert sorted(path.name for path in folder.iterdir()) == ["one.1.nbc", MARK]
    (folder / "two.nbi").touch()
    assert drop_stale(root) == 0
    (root / SHARED[2]).write_text("changed")
    os.utime(root / SHARED[2], (1000, 1000))  # copied in with an old time
    assert drop_stale(root) == 1
    assert drop_stale(root) == 0


def test_a_changed_function_is_compiled_into_what_has_it_inside(tmp_path: Path) -> None:
    """The real thing: two files, of which only the inner one changes."""
    package = tmp_path / "harness"
    (package / "surrogates").mkdir(parents=True)
    _tree(package)
    (package / "__init__.py").write_text("from harness.stale import drop_stale\ndrop_stale()\n")
    (package / "stale.py").write_text((HERE / "stale.py").read_text())
    (package / "outer.py").write_text(
        "from numba import njit\nfrom harness.surrogates.kernels import inner\n\n\n"
        "@njit(cache=True)\ndef outer(x):\n    return inner(x)\n"
    )

    def result(inner: str) -> str:
        shared = package / "surrogates" / "kernels.py"
        shared.write_text(f"from numba import njit\n\n\n@njit(inline='always')\ndef inner(x):\n    return {inner}\n")
        environment = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "PYTHONPATH")}
        command = [sys.executable, "-c", "from harness.outer import outer; print(outer(2.0))"]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout

    assert result("x + 1") == "3.0\n"
    assert result("x * 10") == "20.0\n"

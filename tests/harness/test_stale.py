"""Compiled code is dropped when what it has inside it changed."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core.caching import UserProvidedCacheLocator

from harness.stale import HERE, SHARED, drop_stale


def _compiled_names(tree: ast.Module) -> set[str]:
    """Return the functions that numba compiles."""
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        for mark in node.decorator_list
        if ast.unparse(mark).startswith(("njit", "intrinsic"))
    }


def test_every_file_that_others_take_compiled_functions_from_is_named() -> None:
    trees = {path.relative_to(HERE.parent).with_suffix(""): ast.parse(path.read_text()) for path in HERE.rglob("*.py")}
    own = {".".join(name.parts): _compiled_names(tree) for name, tree in trees.items()}
    taken = set()
    for name, tree in trees.items():
        inside = {
            word.id
            for node in tree.body
            if isinstance(node, ast.FunctionDef) and node.name in own[".".join(name.parts)]
            for word in ast.walk(node)
            if isinstance(word, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in own:
                names = {alias.asname or alias.name: alias.name for alias in node.names}
                if any(names[n] in own[node.module] for n in names.keys() & inside):
                    taken.add(f"{node.module.removeprefix('harness.').replace('.', '/')}.py")
    assert taken == set(SHARED)


def _tree(root: Path) -> Path:
    for name in SHARED:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
        os.utime(root / name, (1000, 1000))
    os.utime(root / SHARED[2], (2000, 2000))
    return root


@pytest.mark.parametrize("elsewhere", [False, True])
def test_what_is_older_than_a_shared_file_is_dropped(
    elsewhere: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = _tree(tmp_path / "harness")
    folder = root / "surrogates" / "__pycache__"
    if elsewhere:
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
        source = root / "surrogates" / "predict.py"
        folder = tmp_path / "cache" / UserProvidedCacheLocator.get_suitable_cache_subpath(str(source))
    else:
        monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    folder.mkdir(parents=True)
    for name, when in (("old.nbi", 1500), ("old.1.nbc", 1500), ("new.nbi", 2500)):
        (folder / name).touch()
        os.utime(folder / name, (when, when))
    assert drop_stale(root) == 1
    assert sorted(path.name for path in folder.iterdir()) == ["new.nbi", "old.1.nbc"]
    assert drop_stale(root) == 0
    assert drop_stale(tmp_path / "nowhere") == 0


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

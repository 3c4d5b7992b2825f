"""Compiled functions are compiled once, by however many processes, and again when what they are made of changes."""

import ast
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from forked import Forked, Process

from harness import compile_cache
from harness.compile_cache import KEPT, NOTICE, Folder, digest, prune, sources

HERE = Path(compile_cache.__file__).parent
OUTER = """
from harness.compile_cache import njit
from harness.numbers.constants import STEP
from harness.inner import inner


@njit(cache=True)
def outer(x):
    return inner(x) + STEP
"""
INNER = "from harness.compile_cache import njit\n\n\n@njit(inline='always')\ndef inner(x):\n    return {}\n"
CALL = """
import sys, json
from harness.outer import outer
from harness.compile_cache import compiled, spent_s
before = spent_s()
print(json.dumps([outer(2.0), compiled(), round(spent_s() - before, 4)]))
"""


def _taken(tree: ast.Module) -> set[str]:
    """Return the modules that compiled functions take from, directly or through a constant."""
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
        node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
        if (alias.asname or alias.name) in used
    }


def _words(node: ast.AST) -> set[str]:
    return {word.id for word in ast.walk(node) if isinstance(word, ast.Name)}


def test_all_that_compiled_functions_take_from_is_in_the_digest() -> None:
    found = sources()
    assert len(found) > 15
    for path in found:
        for module in _taken(ast.parse(path.read_text())):
            first, _, rest = module.partition(".")
            assert not (HERE.parent / first).is_dir() or first == "harness", f"{path} takes from {module}"
            if first == "harness" and module != "harness.compile_cache":
                assert HERE / f"{rest.replace('.', '/')}.py" in found, f"{path} takes from {module}"


def test_compiled_functions_elsewhere_take_from_their_own_file_only() -> None:
    """A file of another package counts by its own content: what it took from a third would not be noticed."""
    own = 0
    for path in HERE.parent.glob("[!.]*/**/*.py"):
        if HERE not in path.parents and path.parts[len(HERE.parent.parts)] in ("tabular_cache", "analysis"):
            tree = ast.parse(path.read_text())
            own += "harness.compile" in path.read_text()
            taken = _taken(tree) - {"harness.compile_cache"}
            assert all(module.startswith("harness.") for module in taken), f"{path} takes from {taken}"
    assert own


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package named as ours, with three small modules and the cache's own."""
    root = tmp_path / "harness"
    (root / "numbers").mkdir(parents=True)
    (root / "compile_cache.py").write_text((HERE / "compile_cache.py").read_text())
    (root / "__init__.py").touch()
    (root / "numbers" / "constants.py").write_text("STEP = 1.0\n")
    (root / "other.py").write_text("UNUSED = 1\n")
    (root / "inner.py").write_text(INNER.format("x + 1"))
    (root / "outer.py").write_text(OUTER)
    return root


class Starter:
    """Starts processes that import numba's own modules only once; `harness.compile_cache` sets numba up in each."""

    def __init__(self, forked: Forked, package: Path) -> None:
        self._forked, self._package = forked, package

    def start(self, program: str = CALL, **more: str) -> Process:
        """Start a process that calls functions of the package."""
        mine = ("NUMBA_CACHE_DIR", "PYTHONPATH")
        plain = {name: value for name, value in os.environ.items() if name not in mine}
        environment = {**plain, "PYTHONPATH": f"{self._package.parent}{os.pathsep}{HERE.parent}", **more}
        environment["PYTHONDONTWRITEBYTECODE"] = "1"  # a source rewritten within a second may pass for the old one
        return self._forked.start(program, cwd=self._package.parent, environment=environment)

    def __call__(self, **more: str) -> tuple[float, int]:
        """Call the functions; return what they return, and how many were compiled."""
        return result(self.start(**more))[:2]


def result(process: Process) -> tuple[float, int, float, str]:
    code, err = process.wait(), process.err.read_text()
    assert code == 0, err
    return (*json.loads(process.out.read_text()), err)


@pytest.fixture(scope="module")
def forked() -> Iterator[Forked]:
    with Forked("import numba, numba.core.codegen, numba.core.registry, numba.np.arraymath, numba.extending") as made:
        yield made


@pytest.fixture
def call(forked: Forked, package: Path) -> Starter:
    return Starter(forked, package)


def test_what_changed_is_compiled_again_and_nothing_else_is(package: Path, call: Starter) -> None:
    assert call() == (4.0, 1)
    for path in package.rglob("*.py"):
        os.utime(path, (1000, 1000))  # as a fresh checkout does
    (package / "other.py").write_text("UNUSED = 2\n")
    assert call() == (4.0, 0)
    (package / "inner.py").write_text(INNER.format("x * 10"))
    os.utime(package / "inner.py", (1000, 1000))
    assert call() == (21.0, 1)
    (package / "numbers" / "constants.py").write_text("STEP = 5.0\n")
    assert call() == (25.0, 1)
    (package / "inner.py").write_text(INNER.format("x + 1"))
    (package / "numbers" / "constants.py").write_text("STEP = 1.0\n")
    assert call() == (4.0, 0)  # the branch one was on before
    assert call(NUMBA_OPT="1") == (4.0, 1)  # numba itself would take what was compiled otherwise


def test_where_it_lies(package: Path, call: Starter, tmp_path: Path) -> None:
    call()
    assert len(list((package / "__pycache__").glob("compiled-*/harness.outer.outer-*.bin"))) == 1
    own = tmp_path / "own"
    assert call(NUMBA_CACHE_DIR=str(own)) == (4.0, 1)
    assert len(list(own.glob("compiled-*/*.bin"))) == 1
    (tmp_path / "file").touch()
    *_, err = result(call.start(NUMBA_CACHE_DIR=str(tmp_path / "file")))
    assert f"compiled functions cannot be kept in {tmp_path}/file/compiled-" in err and "Not a directory" in err


def test_a_damaged_file_is_compiled_again(package: Path, call: Starter) -> None:
    call()
    (path,) = package.rglob("*.bin")
    content = path.read_bytes()
    path.write_bytes(content[:40] + b"x" + content[41:])
    assert call() == (4.0, 1)
    path.write_bytes(b"")
    assert call() == (4.0, 1)
    assert call() == (4.0, 0)


def test_many_processes_compile_once_between_them_and_say_so_once(package: Path, call: Starter) -> None:
    results = [result(process) for process in [call.start() for _ in range(3)]]
    assert [value for value, *_ in results] == [4.0] * 3
    assert sorted(count for _, count, *_ in results) == [0, 0, 1]
    (_, _, loading, _), spent = result(call.start()), [seconds for _, _, seconds, _ in results]
    assert 0.0 < loading < max(spent)  # seconds of compiling and loading are counted
    assert "".join(err for *_, err in results).count(NOTICE) == 1


def test_signatures_compiled_at_once_do_not_take_each_other_s_place(package: Path, call: Starter) -> None:
    """numba's own index would give both the same number."""
    programs = [CALL.replace("outer(2.0)", value) for value in ("outer(2.0)", "outer(2)")]
    for count in (1, 0):
        processes = [call.start(program) for program in programs]
        assert [result(process)[:2] for process in processes] == [(4.0, count)] * 2


def test_old_folders_are_removed_but_for_the_last_used(tmp_path: Path) -> None:
    folders = [Folder(tmp_path, f"{k:016x}") for k in range(KEPT + 3)]
    for k, folder in enumerate(folders[:-1]):
        folder.path.mkdir()
        (folder.path / "some.bin").touch()
        (folder.path / "lock").touch()
        os.utime(folder.path / "lock", (1000 * k, 1000 * k))
    (tmp_path / "another").mkdir()
    folders[0].open()  # used now
    folders[-1].open()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"another", *(f.path.name for f in [folders[0], *folders[3:]])}
    assert prune(folders[-1].path) == []


def test_the_digest_is_of_content(package: Path) -> None:
    first = digest(package, "x")
    assert digest(package, "y") != first
    (package / "inner.py").touch()
    (package / "other.py").write_text("more = 1\n")
    assert digest(package, "x") == first
    assert sources(package) == sorted(package / name for name in ("inner.py", "numbers/constants.py", "outer.py"))

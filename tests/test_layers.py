"""Imports point upstream only: datasets -> pipelines -> harness -> tabular_cache -> analysis."""

import ast
from collections.abc import Collection, Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ORDER = ("datasets", "pipelines", "harness", "tabular_cache", "analysis")
# inside the harness: what each part may not know of
FORBIDDEN_WITHIN_HARNESS = {
    "harness.space": ("harness.problem", "harness.optimizer", "harness.loop"),
    "harness.problem": ("harness.optimizer", "harness.loop", "harness.live", "harness.study"),
    "harness.optimizer": ("harness.loop", "harness.study", "harness.records", "harness.live"),
    "harness.loop": ("harness.grid", "harness.study", "harness.live"),
    "harness.grid": ("harness.study", "harness.settings"),
}


def names(node: ast.Import | ast.ImportFrom, path: Path) -> set[str]:
    """Return what an import may load: of `from harness import study` the package and the module."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    assert node.level == 0 and node.module, f"{path}: relative import"
    return {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}


def imports(path: Path) -> set[str]:
    """Return what a module imports anywhere, in functions as well."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return {name for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for name in names(node, path)}


def modules(root: Path, packages: Iterable[str]) -> dict[str, Path]:
    """Return every module below some packages by the name that it is imported by."""
    found = {path.relative_to(root): path for package in packages for path in sorted((root / package).rglob("*.py"))}
    parts = {path.with_suffix("").parts: file for path, file in found.items()}
    return {".".join(part[:-1] if part[-1] == "__init__" else part): file for part, file in parts.items()}


MODULES = modules(ROOT, ORDER)


def when_loaded(body: Iterable[ast.AST]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports that loading a module makes: none of functions, for type checkers or of a command."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and any(word in ast.dump(node.test) for word in ("TYPE_CHECKING", "__name__")):
            yield from when_loaded(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from when_loaded(ast.iter_child_nodes(node))


def loaded_first(path: Path, known: Collection[str]) -> set[str]:
    """Return the modules among those known that a module needs before it is there itself.

    What `from harness import study` needs is the module; of a name that `harness/__init__.py` defines, that file.
    """
    found: set[str] = set()
    for node in when_loaded(ast.parse(path.read_text()).body):
        for alias in node.names:
            whole = alias.name if isinstance(node, ast.Import) else f"{node.module}.{alias.name}"
            found.add(whole if isinstance(node, ast.Import) or whole in known else str(node.module))
    return found.intersection(known)


def cycle(known: dict[str, Path]) -> list[str]:
    """Return modules each of which needs the next before it is there, the first one again at the end, or none."""
    try:
        TopologicalSorter({name: loaded_first(path, known) for name, path in known.items()}).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_the_rule_would_catch_an_import_downstream(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("def f():\n    from analysis.ranks import ranks\n")
    assert "analysis.ranks" in imports(bad)
    for text in ("from harness import study", "import harness.study", "from harness.study import run as go"):
        bad.write_text(text)
        assert "harness.study" in imports(bad), text


def test_the_rule_would_catch_a_cycle(tmp_path: Path) -> None:
    texts = {"__init__": "from p.b import f", "a": "from p import b", "b": "import p.c", "c": "x = 1"}
    (tmp_path / "p").mkdir()
    for name, text in texts.items():
        (tmp_path / "p" / f"{name}.py").write_text(text)
    assert modules(tmp_path, ["p"]).keys() == {"p", "p.a", "p.b", "p.c"}
    assert cycle(modules(tmp_path, ["p"])) == []
    for back in ("from p.a import x", "from p import f", "class A:\n    from p import a", "try:\n    import p.b as b\n"
                 "except ImportError:\n    b = 1", "if x:\n    y = 1\nelse:\n    from p import b"):  # fmt: skip
        (tmp_path / "p" / "c.py").write_text(back)
        found = cycle(modules(tmp_path, ["p"]))
        assert found and found[0] == found[-1] and "p.c" in found, back
    for later in ("def f():\n    from p import a", "if TYPE_CHECKING:\n    from p import a",
                  'if __name__ == "__main__":\n    from p.c import x'):  # fmt: skip
        (tmp_path / "p" / "c.py").write_text(later)
        assert cycle(modules(tmp_path, ["p"])) == [], later


def test_no_module_needs_itself() -> None:
    assert len(MODULES) > 100
    assert cycle(MODULES) == [], "each module imports the next while it is loaded itself"


@pytest.mark.parametrize("package", ORDER)
def test_no_package_imports_downstream(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files, f"{package} has no modules"
    downstream = ORDER[ORDER.index(package) + 1 :]
    for path in files:
        wrong = [name for name in imports(path) if name.split(".")[0] in downstream]
        assert not wrong, f"{path.relative_to(ROOT)} imports {wrong}"


@pytest.mark.parametrize("module", FORBIDDEN_WITHIN_HARNESS)
def test_the_harness_has_an_order_too(module: str) -> None:
    forbidden = set(FORBIDDEN_WITHIN_HARNESS[module])
    assert forbidden <= MODULES.keys(), "a module that is not there is imported by nobody"
    assert not imports(MODULES[module]) & forbidden


@pytest.mark.parametrize("package", ORDER)
def test_a_command_starts_when_all_of_its_module_is_there(package: str) -> None:
    """`if __name__ == "__main__"` comes last: what stands below it does not exist yet when the command runs."""
    for path in sorted((ROOT / package).rglob("*.py")):
        body = ast.parse(path.read_text()).body
        starts = [k for k, node in enumerate(body) if isinstance(node, ast.If) and "__name__" in ast.dump(node.test)]
        assert starts in ([], [len(body) - 1]), path.relative_to(ROOT)


def test_no_test_module_imports_another() -> None:
    """What they share stands in modules beside them, fixtures in `conftest.py`, which is found by its folder."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        wrong = [name for name in imports(path) if name == "conftest" or name.startswith("test_")]
        assert not wrong, f"{path.relative_to(ROOT)} imports {wrong}"

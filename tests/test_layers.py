"""Imports point upstream only: datasets -> pipelines -> harness -> tabular_cache -> analysis."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ORDER = ("datasets", "pipelines", "harness", "tabular_cache", "analysis")
# inside the harness: what each part may not know of
FORBIDDEN_WITHIN_HARNESS = {
    "harness.space": ("harness.problem", "harness.optimizer", "harness.loop"),
    "harness.problem": ("harness.optimizer", "harness.loop", "harness.live", "harness.study"),
    "harness.optimizer": ("harness.loop", "harness.study", "harness.records", "harness.live"),
    "harness.loop": ("harness.study", "harness.live"),
}


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
    return found


def test_the_rule_would_catch_an_import_downstream(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("def f():\n    from analysis.ranks import ranks\n")
    assert imports(bad) == {"analysis.ranks"}


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
    path = ROOT / (module.replace(".", "/") + ".py")
    assert not imports(path) & set(FORBIDDEN_WITHIN_HARNESS[module])


@pytest.mark.parametrize("package", ORDER)
def test_a_command_starts_when_all_of_its_module_is_there(package: str) -> None:
    """`if __name__ == "__main__"` comes last: what stands below it does not exist yet when the command runs."""
    for path in sorted((ROOT / package).rglob("*.py")):
        body = ast.parse(path.read_text()).body
        starts = [k for k, node in enumerate(body) if isinstance(node, ast.If) and "__name__" in ast.dump(node.test)]
        assert starts in ([], [len(body) - 1]), path.relative_to(ROOT)

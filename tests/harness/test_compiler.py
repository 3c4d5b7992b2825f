"""What compiled functions are compiled for: one target everywhere, unless the user or the process chose another."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.compile_cache import FEATURES, TARGET, has_target

ROOT = Path(__file__).resolve().parents[2]
SAY = "from harness.compile_cache import target; print(target())"
COMPILE = "import numba; numba.njit(lambda x: x + 1)(1.0); "
IN_A_WORKER = """
from harness.compile_cache import target
from harness.execution import local
with local(1) as executor:
    print(executor.submit(target).result())
"""
fixed = pytest.mark.skipif(not has_target(), reason=f"this processor is no {TARGET}: it keeps its own target")


def said(program: str, **environment: str) -> str:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_CPU")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, env={**plain, **environment}, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_processor_is_known_by_what_it_can_do(monkeypatch: pytest.MonkeyPatch) -> None:
    able = {name[1:]: True for name in FEATURES.split(",")} | {"adx": True}
    for found, has in ((able, True), ({**able, "avx2": False}, False), ({}, False)):
        monkeypatch.setattr("llvmlite.binding.get_host_cpu_features", lambda found=found: found)
        assert has_target() is has

    def unknown() -> dict[str, bool]:
        raise RuntimeError("host cpu features are not known")

    monkeypatch.setattr("llvmlite.binding.get_host_cpu_features", unknown)
    assert not has_target()


@fixed
def test_every_process_compiles_for_the_same_target() -> None:
    program = (
        f"import numba; {SAY}; from numba.core.registry import cpu_target as t; numba.njit(lambda x: x + 1)(1.0); "
        "print(*t.target_context.codegen().magic_tuple()[1:])"
    )
    assert said(f"{program}{IN_A_WORKER}").splitlines() == [TARGET, f"{TARGET} {FEATURES}", TARGET]


@pytest.mark.parametrize(
    ("environment", "before", "pattern"),
    [
        ({"NUMBA_CPU_NAME": "nehalem", "NUMBA_OPT": "1"}, "", r"nehalem-[0-9a-f]{8}\+opt=1"),
        ({"NUMBA_DISABLE_JIT": "1"}, "", "interpreted"),
        ({}, COMPILE, r"[\w-]+-[0-9a-f]{8}(\+svml)?"),  # a process that has compiled before keeps its target
    ],
)
def test_what_the_user_or_the_process_chose_wins_and_is_said(
    environment: dict[str, str], before: str, pattern: str
) -> None:
    here, in_a_worker = said(f"{before}{SAY}{IN_A_WORKER}", **environment).splitlines()
    assert re.fullmatch(pattern, here) and in_a_worker == here


def test_compiled_functions_are_declared_by_the_project_s_compiler() -> None:
    """numba's own `njit` would keep them by another rule, and might be imported before the target is set."""
    ours = ROOT / "harness" / "compile_cache.py"
    packages = ("datasets", "pipelines", "harness", "tabular_cache", "analysis")
    found = [path for package in packages for path in (ROOT / package).rglob("*.py") if path != ours]
    assert len(found) > 100
    assert [path for path in found if re.search(r"^\s*(from|import) numba\b", path.read_text(), re.MULTILINE)] == []

"""Starting up: a command imports what it needs, and the help needs nearly nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HEAVY = (
    *("numba", "llvmlite", "scipy", "sklearn", "pandas", "pyarrow", "matplotlib", "xgboost", "joblib"),
    *("hydra", "dask", "distributed", "submitit", "openml", "pooch", "rich", "GPy", "torch"),
)
_LOADED = f"print('loaded', *[name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
_HELP = f"""
import runpy, sys
sys.argv = ["module", "--help"]
try:
    runpy.run_module({{!r}}, run_name="__main__", alter_sys=True)
except SystemExit as done:
    assert not done.code
finally:
    {_LOADED}
"""


def said(program: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "module",
    ["datasets", "pipelines", "harness", "harness.configurator", "tabular_cache", "analysis"],
)
def test_the_help_imports_nothing_that_takes_time(module: str) -> None:
    assert said(_HELP.format(module)) == "loaded"


@pytest.mark.parametrize("package", ["datasets", "pipelines", "harness", "tabular_cache", "analysis"])
def test_importing_a_package_is_light(package: str) -> None:
    assert said(f"import sys, {package}; {_LOADED}") == "loaded"


def test_what_is_imported_is_seen() -> None:
    assert said(f"import sys, scipy, harness.status; {_LOADED}") == "loaded scipy pyarrow"

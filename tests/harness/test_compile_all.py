"""After `python -m harness.compile_all` nothing is compiled: not by another process, nor by a study's workers."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.compile_all import COMPONENTS, MORE, rehearsals, sizes
from harness.compile_cache import NOTICE, folder
from harness.config import options

ROOT = Path(__file__).resolve().parents[2]
PROBLEM = ("dataset=[phoneme]", "pipeline=[onehot]", "seeds=[1]")  # another than the rehearsals'
STUDIES = (
    ("study=utilities", "iterations=7", "executor=serial"),
    ("+acq=cei", "lam=0.1", "iterations=75", "fronts=true", "executor=serial"),
    ("+acq=carbo", "iterations=60", "executor=serial"),
    ("+acq=ei", "curves=stopped", "stopping=price", "stopping.price=1e-9", "iterations=40", "executor=serial"),
    ("+acq=sobol", "iterations=8", "executor=serial"),
    ("+acq=ei", "surrogate=rf", "cost_model=gp_lv", "iterations=12", "executor=local", "executor.n_jobs=1"),
)
RUN = """
import json, sys
from hydra.core.global_hydra import GlobalHydra
from harness.__main__ import main
from harness.compile_cache import compiled

for arguments in json.loads(sys.argv[1]):
    sys.argv = ["harness", *arguments]
    GlobalHydra.instance().clear()
    assert main() in (None, 0), arguments
print("compiled", compiled())
"""


def test_every_shipped_component_is_rehearsed() -> None:
    found = rehearsals()
    for group in ("acq", *COMPONENTS, *MORE):
        left_out = set(options(group)) - {rehearsal.names.get(group) for rehearsal in found}
        assert all(name in ("gpyopt", "gp_transfer") or name.startswith("transfer_") for name in left_out), left_out
    assert {r.names["utility"] for r in found if r.names["acq"] == "ei"} == {*options("utility")}
    assert all(set(rehearsal.sizes) <= set(sizes()) for rehearsal in found)


@pytest.mark.slow
def test_nothing_is_compiled_twice(tmp_path: Path) -> None:
    """By other studies, one of them with a worker; in a copy of the cache, to which other tests go on adding."""
    cache = tmp_path / "cache"
    if folder().path.is_dir():
        shutil.copytree(folder().path, cache / folder().path.name, ignore=shutil.ignore_patterns(".*", "reported"))
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)

    said = run("-m", "harness.compile_all").stdout
    assert re.match(r"\d+ functions compiled in .*; what is compiled is in ", said), said
    kept = {path: path.stat().st_mtime_ns for path in cache.rglob("*.bin")}
    assert len(kept) > 50
    for path in cache.rglob("reported"):
        path.unlink()
    done = run("-c", RUN, json.dumps([(*study, *PROBLEM, f"results_dir={k}") for k, study in enumerate(STUDIES)]))
    assert done.stdout.splitlines()[-1] == "compiled 0" and NOTICE not in done.stderr
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*.bin")} == kept

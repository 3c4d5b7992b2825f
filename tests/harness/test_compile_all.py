"""After `python -m harness.compile_all` nothing is compiled: not by another process, nor by a study's workers."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from compile_once import compiled

from harness.compile_all import COMPONENTS, rehearsals, sizes
from harness.compile_cache import NOTICE
from harness.config import options

ROOT = Path(__file__).resolve().parents[2]
PROBLEM = ("dataset=[phoneme]", "pipeline=[onehot]", "seeds=[1]")  # another than the rehearsals'

SERIAL = (
    ("study=utilities", "iterations=7"),
    ("+acq=cei", "lam=0.1", "iterations=175", "fronts=true"),
    ("+acq=ei", "surrogate=rf", "cost_model=gp_lv", "iterations=12"),
)
AGAIN = """
import json, sys
from hydra.core.global_hydra import GlobalHydra
from harness.__main__ import main
from harness.compile_all import rehearsals, rehearse
from harness.compile_cache import compiled

for arguments in json.loads(sys.argv[1]):
    sys.argv = ["harness", *arguments]
    GlobalHydra.instance().clear()
    assert main() in (None, 0), arguments
for rehearsal in rehearsals():
    rehearse(rehearsal)
print("compiled", compiled())
"""


def own_copy(cache: Path, folder: Path) -> Path:
    """Copy what is compiled: other tests go on adding to the cache that a whole run shares."""
    for path in cache.rglob("*.bin"):
        (folder / path.parent.name).mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, folder / path.parent.name)
    return folder


def run(cache: Path, folder: Path, *arguments: str) -> tuple[str, bool]:
    """Run a command; return what it printed, and whether anything was compiled by it or its workers."""
    for told in cache.rglob("told"):
        told.unlink()
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *([] if arguments[0] == "-c" else ["-m"]), *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout, NOTICE in done.stderr


def test_every_shipped_component_is_rehearsed() -> None:
    found = rehearsals()
    for group in ("acq", *COMPONENTS):
        named = {rehearsal.names[group] for rehearsal in found}
        left_out = set(options(group)) - named
        assert all(name == "gpyopt" or name.startswith("transfer_") for name in left_out), left_out
    assert {rehearsal.names["utility"] for rehearsal in found if rehearsal.names["acq"] == "ei"} == {
        *options("utility")
    }
    assert all(set(rehearsal.sizes) <= set(sizes()) for rehearsal in found)


@pytest.mark.slow
def test_nothing_is_compiled_twice(tmp_path: Path) -> None:
    """By studies, one of them with workers, and by the same rehearsals in a process that only loads."""
    cache = own_copy(compiled(tmp_path / "cache")[0], tmp_path / "own")
    said, _ = run(cache, tmp_path, "harness.compile_all")
    assert re.match(r"\d+ functions compiled in .*; what is compiled is in ", said), said
    kept = {path: path.stat().st_mtime_ns for path in cache.rglob("*.bin")}
    _, any_compiled = run(cache, tmp_path, "harness", "study=paper", "iterations=9", *PROBLEM, "executor=local")
    assert not any_compiled
    again = [arguments + PROBLEM + (f"results_dir={k}", "executor=serial") for k, arguments in enumerate(SERIAL)]
    said, any_compiled = run(cache, tmp_path, "-c", AGAIN, json.dumps(again))
    assert (said.splitlines()[-1], any_compiled) == ("compiled 0", False)
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*.bin")} == kept

"""All components rehearsed twice by `python -m harness.compile_all`: the second time nothing may be compiled."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.compile_cache import NOTICE

ROOT = Path(__file__).resolve().parents[2]


def main(settings: dict[str, int]) -> list[str]:
    """Compile everything in an empty folder, and again; returns what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        first, _ = _compile_all(Path(folder))
        kept = _files(Path(folder))
        said, noticed = _compile_all(Path(folder))
        changed = _files(Path(folder)) != kept
    failures = []
    if not (counted := re.match(r"[1-9]\d* functions compiled", first)):
        failures.append(f"compiled: nothing was compiled in an empty folder: {first!r}")
    if not said.startswith("0 functions compiled in ") or noticed:
        failures.append(f"compiled: the second time said {said!r}")
    if changed:
        failures.append("compiled: the second time changed files")
    print(f"compiled: {counted[0] if counted else first}, then {'some' if failures else 'none'}")
    return failures


def _compile_all(folder: Path) -> tuple[str, bool]:
    for told in folder.rglob("told"):
        told.unlink()  # else the notice is not repeated
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "harness.compile_all"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout, NOTICE in done.stderr


def _files(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.bin")}

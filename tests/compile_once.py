"""Compiling once: two processes call the compiled functions with an empty cache, which others then load from.

When several workers run the whole suite, these processes start before they do, and their cache is everybody's: else
each worker would compile what it needs, which takes longer than most tests.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
_SHARED = "COMPILED_BY_THE_TESTS"  # names the folder of a whole run's cache to its workers
_SAID = "said"
_made: list[tuple[Path, str]] = []


def call(folder: Path) -> str:
    """Call the compiled functions in fresh processes with the cache in `folder` and return what these printed."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "tests" / "compiled_functions.py")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    running = [subprocess.Popen([*command, part], env=environment, text=True, **pipes) for part in "01"]
    said = [process.communicate(timeout=1800) for process in running]
    failed = [err for process, (_, err) in zip(running, said, strict=True) if process.returncode != 0]
    return "".join(failed) or "".join(out for out, _ in said)


def compiled(folder: Path) -> tuple[Path, str]:
    """Return a cache and what the processes that filled it printed: the run's own, or else that first made here."""
    if _SHARED in os.environ:
        folder = Path(os.environ[_SHARED])
        return folder, (folder / _SAID).read_text()
    if not _made:
        _made.append((folder, call(folder)))
    return _made[0]


def start(config: pytest.Config) -> None:
    """In the process that starts the workers of a whole run, begin to compile for them."""
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if whole and config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        folder = Path(tempfile.mkdtemp(prefix="compiled-"))
        os.environ[_SHARED] = os.environ["NUMBA_CACHE_DIR"] = str(folder)
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        threading.Thread(target=_compile, args=(folder,), daemon=True).start()


def _compile(folder: Path) -> None:
    said = "not called"
    try:
        said = call(folder)
    finally:
        (folder / f".{_SAID}").write_text(said)
        (folder / f".{_SAID}").rename(folder / _SAID)


def wait() -> None:
    """Wait until what a whole run shares is compiled."""
    while _SHARED in os.environ and not (Path(os.environ[_SHARED]) / _SAID).exists():
        time.sleep(0.05)

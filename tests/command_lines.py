"""Command lines in one process of their own, not under the type checker, as users run them; it starts up only once."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from harness.compile_cache import NOTICE

ROOT = Path(__file__).resolve().parents[1]
_HOME = {"DATASETS_HOME": str(Path(home).absolute())} if (home := os.environ.get("DATASETS_HOME")) else {}
ENVIRONMENT = {
    **os.environ,
    **_HOME,
    "PYTHONPATH": str(ROOT),
}  # a relative folder is meant from here, wherever they run
_DRIVER = """
import contextlib, importlib.util, io, json, os, sys
from hydra._internal.hydra import Hydra
from hydra.core.global_hydra import GlobalHydra
import harness.__main__
from harness.cli import run_cli

Hydra.get_mode = lambda *_, **__: None  # else all settings are composed twice, only to find that nobody set hydra.mode

for line in sys.stdin:
    folder, module, arguments = json.loads(line)
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    sys.argv = [module, *arguments]
    package = importlib.util.find_spec(module).submodule_search_locations is not None
    main = importlib.import_module(module + ".__main__" if package else module).main
    harness.__main__._exit_code = 0
    GlobalHydra.instance().clear()
    code, out, err = 0, io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            run_cli(main)
    except SystemExit as stopped:
        code = stopped.code or 0
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""


def without_notice(err: str) -> str:
    """Return standard error without the line that a command says where it is the first to compile something."""
    return "".join(line for line in err.splitlines(keepends=True) if line.strip() != NOTICE)


@dataclass(frozen=True)
class Done:
    """How a command line ended, as `subprocess.CompletedProcess` says it."""

    returncode: int
    stdout: str
    stderr: str


class CommandLines:
    """`python -m MODULE ARGUMENTS` in a folder, one after the other; modules are found in `more` too.

    cache: where what is learned and kept lies, None for the user's own.
    """

    def __init__(self, *more: Path, cache: Path | None = None) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        environment = ENVIRONMENT | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, *more)))}
        if cache is not None:
            environment["COST_AWARE_BO_CACHE"] = str(cache)
        self._process = subprocess.Popen([sys.executable, "-c", _DRIVER], env=environment, text=True, cwd=ROOT, **pipes)

    def __call__(self, module: str, *arguments: str, cwd: Path) -> Done:
        """Run one command line to its end."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(cwd), module, arguments]) + "\n")
        self._process.stdin.flush()
        code, out, err = json.loads(self._process.stdout.readline())
        return Done(code, out, without_notice(err))

    def close(self) -> None:
        """End the process."""
        self._process.communicate()

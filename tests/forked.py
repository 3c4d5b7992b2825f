"""Short-lived processes, to be killed or counted: each is forked from one that has done the imports, most of the time.

What a process forked here runs is a program of its own, as `python -c` runs it, but for the modules there already.
"""

import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# a program that runs a study, and what it imports
STUDY = "from harness.__main__ import main; from harness.cli import run_cli; run_cli(main)"
USED_BY_STUDIES = (
    *("hydra", "harness.__main__", "harness.cli", "harness.study", "harness.execution", "harness.optimizer"),
    *("harness.surrogates.gp", "harness.live", "tabular_cache.replay"),
)
_SERVE = """
import json, os, sys, traceback

def run(task):
    code = 1
    try:
        for number, name in ((0, os.devnull), (1, task["out"]), (2, task["err"])):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), number)
        os.environ.clear()
        os.environ.update(task["environment"])
        sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in os.environ  # read at the start of an interpreter only
        os.chdir(task["cwd"])
        sys.path[:0] = [path for path in task["environment"].get("PYTHONPATH", "").split(os.pathsep) if path]
        sys.argv = ["-c", *task["arguments"]]
        exec(compile(task["program"], "<string>", "exec"), {"__name__": "__main__"})
        code = 0
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else int(done.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

for line in sys.stdin:
    task = json.loads(line)
    if "program" in task:
        answer = os.fork() or run(task)
    else:
        pid, status = os.waitpid(task["pid"], task["flags"])
        answer = os.waitstatus_to_exitcode(status) if pid else None
    print(json.dumps(answer), flush=True)
"""


class Process:
    """One of them; its standard output and error lie in files, `out` and `err`."""

    def __init__(self, server: "Forked", pid: int, out: Path, err: Path) -> None:
        self._server, self.pid, self.out, self.err = server, pid, out, err
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, or None while the process runs."""
        return self._wait(os.WNOHANG)

    def wait(self) -> int:
        """Wait for the process to end and return its exit code."""
        code = self._wait(0)
        assert code is not None
        return code

    def kill(self) -> int:
        """Kill the process as if the power failed."""
        os.kill(self.pid, signal.SIGKILL)
        return self.wait()

    def _wait(self, flags: int) -> int | None:
        if self._code is None:
            self._code = self._server.ask(pid=self.pid, flags=flags)
        return self._code


class Forked:
    """Starts processes; `imports`, a program, is run once, in the process that they are all forked from."""

    def __init__(self, imports: str) -> None:
        self._folder, self._numbers = tempfile.TemporaryDirectory(prefix="forked-"), itertools.count()
        self._environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests")))}
        command = [sys.executable, "-c", f"{imports}\n{_SERVE}"]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
        self._server = subprocess.Popen(command, cwd=ROOT, env=self._environment, **pipes)

    def __enter__(self) -> "Forked":
        return self

    def __exit__(self, *_: object) -> None:
        self._server.communicate()
        self._folder.cleanup()

    def start(
        self, program: str, *arguments: str, cwd: Path = ROOT, environment: Mapping[str, str] | None = None
    ) -> Process:
        """Start a process in a folder and an environment (None: this one's)."""
        out, err = (Path(self._folder.name) / f"{next(self._numbers)}.{name}" for name in ("out", "err"))
        there = {"cwd": str(cwd), "environment": dict(self._environment if environment is None else environment)}
        pid = self.ask(program=program, arguments=arguments, out=str(out), err=str(err), **there)
        return Process(self, int(pid), out, err)

    def ask(self, **task: Any) -> Any:
        """Let the process that forks do something, and return its answer."""
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.write(f"{json.dumps(task)}\n")
        return json.loads(self._server.stdout.readline())

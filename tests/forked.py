"""Processes that are meant to be killed: each is forked from one that has done the imports, which take most time."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[1]
_SERVE = """
import os as _os, sys as _sys, traceback as _traceback

for _line in _sys.stdin:
    _log = _line.rstrip("\\n")
    _pid = _os.fork()
    if not _pid:
        _code = 1
        try:
            _to = _os.open(_log, _os.O_WRONLY | _os.O_CREAT | _os.O_APPEND, 0o600)
            _os.dup2(_to, 1)
            main()
            _sys.stdout.flush()
            _code = 0
        except BaseException:
            _traceback.print_exc()
        finally:
            _os._exit(_code)
    print(_pid, flush=True)
    print(_os.waitstatus_to_exitcode(_os.waitpid(_pid, 0)[1]), flush=True)
"""


class Forked:
    """Runs the `main()` of a program again and again, one at a time; `arguments` are the program's.

    The first statements of the program, its imports, are run once.
    """

    def __init__(self, program: str, *arguments: str) -> None:
        command = [sys.executable, "-c", program + _SERVE, *arguments]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests")))}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._parent = subprocess.Popen(command, cwd=ROOT, env=environment, text=True, bufsize=1, **pipes)  # type: ignore[call-overload]

    def __enter__(self) -> "Forked":
        return self

    def __exit__(self, *_: object) -> None:
        self._parent.communicate()

    def start(self, log: Path) -> int:
        """Start a process whose standard output goes to `log`; return its id."""
        self._pipe(self._parent.stdin).write(f"{log}\n")
        self._pid = int(self._pipe(self._parent.stdout).readline())
        return self._pid

    def ended(self) -> bool:
        """Say whether the process has ended by itself; `wait` or `kill` then says how."""
        return bool(select.select([self._parent.stdout], [], [], 0)[0])

    def wait(self) -> int:
        """Wait for the process to end and return its exit code, negative for a signal."""
        return int(self._pipe(self._parent.stdout).readline())

    def kill(self) -> int:
        """Kill the process as the power failing would."""
        os.kill(self._pid, signal.SIGKILL)
        return self.wait()

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe

"""Drivers to be killed: each a forked process that runs `python -m harness` in a folder of its own, imports done."""

import contextlib
import hashlib
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from harness import __main__ as command
from harness.cli import run_cli

ARGUMENTS = ["study=demo", "dataset=[abalone]", "pipeline=[clean]", "seeds=[0,1]", "iterations=12"]


def start(log: Path, arguments: list[str], before: Callable[[], None] = lambda: None) -> int:
    """Start a driver; `before` is called in it first. Returns its process id."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        os.setsid()
        with log.open("a") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        sys.argv = ["harness", *arguments]
        before()
        run_cli(command.main)
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else 1
    except KeyboardInterrupt:  # before the command could take it
        code = 130
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def finish(pid: int, within_s: float = 600.0) -> int | None:
    """Wait for a driver and return its exit code, -signal if it was killed, None (and kill it) if it hangs."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def catches(pid: int, number: int) -> bool:
    """Say whether a process has a handler of its own for a signal."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next(line.split()[1] for line in lines if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> (number - 1) & 1)


def children(pid: int) -> list[int]:
    """Return the processes that `pid` has started."""
    try:
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def traces(results: Path) -> dict[str, str]:
    """Return the digests of all traces below `results`, by path."""
    files = (p for p in results.rglob("seeds-*.parquet") if not p.name.endswith(".timings.parquet"))
    return {str(p.relative_to(results)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def small_files(limit: int) -> Callable[[], None]:
    """Return what makes every write beyond `limit` bytes fail, as on a full disk."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def jumping_clock(offsets: list[float]) -> Callable[[], None]:
    """Return what makes the wall clock jump by one of `offsets` (seconds) at every look."""

    def jump() -> None:
        now, looks = time.time, iter(range(10**9))
        time.time = lambda: now() + offsets[next(looks) % len(offsets)]  # type: ignore[assignment]

    return jump

"""Work in a child process with a limit that the kernel enforces, whatever the work is doing: CPU seconds, and wall.

The limit is a CPU timer of the child itself (setitimer, ITIMER_PROF: user and system time of all its threads), whose
signal ends it: compiled code that never returns to Python cannot escape it. POSIX only.
"""

import multiprocessing
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext
from typing import Any

from datasets.errors import BadInput

DONE, CAPPED, BROKEN = "done", "capped", "broken"
_LEAST_CPU_S = 1e-6  # work that the clock does not notice
_PATIENCE, _LEAST_S = 100.0, 300.0  # wall seconds allowed: so many times the CPU limit, and at least so many


@dataclass(frozen=True)
class Outcome:
    """How work in a child ended.

    status: ``done``; ``capped``: ended at its limit; ``broken``: by itself, with an error or a signal, or it hung.
    value: what the function returned, or a program's exit code, if done; note: why, if broken. cpu_s: CPU seconds of
    the work; the limit, if it was capped or hung; the limit or the wall seconds, the fewer, if it died without a word.
    wall_s: wall seconds, start-up included.
    """

    status: str
    value: Any
    cpu_s: float
    wall_s: float
    note: str = ""


def call(function: Callable[..., Any], args: tuple[Any, ...], cap_s: float, preload: Sequence[str] = ()) -> Outcome:
    """Run `function(*args)` (importable, picklable) in a fresh child for at most `cap_s` CPU seconds.

    Children come from one server process that has imported the modules `preload`, which costs them no time.
    """
    _check(cap_s)
    context = _context()
    context.set_forkserver_preload(["harness.child", *preload])
    began = time.perf_counter()
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(theirs, function, args, cap_s), daemon=True)
    process.start()
    theirs.close()
    wait([ours, process.sentinel], timeout=_patience(cap_s))
    try:
        answer = ours.recv() if ours.poll() else None
    except EOFError:
        answer = None
    if answer is None and process.is_alive():
        process.join(1.0)  # the pipe closes a little before the process is gone
        if process.is_alive():
            process.kill()
            process.join()
            return Outcome(BROKEN, None, cap_s, time.perf_counter() - began, "hung: no CPU time and no answer")
    process.join()
    code, wall_s = process.exitcode, time.perf_counter() - began
    ours.close()
    process.close()
    if answer is not None:
        status, value, cpu_s, note = answer
        return Outcome(status, value, max(cpu_s, _LEAST_CPU_S), wall_s, note)
    if code == -signal.SIGPROF:
        return Outcome(CAPPED, None, cap_s, wall_s)
    return Outcome(BROKEN, None, min(cap_s, wall_s), wall_s, f"ended with exit code {code}")


def _context() -> ForkServerContext:
    """Return the context of children; a child is told its parent's default method, which it must know to start.

    In a worker of loky that is "loky", known only where loky has been imported.
    """
    if multiprocessing.get_start_method(allow_none=True) not in (None, *multiprocessing.get_all_start_methods()):
        multiprocessing.set_start_method("forkserver", force=True)
    return multiprocessing.get_context("forkserver")


def end_with_parent(parent: int) -> None:
    """End this process within a second or two of the end of its parent, whose id this is, whatever it is doing."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def limit_cpu(seconds: float | None) -> None:
    """Have the kernel end this process, by SIGPROF, after `seconds` more of CPU time; None: lift that limit."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds or 0.0)


def _work(answers: Connection, function: Callable[..., Any], args: tuple[Any, ...], cap_s: float) -> None:
    limit_cpu(cap_s)
    began = time.process_time()
    try:
        answer = (DONE, function(*args), time.process_time() - began, "")
    except Exception as error:  # belongs to the caller, as a status
        answer = (BROKEN, None, time.process_time() - began, f"{type(error).__name__}: {error}")
    limit_cpu(None)
    answers.send(answer)
    answers.close()


def program(command: Sequence[str], cap_s: float) -> Outcome:
    """Run a program, its output thrown away, for at most `cap_s` CPU seconds; raises BadInput if it cannot start."""
    _check(cap_s)
    began = time.perf_counter()
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: limit_cpu(cap_s),  # survives exec
        )
    except OSError as error:
        raise BadInput(f"cannot run {command[0]}: {error}") from None
    code, usage, hung = _reap(process, _patience(cap_s))
    wall_s, cpu_s = time.perf_counter() - began, usage.ru_utime + usage.ru_stime
    if code == -signal.SIGPROF:
        return Outcome(CAPPED, None, cap_s, wall_s)
    if hung or code < 0:
        note = "hung: no CPU time and no answer" if hung else f"ended by signal {-code}"
        return Outcome(BROKEN, None, max(cpu_s, _LEAST_CPU_S), wall_s, note)
    return Outcome(DONE, code, max(cpu_s, _LEAST_CPU_S), wall_s)


def _reap(process: "subprocess.Popen[bytes]", patience_s: float) -> tuple[int, Any, bool]:
    """Wait for the program and return its exit code, its own resource usage, and whether it had to be killed."""
    deadline, pause, hung = time.perf_counter() + patience_s, 0.0005, False
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, usage, hung
        if time.perf_counter() > deadline and not hung:
            hung = True
            process.kill()
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


def _patience(cap_s: float) -> float:
    return max(_LEAST_S, _PATIENCE * cap_s)


def _check(cap_s: float) -> None:
    if not 0.0 < cap_s < float("inf"):
        raise ValueError(f"cap_s must be a finite number of seconds > 0, got {cap_s}")

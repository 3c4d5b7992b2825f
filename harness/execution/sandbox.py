"""Work in child processes under limits that the kernel enforces, whatever the work is doing.

`call` runs a function and `program` a program, each in a fresh child; `train_within` trains in one child per process,
which keeps the data. CPU seconds are limited by a timer of the child itself (setitimer, ITIMER_PROF: user and system
time of all its threads), whose signal ends it: compiled code that never returns to Python cannot escape it. POSIX only.
"""

import atexit
import multiprocessing
import os
import pickle
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import IO, Any

import numpy as np
from jaxtyping import Float

from harness.errors import BadInput
from harness.problem import FAILED, OUT_OF_MEMORY, TIMEOUT
from harness.training import Training, train
from pipelines.prepared import Prepared

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
    context.set_forkserver_preload(["harness.execution.sandbox", *preload])
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


# The child that trains: it takes the data, then trainings, each under its limits, and answers.

_MB = 1 << 20
_BEYOND_S = 2  # CPU seconds beyond the limit, which is the rounds', before the system steps in
_SCORING, _SCORING_S = 20.0, 60.0  # so many times the limit, and so many seconds, for what follows the rounds


@dataclass(frozen=True)
class Limits:
    """What one training may take: CPU seconds, and MB of memory beyond the data's; None: no limit."""

    seconds: float | None = None
    memory_mb: float | None = None


def serve() -> None:
    """Take data, then trainings, until the parent, whose process id is the argument, closes its end, or ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's; our end follows from its
    end_with_parent(int(sys.argv[1]))
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    data: Any = None
    while True:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        if isinstance(request, Prepared):
            data = request
            send(answers, ("ready", time.process_time()))
            continue
        send(answers, (_train(data, *request), time.process_time()))


def _train(data: Prepared, x: Float[np.ndarray, " d"], tree_method: str, limits: Limits) -> Training:
    cpu, wall = time.process_time(), time.perf_counter()
    seconds, memory = limits.seconds, limits.memory_mb
    limit_cpu(None if seconds is None else seconds + _BEYOND_S)

    def scoring() -> None:
        limit_cpu(None if seconds is None else _SCORING * seconds + _SCORING_S)

    _limit_memory(None if memory is None else _address_space() + int(memory * _MB))
    try:
        return train(data, x, (), tree_method, seconds, fitted=scoring)
    except MemoryError:  # in scoring
        _limit_memory(None)
        spent = time.process_time() - cpu
        return nothing(OUT_OF_MEMORY, "no memory left for scoring", spent, time.perf_counter() - wall)
    finally:
        _limit_memory(None)
        limit_cpu(None)


def _limit_memory(most: int | None) -> None:
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY if most is None else most, hard))


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def send(stream: IO[bytes] | None, message: Any) -> None:
    """Write one message; raises OSError where nobody listens any more."""
    assert stream is not None
    pickle.dump(message, stream, protocol=5)
    stream.flush()


def nothing(status: str, note: str, cpu_s: float, wall_s: float) -> Training:
    """Return a training without rounds that ended with this status; seconds spent, CPU and wall."""
    none = np.empty(0)
    names = ("val_error", "test_error", "val_loss", "test_loss", "cpu_s", "wall_s", "scaled_s")
    return Training(
        rounds=np.empty(0, np.int64), **dict.fromkeys(names, none), status=status, note=note,
        spent_cpu_s=cpu_s, spent_wall_s=wall_s, spent_scaled_s=cpu_s,
    )  # fmt: skip


# The parent of that child: trainings under limits that hold, since the system itself ends what exceeds them.
#
# CPU seconds: checked after every round by the training itself; the kernel ends the child in a round that does not end
# (`limit_cpu`). Memory: RLIMIT_AS, what the child holds with the data loaded plus the limit; XGBoost then fails, or the
# child dies. Wall seconds: the parent ends a child that neither answers nor works. One child per process; it is started
# again after it died. Parent and child speak in pickles over pipes, which nobody else can write to.
#
# `call` starts a new child for every piece of work; here one is kept, since loading the data takes longer than most
# trainings do, and a limit on memory beyond the data needs a process that holds them.

START_S = 300.0  # for the child to start and load, on a busy machine
_SLACK = 20.0  # wall seconds per CPU second before a child counts as hung
SERVE = "from harness.execution.sandbox import serve; serve()"
_DEATHS = {signal.SIGPROF: TIMEOUT, signal.SIGKILL: OUT_OF_MEMORY, signal.SIGABRT: OUT_OF_MEMORY}


class Trainer:
    """A child process that trains; `train` never raises for what a training does."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._data: Prepared | None = None
        self._child_cpu_s = 0.0  # when it last answered

    def train(self, data: Prepared, x: Float[np.ndarray, " d"], tree_method: str, limits: Limits) -> Training:
        """Return the training of `x`; past a limit, or if the child dies, one with that status and no rounds."""
        ended, start = _cpu_of_ended(), time.perf_counter()
        try:
            child = self._ready(data)
            send(child.stdin, (x, tree_method, limits))
            wall = None if limits.seconds is None else START_S + _SLACK * limits.seconds
            result: Training = self._answer(child, wall)
            return result
        except (EOFError, OSError, TimeoutError) as error:
            status, note = self._ended(error, limits)
            spent = _cpu_of_ended() - ended - self._child_cpu_s
            if status == TIMEOUT:
                spent = max(spent, limits.seconds or 0.0)
            return nothing(status, note, max(spent, 1e-6), time.perf_counter() - start)

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
        self._child = self._data = None

    def _answer(self, child: "subprocess.Popen[bytes]", wall_s: float | None) -> Any:
        answer, self._child_cpu_s = _receive(child.stdout, wall_s)
        return answer

    def _ready(self, data: Prepared) -> "subprocess.Popen[bytes]":
        if self._child is None or self._child.poll() is not None:
            command = [sys.executable, "-c", SERVE, str(os.getpid())]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
            pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            self._child, self._data, self._child_cpu_s = subprocess.Popen(command, env=environment, **pipes), None, 0.0
        if self._data is not data:
            send(self._child.stdin, data)
            self._answer(self._child, START_S)
            self._data = data
        return self._child

    def _ended(self, error: BaseException, limits: Limits) -> tuple[str, str]:
        assert self._child is not None
        self._child.kill() if isinstance(error, TimeoutError) else None
        self._child.communicate()
        number, self._child = self._child.returncode, None
        if isinstance(error, TimeoutError):
            return TIMEOUT, "the training process did not answer"
        status = _DEATHS.get(signal.Signals(-number), FAILED) if number < 0 else FAILED
        if status == OUT_OF_MEMORY and -number == signal.SIGABRT and limits.memory_mb is None:
            status = FAILED
        return status, f"the training process ended with {signal.Signals(-number).name if number < 0 else number}"


_trainer: Trainer | None = None


def train_within(data: Prepared, x: Float[np.ndarray, " d"], tree_method: str, limits: Limits) -> Training:
    """Train in this process's child, which is started when it is first needed and ends with this process."""
    global _trainer
    if _trainer is None:
        _trainer = Trainer()
        atexit.register(_trainer.close)
    return _trainer.train(data, x, tree_method, limits)


def _cpu_of_ended() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _receive(stream: IO[bytes] | None, wall_s: float | None) -> Any:
    assert stream is not None
    if not select.select([stream], [], [], wall_s)[0]:
        raise TimeoutError
    return pickle.load(stream)

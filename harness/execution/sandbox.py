"""Work in child processes, under limits that hold whatever the work is doing.

A `Child` is a Python process that does one task after the other and keeps what it has imported and loaded; it can die
or be ended without harm to this one. `call` and `program` run a function or a program in a fork of such a child, which
the kernel ends at a limit of CPU seconds. `limit_cpu` and `limited_memory` are for the work itself. POSIX only.
"""

import atexit
import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.pool import ExceptionWithTraceback  # type: ignore[attr-defined]  # an error with its traceback
from pathlib import Path
from typing import Any

from harness.errors import BadInput

DONE, RAISED, CAPPED, HUNG, DIED = "done", "raised", "capped", "hung", "died"
START_S = 300.0  # for a child to start, on a busy machine
_LEAST_CPU_S = 1e-6  # work that the clock does not notice
_PATIENCE, _LEAST_S = 100.0, 300.0  # wall seconds allowed to calls: so many times the CPU limit, and at least so many
_WATCH_S = 0.02  # between two looks at what a program has started
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_SERVE = "from harness.execution.sandbox import serve; serve()"


@dataclass(frozen=True)
class Outcome:
    """How a task in a child ended.

    status: ``done``, ``raised`` (value: the exception), ``capped`` (the kernel ended it at its CPU limit), ``hung``
    (ended after its wall seconds) or ``died`` (code: the process's exit code, -signal). cpu_s, wall_s: seconds spent;
    wall_s includes the start of a child. note: why there is no value.
    """

    status: str
    value: Any
    cpu_s: float
    wall_s: float = 0.0
    note: str = ""
    code: int = 0


class Child:
    """A process that does what it is asked, one task at a time; started when needed, and again after it ended.

    quiet: throw away what it prints. preload: modules that it imports at its start.
    """

    def __init__(self, quiet: bool = False, preload: Sequence[str] = ()) -> None:
        self._quiet, self._preload = quiet, preload
        self._process: subprocess.Popen[bytes] | None = None
        self._cpu_s = 0.0  # of the process, when it last answered
        self._lock, self._killed = threading.Lock(), False
        self._asking = threading.Lock()  # one question at a time: answers carry no names

    def ask(self, function: Callable[..., Any], *args: Any, wall_s: float | None = None) -> Outcome:
        """Run `function(*args)`, which can be pickled, in the child; past `wall_s` seconds the child is ended."""
        with self._asking:
            began = time.perf_counter()
            try:
                if self.pid is None:
                    self._start()
                self._link.send((function, args))
                status, value, cpu_s = self._receive(wall_s)
            except (EOFError, OSError) as error:  # TimeoutError is one
                return self._ended(isinstance(error, TimeoutError), began)
            spent, self._cpu_s = cpu_s - self._cpu_s, cpu_s
            note = f"{type(value).__name__}: {value}" if status == RAISED else ""
            return Outcome(status, value, max(spent, _LEAST_CPU_S), time.perf_counter() - began, note)

    @property
    def pid(self) -> int | None:
        """The id of the process; None if there is none now."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def kill(self) -> None:
        """End the process and its forks, and start none before `close`; who waits for an answer gets ``died``."""
        with self._lock:
            self._killed = True
            if self._process is not None and self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the process and wait for its end."""
        self.kill()
        if self._process is not None:
            self._process.wait()
            self._link.close()
        self._process, self._killed = None, False

    def _start(self) -> None:
        """Start the process, in a group of its own, which Ctrl-C at a terminal does not reach."""
        self._link, theirs = Pipe()
        command = [sys.executable, "-c", _SERVE, str(theirs.fileno()), str(os.getpid()), *self._preload]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "PYTHONHASHSEED": "0",  # the order of a set of strings, on which some optimizers' choices hang
        }
        output = subprocess.DEVNULL if self._quiet else None
        with theirs, self._lock:
            if self._killed:
                raise EOFError
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                pass_fds=[theirs.fileno()], process_group=0,
            )  # fmt: skip
        _, _, self._cpu_s = self._receive(START_S)

    def _receive(self, wall_s: float | None) -> tuple[str, Any, float]:
        if not self._link.poll(wall_s):
            raise TimeoutError
        answer: tuple[str, Any, float] = self._link.recv()
        return answer

    def _ended(self, hung: bool, began: float) -> Outcome:
        """Wait for the end of the process, killing it if it hangs, and say how it ended."""
        cpu_s, code, process = 0.0, 0, self._process
        if process is not None:
            if hung:
                os.killpg(process.pid, signal.SIGKILL)
            if process.returncode is None:
                _, raw, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(raw)
                cpu_s = usage.ru_utime + usage.ru_stime - self._cpu_s
            code = process.returncode
        self._link.close()
        self._process = None
        status = HUNG if hung else CAPPED if code == -signal.SIGPROF else DIED
        note = "did not answer in time" if hung else f"ended with {exit_name(code)}"
        return Outcome(status, None, max(cpu_s, _LEAST_CPU_S), time.perf_counter() - began, note, code)


def exit_name(code: int) -> str:
    """Return an exit code as text, that of a signal with its name: SIGKILL(-9)."""
    return f"{signal.Signals(-code).name}({code})" if code < 0 else str(code)


# In the child.


def serve() -> None:
    """Do what the parent asks, until it closes its end or ends; arguments: file number, parent's id, modules."""
    link = Connection(int(sys.argv[1]))
    os.set_inheritable(link.fileno(), False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's; our end follows from its
    end_with_parent(int(sys.argv[2]))
    for module in sys.argv[3:]:
        import_module(module)
    link.send((DONE, None, time.process_time()))
    while True:
        try:
            function, args = link.recv()
            status, value = _attempt(function, args)
        except (EOFError, ConnectionError):
            return
        except Exception as error:  # the task cannot be loaded here
            status, value = RAISED, ExceptionWithTraceback(error, error.__traceback__)
        _answer(link, status, value)


def _attempt(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[str, Any]:
    try:
        return DONE, function(*args)
    except BaseException as error:  # belongs to the caller
        return RAISED, ExceptionWithTraceback(error, error.__traceback__)


def _answer(link: Connection, status: str, value: Any) -> None:
    try:
        link.send((status, value, time.process_time()))
    except OSError:
        raise
    except Exception as error:  # it cannot be pickled
        reason = RuntimeError(f"cannot hand over {type(value).__name__}: {error}")
        link.send((RAISED, reason, time.process_time()))


def end_with_parent(parent: int) -> None:
    """End this process within a second or two of the end of its parent, whose id this is, whatever it is doing."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os.killpg(0, signal.SIGKILL)  # with its forks and what these started: it leads a group of its own

    threading.Thread(target=watch, daemon=True).start()


def limit_cpu(seconds: float | None) -> None:
    """Have the kernel end this process, by SIGPROF, after `seconds` more of CPU time; None: lift that limit.

    The timer (setitimer, ITIMER_PROF) counts user and system time of all threads, and outlasts exec: compiled code that
    never returns to Python cannot escape it.
    """
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds or 0.0)


@contextlib.contextmanager
def limited_memory(megabytes: float | None) -> Iterator[None]:
    """Within this context, let allocations fail that take this process beyond `megabytes` more than it has now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if megabytes is not None:
        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + int(megabytes * (1 << 20)), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


# Work in forks of a child, each under a limit of CPU seconds.


def call(function: Callable[..., Any], args: tuple[Any, ...], cap_s: float, preload: Sequence[str] = ()) -> Outcome:
    """Run `function(*args)`, which can be pickled, in a process of its own for at most `cap_s` CPU seconds.

    The processes are forks of one that has imported the modules `preload`, which costs them no time. cpu_s is the
    function's, the limit if it was capped or hung.
    """
    if not 0.0 < cap_s < float("inf"):
        raise ValueError(f"cap_s must be a finite number of seconds > 0, got {cap_s}")
    outcome = _forker(tuple(preload)).ask(_fork, function, args, cap_s, wall_s=max(_LEAST_S, _PATIENCE * cap_s))
    if outcome.status == RAISED:
        raise outcome.value
    if outcome.status != DONE:  # the process that forks, with all that it started
        return Outcome(outcome.status, None, cap_s, outcome.wall_s, outcome.note, outcome.code)
    status, value, cpu_s, code = outcome.value
    note = f"{type(value).__name__}: {value}" if status == RAISED else f"ended with {exit_name(code)}" if code else ""
    return Outcome(status, value, max(cpu_s, _LEAST_CPU_S), outcome.wall_s, note, code)


def program(command: Sequence[str], cap_s: float) -> Outcome:
    """Run a program, its output thrown away, for at most `cap_s` CPU seconds; value: its exit code.

    The seconds of programs that it starts count too, and these end with it (on Linux; elsewhere its own alone).
    Raises BadInput if it cannot start.
    """
    outcome = call(os.execvp, (command[0], list(command)), cap_s)
    if outcome.status == RAISED:
        raise BadInput(f"cannot run {command[0]}: {outcome.value}")
    if outcome.status == DIED and outcome.code >= 0:
        return Outcome(DONE, outcome.code, outcome.cpu_s, outcome.wall_s)
    return outcome


@cache
def _forker(preload: tuple[str, ...]) -> Child:
    child = Child(quiet=True, preload=preload)
    atexit.register(child.close)
    return child


def _fork(function: Callable[..., Any], args: tuple[Any, ...], cap_s: float) -> tuple[str, Any, float, int]:
    """Run a function in a fork; return status, value, CPU seconds and exit code.

    What it started ends with it, and counts.
    """
    _adopt_orphans()
    reader, writer = Pipe(duplex=False)
    pid = os.fork()
    if not pid:
        try:
            limit_cpu(cap_s)
            status, value = _attempt(function, args)
            limit_cpu(None)
            _answer(writer, status, value)
        finally:
            os._exit(0)
    writer.close()
    with reader, contextlib.suppress(EOFError):  # it died, or is another program now
        status, value, cpu_s = reader.recv()
        os.waitpid(pid, 0)
        return status, value, cpu_s + _end_orphans(), 0
    with _family_watched(pid, cap_s) as passed:
        _, ended, usage = os.wait4(pid, 0)
    orphans_s, code = _end_orphans(), os.waitstatus_to_exitcode(ended)
    if code == -signal.SIGPROF or passed.is_set():
        return CAPPED, None, cap_s, code
    return DIED, None, usage.ru_utime + usage.ru_stime + orphans_s, code


@cache
def _adopt_orphans() -> None:
    """Have processes whose parent ends become this process's children (Linux: prctl, PR_SET_CHILD_SUBREAPER)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


def _end_orphans() -> float:
    """End all processes below this one, and return the CPU seconds that they have spent."""
    spent = 0.0
    while family := _family(os.getpid())[1:]:
        for process in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        for process in family:
            with contextlib.suppress(ChildProcessError):  # not ours before its parent has ended
                usage = os.wait4(process, 0)[2]
                spent += usage.ru_utime + usage.ru_stime
    return spent


@contextlib.contextmanager
def _family_watched(pid: int, cap_s: float) -> Iterator[threading.Event]:
    """Within this context, end a process and all below it once they have spent `cap_s` CPU seconds together.

    The timer of `limit_cpu` is one process's: that of a script does not see the programs that it starts.
    """
    over, passed = threading.Event(), threading.Event()

    def watch() -> None:
        while not over.wait(_WATCH_S):
            family = _family(pid)
            if sum(map(_spent_cpu_s, family)) >= cap_s:
                passed.set()
                for process in family:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)
                return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield passed
    finally:
        over.set()
        thread.join()


def _family(pid: int) -> list[int]:
    """Return a process and those below it, as far as /proc tells."""
    found = [pid]
    for process in found:
        with contextlib.suppress(OSError):
            for children in Path(f"/proc/{process}/task").glob("*/children"):
                found += map(int, children.read_text().split())
    return found


def _spent_cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process and of those below it that have ended; 0 where /proc does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS_PER_S

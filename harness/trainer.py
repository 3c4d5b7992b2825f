"""Trainings in a child process with limits that hold: the system itself ends what exceeds them.

CPU seconds: checked after every round by the training itself; the kernel ends the child in a round that does not end
(`harness.child.limit_cpu`). Memory: RLIMIT_AS, what the child holds with the data loaded plus the limit; XGBoost then
fails, or the child dies. Wall seconds: the parent ends a child that neither answers nor works. One child per process;
it is started again after it died. Parent and child speak in pickles over pipes of their own, which nobody else can
write to.

`harness.child.call` starts a new child for every piece of work; here one is kept, since loading the data takes longer
than most trainings do, and a limit on memory beyond the data needs a process that holds them.
"""

import atexit
import os
import pickle
import resource
import select
import signal
import subprocess
import sys
import time
from typing import IO, Any

import numpy as np
from jaxtyping import Float

from harness.problem import FAILED, OUT_OF_MEMORY, TIMEOUT
from harness.trainee import Limits, nothing, send
from harness.training import Training
from pipelines.prepared import Prepared

START_S = 300.0  # for the child to start and load, on a busy machine
_SLACK = 20.0  # wall seconds per CPU second before a child counts as hung
SERVE = "from harness.trainee import serve; serve()"
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

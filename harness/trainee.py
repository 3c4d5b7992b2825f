"""The child of `harness.trainer`: takes data, then trainings of them, each under its limits, and answers."""

import os
import pickle
import resource
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from jaxtyping import Float

from harness.child import end_with_parent, limit_cpu
from harness.problem import OUT_OF_MEMORY
from harness.training import Training, train
from pipelines.prepared import Prepared

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

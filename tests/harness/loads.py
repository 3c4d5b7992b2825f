"""What children do in the tests of limits, in a module of its own, which costs them next to nothing to import."""

import os
import signal
import time
from pathlib import Path

import numpy as np


def busy(seconds: float) -> float:
    """Spend CPU seconds in Python."""
    began = time.process_time()
    while time.process_time() - began < seconds:
        pass
    return seconds


def in_compiled_code() -> None:
    """Make one call that does not return for seconds."""
    np.linalg.svd(np.ones((6000, 3000)) + np.eye(6000, 3000))


def wrong() -> None:
    """Fail."""
    raise ValueError("wrong")


def endless_training() -> None:
    """Let trainings in this process never end, nor look at the clock."""
    from harness import training

    training.train, training._BEYOND_S = _endless, 0


def _endless(*arguments: object, **more: object) -> None:
    while True:
        pass


def killed_training() -> None:
    """Let trainings in this process be killed, as by the system for want of memory."""
    from harness import training

    training.train = lambda *arguments, **more: die_unless("")


def slow_scoring() -> None:
    """Let scoring in this process take 0.8 CPU seconds, and the system end rounds at their limit."""
    from harness import training

    scores = training._scores

    def slow(*arguments: object) -> object:
        busy(0.8)
        return scores(*arguments)

    training._scores, training._BEYOND_S = slow, 0


def die_unless(path: str) -> int:
    """Kill this process, once if `path` is not empty; return its id."""
    if not path or not Path(path).exists():
        if path:
            Path(path).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def sleep(seconds: float) -> int:
    """Sleep; return this process's id."""
    time.sleep(seconds)
    return os.getpid()


def alive(pid: int) -> bool:
    """Say whether a process runs, and is not just one that nobody has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

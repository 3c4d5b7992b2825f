"""What children do in the tests of limits, in a module of its own, which costs them next to nothing to import."""

import time

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

"""The reference machine: by what costs measured at different times and on different machines agree.

A machine's speed changes: by tens of percent between machines of one kind, and on shared hosts by up to a factor
of two within seconds, in CPU time too, since neighbours share its caches and its memory. So a short fixed workload,
the *probe*, is timed before, within and after each training, and a training's CPU seconds are divided by the
slowdown that it shows: these are its `scaled_s`, seconds on the reference machine at rest. How well that works is
measured by trainings repeated on several days (`tabular_cache.noise`), and by the *reference training*, one fixed
training timed every ten minutes: its own scaled seconds should never change.
"""

import time
from functools import lru_cache

import numpy as np

from harness.streams import stream
from harness.training import train
from pipelines.prepared import Prepared

PROBE_S = 0.0067  # CPU seconds of the probe on the reference machine (Xeon 2.5 GHz, family 6 model 85) at rest
EVERY_S = 600.0
_ROWS, _COLUMNS, _PASSES = 4000, 12, 6
_CONFIGURATION = np.array([40, 0.1, 0.0, 1e-3, 1.0, 0.8, 8])  # order of XGBOOST_SPACE
_TIMES = 3


@lru_cache(maxsize=1)
def _workload() -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    rng = stream(0, "probe")
    orders = [rng.permutation(_ROWS).astype(np.int32) for _ in range(_COLUMNS)]
    return orders, rng.normal(size=_ROWS), np.ones(_ROWS)


def probe() -> float:
    """Return the CPU seconds of the probe: gather gradients in the order of a feature, scan the gains of its splits.

    That is what the exact tree method does most of its time, without touching XGBoost (its random state is one
    per thread, so a training within a training would change the outer one).
    """
    orders, gradient, hessian = _workload()
    start, best = time.thread_time(), 0.0
    for _ in range(_PASSES):
        for order in orders:
            g, h = np.cumsum(gradient[order]), np.cumsum(hessian[order])
            gain = g * g / (h + 1.0) + (g[-1] - g) ** 2 / (h[-1] - h + 1.0)
            best = max(best, float(gain.max()))
    return time.thread_time() - start


def pace() -> float:
    """Return how many times slower this machine is now than the reference machine at rest."""
    return probe() / PROBE_S


@lru_cache(maxsize=1)
def _data() -> Prepared:
    rng = stream(0, "reference training")
    X = rng.normal(size=(4200, 20)).astype(np.float32)
    y = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + 0.1 * rng.normal(size=len(X))
    train_rows, rest = slice(0, 4000), slice(4000, 4200)
    return Prepared(
        dataset="reference", pipeline="none", task="regression", n_classes=0,
        X_train=X[train_rows], X_valid=X[rest], X_test=X[rest],
        y_train=y[train_rows], y_valid=y[rest], y_test=y[rest],
        width_before=20, width_after=20, fit_seconds=0.0, mark="", data_hash="reference", dropped=(),
    )  # fmt: skip


def time_reference() -> tuple[float, float]:
    """Return the CPU seconds of the reference training and its scaled seconds: medians of three."""
    runs = [train(_data(), _CONFIGURATION, (), pace=pace) for _ in range(_TIMES)]
    return float(np.median([r.spent_cpu_s for r in runs])), float(np.median([r.spent_scaled_s for r in runs]))


class Reference:
    """The reference timings of one campaign: (Unix time, CPU seconds, scaled seconds), and when the next is due."""

    def __init__(self) -> None:
        self.timings: list[tuple[int, float, float]] = []
        self._last = -np.inf

    @property
    def due(self) -> bool:
        """Whether ten minutes have passed since the last timing was asked for."""
        return time.monotonic() - self._last >= EVERY_S

    def asked(self) -> None:
        """Note that a timing is under way."""
        self._last = time.monotonic()

    def add(self, cpu_s: float, scaled_s: float) -> None:
        """Keep one timing."""
        self.timings.append((int(time.time()), round(cpu_s, 5), round(scaled_s, 5)))

"""How long a training has taken after each of its rounds, and at what pace of the machine."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import xgboost as xgb
from jaxtyping import Int

_PACE_EVERY_S = 0.2


class Clock(xgb.callback.TrainingCallback):
    """Records CPU time of this thread and wall time after each round; stops past the CPU limit.

    With `pace` (how many times slower the machine is now than the reference machine), it is asked before, every
    fifth of a second within, and after the training, on time that is not counted; between two askings the
    slowdown is taken as their geometric mean.
    """

    def __init__(self, limit_s: float | None, pace: Callable[[], float] | None = None) -> None:
        self.limit_s, self.expired, self._pace = limit_s, False, pace
        self.cpu: list[float] = []
        self.wall: list[float] = []

    def begin(self) -> None:
        """Start counting."""
        self._knots, self._scaled = [0.0], [0.0]
        self._slow = self._pace() if self._pace else 1.0
        self._start = (time.thread_time(), time.perf_counter())

    def end(self) -> None:
        """Stop counting."""
        self.spent = self.now()
        self._close(*self.spent)

    def now(self) -> tuple[float, float]:
        """Return CPU and wall seconds counted so far."""
        return time.thread_time() - self._start[0], time.perf_counter() - self._start[1]

    def _close(self, cpu: float, wall: float) -> None:
        """End a segment of the training at `cpu`: its seconds at the reference machine's pace."""
        slow = self._pace() if self._pace else 1.0
        self._scaled.append(self._scaled[-1] + (cpu - self._knots[-1]) / np.sqrt(slow * self._slow))
        self._knots.append(cpu)
        self._slow = slow
        self._start = (time.thread_time() - cpu, time.perf_counter() - wall)

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Record a round (XGBoost calls this); True ends the training."""
        cpu, wall = self.now()
        self.cpu.append(cpu)
        self.wall.append(wall)
        self.expired = self.limit_s is not None and cpu > self.limit_s
        if self._pace and cpu - self._knots[-1] > _PACE_EVERY_S:
            self._close(cpu, wall)
        return self.expired

    def at(self, rounds: Int[np.ndarray, " k"]) -> dict[str, Any]:
        """Return the times of a `Training`: cumulative at `rounds`, and what was spent in all."""
        cpu, wall = np.array(self.cpu, dtype=np.float64), np.array(self.wall, dtype=np.float64)
        return {
            "cpu_s": cpu[rounds - 1],
            "wall_s": wall[rounds - 1],
            "scaled_s": np.interp(cpu[rounds - 1], self._knots, self._scaled),
            "spent_cpu_s": self.spent[0],
            "spent_wall_s": self.spent[1],
            "spent_scaled_s": float(self._scaled[-1]),
        }

"""Successive halving with boosting rounds as fidelity: ASHA and Hyperband, one evaluation at a time.

A configuration begins with few rounds; the best share of each rung goes on with eta times as many, trained from
scratch (a table holds whole trainings), so that its price is the sum. Rungs: R, R / eta, R / eta^2, ... >= least.
"""

import math

import numpy as np
from jaxtyping import Float

from harness.errors import BadInput, one_of, positive, whole
from harness.interop.rivals import Rival, Run
from harness.space import XGBOOST_SPACE, Parameter, SearchSpace


class Asha(Rival):
    """ASHA with one worker: the best 1 / eta of a rung go on, the highest rung first; where all have, a new one begins.

    fidelity: the parameter that buys precision; least: of it, at the lowest rung; eta: the factor between rungs. The
    lower the least, the more evaluations it takes to reach the top. Configurations are uniform in the unit cube.
    Source: Li, Jamieson, Rostamizadeh, Gonina, Hardt, Recht and Talwalkar 2020, "A system for massively parallel
    hyperparameter tuning", algorithm 2.
    """

    def __init__(self, fidelity: str = "n_estimators", eta: int = 4, least: float = 1.0) -> None:
        self._fidelity, self._eta, self._least = fidelity, whole("eta", eta, 2), positive("least", least)
        self._rounds(XGBOOST_SPACE)

    def start(self, run: Run) -> None:
        """Lay out the rungs; raises BadInput for a space without the fidelity, or without so little of it."""
        self._run, self._rng, p = run, np.random.Generator(np.random.PCG64(run.seed)), self._rounds(run.space)
        steps = math.floor(math.log(p.high / self._least, self._eta) + 1e-9)
        self._rungs = [p.high / self._eta**k for k in range(steps, -1, -1)]
        self._points: list[Float[np.ndarray, " d"]] = []
        self._asked: tuple[int, int] | None = None
        self._restart()

    def _rounds(self, space: SearchSpace) -> Parameter:
        """Return the parameter that is the fidelity; raises BadInput for a space without it, or without so little."""
        p = space.parameters[space.names.index(one_of("fidelity", self._fidelity, space.names))]
        if not p.low <= self._least <= p.high:
            raise BadInput(f"least must be {self._fidelity} from {p.low:g} to {p.high:g}, got {self._least:g}")
        return p

    def _restart(self) -> None:
        self._errors: list[dict[int, float]] = [{} for _ in self._rungs]  # by rung and configuration
        self._promoted: list[set[int]] = [set() for _ in self._rungs]

    def ask(self) -> Float[np.ndarray, " d"]:
        """Return the next configuration at its rung."""
        self._asked = self._next()
        which, rung = self._asked
        values = self._run.values(self._points[which])
        fidelity = self._rungs[rung]
        return self._run.unit({**values, self._fidelity: round(fidelity) if self._whole() else fidelity})

    def _whole(self) -> bool:
        return self._run.space.parameters[self._run.space.names.index(self._fidelity)].integer

    def _next(self) -> tuple[int, int]:
        for rung in range(len(self._rungs) - 2, -1, -1):
            ready = [i for i in self._top(rung) if i not in self._promoted[rung]]
            if ready:
                self._promoted[rung].add(ready[0])
                return ready[0], rung + 1
        return self._fresh(), 0

    def _top(self, rung: int) -> list[int]:
        """Return the best 1 / eta of a rung, best first."""
        errors = self._errors[rung]
        return sorted(errors, key=lambda i: errors[i])[: len(errors) // self._eta]

    def _fresh(self) -> int:
        self._points.append(self._rng.random(len(self._run.space)))
        return len(self._points) - 1

    def tell(self, x: Float[np.ndarray, " d"], error: float, cost_s: float) -> None:
        """Take the outcome of what was asked for; the initial design, which nobody asked for, is on no rung."""
        if self._asked is not None:
            which, rung = self._asked
            self._errors[rung][which] = error
            self._asked = None


class Hyperband(Asha):
    """Hyperband: brackets of successive halving that begin at each rung in turn, the lowest first, over and over.

    Source: Li, Jamieson, DeSalvo, Rostamizadeh and Talwalkar 2018, "Hyperband", algorithm 1.
    """

    def start(self, run: Run) -> None:
        """Lay out the rungs, and begin with the widest bracket."""
        super().start(run)
        self._bracket = len(self._rungs) - 1
        self._open()

    def _open(self) -> None:
        self._restart()
        s, top = self._bracket, len(self._rungs) - 1
        n = math.ceil((top + 1) / (s + 1) * self._eta**s)
        self._rung = top - s
        self._queue = [self._fresh() for _ in range(n)]

    def _next(self) -> tuple[int, int]:
        if not self._queue:
            best = self._top(self._rung)
            if self._rung < len(self._rungs) - 1 and best:
                self._rung, self._queue = self._rung + 1, best
            else:
                self._bracket = self._bracket - 1 if self._bracket else len(self._rungs) - 1
                self._open()
        return self._queue.pop(0), self._rung

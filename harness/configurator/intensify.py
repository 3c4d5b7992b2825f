"""Intensification: does a challenger beat the incumbent, over instances and seeds, and may it be stopped early?

Source: Hutter, Hoos and Leyton-Brown 2011, procedure Intensify (blocked comparison on ever more of the incumbent's
runs, doubling); 2013, Algorithm 3 (a challenger's run is stopped once its total exceeds the
incumbent's on the same pairs by the slack factor, and is then a censored observation).
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from harness.capping import threshold
from harness.configurator.history import Entry, History, Pair
from harness.solvers.protocol import CRASHED, CUT, Run

Target = Callable[[Float[np.ndarray, " d"], Pair, float], Run]
"""Runs a configuration on a pair with a cap in CPU seconds."""

_LEAST_CAP_S = 1e-3  # what is left below it is not worth starting a process for


class Intensifier:
    """Races challengers against the incumbent; `spent_s` counts the CPU seconds of all runs.

    pairs: the sequence of instances and seeds that incumbents meet, one more at every challenge.
    """

    def __init__(
        self, target: Target, history: History, pairs: list[Pair], slack: float | None, rng: np.random.Generator
    ) -> None:
        self._target, self._history, self._pairs, self._slack, self._rng = target, history, pairs, slack, rng
        self.spent_s = 0.0
        self.incumbent = -1

    def start(self, row: Float[np.ndarray, " d"]) -> None:
        """Make `row` the first incumbent, with one run."""
        self.incumbent = self._history.number(row)
        self._strengthen()

    def challenge(self, row: Float[np.ndarray, " d"], left_s: float) -> bool:
        """Race one challenger; return whether it is the new incumbent. Stops, undecided, once left_s is spent."""
        limit = self.spent_s + left_s
        self._strengthen()
        history, challenger = self._history, self._history.number(row)
        rivals = history.pairs(self.incumbent)
        waiting = [rivals[i] for i in self._rng.permutation(len(rivals))]
        done: list[Pair] = []
        size, crashed = 1, False
        while True:
            compared, waiting = done + waiting[:size], waiting[size:]
            for pair in compared[len(done) :]:
                if self.spent_s >= limit:
                    return False
                bound = history.total(self.incumbent, compared)
                so_far = history.total(challenger, done)
                left = history.kappa_max_s if self._slack is None else self._slack * bound - so_far
                if left < _LEAST_CAP_S:
                    return False
                entry = self._run(challenger, pair, threshold(1.0, left, history.kappa_max_s))
                done.append(pair)
                crashed |= entry.run.status == CRASHED
                if entry.run.status == CUT and history.censored(entry):
                    return False
            ahead = history.total(self.incumbent, compared) - history.total(challenger, compared)
            if ahead < 0.0 or (crashed and ahead == 0.0):  # a crash is no better than a run that takes kappa_max
                return False
            if not waiting:
                self.incumbent = challenger
                return True
            size *= 2

    def _strengthen(self) -> None:
        """Run the incumbent on the next pair that it has not met."""
        met = set(self._history.pairs(self.incumbent))
        following = next((pair for pair in self._pairs if pair not in met), None)
        if following is not None:
            self._run(self.incumbent, following, self._history.kappa_max_s)

    def _run(self, configuration: int, pair: Pair, cap_s: float) -> Entry:
        run = self._target(self._history.rows[configuration], pair, cap_s)
        self.spent_s += run.cpu_s
        entry = Entry(configuration, pair, cap_s, run)
        self._history.add(entry)
        return entry

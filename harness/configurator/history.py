"""What a configurator has seen: which configuration took how long on which instance with which seed."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Int

from harness.solvers.protocol import CUT, SOLVED, Run

Pair = tuple[int, int]
"""Number of an instance, and a seed of the solver."""


@dataclass(frozen=True)
class Entry:
    """One run of a configuration on a pair; cap_s: the limit that it had."""

    configuration: int
    pair: Pair
    cap_s: float
    run: Run


@dataclass
class History:
    """All runs so far; kappa_max_s: the most a run may take, which is what one counts for that took it or crashed."""

    kappa_max_s: float
    rows: list[Float[np.ndarray, " d"]] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    _ids: dict[bytes, int] = field(default_factory=dict)
    _times: dict[int, dict[Pair, float]] = field(default_factory=dict)

    def number(self, row: Float[np.ndarray, " d"]) -> int:
        """Return the number of a configuration, a new one if it has not been seen."""
        key = np.ascontiguousarray(row).tobytes()
        if key not in self._ids:
            self._ids[key] = len(self.rows)
            self._times[len(self.rows)] = {}
            self.rows.append(row)
        return self._ids[key]

    def seen(self, row: Float[np.ndarray, " d"]) -> bool:
        """Whether the configuration has been run."""
        return np.ascontiguousarray(row).tobytes() in self._ids

    def add(self, entry: Entry) -> None:
        """Record one run."""
        self.entries.append(entry)
        self._times[entry.configuration][entry.pair] = self._counted(entry)

    def pairs(self, configuration: int) -> list[Pair]:
        """Return the pairs that a configuration has been run on, in that order."""
        return list(self._times[configuration])

    def total(self, configuration: int, pairs: Sequence[Pair]) -> float:
        """Return the seconds that a configuration took on these pairs; KeyError for one that it was not run on."""
        return sum(self._times[configuration][pair] for pair in pairs)

    def _counted(self, entry: Entry) -> float:
        return entry.run.cpu_s if entry.run.status in (SOLVED, CUT) else self.kappa_max_s

    def censored(self, entry: Entry) -> bool:
        """Whether only a lower bound is known: a run stopped before kappa_max."""
        return entry.run.status == CUT and entry.cap_s < self.kappa_max_s

    def data(
        self,
    ) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"], Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
        """Return, per run, configuration, instance, log10 of its seconds, and whether that is a lower bound."""
        configuration = np.array([entry.configuration for entry in self.entries], np.int64)
        instance = np.array([entry.pair[0] for entry in self.entries], np.int64)
        seconds = np.array([self._counted(entry) for entry in self.entries], np.float64)
        bound = np.array([self.censored(entry) for entry in self.entries], np.bool_)
        return configuration, instance, np.log10(seconds), bound

"""What a solver to be configured is, and what a set of instances is."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from harness.child import CAPPED, DONE, Outcome
from harness.solvers.options import OptionSpace

SOLVED, CUT, CRASHED = "solved", "capped", "crashed"


@dataclass(frozen=True)
class Run:
    """One run of a solver: CPU seconds (the cap, if reached); ``solved``, ``capped`` or ``crashed`` (note: why)."""

    cpu_s: float
    status: str
    note: str = ""


@runtime_checkable
class Solver(Protocol):
    """A program with options, run on one instance with one seed for at most cap_s CPU seconds."""

    space: OptionSpace

    def run(self, row: Float[np.ndarray, " d"], instance: Path, seed: int, cap_s: float) -> Run:
        """Run the configuration `row`."""
        ...


@runtime_checkable
class InstanceSet(Protocol):
    """A distribution of instances; number i is the same whenever and wherever it is asked for."""

    suffix: str
    features: Sequence[str]

    def write(self, i: int, path: Path) -> Float[np.ndarray, " k"]:
        """Write instance `i` to `path` and return its `features`."""
        ...


def ended(outcome: Outcome, right: bool, note: str = "") -> Run:
    """Return the run of a solver whose process ended so; right: whether its answer, if it gave one, is one."""
    if outcome.status == CAPPED:
        return Run(outcome.cpu_s, CUT)
    if outcome.status == DONE and right:
        return Run(outcome.cpu_s, SOLVED)
    return Run(outcome.cpu_s, CRASHED, outcome.note or note)

"""Live trainings whose costs are at the reference machine's pace, as those of the tables are: the truth of replay."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from datasets.errors import BadInput
from harness.live import Live, LiveProblem
from tabular_cache.reference import pace


@dataclass(frozen=True)
class PacedLive(Live):
    """The evaluator `live_paced`: as `live`, a training's cost being what it would have been on the reference machine.

    A host's pace changes by up to two within minutes, and with it the costs of what runs at different times. Raises
    BadInput for limits, which are in this machine's seconds.
    """

    def __post_init__(self) -> None:
        """Refuse wrong settings."""
        super().__post_init__()
        if self.time_limit_s is not None or self.memory_limit_mb is not None:
            raise BadInput("evaluator=live_paced takes no limits: they are in seconds of this machine (evaluator=live)")

    def open(self, dataset: Mapping[str, Any], pipeline: Mapping[str, Any], seed: int) -> LiveProblem:
        """Return the problem of one run."""
        return LiveProblem(self.data(dataset, pipeline), seed, self.n_candidates, self.tree_method, None, None, pace)

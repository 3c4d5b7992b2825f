"""Replay: the evaluator that opens measured tables as problems."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from datasets.errors import BadInput
from tabular_cache.cargo import OnTables, first
from tabular_cache.replayed import COSTS, ReplayProblem
from tabular_cache.schema import problem_name
from tabular_cache.table import Table, read_table

OBJECTIVES = ("error", "loss")


@dataclass(frozen=True)
class Replay(OnTables):
    """The evaluator `replay`: opens measured tables as problems.

    tables: folder of the tables, null for the shipped ones; max_candidates: rows scored per step at most;
    cost: "scaled" (CPU seconds on the reference machine), "cpu" or "wall" (seconds as measured); n_configs: only
    the first so many configurations of a table, null for all; at_most_configs: the same where tables may have fewer
    (`OnTables`); objective: what is minimised and recorded as the error, "error" (misclassification rate or RMSE) or
    "loss" (log-loss or RMSE).
    """

    tables: str | None = None
    max_candidates: int = 5000
    cost: str = "scaled"
    n_configs: int | None = None
    objective: str = "error"
    seeds_per_block: int | None = 10  # a block takes seconds: workers that share many of them end together
    at_most_configs: int | str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.max_candidates, int) or self.max_candidates < 2:
            raise BadInput(f"evaluator.max_candidates must be a whole number >= 2, got {self.max_candidates!r}")
        if self.cost not in COSTS:
            raise BadInput(f"evaluator.cost must be one of {', '.join(COSTS)}, got {self.cost!r}")
        if self.objective not in OBJECTIVES:
            raise BadInput(f"evaluator.objective must be one of {', '.join(OBJECTIVES)}, got {self.objective!r}")
        super().__post_init__()

    def fingerprint(self, dataset: Mapping[str, Any], pipeline: Mapping[str, Any]) -> str:
        """Return the table's sha256, and how much of it counts where another folder says so.

        Raises BadInput when a table is missing or damaged.
        """
        table = self._table(dataset, pipeline)
        part = f"-first-{self._configs(table.problem)}" if isinstance(self.at_most_configs, str) else ""
        return f"{table.meta['sha256']}{part}"

    def check_design(self, dataset: Mapping[str, Any], pipeline: Mapping[str, Any], n: int) -> None:
        """Raise BadInput if the table, or its part in use, has fewer than `n` configurations to begin with."""
        table = self._table(dataset, pipeline)
        used = self._configs(table.problem)
        there = int((table.longest & first(table, used)).sum())
        if there < n:
            setting = "at_most_configs" if self.n_configs is None else "n_configs"
            part = "" if used is None else f" in use (evaluator.{setting}={used})"
            raise BadInput(f"the table of {table.problem} has {there} configurations{part}, n_initial={n} needs more")

    def open(self, dataset: Mapping[str, Any], pipeline: Mapping[str, Any], seed: int) -> ReplayProblem:
        """Return the problem of one run."""
        table = self._table(dataset, pipeline)
        configs = self._configs(table.problem)
        return ReplayProblem(table, seed, self.max_candidates, self.cost, configs, self.objective)

    def _table(self, dataset: Mapping[str, Any], pipeline: Mapping[str, Any]) -> Table:
        return read_table(problem_name(str(dataset["name"]), str(pipeline["name"])), self._folder)

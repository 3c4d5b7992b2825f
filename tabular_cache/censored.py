"""What censoring costs a model, on the tables' costs: treatments of capped evaluations, and of timed-out trainings.

A problem's configurations are halved at random. From the rows of one half n are learned from, in random order; the
rows of the other half (up to 1,000) are asked about, their true costs known. Nothing of a training that is asked
about is learned from. Two experiments, each one record
(`harness.records`) per problem:

    slack     evaluations capped at a slack factor times the lowest cost so far; a random forest on log cost under the
              four treatments of `CensoredForest`
    timeout   a time limit that a share of the learned trainings would exceed; cost models under the treatments of
              `harness.cost_models.censored`, and `known`: as if there were no limit
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from hydra.utils import instantiate

from harness.cost_models import known_beforehand
from harness.records import code_of, missing_seeds, record_path, write_record
from harness.surrogates.forest import RandomForest
from tabular_cache.censoring import MOST, Data, halves, slack_rows, timeout_rows
from tabular_cache.replayed import ReplayProblem
from tabular_cache.schema import file_stem
from tabular_cache.table import Table, read_table

SLACK, TIMEOUT = "slack", "timeout"
VERSIONS = {SLACK: 2, TIMEOUT: 3}  # raise one when the same settings give other numbers than before

COLUMNS = pa.schema(
    [
        ("seed", pa.int32()),
        ("n", pa.int32()),
        ("model", pa.string()),
        ("treatment", pa.string()),
        ("slack", pa.float64()),
        ("censored", pa.float64()),
        ("rmse", pa.float64()),
        ("rmse_below", pa.float64()),
        ("rmse_beyond", pa.float64()),
        ("log_likelihood", pa.float64()),
    ]
)


@dataclass(frozen=True)
class Case:
    """One experiment on one problem. slacks: of `slack`, None for no cap; models, share: of `timeout`."""

    experiment: str
    problem: str
    seeds: tuple[int, ...]
    sizes: tuple[int, ...]
    slacks: tuple[float | None, ...]
    trees: int
    models: Mapping[str, Any]
    share: float
    tables: str
    results: str

    def spec(self) -> dict[str, Any]:
        """Return all that determines the numbers, as plain JSON values."""
        table = read_table(self.problem, Path(self.tables))
        own: dict[str, Any] = {"slacks": list(self.slacks), "trees": self.trees}
        if self.experiment == TIMEOUT:
            own = {"models": {name: dict(config) for name, config in self.models.items()}, "share": self.share}
            if known := self._known(table):
                own["known"] = known
            if code := code_of(*self.models.values()):
                own["code"] = code
        return {
            "experiment": self.experiment, "problem": self.problem, "seeds": list(self.seeds),
            "sizes": list(self.sizes), "data": table.meta["sha256"], "version": VERSIONS[self.experiment],
            **own,
        }  # fmt: skip

    def _known(self, table: Table) -> dict[str, str]:
        """Return the fingerprints of what transferred models have learned from other tables."""
        problem = ReplayProblem(table, 0, max_candidates=MOST)
        found = {name: known_beforehand(instantiate(dict(config)), problem) for name, config in self.models.items()}
        return {name: fingerprint for name, fingerprint in found.items() if fingerprint is not None}

    @property
    def folder(self) -> Path:
        """Where the records of the problem lie."""
        return Path(self.results) / "censored" / file_stem(self.problem)

    def path(self, spec: dict[str, Any]) -> Path:
        """Return where the record of `spec` belongs."""
        return record_path(self.folder, self.experiment, spec)

    def missing(self, spec: dict[str, Any]) -> list[int]:
        """Return the seeds of `spec` that no record under the same settings holds."""
        return missing_seeds(spec, self.folder, self.experiment)


def run_case(case: Case) -> None:
    """Run the seeds of one experiment on one problem that no record holds, and write theirs."""
    spec = case.spec()
    seeds = case.missing(spec)
    if not seeds:
        return
    table, rows = read_table(case.problem, Path(case.tables)), list[dict[str, Any]]()
    spec = {**spec, "seeds": seeds}
    for seed in seeds:
        data = halves(table, seed)
        for n in case.sizes:
            if n <= len(data.y):
                part = Data(data.X[:n], data.y[:n], data.C, data.truth)
                rows += [{"seed": seed, "n": n, **row} for row in _scores(case, part, table, seed)]
    write_record(case.path(spec), rows, COLUMNS, spec)


def _scores(case: Case, data: Data, table: Table, seed: int) -> list[dict[str, Any]]:
    if case.experiment == SLACK:
        return slack_rows(data, case.slacks, RandomForest(trees=case.trees))
    return timeout_rows(data, case.models, case.share, table, seed)

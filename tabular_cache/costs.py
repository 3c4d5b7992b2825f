"""How well do cost models predict? Each learns from n evaluations of a table and is asked about the rest of it.

Evaluations are configurations at their own number of rounds, since these fill the space evenly, in an order drawn
from (problem, seed); the first n are learned from, for each n. Asked about: the configurations beyond the largest n,
the same ones for every n. Results are records (`harness.records`), one per problem and cost model; later
calls add a record of the seeds that are missing.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hydra.utils import instantiate
from jaxtyping import Float
from scipy.special import ndtri

from harness import execution
from harness.cost_models import CostModel, ProblemAware, known_beforehand
from harness.normal import log
from harness.records import code_of, missing_seeds, record_path, write_record
from harness.streams import stream
from tabular_cache.replayed import COSTS, ReplayProblem
from tabular_cache.schema import file_stem
from tabular_cache.table import Table, read_table

LEVELS = (50, 80, 95)  # percent: intervals whose coverage is counted
LEAST = 32  # configurations to ask about; sizes that leave fewer are not run
MOST = 1000
VERSION = 2  # raise it when the same settings give other numbers than before

COLUMNS = pa.schema(
    [
        ("seed", pa.int32()),
        ("n", pa.int32()),
        ("trained_on", pa.int64()),
        ("asked", pa.int32()),
        ("rmse", pa.float64()),
        ("bias", pa.float64()),
        *((f"cover{level}", pa.float64()) for level in LEVELS),
        ("sd", pa.float64()),
    ]
)


@dataclass(frozen=True)
class Trial:
    """One cost model on one problem, for some seeds. name: of the cost model; config: its YAML's content."""

    problem: str
    name: str
    config: Mapping[str, Any]
    seeds: tuple[int, ...]
    sizes: tuple[int, ...]
    tables: str
    results: str

    def spec(self) -> dict[str, Any]:
        """Return all that determines the numbers, as plain JSON values; `seeds`: those of the record."""
        table = read_table(self.problem, Path(self.tables))
        model: CostModel = instantiate(dict(self.config))
        known = known_beforehand(model, ReplayProblem(table, 0, max_candidates=MOST))
        return {
            "problem": self.problem, "cost_model": self.name, "config": dict(self.config), "seeds": list(self.seeds),
            "sizes": list(self.sizes), "data": table.meta["sha256"], "task": table.meta["task"], "version": VERSION,
            "known": known, **({"code": code} if (code := code_of(self.config)) else {}),
        }  # fmt: skip

    @property
    def folder(self) -> Path:
        """Where the records of the problem lie."""
        return Path(self.results) / "costs" / file_stem(self.problem)

    def path(self, spec: dict[str, Any]) -> Path:
        """Return where the record of `spec` belongs."""
        return record_path(self.folder, self.name, spec)

    def missing(self, spec: dict[str, Any]) -> list[int]:
        """Return the seeds of `spec` that no record under the same settings holds."""
        return missing_seeds(spec, self.folder, self.name)


def run_all(executor: Executor, trials: Sequence[Trial]) -> list[str]:
    """Run the trials that lack seeds in their records; returns a line for each that failed."""
    return execution.run_all(executor, run_trial, trials, lambda t: f"{t.problem} {t.name}", "trials", "costs")


def run_trial(trial: Trial) -> None:
    """Run the seeds of one trial that no record holds, and write theirs; what is recorded stays as it is."""
    spec = trial.spec()
    seeds = trial.missing(spec)
    if not seeds:
        return
    table, spec = read_table(trial.problem, Path(trial.tables)), {**spec, "seeds": seeds}
    rows = [row for seed in seeds for row in learn(table, trial.config, seed, trial.sizes)]
    write_record(trial.path(spec), rows, COLUMNS, spec)


def learn(table: Table, config: Mapping[str, Any], seed: int, sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Return the scores of one cost model and one order of evaluations, one row per size that the table allows."""
    order = stream(seed, "cost evaluations", table.problem).permutation(np.flatnonzero(table.longest))
    known = [n for n in sizes if n + LEAST <= len(order)]
    if not known:
        return []
    asked = order[max(known) :][:MOST]
    cost = table[COSTS["scaled"]]
    model: CostModel = instantiate(dict(config))
    if isinstance(model, ProblemAware):
        model.start(ReplayProblem(table, seed, max_candidates=MOST))
    rows = []
    for n in known:  # in order, since models may continue from their last fit, as they do in a run
        model.fit(table.unit[order[:n]], cost[order[:n]])
        trained_on = getattr(model, "trained_on", n)  # rows of other problems' tables, for a transferred model
        rows.append(
            {
                "seed": seed,
                "n": n,
                "trained_on": trained_on,
                **score(log(cost[asked]), *model.predict(table.unit[asked])),
            }
        )
    return rows


def score(
    log_cost: Float[np.ndarray, " m"], mean: Float[np.ndarray, " m"], sd: Float[np.ndarray, " m"]
) -> dict[str, Any]:
    """Return RMSE and bias of the predicted log cost, the share within mean -/+ z sd per level, and the median sd."""
    error = mean - log_cost
    cover = {f"cover{p}": float(np.mean(np.abs(error) <= ndtri(0.5 + p / 200) * sd)) for p in LEVELS}
    rmse, bias = float(np.sqrt(np.mean(np.square(error)))), float(np.mean(error))
    return {"asked": len(error), "rmse": rmse, "bias": bias, **cover, "sd": float(np.median(sd))}

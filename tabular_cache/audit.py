"""Auditing tables: a random sample of trainings is done again and compared with what the tables say."""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.cli import SOME_FAILED
from harness.errors import BadInput
from harness.executors import run_tasks
from harness.problem import OK
from harness.streams import stream
from tabular_cache.measure import Measurement, retrain
from tabular_cache.schema import ERRORS
from tabular_cache.table import Table, load_table, read_manifest


@dataclass(frozen=True)
class AuditRow:
    """One re-training against its table: are all errors equal (to float32), ratio of costs new/old."""

    problem: str
    config: int
    same_data: bool
    same_errors: bool
    worst_difference: float
    cost_ratio: float


def sample(table: Table, n: int, seed: int) -> list[int]:
    """Return `n` random configurations among those of the table that trained to their own number of rounds."""
    good = np.unique(table["config"][table["own"] & (np.array(table.statuses)[table.status] == OK)])
    picked = stream(seed, "audit", table.problem).choice(good, size=min(n, len(good)), replace=False)
    return sorted(int(c) for c in picked)


def audit(executor: Executor, problems: Sequence[tuple[str, str]], folder: Path, n: int, seed: int) -> list[AuditRow]:
    """Re-train `n` configurations of each problem; raises BadInput for a missing or damaged table."""
    tables = {f"{d}/{p}": load_table(f"{d}/{p}", folder) for d, p in problems}
    method = read_manifest(folder)["tree_method"]
    tasks = [Measurement(d, p, c, method) for d, p in problems for c in sample(tables[f"{d}/{p}"], n, seed)]
    rows = []
    for task, outcome in run_tasks(executor, retrain, tasks):
        if isinstance(outcome, BaseException):
            raise outcome
        training, data_hash = outcome
        table = tables[task.problem]
        mine = table["config"] == task.config
        pairs = [(table[name][mine], getattr(training, name)) for name in ERRORS]
        complete = all(len(old) == len(new) for old, new in pairs)
        # NaN, of a training that failed this time, is a difference too: `max` would pass over it
        difference = (
            float(np.max([np.abs(old - new.astype(np.float32)).max() for old, new in pairs])) if complete else np.inf
        )
        rows.append(
            AuditRow(
                problem=task.problem,
                config=task.config,
                same_data=data_hash == table.meta["data_hash"],
                same_errors=difference == 0.0,
                worst_difference=difference,
                cost_ratio=float(training.scaled_s[-1] / table["scaled_s"][mine][-1]),
            )
        )
    return sorted(rows, key=lambda row: (row.problem, row.config))


def print_audit(rows: list[AuditRow]) -> int:
    """Print the audit and return the exit code: 0 if all errors were identical."""
    if not rows:
        raise BadInput("nothing to audit: no configuration of these tables was trained to its own number of rounds")
    unequal = [row for row in rows if not row.same_errors]
    for row in unequal:
        why = "" if row.same_data else " (the prepared data differ too)"
        print(f"{row.problem} #{row.config}: errors differ by up to {row.worst_difference:.3g}{why}")
    ratio = np.array([row.cost_ratio for row in rows])
    low, median, high = np.quantile(ratio, [0.05, 0.5, 0.95])
    print(
        f"{len(rows)} trainings repeated on {len({r.problem for r in rows})} problems: "
        f"{len(rows) - len(unequal)} with identical errors, {len(unequal)} not; "
        f"cost now / table: median {median:.3f}, 90 % of them in [{low:.3f}, {high:.3f}]"
    )
    return SOME_FAILED if unequal else 0

"""Auditing tables: a random sample of trainings is done again and compared with what the tables say."""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.cli import SOME_FAILED
from harness.errors import BadInput
from harness.executors import run_tasks
from harness.progress import Progress
from harness.streams import stream
from harness.supervise import slots
from harness.training import Training
from tabular_cache import parts
from tabular_cache.measure import Measurement, machine, retrain
from tabular_cache.schema import ERRORS
from tabular_cache.table import Table, load_table, read_manifest


@dataclass(frozen=True)
class AuditRow:
    """One re-training against its table: are all errors equal (to float32), ratio of costs new/old.

    note: why there is nothing to compare; the difference is then infinite and the ratio NaN.
    """

    problem: str
    config: int
    same_data: bool = True
    worst_difference: float = np.inf
    cost_ratio: float = np.nan
    note: str = ""

    @property
    def same_errors(self) -> bool:
        """Whether every error of the training is the table's, to the last bit."""
        return self.worst_difference == 0.0


def drawn(problems: Sequence[tuple[str, str]], n: int | None, seed: int) -> list[tuple[str, str]]:
    """Return `n` random problems of them, in their order; all of them for None. Raises BadInput for too many."""
    if n is None:
        return list(problems)
    if n > len(problems):
        raise BadInput(f"n_problems={n}: there are {len(problems)} to draw from")
    picked = stream(seed, "audited problems").choice(len(problems), size=n, replace=False)
    return [problems[i] for i in sorted(picked)]


def sample(table: Table, n: int, seed: int) -> dict[int, int]:
    """Return `n` random configurations of the table and the number of rounds that each finished.

    That is its own, or fewer where the time limit cut it short: its prefixes are in use, too.
    """
    finished = table.longest & np.isfinite(table["val_error"])
    rounds = dict(zip(table["config"][finished].tolist(), table["n_estimators"][finished].tolist(), strict=True))
    configs = np.array(sorted(rounds))
    picked = stream(seed, "audit", table.problem).choice(configs, size=min(n, len(configs)), replace=False)
    return {int(c): int(rounds[int(c)]) for c in sorted(picked)}


def audit(executor: Executor, problems: Sequence[tuple[str, str]], folder: Path, n: int, seed: int) -> list[AuditRow]:
    """Re-train `n` configurations of each problem; raises BadInput for a missing or damaged table.

    A training that raises (its worker was lost, say) is a row with a note, and costs no other.
    """
    tables = {f"{d}/{p}": load_table(f"{d}/{p}", folder) for d, p in problems}
    hashes = {problem: parts.data_hashes(folder, table.meta) for problem, table in tables.items()}
    method = read_manifest(folder)["tree_method"]
    tasks = [
        Measurement(d, p, config, method, rounds=rounds)
        for d, p in problems
        for config, rounds in sample(tables[f"{d}/{p}"], n, seed).items()
    ]
    rows = []
    with Progress(len(tasks), "trainings", "audit", slots(executor)) as progress:
        for task, outcome in run_tasks(executor, retrain, tasks):
            table = tables[task.problem]
            data_hash = hashes[task.problem].get(task.config, table.meta["data_hash"])
            rows.append(_compared(task, table, data_hash, outcome))
            progress.advance()
    return sorted(rows, key=lambda row: (row.problem, row.config))


def _compared(task: Measurement, table: Table, data_hash: str, outcome: Any) -> AuditRow:
    if isinstance(outcome, BaseException):
        return AuditRow(task.problem, task.config, note=repr(outcome))
    training: Training = outcome[0]
    same_data = outcome[1] == data_hash
    mine = (table["config"] == task.config) & table.measured & np.isfinite(table["val_error"])
    pairs = [(table[name][mine], getattr(training, name).astype(np.float32)) for name in ERRORS]
    if any(len(old) != len(new) for old, new in pairs):
        return AuditRow(task.problem, task.config, same_data, note=f"{training.status} {training.note}".strip())
    # NaN, of a training that failed this time, is a difference too: `max` would pass over it
    worst = float(np.max([np.abs(old - new).max() for old, new in pairs]))
    ratio = float(training.scaled_s[-1] / table["scaled_s"][mine][-1])
    return AuditRow(task.problem, task.config, same_data, worst, ratio)


def print_audit(rows: list[AuditRow], manifest: dict[str, Any]) -> int:
    """Print the audit and return the exit code: 0 if all errors were identical."""
    if not rows:
        raise BadInput("nothing to audit: no configuration of these tables was trained")
    measured_by = {str(campaign["versions"]) for campaign in manifest["campaigns"]}
    now = str(machine()["versions"])
    if measured_by - {now}:
        print(f"library versions differ: measured by {', '.join(sorted(measured_by))}, now {now}")
    unequal = [row for row in rows if not row.same_errors]
    for row in unequal:
        why = "" if row.same_data else " (the prepared data differ too)"
        how = f"not compared: {row.note}" if row.note else f"errors differ by up to {row.worst_difference:.3g}"
        print(f"{row.problem} #{row.config}: {how}{why}")
    line = (
        f"{len(rows)} trainings repeated on {len({r.problem for r in rows})} problems: "
        f"{len(rows) - len(unequal)} with identical errors, {len(unequal)} not"
    )
    ratio = np.array([row.cost_ratio for row in rows])
    if np.isfinite(ratio).any():
        low, median, high = np.nanquantile(ratio, [0.05, 0.5, 0.95])
        line += f"; cost now / table: median {median:.3f}, 90 % of them in [{low:.3f}, {high:.3f}]"
    print(line)
    return SOME_FAILED if unequal else 0

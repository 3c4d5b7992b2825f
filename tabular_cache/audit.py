"""Auditing tables: a random sample of trainings is done again and compared with what the tables say.

So tables measured before there were identities of data get theirs, too: `identify`.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from datasets.errors import BadInput
from harness.cli import SOME_FAILED
from harness.execution import run_tasks
from harness.execution.supervisor import worker_count
from harness.progress import Progress
from harness.streams import stream
from harness.training import Training
from pipelines.identity import difference
from tabular_cache import parts
from tabular_cache.measure import Measurement, machine, prepared, retrain
from tabular_cache.schema import ERRORS
from tabular_cache.store import Store
from tabular_cache.table import Table, load_table, read_manifest, table_entry


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
    data = {problem: parts.data_of(folder, table.meta) for problem, table in tables.items()}
    method = read_manifest(folder)["tree_method"]
    tasks = [
        Measurement(d, p, config, method, rounds=rounds)
        for d, p in problems
        for config, rounds in sample(tables[f"{d}/{p}"], n, seed).items()
    ]
    rows = []
    with Progress(len(tasks), "trainings", "audit", worker_count(executor)) as progress:
        for task, outcome in run_tasks(executor, retrain, tasks):
            table = tables[task.problem]
            known = data[task.problem].get(task.config, table.meta)
            rows.append(_compared(task, table, known, outcome))
            progress.advance()
    return sorted(rows, key=lambda row: (row.problem, row.config))


def _compared(task: Measurement, table: Table, data: Mapping[str, Any], outcome: Any) -> AuditRow:
    if isinstance(outcome, BaseException):
        return AuditRow(task.problem, task.config, note=repr(outcome))
    training: Training = outcome[0]
    same_data = not difference(data, outcome[1])
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


def identify(executor: Executor, problems: Sequence[tuple[str, str]], folder: Path, n: int, seed: int) -> int:
    """Give the tables of `problems` that have none the identity of their data, and print how; returns the exit code.

    The data here are those of a table if their hash is the table's; else, since another processor rounds differently,
    if `n` trainings drawn at random give all the table's errors and losses again, to the last bit of each of their
    prefixes. A table of which neither holds is left as it is. The manifest says which it was (`identity_confirmed`).
    """
    missing = [(d, p) for d, p in problems if "identity" not in table_entry(f"{d}/{p}", folder)]
    known = {pair: _same_hash(pair, folder) for pair in missing}
    rows = audit(executor, [pair for pair in missing if not known[pair]], folder, n, seed)
    for pair in missing:
        mine = [row for row in rows if row.problem == "/".join(pair)]
        if mine and all(row.same_errors for row in mine):
            configs = ", ".join(str(row.config) for row in mine)
            known[pair] = (
                f"trainings of configurations {configs} repeated with all errors and losses equal to the last bit"
            )
    store = Store(folder)
    with store.locked():
        for pair, how in known.items():
            if how:
                description = prepared(*pair, 0).description()
                entry = store.manifest["tables"]["/".join(pair)]
                entry |= {"identity": description["identity"], "identity_confirmed": how}
        store.write_manifest()
    for pair, how in known.items():
        print(f"{'/'.join(pair)}: {how or 'NOT the data of its table, or not to be told: left without an identity'}")
    print(f"{len(missing)} of {len(problems)} tables had no identity, {sum(map(bool, known.values()))} have one now")
    return 0 if all(known.values()) else SOME_FAILED


def _same_hash(pair: tuple[str, str], folder: Path) -> str:
    """Say that the data here have the hash of a table, "" if they have another one."""
    same = prepared(*pair, 0).data_hash == table_entry("/".join(pair), folder)["data_hash"]
    return "data_hash of the matrices it was computed on" if same else ""

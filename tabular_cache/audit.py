"""Auditing tables: a random sample of trainings is done again and compared with what the tables say.

`print_info` shows what the tables hold.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from datasets.errors import BadInput
from harness.cli import SOME_FAILED
from harness.execution import run_counted
from harness.streams import stream
from harness.training import Training
from pipelines.identity import difference
from tabular_cache import noise
from tabular_cache.measure import Measurement, machine, retrain
from tabular_cache.schema import ERRORS, problem_name
from tabular_cache.table import Table, data_of, load_table, read_manifest

Problems = Sequence[tuple[str, str]]


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

    def __str__(self) -> str:
        how = f"not compared: {self.note}" if self.note else f"errors differ by up to {self.worst_difference:.3g}"
        return f"{self.problem} #{self.config}: {how}{'' if self.same_data else ' (the prepared data differ too)'}"


def drawn(problems: Problems, n: int | None, seed: int) -> list[tuple[str, str]]:
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


def audit(executor: Executor, problems: Problems, folder: Path, n: int, seed: int) -> list[AuditRow]:
    """Re-train `n` configurations of each problem; raises BadInput for a missing or damaged table.

    A training that raises (its worker was lost, say) is a row with a note, and costs no other.
    """
    tables = {problem_name(*pair): load_table(problem_name(*pair), folder) for pair in problems}
    data = {problem: data_of(folder, table.meta) for problem, table in tables.items()}
    method = read_manifest(folder)["tree_method"]
    tasks = [
        Measurement(*pair, config, method, rounds=rounds)
        for pair in problems
        for config, rounds in sample(tables[problem_name(*pair)], n, seed).items()
    ]
    rows = []
    for task, outcome in run_counted(executor, retrain, tasks, "trainings", "audit"):
        table = tables[task.problem]
        rows.append(_compared(task, table, data[task.problem].get(task.config, table.meta), outcome))
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
    measured_by, now = {str(campaign["versions"]) for campaign in manifest["campaigns"]}, str(machine()["versions"])
    if measured_by - {now}:
        print(f"library versions differ: measured by {', '.join(sorted(measured_by))}, now {now}")
    unequal = [row for row in rows if not row.same_errors]
    for row in unequal:
        print(row)
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


# What the tables hold: one line per problem, and the whole.


def summarise(table: Table) -> dict[str, Any]:
    """Return one problem's line: sizes, costs in seconds on the reference machine, errors.

    The mean cost is over the configurations at their own rounds, or where the time limit cut them short, as counted;
    failed: for another reason, kept as evaluations without an error. The cost ratio is the slowest over the fastest
    row, prefixes included.
    """
    own, error, cost = table["own"], table["val_error"], table["scaled_s"]
    return {
        "problem": table.problem + (f" ({table.meta['mark']})" if table.meta["mark"] else ""),
        "task": table.meta["task"],
        "classes": table.meta["n_classes"] or None,
        "train rows": table.meta["n_train"],
        "width": table.meta["width_after"],
        "configs": table.meta["configs"],
        "rows": table.meta["rows"],
        "mean cost s": cost[own].mean(),
        "max cost s": cost.max(),
        "best error": np.nanmin(error),
        "worst error": np.nanmax(error),
        "slowest/fastest": cost.max() / cost.min(),
        "cut short": int((~table.measured).sum()),
        "failed": int((table.measured & ~np.isfinite(error)).sum()),
    }


def held(folder: Path, first: Problems) -> list[tuple[str, str]]:
    """Return the problems whose tables are in the folder, those of `first` in that order, then others by name.

    Raises BadInput where there is none.
    """
    there = {(name.partition("/")[0], name.partition("/")[2]) for name in read_manifest(folder)["tables"]}
    if not there:
        raise BadInput(f"no table in {folder}: build some with `python -m tabular_cache build tables={folder}`")
    return [*(problem for problem in first if problem in there), *sorted(there - set(first))]


def print_info(problems: Problems, folder: Path) -> int:
    """Print the table of problems, the totals, the noise of the costs and the reference timings; returns the exit code.

    Raises BadInput for a missing or damaged table.
    """
    manifest = read_manifest(folder)
    frame = pd.DataFrame([summarise(load_table(problem_name(*pair), folder)) for pair in problems])
    frame["classes"] = frame["classes"].astype("Int64")
    digits = {"mean cost s": "{:.3f}", "max cost s": "{:.2f}", "best error": "{:.4g}", "worst error": "{:.4g}"}
    formats = {name: text.format for name, text in digits.items()} | {"slowest/fastest": "{:.0f}".format}
    print(frame.to_string(index=False, na_rep="-", formatters=formats))
    size, core_s = (
        sum(manifest["tables"][problem_name(*pair)][key] for pair in problems) for key in ("bytes", "core_s")
    )
    print(
        f"\n{len(frame)} problems, {frame['configs'].sum():,} configurations, {frame['rows'].sum():,} rows, "
        f"{size / 1e6:.1f} MB; {core_s / 3600:.2f} core-hours"
    )
    noisy = noise.by_cost(folder)
    if len(noisy):
        print("\nNoise of the costs: the same training again, hours or days later (coefficients of variation)")
        print(noisy.to_string(index=False, float_format="{:.1f}".format))
        on_each, between = noise.by_processor(folder, manifest["campaigns"])
        print("\nOn each kind of processor, and the scaled seconds of one by those of another")
        print(on_each.to_string(index=False, float_format="{:.1f}".format))
        if len(between):
            print(between.to_string(index=False, float_format="{:.2f}".format))
    timed = [(c["date"], c["cpu"], *timing) for c in manifest["campaigns"] for timing in c["reference"]]
    if timed:  # scaled, it would always be the same if the probe said all (`measure.level`)
        references = pd.DataFrame(timed, columns=["date", "processor", "at", "cpu_s", "scaled_s"])
        groups = references.groupby(["date", "processor"], sort=False)
        columns = {"times": ("at", "size"), "cpu_s": ("cpu_s", "median"), "scaled_s": ("scaled_s", "median")}
        print("\nThe reference training, timed every ten minutes of measuring (medians; scaled by the probe alone)")
        print(groups.agg(**columns).reset_index().to_string(index=False, float_format="{:.3f}".format))
    return 0

"""Building tables: what each problem gets, in which order, and the passes of trainings that do it.

`MeasurementBudget` bounds the time and configurations of a problem, `Planner` says what is next, and `Builder` has it
done: every finished training goes into a journal, tables are packed after each pass, repeats come at its end.
"""

import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from datasets.errors import BadInput
from harness.execution import run_tasks
from harness.execution.supervisor import WorkerLost
from harness.problem import OK, TIMEOUT
from harness.progress import Progress, duration
from tabular_cache import noise
from tabular_cache.measure import Measurement, machine, measure
from tabular_cache.reference import MOST_BUSY, LoadMonitor, Reference, time_reference
from tabular_cache.rows import AGAIN, NOISE
from tabular_cache.store import Store
from tabular_cache.table import Table, to_table

# How much of a problem is measured: the same machine time for each, within bounds.
#
# A problem is done when it has had `seconds` of core time and at least `at_least` configurations, or when it has
# `at_most`. On costly problems `at_least` trainings to the end would take days, so a training is stopped at a time
# limit there: the longest for which that many trainings fit into `longest_s`, but never less than `floor_s`.

PILOT = 32  # configurations measured under `floor_s` before a problem's own limit is set


@dataclass(frozen=True)
class MeasurementBudget:
    """What each problem gets. Seconds are core seconds; time limits are set so that `limit_for` trainings fit."""

    seconds: float = 600.0
    at_least: int = 384
    at_most: int = 4096
    floor_s: float = 5.0
    longest_s: float = 900.0
    limit_for: int = 384

    def done(self, configs: int, core_s: float) -> bool:
        """Whether a problem with so many configurations and so much time has had its share."""
        return configs >= self.at_most or (configs >= self.at_least and core_s >= self.seconds)

    def limit(self, uncut_s: Float[np.ndarray, " n"]) -> float | None:
        """Return the time limit of a problem's trainings from the costs of its pilot; None: no limit is needed.

        The largest L with limit_for * mean(min(uncut_s, L)) <= longest_s, at least floor_s, to two digits.
        """
        mean = self.longest_s / self.limit_for
        if uncut_s.mean() <= mean:
            return None
        c = np.sort(uncut_s)
        n = len(c)
        below = np.concatenate([[0.0], np.cumsum(c)[:-1]])  # of those cheaper than c_k, all spent in full
        at_cost = (below + c * (n - np.arange(n))) / n  # mean(min(c, c_k)), increasing in k
        k = int(np.searchsorted(at_cost, mean))
        limit = (mean * n - below[k]) / (n - k)
        return max(self.floor_s, float(f"{limit:.2g}"))


def uncut_costs(table: Table) -> Float[np.ndarray, " n"]:
    """Return the CPU seconds of each configuration at its own rounds; where cut short, on the line of its prefixes.

    Rounds cost about the same each, so a training's cost is nearly linear in their number.
    """
    config, rounds, cost = table["config"], table.native[:, 0], table["cpu_s"]
    own = np.flatnonzero(table["own"])
    costs = cost[own].copy()
    cut = np.array(table.statuses)[table.status[own]] == TIMEOUT
    for i in np.flatnonzero(cut):
        mine = np.flatnonzero((config == config[own[i]]) & table.measured)
        if len(mine) == 0:  # not even one round
            costs[i] *= rounds[own[i]]
            continue
        slope = cost[mine[-1]] / rounds[mine[-1]]
        costs[i] = max(costs[i], slope * rounds[own[i]])
    return costs


# What a build does next: the missing trainings of the next pass, and the repeats that follow it.

MOST_STRETCH = 1.2  # wall over CPU seconds beyond which a training counts as disturbed
MOST_REPEATS = 2
AUTO = "auto"


@dataclass(frozen=True)
class Planner:
    """The order of a build: breadth first by machine time.

    Each pass gives every unfinished problem `slice_s` core seconds (at least `pass_size` configurations), so
    that all problems are covered evenly however early the build is stopped.
    """

    store: Store
    problems: Sequence[tuple[str, str]]
    allowance: MeasurementBudget
    time_limit_s: float | str | None = AUTO  # CPU seconds per training; auto: each problem's own (Allowance.limit)
    tree_method: str = "exact"
    slice_s: float = 30.0
    pass_size: int = 4
    refused: set[str] = field(default_factory=set)  # problems that cannot be measured here; not planned again
    given_up: set[tuple[str, int]] = field(default_factory=set)  # trainings that raised; not planned again
    not_repeated: set[Measurement] = field(default_factory=set)  # repeats that raised or failed; not planned again

    def next_pass(self) -> list[Measurement]:
        """Return the trainings of the next pass; empty when all problems have had their share."""
        return [task for dataset, pipeline in self._open() for task in self._slice(dataset, pipeline)]

    def _open(self) -> list[tuple[str, str]]:
        return [pair for pair in self.problems if "/".join(pair) not in self.refused]

    def _slice(self, dataset: str, pipeline: str) -> list[Measurement]:
        problem = f"{dataset}/{pipeline}"
        limit = self.limit(problem)
        done = self.store.done(problem, limit)
        entry = self.store.manifest["tables"].get(problem, {}) if done else {}  # of a table that was moved away
        core_s, configs = entry.get("core_s", 0.0), entry.get("configs", 0)
        lost = {config for name, config in self.given_up if name == problem}
        todo = (c for c in itertools.count() if c not in done and c not in lost)
        share, seen = self.allowance, len(done) + len(lost)
        pilot = min(PILOT, share.at_least)
        if not done and len(lost) >= pilot:  # all of the pilot raised: so would the rest
            return []
        if seen < pilot:
            n = pilot - seen
        elif len(done) >= configs and share.done(configs + len(lost), core_s):
            n = 0
        else:
            each = max(core_s / max(configs, 1), 1e-6)
            time_left = self.slice_s if configs < share.at_least else min(self.slice_s, share.seconds - core_s)
            n = min(max(self.pass_size, int(time_left / each)), share.at_most - seen)
        return [self._task(dataset, pipeline, c, limit) for c in itertools.islice(todo, max(n, 0))]

    def _task(self, dataset: str, pipeline: str, config: int, limit: float | None, purpose: str = "new") -> Measurement:
        return Measurement(dataset, pipeline, config, self.tree_method, limit, purpose=purpose)

    def limit(self, problem: str) -> float | None:
        """Return the time limit of a problem's trainings; one of its own is set once, after its pilot."""
        if self.time_limit_s != AUTO:
            return None if self.time_limit_s is None else float(self.time_limit_s)
        entry = self.store.manifest["tables"].get(problem)
        rows = None if entry is None or "time_limit_s" in entry else self.store.packed(problem)
        if entry is None or entry["configs"] < PILOT or ("time_limit_s" not in entry and rows is None):
            return self.allowance.floor_s
        if rows is not None:
            costs = uncut_costs(to_table(problem, rows, entry))
            entry["time_limit_s"] = self.allowance.limit(costs)
        limit: float | None = entry["time_limit_s"]
        return limit

    def repeats(self) -> list[Measurement]:
        """Return the trainings to measure again now: disturbed ones, and those of the noise sample."""
        names = {f"{d}/{p}": (d, p) for d, p in self._open()}
        tasks = []
        for problem, pair in names.items():
            rows = self.store.packed(problem)
            for config in [] if rows is None else disturbed_configs(rows):
                tasks.append(self._task(*pair, config, self.limit(problem), AGAIN))
        for problem, config in noise.due(self.store.folder, list(names), time.time()):
            tasks.append(self._task(*names[problem], config, None, NOISE))
        return [task for task in tasks if task not in self.not_repeated]

    def core_seconds_left(self) -> float:
        """Return an estimate of the core seconds that the rest of the build takes."""
        total = 0.0
        entries: dict[str, Any] = self.store.manifest["tables"]
        known = [e["core_s"] / e["configs"] for e in entries.values() if e.get("configs")]
        for dataset, pipeline in self._open():
            entry = entries.get(f"{dataset}/{pipeline}", {"configs": 0, "core_s": 0.0})
            n, spent, a = entry["configs"], entry["core_s"], self.allowance
            if a.done(n, spent):
                continue
            each = spent / n if n else (float(np.mean(known)) if known else 1.0)
            total += min(max((a.at_least - n) * each, a.seconds - spent), (a.at_most - n) * each)
        return total


def disturbed_configs(rows: pa.Table) -> list[int]:
    """Return the configurations of a table to measure again, those repeated often enough left out.

    They were measured beside other work, or failed otherwise than by the time limit: for want of memory, say, which
    may have been others'.
    """
    own = rows.filter(rows["own"])
    stretch = own["wall_s"].to_numpy() / own["cpu_s"].to_numpy()
    noisy = (stretch > MOST_STRETCH) | (own["busy"].to_numpy() > MOST_BUSY)
    noisy |= ~np.isin(own["status"].to_numpy(), (OK, TIMEOUT))
    few = own["repeats"].to_numpy() < MOST_REPEATS
    return [int(c) for c in own["config"].to_numpy()[noisy & few]]


@dataclass
class BuildReport:
    """What a build did: trainings finished, of these repeats and cut short; failures; core, wall, paused seconds."""

    trainings: int = 0
    repeats: int = 0
    cut: int = 0
    failed: list[str] = field(default_factory=list)
    core_s: float = 0.0
    wall_s: float = 0.0
    paused_s: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.trainings} trainings ({self.repeats} of them repeats, {self.cut} cut short by the time limit), "
            f"{self.core_s:.0f} core seconds in {self.wall_s:.0f} s, paused {self.paused_s:.0f} s"
        )


class Builder:
    """One campaign: does what the planner asks for; every finished training is kept whatever happens later."""

    def __init__(self, planner: Planner, executor: Executor, n_jobs: int, watch: LoadMonitor) -> None:
        self.planner, self.store, self.executor, self.n_jobs, self.watch = (
            planner, planner.store, executor, n_jobs, watch,
        )  # fmt: skip
        self.report, self.reference = BuildReport(), Reference()
        self.campaign: dict[str, Any] = {"date": time.strftime("%Y-%m-%d"), **machine()}
        self.campaign |= {"workers": n_jobs, "trainings": 0, "core_s": 0.0, "reference": self.reference.timings}
        self._listed = False

    def run(self, max_passes: int | None = None) -> BuildReport:
        """Build until every problem has had its share, or for `max_passes` passes."""
        start, number = time.monotonic(), 0
        while max_passes is None or number < max_passes:
            number += 1
            work = self._do(self.planner.next_pass(), f"pass {number}")
            again = self._do(self.planner.repeats(), f"repeats of pass {number}")
            if not work and not again:
                break
        self.report.wall_s = time.monotonic() - start
        return self.report

    def _do(self, tasks: list[Measurement], label: str) -> int:
        if not tasks:
            return 0
        if not self._listed:
            self.watch.wait()
            self.reference.asked()
            self._timed(_outcome(self.executor.submit(time_reference)))
            self.store.manifest["campaigns"].append(self.campaign)
            self.store.write_manifest()
            self._listed = True
        left = duration(self.planner.core_seconds_left() / self.n_jobs)
        with Progress(len(tasks), "trainings", f"{label} ({left} for all)", self.n_jobs) as progress:
            results = run_tasks(
                self.executor, _work, self._when_quiet(tasks), self.n_jobs + 1, ready=lambda: self.watch.quiet
            )
            for task, line in results:
                if task is None:
                    self._timed(line)
                    self.store.write_manifest()  # a kill loses ten minutes of the campaign's record, no more
                    continue
                self._keep(task, line)
                progress.advance(note=f"({duration(self.report.core_s)} of core time so far)")
        for problem in dict.fromkeys(task.problem for task in tasks):
            self.store.pack(problem)
        return len(tasks)

    def _when_quiet(self, tasks: Iterable[Measurement]) -> Iterator[Measurement | None]:
        """Yield the tasks while the machine is quiet, and None when the reference training is due."""
        for task in tasks:
            if task.problem in self.planner.refused:
                continue
            self.report.paused_s += self.watch.wait()
            if self.reference.due:
                self.reference.asked()
                yield None
            yield task

    def _timed(self, outcome: Any) -> None:
        """Note what the reference training took; one whose worker was lost is made again when the next is due."""
        if isinstance(outcome, WorkerLost):
            self.report.failed.append(f"the reference training: {outcome!r}")
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            self.reference.add(*outcome)

    def _keep(self, task: Measurement, line: Any) -> None:
        try:
            self._kept(task, line)
        except BadInput as error:  # its data are not there, or not those of its table: so for all of its trainings
            if task.problem not in self.planner.refused:
                self.planner.refused.add(task.problem)
                self.report.failed.append(f"{task.problem}: {error}")

    def _kept(self, task: Measurement, line: Any) -> None:
        if isinstance(line, BadInput):
            raise line
        if isinstance(line, BaseException):
            self.report.failed.append(f"{task.problem} #{task.config}: {line!r}")
            if task.purpose in (AGAIN, NOISE):
                self.planner.not_repeated.add(task)
            else:
                self.planner.given_up.add((task.problem, task.config))
            return
        if task.purpose == NOISE and line["status"] != OK:  # not kept, so it would be due again at once
            self.planner.not_repeated.add(task)
        line["busy"] = round(self.watch.mean(line["started"], line.pop("ended")), 3)
        self.store.append(task.problem, line)
        self.campaign["trainings"] += 1
        self.campaign["core_s"] = round(self.campaign["core_s"] + line["core_s"], 3)
        self.report.trainings += 1
        self.report.core_s += line["core_s"]
        self.report.repeats += task.purpose in (AGAIN, NOISE)
        if line["status"] == TIMEOUT:
            self.report.cut += 1
        elif line["status"] != OK:
            again = "; tried again at the end of the pass" if task.purpose not in (AGAIN, NOISE) else ""
            what = " ".join(f"{line['status']} {line['note']}".split())
            self.report.failed.append(f"{task.problem} #{task.config}: {what}{again}")


def _outcome(future: "Future[Any]") -> Any:
    return future.exception() or future.result()


def _work(task: Measurement | None) -> Any:
    return time_reference() if task is None else measure(task)

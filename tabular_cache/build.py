"""Building tables: what each problem gets, in which order, and the passes of trainings that do it.

`MeasurementBudget` bounds the time and configurations of a problem, `Planner` says what is next, and `Builder` has it
done: every finished training goes into a journal, tables are packed after each pass, repeats come at its end.
`Campaign` is what measuring trainings on an executor takes, here and where tables grow.
"""

import itertools
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from datasets.errors import BadInput
from harness.execution import WorkerLost, run_tasks
from harness.problem import OK, TIMEOUT
from harness.progress import Progress, duration
from tabular_cache import noise
from tabular_cache.measure import MOST_BUSY, LoadMonitor, Measurement, machine, measure, time_reference
from tabular_cache.schema import AGAIN, NEW, NOISE
from tabular_cache.store import LIMIT, Store
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


@dataclass
class Planner:
    """The order of a build: breadth first by machine time.

    Each pass gives every unfinished problem `slice_s` core seconds (at least `pass_size` configurations), so
    that all problems are covered evenly however early the build is stopped.
    """

    store: Store
    problems: Sequence[tuple[str, str]]
    budget: MeasurementBudget
    time_limit_s: float | str | None = AUTO  # CPU seconds per training; auto: each problem's own (`limit`)
    slice_s: float = 30.0
    pass_size: int = 4
    refused: set[str] = field(default_factory=set)  # as in `Campaign`; not planned again
    lost: set[tuple[str, int, str]] = field(default_factory=set)

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
        lost = {config for name, config, purpose in self.lost if (name, purpose) == (problem, NEW)}
        todo = (c for c in itertools.count() if c not in done and c not in lost)
        share, seen = self.budget, len(done) + len(lost)
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

    def _task(self, dataset: str, pipeline: str, config: int, limit: float | None, purpose: str = NEW) -> Measurement:
        method = self.store.manifest["tree_method"]
        return Measurement(dataset, pipeline, config, method, limit, purpose=purpose)

    def limit(self, problem: str) -> float | None:
        """Return the time limit of a problem's trainings; one of its own is set once, after its pilot."""
        if self.time_limit_s != AUTO:
            return None if self.time_limit_s is None else float(self.time_limit_s)
        entry = self.store.manifest["tables"].get(problem)
        if entry is None or entry["configs"] < PILOT:
            return self.budget.floor_s
        if LIMIT not in entry:
            rows = self.store.packed(problem)
            if rows is None:
                return self.budget.floor_s
            entry[LIMIT] = self.budget.limit(uncut_costs(to_table(problem, rows, entry)))
        limit: float | None = entry[LIMIT]
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
        return [task for task in tasks if (task.problem, task.config, task.purpose) not in self.lost]

    def core_seconds_left(self) -> float:
        """Return an estimate of the core seconds that the rest of the build takes."""
        total = 0.0
        entries: dict[str, Any] = self.store.manifest["tables"]
        known = [e["core_s"] / e["configs"] for e in entries.values() if e.get("configs")]
        for dataset, pipeline in self._open():
            entry = entries.get(f"{dataset}/{pipeline}", {"configs": 0, "core_s": 0.0})
            n, spent, a = entry["configs"], entry["core_s"], self.budget
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


# Measuring: trainings on an executor while nothing disturbs, the reference training every ten minutes.

EVERY_S = 600.0  # between two timings of the reference training


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


class Campaign:
    """Does trainings, for so many hours or to the end; a finished one is kept (`_append`) whatever happens later.

    refused: problems that cannot be measured here; lost: trainings that raised. Neither is asked for again.
    """

    def __init__(self, executor: Executor, n_jobs: int, watch: LoadMonitor, hours: float | None = None) -> None:
        self.executor, self.n_jobs, self.watch = executor, n_jobs, watch
        self.report = BuildReport()
        self.timings: list[tuple[int, float, float]] = []  # of the reference: Unix time, CPU and scaled seconds
        self.refused: set[str] = set()
        self.lost: set[tuple[str, int, str]] = set()  # problem, configuration, purpose
        self._end = np.inf if hours is None else time.monotonic() + 3600 * hours
        self._reference_due = -np.inf

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self._end

    def _append(self, task: Measurement, line: dict[str, Any]) -> None:
        """Keep the journal line of a finished training; raises BadInput for one on other data than its table's."""
        raise NotImplementedError

    def _do(self, tasks: Sequence[Measurement], label: str) -> int:
        """Do trainings until they are done or the time is up; returns how many were finished."""
        if not tasks or self.over:
            return 0
        before = self.report.trainings
        with Progress(len(tasks), "trainings", label, self.n_jobs) as progress:
            asked, ready = self._while_undisturbed(tasks), lambda: self.watch.undisturbed
            for task, outcome in run_tasks(self.executor, _work, asked, self.n_jobs + 1, ready):
                if task is None:
                    self._timed(outcome)
                    continue
                self._finished(task, outcome)
                progress.advance(note=f"({duration(self.report.core_s)} of core time so far)")
        return self.report.trainings - before

    def _while_undisturbed(self, tasks: Sequence[Measurement]) -> Iterator[Measurement | None]:
        """Yield the tasks while nothing disturbs and there is time, and None when the reference training is due."""
        for task in tasks:
            if task.problem in self.refused:
                continue
            self.report.paused_s += self.watch.wait(self._end - time.monotonic())
            if self.over:
                return
            if time.monotonic() >= self._reference_due:
                self._reference_due = time.monotonic() + EVERY_S
                yield None
            yield task

    def _timed(self, outcome: Any) -> None:
        """Note what the reference training took; one whose worker was lost is made again when the next is due."""
        if isinstance(outcome, WorkerLost):
            self.report.failed.append(f"the reference training: {outcome!r}")
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            cpu_s, scaled_s = outcome
            self.timings.append((int(time.time()), round(cpu_s, 5), round(scaled_s, 5)))

    def _finished(self, task: Measurement, outcome: Any) -> None:
        """Keep a finished training, or note why there is none."""
        try:
            if isinstance(outcome, BadInput):
                raise outcome
            if isinstance(outcome, BaseException):
                self._lose(task, repr(outcome))
                return
            what = " ".join(f"{outcome['status']} {outcome['note']}".split())
            if outcome["status"] != OK and task.purpose == NOISE:  # not kept, so it would be due again at once
                self._lose(task, f"a repeat ended as {what}")
                return
            outcome["busy"] = round(self.watch.mean(outcome["started"], outcome.pop("ended")), 3)
            self._append(task, outcome)
        except BadInput as error:  # its data are not there, or not those of its table: so for all of its trainings
            if task.problem not in self.refused:
                self.refused.add(task.problem)
                self.report.failed.append(f"{task.problem}: {error}")
            return
        self.report.trainings += 1
        self.report.core_s += outcome["core_s"]
        self.report.repeats += task.purpose != NEW
        self.report.cut += outcome["status"] == TIMEOUT
        if outcome["status"] not in (OK, TIMEOUT):
            self.report.failed.append(f"{task}: {what}")

    def _lose(self, task: Measurement, why: str) -> None:
        self.lost.add((task.problem, task.config, task.purpose))
        self.report.failed.append(f"{task}: {why}")


def _work(task: Measurement | None) -> Any:
    return time_reference() if task is None else measure(task)


class Builder(Campaign):
    """Does what the planner asks for, and packs tables after every pass; its campaign is in the manifest."""

    def __init__(self, planner: Planner, executor: Executor, n_jobs: int, watch: LoadMonitor) -> None:
        super().__init__(executor, n_jobs, watch)
        self.planner, self.store = planner, planner.store
        planner.refused, planner.lost = self.refused, self.lost
        self.campaign: dict[str, Any] = {"date": time.strftime("%Y-%m-%d"), **machine(), "workers": n_jobs}
        self.campaign |= {"trainings": 0, "core_s": 0.0, "reference": self.timings}

    def run(self, max_passes: int | None = None) -> BuildReport:
        """Build until every problem has had its share, or for `max_passes` passes."""
        start, number = time.monotonic(), 0
        while max_passes is None or number < max_passes:
            number += 1
            work, again = self._pass(f"pass {number}", False), self._pass(f"repeats of pass {number}", True)
            if not work and not again:
                break
        self.report.wall_s = time.monotonic() - start
        return self.report

    def _pass(self, label: str, repeats: bool) -> int:
        """Do and pack the next trainings, or the repeats that are due; returns how many there were."""
        tasks = self.planner.repeats() if repeats else self.planner.next_pass()
        campaigns = self.store.manifest["campaigns"]
        if tasks and self.campaign not in campaigns:
            campaigns.append(self.campaign)
        left = duration(self.planner.core_seconds_left() / self.n_jobs)
        self._do(tasks, f"{label} ({left} for all)")
        for problem in dict.fromkeys(task.problem for task in tasks):
            self.store.pack(problem)
        return len(tasks)

    def _append(self, task: Measurement, line: dict[str, Any]) -> None:
        self.store.append(task.problem, line)
        self.campaign["trainings"] += 1
        self.campaign["core_s"] = round(self.campaign["core_s"] + line["core_s"], 3)

    def _timed(self, outcome: Any) -> None:
        super()._timed(outcome)
        self.store.write_manifest()  # a kill loses ten minutes of the campaign's record, no more

"""Growing tables stage by stage: the plan (`Plan`), the parts that are packed (`PartStore`), one sitting (`Grower`).

Every finished training is in a journal at once, every finished unit is a part. One problem's unit is measured at a
time, its disturbed trainings are repeated, and it becomes a part. Before each unit come the repeats of the noise sample
that are due. A killed sitting goes on where it was: what is in a journal counts as done, and a journal that was packed
just before the kill is known by its digest in the part's sidecar.
"""

import hashlib
import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datasets.errors import BadInput
from datasets.files import write_atomically
from harness.execution import run_tasks
from harness.execution.supervisor import WorkerLost
from harness.problem import OK, TIMEOUT
from harness.progress import Progress, duration
from pipelines.identity import difference
from tabular_cache import noise, parts
from tabular_cache.build import BuildReport, disturbed_configs, uncut_costs
from tabular_cache.measure import Measurement, machine, measure
from tabular_cache.parts import FOLDER
from tabular_cache.reference import LoadMonitor, Reference, time_reference
from tabular_cache.rows import AGAIN, NOISE, merge_rows, parquet_bytes
from tabular_cache.schema import MOST_CONFIGS, NOISE_SCHEMA, file_stem
from tabular_cache.store import Store, append_line, check_same_data, read_journal
from tabular_cache.table import Table, base_manifest, load_table, to_table

# The stages by which the tables grow: which configurations of which problem are measured in which order.
#
# A plan is decided once, from the times in the tables as they are then, and kept in `parts/plan.json`: which problems
# are the dearest must not change while they are measured. A stage is a list of units, each a problem and how many
# configurations it is to have after it; a unit without a number does again what a lower time limit cut short.

FILE = "plan.json"
LIMIT_S = 120.0
PILOT = 32  # configurations from which on a table measured from scratch says what its trainings cost


@dataclass(frozen=True)
class Unit:
    """What a problem gets in a stage: `configs` configurations, or None: those that were cut short, to their end."""

    stage: str
    problem: str
    configs: int | None


@dataclass(frozen=True)
class Sizes:
    """How the problems are parted: the `dearest`, the rest of the `dear`, all others, and the `cheapest` of these."""

    dear: int = 40
    dearest: int = 20
    cheapest: int = 40
    some: int = 512
    many: int = 1024
    most: int = 2048


@dataclass(frozen=True)
class Plan:
    """The stages in their order, the limit in CPU seconds of a training, and what was known when it was decided.

    anew: problems whose data have changed, measured from scratch. cost_s: mean CPU seconds of a training
    under the limit, by problem, dearest first.
    """

    decided: str
    time_limit_s: float
    anew: tuple[str, ...]
    cost_s: Mapping[str, float]
    stages: Mapping[str, Sequence[tuple[str, int | None]]] = field(default_factory=dict)

    def units(self) -> Iterator[Unit]:
        """Yield the units in the order in which they are measured."""
        for stage, units in self.stages.items():
            for problem, configs in units:
                yield Unit(stage, problem, configs)

    @property
    def problems(self) -> list[str]:
        """All problems of the plan."""
        return list(dict.fromkeys(unit.problem for unit in self.units()))


def decide(folder: Path, anew: Collection[str], limit_s: float = LIMIT_S, sizes: Sizes = Sizes()) -> Plan:
    """Return the plan for the tables of a folder, from their times.

    Raises BadInput for problems to measure anew that have no table.
    """
    tables = {problem: load_table(problem, folder) for problem in base_manifest(folder)["tables"]}
    unknown = [problem for problem in anew if problem not in tables]
    if unknown:
        raise BadInput(f"anew: there is no table of {unknown[0]} in {folder}")
    cost = {problem: float(capped_costs(table, limit_s).mean()) for problem, table in tables.items()}
    order = sorted(tables, key=lambda problem: (-cost[problem], problem))
    dearest, dear = order[: sizes.dearest], order[sizes.dearest : sizes.dear]
    rest = order[::-1][: max(len(order) - sizes.dear, 0)]  # the cheapest first
    old = {problem: int(table.meta["configs"]) for problem, table in tables.items()}
    cut = {problem: int((~table.measured).sum()) for problem, table in tables.items() if problem not in anew}
    again = sorted((p for p in cut if cut[p]), key=lambda problem: (-cut[problem], problem))
    changed = [problem for problem in order[::-1] if problem in anew]
    later = [problem for problem in rest if problem in anew] + dear[::-1]
    stages: dict[str, list[tuple[str, int | None]]] = {
        f"i: {sizes.many} configurations of all but the {sizes.dear} dearest": [
            (problem, sizes.many) for problem in rest if problem not in anew
        ],
        f"ii: changed data from scratch, then what was cut short, up to {limit_s:g} s": [
            *((problem, old[problem]) for problem in changed),
            *((problem, None) for problem in again),
        ],
        f"iii: {sizes.many} configurations of the next {len(dear)}": [(problem, sizes.many) for problem in later],
        f"iv: {sizes.some} configurations of the {len(dearest)} dearest": [(p, sizes.some) for p in dearest[::-1]],
        f"v: {sizes.many} configurations of these": [(problem, sizes.many) for problem in dearest[::-1]],
        f"vi: {sizes.most} configurations of the {sizes.cheapest} cheapest": [
            (problem, sizes.most) for problem in rest[: sizes.cheapest]
        ],
    }
    costs = {problem: round(cost[problem], 4) for problem in order}
    return Plan(time.strftime("%Y-%m-%d"), limit_s, tuple(sorted(anew)), costs, stages)


def check_undecided(folder: Path) -> None:
    """Raise BadInput if a folder has a plan."""
    path = folder / FOLDER / FILE
    if path.exists():
        raise BadInput(f"{path} is decided already; a plan is not changed while tables grow by it")


def write_plan(folder: Path, plan: Plan) -> None:
    """Keep a plan; raises BadInput if there is one."""
    check_undecided(folder)
    write_atomically(folder / FOLDER / FILE, json.dumps(asdict(plan), indent=1).encode() + b"\n")


def read_plan(folder: Path) -> Plan:
    """Return the plan of a folder; raises BadInput if there is none or it is damaged."""
    path = folder / FOLDER / FILE
    try:
        found = json.loads(path.read_text())
        stages = {
            str(name): [(str(p), None if n is None else _size(n)) for p, n in units]
            for name, units in found["stages"].items()
        }
        limit = float(found["time_limit_s"])
        if not limit > 0:
            raise ValueError(f"time_limit_s is {limit}")
        return Plan(found["decided"], limit, tuple(found["anew"]), found["cost_s"], stages)
    except FileNotFoundError:
        raise BadInput(f"no plan in {folder}: decide one with `python -m tabular_cache plan tables={folder}`") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"the plan {path} is damaged ({type(error).__name__}: {error}): restore it") from None


def _size(n: Any) -> int:
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= MOST_CONFIGS:
        raise ValueError(f"a problem cannot have {n!r} configurations, only 1 to {MOST_CONFIGS}")
    return n


def missing(unit: Unit, rows: pa.Table | None, limit_s: float) -> list[int]:
    """Return the configurations of a unit that are still to be measured, given the rows that its problem has."""
    if unit.configs is not None:
        there = set() if rows is None else set(rows["config"].to_pylist())
        return [config for config in range(unit.configs) if config not in there]
    if rows is None:
        return []
    own = rows.filter(rows["own"])
    cut = (np.array(own["status"].to_pylist()) == TIMEOUT) & (own["cpu_s"].to_numpy() < limit_s)
    return [int(config) for config in np.sort(own["config"].to_numpy()[cut])]


def capped_costs(table: Table, limit_s: float) -> np.ndarray:
    """Return what each configuration costs at its own rounds, in CPU seconds, or the limit where that is less."""
    return np.minimum(uncut_costs(table), limit_s)


@dataclass(frozen=True)
class Rest:
    """What is left of a stage: problems, trainings, and core-hours by what trainings have cost so far."""

    stage: str
    problems: int
    trainings: int
    core_hours: float


def rest_of_stages(plan: Plan, rows_of: Mapping[str, pa.Table | None], base_of: Mapping[str, Table]) -> list[Rest]:
    """Return what is left of each stage.

    rows_of: the rows that each problem has, those in the journal too; base_of: the tables that say what a training
    costs where a table measured from scratch has few rows. A configuration counts in the first stage that asks for it.
    """
    promised: dict[str, set[int]] = {}
    sums = {stage: [0, 0, 0.0] for stage in plan.stages}
    for unit in plan.units():
        rows, base = rows_of[unit.problem], base_of[unit.problem]
        todo = set(missing(unit, rows, plan.time_limit_s)) - promised.setdefault(unit.problem, set())
        if not todo:
            continue
        promised[unit.problem] |= todo
        table = base if rows is None else to_table(unit.problem, rows, base.meta)
        own = table["config"][table["own"]]
        if len(own) < PILOT:
            table, own = base, base["config"][base["own"]]
        costs = capped_costs(table, plan.time_limit_s)
        again = np.isin(own, list(todo))
        cpu_s = costs[again].sum() if unit.configs is None else costs.mean() * len(todo)
        beside = base.meta["core_s"] / base["cpu_s"][base["own"]].sum()  # scoring, repeats, short ones timed thrice
        total = sums[unit.stage]
        total[0], total[1], total[2] = total[0] + 1, total[1] + len(todo), total[2] + cpu_s * max(beside, 1.0) / 3600
    return [Rest(stage, int(n), int(trainings), hours) for stage, (n, trainings, hours) in sums.items()]


NEW = "new"
MOST_NOISE = 400  # measurements of the noise sample that wait for a part of their own
FEW_ROWS = 16  # trainings: fewer wait in the journal for the next sitting


class PartStore:
    """The tables of a folder, opened for parts: their journals, and what a problem's rows are with them."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        """Open a folder; raises BadInput if its manifest or a sidecar cannot be read."""
        self.folder, self.plan, self.journal = folder, plan, folder / "journal"
        manifest = base_manifest(folder)
        self.base: dict[str, Any] = manifest["tables"]
        self.tree_method = str(manifest["tree_method"])
        self._store = Store(folder)  # of the base files, which stay as they are

    def locked(self) -> AbstractContextManager[None]:
        """Hold the folder's lock; raises BadInput when another build has it."""
        return self._store.locked()

    def recover(self) -> None:
        """Drop the journals that are in a part already: what a kill left between the sidecar and the journal."""
        packed = {part["journal"] for found in parts.sidecars(self.folder).values() for part in found}
        for path in sorted(self.journal.glob("*.part.jsonl")):
            if _digest(path) in packed:
                path.unlink()

    def path(self, problem: str) -> Path:
        """Return the journal of a problem, or of the noise sample."""
        return self.journal / f"{file_stem(problem)}.part.jsonl"

    def lines(self, problem: str) -> list[dict[str, Any]]:
        """Return the journal of a problem, or of the noise sample."""
        return read_journal(self.path(problem))

    def _lineage(self, problem: str) -> list[parts.Sidecar]:
        goes_on, anew = parts.lineages(parts.sidecars(self.folder).get(problem, []), self.base.get(problem))
        return anew if self.from_scratch(problem) else goes_on

    def from_scratch(self, problem: str) -> bool:
        """Whether a problem's rows do not continue the table of the manifest."""
        return problem in self.plan.anew or problem not in self.base

    def rows(self, problem: str) -> pa.Table | None:
        """Return the rows that a problem's table has; those of the journal are not among them."""
        tables = self._added(problem)
        if not self.from_scratch(problem):
            packed = self._store.packed(problem)
            if packed is None:
                raise BadInput(f"the table of {problem} is not in {self.folder}, and parts continue it: restore it")
            tables.insert(0, packed)
        return parts.joined(tables) if tables else None

    def _added(self, problem: str) -> list[pa.Table]:
        """Return the rows of a problem's parts."""
        found = [parts.read_part(self.folder, part) for part in self._lineage(problem)]
        return [parts.rows_of(content) for content in found]

    def with_journal(self, problem: str) -> pa.Table | None:
        """Return the rows that a problem has, those of the journal too."""
        rows, fresh = self.rows(problem), self.fresh(problem)
        tables = [table for table in (rows, fresh) if table is not None]
        return parts.joined(tables) if tables else None

    def fresh(self, problem: str) -> pa.Table | None:
        """Return the rows of a problem's journal; a repeat is merged with what a part has of its training."""
        lines, added = self.lines(problem), self._added(problem)
        if not lines:
            return None
        again = pa.array([line["config"] for line in lines if line["purpose"] == AGAIN], pa.int32())
        whole = parts.joined(added) if added else None
        old = None if whole is None or not len(again) else whole.filter(pc.is_in(whole["config"], again))
        return merge_rows(old, lines)

    def disturbed(self, problem: str) -> list[int]:
        """Return the configurations to repeat, of those in parts or the journal: the base file's have been."""
        fresh = self.fresh(problem)
        tables = [*self._added(problem), *([] if fresh is None else [fresh])]
        return disturbed_configs(parts.joined(tables)) if tables else []

    def append(self, problem: str, line: dict[str, Any]) -> None:
        """Add one finished training to the journals; raises BadInput for one on other data than the table's."""
        self._check_data(problem, line["problem"])
        sampled = line["config"] in noise.sample(problem) and not self.from_scratch(problem)
        if line["purpose"] == NOISE or (sampled and line["purpose"] == NEW and line["status"] == OK):
            append_line(self.path(parts.NOISE), noise.measurement(problem, line))
        if line["purpose"] != NOISE:
            append_line(self.path(problem), line)

    def _check_data(self, problem: str, found: Mapping[str, Any]) -> None:
        """Raise BadInput unless the matrices are those of the table, their last digits aside."""
        old = self.base.get(problem)
        if self.from_scratch(problem):
            if old is not None and not difference(old, found):
                raise BadInput(f"{problem} is to be measured from scratch, and its data are those of the old table")
            before = [part["data"] for part in self._lineage(problem)[:1]]
            before += [line["problem"] for line in self.lines(problem)[:1]]
            known = before[0] if before else found
        else:
            known = self.base[problem]
        check_same_data(problem, known, found)

    def pack(self, unit: Unit, campaign: dict[str, Any]) -> bool:
        """Make a part of a problem's journal; says whether there was anything to pack."""
        problem = unit.problem
        before, lines = self.rows(problem), self.lines(problem)
        rows = self.fresh(problem)
        if rows is None:
            return False
        whole = rows if before is None else parts.joined([before, rows])
        facts = {
            "stage": unit.stage,
            "continues": None if self.from_scratch(problem) else self.base[problem]["data_hash"],
            "configs": len(set(rows["config"].to_pylist())),
            "rows": len(rows),
            "cut": _cut(rows),
            "core_s": round(sum(line["core_s"] for line in lines), 3),
            "table": {
                "configs": len(set(whole["config"].to_pylist())),
                "rows": len(whole),
                "cut": _cut(whole),
                "time_limit_s": self._limit(problem, whole),
            },
        }
        self._finish(problem, parquet_bytes(rows), facts | {"data": lines[-1]["problem"]}, campaign, len(lines))
        return True

    def _limit(self, problem: str, whole: pa.Table) -> float | None:
        """Return the time limit that a table stands under: the lowest that any of its trainings has met."""
        low = len(missing(Unit("", problem, None), whole, self.plan.time_limit_s)) > 0
        return self.base[problem].get("time_limit_s") if low and problem in self.base else self.plan.time_limit_s

    def pack_noise(self, campaign: dict[str, Any]) -> bool:
        """Make a part of the measurements of the noise sample in the journal; says whether there were any."""
        lines = self.lines(parts.NOISE)
        if not lines:
            return False
        rows = pa.Table.from_pylist(lines, NOISE_SCHEMA)
        facts = {"stage": "noise", "rows": len(rows), "core_s": round(sum(line["cpu_s"] for line in lines), 3)}
        self._finish(parts.NOISE, parquet_bytes(rows), facts, campaign, len(lines))
        return True

    def _finish(
        self, problem: str, content: bytes, facts: dict[str, Any], campaign: dict[str, Any], trainings: int
    ) -> None:
        number = 1 + max((part["number"] for part in parts.sidecars(self.folder).get(problem, [])), default=0)
        path = self.path(problem)
        counted = {**campaign, "trainings": trainings, "core_s": facts["core_s"]}
        if problem == parts.NOISE:  # most of these are counted with the tables' parts
            counted |= {"trainings": 0, "core_s": 0.0}
        parts.write_part(
            self.folder, problem, number, content, {**facts, "journal": _digest(path), "campaign": counted}
        )
        path.unlink()

    def left(self) -> list[Rest]:
        """Return what is left of each stage."""
        rows = {problem: self.with_journal(problem) for problem in self.plan.problems}
        return rest_of_stages(
            self.plan, rows, {problem: load_table(problem, self.folder) for problem in self.plan.problems}
        )

    def repeats_due(self, now: float) -> list[tuple[str, int]]:
        """Return the (problem, configuration) pairs of the noise sample whose next repeat may be made now."""
        known = [problem for problem in self.plan.problems if not self.from_scratch(problem)]
        return noise.due(self.folder, known, now, self.lines(parts.NOISE))


class Grower:
    """One sitting: does the units of the plan, for so many hours or to the end."""

    def __init__(
        self, store: PartStore, executor: Executor, n_jobs: int, watch: LoadMonitor, hours: float | None
    ) -> None:
        self.store, self.plan, self.executor, self.n_jobs, self.watch = store, store.plan, executor, n_jobs, watch
        self._end = np.inf if hours is None else time.monotonic() + 3600 * hours
        self.report, self.reference = BuildReport(), Reference()
        self.finished: list[str] = []  # parts, in words
        self._refused: set[str] = set()
        self._lost: set[tuple[str, int, str]] = set()  # (problem, configuration, purpose) that raised
        self._machine = machine()
        self._redone: set[int] = set()  # of the unit at hand: configurations that have rows, from trainings cut short
        self._timings = 0  # of the reference that are in a part

    @property
    def over(self) -> bool:
        """Whether the sitting's time is up."""
        return time.monotonic() >= self._end

    def run(self) -> BuildReport:
        """Grow the tables until the plan is done or the time is up; returns what was done."""
        start = time.monotonic()
        self.store.recover()
        for unit in self.plan.units():
            if self.over:
                break
            self._noise()
            self._unit(unit)
        while not self.over and self._noise():
            pass
        if not self.over or len(self.store.lines(parts.NOISE)) >= FEW_ROWS:
            self._pack_noise()
        self.report.wall_s = time.monotonic() - start
        return self.report

    def _unit(self, unit: Unit) -> None:
        """Measure what is missing of a unit, repeat what was disturbed, and make a part of it."""
        rows = self.store.with_journal(unit.problem)
        todo = missing(unit, rows, self.plan.time_limit_s)
        self._redone = set() if unit.configs is not None else set(todo)
        self._do(self._tasks(unit.problem, todo, NEW), f"{unit.stage}, {unit.problem}")
        while again := self._disturbed(unit.problem):
            if not self._do(self._tasks(unit.problem, again, AGAIN), f"repeats of {unit.problem}"):
                break
        few = self.over and len(self.store.lines(unit.problem)) < FEW_ROWS
        if self.store.path(unit.problem).exists() and not few and self.store.pack(unit, self._campaign()):
            self.finished.append(f"{unit.problem}, {unit.stage}")
        if len(self.store.lines(parts.NOISE)) >= MOST_NOISE:
            self._pack_noise()

    def _disturbed(self, problem: str) -> list[int]:
        return [c for c in self.store.disturbed(problem) if (problem, c, AGAIN) not in self._lost]

    def _noise(self) -> int:
        """Repeat the trainings of the noise sample that are due; returns how many were."""
        due = self.store.repeats_due(time.time())
        tasks = [task for problem, config in due for task in self._tasks(problem, [config], NOISE)]
        return self._do(tasks, "repeats of the noise sample")

    def _pack_noise(self) -> None:
        if self.store.pack_noise(self._campaign()):
            self.finished.append("repeats of the noise sample")

    def _tasks(self, problem: str, configs: Sequence[int], purpose: str) -> list[Measurement]:
        dataset, _, pipeline = problem.partition("/")
        limit = None if purpose == NOISE else self.plan.time_limit_s
        return [
            Measurement(dataset, pipeline, config, self.store.tree_method, limit, purpose=purpose)
            for config in configs
            if (problem, config, purpose) not in self._lost and problem not in self._refused
        ]

    def _do(self, tasks: list[Measurement], label: str) -> int:
        """Do trainings until they are done or the time is up; returns how many were finished."""
        if not tasks or self.over:
            return 0
        before = self.report.trainings
        with Progress(len(tasks), "trainings", label) as progress:
            results = run_tasks(
                self.executor, _work, self._when_quiet(tasks), self.n_jobs + 1, lambda: self.watch.quiet
            )
            for task, line in results:
                if task is None:
                    self._timed(line)
                    continue
                self._keep(task, line)
                progress.advance(note=f"({duration(self.report.core_s)} of core time so far)")
        return self.report.trainings - before

    def _when_quiet(self, tasks: Sequence[Measurement]) -> Iterator[Measurement | None]:
        """Yield the tasks while the machine is quiet and there is time, and None when the reference is due."""
        for task in tasks:
            if task.problem in self._refused:
                continue
            self.report.paused_s += self.watch.wait(self._end - time.monotonic())
            if self.over:
                return
            if self.reference.due:
                self.reference.asked()
                yield None
            yield task

    def _timed(self, outcome: Any) -> None:
        if isinstance(outcome, WorkerLost):
            self.report.failed.append(f"the reference training: {outcome!r}")
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            self.reference.add(*outcome)

    def _keep(self, task: Measurement, line: Any) -> None:
        """Put a finished training into the journals, or note why there is none."""
        try:
            if isinstance(line, BadInput):
                raise line
            if isinstance(line, BaseException):
                self.report.failed.append(f"{task.problem} #{task.config}: {line!r}")
                self._lost.add((task.problem, task.config, task.purpose))
                return
            if task.purpose == NOISE and line["status"] != OK:  # not kept, so it would be due again at once
                self._lost.add((task.problem, task.config, task.purpose))
                self.report.failed.append(f"{task.problem} #{task.config}: a repeat ended as {line['status']}")
                return
            if task.config in self._redone and line["status"] not in (OK, TIMEOUT):  # the rows it has are worth more
                self._lost.add((task.problem, task.config, task.purpose))
                self.report.failed.append(f"{task.problem} #{task.config}: {line['status']} {line['note']}".strip())
                return
            line["busy"] = round(self.watch.mean(line["started"], line.pop("ended")), 3)
            self.store.append(task.problem, line)
        except BadInput as error:  # its data are not there, or not those of its table: so for all of its trainings
            if task.problem not in self._refused:
                self._refused.add(task.problem)
                self.report.failed.append(f"{task.problem}: {error}")
            return
        self.report.trainings += 1
        self.report.core_s += line["core_s"]
        self.report.repeats += task.purpose != NEW
        self.report.cut += line["status"] == TIMEOUT
        if line["status"] not in (OK, TIMEOUT):
            self.report.failed.append(f"{task.problem} #{task.config}: {line['status']} {line['note']}".strip())

    def _campaign(self) -> dict[str, Any]:
        """Return what the next sidecar says of machine and day, with the reference timings since the last one."""
        timings, self._timings = self.reference.timings[self._timings :], len(self.reference.timings)
        return {"date": time.strftime("%Y-%m-%d"), **self._machine, "workers": self.n_jobs, "reference": timings}


def _cut(rows: pa.Table) -> int:
    return sum(status == TIMEOUT for status in rows["status"].to_pylist())


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _work(task: Measurement | None) -> Any:
    return time_reference() if task is None else measure(task)

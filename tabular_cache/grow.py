"""Growing tables stage by stage: the plan (`Plan`), the parts that are packed (`PartStore`), one run (`Grower`).

Every finished training is in a journal at once, every finished unit is a part. One problem's unit is measured at a
time, its disturbed trainings are repeated, and it becomes a part. Before each unit come the repeats of the noise sample
that are due. A killed run goes on where it was: what is in a journal counts as done, and a journal that was packed
just before the kill is known by its digest in the part's sidecar.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, TypeAdapter, ValidationError

from datasets.errors import BadInput
from datasets.files import file_sha256
from harness.problem import OK, TIMEOUT
from pipelines.identity import difference
from tabular_cache import noise
from tabular_cache.build import BuildReport, Campaign, disturbed_configs, uncut_costs
from tabular_cache.measure import LoadMonitor, Measurement, machine
from tabular_cache.schema import (
    AGAIN,
    MOST_CONFIGS,
    NEW,
    NOISE,
    NOISE_SCHEMA,
    file_stem,
    joined,
    merge_rows,
    parquet_bytes,
    read_rows,
)
from tabular_cache.store import Journal, Store, check_same_data
from tabular_cache.table import (
    NOISE_PARTS,
    PARTS,
    Sidecar,
    Table,
    base_manifest,
    lineages,
    load_table,
    read_part,
    sidecars,
    to_table,
    write_part,
)

# The stages by which the tables grow: which configurations of which problem are measured in which order.
#
# The plan is `parts/plan.json`, decided once, from the times in the tables as they were then: which problems are the
# dearest must not change while they are measured. A stage is a list of units, each a problem and how many
# configurations it is to have after it; a unit without a number does again what a lower time limit cut short.

FILE = "plan.json"
LEAST_KNOWN = 32  # configurations from which on a table measured from scratch says what its trainings cost


@dataclass(frozen=True)
class Unit:
    """What a problem gets in a stage: `configs` configurations, or None: those that were cut short, to their end."""

    stage: str
    problem: str
    configs: int | None


@dataclass(frozen=True)
class Plan:
    """The stages in their order, the limit in CPU seconds of a training, and what was known when it was decided.

    anew: problems whose data have changed, measured from scratch. cost_s: mean CPU seconds of a training
    under the limit, by problem, the most expensive first.
    """

    decided: str
    time_limit_s: Annotated[float, Field(gt=0)]
    anew: tuple[str, ...]
    cost_s: Mapping[str, float]
    stages: Mapping[str, Sequence[tuple[str, Annotated[int, Field(ge=1, le=MOST_CONFIGS)] | None]]]

    def units(self) -> Iterator[Unit]:
        """Yield the units in the order in which they are measured."""
        for stage, units in self.stages.items():
            for problem, configs in units:
                yield Unit(stage, problem, configs)

    @property
    def problems(self) -> list[str]:
        """All problems of the plan."""
        return list(dict.fromkeys(unit.problem for unit in self.units()))


def read_plan(folder: Path) -> Plan:
    """Return the plan of a folder; raises BadInput if there is none or it is damaged."""
    path = folder / PARTS / FILE
    try:
        return TypeAdapter(Plan).validate_json(path.read_bytes(), strict=True)
    except FileNotFoundError:
        raise BadInput(f"no plan in {folder}: its stages belong into {path} (tabular_cache/README.md)") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise BadInput(f"the plan {path} is damaged ({where}: {first['msg']}): restore it") from None


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


def _capped_costs(table: Table, limit_s: float) -> np.ndarray:
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
        if len(own) < LEAST_KNOWN:
            table, own = base, base["config"][base["own"]]
        costs = _capped_costs(table, plan.time_limit_s)
        again = np.isin(own, list(todo))
        cpu_s = costs[again].sum() if unit.configs is None else costs.mean() * len(todo)
        beside = base.meta["core_s"] / base["cpu_s"][base["own"]].sum()  # scoring, repeats, short ones timed thrice
        total = sums[unit.stage]
        total[0], total[1], total[2] = total[0] + 1, total[1] + len(todo), total[2] + cpu_s * max(beside, 1.0) / 3600
    return [Rest(stage, int(n), int(trainings), hours) for stage, (n, trainings, hours) in sums.items()]


# Packing parts.

MOST_NOISE = 400  # measurements of the noise sample that wait for a part of their own
FEW_ROWS = 16  # trainings: fewer wait in the journal for the next run


class PartStore:
    """The tables of a folder, opened for parts: their journals, and what a problem's rows are with them."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        """Open a folder; raises BadInput if its manifest or a sidecar cannot be read."""
        self.folder, self.plan = folder, plan
        self._store = Store(folder)  # of the base files, which stay as they are
        self.base: dict[str, Any] = base_manifest(folder)["tables"]
        self.tree_method = str(self._store.manifest["tree_method"])
        self._data: dict[str, Mapping[str, Any]] = {}  # of the data that each problem from scratch is measured on
        self.locked = self._store.locked

    def recover(self) -> None:
        """Drop the journals that are in a part already: what a kill left between the sidecar and the journal."""
        packed = {part["journal"] for found in sidecars(self.folder).values() for part in found}
        for path in sorted((self.folder / "journal").glob("*.part.jsonl")):
            if file_sha256(path) in packed:
                path.unlink()

    def journal(self, problem: str) -> Journal:
        """Return the journal of a problem, or of the noise sample."""
        return Journal(self.folder / "journal" / f"{file_stem(problem)}.part.jsonl")

    def from_scratch(self, problem: str) -> bool:
        """Whether a problem's rows do not continue the table of the manifest."""
        return problem in self.plan.anew or problem not in self.base

    def _lineage(self, problem: str) -> list[Sidecar]:
        goes_on, anew = lineages(sidecars(self.folder).get(problem, []), self.base.get(problem))
        return anew if self.from_scratch(problem) else goes_on

    def _added(self, problem: str) -> list[pa.Table]:
        """Return the rows of a problem's parts."""
        return [read_rows(read_part(self.folder, part), part["file"]) for part in self._lineage(problem)]

    def rows(self, problem: str) -> pa.Table | None:
        """Return the rows that a problem has, those of the journal too."""
        tables = self._added(problem)
        if not self.from_scratch(problem):
            packed = self._store.packed(problem)
            if packed is None:
                raise BadInput(f"the table of {problem} is not in {self.folder}, and parts continue it: restore it")
            tables.insert(0, packed)
        fresh = self.fresh(problem)
        tables += [] if fresh is None else [fresh]
        return joined(tables) if tables else None

    def fresh(self, problem: str) -> pa.Table | None:
        """Return the rows of a problem's journal; a repeat is merged with what a part has of its training."""
        lines, added = self.journal(problem).lines(), self._added(problem)
        again = pa.array([line["config"] for line in lines if line["purpose"] == AGAIN], pa.int32())
        whole = joined(added) if added and len(again) else None
        old = None if whole is None else whole.filter(pc.is_in(whole["config"], again))
        return merge_rows(old, lines) if lines else None

    def disturbed(self, problem: str) -> list[int]:
        """Return the configurations to repeat, of those in parts or the journal: the base file's have been."""
        fresh = self.fresh(problem)
        tables = [*self._added(problem), *([] if fresh is None else [fresh])]
        return disturbed_configs(joined(tables)) if tables else []

    def append(self, problem: str, line: dict[str, Any]) -> None:
        """Add one finished training to the journals; raises BadInput for one on other data than the table's."""
        check_same_data(problem, self._known_data(problem, line["problem"]), line["problem"])
        if noise.belongs(problem, line) and not self.from_scratch(problem):
            self.journal(NOISE_PARTS).append(noise.measurement(problem, line))
        if line["purpose"] != NOISE:
            self.journal(problem).append(line)

    def _known_data(self, problem: str, found: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what the data of a problem must be: of its table, or of the first training from scratch.

        Raises BadInput where that training is on the data of the old table.
        """
        if not self.from_scratch(problem):
            return dict(self.base[problem])
        if problem in self.base and not difference(self.base[problem], found):
            raise BadInput(f"{problem} is to be measured from scratch, and its data are those of the old table")
        if problem not in self._data:
            before = [part["data"] for part in self._lineage(problem)[:1]]
            before += [line["problem"] for line in self.journal(problem).lines()[:1]]
            self._data[problem] = before[0] if before else found
        return self._data[problem]

    def pack(self, unit: Unit, campaign: dict[str, Any]) -> None:
        """Make a part of a problem's journal, which must not be empty."""
        problem = unit.problem
        lines, rows, whole = self.journal(problem).lines(), self.fresh(problem), self.rows(problem)
        assert rows is not None and whole is not None
        facts = {
            "stage": unit.stage,
            "continues": None if self.from_scratch(problem) else self.base[problem]["data_hash"],
            **_counts(rows),
            "core_s": round(sum(line["core_s"] for line in lines), 3),
            "table": {**_counts(whole), "time_limit_s": self._limit(problem, whole)},
            "data": lines[-1]["problem"],
        }
        self._finish(problem, rows, facts, {**campaign, "trainings": len(lines), "core_s": facts["core_s"]})

    def _limit(self, problem: str, whole: pa.Table) -> float | None:
        """Return the time limit that a table stands under: the lowest that any of its trainings has met."""
        low = len(missing(Unit("", problem, None), whole, self.plan.time_limit_s)) > 0
        return self.base[problem].get("time_limit_s") if low and problem in self.base else self.plan.time_limit_s

    def pack_noise(self, campaign: dict[str, Any]) -> None:
        """Make a part of the measurements of the noise sample in the journal."""
        lines = self.journal(NOISE_PARTS).lines()
        rows = pa.Table.from_pylist(lines, NOISE_SCHEMA)
        facts = {"stage": "noise", "rows": len(rows), "core_s": round(sum(line["cpu_s"] for line in lines), 3)}
        counted = {**campaign, "trainings": 0, "core_s": 0.0}  # most are counted with the tables' parts
        self._finish(NOISE_PARTS, rows, facts, counted)

    def _finish(self, problem: str, rows: pa.Table, facts: dict[str, Any], campaign: dict[str, Any]) -> None:
        path = self.journal(problem).path
        facts |= {"journal": file_sha256(path), "campaign": campaign}
        write_part(self.folder, problem, parquet_bytes(rows), facts)
        path.unlink()

    def left(self) -> list[Rest]:
        """Return what is left of each stage."""
        rows = {problem: self.rows(problem) for problem in self.plan.problems}
        return rest_of_stages(
            self.plan, rows, {problem: load_table(problem, self.folder) for problem in self.plan.problems}
        )

    def repeats_due(self, now: float) -> list[tuple[str, int]]:
        """Return the (problem, configuration) pairs of the noise sample whose next repeat may be made now."""
        known = [problem for problem in self.plan.problems if not self.from_scratch(problem)]
        return noise.due(self.folder, known, now, self.journal(NOISE_PARTS).lines())


def print_left(store: PartStore) -> None:
    """Print what is left of each stage, and whether costs that were measured again are as before."""
    print(f"{len(store.repeats_due(time.time()))} repeats of the noise sample are due")
    rest = store.left()
    for stage in rest:
        amount = f"{stage.core_hours:7.2f} core-hours, {stage.trainings:6d} trainings, {stage.problems:3d} problems"
        print(f"{amount}  {stage.stage}")
    print(f"{sum(stage.core_hours for stage in rest):7.2f} core-hours are left")
    noise.print_differences(store.folder)


def _counts(rows: pa.Table) -> dict[str, int]:
    cut = sum(status == TIMEOUT for status in rows["status"].to_pylist())
    return {"configs": len(set(rows["config"].to_pylist())), "rows": len(rows), "cut": cut}


class Grower(Campaign):
    """One run: does the units of the plan, for so many hours or to the end."""

    def __init__(
        self, store: PartStore, executor: Executor, n_jobs: int, watch: LoadMonitor, hours: float | None
    ) -> None:
        super().__init__(executor, n_jobs, watch, hours)
        self.store, self.plan = store, store.plan
        self.finished: list[str] = []  # parts, in words
        self._machine = machine()
        self._redone: set[int] = set()  # of the unit at hand: configurations that have rows, from trainings cut short
        self._reported = 0  # timings of the reference that are in a part

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
        self._pack_noise(FEW_ROWS if self.over else 1)
        self.report.wall_s = time.monotonic() - start
        return self.report

    def _unit(self, unit: Unit) -> None:
        """Measure what is missing of a unit, repeat what was disturbed, and make a part of it."""
        problem = unit.problem
        todo = missing(unit, self.store.rows(problem), self.plan.time_limit_s)
        self._redone = set() if unit.configs is not None else set(todo)
        self._do(self._tasks(problem, todo, NEW), f"{unit.stage}, {problem}")
        while again := self._tasks(problem, self.store.disturbed(problem), AGAIN):
            if not self._do(again, f"repeats of {problem}"):
                break
        lines = len(self.store.journal(problem).lines())
        if lines and (lines >= FEW_ROWS or not self.over):
            self.store.pack(unit, self._campaign())
            self.finished.append(f"{problem}, {unit.stage}")
        self._pack_noise(MOST_NOISE)

    def _noise(self) -> int:
        """Repeat the trainings of the noise sample that are due; returns how many were."""
        due = self.store.repeats_due(time.time())
        tasks = [task for problem, config in due for task in self._tasks(problem, [config], NOISE)]
        return self._do(tasks, "repeats of the noise sample")

    def _pack_noise(self, least: int) -> None:
        if len(self.store.journal(NOISE_PARTS).lines()) >= least:
            self.store.pack_noise(self._campaign())
            self.finished.append("repeats of the noise sample")

    def _tasks(self, problem: str, configs: Sequence[int], purpose: str) -> list[Measurement]:
        dataset, _, pipeline = problem.partition("/")
        limit = None if purpose == NOISE else self.plan.time_limit_s
        return [
            Measurement(dataset, pipeline, config, self.store.tree_method, limit, purpose=purpose)
            for config in configs
            if (problem, config, purpose) not in self.lost and problem not in self.refused
        ]

    def _append(self, task: Measurement, line: dict[str, Any]) -> None:
        self.store.append(task.problem, line)

    def _finished(self, task: Measurement, outcome: Any) -> None:
        failed = isinstance(outcome, dict) and outcome["status"] not in (OK, TIMEOUT)
        if failed and task.config in self._redone:  # the rows it has are worth more
            self._lose(task, f"{outcome['status']} {outcome['note']}".strip())
        else:
            super()._finished(task, outcome)

    def _campaign(self) -> dict[str, Any]:
        """Return what the next sidecar says of machine and day, with the reference timings since the last one."""
        timings, self._reported = self.timings[self._reported :], len(self.timings)
        return {"date": time.strftime("%Y-%m-%d"), **self._machine, "workers": self.n_jobs, "reference": timings}

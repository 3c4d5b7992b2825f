"""Growing tables stage by stage: every finished training is in a journal at once, every finished unit is a part.

One problem's unit is measured at a time, its disturbed trainings are repeated, and it becomes a part. Before each unit
come the repeats of the noise sample that are due. A killed sitting goes on where it was: what is in a journal counts as
done, and a journal that was packed just before the kill is known by its digest in the part's sidecar.
"""

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datasets.errors import BadInput
from harness.execution import run_tasks
from harness.execution.supervisor import WorkerLost
from harness.problem import OK, TIMEOUT
from harness.progress import Progress, duration
from pipelines.identity import difference
from tabular_cache import noise, parts
from tabular_cache.build import Report
from tabular_cache.measure import Measurement, machine, measure
from tabular_cache.plan import disturbed
from tabular_cache.quiet import Watch
from tabular_cache.reference import Reference, time_reference
from tabular_cache.rows import AGAIN, NOISE, merged, parquet_bytes
from tabular_cache.schema import NOISE_SCHEMA, file_stem
from tabular_cache.stages import Plan, Rest, Unit, left, missing
from tabular_cache.store import Store, append_line, read_journal
from tabular_cache.table import base_manifest, load_table

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

    def locked(self) -> AbstractContextManager[None]:
        """Hold the folder's lock; raises BadInput when another build has it."""
        return Store(self.folder).locked()

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
            packed = Store(self.folder).packed(problem)
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
        return merged(old, lines)

    def disturbed(self, problem: str) -> list[int]:
        """Return the configurations to repeat, of those in parts or the journal: the base file's have been."""
        fresh = self.fresh(problem)
        tables = [*self._added(problem), *([] if fresh is None else [fresh])]
        return disturbed(parts.joined(tables)) if tables else []

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
        if reason := difference(known, found):
            raise BadInput(
                f"{problem} was measured on other data before ({reason}): bring those back (DATASETS_HOME), or measure "
                "all of it anew in another folder, tables=DIR dataset=[...]"
            )

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
        return left(self.plan, rows, {problem: load_table(problem, self.folder) for problem in self.plan.problems})

    def repeats_due(self, now: float) -> list[tuple[str, int]]:
        """Return the (problem, configuration) pairs of the noise sample whose next repeat may be made now."""
        known = [problem for problem in self.plan.problems if not self.from_scratch(problem)]
        return noise.due(self.folder, known, now, self.lines(parts.NOISE))


class Grower:
    """One sitting: does the units of the plan, for so many hours or to the end."""

    def __init__(self, store: PartStore, executor: Executor, n_jobs: int, watch: Watch, hours: float | None) -> None:
        self.store, self.plan, self.executor, self.n_jobs, self.watch = store, store.plan, executor, n_jobs, watch
        self._end = np.inf if hours is None else time.monotonic() + 3600 * hours
        self.report, self.reference = Report(), Reference()
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

    def run(self) -> Report:
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

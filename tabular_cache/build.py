"""Building tables: passes of trainings, journalled one by one, packed after each pass, repeats at its end."""

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any

from datasets.errors import BadInput
from harness.execution import run_tasks
from harness.execution.supervisor import WorkerLost
from harness.problem import OK, TIMEOUT
from harness.progress import Progress, duration
from tabular_cache.measure import Measurement, machine, measure
from tabular_cache.plan import Planner
from tabular_cache.quiet import Watch
from tabular_cache.reference import Reference, time_reference
from tabular_cache.rows import AGAIN, NOISE


@dataclass
class Report:
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

    def __init__(self, planner: Planner, executor: Executor, n_jobs: int, watch: Watch) -> None:
        self.planner, self.store, self.executor, self.n_jobs, self.watch = (
            planner, planner.store, executor, n_jobs, watch,
        )  # fmt: skip
        self.report, self.reference = Report(), Reference()
        self.campaign: dict[str, Any] = {"date": time.strftime("%Y-%m-%d"), **machine()}
        self.campaign |= {"workers": n_jobs, "trainings": 0, "core_s": 0.0, "reference": self.reference.timings}
        self._listed = False

    def run(self, max_passes: int | None = None) -> Report:
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

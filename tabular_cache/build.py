"""Building tables: trainings in breadth-first order, journalled one by one, packed after each pass."""

import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from harness.executors import run_tasks
from harness.problem import OK
from harness.progress import Progress, duration
from tabular_cache.measure import Measurement, machine, measure
from tabular_cache.store import Store


@dataclass(frozen=True)
class Report:
    """What a build did: trainings finished now, failed ones, CPU seconds, wall seconds."""

    trainings: int
    failed: list[str]
    cpu_s: float
    wall_s: float


def plan(
    store: Store,
    problems: Sequence[tuple[str, str]],
    n_configs: int,
    pass_size: int,
    time_limit_s: float | None,
    **settings: Any,
) -> tuple[list[list[Measurement]], dict[str, float]]:
    """Return the trainings that are missing, pass by pass, and the mean CPU seconds known per problem.

    Breadth first: pass k holds configurations k*pass_size .. of every problem, so that all problems are
    covered evenly however early the build is stopped.
    """
    done = {f"{d}/{p}": store.done(f"{d}/{p}", time_limit_s) for d, p in problems}
    settings["time_limit_s"] = time_limit_s
    passes = []
    for start in range(0, n_configs, pass_size):
        configs = range(start, min(start + pass_size, n_configs))
        tasks = [Measurement(d, p, c, **settings) for d, p in problems for c in configs]
        missing = [task for task in tasks if task.config not in done[task.problem]]
        if missing:
            passes.append(missing)
    means = {name: sum(spent.values()) / len(spent) for name, spent in done.items() if spent}
    return passes, means


def build(
    store: Store, executor: Executor, passes: list[list[Measurement]], means: dict[str, float], n_jobs: int
) -> Report:
    """Do the planned trainings; every finished one is kept whatever happens later."""
    todo = [task for tasks in passes for task in tasks]
    start, failed, spent = time.monotonic(), [], 0.0
    left = _TimeLeft(todo, means, n_jobs)
    campaign = {"date": time.strftime("%Y-%m-%d"), **machine(), "trainings": 0, "cpu_s": 0.0}
    store.manifest["campaigns"].append(campaign)
    with Progress(len(todo), "trainings", "tables") as progress:
        for tasks in passes:
            for task, line in run_tasks(executor, measure, tasks, window=2 * n_jobs):
                if isinstance(line, BaseException):
                    failed.append(f"{task.problem} #{task.config}: {line!r}")
                    progress.advance(left.after(task, None))
                    continue
                store.append(task.problem, line)
                campaign["trainings"] += 1
                campaign["cpu_s"] = round(campaign["cpu_s"] + line["spent_cpu_s"], 3)
                spent += line["spent_cpu_s"]
                if line["status"] != OK:
                    failed.append(f"{task.problem} #{task.config}: {line['status']} {line['note']}".strip())
                note = f"({duration(spent)} of CPU time so far)"
                progress.advance(left.after(task, line["spent_cpu_s"]), note)
            for problem in dict.fromkeys(task.problem for task in tasks):
                store.pack(problem)
    return Report(len(todo), failed, spent, time.monotonic() - start)


class _TimeLeft:
    """Estimates the time left from each problem's own mean cost, since costs differ a thousandfold."""

    def __init__(self, todo: list[Measurement], means: dict[str, float], n_jobs: int) -> None:
        self._left: dict[str, int] = {}
        for task in todo:
            self._left[task.problem] = self._left.get(task.problem, 0) + 1
        self._sums = {problem: (mean, 1) for problem, mean in means.items()}
        self._n_jobs = n_jobs

    def after(self, task: Measurement, cpu_s: float | None) -> float:
        self._left[task.problem] -= 1
        if cpu_s is not None:
            total, n = self._sums.get(task.problem, (0.0, 0))
            self._sums[task.problem] = (total + cpu_s, n + 1)
        overall = sum(t for t, _ in self._sums.values()) / max(1, sum(n for _, n in self._sums.values()))
        means = {p: (t / n if n else overall) for p, (t, n) in self._sums.items()}
        return sum(n * means.get(p, overall) for p, n in self._left.items()) / self._n_jobs

"""Executors (`concurrent.futures`): serial, local processes, Dask, Slurm; each is made by a function named in YAML.

`run_tasks`, `run_counted` and `run_all` give independent tasks to any of them, whose workers may die or hang.
"""

import contextlib
import faulthandler
import logging
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from functools import partial
from pathlib import Path
from queue import LifoQueue
from types import TracebackType
from typing import Any, TypeVar

from harness.errors import BadInput, number, whole
from harness.execution.sandbox import DONE, HUNG, RAISED, Child, exit_name
from harness.progress import Progress

RETRIES = 3
_GLANCE_S = 1.0  # how often the number of workers is looked at
Task = TypeVar("Task")


class HastyExecutor(Executor):
    """An executor that after an exception, Ctrl-C among them, closes without waiting for what is running."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; wait only after success."""
        self.shutdown(wait=kind is None, cancel_futures=kind is not None)


class WorkerLost(RuntimeError):
    """A worker died, hung past its limit or ran out of memory; `times` workers, one after the other."""

    def __init__(self, reason: str, times: int = 1) -> None:
        super().__init__(reason, times)
        self.reason, self.times = reason, times

    def __str__(self) -> str:
        return self.reason


class ExecutorGone(RuntimeError):
    """There is nobody left to give tasks to."""


def worker_count(executor: Executor) -> int:
    """Return how many tasks an executor can work on at once: its `slots`, where it has that property."""
    found = getattr(executor, "slots", None)
    return int(found if found is not None else getattr(executor, "_max_workers", 1))


def within(limit_s: float | None, fn: Callable[..., Any], *args: Any) -> Any:
    """Return fn(*args); past `limit_s` wall seconds the whole process ends, also from within compiled code.

    faulthandler's watchdog needs no interpreter lock. One task at a time per process.
    """
    if limit_s is None:
        return fn(*args)
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - no traceback: the driver says the reason
        faulthandler.dump_traceback_later(limit_s, exit=True, file=nowhere)
        try:
            return fn(*args)
        finally:
            faulthandler.cancel_dump_traceback_later()


def run_tasks(
    executor: Executor,
    fn: Callable[[Task], Any],
    tasks: Iterable[Task],
    window: int | None = None,
    ready: Callable[[], bool] = lambda: True,
    retries: int = 0,
) -> Iterator[tuple[Task, Any]]:
    """Run `fn` on every task and yield (task, result) as each is settled; an exception is yielded as the result.

    window: tasks submitted at once; None: as many as there are workers now, so that none waits behind one that kills
    its worker. Tasks of a sequence are given out before results are yielded, so that no worker waits for what is done
    with these. Any other source, which may take its time, is asked for more only after what has finished is yielded,
    and while tasks run only if it is `ready`.
    retries: how often a task is tried again whose worker was lost (it died, or MemoryError, OSError); other exceptions
    are the task's own.
    Raises ExecutorGone when the executor itself has ended.
    """
    at_hand, source = isinstance(tasks, Sequence), iter(tasks)
    waiting, running = deque[tuple[Task, int]](), dict[Future[Any], tuple[Task, int]]()
    ended, gone = False, list[ExecutorGone]()

    def refill() -> None:
        nonlocal ended
        try:
            while not gone and len(running) < (worker_count(executor) if window is None else window):
                if not at_hand and running and (any(future.done() for future in running) or not ready()):
                    return
                attempt = waiting.popleft() if waiting else next(((task, 0) for task in source), None)
                if attempt is None:
                    ended = True
                    return
                running[_submit(executor, fn, attempt[0])] = attempt
        except ExecutorGone as error:
            gone.append(error)

    refill()
    while running or (not gone and (waiting or not ended)):
        settled = []
        for future in wait(running, _GLANCE_S if at_hand else None, FIRST_COMPLETED).done:
            (task, before), outcome = running.pop(future), _outcome(future)
            lost = before + _workers_lost(outcome)
            if isinstance(outcome, ExecutorGone):
                gone.append(outcome)
            elif before < lost <= retries:
                waiting.appendleft((task, lost))
            elif retries and lost > before:
                kind = "" if isinstance(outcome, WorkerLost) else f"{type(outcome).__name__}: "
                settled.append((task, WorkerLost(f"given up after {lost} tries: {kind}{outcome}", lost)))
            else:
                settled.append((task, outcome))
        if at_hand:
            refill()
        yield from settled  # what is finished is kept, also when the executor ends
        if gone:
            break
        refill()
        if not running and (waiting or not ended):
            time.sleep(_GLANCE_S)  # no workers now; some may come
    if gone:
        raise gone[0]


def _submit(executor: Executor, fn: Callable[[Task], Any], task: Task) -> "Future[Any]":
    try:
        return executor.submit(fn, task)
    except RuntimeError as error:  # shut down, or broken for good
        raise ExecutorGone(str(error)) from None


def _outcome(future: "Future[Any]") -> Any:
    try:
        error = future.exception()
    except CancelledError:
        return ExecutorGone("its tasks were cancelled")
    return future.result() if error is None else error


def _workers_lost(outcome: Any) -> int:
    if isinstance(outcome, WorkerLost):
        return outcome.times
    return int(isinstance(outcome, BrokenExecutor | MemoryError | OSError))


def run_counted(
    executor: Executor, fn: Callable[[Task], Any], tasks: Sequence[Task], unit: str, label: str, retries: int = 0
) -> Iterator[tuple[Task, Any]]:
    """Run `fn` on every task as `run_tasks` does, with progress."""
    with Progress(len(tasks), unit, label, worker_count(executor)) as progress:
        for task, outcome in run_tasks(executor, fn, tasks, retries=retries):
            yield task, outcome
            progress.advance()


def run_all(
    executor: Executor,
    fn: Callable[[Task], Any],
    tasks: Sequence[Task],
    name: Callable[[Task], str],
    unit: str,
    label: str,
) -> list[str]:
    """Run `fn`, which keeps its own result, on every task, with progress; returns a line for each that failed.

    A task whose worker was lost is tried again.
    """
    return [
        f"{name(task)}: {type(outcome).__name__}: {outcome}"
        for task, outcome in run_counted(executor, fn, tasks, unit, label, RETRIES)
        if isinstance(outcome, BaseException)
    ]


# Executors on this machine.

__all__ = ["LocalProcesses", "SerialExecutor", "dask", "local", "run_all", "run_counted", "run_tasks", "serial",
           "slurm"]  # fmt: skip


class SerialExecutor(Executor):
    """Runs each task at once, in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Run `fn` now and return its finished future."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # as any executor does: the error belongs to the future
            future.set_exception(error)
        return future


def serial() -> Executor:
    """Return an executor that works in this process."""
    return SerialExecutor()


def local(n_jobs: int | None = None, limit_s: float | None = None) -> Executor:
    """Return `n_jobs` worker processes (null: one per available core), see `LocalProcesses`.

    limit_s: seconds that a task may take before its process is ended and it is tried again; null for no limit.
    """
    if n_jobs is None:
        n_jobs = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not isinstance(n_jobs, int) or isinstance(n_jobs, bool) or n_jobs < 1:
        raise BadInput(f"executor.n_jobs must be a whole number >= 1 or null, got {n_jobs!r}")
    return LocalProcesses(n_jobs, _limit(limit_s))


def dask(
    address: str | None = None, n_workers: int = 2, limit_s: float | None = None, wait_s: float = 30.0
) -> Executor:
    """Return the workers of a Dask scheduler at `address`; null: `n_workers` of a scheduler of our own, for trying.

    wait_s: how long to wait for the scheduler and its first worker. Raises BadInput if there is none by then, or
    without the extra `dask`.
    """
    return DaskWorkers(address, whole("executor.n_workers", n_workers, 1), _limit(limit_s), wait_s)


def slurm(
    folder: str,
    cluster: str = "slurm",
    max_jobs: int = 100,
    limit_s: float | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> Executor:
    """Return a cluster that starts a job for every task, through submitit; see `SlurmJobs`.

    folder: on a disk that all nodes share, for the jobs' papers. cluster: slurm, or local (processes of this machine).
    parameters: submitit's, such as timeout_min, mem_gb, slurm_partition. Raises BadInput without the extra `slurm`.
    """
    slots = whole("executor.max_jobs", max_jobs, 1)
    return SlurmJobs(Path(folder), cluster, slots, _limit(limit_s), dict(parameters or {}))


def _limit(limit_s: Any) -> float | None:
    allowed = "a number of seconds > 0 or null"
    return None if limit_s is None else number("executor.limit_s", limit_s, allowed, math.ulp(0.0))


class LocalProcesses(HastyExecutor):
    """`slots` worker processes on this machine: losing one loses one task, and a hung one is ended.

    limit_s: wall seconds that a task may take before its process is killed; None: no limit. A pool of loky or pebble
    would break whole when a process dies at a bad moment, and say of every task that it may have been its fault.
    """

    def __init__(self, n_jobs: int, limit_s: float | None = None) -> None:
        self.slots, self._limit_s = n_jobs, limit_s
        self._threads = ThreadPoolExecutor(n_jobs, thread_name_prefix="worker")
        self._children = [Child() for _ in range(n_jobs)]
        self._idle: LifoQueue[Child] = LifoQueue()  # the last used first: it has started
        for child in self._children:
            self._idle.put(child)
        self._closing = threading.Event()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Run `fn` in a worker process; the future has WorkerLost if that died or hung past its limit."""
        return self._threads.submit(self._run, partial(fn, *args, **kwargs))

    def _run(self, task: Callable[[], Any]) -> Any:
        if self._closing.is_set():
            raise WorkerLost("stopped")
        child = self._idle.get()
        try:
            outcome = child.ask(task, wall_s=self._limit_s)
        finally:
            self._idle.put(child)
        if outcome.status == DONE:
            return outcome.value
        if outcome.status == RAISED:
            raise outcome.value
        if outcome.status == HUNG:
            raise WorkerLost(f"hung: took more than {self._limit_s:g} s")
        raise WorkerLost(f"its worker process died ({exit_name(outcome.code)})")

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let the tasks end and the processes with them; with `cancel_futures`, kill them at once."""
        if cancel_futures:
            self._closing.set()
            for child in self._children:
                child.kill()
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)
        if wait:
            for child in self._children:
                child.close()


# Executors on other machines: the workers of a Dask scheduler (extra `dask`), a Slurm job per task (extra `slurm`).

_COUNT_S = 1.0  # how old the number of workers may be
_ALIVE = ("undefined", "created", "init", "starting", "running", "paused")  # a nanny's states


class DaskWorkers(HastyExecutor):
    """The workers known to a scheduler, which may come and go; a task for each, one at a time.

    Dask itself tries a task whose worker died on others, 3 times by default (`distributed.scheduler.allowed-failures`),
    so what comes back as lost was lost for good.
    """

    def __init__(self, address: str | None, n_workers: int, limit_s: float | None, wait_s: float) -> None:
        try:
            import dask
            import distributed
        except ImportError:
            raise BadInput("executor=dask needs Dask: pip install -c constraints.txt -e '.[dask]'") from None
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters comes back with the futures
        self._limit_s, self._seen, self._said = limit_s, (0, -1e9), False
        self._cluster: Any = None
        if address is None:
            dask.config.set(_settings(dask.config.get("distributed.nanny.pre-spawn-environ")))
            self._cluster = distributed.LocalCluster(
                n_workers=n_workers, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
            )
        self._address = str(address or self._cluster.scheduler_address)
        self._client = _connect(distributed, self._address, wait_s)
        self._inner = self._client.get_executor(pure=False)

    @property
    def slots(self) -> int:
        """The number of workers now."""
        count, looked = self._seen
        if time.monotonic() - looked > _COUNT_S:
            with contextlib.suppress(OSError, RuntimeError):
                count = len(self._client.nthreads())
            self._seen = count, time.monotonic()
            if not count:
                self._without_workers()
        return count

    def _without_workers(self) -> None:
        """Say so, once: some may come. Raise ExecutorGone where none can, since our own have given up."""
        nannies = [] if self._cluster is None else self._cluster.workers.values()
        if self._cluster is not None and not any(str(n.status.name) in _ALIVE for n in nannies):
            raise ExecutorGone("the workers have ended and do not come back")
        if not self._said:
            print(f"no workers at {self._address} now: waiting for some", file=sys.stderr, flush=True)
        self._said = True

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Run `fn` on a worker; the future has WorkerLost if several died of it."""
        if self._client.status != "running":
            raise RuntimeError(f"the scheduler at {self._address} is gone")
        outer: Future[Any] = Future()
        inner = self._inner.submit(within, self._limit_s, fn, *args, **kwargs)
        inner.add_done_callback(lambda done: self._pass_on(done, outer))
        return outer

    def _pass_on(self, done: "Future[Any]", outer: "Future[Any]") -> None:
        from distributed.scheduler import KilledWorker

        try:
            outer.set_result(done.result())
        except CancelledError:
            outer.set_exception(ExecutorGone(f"the scheduler at {self._address} is gone"))
        except KilledWorker as error:
            times = int(getattr(error, "allowed_failures", 3)) + 1
            limit = "" if self._limit_s is None else f", or were ended after {self._limit_s:g} s"
            outer.set_exception(WorkerLost(f"its workers died{limit}", times))
        except BaseException as error:
            outer.set_exception(error)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Disconnect; our own scheduler and workers end too."""
        self._inner.shutdown(wait=wait and not cancel_futures)
        _disconnect(self._client)
        if self._cluster is not None:
            self._cluster.close(timeout=5)


def _settings(environ: dict[str, Any]) -> dict[str, Any]:
    """Return what our own cluster does otherwise than Dask by default.

    A worker that died is given 10 minutes to be back, instead of 15 s: machines can be very busy. No sampling of
    stacks a hundred times a second, and memory is not given back to the system after every step: with these two a
    study takes a fifth longer.
    """
    return {
        "distributed.deploy.lost-worker-timeout": 600.0,
        "distributed.worker.profile.enabled": False,
        "distributed.nanny.pre-spawn-environ": {k: v for k, v in environ.items() if k != "MALLOC_TRIM_THRESHOLD_"},
    }


def _connect(distributed: Any, address: str, wait_s: float) -> Any:
    try:
        client = distributed.Client(address, timeout=wait_s, set_as_default=False)
    except (TimeoutError, OSError, ValueError, TypeError, RuntimeError) as error:
        raise BadInput(f"no Dask scheduler at {address}: {error or type(error).__name__}") from None
    try:
        client.wait_for_workers(1, timeout=wait_s)
    except (TimeoutError, OSError, RuntimeError):
        _disconnect(client)
        raise BadInput(
            f"the scheduler at {address} has no workers; start some: dask worker {address} --nthreads 1"
        ) from None
    return client


def _disconnect(client: Any) -> None:
    """Close a client; where its scheduler is gone that may fail, when there is nothing left to lose."""
    with contextlib.suppress(RuntimeError, TimeoutError, OSError):
        client.close(timeout=1)


_JOBS_S = {"slurm": 5.0}  # between looks at the jobs; submitit asks Slurm itself less often
CLUSTERS = ("slurm", "local")


class SlurmJobs(HastyExecutor):
    """At most `slots` jobs at a time, handed over as pickles in a folder; a thread looks which are done.

    The folder is new for every study, readable by nobody else, and removed at the end: nothing that was there before
    is ever loaded.
    """

    def __init__(
        self, folder: Path, cluster: str, max_jobs: int, limit_s: float | None, parameters: dict[str, Any]
    ) -> None:
        try:
            import submitit
        except ImportError:
            raise BadInput("executor=slurm needs submitit: pip install -c constraints.txt -e '.[slurm]'") from None
        if cluster not in CLUSTERS:
            raise BadInput(f"executor.cluster must be one of {', '.join(CLUSTERS)}, got {cluster!r}")
        if cluster == "slurm" and shutil.which("srun") is None:
            raise BadInput("executor=slurm: there is no Slurm here (no srun); executor.cluster=local runs jobs here")
        self._cluster = cluster
        self.slots, self._limit_s, self._look_s = max_jobs, limit_s, _JOBS_S.get(cluster, 0.1)
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(prefix="study-", dir=folder))  # for its owner only
        try:
            self._submitit = submitit.AutoExecutor(folder=self._folder, cluster=cluster)
            self._submitit.update_parameters(**parameters)
        except (TypeError, ValueError, NameError, RuntimeError, AssertionError) as error:
            self._clear()
            raise BadInput(f"executor.parameters: {' '.join(str(error).split())[:300]}") from None
        self._running: dict[Future[Any], Any] = {}
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Run `fn` as a job; the future has WorkerLost if the job ended without a result."""
        future: Future[Any] = Future()
        with self._lock:
            self._running[future] = self._submitit.submit(_job, self._limit_s, fn, args, kwargs)
        return future

    def _watch(self) -> None:
        while not self._stop.wait(self._look_s):
            with self._lock:
                running = list(self._running.items())
            done = [(future, job) for future, job in running if job.done()]  # asks Slurm: not under the lock
            with self._lock:
                done = [pair for pair in done if self._running.pop(pair[0], None)]
            for future, job in done:
                self._settle(future, job)

    def _settle(self, future: "Future[Any]", job: Any) -> None:
        try:
            value, error = job.result()
        except Exception as ended:  # submitit's: killed, timed out, out of memory, or not even started
            lines = [line.strip() for line in str(ended).splitlines() if line.strip()]
            future.set_exception(WorkerLost(f"its job {job.job_id} ended without a result: {' '.join(lines)[:200]}"))
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let the jobs end, or cancel them."""
        while wait and not cancel_futures and self._running:
            time.sleep(self._look_s)
        self._stop.set()
        with self._lock:
            jobs, self._running = list(self._running.values()), {}
        if jobs and self._cluster == "slurm":  # all at once and without waiting: the driver may have a second left
            ids = [str(job.job_id) for job in jobs]
            subprocess.Popen(["scancel", *ids], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             start_new_session=True)  # fmt: skip
        else:
            for job in jobs:
                job.cancel(check=False)
        self._clear()

    def _clear(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _job(limit_s: float | None, fn: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, BaseException | None]:
    """Run in the job: an exception comes back as itself, not as a text."""
    try:
        return within(limit_s, lambda: fn(*args, **kwargs)), None
    except Exception as error:
        return None, error

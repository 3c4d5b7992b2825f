"""Executors on other machines: the workers of a Dask scheduler (extra `dask`), a Slurm job per task (extra `slurm`)."""

import contextlib
import faulthandler
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any

from harness.errors import BadInput, one_of
from harness.execution import ExecutorGone, NoWaitOnErrorExecutor, WorkerLost

_COUNT_S = 1.0  # how old the number of workers may be
_ALIVE = ("undefined", "created", "init", "starting", "running", "paused")  # a nanny's states


def _end_process_after(limit_s: float | None, fn: Callable[..., Any], *args: Any) -> Any:
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


class DaskWorkers(NoWaitOnErrorExecutor):
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
        inner = self._inner.submit(_end_process_after, self._limit_s, fn, *args, **kwargs)
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


def _is_done(job: Any) -> bool:
    """Return whether a job of submitit's has ended; where the shared disk does not answer now, that it has not."""
    try:
        return bool(job.done())
    except OSError:
        return False


class SlurmJobs(NoWaitOnErrorExecutor):
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
        if one_of("executor.cluster", cluster, CLUSTERS) == "slurm" and shutil.which("srun") is None:
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
            done = [(future, job) for future, job in running if _is_done(job)]  # asks Slurm: not under the lock
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
        return _end_process_after(limit_s, lambda: fn(*args, **kwargs)), None
    except Exception as error:
        return None, error

"""A Slurm job per task, through submitit, as a `concurrent.futures` executor (the optional extra `slurm`).

submitit hands function and result over as pickles in a folder. That folder is new for every study, readable by
nobody else, and removed at the end: nothing that was there before is ever loaded.
"""

import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from harness.errors import BadInput
from harness.execution.supervisor import HastyExecutor, WorkerLost, within

_LOOK_S = {"slurm": 5.0}  # between looks at the jobs; submitit asks Slurm itself less often
CLUSTERS = ("slurm", "local")


class SlurmJobs(HastyExecutor):
    """At most `slots` jobs at a time; a thread looks which are done."""

    def __init__(
        self, folder: Path, cluster: str, max_jobs: int, limit_s: float | None, parameters: dict[str, Any]
    ) -> None:
        try:
            import submitit
        except ImportError:
            raise BadInput("executor=slurm needs submitit: pip install -c constraints.txt -e '.[slurm]'") from None
        if cluster not in CLUSTERS:
            raise BadInput(f"executor.cluster must be one of {', '.join(CLUSTERS)}, got {cluster!r}")
        if isinstance(max_jobs, bool) or not isinstance(max_jobs, int) or max_jobs < 1:
            raise BadInput(f"executor.max_jobs must be a whole number >= 1, got {max_jobs!r}")
        if cluster == "slurm" and shutil.which("srun") is None:
            raise BadInput("executor=slurm: there is no Slurm here (no srun); executor.cluster=local runs jobs here")
        self._cluster = cluster
        self.slots, self._limit_s, self._look_s = max_jobs, limit_s, _LOOK_S.get(cluster, 0.1)
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

"""Workers of a Dask scheduler as a `concurrent.futures` executor (the optional extra `dask`)."""

import asyncio
import contextlib
import logging
import sys
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any

from harness.errors import BadInput
from harness.execution.supervisor import ExecutorGone, HastyExecutor, WorkerLost, within

_LOOK_S = 1.0  # how old the number of workers may be
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
        if isinstance(n_workers, bool) or not isinstance(n_workers, int) or n_workers < 1:
            raise BadInput(f"executor.n_workers must be a whole number >= 1, got {n_workers!r}")
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters comes back with the futures
        self._limit_s, self._seen, self._told = limit_s, (0, -1e9), False
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
        if time.monotonic() - looked > _LOOK_S:
            with contextlib.suppress(OSError, RuntimeError, asyncio.TimeoutError):
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
        if not self._told:
            print(f"no workers at {self._address} now: waiting for some", file=sys.stderr, flush=True)
        self._told = True

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
        self._client.close(timeout=1)
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
        client.close(timeout=1)
        raise BadInput(
            f"the scheduler at {address} has no workers; start some: dask worker {address} --nthreads 1"
        ) from None
    return client

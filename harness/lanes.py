"""Worker processes on this machine, each on its own lane: losing one loses one task, and a hung one can be ended."""

import contextlib
import os
import re
import signal
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor, wait
from typing import Any

from harness.child import end_with_parent
from harness.closing import HastyExecutor
from harness.supervise import WorkerLost


class Lanes(HastyExecutor):
    """`slots` loky pools of one process each, all behind one `submit`.

    One pool of several would break whole when a process dies, and say of every task that it may have done it.
    limit_s: wall seconds that a task may take before its process is killed; None: no limit.
    """

    def __init__(self, n_jobs: int, limit_s: float | None = None) -> None:
        self.slots, self._limit_s = n_jobs, limit_s
        self._threads = ThreadPoolExecutor(n_jobs, thread_name_prefix="lane")
        self._lane = threading.local()
        self._pools: set[Any] = set()
        self._closing = threading.Event()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Run `fn` in a worker process; the future has WorkerLost if that died or hung past its limit."""
        return self._threads.submit(self._run, fn, args, kwargs)

    def _run(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if self._closing.is_set():
            raise WorkerLost("stopped")
        try:
            future = self._pool().submit(fn, *args, **kwargs)
            if wait([future], timeout=self._limit_s).done:
                return future.result()
            self._end()
            raise WorkerLost(f"hung: took more than {self._limit_s:g} s")
        except BrokenExecutor as error:
            self._end()
            codes = re.search(r"exit codes of the workers are \{(.*?)\}", str(error))
            raise WorkerLost(f"its worker process died{f' ({codes[1]})' if codes else ''}") from None

    def _pool(self) -> Any:
        if getattr(self._lane, "pool", None) is None:
            from joblib.externals.loky import ProcessPoolExecutor

            self._lane.pool = ProcessPoolExecutor(1, initializer=_begin, initargs=(os.getpid(),))
            self._pools.add(self._lane.pool)
            self._lane.pool.submit(os.getpid).result()  # started: from here on time is the task's
        return self._lane.pool

    def _end(self) -> None:
        """End this lane's process; the lane's next task gets a new one."""
        self._pools.discard(self._lane.pool)
        self._lane.pool.shutdown(wait=False, kill_workers=True)
        self._lane.pool = None

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let the tasks end and the processes with them; with `cancel_futures`, kill them at once."""
        if cancel_futures:
            self._closing.set()
            for pool in list(self._pools):
                pool.shutdown(wait=False, kill_workers=True)
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)
        for pool in list(self._pools):
            pool.shutdown(wait=wait, kill_workers=cancel_futures)


def _begin(parent: int) -> None:
    """Leave Ctrl-C to the driver, and end soon after it: a killed driver must not leave idle processes behind.

    Where psutil is installed, loky ends workers that have grown by 300 MB since their first task, which data and
    compiled code do; as without psutil, they stay. It would then collect garbage after every task instead, 90 ms each
    time: Python's own collection is enough.
    """
    from joblib.externals.loky import process_executor

    process_executor._USE_PSUTIL = False
    process_executor._MEMORY_LEAK_CHECK_DELAY = float("inf")

    with contextlib.suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(parent)

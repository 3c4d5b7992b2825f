"""Studies on a real Dask scheduler with two worker processes on loopback, killed at random."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from drivers import finish, start, traces

GRID = ["study=demo", "dataset=[abalone,wine]", "pipeline=[clean]", "seeds=[0,1]", "iterations=20"]
_LONGEST_S = 300.0
PATIENT = (
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP",
    "DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT",  # a cluster closes the nanny of a worker that is gone for longer
)


def main(settings: dict[str, int]) -> list[str]:
    """Kill workers until enough are dead, then let the study end; compare bytes with a serial run's."""
    os.environ |= dict.fromkeys(PATIENT, "300s")  # before Dask reads it: on a busy machine all takes its time
    import distributed

    rng, failures, kills, rounds, aside = random.Random(settings["seed"]), [], 0, 0, 0
    with tempfile.TemporaryDirectory() as top:
        log = Path(top) / "log"
        if finish(start(log, [*GRID, "executor=serial", f"results_dir={top}/serial"])) != 0:
            return [f"the undisturbed run failed: {log.read_text()[-800:]!r}"]
        reference = traces(Path(top) / "serial")
        os.environ["COST_AWARE_BO_CACHE"] = f"{top}/cache"
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50, local_directory=top
        )
        with cluster:
            arguments = ["-m", "harness", *GRID, "executor=dask", f"executor.address={cluster.scheduler_address}"]
            arguments += ["executor.wait_s=300"]
            while kills < settings["kills"]:
                rounds += 1
                results = Path(top) / f"dask-{rounds}"
                pid = _driver([*arguments, f"results_dir={results}"])
                kills += _kill(cluster, pid, rng, settings["kills"] - kills, results)
                code = finish(pid)
                if code == 3:  # a block met four deaths: the same command tries it again
                    aside += 1
                    code = finish(_driver([*arguments, f"results_dir={results}"]))
                if code != 0:
                    failures.append(f"dask: study {rounds} ended with {code}")
                if traces(results) != reference:
                    failures.append(f"dask: study {rounds} has other bytes")
    print(
        f"dask: {kills} workers killed during {rounds} studies of {len(reference)} blocks, {aside} of which set blocks "
        f"aside and were run again; {'other' if failures else 'the same'} bytes as a serial run"
    )
    return failures


def _driver(arguments: list[str]) -> int:
    return subprocess.Popen([sys.executable, *arguments], start_new_session=True).pid


def _kill(cluster: Any, pid: int, rng: random.Random, most: int, results: Path) -> int:
    """Kill random workers at random moments while the driver `pid` works, for some minutes; returns how many.

    Only processes that both the scheduler and their nanny take for running: one that dies on the way there is not
    started again.
    """
    killed: set[int] = set()
    end = time.monotonic() + _LONGEST_S
    while len(killed) < most and os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > end:
            print(f"  no more kills in this study: it has lasted {_LONGEST_S:g} s", flush=True)
            break
        time.sleep(rng.uniform(0.2, 2.0))
        if not (results / ".study" / "plan.json").exists():
            continue  # the driver is still starting
        known = {worker.pid for worker in list(cluster.scheduler.workers.values())} - killed
        ready = known & {nanny.pid for nanny in cluster.workers.values() if nanny.status.name == "running"}
        if ready:
            worker = rng.choice(sorted(ready))
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
            killed.add(worker)
            print(f"  worker killed, {len(killed)} in this study", flush=True)
    return len(killed)

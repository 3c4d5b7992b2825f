"""A real Dask scheduler with worker processes on loopback, workers killed at random; and submitit's own local jobs."""

import os
import random
import signal
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from study_cases import contents, grid

from harness.errors import BadInput
from harness.execution import RETRIES, ExecutorGone, dask, run_tasks, slurm, worker_count
from harness.results_dir import locked
from harness.study import blocks, run_study


def pids(worker_folder: Path) -> list[int]:
    return [int(path.name) for path in worker_folder.iterdir()]


def note_and_wait(task: tuple[str, int]) -> int:
    """Leave a note of this process, so that the test can kill it, and take a moment."""
    folder, number = task
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(0.3)
    return number


@pytest.mark.slow
def test_dask_workers_killed_at_random_and_the_same_bytes(
    tables: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra `dask` is not installed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster,
        dask(cluster.scheduler_address, wait_s=5.0) as executor,
    ):
        assert worker_count(executor) == 2
        (tmp_path / "pids").mkdir()
        tasks = [(str(tmp_path / "pids"), number) for number in range(4)]
        threading.Thread(target=kill_one, args=(tmp_path / "pids",)).start()
        assert sorted(n for _, n in run_tasks(executor, note_and_wait, tasks, retries=RETRIES)) == [0, 1, 2, 3]
        todo, skipped = blocks(grid(tables), tmp_path / "dask")
        random.Random(0).shuffle(todo)
        with locked(tmp_path / "dask"):
            report = run_study(todo, skipped, executor, "test")
        assert (report.failed, report.runs) == ([], 8)
        assert contents(tmp_path / "dask") == contents(whole)
        cluster.close()
        with pytest.raises(ExecutorGone):
            list(run_tasks(executor, note_and_wait, tasks, retries=RETRIES))
        close = executor._client.close

        def close_and_fail(timeout: float) -> None:  # as it does where the scheduler goes while the client leaves
            with suppress(RuntimeError, TimeoutError, OSError):
                close(timeout=timeout)
            raise RuntimeError("Cannot change state of expiring Timeout")

        monkeypatch.setattr(executor._client, "close", close_and_fail)


def kill_one(folder: Path) -> None:
    while not (found := pids(folder)):
        time.sleep(0.05)
    os.kill(random.Random(1).choice(found), signal.SIGKILL)


def test_wrong_dask_settings() -> None:
    pytest.importorskip("distributed", reason="the extra `dask` is not installed")
    for settings, message in (
        ({"address": "tcp://127.0.0.1:9", "wait_s": 0.2}, "no Dask scheduler at tcp://127.0.0.1:9"),
        ({"address": "nonsense://x", "wait_s": 0.2}, "no Dask scheduler at nonsense://x"),
        ({"n_workers": 0}, "executor.n_workers must be a whole number >= 1, got 0"),
        ({"limit_s": -1}, "executor.limit_s must be a number of seconds > 0 or null, got -1"),
    ):
        with pytest.raises(BadInput, match=message):
            dask(**settings)  # type: ignore[arg-type]


@pytest.mark.slow
def test_jobs_of_submitit(tmp_path: Path) -> None:
    """There is no Slurm here: submitit's local cluster takes the same way, with processes for jobs."""
    pytest.importorskip("submitit", reason="the extra `slurm` is not installed")
    with slurm(str(tmp_path / "jobs"), cluster="local", max_jobs=2, parameters={"timeout_min": 5}) as executor:
        (folder,) = (tmp_path / "jobs").iterdir()
        assert folder.stat().st_mode & 0o077 == 0
        tasks = ["6*7", "__import__('os').kill(__import__('os').getpid(), 9)"]
        jobs = {task: executor.submit(eval, task) for task in tasks}
        assert jobs["6*7"].result() == 42
        assert "ended without a result" in str(jobs[tasks[1]].exception())
    assert list((tmp_path / "jobs").iterdir()) == []


def test_jobs_of_slurm_are_cancelled_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One command for all of them, which nobody waits for: after Ctrl-C there is a second left."""
    pytest.importorskip("submitit", reason="the extra `slurm` is not installed")
    asked: list[list[str]] = []
    executor = slurm(str(tmp_path / "jobs"), cluster="local", max_jobs=2, parameters={"timeout_min": 5})
    monkeypatch.setattr("harness.execution.clusters.subprocess.Popen", lambda command, **_: asked.append(command))
    jobs = [SimpleNamespace(job_id=f"{k}_0", done=lambda: False) for k in (7, 8)]
    executor._running = {Future(): job for job in jobs}
    executor._cluster = "slurm"
    executor.shutdown(wait=False, cancel_futures=True)
    assert asked == [["scancel", "7_0", "8_0"]] and executor._running == {}


def test_a_disk_that_does_not_answer_for_a_moment_ends_no_watch(tmp_path: Path) -> None:
    pytest.importorskip("submitit", reason="the extra `slurm` is not installed")
    answers = iter([OSError(116, "Stale file handle"), True])

    def done() -> bool:
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    with slurm(str(tmp_path / "jobs"), cluster="local", max_jobs=2) as executor:
        executor._look_s, future = 0.01, Future[int]()
        executor._running[future] = SimpleNamespace(job_id="7_0", done=done, result=lambda: (42, None))
        assert future.result(30.0) == 42


def test_wrong_slurm_settings(tmp_path: Path) -> None:
    pytest.importorskip("submitit", reason="the extra `slurm` is not installed")
    for settings, message in (
        ({"cluster": "pbs"}, "executor.cluster must be one of slurm, local, got 'pbs'"),
        ({"cluster": "local", "max_jobs": 0}, "executor.max_jobs must be a whole number >= 1, got 0"),
        ({"cluster": "local", "parameters": {"nonsense": 1}}, "executor.parameters"),
    ):
        with pytest.raises(BadInput, match=message):
            slurm(str(tmp_path), **settings)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []

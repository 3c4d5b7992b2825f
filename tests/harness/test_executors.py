import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.execution import local
from harness.execution.supervisor import worker_count

ROOT = Path(__file__).resolve().parents[2]
DRIVER = """
import os, time
from harness.execution import local

with local(2) as executor:
    print(*{executor.submit(os.getpid).result() for _ in range(8)}, flush=True)
    time.sleep(60)
"""
WRONG = """
from harness.execution import local

for n_jobs in {}:
    try:
        local(n_jobs)
    except Exception as error:
        print(type(error).__name__, error)
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_workers_end_with_a_killed_driver() -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    driver = subprocess.Popen([sys.executable, "-c", DRIVER], env=env, stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    workers = [int(pid) for pid in driver.stdout.readline().split()]
    assert workers and all(alive(pid) for pid in workers)
    driver.kill()
    driver.wait()
    deadline = time.monotonic() + 30
    while any(alive(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not any(alive(pid) for pid in workers)


def test_wrong_numbers_of_workers() -> None:
    """In a process of its own: the type checker of the tests would come first."""
    wrong, env = [0, -1, 1.5, True, "two"], {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", WRONG.format(wrong)], env=env, capture_output=True, text=True)
    expected = [f"BadInput executor.n_jobs must be a whole number >= 1 or null, got {n_jobs!r}" for n_jobs in wrong]
    assert done.stdout.splitlines() == expected, done.stderr


def test_default_is_one_worker_per_available_core() -> None:
    with local() as executor:
        assert worker_count(executor) == len(os.sched_getaffinity(0))

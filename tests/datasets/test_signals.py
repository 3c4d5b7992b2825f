"""Ctrl-C and SIGTERM: one line, whenever they come, and no process left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from datasets.signals import _module, stops_soon

ROOT = Path(__file__).parents[2]
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
LINE = "stopped; what is finished is kept\n"


def after_first_line(command: list[str], number: int, **settings: str) -> tuple[int, str]:
    """Start a command, send it a signal once it has printed a line; return its exit code and standard error."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", **settings}
    with subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout and process.stderr
        process.stdout.readline()
        process.send_signal(number)
        return process.wait(20), process.stderr.read()


@pytest.mark.parametrize("number", CODES)
@pytest.mark.parametrize("command", ["harness", "analysis", "tabular_cache", "pipelines", "datasets", "harness.capped"])
def test_a_command_that_is_still_importing_ends_with_one_line(command: str, number: int, tmp_path: Path) -> None:
    # short sleeps: a signal that comes just before one is handled after it
    (tmp_path / "numpy.py").write_text("import time\nprint('importing')\nfor _ in range(600): time.sleep(0.1)\n")
    assert after_first_line(["-m", command], number, PYTHONPATH=str(tmp_path)) == (CODES[number], LINE)


RUN = """
import time
from harness.cli import run_cli
def main():
    print("running")
    time.sleep(60)
run_cli(main)
"""


@pytest.mark.parametrize("number", CODES)
def test_a_command_that_runs_ends_with_one_line(number: int) -> None:
    assert after_first_line(["-c", RUN], number) == (CODES[number], LINE)


OWN_TOOL = """
import signal, sys, time
signal.signal(signal.SIGINT, lambda *_: sys.exit(7))
import datasets
print("running")
for _ in range(600):
    time.sleep(0.1)
"""


def test_a_program_that_imports_the_project_keeps_its_own_handling(tmp_path: Path) -> None:
    (tmp_path / "own_tool.py").write_text(OWN_TOOL)
    assert after_first_line(["-m", "own_tool"], signal.SIGINT, PYTHONPATH=str(tmp_path)) == (7, "")


FORK = """
import os, signal, time
from analysis.report import meanwhile
def work():
    print(os.getpid())
    time.sleep(60)
wait = meanwhile(work)
wait()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is forked")
def test_the_process_that_helps_with_the_report_ends_with_a_killed_one() -> None:
    with subprocess.Popen([sys.executable, "-uc", FORK], cwd=ROOT, text=True, stdout=subprocess.PIPE) as process:
        assert process.stdout
        child = int(process.stdout.readline())
        process.kill()
        process.wait()
        for _ in range(100):
            if not Path(f"/proc/{child}/cmdline").exists() or not Path(f"/proc/{child}/cmdline").read_bytes():
                return  # gone, or ended and not yet waited for
            time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the forked process goes on")


# An interruption stays one, whatever a library makes of it.

SCRIPT = """
import os, sys
from datasets.signals import stops_soon
try:
    with stops_soon():
        try:
            os.kill(os.getpid(), int(sys.argv[1]))
        except KeyboardInterrupt as error:
            raise RuntimeError("the library was cleaning up") from error
except BaseException as error:
    print(type(error).__name__)
"""  # in a process of its own, which an interruption may end


def test_an_error_made_of_an_interruption_is_the_interruption() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(int(signal.SIGTERM))], capture_output=True, text=True)
    assert done.stdout.strip() == "Terminated"
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with pytest.raises(RuntimeError, match="another"), stops_soon():
        raise RuntimeError("another")
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_a_module_is_known_however_its_option_is_written() -> None:
    spellings = (
        ["-m", "harness"],
        ["-mharness"],
        ["-Im", "harness"],
        ["-I", "-m", "harness"],
        ["-X", "dev", "-mharness"],
    )
    assert {_module([*options, "+acq=ei"]) for options in spellings} == {"harness"}
    assert _module(["-c", "print()"]) == _module([]) == ""

"""Ctrl-C and SIGTERM stay what they are, whatever a library makes of them."""

import signal
import subprocess
import sys

import pytest

from harness.cli import stops_soon

# in a process of its own, which an interruption may end
SCRIPT = """
import os, sys
from harness.cli import stops_soon
try:
    with stops_soon():
        try:
            os.kill(os.getpid(), int(sys.argv[1]))
        except KeyboardInterrupt as error:
            raise RuntimeError("the library was cleaning up") from error
except BaseException as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize(("number", "kind"), [(signal.SIGTERM, "Terminated"), (signal.SIGINT, "KeyboardInterrupt")])
def test_an_error_made_of_an_interruption_is_the_interruption(number: int, kind: str) -> None:
    command = [sys.executable, "-c", SCRIPT, str(int(number))]
    assert subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.strip() == kind


def test_other_errors_and_the_handlers_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with pytest.raises(RuntimeError, match="of its own"), stops_soon():
        raise RuntimeError("of its own")
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before

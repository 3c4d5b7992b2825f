"""Ctrl-C and SIGTERM end a command soon, with one line, whatever it is doing.

Records are atomic, so any moment will do. Only the standard library is imported here: a command is covered from before
the first large import on.
"""

import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

GRACE_S = 1.5
_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
_COMMANDS = ("datasets", "pipelines", "harness", "tabular_cache", "analysis")


class Terminated(KeyboardInterrupt):
    """SIGTERM, treated as Ctrl-C."""


def quiet_start() -> None:
    """Where a command of this project is starting (`python -m harness`), end at once, with the line, on either signal.

    From `stops_soon` on, that is what counts. Programs that import this project keep what they had.
    """
    command = _module(sys.orig_argv[1:]) if sys.argv[:1] == ["-m"] else ""
    if command.partition(".")[0] not in _COMMANDS or threading.current_thread() is not threading.main_thread():
        return

    def end(number: int, frame: FrameType | None) -> None:
        _say()
        os._exit(_CODES[signal.Signals(number)])

    for number in _CODES:
        signal.signal(number, end)


def _module(arguments: list[str]) -> str:
    """Return what Python runs as a module: of `-m NAME`, `-mNAME`, `-Im NAME` and the like; "" for none."""
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=False):
        if found := re.match(r"-[A-Za-z]*m(.*)", argument):
            return found[1] or following
    return ""


def _say() -> None:
    os.write(2, b"stopped; what is finished is kept\n")


def exit_with(main: Callable[[], int | None]) -> NoReturn:
    """Run a command's `main` and exit with its code, or, by Ctrl-C or SIGTERM, with the line and 130 or 143."""
    try:
        with stops_soon():
            code = main() or 0
    except KeyboardInterrupt as error:
        _say()
        code = _CODES[signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT]
    sys.exit(code)


@contextmanager
def stops_soon() -> Iterator[None]:
    """Within this context, Ctrl-C and SIGTERM raise KeyboardInterrupt; GRACE_S later the process ends regardless.

    A compiled training keeps Python from raising anything until it returns, so a thread of our own does the counting.
    Where a library turned the interruption into another error, as OmegaConf does when interrupted while it cleans
    up, the interruption is raised in its place. Does nothing outside the main thread, where signals cannot be handled.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours, python = socket.socketpair()
    python.setblocking(False)
    threading.Thread(target=_count, args=(ours,), daemon=True).start()
    before = signal.set_wakeup_fd(python.fileno(), warn_on_full_buffer=False)
    received: list[type[KeyboardInterrupt]] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        received.append(Terminated if number == signal.SIGTERM else KeyboardInterrupt)
        raise received[0]

    old = {number: signal.getsignal(number) for number in _CODES}
    try:
        for number in _CODES:
            signal.signal(number, interrupt)
        yield
    except (Exception, SystemExit):
        if received:
            raise received[0] from None
        raise
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(before)
        python.close()


def _count(ours: socket.socket) -> None:
    """Wait for a signal's byte; the thread of an ended context reads nothing and ends."""
    while byte := ours.recv(1):
        if byte[0] in _CODES:
            time.sleep(GRACE_S)
            _say()
            os._exit(_CODES[signal.Signals(byte[0])])
    ours.close()

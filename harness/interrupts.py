"""Ctrl-C and SIGTERM end a command soon, whatever it is doing; records are atomic, so any moment will do."""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

GRACE_S = 1.5
_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


class Terminated(KeyboardInterrupt):
    """SIGTERM, treated as Ctrl-C."""


@contextmanager
def stops_soon() -> Iterator[None]:
    """Within this context, Ctrl-C and SIGTERM raise KeyboardInterrupt; GRACE_S later the process ends regardless.

    A compiled training keeps Python from raising anything until it returns, so a thread of our own does the counting.
    Where a library has made an error of its own of the interruption, as OmegaConf does when interrupted while it cleans
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

    old = {number: signal.signal(number, interrupt) for number in _CODES}
    try:
        yield
    except Exception:
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
            print("stopped; what is finished is kept", file=sys.stderr, flush=True)
            os._exit(_CODES[signal.Signals(byte[0])])
    ours.close()

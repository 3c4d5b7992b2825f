"""A limit that a hung task cannot outlive: the process ends itself, whatever it is doing."""

import faulthandler
import os
from collections.abc import Callable
from typing import Any


def within(limit_s: float | None, fn: Callable[..., Any], *args: Any) -> Any:
    """Return fn(*args); past `limit_s` wall seconds the whole process ends, also from within compiled code.

    faulthandler's watchdog needs no interpreter lock. One task at a time per process.
    """
    if limit_s is None:
        return fn(*args)
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - no traceback: the driver tells the reason
        faulthandler.dump_traceback_later(limit_s, exit=True, file=nowhere)
        try:
            return fn(*args)
        finally:
            faulthandler.cancel_dump_traceback_later()

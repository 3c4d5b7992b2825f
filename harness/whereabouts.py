"""Where in a user's own code an error arose, which has to survive the way from a worker process."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from datasets.whereabouts import place

_NAME = "whereabouts"


@contextmanager
def located() -> Iterator[None]:
    """Note on an error that leaves this context, as an attribute, where it arose: pickling keeps that."""
    try:
        yield
    except Exception as error:
        setattr(error, _NAME, {"place": place(error), "traceback": "".join(traceback.format_exception(error))})
        raise


def place_of(error: object) -> str:
    """Return `` at mine/rules.py:16`` for an error that was located, else nothing."""
    where = getattr(error, _NAME, {}).get("place", "")
    return f" at {where}" if where else ""


def traceback_of(error: object) -> str:
    """Return the traceback of an error that was located, else nothing."""
    return str(getattr(error, _NAME, {}).get("traceback", ""))

"""Where in a user's own code an error arose, which has to survive the way from a worker process."""

import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PROJECT = Path(__file__).resolve().parents[1]
_LIBRARIES = tuple(Path(sysconfig.get_path(k)).resolve() for k in ("stdlib", "platstdlib", "purelib", "platlib"))
_NAME = "whereabouts"


@contextmanager
def located() -> Iterator[None]:
    """Note on an error that leaves this context, as an attribute, where it arose: pickling keeps that."""
    try:
        yield
    except Exception as error:
        setattr(error, _NAME, {"place": _place(error), "traceback": "".join(traceback.format_exception(error))})
        raise


def place_of(error: object) -> str:
    """Return `` at mine/rules.py:16`` for an error that was located, else nothing."""
    place = getattr(error, _NAME, {}).get("place", "")
    return f" at {place}" if place else ""


def traceback_of(error: object) -> str:
    """Return the traceback of an error that was located, else nothing."""
    return str(getattr(error, _NAME, {}).get("traceback", ""))


def _place(error: BaseException) -> str:
    """Return file:line of the innermost frame of the user's own, else of the project; libraries do not count."""
    frames = [(Path(f.filename).resolve(), f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    frames = [frame for frame in frames if not any(frame[0].is_relative_to(folder) for folder in _LIBRARIES)]
    own = [frame for frame in frames if not frame[0].is_relative_to(_PROJECT) and frame[0].is_file()] or frames
    if not own:
        return ""
    path, line = own[-1]
    short = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return f"{short}:{line}"

"""Errors that users can put right (`BadInput`: one clear line, exit code 2), and where in their code one arose.

The file and line of an error travel with it from worker processes, as attributes. Also here: what to do when a reader
of standard output leaves early.
"""

import argparse
import os
import select
import sys
import sysconfig
import traceback
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

BROKEN_ARCHIVE = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError)
"""What reading a damaged archive raises; RuntimeError: one that is encrypted, or packed in an unknown way."""


class BadInput(ValueError):
    """Something the user gave is wrong; the message says what it was and what is allowed."""


class OneLineParser(argparse.ArgumentParser):
    """Reads a command line, and raises BadInput for a wrong one, where argparse prints several lines and exits."""

    def error(self, message: str) -> NoReturn:
        """Raise BadInput."""
        raise BadInput(f"{message.removeprefix('argument ')} (--help shows what there is)")


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Exit with code 1 where nobody reads standard output any more, as after `| head`.

    Another broken pipe is raised as it is: a worker's, say, is not for whoever reads us to end.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)  # errors are reported unasked
        if not any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0)):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still to be flushed
        raise SystemExit(1) from None


# The place of an error in a user's own code, in the process where it arose.

_PROJECT = Path(__file__).resolve().parents[1]
_LIBRARIES = tuple(Path(sysconfig.get_path(k)).resolve() for k in ("stdlib", "platstdlib", "purelib", "platlib"))
_NAME = "place_and_traceback"


def error_place(error: BaseException, besides: Collection[Path] = ()) -> str:
    """Return file:line of the innermost frame of the user's own, else of the project, "" if there is none.

    Libraries do not count, nor do the files `besides`.
    """
    frames = [(Path(f.filename).resolve(), f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    frames = [frame for frame in frames if not any(frame[0].is_relative_to(folder) for folder in _LIBRARIES)]
    frames = [frame for frame in frames if frame[0].is_file() and frame[0] not in besides]
    own = [frame for frame in frames if not frame[0].is_relative_to(_PROJECT)] or frames
    if not own:
        return ""
    path, line = own[-1]
    return f"{path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}:{line}"


@contextmanager
def located() -> Iterator[None]:
    """Note on an error that leaves this context, as an attribute, where it arose: pickling keeps that."""
    try:
        yield
    except Exception as error:
        setattr(error, _NAME, {"place": error_place(error), "traceback": "".join(traceback.format_exception(error))})
        raise


def place_of(error: object) -> str:
    """Return `` at mine/rules.py:16`` for an error that was located, else nothing."""
    where = getattr(error, _NAME, {}).get("place", "")
    return f" at {where}" if where else ""


def traceback_of(error: object) -> str:
    """Return the traceback of an error that was located, else nothing."""
    return str(getattr(error, _NAME, {}).get("traceback", ""))


@contextmanager
def user_errors(where: str, besides: Collection[Path] = ()) -> Iterator[None]:
    """Turn an error in a user's code into BadInput, one line that begins with `where` and ends with file and line.

    Frames in the files `besides`, of those who call that code, are passed over; lack of memory passes as it is.
    """
    try:
        yield
    except MemoryError:
        raise
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from None
    except Exception as error:
        text = " ".join(str(error).split())
        if isinstance(error, ImportError | SyntaxError):  # these say themselves where
            raise BadInput(f"{where}: {text}") from error
        at = error_place(error, {Path(__file__).resolve(), *besides})
        line = f"{type(error).__name__}: {text}".removesuffix(": ")
        raise BadInput(f"{where}: {line}{f' at {at}' if at else ''}") from error

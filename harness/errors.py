"""Checks of what users set (numbers, lists, folders): `BadInput`, with one clear line, for what is wrong."""

import difflib
import math
import tempfile
from collections.abc import Iterable, Mapping
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harness import IN_CHECKOUT

if TYPE_CHECKING or IN_CHECKOUT:
    from datasets.errors import BadInput
else:

    class BadInput(ValueError):
        """Something the user gave is wrong; the message says what it was and what is allowed."""


__all__ = ["BadInput"]


def unknown(what: str, name: object, allowed: Iterable[str]) -> BadInput:
    """Return the error that `what` has no `name`, which says what is allowed and which of it is spelt much the same."""
    names = list(allowed)
    bare = {each.lstrip("+"): each for each in names}
    close = difflib.get_close_matches(str(name), bare, n=1)
    meant = f" (did you mean {bare[close[0]]}?)" if close else ""
    return BadInput(f"unknown {what} {name!r}{meant}; allowed: {', '.join(names) or 'nothing'}")


def _is_unset(value: object) -> bool:
    """Whether a setting has no value: null, or ``name=`` with nothing behind it."""
    return value is None or (isinstance(value, str) and not value)


def number(name: str, value: object, allowed: str, low: float, high: float = math.inf) -> float:
    """Return `value` as a float if it is a finite number in [low, high]; else raise BadInput."""
    if (
        isinstance(value, bool)
        or not isinstance(value, Real)
        or not (math.isfinite(value) and low <= float(value) <= high)
    ):
        got = repr(value) if isinstance(value, str) else str(value)
        raise BadInput(f"{name} must be {allowed}, " + ("and is not set" if _is_unset(value) else f"got {got}"))
    return float(value)


def positive(name: str, value: object, allowed: str = "a number") -> float:
    """Return `value` if it is a number above 0; else raise BadInput."""
    return number(name, value, f"{allowed} > 0", math.ulp(0.0))


def whole(name: str, value: object, least: int, most: int | None = None) -> int:
    """Return `value` if it is a whole number in [least, most]; else raise BadInput."""
    allowed = f"a whole number >= {least}" if most is None else f"a whole number from {least} to {most}"
    if not number(name, value, allowed, least, math.inf if most is None else most).is_integer():
        raise BadInput(f"{name} must be {allowed}, got {value}")
    return int(number(name, value, allowed, least))


def one_of(name: str, value: object, allowed: Iterable[str]) -> str:
    """Return `value` if it is one of those allowed; else raise BadInput."""
    names = tuple(allowed)
    if not isinstance(value, str) or value not in names:
        got = "and is not set" if _is_unset(value) else f"got {value!r}"
        raise BadInput(f"{name} must be one of {', '.join(names)}, {got}")
    return value


def flag(name: str, value: object) -> bool:
    """Return `value` if it is true or false; else raise BadInput."""
    if not isinstance(value, bool | np.bool_):
        raise BadInput(f"{name} must be true or false, got {value}")
    return bool(value)


def listed(name: str, value: Any) -> list[Any]:
    """Return the entries of a setting that is a list; else raise BadInput."""
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise BadInput(f"{name} must be a list, [a,b], got {value!r}")
    return list(value)


def folder(name: str, value: Any) -> Path:
    """Return the folder that setting `name` gives, 2026 being a name like any other; else raise BadInput.

    An empty name is refused: it would be the folder one is in, which is written `.`.
    """
    number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    text = str(value) if number or isinstance(value, Path) else value
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        got = "nothing" if _is_unset(value) else repr(value)
        raise BadInput(f"{name} must name a folder, for example {name}=results (. is the one you are in), got {got}")
    return Path(text)


def writable(name: str, path: Path) -> Path:
    """Return `path` if files can be written there, making nothing; else raise BadInput."""
    existing = path
    try:
        existing = next(p for p in (path, *path.absolute().parents) if p.exists())
        if not existing.is_dir():
            raise BadInput(f"{name}: {existing} is not a folder")
        next(existing.iterdir(), None)
        tempfile.TemporaryFile(dir=existing).close()  # leaves nothing behind
    except OSError as error:
        raise BadInput(f"{name}: cannot read and write {existing}: {error.strerror}") from None
    return path

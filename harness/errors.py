"""Checks of what users set (numbers, lists, folders): `BadInput`, with one clear line, for what is wrong."""

import math
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

from datasets.errors import BadInput

__all__ = ["BadInput"]


def number(name: str, value: object, allowed: str, low: float, high: float = math.inf) -> float:
    """Return `value` as a float if it is a finite number in [low, high]; else raise BadInput."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise BadInput(f"{name} must be {allowed}, got {value}")
    if not (math.isfinite(value) and low <= float(value) <= high):
        raise BadInput(f"{name} must be {allowed}, got {value}")
    return float(value)


def whole(name: str, value: object, least: int, most: int | None = None) -> int:
    """Return `value` if it is a whole number in [least, most]; else raise BadInput."""
    allowed = f"a whole number >= {least}" if most is None else f"a whole number from {least} to {most}"
    if not float(number(name, value, allowed, least, math.inf if most is None else most)).is_integer():
        raise BadInput(f"{name} must be {allowed}, got {value}")
    return int(number(name, value, allowed, least))


def flag(name: str, value: object) -> bool:
    """Return `value` if it is true or false; else raise BadInput."""
    if not isinstance(value, bool):
        raise BadInput(f"{name} must be true or false, got {value}")
    return value


def required(name: str, value: object, needs: str) -> object:
    """Return `value`, or raise BadInput if it is not set."""
    if value is None:
        raise BadInput(f"{name} is not set: {needs}")
    return value


# Folders that users name: a bad name, or one that cannot be written to, is refused before anything runs.

_NAMES = ("results_dir", "dataset.path", "dataset.target", "dataset.name", "budgets", "tables", "evaluator.tables")
_PLAIN = re.compile(r"[A-Za-z0-9_/\\+.$%*@?|: -]*")  # what Hydra takes as it stands
_NUMBER = re.compile(r"\d[\d_.eE]*")


def folder(name: str, value: Any) -> Path:
    """Return the folder that setting `name` gives, 2026 being a name like any other.

    Raises BadInput for null, for an empty name (which would be the folder one is in: say `.`) and for what is no name.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        got = "nothing" if value in (None, "") else repr(value)
        raise BadInput(f"{name} must name a folder, for example {name}=results (. is the one you are in), got {got}")
    if "\0" in value:
        raise BadInput(f"{name} must name a folder, got {value!r}")
    return Path(value)


def quoted(arguments: Sequence[str]) -> list[str]:
    """Return a command line on which names of files, folders and columns are quoted where Hydra would not take them.

    results_dir=2026_11 is a name, and not the number 202611; so are dataset.target=true, and whatever has letters
    beyond ASCII, parentheses, a # or an = in it. What is quoted already, a list, null or ${...} stays as it is.
    """
    several = bool({"-m", "--multirun"} & set(arguments))
    return [_quoted(argument, several) for argument in arguments]


def _quoted(argument: str, several: bool) -> str:
    """several: commas part the values of several runs."""
    key, mark, name = argument.partition("=")
    plain = bool(_PLAIN.fullmatch(name.replace(",", "") if several else name))
    told = key.lstrip("+") in _NAMES and mark and name and name[0] not in "'\"[{" and "${" not in name
    column = key.lstrip("+") == "dataset.target" and name.lower() in ("true", "false")
    if not told or (plain and not column and not _NUMBER.fullmatch(name)):
        return argument
    escaped = name.replace("'", "\\'")
    return f"{key}='{escaped}'"


def writable(name: str, path: Path) -> Path:
    """Return `path` if files can be written there, making nothing; raises BadInput otherwise."""
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


def whole_number(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Return `value` if it is a whole number from `least` to `most`; raises BadInput naming the setting."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        allowed = f">= {least}" if most is None else f"from {least} to {most}"
        raise BadInput(f"{name} must be a whole number {allowed}, got {value!r}")
    return value


def listed(name: str, value: Any) -> list[Any]:
    """Return the entries of a setting that is a list; raises BadInput naming the setting."""
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise BadInput(f"{name} must be a list, [a,b], got {value!r}")
    return list(value)


def positive(name: str, value: Any, allowed: str = "a number") -> float:
    """Return `value` if it is a number above 0; raises BadInput naming the setting."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise BadInput(f"{name} must be {allowed} > 0, got {value!r}")
    return float(value)

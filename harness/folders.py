"""Folders that users name: what is no name, and what cannot be written to, is told before anything runs."""

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.errors import BadInput

_NUMBER = re.compile(r"(?P<key>\+*results_dir)=(?P<name>\d[\d_.eE]*)")


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
    """Return a command line on which results_dir=2026_11 is a name, and not the number 202611 that Hydra reads."""
    return [
        f"{found['key']}='{found['name']}'" if (found := _NUMBER.fullmatch(argument)) else argument
        for argument in arguments
    ]


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

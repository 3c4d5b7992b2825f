"""The catalogue of data sets: every record (`Entry`) in the modules of `datasets.sets`, by name.

A record says what a data set is and by which sources it can be had: files, a function that reads them, and an origin
to download them from. `Dataset` is a data set in memory.
"""

import difflib
import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from datasets.errors import BadInput

if TYPE_CHECKING:
    import pandas

KINDS = {"regression": "regression", "binary": "classification", "multiclass": "classification"}
TASKS = tuple(KINDS)
USES = ("study", "figures", "opportunity", "other")
CAVEATS = ("", "partial", "stand-in", "identity uncertain")


@dataclass(frozen=True)
class Dataset:
    """A data set in memory.

    X: inputs, n rows; numeric, bool, pandas ``category`` (nominal) or string (text) columns.
    y: targets (float64) for regression, else class codes 0..K-1 (int64).
    classes: the K class labels in the order of their codes; () for regression.
    mark: "", or the caveat under which results on it are reported (one of `CAVEATS`).
    sha256: over the parsed values (see `datasets.files`), so it is the same whichever copy they came from.
    """

    name: str
    X: "pandas.DataFrame"
    y: Float[np.ndarray, " n"] | Int[np.ndarray, " n"]
    task: str
    classes: tuple[str, ...]
    mark: str
    note: str
    sha256: str

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise BadInput(f"data set {self.name}: task must be one of {', '.join(TASKS)}, got {self.task!r}")
        if len(self.X) != len(self.y):
            raise BadInput(f"data set {self.name}: X has {len(self.X)} rows and y {len(self.y)}")
        regression = self.task == "regression"
        if not isinstance(self.classes, tuple) or regression != (not self.classes):
            wanted = "() for regression" if regression else "the tuple of the classes' labels"
            raise BadInput(f"data set {self.name}: classes must be {wanted}, got {self.classes!r}")


@dataclass(frozen=True)
class File:
    """A raw file: its name in the folder of its source, and its SHA-256.

    sha256: "" for a file whose bytes no one can know beforehand (written by a download); its checksum then
        lies beside it, in ``<name>.sha256``, written by the same download.
    twin: SHA-256 of the same text with the other kind of line ends, "" where it is not accepted.
    """

    name: str
    sha256: str
    twin: str = ""


class Origin:
    """A site that files can be downloaded from; those of `datasets.download` are its subclasses."""

    def download(self, files: Sequence[File], folder: Path) -> list[bytes]:
        """Return the content of `files`, by way of an empty `folder`; the caller verifies it.

        Raises OSError, ValueError, ImportError or one of `errors.BROKEN_ARCHIVE` if it cannot be had.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Source:
    """One way to come by a data set: the files, how to read them and where they can be downloaded.

    folder: where the files are, below a data folder.
    parse: takes the paths, in the order of `files`, and returns one frame that holds the target column too.
    sha256: of the parsed values; "" if they are not known, then `rows` and the columns decide.
    origin: None if these very files cannot be downloaded.
    """

    folder: str
    files: Sequence[File]
    parse: "Callable[..., pandas.DataFrame]"
    rows: int
    sha256: str = ""
    origin: Origin | None = None
    mark: str = ""
    note: str = ""

    def paths(self, root: Path) -> list[Path]:
        """Return where the files lie below the data folder `root`."""
        return [root / self.folder / file.name for file in self.files]


@dataclass(frozen=True)
class Entry:
    """The record of one data set; `columns` counts the inputs, `classes` is 0 for regression.

    sources: in order of preference; the first whose files are at hand is used.
    use: what it is for, one of `USES`: the study, its figures alone, the experiments of `analysis.papers.snoek2011`, or
        only where it is named.
    kin: data sets that share rows with this one although no file is the same.
    """

    name: str
    title: str
    target: str
    columns: int
    classes: int
    licence: str
    sources: Sequence[Source]
    use: str = "study"
    kin: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Refuse a record whose use or mark nobody would look for."""
        if self.use not in USES:
            raise ValueError(f"{self.name}: use must be one of {', '.join(USES)}, got {self.use!r}")
        if wrong := {source.mark for source in self.sources} - set(CAVEATS):
            raise ValueError(f"{self.name}: mark must be one of {CAVEATS}, got {wrong}")

    @property
    def task(self) -> str:
        """One of `TASKS`."""
        return "regression" if self.classes == 0 else "binary" if self.classes == 2 else "multiclass"


@cache
def entries() -> dict[str, Entry]:
    """Return every record by name, sorted: each `Entry` in a module of `datasets.sets`."""
    from datasets import sets as package

    found: dict[str, Entry] = {}
    for module in sorted(m.name for m in pkgutil.iter_modules(package.__path__)):
        for entry in vars(importlib.import_module(f"{package.__name__}.{module}")).values():
            if isinstance(entry, Entry) and found.setdefault(entry.name, entry) is not entry:
                raise ValueError(f"datasets/sets/{module}.py describes {entry.name!r}, which another record describes")
    return dict(sorted(found.items()))


def names(use: str = "study") -> tuple[str, ...]:
    """Return the names of the data sets of the study, or those of another use (one of `USES`)."""
    return tuple(name for name, entry in entries().items() if entry.use == use)


def entry_of(name: str) -> Entry:
    """Return the record of `name`; raise BadInput for a name that is not in the catalogue."""
    if name not in entries():
        close = difflib.get_close_matches(name, entries(), n=1)
        meant = f" (did you mean {close[0]}?)" if close else ""
        raise BadInput(f"unknown data set {name!r}{meant}; known are: {', '.join(entries())}")
    return entries()[name]

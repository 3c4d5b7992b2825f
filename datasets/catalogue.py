"""The catalogue of data sets: every record (`Entry`) in the modules of `datasets.sets`, by name.

A record says what a data set is and by which sources it can be had: files, a function that reads them, and an origin
to download them from. `Dataset` is a data set in memory.
"""

import importlib
import os
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


# Origins: where files come from; `datasets.download` carries the downloads out.

_BASES = {
    "uci": "https://archive.ics.uci.edu/static/public",
    "libsvm": "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets",
    "openml": "https://www.openml.org/api/v1/xml",
}


def base_url(site: str) -> str:
    """Return the address of `site`; ``DATASETS_MIRROR`` replaces it by ``$DATASETS_MIRROR/<site>``."""
    mirror = os.environ.get("DATASETS_MIRROR")
    return f"{mirror.rstrip('/')}/{site}" if mirror else _BASES[site]


@dataclass(frozen=True)
class Uci:
    """An archive of the UCI repository: a zip file whose members are found by their base names."""

    number: int
    slug: str

    @property
    def url(self) -> str:
        """The archive's address."""
        return f"{base_url('uci')}/{self.number}/{self.slug}.zip"

    def __str__(self) -> str:
        return f"UCI {self.number}"


@dataclass(frozen=True)
class Libsvm:
    """One plain file of the LIBSVM data page, `path` below its base address."""

    path: str

    @property
    def url(self) -> str:
        """The file's address."""
        return f"{base_url('libsvm')}/{self.path}"

    def __str__(self) -> str:
        return f"LIBSVM {self.path}"


@dataclass(frozen=True)
class OpenML:
    """A data set of OpenML, through its own client; rows and columns (target included) it must have."""

    number: int
    rows: int
    columns: int
    target: str

    def __str__(self) -> str:
        return f"OpenML {self.number}"


@dataclass(frozen=True)
class Kaggle:
    """Files of a Kaggle data set, through its own client (the optional extra ``kaggle``).

    packed: a pattern for the loose files that make up the one file without a checksum, a zip, where Kaggle
        unpacked it; "" if there is none.
    """

    handle: str
    packed: str = ""

    def __str__(self) -> str:
        return f"Kaggle {self.handle}"


Origin = Uci | Libsvm | OpenML | Kaggle


TASKS = ("regression", "binary", "multiclass")
USES = ("study", "figures", "opportunity", "other")
MARKS = ("", "partial", "stand-in", "identity uncertain")


@dataclass(frozen=True)
class Dataset:
    """A data set in memory.

    X: inputs, n rows; numeric, bool, pandas ``category`` (nominal) or string (text) columns.
    y: targets (float64) for regression, else class codes 0..K-1 (int64).
    classes: the K class labels in the order of their codes; () for regression.
    mark: "", or the reservation under which results on it are reported (one of `MARKS`).
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


@dataclass(frozen=True)
class File:
    """A raw file: its path below a data folder and its SHA-256.

    sha256: "" for a file whose bytes no one can know beforehand (written by a download); its checksum then
        lies beside it, in ``<path>.sha256``, written by the same download.
    twin: SHA-256 of the same text with the other kind of line ends, "" where it is not accepted.
    """

    path: str
    sha256: str
    twin: str = ""


@dataclass(frozen=True)
class Source:
    """One way to come by a data set: the files, how to read them and where they can be downloaded.

    parse: reads the files, in the order of `files`, into one frame that holds the target column too.
    origin: None if these very files cannot be downloaded.
    sha256: of the parsed values; "" if they are not known, then `rows` and the columns decide.
    """

    files: tuple[File, ...]
    parse: "Callable[[Sequence[Path]], pandas.DataFrame]"
    rows: int
    sha256: str
    origin: Origin | None = None
    mark: str = ""
    note: str = ""


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
    task: str
    target: str
    columns: int
    classes: int
    licence: str
    sources: tuple[Source, ...]
    use: str = "study"
    kin: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a record that contradicts itself."""
        if self.task not in TASKS:
            raise ValueError(f"{self.name}: task must be one of {', '.join(TASKS)}, got {self.task!r}")
        expected = {
            "regression": self.classes == 0,
            "binary": self.classes == 2,
            "multiclass": self.classes > 2,
        }
        if not expected[self.task]:
            raise ValueError(f"{self.name}: a {self.task} task cannot have {self.classes} classes")
        if self.use not in USES:
            raise ValueError(f"{self.name}: use must be one of {', '.join(USES)}, got {self.use!r}")
        if not self.sources:
            raise ValueError(f"{self.name}: a data set needs at least one source")
        for source in self.sources:
            if source.mark not in MARKS:
                raise ValueError(f"{self.name}: mark must be one of {MARKS}, got {source.mark!r}")


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
    """Return the record of `name`.

    Raises BadInput for a name that is not in the catalogue.
    """
    if name not in entries():
        known = ", ".join(entries())
        raise BadInput(f"unknown data set {name!r}; known are: {known}")
    return entries()[name]

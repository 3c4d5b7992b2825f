"""Where data sets come from: the descriptions of downloads that `datasets.fetching` carries out."""

import os
from dataclasses import dataclass

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

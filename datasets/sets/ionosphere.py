"""Ionosphere (UCI 52): radar returns that show structure in the ionosphere (g) or none (b)."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from datasets.catalogue import Entry, File, Source
from datasets.origins import Uci

if TYPE_CHECKING:
    import pandas

COLUMNS = (*(f"a{i}" for i in range(1, 35)), "class")


def parse(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read the comma separated file."""
    from datasets.formats import read_csv

    return read_csv(files[0], COLUMNS)


ENTRY = Entry(
    name="ionosphere",
    title="Ionosphere",
    task="binary",
    target="class",
    columns=34,
    classes=2,
    licence="CC BY 4.0 (UCI)",
    use="opportunity",
    sources=(
        Source(
            files=(
                File(
                    "ionosphere/ionosphere.data",
                    "46d52186b84e20be52918adb93e8fb9926b34795ff7504c24350ae0616a04bbd",
                    twin="b9cabd8b2ecc1cdbe84dff147d5f79cb059d1511f232d4855c9f226f2e71c057",
                ),
            ),
            parse=parse,
            rows=351,
            sha256="6619ac354fae4ffcdceed580a52a29fed5bd4352919c19323d3e8c4edf552a1c",
            origin=Uci(52, "ionosphere"),
        ),
    ),
)

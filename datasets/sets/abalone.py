"""Abalone (UCI 1): the age of a shellfish, in rings, from its measures."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from datasets.catalogue import Entry, File, Source
from datasets.origins import Uci

if TYPE_CHECKING:
    import pandas

COLUMNS = (
    "Sex",
    "Length",
    "Diameter",
    "Height",
    "Whole_weight",
    "Shucked_weight",
    "Viscera_weight",
    "Shell_weight",
    "Rings",
)


def parse(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read the comma separated file; Sex (M, F, I) is nominal."""
    from datasets.formats import as_categories, read_csv

    return as_categories(read_csv(files[0], COLUMNS), ["Sex"])


ENTRY = Entry(
    name="abalone",
    title="Abalone",
    task="regression",
    target="Rings",
    columns=8,
    classes=0,
    licence="CC BY 4.0 (UCI)",
    sources=(
        Source(
            files=(File("abalone/abalone.data", "de37cdcdcaaa50c309d514f248f7c2302a5f1f88c168905eba23fe2fbc78449f"),),
            parse=parse,
            rows=4177,
            sha256="5513ea93d6c73064af1e3efa9654f3b150b9087bd0aac4c1d75881f0e4e56f5f",
            origin=Uci(1, "abalone"),
        ),
    ),
)

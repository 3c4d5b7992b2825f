"""Wine quality (OpenML 287; UCI 186): the score of a Portuguese wine, red or white, from its chemistry."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from datasets.catalogue import Entry, File, Source
from datasets.origins import Uci

if TYPE_CHECKING:
    import pandas


def parse(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read red, then white, the order of OpenML's rows; both are separated by semicolons."""
    import pandas

    from datasets.formats import read_csv

    return pandas.concat([read_csv(file, sep=";") for file in files], ignore_index=True)


ENTRY = Entry(
    name="wine",
    title="Wine quality",
    task="regression",
    target="quality",
    columns=11,
    classes=0,
    licence="CC BY 4.0 (UCI)",
    sources=(
        Source(
            files=(
                File(
                    "openml_287_wine_quality/winequality-red.csv",
                    "4a402cf041b025d4566d954c3b9ba8635a3a8a01e039005d97d6a710278cf05e",
                ),
                File(
                    "openml_287_wine_quality/winequality-white.csv",
                    "76c3f809815c17c07212622f776311faeb31e87610d52c26d87d6e361b169836",
                ),
            ),
            parse=parse,
            rows=6497,
            sha256="c1a9743f98df6cb6e469959d70575207c97ef37b10a2aa8805ffea07bb23ed88",
            origin=Uci(186, "wine+quality"),
        ),
    ),
)

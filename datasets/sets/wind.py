"""Wind (OpenML 503): the daily mean wind speed at Malin Head from eleven other Irish stations."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from datasets.catalogue import Entry, File, Source
from datasets.copies import openml_copy
from datasets.origins import OpenML

if TYPE_CHECKING:
    import pandas


def parse(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read the ARFF file."""
    from datasets.formats import read_arff

    return read_arff(files[0])


ENTRY = Entry(
    name="wind",
    title="Wind",
    task="regression",
    target="MAL",
    columns=14,
    classes=0,
    licence="unlimited distribution permitted (StatLib)",
    sources=(
        Source(
            files=(
                File(
                    "openml_503_wind/wind.arff",
                    "33b556d23b14f2a0a17de9332ccedbee2f23415e0446b0c45d6d3bd168320d0c",
                ),
            ),
            parse=parse,
            rows=6574,
            sha256="98cae1d4023995932e936a1f4c0a3420ce2d27866ebae9bb43066b85e620c75d",
        ),
        openml_copy("openml_503_wind", OpenML(503, rows=6574, columns=15, target="MAL")),
    ),
)

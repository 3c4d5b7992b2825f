"""Pen-Based Recognition of Handwritten Digits (UCI 81): a digit from eight points of its pen stroke."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from datasets.catalogue import Entry, File, Source
from datasets.origins import Uci

if TYPE_CHECKING:
    import pandas


COLUMNS = (*(f"{axis}{point}" for point in range(1, 9) for axis in "xy"), "digit")


def parse(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read the training part, then the test part; both are comma separated."""
    import pandas

    from datasets.formats import read_csv

    return pandas.concat([read_csv(file, COLUMNS) for file in files], ignore_index=True)


ENTRY = Entry(
    name="pendigits",
    title="Pen-Based Recognition of Handwritten Digits",
    task="multiclass",
    target="digit",
    columns=16,
    classes=10,
    licence="CC BY 4.0 (UCI)",
    sources=(
        Source(
            files=(
                File(
                    "pendigits/pendigits.tra",
                    "e2b9eb9f0d0467e2b64a4816a3420edf2b8043447576f4b84337aba44a9f97d3",
                ),
                File(
                    "pendigits/pendigits.tes",
                    "8bd03229c5c5291fefe43e45465dd948d2645bf23328b9d993e0b777666b2015",
                ),
            ),
            parse=parse,
            rows=10992,
            sha256="004ac330c1587bcc40b13c1cf01b19ccc803084f165356fd7b6471a3f28247fe",
            origin=Uci(81, "pen+based+recognition+of+handwritten+digits"),
        ),
    ),
)

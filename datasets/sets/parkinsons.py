"""Parkinsons Telemonitoring (UCI 189): a severity score from measures of the voice."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from datasets.catalogue import Entry, File, Source
from datasets.origins import Uci

if TYPE_CHECKING:
    import pandas


def parse(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read the comma separated file, without the subject number and the other score."""
    from datasets.formats import read_csv

    return read_csv(files[0]).drop(columns=["subject#", "motor_UPDRS"])


ENTRY = Entry(
    name="parkinsons",
    title="Parkinsons Telemonitoring",
    task="regression",
    target="total_UPDRS",
    columns=19,
    classes=0,
    licence="CC BY 4.0 (UCI); asks for a citation of Tsanas et al. 2009",
    sources=(
        Source(
            files=(
                File(
                    "parkinsons_telemonitoring/parkinsons_updrs.data",
                    "f2c7d5025dec4e92e7feae367a5f7ccf58789a10ac6b54bdf15976c599f9dd39",
                ),
            ),
            parse=parse,
            rows=5875,
            sha256="478243446e8b69947af4b95d6b338d9d6b859f9e47123277aaa24d2d218c35f3",
            origin=Uci(189, "parkinsons+telemonitoring"),
            note="rows are split at random, so the 42 subjects occur in all parts",
        ),
    ),
)

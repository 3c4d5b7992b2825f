"""Statlog Landsat Satellite (UCI 146): the soil class of a pixel from its neighbourhood in four bands."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from datasets.catalogue import Entry, File, Source
from datasets.origins import Uci

if TYPE_CHECKING:
    import pandas


COLUMNS = (*(f"{band}{pixel}" for pixel in range(1, 10) for band in "abcd"), "class")


def parse(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read the training part, then the test part; both are blank separated."""
    import pandas

    from datasets.formats import read_csv

    return pandas.concat([read_csv(file, COLUMNS, sep=" ") for file in files], ignore_index=True)


ENTRY = Entry(
    name="satellite",
    title="Statlog Landsat Satellite",
    task="multiclass",
    target="class",
    columns=36,
    classes=6,
    licence="CC BY 4.0 (UCI)",
    sources=(
        Source(
            files=(
                File(
                    "statlog_landsat_satellite/sat.trn",
                    "e896dc88a960fa2404160fc4c3cb3dc53fcf4afd80ba920bf2d261bd42d12613",
                    twin="6da888aa398f4dd56a85bb7114f7206896a360b7af1d790450f64dbdb8493fc5",
                ),
                File(
                    "statlog_landsat_satellite/sat.tst",
                    "4b9167b8a92baafafed7c8809aef86d0683a5e685c19d98d119fa6974f0f2479",
                    twin="0045be0391420a35a69e8d2b0a4ff4b032a4aa03feebba0d89b9aa3e2d42c212",
                ),
            ),
            parse=parse,
            rows=6435,
            sha256="a49308e1d232084328f3be189a3f7a9aaf114c13ba585c69ddc8a32ce5a933b9",
            origin=Uci(146, "statlog+landsat+satellite"),
        ),
    ),
)

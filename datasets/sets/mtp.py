"""Melting point (OpenML 405): the melting point of a compound from 202 descriptors of its molecule."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from datasets.catalogue import Entry, File, Source
from datasets.copies import openml_copy
from datasets.origins import OpenML

if TYPE_CHECKING:
    import pandas


def parse(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read the comma separated file, without the original study's split."""
    from datasets.formats import read_csv

    return read_csv(files[0]).drop(columns="MP_Data").rename(columns={"MP_Outcome": "melting_point"})


def parse_openml(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read OpenML's table, whose target is called oz203."""
    from datasets.formats import read_csv

    return read_csv(files[0]).rename(columns={"oz203": "melting_point"})


ENTRY = Entry(
    name="mtp",
    title="Melting point",
    task="regression",
    target="melting_point",
    columns=202,
    classes=0,
    licence="GPL (QSARdata)",
    sources=(
        Source(
            files=(
                File(
                    "openml_405_mtp/MeltingPoint_converted.csv.gz",
                    "581dffc092e3e4bc67b2d463e2f1f3c9f0c6adc361513c6d5906ee2d64acabb2",
                ),
            ),
            parse=parse,
            rows=4401,
            sha256="f5c59b8a28fb3fd9f8e523d7806f392fdb8c751b048eb93546552c1c1a89b3fe",
            mark="stand-in",
            note="the same study's data in the R package QSARdata: 4401 of OpenML's 4450 compounds, unscaled",
        ),
        openml_copy("openml_405_mtp", OpenML(405, rows=4450, columns=203, target="oz203"), parse_openml),
    ),
)

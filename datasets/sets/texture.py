"""Texture (OpenML task 125922, data 40499): which of eleven Brodatz textures, from 40 moments of an image."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from datasets.catalogue import Entry, File, Source
from datasets.copies import openml_copy
from datasets.origins import OpenML
from datasets.parsers import csv_table

if TYPE_CHECKING:
    import pandas

COLUMNS = (*(f"A{i}" for i in range(1, 41)), "Class")


def parse_openml(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read OpenML's table, which calls the inputs V1 to V40."""
    return csv_table(files).set_axis(list(COLUMNS), axis=1)


ENTRY = Entry(
    name="texture",
    title="Texture",
    task="multiclass",
    target="Class",
    columns=40,
    classes=11,
    licence="none stated (ELENA, KEEL)",
    sources=(
        Source(
            files=(
                File(
                    "openml_125922_texture/texture.dat",
                    "46072d41079d514daf08b82eeb0734ef624dcf3952b8b33c3b3c5ea4c744cd9d",
                ),
            ),
            parse=csv_table,
            rows=5500,
            sha256="a8d9a14c1e359a5c63de0d61d4f870cc270c71ff3417436443662c10230f59ce",
        ),
        openml_copy("openml_125922_texture", OpenML(40499, rows=5500, columns=41, target="Class"), parse_openml),
    ),
)

"""HIVA agnostic (OpenML task 3892, data 1039): active against HIV or not, from 1617 binary features."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from datasets.catalogue import Entry, File, Source
from datasets.copies import openml_copy
from datasets.origins import OpenML

if TYPE_CHECKING:
    import pandas

INPUTS = tuple(f"attr{i}" for i in range(1617))


def parse(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read the inputs and the labels; neither file has a header."""
    import pandas

    from datasets.formats import read_csv

    return pandas.concat([read_csv(files[0], INPUTS), read_csv(files[1], ["label"])], axis=1)


ENTRY = Entry(
    name="hiva",
    title="HIVA agnostic",
    task="binary",
    target="label",
    columns=1617,
    classes=2,
    licence="none granted (WCCI 2006 challenge)",
    sources=(
        Source(
            files=(
                File(
                    "openml_3892_hiva_agnostic/X.csv.gz",
                    "e2a9981288a4148160a6f405f5b435bd62fd4823459b7c85ffe7c7cf93f339ae",
                ),
                File(
                    "openml_3892_hiva_agnostic/y.csv.gz",
                    "563c517cf2b4cb8aa9efdc4aee4d4964ab29f6f2f0b082f90582f712251e8e71",
                ),
            ),
            parse=parse,
            rows=3076,
            sha256="2e2ec7dbc98c297ec5b36e9c2a1e46ddb93534cb13134427cd9af314fc9960cb",
            mark="partial",
            note="3076 of OpenML's 4229 rows: a stratified 80 % sample of the challenge's training part",
        ),
        openml_copy("openml_3892_hiva_agnostic", OpenML(1039, rows=4229, columns=1618, target="label")),
    ),
)

"""Connectionist Bench, sonar (UCI 151): a mine (M) or a rock (R), from the energy in 60 frequency bands."""

from functools import partial

from datasets.catalogue import Entry, File, Source
from datasets.origins import Uci
from datasets.parsers import csv_table

COLUMNS = (*(f"band{i}" for i in range(1, 61)), "class")


ENTRY = Entry(
    name="sonar",
    title="Connectionist Bench (Sonar, Mines vs. Rocks)",
    task="binary",
    target="class",
    columns=60,
    classes=2,
    licence="CC BY 4.0 (UCI)",
    use="opportunity",
    sources=(
        Source(
            files=(
                File(
                    "sonar/sonar.all-data",
                    "e90434cdbf00fcf93ffa911fe447ae25606979658e60f1d32e155c3b5240234d",
                    twin="9d5d57092020ff968568705889fc1b6bc917dac6ff53ace87693e2e2010f4d70",
                ),
            ),
            parse=partial(csv_table, names=COLUMNS),
            rows=208,
            sha256="a662352f38e8aed84851114b3ccd737749ebb875c9ab38f5d41206f17f3332ff",
            origin=Uci(151, "connectionist+bench+sonar+mines+vs+rocks"),
        ),
    ),
)

"""Statlog, Australian credit approval (UCI 143): granted or not, from 14 attributes without names.

Blank separated; categorical attributes come as codes and are taken as numbers.
"""

from functools import partial

from datasets.catalogue import Entry, File, Source
from datasets.origins import Uci
from datasets.parsers import csv_table

COLUMNS = (*(f"A{i}" for i in range(1, 15)), "class")


ENTRY = Entry(
    name="australian",
    title="Statlog (Australian Credit Approval)",
    task="binary",
    target="class",
    columns=14,
    classes=2,
    licence="CC BY 4.0 (UCI)",
    use="opportunity",
    sources=(
        Source(
            files=(
                File(
                    "australian/australian.dat.txt",
                    "3abe5af151afa50b999a9ba21cbc884e80d80a4050b716cf88b34a2e6ecb731c",
                    twin="ad7cd87fbb605230882af6afa462a4a9baf91f2ac3d08d146c251ed16ccf38be",
                ),
            ),
            parse=partial(csv_table, names=COLUMNS, sep=" "),
            rows=690,
            sha256="a8d0f31616e66becbf706dba87d52d395f18bf10e277f85f0010a7bfbb9d390c",
            origin=Uci(143, "statlog+australian+credit+approval"),
        ),
    ),
)

"""Ionosphere (UCI 52): radar returns that show structure in the ionosphere (g) or none (b)."""

from functools import partial

from datasets.catalogue import Entry, File, Source
from datasets.origins import Uci
from datasets.parsers import csv_table

COLUMNS = (*(f"a{i}" for i in range(1, 35)), "class")


ENTRY = Entry(
    name="ionosphere",
    title="Ionosphere",
    task="binary",
    target="class",
    columns=34,
    classes=2,
    licence="CC BY 4.0 (UCI)",
    use="opportunity",
    sources=(
        Source(
            files=(
                File(
                    "ionosphere/ionosphere.data",
                    "46d52186b84e20be52918adb93e8fb9926b34795ff7504c24350ae0616a04bbd",
                    twin="b9cabd8b2ecc1cdbe84dff147d5f79cb059d1511f232d4855c9f226f2e71c057",
                ),
            ),
            parse=partial(csv_table, names=COLUMNS),
            rows=351,
            sha256="6619ac354fae4ffcdceed580a52a29fed5bd4352919c19323d3e8c4edf552a1c",
            origin=Uci(52, "ionosphere"),
        ),
    ),
)

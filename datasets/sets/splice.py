"""Splice (LIBSVM): a splice junction of DNA or none, from 60 nucleotides."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from datasets.catalogue import Entry, File, Source
from datasets.origins import Libsvm

if TYPE_CHECKING:
    import pandas

ROWS = 1000
NOTE = "the 1000 training rows; nucleotides are codes (1 A, 2 G, 3 C, 4 T) and taken as nominal"


def parse(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read the first 1000 rows (a copy that goes on has the test rows after them)."""
    from datasets.formats import as_categories, read_libsvm

    frame = read_libsvm(files[0], columns=60, limit=ROWS)
    inputs = frame.columns.drop("label")
    return as_categories(frame.astype(dict.fromkeys(inputs, "int64")), inputs)


ENTRY = Entry(
    name="splice",
    title="Splice",
    task="binary",
    target="label",
    columns=60,
    classes=2,
    licence="none stated (LIBSVM; from Delve and UCI)",
    use="figures",
    sources=(
        Source(
            files=(
                File(
                    "libsvm_splice/splice.txt",
                    "4ac8c916aa0feb37f1a904db9c32e82e42b7fc7821bf7f1281f2702c5f8653c1",
                ),
            ),
            parse=parse,
            rows=ROWS,
            sha256="1e6cfedbb3481389b8c5b1219e302935a0e2751a075672f2fc978e625bdd9289",
            note=NOTE,
        ),
        Source(
            files=(
                File(
                    "libsvm_splice/splice",
                    "5eee48697657a500cf014322130fafc46706beb8d8ae6837cdbee6672b213897",
                ),
            ),
            parse=parse,
            rows=ROWS,
            sha256="1e6cfedbb3481389b8c5b1219e302935a0e2751a075672f2fc978e625bdd9289",
            origin=Libsvm("binary/splice"),
            note=NOTE,
        ),
    ),
)

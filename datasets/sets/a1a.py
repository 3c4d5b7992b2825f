"""Adult a1a (LIBSVM): income above 50,000 USD or not, from 123 binary features."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from datasets.catalogue import Entry, File, Source
from datasets.origins import Libsvm

if TYPE_CHECKING:
    import pandas


def parse(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read the LIBSVM file; its highest index is below the number of features."""
    from datasets.formats import read_libsvm

    return read_libsvm(files[0], columns=123)


ENTRY = Entry(
    name="a1a",
    title="Adult a1a",
    task="binary",
    target="label",
    columns=123,
    classes=2,
    licence="none stated (LIBSVM; from UCI Adult)",
    use="figures",
    sources=(
        Source(
            files=(File("libsvm_a1a/a1a", "eb54c45f1bdb51286f803dd092eb8202b44637a858fc6c4e533a2d64a0d94b4e"),),
            parse=parse,
            rows=1605,
            sha256="7afe6b2b1fd6e4f45d03955a97ed6981317573a362d9a647bedbc088f34bb3cf",
            origin=Libsvm("binary/a1a"),
            note="the training file only",
        ),
    ),
)

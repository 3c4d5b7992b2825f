"""Adult a3a (LIBSVM): income above 50,000 USD or not, from 123 binary features."""

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
    name="a3a",
    title="Adult a3a",
    task="binary",
    target="label",
    columns=123,
    classes=2,
    licence="none stated (LIBSVM; from UCI Adult)",
    use="figures",
    sources=(
        Source(
            files=(File("libsvm_a3a/a3a.txt", "2d513572f103d25e84bebe4b9f2f52ee9445764b5a393caff7db9c482cfc1ee4"),),
            parse=parse,
            rows=3185,
            sha256="4f4f1180f071fa4217b523677f11b2cb9c775f2ed2582986d0c3f8019b0489bc",
            origin=Libsvm("binary/a3a"),
            note="the training file only; it holds every row of a1a",
        ),
    ),
)

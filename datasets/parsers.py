"""What several data sets are parsed by: one file of a common format, which holds the whole table.

Where a set has something to say of its file, such as its columns, it does so by `functools.partial`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas


def csv_table(files: Sequence[Path], names: Sequence[str] | None = None, sep: str = ",") -> "pandas.DataFrame":
    """Read one delimited file; `names` are the columns where it has no header, sep as for `formats.read_csv`."""
    from datasets.formats import read_csv

    return read_csv(files[0], names, sep)


def arff_table(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read one ARFF file."""
    from datasets.formats import read_arff

    return read_arff(files[0])


def libsvm_table(files: Sequence[Path], columns: int) -> "pandas.DataFrame":
    """Read one LIBSVM file, whose highest index may be below the number of features, `columns`."""
    from datasets.formats import read_libsvm

    return read_libsvm(files[0], columns=columns)

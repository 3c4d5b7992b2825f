"""What several data sets are parsed by: one file of a common format, which holds the whole table."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas


def csv_table(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read one comma separated file with a header."""
    from datasets.formats import read_csv

    return read_csv(files[0])


def arff_table(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read one ARFF file."""
    from datasets.formats import read_arff

    return read_arff(files[0])


def adult_table(files: Sequence[Path]) -> "pandas.DataFrame":
    """Read one LIBSVM file of Adult, whose highest index is below the number of features."""
    from datasets.formats import read_libsvm

    return read_libsvm(files[0], columns=123)

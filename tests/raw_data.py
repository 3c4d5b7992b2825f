"""Raw data sets of the study: the marks of tests that need them, and each read once."""

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from datasets import Dataset

ROOT = Path(__file__).resolve().parents[1]


def at_hand() -> bool:
    """Say whether every raw data set is there, at home or in the cache that `python -m datasets fetch` fills."""
    from datasets.catalogue import entries
    from datasets.download import find
    from datasets.errors import BadInput

    try:
        return all(find(entry) for entry in entries().values())
    except BadInput:
        return False


needs_data = pytest.mark.skipif(
    not at_hand(),
    reason="raw data sets are absent: set DATASETS_HOME to the folder that holds them, or `python -m datasets fetch`",
)
needs_home = pytest.mark.skipif(
    not Path(os.environ.get("DATASETS_HOME", "/nonexistent")).is_dir(),
    reason="DATASETS_HOME is not set to the folder of the raw data sets",
)


@cache
def loaded(name: str) -> "Dataset":
    """Return a data set of the study, read once for all tests of a process, which must not change it."""
    from datasets import load  # `datasets.load` may stand for this function in a test

    return load(name, download=False)

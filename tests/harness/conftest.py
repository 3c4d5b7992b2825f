"""Fixtures of the harness's tests: tables and records that many of them read, and none may change."""

from pathlib import Path

import pytest
from fakes import make_tables
from study_cases import do, grid


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make tables of two problems, a/p and b/p, with 24 configurations each."""
    return make_tables(tmp_path_factory.mktemp("tables"), ["a/p", "b/p"], 24)


@pytest.fixture(scope="session")
def whole(tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the whole of the small study and return its folder."""
    folder = tmp_path_factory.mktemp("whole")
    assert do(grid(tables), folder) == 8
    return folder

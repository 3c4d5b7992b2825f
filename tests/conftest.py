"""Shared test set-up: where the raw data lie, shape checks on, one BLAS thread; fixtures of more than one folder.

Helpers that tests import stand in modules of their own: `import conftest` would find that of any folder.
"""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import typecheck  # before all of the project, whose functions it decorates
from command_lines import CommandLines
from drawing import not_drawing
from forked import USED_BY_STUDIES, Forked
from hypothesis import settings

gc.set_threshold(50_000, 20, 50)  # a tenth of the time went into looking for garbage among the modules imported
# A busy machine is no failure, so no deadlines; CI repeats itself exactly, other runs explore new examples.
settings.register_profile("explore", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "explore")

_SHARED = Path(__file__).resolve().parents[2] / "shared" / "datasets"
if "DATASETS_HOME" not in os.environ and _SHARED.is_dir():
    os.environ["DATASETS_HOME"] = str(_SHARED)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin the tests; what has been imported for them is there to stay, and no garbage is looked for in it."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup() -> None:
    """Begin to count calls anew, whatever other tests have called."""
    typecheck.begin()


@pytest.fixture(scope="session")
def command_line() -> Iterator[CommandLines]:
    """Run command lines as users do, in one process."""
    made = CommandLines()
    yield made
    made.close()


@pytest.fixture(scope="session")
def studies() -> Iterator[Forked]:
    """Start processes that run studies: STUDY, with the arguments of `python -m harness`."""
    with Forked(f"import {', '.join(USED_BY_STUDIES)}") as made:
        yield made


@pytest.fixture
def undrawn() -> Iterator[None]:
    """Do not draw in this test."""
    with not_drawing():
        yield


@pytest.fixture
def laid_out() -> Iterator[None]:
    """Lay figures out in this test, and write no images."""
    with not_drawing(laid_out=True):
        yield

"""Shared test set-up: where the raw data lie, shape checks on, one BLAS thread."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typecheck  # before all of the project, whose functions it decorates
from command_lines import CommandLines
from forked import Forked
from hypothesis import settings

if TYPE_CHECKING:
    from datasets import Dataset

gc.set_threshold(50_000, 20, 50)  # a tenth of the time went into looking for garbage among the modules imported
# A busy machine is no failure, so no deadlines; CI repeats itself exactly, other runs explore new examples.
settings.register_profile("explore", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "explore")

STUDY = "from harness.__main__ import main; from harness.cli import run_cli; run_cli(main)"
USED_BY_STUDIES = (
    *("hydra", "harness.__main__", "harness.cli", "harness.study", "harness.execution", "harness.optimizer"),
    *("harness.surrogates.gp", "harness.live", "tabular_cache.replay"),
)
ROOT = Path(__file__).resolve().parents[1]
_SHARED = ROOT.parent / "shared" / "datasets"
if "DATASETS_HOME" not in os.environ and _SHARED.is_dir():
    os.environ["DATASETS_HOME"] = str(_SHARED)


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


@contextmanager
def not_drawing(laid_out: bool = False) -> Iterator[None]:
    """Make figures without drawing them: for tests of what stands beside them, of which that would take most time.

    laid_out: place all that is in them, which finds what cannot be drawn, but write no image.
    """
    from matplotlib.figure import Figure

    from analysis import plotting

    def rendered(figure: Figure) -> dict[str, bytes]:
        assert figure.axes
        if laid_out:
            figure.draw_without_rendering()
        return {"png": b"not drawn", "svg": b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 10"><g/></svg>'}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plotting, "rendered", rendered)
        yield


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

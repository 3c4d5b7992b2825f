"""Hostile inputs, as `make chaos` tries them: one line each, nothing written, nothing run."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "chaos"))
import hostile

CASES = hostile.cases()


def test_there_are_many() -> None:
    assert len(CASES) >= 60


@pytest.mark.parametrize(("name", "run"), CASES, ids=[name for name, _ in CASES])
def test_hostile_input_is_refused(name: str, run) -> None:  # type: ignore[no-untyped-def]
    assert hostile.attack(run) is None

"""Compiled functions: the same bytes from a process that compiles them and from one that loads them."""

import re
from pathlib import Path

from compile_once import call, compiled


def test_compiling_and_loading_give_the_same_bytes(tmp_path: Path) -> None:
    folder, said = compiled(tmp_path)
    assert re.fullmatch(r"([0-9a-f]{64}\n){2}", said), said
    assert list(folder.rglob("*.bin"))
    assert call(folder) == said

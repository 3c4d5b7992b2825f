from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets.errors import BadInput
from harness.records import (
    TIMINGS,
    TRACE,
    _ranges,
    block_files,
    block_folder,
    read_timings,
    read_traces,
    seeds_done,
    spec_hash,
    write_block,
)

SPEC = {
    "dataset": "abalone",
    "pipeline": "clean",
    "acq": "cei",
    "method": "cei(lam=0.1)",
    "evaluator": "replay",
    "utility": "ei",
    "surrogate": "gp",
    "cost_model": "lv3",
    "lam": 0.1,
    "alpha": None,
    "tau": None,
    "iterations": 3,
}


def columns(seeds: list[int], steps: int = 3) -> tuple[dict, dict]:
    n = len(seeds) * steps
    trace = {name: [0.5] * n for name in TRACE.names}
    trace |= {"seed": np.repeat(seeds, steps), "step": list(range(steps)) * len(seeds)}
    trace |= {"candidate": list(range(n)), "status": ["ok"] * n}
    timings = {name: [1.0] * n for name in TIMINGS.names} | {"seed": trace["seed"], "step": trace["step"]}
    return trace, timings


def write(results: Path, seeds: list[int]) -> Path:
    files = block_files(SPEC, seeds, *columns(seeds))
    write_block(results, files)
    return results / list(files)[-1]


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    write(tmp_path, [0, 1])
    frame = read_traces(tmp_path)
    assert len(frame) == 6
    first = frame.iloc[0]
    assert (first.dataset, first.pipeline, first.method, first.acq) == ("abalone", "clean", "cei(lam=0.1)", "cei")
    assert first.lam == 0.1
    assert np.isnan(first.alpha)
    assert np.isnan(first.tau)
    assert frame["seed"].tolist() == [0, 0, 0, 1, 1, 1]
    assert set(TRACE.names) <= set(frame.columns)


def test_the_same_block_is_the_same_bytes(tmp_path: Path) -> None:
    a = write(tmp_path / "a", [0, 1]).read_bytes()
    assert a == write(tmp_path / "b", [0, 1]).read_bytes()


def test_more_seeds_add_a_file_and_leave_the_first_alone(tmp_path: Path) -> None:
    first = write(tmp_path, [0, 1])
    before = (first.read_bytes(), first.stat().st_mtime_ns)
    write(tmp_path, [2, 5])
    assert (first.read_bytes(), first.stat().st_mtime_ns) == before
    assert seeds_done(tmp_path, SPEC) == {0, 1, 2, 5}
    assert sorted(p.name for p in block_folder(tmp_path, SPEC).iterdir()) == [
        "seeds-0-1.parquet",
        "seeds-0-1.timings.parquet",
        "seeds-2,5.parquet",
        "seeds-2,5.timings.parquet",
    ]


def test_overlapping_files_count_once(tmp_path: Path) -> None:
    write(tmp_path, [0, 1])
    write(tmp_path, [1, 2])
    assert read_traces(tmp_path).groupby("seed").size().to_dict() == {0: 3, 1: 3, 2: 3}


def test_unfinished_writes_do_not_count(tmp_path: Path) -> None:
    folder = write(tmp_path, [0]).parent
    (folder / ".seeds-1.parquet.abc.tmp").write_bytes(b"half")
    assert seeds_done(tmp_path, SPEC) == {0}
    assert len(read_traces(tmp_path)) == 3


@pytest.mark.parametrize("damage", ["truncate", "foreign"])
def test_damaged_records_are_named(tmp_path: Path, damage: str) -> None:
    path = write(tmp_path, [0])
    path.write_bytes(path.read_bytes()[:-40] if damage == "truncate" else b"not a record")
    for read in (lambda: seeds_done(tmp_path, SPEC), lambda: read_traces(tmp_path)):
        with pytest.raises(BadInput, match=rf"damaged record .*{path.name}"):
            read()


@pytest.mark.parametrize("damage", ["flip", "foreign", "missing"])
def test_damaged_milliseconds_say_what_to_move(tmp_path: Path, damage: str) -> None:
    """Moving away the file named is not enough: what is done is told by the trace."""
    trace = write(tmp_path, [0])
    path = trace.with_suffix(".timings.parquet")
    content = path.read_bytes()
    at = content.index(np.float32(1.0).tobytes())
    changed = {"flip": content[:at] + b"\xff" + content[at + 1 :], "foreign": b"not a record"}
    path.unlink() if damage == "missing" else path.write_bytes(changed[damage])
    with pytest.raises(BadInput, match=rf"damaged record .*{path.name} .*: move it and {trace.name} beside it away"):
        read_timings(tmp_path)
    assert len(read_traces(tmp_path)) == 3
    path.unlink(missing_ok=True)
    trace.unlink()
    assert seeds_done(tmp_path, SPEC) == set() and write(tmp_path, [0]) == trace
    assert len(read_timings(tmp_path)) == 3


def test_no_records_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no records in .*run `python -m harness` first"):
        read_traces(tmp_path)


def test_any_difference_in_the_spec_is_another_folder() -> None:
    assert spec_hash(SPEC) == spec_hash(dict(reversed(SPEC.items())))
    for change in ({"lam": 0.2}, {"iterations": 4}, {"cost_model": "gp"}):
        assert spec_hash(SPEC | change) != spec_hash(SPEC)


@given(st.sets(st.integers(0, 40), min_size=1))
def test_ranges_name_exactly_the_seeds(seeds: set[int]) -> None:
    named: set[int] = set()
    for part in _ranges(sorted(seeds)).split(","):
        first, _, last = part.partition("-")
        named |= set(range(int(first), int(last or first) + 1))
    assert named == seeds

"""Records: what is written is read back, equal runs are equal bytes, and no changed byte goes unnoticed."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from command_lines import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import BadInput
from harness.records import (
    TIMINGS,
    TRACE,
    block_files,
    block_folder,
    ranges,
    read_timings,
    read_traces,
    seeds_done,
    write_block,
)
from harness.sealed import check_seal, read_parquet, sealed_parquet, spec_hash

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
TABLE = pa.table({"x": [1, 2, 3], "s": ["a", "b", None]}).replace_schema_metadata({"block": '{"seeds": [0]}'})
SEALED = sealed_parquet(TABLE)


def write(results: Path, seeds: list[int], steps: int = 3) -> Path:
    n = len(seeds) * steps
    trace = {name: [0.5] * n for name in TRACE.names}
    trace |= {"seed": np.repeat(seeds, steps), "step": list(range(steps)) * len(seeds)}
    trace |= {"candidate": list(range(n)), "status": ["ok"] * n}
    timings = {name: [1.0] * n for name in TIMINGS.names} | {"seed": trace["seed"], "step": trace["step"]}
    files = block_files(SPEC, seeds, trace, timings)
    write_block(results, files)
    return results / list(files)[-1]


def test_what_is_written_is_read_back_and_the_same_block_is_the_same_bytes(tmp_path: Path) -> None:
    content = write(tmp_path / "a", [0, 1]).read_bytes()
    frame = read_traces(tmp_path / "a")
    first = frame.iloc[0]
    assert (first.dataset, first.pipeline, first.method, first.acq) == ("abalone", "clean", "cei(lam=0.1)", "cei")
    assert first.lam == 0.1 and np.isnan(first.alpha) and np.isnan(first.tau)
    assert frame["seed"].tolist() == [0, 0, 0, 1, 1, 1] and set(TRACE.names) <= set(frame.columns)
    assert content == write(tmp_path / "b", [0, 1]).read_bytes()


def test_more_seeds_add_a_file_and_overlaps_count_once(tmp_path: Path) -> None:
    first = write(tmp_path, [0, 1])
    before = (first.read_bytes(), first.stat().st_mtime_ns)
    write(tmp_path, [1, 2, 5])
    (first.parent / ".seeds-7.parquet.abc.tmp").write_bytes(b"half")
    assert (first.read_bytes(), first.stat().st_mtime_ns) == before
    assert seeds_done(tmp_path, SPEC) == {0, 1, 2, 5}
    names = {p.name for p in block_folder(tmp_path, SPEC).glob("seeds*")}
    assert names == {f"seeds-{seeds}{kind}.parquet" for seeds in ("0-1", "1-2,5") for kind in ("", ".timings")}
    assert read_traces(tmp_path).groupby("seed").size().to_dict() == {0: 3, 1: 3, 2: 3, 5: 3}


@pytest.mark.parametrize("damage", ["truncate", "foreign"])
def test_damaged_records_are_named(tmp_path: Path, damage: str) -> None:
    with pytest.raises(BadInput, match=r"no records in .*run `python -m harness` first"):
        read_traces(tmp_path)
    path = write(tmp_path, [0])
    path.write_bytes(path.read_bytes()[:-40] if damage == "truncate" else b"not a record")
    for read in (lambda: seeds_done(tmp_path, SPEC), lambda: read_traces(tmp_path)):
        with pytest.raises(BadInput, match=rf"damaged record .*{path.name}"):
            read()


@pytest.mark.parametrize("damage", ["flip", "missing"])
def test_damaged_milliseconds_say_what_to_move(tmp_path: Path, damage: str) -> None:
    """Moving away the file named is not enough: the trace says what is done."""
    trace = write(tmp_path, [0])
    path = trace.with_suffix(".timings.parquet")
    content = path.read_bytes()
    at = content.index(np.float32(1.0).tobytes())
    path.unlink() if damage == "missing" else path.write_bytes(content[:at] + b"\xff" + content[at + 1 :])
    with pytest.raises(BadInput, match=rf"damaged record .*{path.name} .*: move it and {trace.name} beside it away"):
        read_timings(tmp_path)
    assert len(read_traces(tmp_path)) == 3


def test_any_difference_in_the_spec_is_another_folder() -> None:
    assert spec_hash(SPEC) == spec_hash(dict(reversed(SPEC.items())))
    for change in ({"lam": 0.2}, {"iterations": 4}, {"cost_model": "gp"}):
        assert spec_hash(SPEC | change) != spec_hash(SPEC)


@given(st.sets(st.integers(0, 40), min_size=1))
def test_ranges_name_exactly_the_seeds(seeds: set[int]) -> None:
    named: set[int] = set()
    for part in ranges(sorted(seeds)).split(","):
        first, _, last = part.partition("-")
        named |= set(range(int(first), int(last or first) + 1))
    assert named == seeds


def test_equal_tables_are_equal_bytes_and_are_read_without_pyarrow_s_data_sets(tmp_path: Path) -> None:
    check_seal(SEALED)
    assert sealed_parquet(TABLE) == SEALED
    path = tmp_path / "method=ei" / "t.parquet"  # a folder that a data set would take for a column
    path.parent.mkdir()
    path.write_bytes(SEALED)
    assert read_parquet(SEALED).equals(TABLE) and read_parquet(path).equals(TABLE)
    code = "import sys, pathlib; from harness.records import read_parquet; read_parquet(pathlib.Path(sys.argv[1])); "
    code += "print('pyarrow.dataset' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, path], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.stdout == "False\n", done.stderr
    with pytest.raises(ValueError, match="may not hold the text"):
        sealed_parquet(pa.table({"x": [1]}).replace_schema_metadata({"a": "unsealed" * 8}))


def found(content: bytes) -> bool:
    try:
        check_seal(content)
    except (ValueError, OSError, pa.ArrowException):
        return True
    return False


@settings(max_examples=200)
@given(st.integers(0, 8 * len(SEALED) - 1), st.binary(min_size=1, max_size=40))
def test_every_change_is_found(bit: int, more: bytes) -> None:
    content, length = bytearray(SEALED), bit // 8
    content[length] ^= 1 << bit % 8
    for changed in (bytes(content), SEALED[:length], SEALED + more, SEALED[:length] + more + SEALED[length:]):
        assert found(changed)

"""No changed byte goes unnoticed."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.records import check_seal, has_seal, read_parquet, sealed_parquet

ROOT = Path(__file__).resolve().parents[2]
TABLE = pa.table({"x": [1, 2, 3], "s": ["a", "b", None]}).replace_schema_metadata({"block": '{"seeds": [0]}'})
SEALED = sealed_parquet(TABLE)


def test_equal_tables_are_equal_bytes_and_read_back() -> None:
    import pyarrow.parquet as pq

    check_seal(SEALED)
    assert has_seal(SEALED)
    assert sealed_parquet(TABLE) == SEALED
    assert pq.read_table(pa.BufferReader(SEALED)).equals(TABLE)
    assert pq.read_schema(pa.BufferReader(SEALED)).metadata[b"block"] == b'{"seeds": [0]}'


def test_bytes_and_files_are_read_alike_and_without_pyarrow_s_data_sets(tmp_path: Path) -> None:
    path = tmp_path / "method=ei" / "t.parquet"  # a folder that a data set would take for a column
    path.parent.mkdir()
    path.write_bytes(SEALED)
    assert read_parquet(SEALED).equals(TABLE) and read_parquet(path).equals(TABLE)
    assert (read_parquet(path).schema.metadata or {})[b"block"] == b'{"seeds": [0]}'
    code = "import sys, pathlib; from harness.records import read_parquet; read_parquet(pathlib.Path(sys.argv[1])); "
    code += "print('pyarrow.dataset' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, path], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.stdout == "False\n", done.stderr


def found(content: bytes) -> bool:
    try:
        check_seal(content)
    except (ValueError, OSError, pa.ArrowException):
        return True
    return False


@settings(max_examples=300)
@given(st.integers(0, 8 * len(SEALED) - 1))
def test_every_flipped_bit_is_found(bit: int) -> None:
    content = bytearray(SEALED)
    content[bit // 8] ^= 1 << bit % 8
    assert found(bytes(content))


@settings(max_examples=100)
@given(st.integers(0, len(SEALED) - 1), st.binary(min_size=1, max_size=40))
def test_truncated_or_lengthened_files_are_found(length: int, more: bytes) -> None:
    assert found(SEALED[:length])
    assert found(SEALED + more)
    assert found(SEALED[:length] + more + SEALED[length:])


def test_a_text_that_looks_like_no_seal_yet_is_refused() -> None:
    with pytest.raises(ValueError, match="may not hold the text"):
        sealed_parquet(pa.table({"x": [1]}).replace_schema_metadata({"a": "unsealed" * 8}))

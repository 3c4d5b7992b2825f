"""No changed byte goes unnoticed."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.sealing import check_seal, has_seal, sealed_parquet

TABLE = pa.table({"x": [1, 2, 3], "s": ["a", "b", None]}).replace_schema_metadata({"block": '{"seeds": [0]}'})
SEALED = sealed_parquet(TABLE)


def test_equal_tables_are_equal_bytes_and_read_back() -> None:
    import pyarrow.parquet as pq

    check_seal(SEALED)
    assert has_seal(SEALED)
    assert sealed_parquet(TABLE) == SEALED
    assert pq.read_table(pa.BufferReader(SEALED)).equals(TABLE)
    assert pq.read_schema(pa.BufferReader(SEALED)).metadata[b"block"] == b'{"seeds": [0]}'


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

"""Files of the cache that can tell whether they are whole: the SHA-256 of the content, then the content."""

import hashlib
from pathlib import Path

from harness.files import write_atomically

_DIGEST = hashlib.sha256().digest_size


def write_sealed(path: Path, content: bytes) -> None:
    """Write `content` under its seal, atomically: of several writers the last one stays, whole."""
    write_atomically(path, hashlib.sha256(content).digest() + content)


def read_sealed(path: Path) -> bytes | None:
    """Return the content of a sealed file; None where there is none, or a damaged one."""
    try:
        whole = path.read_bytes()
    except OSError:
        return None
    content = whole[_DIGEST:]
    return content if hashlib.sha256(content).digest() == whole[:_DIGEST] else None

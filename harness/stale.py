"""Compiled code that outlived what it was made of.

numba keeps compiled functions, and compiles anew what lies in a file that changed, but not what has functions or
constants of another file inside it. So a digest of the files that others take from lies beside what is compiled; where
it is another one, that is dropped, and compiled again when it is called. (What a process that began before a change
compiles after it is of the old files: end what runs before changing them.)
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

HERE = Path(__file__).absolute().parent  # as numba names it
SHARED = (
    "acquisitions/compiled_ei.py",
    "acquisitions/ei.py",
    "acquisitions/tails.py",
    "surrogates/kernels.py",
    "surrogates/likelihood.py",
    "surrogates/matern.py",
    "surrogates/splits.py",
    "surrogates/triangles.py",
)  # a test holds it to what compiled functions take from other files, directly or through a constant
MARK = "shared.sha256"


def drop_stale(root: Path = HERE) -> int:
    """Remove what was compiled with other files than SHARED as they are; return how many functions those were.

    Folders that cannot be written to are left as they are.
    """
    digest, dropped = hashlib.sha256(), 0
    for name in SHARED:
        digest.update((root / name).read_bytes())
    for folder in _folders(root):
        with suppress(OSError):
            mark, compiled = folder / MARK, list(folder.glob("*.nbi"))
            if not compiled or (mark.is_file() and mark.read_text() == digest.hexdigest()):
                continue
            for path in compiled:
                path.unlink(missing_ok=True)
                dropped += 1
            mark.write_text(digest.hexdigest())
    return dropped


def _folders(root: Path) -> Iterator[Path]:
    """Yield where numba may keep what is compiled: NUMBA_CACHE_DIR, else in the tree, else in the user's own folder."""
    own, home = os.environ.get("NUMBA_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    for folder in (root, root / "acquisitions", root / "cost_models", root / "surrogates"):
        named = f"{folder.name}_{hashlib.sha1(str(folder).encode()).hexdigest()}"
        yield from [Path(own) / named] if own else [folder / "__pycache__", Path(home) / "numba" / named]

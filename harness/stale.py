"""Compiled code that outlived what it was made of.

numba keeps compiled functions beside their source and compiles anew what lies in a file that changed, but not what has
functions of another file inside it. So when one of the files that others take functions from is newer than something
compiled, that is dropped, and compiled again when it is called.
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).absolute().parent  # as numba names it
SHARED = (
    "acquisitions/compiled_ei.py",
    "acquisitions/tails.py",
    "surrogates/kernels.py",
    "surrogates/matern.py",
    "surrogates/splits.py",
    "surrogates/triangles.py",
)  # a test holds it to what the sources import


def drop_stale(root: Path = HERE) -> int:
    """Remove what was compiled before the newest of SHARED; return how many functions those were.

    Where that cannot be done (a folder of another user's), nothing is said: numba could not have written there either.
    """
    dropped = 0
    try:
        newest = max((root / name).stat().st_mtime for name in SHARED)
        for path in _compiled(root):
            if path.stat().st_mtime < newest:
                path.unlink(missing_ok=True)
                dropped += 1
    except OSError:
        pass
    return dropped


def _compiled(root: Path) -> Iterator[Path]:
    """Yield numba's index files: in the tree, or in NUMBA_CACHE_DIR under the name that numba gives a source folder."""
    own = os.environ.get("NUMBA_CACHE_DIR")
    for folder in (root, root / "acquisitions", root / "cost_models", root / "surrogates"):
        named = f"{folder.name}_{hashlib.sha1(str(folder).encode()).hexdigest()}"
        yield from (Path(own) / named if own else folder / "__pycache__").glob("*.nbi")

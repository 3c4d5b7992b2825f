"""Where in a user's own code an error arose: what one line says in place of a traceback."""

import sysconfig
import traceback
from collections.abc import Collection
from pathlib import Path

_PROJECT = Path(__file__).resolve().parents[1]
_LIBRARIES = tuple(Path(sysconfig.get_path(k)).resolve() for k in ("stdlib", "platstdlib", "purelib", "platlib"))


def place(error: BaseException, besides: Collection[Path] = ()) -> str:
    """Return file:line of the innermost frame of the user's own, else of the project, "" if there is none.

    Libraries do not count, nor do the files `besides`.
    """
    frames = [(Path(f.filename).resolve(), f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    frames = [frame for frame in frames if not any(frame[0].is_relative_to(folder) for folder in _LIBRARIES)]
    frames = [frame for frame in frames if frame[0].is_file() and frame[0] not in besides]
    own = [frame for frame in frames if not frame[0].is_relative_to(_PROJECT)] or frames
    if not own:
        return ""
    path, line = own[-1]
    short = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return f"{short}:{line}"

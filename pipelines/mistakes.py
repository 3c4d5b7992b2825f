"""What goes wrong in a recipe, the study's or of one's own, as one line: the error, its file and its line."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from datasets.errors import BadInput
from datasets.whereabouts import place

_CALLERS = [Path(__file__).resolve().with_name(f"{name}.py") for name in ("__init__", "mistakes", "prepared", "store")]


@contextmanager
def told(where: str) -> Iterator[None]:
    """Turn an error of a recipe into BadInput that begins with `where`; want of memory is none of its errors."""
    try:
        yield
    except MemoryError:
        raise
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from None
    except (ImportError, SyntaxError) as error:  # these say themselves where
        raise BadInput(f"{where}: {_one_line(error)}") from error
    except Exception as error:
        at = place(error, besides=_CALLERS)
        line = f"{type(error).__name__}: {_one_line(error)}".removesuffix(": ")
        raise BadInput(f"{where}: {line}{f' at {at}' if at else ''}") from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())

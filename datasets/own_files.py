"""Reading a delimited text file of unknown origin: its separator, its header, and what cannot be read."""

import csv
import io
import string
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pandas

from datasets.errors import BadInput

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
DECIMALS = {".": "point", ",": "comma"}
PACKED = (".gz", ".bz2", ".xz", ".zip", ".zst", ".7z", ".parquet", ".feather", ".xlsx", ".xls", ".ods")
MISSING = ("?",)  # beside what pandas takes for missing: empty, NA, N/A, NaN, null, None, ...
_LINES = 50  # looked at to find the separator
_BROKEN = (pandas.errors.ParserError, pandas.errors.EmptyDataError, pandas.errors.ParserWarning)


def read(path: Path, sep: str, decimal: str, encoding: str, texts: Sequence[str] = ()) -> pandas.DataFrame:
    """Return the file as a frame with the column names of its first line, blanks around them stripped.

    texts: columns that are read as text, whatever they look like; those that the file has not do not matter. Raises
    BadInput for a file that is absent, empty, in another encoding, or no table of two columns or more with different
    names.
    """
    decimal = decimal_mark(decimal)
    if path.suffix.lower() in PACKED:
        raise BadInput(f"dataset.path: {path} is no plain text ({path.suffix}): convert or unpack it to CSV first")
    text = _text(path, encoding)
    csv.field_size_limit(sys.maxsize)  # a wide line is one field to a wrong separator
    mark = _named(sep) or find_separator(text, path)
    text = _from_header(text, mark)
    names = _header(text, mark, path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            frame = pandas.read_csv(io.StringIO(text), sep=mark, decimal=decimal, header=0, names=names,
                                    index_col=False, skipinitialspace=True, na_values=list(MISSING),
                                    dtype={name: str for name in texts if name in names}, low_memory=False)  # fmt: skip
    except _BROKEN as error:
        reason = " ".join(str(error).split()).removeprefix("Error tokenizing data. C error: ")
        raise BadInput(f"{path} is no table separated by {SEPARATORS.get(mark, mark)}: {reason}") from None
    return frame


def decimal_mark(decimal: str) -> str:
    """Return the mark of decimals that a setting names; raises BadInput for anything but point or comma."""
    mark = {name: mark for mark, name in DECIMALS.items()}.get(decimal, decimal)
    if mark not in DECIMALS:
        raise BadInput(f"dataset.decimal must be point or comma, got {decimal!r}")
    return mark


def find_separator(text: str, path: Path) -> str:
    """Return the separator that parts most of the first lines into equally many fields, and into the most.

    Raises BadInput where none parts them into two or more.
    """
    head = [line for line in text.splitlines()[: _LINES + 1] if line.strip()][:_LINES]
    found = _most_even(head)
    if not found:
        _check_header(head, path)
        known = ", ".join(SEPARATORS.values())
        raise BadInput(f"{path} has one column only, parted by none of {known}: set dataset.sep= to another")
    return found


def _most_even(head: Sequence[str]) -> str:
    """Return the separator that parts the first of these lines, and most of them evenly; "" where none does."""
    best = (0.0, 1, "")
    for mark in SEPARATORS:
        widths = [len(fields) for fields in csv.reader(head, delimiter=mark, skipinitialspace=True)]
        width, lines = Counter(widths).most_common(1)[0] if widths else (1, 0)
        if width > 1 and widths[0] > 1:
            best = max(best, (lines / len(widths), width, mark))
    return best[2]


def _check_header(head: Sequence[str], path: Path) -> None:
    """Raise BadInput where these lines are a table but for the first one, which no separator parts."""
    mark = _most_even(head[1:])
    if mark and not _most_even(head[:1]):
        raise BadInput(f"{path}: the first line is no header of the lines below, which {SEPARATORS[mark]} parts: "
                       f"remove it ({head[0].strip()[:40]!r})")  # fmt: skip


def _text(path: Path, encoding: str) -> str:
    try:
        text = path.read_bytes().decode("utf-8-sig" if encoding.lower() in ("utf-8", "utf8") else encoding)
    except UnicodeDecodeError as error:
        raise BadInput(
            f"{path} is not {encoding} (byte 0x{error.object[error.start]:02x} at place {error.start}): set "
            "dataset.encoding=..., for example latin-1, cp1252 or utf-16"
        ) from None
    except LookupError:
        raise BadInput(f"dataset.encoding={encoding} is no encoding: for example utf-8, latin-1, utf-16") from None
    except OSError as error:
        raise BadInput(f"dataset.path: cannot read {path}: {error.strerror}") from None
    if not text.strip("".join(SEPARATORS) + string.whitespace + '"'):
        raise BadInput(f"{path} is empty")
    if "\0" in text:
        raise BadInput(f"{path} is not plain text (it holds zero bytes)")
    return text


def _named(sep: str) -> str:
    """Return the separator that a setting names, "" for auto."""
    if sep == "auto":
        return ""
    marks = {name: mark for mark, name in SEPARATORS.items()} | {"\\t": "\t"}
    mark = marks.get(sep, sep)
    if len(mark) != 1:
        words = ", ".join(SEPARATORS.values())
        raise BadInput(f"dataset.sep must be auto, one of {words}, or one character, got {sep!r}")
    return mark


def _from_header(text: str, mark: str) -> str:
    """Return the text without leading rows of empty fields."""
    lines = text.splitlines(keepends=True)
    first = next((place for place, line in enumerate(lines) if line.replace(mark, "").replace('"', "").strip()), 0)
    return "".join(lines[first:])


def _header(text: str, mark: str, path: Path) -> list[str]:
    """Return the column names; nameless columns are called column_1, ... by their place."""
    row = next(csv.reader(text.splitlines(), delimiter=mark, skipinitialspace=True))
    names = [name.strip() or f"column_{place}" for place, name in enumerate(row, start=1)]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise BadInput(f"{path}: the column name {twice[0]!r} occurs {names.count(twice[0])} times; names must differ")
    if len(names) < 2:
        _check_header(text.splitlines()[:_LINES], path)
        raise BadInput(f"{path} has one column only with this separator: set dataset.sep=auto or another")
    return names

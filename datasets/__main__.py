"""``python -m datasets list|fetch|check [names...]``: catalogue, downloads, and a check of what is there."""

import sys
from collections.abc import Callable, Sequence

from datasets import load
from datasets.catalogue import Entry, entries, entry_of
from datasets.download import fetch, find
from datasets.errors import BadInput, OneLineParser, reader_may_leave
from datasets.signals import exit_with

_HELP = {
    "list": "show the catalogue and where each data set was found",
    "fetch": "download into the cache what is neither there nor in DATASETS_HOME",
    "check": "load each and verify checksums, shape and values",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return 0, or 2 if a name is unknown or any data set fails."""
    parser = OneLineParser(prog="python -m datasets", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for command, text in _HELP.items():
        commands.add_parser(command, help=text).add_argument("names", nargs="*", help="default: all")
    try:
        given = parser.parse_args(arguments)
        with reader_may_leave():
            chosen = [entry_of(name) for name in given.names] or list(entries().values())
            if given.command == "list":
                return _list(chosen)
            return _each(chosen, _fetched if given.command == "fetch" else _checked)
    except BadInput as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _list(chosen: Sequence[Entry]) -> int:
    rows = [("name", "task", "rows", "columns", "classes", "mark", "origin", "where")]
    for entry in chosen:
        found = find(entry)
        source = found.source if found else entry.sources[0]
        origin = next((str(s.origin) for s in entry.sources if s.origin), "-")
        size = (str(source.rows), str(entry.columns), str(entry.classes or "-"))
        where = f"{found.place}: {found.paths[0].parent}" if found else "absent"
        rows.append((entry.name, entry.task, *size, source.mark or "-", origin, where))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _fetched(entry: Entry) -> tuple[str, str]:
    found = find(entry)
    if found is None or found.place == "cache":  # damaged files in the cache are replaced
        found = fetch(entry)
    return ", ".join(map(str, found.paths)), found.source.note


def _checked(entry: Entry) -> tuple[str, str]:
    data = load(entry.name, download=False)
    classes = f", {len(data.classes)} classes" if data.classes else ""
    return f"{len(data.X)} x {data.X.shape[1]}{classes}, sha256 {data.sha256[:12]}", data.mark


def _each(chosen: Sequence[Entry], action: Callable[[Entry], tuple[str, str]]) -> int:
    """Print what `action` says of each, and its remark; return 2 if any failed."""
    failed = False
    for entry in chosen:
        try:
            said, remark = action(entry)
            print(f"{entry.name}: OK, {said}{f' ({remark})' if remark else ''}", flush=True)
        except BadInput as error:
            failed = True
            print(f"{entry.name}: FAILED, {str(error).removeprefix(f'data set {entry.name}: ')}", flush=True)
    return 2 if failed else 0


if __name__ == "__main__":
    exit_with(main)

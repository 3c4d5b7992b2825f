"""``python -m datasets list|fetch|check [names...]``: catalogue, downloads, and a check of what is there."""

import argparse
import signal
import sys
from collections.abc import Callable, Sequence

from datasets.catalogue import Entry, entries, entry_of
from datasets.errors import BadInput, reader_may_leave

_HELP = {
    "list": "show the catalogue and where each data set was found",
    "fetch": "download into the cache what is neither there nor in DATASETS_HOME",
    "check": "load each and verify checksums, shape and values",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return 0, or 2 if a name is unknown or any data set fails."""
    parser = argparse.ArgumentParser(prog="python -m datasets", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for command, text in _HELP.items():
        commands.add_parser(command, help=text).add_argument("names", nargs="*", help="default: all")
    given = parser.parse_args(arguments)
    try:
        with reader_may_leave():
            chosen = [entry_of(name) for name in given.names] or list(entries().values())
            return {"list": _list, "fetch": _fetch, "check": _check}[given.command](chosen)
    except BadInput as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _list(chosen: Sequence[Entry]) -> int:
    from datasets.download import find

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


def _fetch(chosen: Sequence[Entry]) -> int:
    from datasets.download import fetch, find

    def one(entry: Entry) -> str:
        found = find(entry)
        if found is None or found.place == "cache":  # damaged files in the cache are replaced
            found = fetch(entry)
        return ", ".join(str(path) for path in found.paths) + _remark(found.source.note)

    return _each(chosen, one)


def _check(chosen: Sequence[Entry]) -> int:
    from datasets.loading import load

    def one(entry: Entry) -> str:
        data = load(entry.name, download=False)
        size = f"{len(data.X)} x {data.X.shape[1]}"
        classes = f", {len(data.classes)} classes" if data.classes else ""
        return f"{size}{classes}, sha256 {data.sha256[:12]}" + _remark(data.mark)

    return _each(chosen, one)


def _remark(text: str) -> str:
    return f" ({text})" if text else ""


def _each(chosen: Sequence[Entry], one: Callable[[Entry], str]) -> int:
    """Do `one` for each, print a line for each; 2 if any failed."""
    failed = 0
    for entry in chosen:
        try:
            print(f"{entry.name}: OK, {one(entry)}", flush=True)
        except BadInput as error:
            failed += 1
            print(f"{entry.name}: FAILED, {str(error).removeprefix(f'data set {entry.name}: ')}", flush=True)
    return 2 if failed else 0


def _stop(number: int, _frame: object) -> None:
    """Leave by an exception, so that a download's temporary files are removed."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    raise SystemExit(main())

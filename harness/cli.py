"""What the command lines share: exit codes, one line for mistakes, a quick end by Ctrl-C or SIGTERM."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from datasets.errors import reader_may_leave
from datasets.signals import exit_with
from harness.config import CONFIGS, bad_input
from harness.errors import BadInput

BAD_INPUT, SOME_FAILED = 2, 3  # exit codes


def wants_help(arguments: Sequence[str]) -> bool:
    """Say whether a command line asks for help."""
    return any(argument in ("-h", "--help", "help") for argument in arguments)


def helped(text: str, config: str, arguments: Sequence[str]) -> bool:
    """Print `text` and the settings of `config` where a command line asks for help; says whether it did."""
    if wants := wants_help(arguments):
        print(f"{text.strip()}\n\n{(CONFIGS / f'{config}.yaml').read_text(encoding='utf-8')}", end="")
    return wants


def refuse(error: BadInput) -> NoReturn:
    """Print the one line and exit with code 2."""
    print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
    sys.exit(BAD_INPUT)


def run_cli(main: Callable[[], int | None]) -> NoReturn:
    """Run a command line's `main` and exit: BadInput prints one line and exits with code 2.

    Where whoever reads standard output has had enough (`| head`), it ends without a word, with code 1; by Ctrl-C or
    SIGTERM with one line.
    """
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # errors come to us, not to Hydra's own printer

    def read_to_the_end() -> int | None:
        with reader_may_leave():
            return main()

    try:
        exit_with(read_to_the_end)
    except Exception as error:
        mistake = bad_input(error)
        if mistake is None:
            raise
        refuse(mistake)


def tell_records(failed: Sequence[str], asked: int, folder: Path) -> int:
    """Print what of `asked` records is in `folder`, and on standard error what failed; returns the exit code."""
    for failure in failed:
        print(f"failed: {failure}", file=sys.stderr)
    print(f"{asked - len(failed)} of {asked} records in {folder}/")
    return SOME_FAILED if failed else 0

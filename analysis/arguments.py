"""The command line of `python -m analysis`: one command, and key=value."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis import REFERENCE
from datasets.errors import BadInput
from harness.errors import writable

_OF_RECORDS = ("all", "figures", "summary", "report", "claims", "budgets", "fronts", "best", "utilities")
_OF_COMPARISONS = ("density", "engines", "sensitivities", "costs", "censored", "tables")
COMMANDS = (*_OF_RECORDS, *_OF_COMPARISONS)
OPTIONS = {"bootstrap": ("hierarchical", "plain"), "judge": ("validation", "test"), "mixed": ("false", "true")}
TAKES = {  # commands that not every key means something to
    "budgets": ("results_dir", "out_dir", "mixed", *REFERENCE),
    "best": ("results_dir",),
    "tables": ("out_dir",),
    **dict.fromkeys(
        ("fronts", "density", "engines", "sensitivities", "censored"), ("results_dir", "out_dir", "bootstrap")
    ),
}
KEYS = ("results_dir", "out_dir", *OPTIONS, *REFERENCE)
USAGE = f"python -m analysis [{'|'.join(COMMANDS)}] results_dir=results out_dir=report [evaluator=replay ...]"


@dataclass(frozen=True)
class Arguments:
    """What to make, from which records, of which components (`components.choose`), and where to put it.

    options: how intervals are made (bootstrap), by which error methods are judged (judge), whether records of
    different tables or engines may stand together (mixed).
    """

    command: str
    results_dir: Path
    out_dir: Path
    components: dict[str, str]
    options: dict[str, Any]

    @property
    def mixed(self) -> bool:
        """Whether records of different tables or engines are meant to stand together."""
        return bool(self.options["mixed"] == "true")


def options_told() -> str:
    """Return the lines of the help on options: what each may be, the default first."""
    lines = [f"  {key}={'|'.join(allowed)}" for key, allowed in OPTIONS.items()]
    return "\n".join(["options:", *lines, f"  {', '.join(f'{key}=' for key in REFERENCE)}: whose runs to take"])


def parse(argv: Sequence[str]) -> Arguments:
    """Return the arguments; raises BadInput, with what is allowed, for one unknown, without effect, empty or twice."""
    given: dict[str, str] = {}
    for argument in argv:
        key, equals, value = argument.partition("=")
        if not equals:
            key, value = "command", argument
            if value not in COMMANDS:
                raise BadInput(f"unknown command {value!r}; allowed: {', '.join(COMMANDS)} ({USAGE})")
        elif key not in KEYS:
            raise BadInput(f"unknown key {key!r}; allowed: {', '.join(KEYS)} ({USAGE})")
        if not value:
            raise BadInput(f"{key} is empty ({USAGE})")
        if key in given:
            raise BadInput(f"{key} is given twice ({USAGE})")
        given[key] = value
    command = given.pop("command", COMMANDS[0])
    meant = TAKES.get(command, KEYS)
    idle = next((key for key in given if key not in meant), None)
    if idle:
        raise BadInput(f"{idle}= means nothing to {command!r}, which takes {', '.join(meant)}")
    options = {key: given.pop(key, allowed[0]) for key, allowed in OPTIONS.items()}
    for key, value in options.items():
        if value not in OPTIONS[key]:
            raise BadInput(f"{key} must be one of {', '.join(OPTIONS[key])}, got {value!r}")
    arguments = Arguments(
        command,
        Path(given.pop("results_dir", "results")),
        Path(given.pop("out_dir", "report")),
        given,
        options,
    )
    _check_folders(arguments)
    return arguments


def _check_folders(arguments: Arguments) -> None:
    if arguments.command != "tables" and not arguments.results_dir.is_dir():
        raise BadInput(f"results_dir={arguments.results_dir} is no folder: run `python -m harness` first")
    if "out_dir" in TAKES.get(arguments.command, KEYS):
        writable("out_dir", arguments.out_dir)

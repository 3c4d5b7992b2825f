"""`python -m analysis [report|figures|summary|all] results_dir=results out_dir=report`: records to figures and numbers.

`report` makes one page of everything, report.html, and the same as report.md; `all` the figures and a plain summary.
`density` compares replay settings with live training, `engines` surrogates and fits with the default: there results_dir
holds one folder of records per setting. `costs` draws F2 and F8 from the records of `python -m tabular_cache costs`,
and F9 from runs under several cost models. `claims` holds the paper's claims against the records, `budgets` writes
the minimal budget of every problem, `fronts` draws F1 and F7 from the fronts that `python -m harness fronts=true`
keeps, and `sensitivities` asks whether a claim's verdict depends on a setting (one folder of records per setting).
`best` tells the best configuration found on each data set; `tables` draws the measured tables; `utilities` ranks
utilities and cost rules together (study=utilities), with the time that the optimizer itself takes. `censored` draws C1
to C3 and writes their tables from the records of `python -m tabular_cache censored` and of
`python -m harness.configurator`.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.components import REFERENCE
from harness.cli import SOME_FAILED, run_cli
from harness.errors import BadInput

OTHERS = (
    "report",
    "claims",
    "budgets",
    "fronts",
    "sensitivities",
    "best",
    "tables",
    "utilities",
)  # each a function of `analysis.commands`
COMMANDS = ("figures", "summary", "all", "density", "engines", "costs", "censored", *OTHERS)
OPTIONS = {"bootstrap": ("hierarchical", "plain"), "judge": ("validation", "test"), "mixed": ("false", "true")}
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


def parse(argv: Sequence[str]) -> Arguments:
    """Return the arguments; raises BadInput, with what is allowed, for one unknown, empty or given twice."""
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
    options = {key: given.pop(key, allowed[0]) for key, allowed in OPTIONS.items()}
    for key, value in options.items():
        if value not in OPTIONS[key]:
            raise BadInput(f"{key} must be one of {', '.join(OPTIONS[key])}, got {value!r}")
    arguments = Arguments(
        given.pop("command", "all"),
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
    for folder in (arguments.out_dir, *arguments.out_dir.parents):
        if folder.exists():
            if not folder.is_dir():
                raise BadInput(f"out_dir={arguments.out_dir} cannot be made: {folder} is a file")
            break


def main(argv: Sequence[str] | None = None) -> int:
    """Make what the arguments ask for; exit code 3 when a figure could not be drawn from these records."""
    arguments = parse(sys.argv[1:] if argv is None else argv)
    from analysis.bootstrap import resampling

    with resampling(arguments.options["bootstrap"]):
        return _run(arguments)


def _run(arguments: Arguments) -> int:
    if arguments.command in OTHERS:
        from analysis import commands

        return int(getattr(commands, arguments.command)(arguments))
    if arguments.command == "density":
        from analysis import density_figure

        for path in density_figure.draw(arguments.results_dir, arguments.out_dir).paths:
            print(path)
        return 0
    if arguments.command == "engines":
        from analysis import engines

        print(engines.report(arguments.results_dir, arguments.out_dir))
        return 0
    if arguments.command == "costs":
        return _costs(arguments)
    if arguments.command == "censored":
        return _censored(arguments)
    from analysis import problems, summary  # after the arguments: pandas and matplotlib take a second to import
    from analysis.figures import figures
    from analysis.plotting import Drawn
    from analysis.provenance import provenance
    from analysis.traces import collect
    from harness.records import read_traces

    judge, mixed = arguments.options["judge"], arguments.options["mixed"] == "true"
    traces = collect(read_traces(arguments.results_dir), arguments.components, judge, mixed)
    drawn: dict[str, Drawn | str] = {}
    for name, draw in figures().items() if arguments.command != "summary" else ():
        try:
            drawn[name] = draw(traces, arguments.out_dir)
        except BadInput as error:
            drawn[name] = str(error)
            print(f"error: {name} was not drawn: {error}", file=sys.stderr)
    if arguments.command != "figures":
        settings = provenance(arguments.results_dir)
        tables = problems.of_records(settings, traces, arguments.out_dir)
        summary.write(traces, settings, drawn, arguments.out_dir, tables)
        print(arguments.out_dir / "summary.md")
    for figure in drawn.values():
        for path in figure.paths if isinstance(figure, Drawn) else ():
            print(path)
    return SOME_FAILED if any(isinstance(figure, str) for figure in drawn.values()) else 0


def _costs(arguments: Arguments) -> int:
    from analysis import costs_figures, costs_report
    from analysis.costs import read_costs
    from analysis.costs_fronts import f9
    from analysis.mixing import check_same_origin
    from harness.records import read_traces

    costs, failed = read_costs(arguments.results_dir), False

    def fronts() -> Any:
        frame = read_traces(arguments.results_dir)
        if arguments.options["mixed"] != "true":
            check_same_origin(frame)
        return f9(frame, arguments.out_dir)

    drawings = {
        "F2": lambda: costs_figures.f2(costs, arguments.out_dir),
        "F8": lambda: costs_figures.f8(costs, arguments.out_dir),
        "F9": fronts,
    }
    for name, draw in drawings.items():
        try:
            for path in draw().paths:
                print(path)
        except BadInput as error:
            print(f"error: {name} was not drawn: {error}", file=sys.stderr)
            failed = True
    print(costs_report.write(costs, arguments.out_dir))
    return SOME_FAILED if failed else 0


def _censored(arguments: Arguments) -> int:
    from analysis import censored, censored_example, censored_figures, censored_report, configurator
    from analysis.plotting import Drawn
    from harness.capping import SLACKS

    out, parts, failed = arguments.out_dir, list[str](), False
    drawn: list[Drawn] = [censored_example.draw(out)]
    try:
        found = censored.read_censored(arguments.results_dir)
        slack, models = censored.by_slack(found), censored.by_model(found)
        if not slack.empty:
            drawn.append(censored_figures.c2(found, slack, out))
            parts.append(censored_report.slack_table(slack, found[found["experiment"] == "slack"]))
        if not models.empty:
            parts.append(censored_report.model_table(models, found[found["experiment"] == "timeout"]))
    except BadInput as error:
        print(f"error: C2 was not drawn: {error}", file=sys.stderr)
        failed = True
    try:
        records = configurator.read_runs(arguments.results_dir)
        times = configurator.test_times(records)
        drawn.append(censored_figures.c3(times, out))
        solvers = configurator.solver_slack_rows(records, SLACKS)
        parts += [] if solvers.empty else [censored_report.solver_table(solvers)]
        parts.append(censored_report.configured_table(configurator.medians(times)))
    except BadInput as error:
        print(f"error: C3 was not drawn: {error}", file=sys.stderr)
        failed = True
    if parts:
        print(censored_report.write(parts, out))
    for figure in drawn:
        for path in figure.paths:
            print(path)
    return SOME_FAILED if failed else 0


if __name__ == "__main__":
    run_cli(main)

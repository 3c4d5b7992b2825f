"""The command line of `python -m analysis`: its arguments, and what each command does; each returns the exit code."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis import REFERENCE
from datasets.errors import BadInput
from datasets.files import write_atomically
from harness.cli import SOME_FAILED
from harness.errors import writable

# The arguments: one command, and key=value.

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
    """What to make, from which records, of which components (`choose_components`), and where to put it.

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


def do_all(arguments: Arguments) -> int:
    """Draw the figures and write the summary; `figures` and `summary` do their part only."""
    from analysis.figures import tables as problems
    from analysis.figures import trace_figures
    from analysis.plotting import Drawn
    from analysis.report import summary
    from analysis.report.summary import provenance
    from analysis.traces import check_same_data, collect
    from harness.records import read_traces, specs

    judge, mixed = arguments.options["judge"], arguments.mixed
    traces = collect(read_traces(arguments.results_dir), arguments.components, judge, mixed)
    made = specs(arguments.results_dir)
    if not mixed:
        check_same_data(made)
    drawn: dict[str, Drawn | str] = {}
    for name, draw in trace_figures().items() if arguments.command != "summary" else ():
        try:
            drawn[name] = draw(traces, arguments.out_dir)
        except BadInput as error:
            drawn[name] = str(error)
            print(f"error: {name} was not drawn: {error}", file=sys.stderr)
    if arguments.command != "figures":
        settings = provenance(made)
        tables = problems.of_records(settings, traces, arguments.out_dir)
        summary.write(traces, settings, drawn, arguments.out_dir, tables)
        print(arguments.out_dir / "summary.md")
    for figure in drawn.values():
        for path in figure.paths if isinstance(figure, Drawn) else ():
            print(path)
    return SOME_FAILED if any(isinstance(figure, str) for figure in drawn.values()) else 0


do_figures = do_summary = do_all


def do_report(arguments: Arguments) -> int:
    """Write report.html and report.md with all figures, claims and numbers; they say what could not be made."""
    from analysis import report as page

    page.write(
        arguments.results_dir,
        arguments.out_dir,
        arguments.components,
        arguments.options["judge"],
        mixed=arguments.mixed,
    )
    return 0


def do_claims(arguments: Arguments) -> int:
    """Hold the paper's claims against the records: print the table, write claims.md and claims.csv."""
    from analysis.captions import intervals
    from analysis.claims import evaluate, table, with_reason, write
    from analysis.claims.acquisitions import write_volumes
    from analysis.cost_models import read_if_there
    from analysis.traces import collect, only
    from analysis.tradeoffs import all_fronts
    from harness.records import read_traces

    folder = arguments.results_dir
    traces = only(read_traces(folder), arguments.components)
    judge, mixed = arguments.options["judge"], arguments.mixed
    costs, unreadable = read_if_there(folder)
    if unreadable:
        print(f"error: records of cost models were left out: {unreadable}", file=sys.stderr)
    verdicts = with_reason(evaluate(traces, costs, all_fronts(folder), judge, mixed), unreadable)
    print(table(verdicts))
    paths = [*write(verdicts, intervals(traces), arguments.out_dir)]
    for path in [*paths, *write_volumes(collect(traces, judge=judge, mixed=mixed), arguments.out_dir)]:
        print(path)
    return SOME_FAILED if unreadable else 0


def do_budgets(arguments: Arguments) -> int:
    """Write budgets.csv, the minimal budget of every problem, for `python -m harness budgets=...`."""
    from analysis.ranks import minimal_budgets
    from analysis.selection import at_horizon, horizon, of_families
    from analysis.traces import collect
    from harness.records import read_traces

    traces = of_families(
        collect(read_traces(arguments.results_dir), arguments.components, mixed=arguments.mixed), "alpha"
    )
    if traces.runs.empty:
        raise BadInput("the minimal budget needs runs of EI^alpha: for example python -m harness study=demo")
    n = horizon(traces)
    found = minimal_budgets(at_horizon(traces, n)[0]).reset_index()
    path = arguments.out_dir / "budgets.csv"
    text = found.to_csv(index=False, float_format="%.17g", lineterminator="\n")
    write_atomically(path, text.encode())
    print(f"{len(found)} problems, minimal budget of {n} iterations: {path}")
    return 0


def do_fronts(arguments: Arguments) -> int:
    """Draw F1 and F7; exit code 3 when one could not be drawn from these records."""
    from analysis.figures import front_figures
    from analysis.tradeoffs import read_fronts

    found, failed = read_fronts(arguments.results_dir), False
    for name, draw in front_figures().items():
        try:
            for path in draw(found, arguments.out_dir).paths:
                print(path)
        except BadInput as error:
            print(f"error: {name} was not drawn: {error}", file=sys.stderr)
            failed = True
    return SOME_FAILED if failed else 0


def do_best(arguments: Arguments) -> int:
    """Tell the best configuration found on every data set; best.json and its picture lie beside the records."""
    from analysis import best as configurations

    configurations.of_records(arguments.results_dir)
    return 0


def do_utilities(arguments: Arguments) -> int:
    """Write utilities.md and draw its figure: ranks of utilities and cost rules, training and thinking time."""
    from analysis import utilities as comparison
    from analysis.figures import utilities
    from analysis.report.sections import budgets
    from analysis.traces import collect
    from harness.records import read_timings, read_traces, specs

    frame, out = read_traces(arguments.results_dir), arguments.out_dir
    judge, mixed = arguments.options["judge"], arguments.mixed
    timings, settings = read_timings(arguments.results_dir), comparison.settings_of(specs(arguments.results_dir))
    runs = comparison.arrange(frame, timings, arguments.components, judge, mixed, settings)
    known = None
    if "ei" in set(runs.table["utility"]):
        known = budgets(collect(frame, {**arguments.components, "utility": "ei"}, mixed=mixed))
    print(utilities.write(*utilities.tables(runs, known), out))
    try:
        paths = utilities.draw_utilities(runs, out).paths
    except BadInput as error:
        print(f"error: the figure was not drawn: {error}", file=sys.stderr)
        return SOME_FAILED
    print(*paths, sep="\n")
    return 0


# Commands that compare settings, models or tables.


def do_density(arguments: Arguments) -> int:
    """Draw replay settings beside live training."""
    from analysis import density

    print(*density.draw_density(arguments.results_dir, arguments.out_dir).paths, sep="\n")
    return 0


def do_engines(arguments: Arguments) -> int:
    """Write what surrogates and fits differ in."""
    from analysis import density as comparison

    print(comparison.engines_page(arguments.results_dir, arguments.out_dir))
    return 0


def do_sensitivities(arguments: Arguments) -> int:
    """Write sensitivities.md and .csv from one folder of records per setting."""
    from analysis import sensitivities as comparison

    paths: tuple[Path, ...] = comparison.report(arguments.results_dir, arguments.out_dir)
    for path in paths:
        print(path)
    return 0


def do_costs(arguments: Arguments) -> int:
    """Draw F2, F8 and F9 and write the comparison of cost models."""
    from analysis import cost_models
    from analysis.cost_models import COMMAND, read_if_there
    from analysis.figures import f2_f8_f9
    from analysis.figures.f2_f8_f9 import f9
    from analysis.traces import check_same_origin, only
    from harness.records import read_traces

    costs, unreadable = read_if_there(arguments.results_dir)
    failed = False

    def records() -> Any:
        if costs is None:
            raise BadInput(unreadable or f"no records of cost models in {arguments.results_dir}: {COMMAND}")
        return costs

    def fronts() -> Any:
        frame = only(read_traces(arguments.results_dir), arguments.components)
        if not arguments.mixed:
            check_same_origin(frame)
        return f9(frame, arguments.out_dir, arguments.options["judge"], arguments.mixed)

    drawings = {
        "F2": lambda: f2_f8_f9.f2(records(), arguments.out_dir),
        "F8": lambda: f2_f8_f9.f8(records(), arguments.out_dir),
        "F9": fronts,
    }
    for name, draw in drawings.items():
        try:
            for path in draw().paths:
                print(path)
        except BadInput as error:
            print(f"error: {name} was not drawn: {error}", file=sys.stderr)
            failed = True
    try:
        print(cost_models.write_cost_page(records(), arguments.out_dir))
    except BadInput as error:
        print(f"error: costs.md was not written: {error}", file=sys.stderr)
        failed = True
    return SOME_FAILED if failed else 0


def do_censored(arguments: Arguments) -> int:
    """Draw C1, C2 and C3 and write censored.md."""
    from analysis.papers import hutter2013
    from analysis.plotting import Drawn
    from harness.problem import SLACKS

    out, parts, failed = arguments.out_dir, list[str](), False
    drawn: list[Drawn] = [hutter2013.draw(out)]
    try:
        found = hutter2013.read_censored(arguments.results_dir)
        slack, models = hutter2013.by_slack(found), hutter2013.by_model(found)
        if not slack.empty:
            drawn.append(hutter2013.c2(found, slack, out))
            parts.append(hutter2013.slack_table(slack, found[found["experiment"] == "slack"]))
        if not models.empty:
            parts.append(hutter2013.model_table(models, found[found["experiment"] == "timeout"]))
    except BadInput as error:
        print(f"error: C2 was not drawn: {error}", file=sys.stderr)
        failed = True
    try:
        records = hutter2013.read_runs(arguments.results_dir)
        times = hutter2013.test_times(records)
        drawn.append(hutter2013.c3(times, out))
        solvers = hutter2013.solver_slack_rows(records, SLACKS)
        parts += [] if solvers.empty else [hutter2013.solver_table(solvers)]
        parts.append(hutter2013.configured_table(hutter2013.medians(times)))
    except BadInput as error:
        print(f"error: C3 was not drawn: {error}", file=sys.stderr)
        failed = True
    if parts:
        print(hutter2013.write(parts, out))
    for figure in drawn:
        for path in figure.paths:
            print(path)
    return SOME_FAILED if failed else 0


def do_tables(arguments: Arguments) -> int:
    """Draw the Pareto front of every shipped table; no records are needed."""
    from analysis.figures import tables

    for path in tables.draw_tables(arguments.out_dir).paths:
        print(path)
    return 0

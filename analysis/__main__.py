"""`python -m analysis [COMMAND] [SETTING=VALUE ...]`: records to figures, tables and pages.

A command is a function below that `command` marks; the first line of its docstring is what `--help` says of it. Every
command reads `results_dir` and writes to `out_dir`, but for those that take only one of the two.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from analysis import REFERENCE
from datasets.errors import BadInput
from harness.cli import SOME_FAILED, run_cli, wants_help
from harness.errors import one_of, unknown, writable

# The arguments: one command, and key=value. Each command imports what it needs: pandas and matplotlib take a second.

OPTIONS = {  # the values of a setting, the default first
    "bootstrap": ("datasets", "hierarchical", "plain"),
    "judge": ("validation", "test"),
    "mixed": ("false", "true"),
}
AT_MOST_CUT = "at_most_cut"  # of `claims`: the share of a table's trainings that a time limit may have cut short
_RUN = ("dataset", "pipeline", "method", "seed", "iterations", "tau")  # of `run`: which one
KEYS = ("results_dir", "out_dir", *OPTIONS, *REFERENCE)
_COMPARED = ("results_dir", "out_dir", "bootstrap")  # of commands that read one folder of records per setting
DEFAULT = "all"  # the command where none is named
USAGE = "python -m analysis [COMMAND] results_dir=results out_dir=report [evaluator=replay ...]"
SETTINGS = f"""\
  results_dir=results: the folder of records
  out_dir=report: where to write
  bootstrap={"|".join(OPTIONS["bootstrap"])}: how intervals are made
  judge={"|".join(OPTIONS["judge"])}: the error by which methods are judged
  mixed={"|".join(OPTIONS["mixed"])}: whether records of different tables or engines may stand together
  {", ".join(f"{key}=" for key in REFERENCE)}: whose runs to take
  {AT_MOST_CUT}=0.05: without problems of whose trainings a time limit cut more than this share short (claims)
  {", ".join(f"{key}=" for key in _RUN)}: which run, where there are several (run)
  method=informed: the method that is tested (new_methods)"""


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

    def traces(self, every: Any = None) -> Any:
        """Return the runs of these components (`analysis.traces.collect`); every: the evaluations, if they are read."""
        from analysis.evaluations import read_evaluations
        from analysis.traces import collect

        every = every or read_evaluations(self.results_dir)
        return collect(every, self.components, self.options["judge"], self.mixed)


@dataclass(frozen=True)
class Command:
    """A command. keys: the settings that mean something to it; make: makes it and returns the exit code."""

    keys: tuple[str, ...]
    make: Callable[[Arguments], int]

    @property
    def summary(self) -> str:
        """The first line of the function's docstring."""
        return (self.make.__doc__ or "").partition("\n")[0]


COMMANDS: dict[str, Command] = {}
"""The commands by name, in the order of this file; `command` fills it."""


def command(*keys: str) -> Callable[[Callable[[Arguments], int]], Callable[[Arguments], int]]:
    """Make a command, of the name behind `do_`, of the function; keys: the settings that it takes."""

    def add(make: Callable[[Arguments], int]) -> Callable[[Arguments], int]:
        COMMANDS[make.__name__.removeprefix("do_")] = Command(keys, make)
        return make

    return add


def parse(argv: Sequence[str]) -> Arguments:
    """Return the arguments; raises BadInput, with what is allowed, for one unknown, without effect, empty or twice."""
    given: dict[str, str] = {}
    for argument in argv:
        key, equals, value = argument.partition("=")
        if not equals:
            key, value = "command", argument
            if value not in COMMANDS:
                raise unknown("command", value, COMMANDS)
        elif key not in (allowed := (*KEYS, *_RUN, AT_MOST_CUT)):
            raise unknown("setting", key, allowed)
        if not value:
            raise BadInput(f"{key} is empty ({USAGE})")
        if key in given:
            raise BadInput(f"{key} is given twice ({USAGE})")
        given[key] = value
    name = given.pop("command", DEFAULT)
    keys = COMMANDS[name].keys
    idle = next((key for key in given if key not in keys), None)
    if idle:
        raise BadInput(f"{idle}= means nothing to {name!r}, which takes {', '.join(keys)}")
    options = {key: given.pop(key, allowed[0]) for key, allowed in OPTIONS.items()}
    for key, value in options.items():
        one_of(key, value, OPTIONS[key])
    results, out = Path(given.pop("results_dir", "results")), Path(given.pop("out_dir", "report"))
    if "results_dir" in keys and not results.is_dir():
        raise BadInput(f"results_dir={results} is no folder: run `python -m harness` first")
    if "out_dir" in keys:
        writable("out_dir", out)
    return Arguments(name, results, out, given, options)


def main(argv: Sequence[str] | None = None) -> int:
    """Make what the arguments ask for; exit code 3 when a figure could not be drawn from these records."""
    argv = sys.argv[1:] if argv is None else argv
    if wants_help(argv):
        width = max(map(len, COMMANDS))
        commands = "\n".join(f"  {name:{width}}  {made.summary}" for name, made in COMMANDS.items())
        print(f"{USAGE}\n\ncommands (without one: {DEFAULT}):\n{commands}\n\nsettings:\n{SETTINGS}")
        return 0
    arguments = parse(argv)
    from analysis.statistics import resampling

    with resampling(arguments.options["bootstrap"]):
        return COMMANDS[arguments.command].make(arguments)


def drawn_or_why(drawings: Mapping[str, Callable[[], Any]], failure: str = "was not drawn") -> dict[str, Any]:
    """Return what each drawing makes, or else why it could not be made (a text), which is printed as an error."""
    made: dict[str, Any] = {}
    for name, draw in drawings.items():
        try:
            made[name] = draw()
        except BadInput as error:
            made[name] = str(error)
            print(f"error: {name} {failure}: {error}", file=sys.stderr)
    return made


def print_files(made: Mapping[str, Any]) -> int:
    """Print the files of each figure, or the page; return the exit code, which says whether one is missing."""
    for figure in made.values():
        for path in () if isinstance(figure, str) else (figure,) if isinstance(figure, Path) else figure.paths:
            print(path)
    return SOME_FAILED if any(isinstance(figure, str) for figure in made.values()) else 0


# Commands on the records of a study.


@command(*KEYS)
def do_all(arguments: Arguments) -> int:
    """Draw the figures and write summary.md, their numbers in plain tables."""
    return _figures_and_summary(arguments)


@command(*KEYS)
def do_figures(arguments: Arguments) -> int:
    """Draw the figures only."""
    return _figures_and_summary(arguments, summarized=False)


@command(*KEYS)
def do_summary(arguments: Arguments) -> int:
    """Write summary.md only."""
    return _figures_and_summary(arguments, drawn=False)


def _figures_and_summary(arguments: Arguments, drawn: bool = True, summarized: bool = True) -> int:
    from analysis.evaluations import check_same_data, read_evaluations
    from analysis.figures import tables as problems
    from analysis.figures import trace_figures
    from analysis.report import summary
    from analysis.report.summary import provenance

    every, out = read_evaluations(arguments.results_dir), arguments.out_dir
    traces = arguments.traces(every)
    if not arguments.mixed:
        check_same_data(every.specs)
    figures = drawn_or_why({name: partial(draw, traces, out) for name, draw in trace_figures().items() if drawn})
    if summarized:
        settings = provenance(every.specs)
        summary.write(traces, settings, figures, out, problems.of_records(settings, traces, out))
        print(out / "summary.md")
    return print_files(figures)


@command(*KEYS)
def do_report(arguments: Arguments) -> int:
    """Write report.html and report.md, one page of all figures, claims and numbers.

    The page says what could not be made; the exit code is 0 all the same.
    """
    from analysis import report as page

    page.write(
        arguments.results_dir,
        arguments.out_dir,
        arguments.components,
        arguments.options["judge"],
        mixed=arguments.mixed,
    )
    return 0


@command(*KEYS, AT_MOST_CUT)
def do_claims(arguments: Arguments) -> int:
    """Hold the paper's claims against the records: print the table, write claims.md and claims.csv."""
    from analysis.captions import intervals
    from analysis.claims import evaluate, table, with_reason, write
    from analysis.cost_models import read_if_there
    from analysis.evaluations import filter_components, read_evaluations
    from analysis.gains import hardly_cut
    from analysis.hypervolumes import write_volumes
    from analysis.traces import collect
    from analysis.tradeoffs import all_fronts

    folder, out = arguments.results_dir, arguments.out_dir
    judge, mixed, components = arguments.options["judge"], arguments.mixed, dict(arguments.components)
    most_cut = components.pop(AT_MOST_CUT, None)
    every, fronts = filter_components(read_evaluations(folder), components), all_fronts(folder)
    costs, unreadable = read_if_there(folder)
    if most_cut is not None:
        every, costs, fronts = hardly_cut(AT_MOST_CUT, most_cut, every, costs, fronts)
    if unreadable:
        print(f"error: records of cost models were left out: {unreadable}", file=sys.stderr)
    traces = collect(every, judge=judge, mixed=mixed)
    verdicts = with_reason(evaluate(every, costs, fronts, judge, mixed, traces), unreadable)
    print(table(verdicts))
    paths = [*write(verdicts, intervals(every.runs), out), *write_volumes(traces, out)]
    print(*paths, sep="\n")
    return SOME_FAILED if unreadable else 0


@command("results_dir", "out_dir", "mixed", *REFERENCE)
def do_budgets(arguments: Arguments) -> int:
    """Write budgets.csv, the minimal budget of every problem, for `python -m harness budgets=...`."""
    from analysis.captions import write_csv
    from analysis.ranks import minimal_budgets
    from analysis.selection import at_horizon, horizon, select_families

    traces = select_families(arguments.traces(), "alpha")
    if traces.runs.empty:
        raise BadInput("the minimal budget needs runs of EI^alpha: for example python -m harness study=demo")
    n = horizon(traces)
    found = minimal_budgets(at_horizon(traces, n)[0]).reset_index()
    path = arguments.out_dir / "budgets.csv"
    write_csv(found, path, digits=17)
    print(f"{len(found)} problems, minimal budget of {n} iterations: {path}")
    return 0


@command("results_dir", "out_dir", "judge", "mixed", *REFERENCE)
def do_anytime(arguments: Arguments) -> int:
    """Compare methods with EI stopped early, at equal cost: draw the figure and write anytime.md."""
    from analysis.figures import anytime

    made = drawn_or_why({"anytime": partial(anytime.anytime, arguments.traces(), arguments.out_dir)})
    if not isinstance(made["anytime"], str):
        print(anytime.write(made["anytime"], arguments.out_dir))
    return print_files(made)


@command("results_dir", "out_dir", "judge", "mixed", *REFERENCE)
def do_leaderboard(arguments: Arguments) -> int:
    """Rank all optimizers, ours and others', at equal cost: draw the figure and write leaderboard.md."""
    from analysis import leaderboard
    from analysis.evaluations import read_evaluations
    from harness.records import read_timings

    folder, judge = arguments.results_dir, arguments.options["judge"]
    found, why = leaderboard.tracks(read_evaluations(folder), arguments.components, judge, arguments.mixed)
    for track, reason in why.items():
        print(f"error: the {track} track was left out: {reason}", file=sys.stderr)
    drawn = leaderboard.draw(found, leaderboard.milliseconds(read_timings(folder)), arguments.out_dir)
    print(leaderboard.write(drawn, found, folder, arguments.out_dir))
    print_files({"leaderboard": drawn})
    return SOME_FAILED if why else 0


@command("results_dir", "out_dir", "method", "judge", "mixed", *REFERENCE)
def do_new_methods(arguments: Arguments) -> int:
    """Print the outcome of a registered test (NEW_METHODS.md); write new_methods.md, tables and figure.

    method: the one that is tested, `informed` where none is named. Where results_dir is a folder of files
    `new_methods_runs*.parquet` that earlier calls wrote, the outcome is that of all of them.
    """
    from analysis.evaluations import read_evaluations
    from analysis.leaderboard import milliseconds
    from analysis.new_methods import report
    from analysis.registered_runs import METHOD, halves, kept_halves
    from harness.records import read_timings

    folder, judge, components = arguments.results_dir, arguments.options["judge"], dict(arguments.components)
    method = components.pop("method", METHOD)
    found = kept_halves(folder, judge, method)
    if found and (components or arguments.mixed):
        raise BadInput(
            f"{folder} keeps what the test needs of runs already chosen: it takes method=, judge= and out_dir= only"
        )
    if not found:
        every, thinking_ms = read_evaluations(folder), milliseconds(read_timings(folder))
        found = halves(every, thinking_ms, components, judge, arguments.mixed, method)
    print(report(found, arguments.out_dir, judge))
    return 0


@command(*_COMPARED)
def do_fronts(arguments: Arguments) -> int:
    """Draw F1 and F7 from the fronts that `python -m harness fronts=true` keeps."""
    from analysis.figures import front_figures
    from analysis.tradeoffs import all_fronts

    found = all_fronts(arguments.results_dir)
    drawings = {name: partial(draw, found, arguments.out_dir) for name, draw in front_figures().items()}
    return print_files(drawn_or_why(drawings))


@command("results_dir", "out_dir")
def do_demo(arguments: Arguments) -> int:
    """Write demo.html and demo.md, and print what these few runs show."""
    from analysis.report import demo

    demo.write(arguments.results_dir, arguments.out_dir)
    return 0


@command("results_dir", "out_dir", *_RUN)
def do_run(arguments: Arguments) -> int:
    """Draw one run step by step, run.png."""
    from analysis.figures.one_run import draw_run, one_run

    return print_files({"run": draw_run(*one_run(arguments.results_dir, arguments.components), arguments.out_dir)})


@command("results_dir")
def do_best(arguments: Arguments) -> int:
    """Name the best configuration of every data set; best.json and its picture lie beside the records."""
    from analysis import best as configurations

    configurations.of_records(arguments.results_dir)
    return 0


@command(*KEYS)
def do_utilities(arguments: Arguments) -> int:
    """Rank utilities with cost rules (study=utilities): draw the figure and write utilities.md.

    Training time counts, and the time that the optimizer itself takes.
    """
    from analysis import utilities as comparison
    from analysis.evaluations import read_evaluations
    from analysis.figures import utilities
    from analysis.report.sections import budgets
    from analysis.traces import collect
    from harness.records import read_timings

    folder, out, mixed = arguments.results_dir, arguments.out_dir, arguments.mixed
    every, times = read_evaluations(folder), partial(read_timings, folder)
    components, judge = arguments.components, arguments.options["judge"]
    runs = comparison.arrange(every, times, components, judge, mixed)
    known = None
    if "ei" in set(runs.table["utility"]):
        known = budgets(collect(every, {**components, "utility": "ei"}, mixed=mixed))
    print(utilities.write(*utilities.tables(runs, known), out))
    return print_files(drawn_or_why({"the figure": lambda: utilities.draw_utilities(runs, out)}))


# Commands that compare settings, models or tables.


@command(*_COMPARED)
def do_density(arguments: Arguments) -> int:
    """Compare replay settings with live training; results_dir holds one folder of records per setting."""
    from analysis import density

    return print_files({"density": density.draw_density(arguments.results_dir, arguments.out_dir)})


@command(*_COMPARED)
def do_engines(arguments: Arguments) -> int:
    """Compare surrogates and fits with the default; results_dir holds one folder of records per setting."""
    from analysis import density as comparison

    print(comparison.engines_page(arguments.results_dir, arguments.out_dir))
    return 0


@command(*_COMPARED)
def do_sensitivities(arguments: Arguments) -> int:
    """Compare verdicts on the claims between settings; results_dir holds one folder of records per setting."""
    from analysis import sensitivities as comparison

    print(*comparison.report(arguments.results_dir, arguments.out_dir), sep="\n")
    return 0


@command(*KEYS)
def do_costs(arguments: Arguments) -> int:
    """Draw F2 and F8 from the records of `python -m tabular_cache costs`, F9 from runs; write costs.md."""
    from analysis import cost_models
    from analysis.evaluations import check_same_origin, filter_components, read_evaluations
    from analysis.figures import f2_f8_f9

    folder, out, mixed = arguments.results_dir, arguments.out_dir, arguments.mixed
    costs, unreadable = cost_models.read_if_there(folder)

    def records() -> Any:
        if costs is None:
            raise BadInput(unreadable or f"no records of cost models in {folder}: {cost_models.COMMAND}")
        return costs

    def f9() -> Any:
        every = filter_components(read_evaluations(folder), arguments.components)
        if not mixed:
            check_same_origin(every.runs)
        return f2_f8_f9.f9(every, out, arguments.options["judge"], mixed)

    made = drawn_or_why({
        "F2": lambda: f2_f8_f9.f2(records(), out), "F8": lambda: f2_f8_f9.f8(records(), out), "F9": f9,
    })  # fmt: skip
    made |= drawn_or_why({"costs.md": lambda: cost_models.write_cost_page(records(), out)}, "was not written")
    return print_files(made)


@command(*_COMPARED)
def do_censored(arguments: Arguments) -> int:
    """Draw C1 to C3 and write censored.md, from the records of censored costs and of the configurator.

    Those are what `python -m tabular_cache censored` and `python -m harness.configurator` write.
    """
    from analysis.papers.hutter2013 import example, figures

    results, out = arguments.results_dir, arguments.out_dir
    sections = {"C2": partial(figures.of_censored, results, out), "C3": partial(figures.of_configured, results, out)}
    made = drawn_or_why(sections)
    there = {name: section for name, section in made.items() if not isinstance(section, str)}
    if parts := [part for _, tables in there.values() for part in tables]:
        print(figures.write(parts, out))
    print_files({"C1": example.draw(out)} | {name: drawn for name, (drawn, _) in there.items() if drawn})
    return SOME_FAILED if len(there) < len(made) else 0


@command("out_dir")
def do_tables(arguments: Arguments) -> int:
    """Draw the Pareto front of every shipped table; no records are needed."""
    from analysis.figures import tables

    return print_files({"tables": tables.draw_tables(arguments.out_dir)})


if __name__ == "__main__":
    run_cli(main)

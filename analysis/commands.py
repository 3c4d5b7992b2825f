"""What the commands of `python -m analysis` that read one folder of records do; each returns the exit code."""

import sys

from analysis.arguments import Arguments
from datasets.errors import BadInput
from datasets.files import write_atomically
from harness.cli import SOME_FAILED


def do_all(arguments: Arguments) -> int:
    """Draw the figures and write the summary; `figures` and `summary` do their part only."""
    from analysis import problems, summary
    from analysis.figures import figures
    from analysis.mixing import check_same_data
    from analysis.plotting import Drawn
    from analysis.provenance import provenance
    from analysis.traces import collect
    from harness.records import read_traces, specs

    judge, mixed = arguments.options["judge"], arguments.mixed
    traces = collect(read_traces(arguments.results_dir), arguments.components, judge, mixed)
    made = specs(arguments.results_dir)
    if not mixed:
        check_same_data(made)
    drawn: dict[str, Drawn | str] = {}
    for name, draw in figures().items() if arguments.command != "summary" else ():
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
    from analysis.claims.contextual import write_volumes
    from analysis.claims.evaluate import evaluate, table, write
    from analysis.components import only
    from analysis.costs import read_if_there
    from analysis.costs_claims import with_reason
    from analysis.fronts import all_fronts
    from analysis.scope import intervals
    from analysis.traces import collect
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
    from analysis.budgets import minimal_budgets
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
    from analysis.fronts import read_fronts

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
    from analysis import utilities_figure, utilities_report
    from analysis.report.utilities import budgets
    from analysis.traces import collect
    from harness.records import read_timings, read_traces, specs

    frame, out = read_traces(arguments.results_dir), arguments.out_dir
    judge, mixed = arguments.options["judge"], arguments.mixed
    timings, settings = read_timings(arguments.results_dir), comparison.settings_of(specs(arguments.results_dir))
    runs = comparison.arrange(frame, timings, arguments.components, judge, mixed, settings)
    known = None
    if "ei" in set(runs.table["utility"]):
        known = budgets(collect(frame, {**arguments.components, "utility": "ei"}, mixed=mixed))
    print(utilities_report.write(*utilities_report.tables(runs, known), out))
    try:
        paths = utilities_figure.draw(runs, out).paths
    except BadInput as error:
        print(f"error: the figure was not drawn: {error}", file=sys.stderr)
        return SOME_FAILED
    print(*paths, sep="\n")
    return 0

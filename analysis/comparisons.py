"""What the commands of `python -m analysis` that compare settings, models or tables do; each returns the exit code."""

import sys
from pathlib import Path
from typing import Any

from analysis.arguments import Arguments
from datasets.errors import BadInput
from harness.cli import SOME_FAILED


def do_density(arguments: Arguments) -> int:
    """Draw replay settings beside live training."""
    from analysis import density_figure

    print(*density_figure.draw(arguments.results_dir, arguments.out_dir).paths, sep="\n")
    return 0


def do_engines(arguments: Arguments) -> int:
    """Write what surrogates and fits differ in."""
    from analysis import engines as comparison

    print(comparison.report(arguments.results_dir, arguments.out_dir))
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
    from analysis import costs_figures, costs_report
    from analysis.components import only
    from analysis.costs import COMMAND, read_if_there
    from analysis.costs_fronts import f9
    from analysis.mixing import check_same_origin
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
        "F2": lambda: costs_figures.f2(records(), arguments.out_dir),
        "F8": lambda: costs_figures.f8(records(), arguments.out_dir),
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
        print(costs_report.write(records(), arguments.out_dir))
    except BadInput as error:
        print(f"error: costs.md was not written: {error}", file=sys.stderr)
        failed = True
    return SOME_FAILED if failed else 0


def do_censored(arguments: Arguments) -> int:
    """Draw C1, C2 and C3 and write censored.md."""
    from analysis import censored, censored_example, censored_figures, censored_report, configurator
    from analysis.plotting import Drawn
    from harness.problem import SLACKS

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


def do_tables(arguments: Arguments) -> int:
    """Draw the Pareto front of every shipped table; no records are needed."""
    from analysis import tables_figure

    for path in tables_figure.draw(arguments.out_dir).paths:
        print(path)
    return 0

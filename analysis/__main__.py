"""`python -m analysis [report|figures|summary|all] results_dir=results out_dir=report`: records to figures and numbers.

`report` makes one page of everything, report.html, and the same as report.md; `all` the figures and a plain summary.
`density` compares replay settings with live training, `engines` surrogates and fits with the default: there results_dir
holds one folder of records per setting. `costs` draws F2 and F8 from the records of `python -m tabular_cache costs`,
and F9 from runs under several cost models. `claims` holds the paper's claims against the records (at_most_cut=0.05:
without problems of whose trainings a time limit cut more than 5 % short), `budgets` writes the minimal budget of every
problem, `anytime` compares families of methods with EI stopped early, at equal cost (anytime.md and its figure),
`leaderboard` every optimizer, ours and others', on each track (leaderboard.md and its figure), `new_methods` prints the
outcome of the registered test (NEW_METHODS.md), `fronts` draws F1 and F7 from the fronts that `python -m harness
fronts=true` keeps, and `sensitivities` asks whether a claim's verdict depends on a setting (one folder of records per
setting). `run` draws one run step by step (run.png; dataset=, pipeline=, method= and seed= name it where there are
several), `demo` makes a page of what a few runs can tell. `best` tells the best configuration found on each data set;
`tables` draws the measured tables; `utilities` ranks utilities and cost rules together (study=utilities), with the time
that the optimizer itself takes. `censored` draws C1 to C3 and writes their tables from the records of `python -m
tabular_cache censored` and of `python -m harness.configurator`.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Any

from analysis import REFERENCE
from datasets.errors import BadInput
from datasets.files import write_atomically
from harness.cli import SOME_FAILED, run_cli, wants_help
from harness.errors import number, unknown, writable

# The arguments: one command, and key=value. Each command imports what it needs: pandas and matplotlib take a second.

OPTIONS = {
    "bootstrap": ("datasets", "hierarchical", "plain"),
    "judge": ("validation", "test"),
    "mixed": ("false", "true"),
}
AT_MOST_CUT = "at_most_cut"  # of `claims`: the share of a table's trainings that a time limit may have cut short
_RUN = ("dataset", "pipeline", "method", "seed")  # of `run`: which one
KEYS = ("results_dir", "out_dir", *OPTIONS, *REFERENCE)
_COMPARED = ("results_dir", "out_dir", "bootstrap")  # of commands that read one folder of records per setting
TAKES = {  # the keys that mean something to each command; the first one is made where none is named
    **dict.fromkeys(("all", "figures", "summary", "report"), KEYS),
    "claims": (*KEYS, AT_MOST_CUT),
    "budgets": ("results_dir", "out_dir", "mixed", *REFERENCE),
    "anytime": ("results_dir", "out_dir", "judge", "mixed", *REFERENCE),
    "leaderboard": ("results_dir", "out_dir", "judge", "mixed", *REFERENCE),
    "new_methods": ("results_dir", "out_dir", "judge", "mixed", *REFERENCE),
    "fronts": _COMPARED,
    "demo": ("results_dir", "out_dir"),
    "run": ("results_dir", "out_dir", *_RUN),
    "best": ("results_dir",),
    "utilities": KEYS,
    **dict.fromkeys(("density", "engines", "sensitivities"), _COMPARED),
    "costs": KEYS,
    "censored": _COMPARED,
    "tables": ("out_dir",),
}
USAGE = "python -m analysis [COMMAND] results_dir=results out_dir=report [evaluator=replay ...]"


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

    def traces(self) -> Any:
        """Return the runs of these components, as `analysis.traces.collect` arranges them."""
        from analysis.traces import collect, read_evaluations

        return collect(read_evaluations(self.results_dir), self.components, self.options["judge"], self.mixed)


def parse(argv: Sequence[str]) -> Arguments:
    """Return the arguments; raises BadInput, with what is allowed, for one unknown, without effect, empty or twice."""
    given: dict[str, str] = {}
    for argument in argv:
        key, equals, value = argument.partition("=")
        if not equals:
            key, value = "command", argument
            if value not in TAKES:
                raise unknown("command", value, TAKES)
        elif key not in (allowed := (*KEYS, *_RUN, AT_MOST_CUT)):
            raise unknown("setting", key, allowed)
        if not value:
            raise BadInput(f"{key} is empty ({USAGE})")
        if key in given:
            raise BadInput(f"{key} is given twice ({USAGE})")
        given[key] = value
    command = given.pop("command", next(iter(TAKES)))
    idle = next((key for key in given if key not in TAKES[command]), None)
    if idle:
        raise BadInput(f"{idle}= means nothing to {command!r}, which takes {', '.join(TAKES[command])}")
    options = {key: given.pop(key, allowed[0]) for key, allowed in OPTIONS.items()}
    for key, value in options.items():
        if value not in OPTIONS[key]:
            raise BadInput(f"{key} must be one of {', '.join(OPTIONS[key])}, got {value!r}")
    results, out = Path(given.pop("results_dir", "results")), Path(given.pop("out_dir", "report"))
    if "results_dir" in TAKES[command] and not results.is_dir():
        raise BadInput(f"results_dir={results} is no folder: run `python -m harness` first")
    if "out_dir" in TAKES[command]:
        writable("out_dir", out)
    return Arguments(command, results, out, given, options)


def main(argv: Sequence[str] | None = None) -> int:
    """Make what the arguments ask for; exit code 3 when a figure could not be drawn from these records.

    `report` says on its page what could not be made, and exits with 0.
    """
    argv = sys.argv[1:] if argv is None else argv
    if wants_help(argv):
        options = "\n".join(f"  {key}={'|'.join(allowed)}" for key, allowed in OPTIONS.items())
        components = f"  {', '.join(f'{key}=' for key in REFERENCE)}: whose runs to take"
        commands = fill(f"commands: {', '.join(TAKES)}", 120, subsequent_indent="  ")
        print(f"{(__doc__ or '').strip()}\n\n{USAGE}\n{commands}\noptions:\n{options}\n{components}")
        return 0
    arguments = parse(argv)
    from analysis.statistics import resampling

    with resampling(arguments.options["bootstrap"]):
        return int(globals()[f"do_{arguments.command}"](arguments))


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


def do_all(arguments: Arguments) -> int:
    """Draw the figures and write the summary; `figures` and `summary` do their part only."""
    from analysis.figures import tables as problems
    from analysis.figures import trace_figures
    from analysis.report import summary
    from analysis.report.summary import provenance
    from analysis.traces import check_same_data
    from harness.records import specs

    traces, made, out = arguments.traces(), specs(arguments.results_dir), arguments.out_dir
    if not arguments.mixed:
        check_same_data(made)
    figures = {} if arguments.command == "summary" else trace_figures()
    drawn = drawn_or_why({name: partial(draw, traces, out) for name, draw in figures.items()})
    if arguments.command != "figures":
        settings = provenance(made)
        summary.write(traces, settings, drawn, out, problems.of_records(settings, traces, out))
        print(out / "summary.md")
    return print_files(drawn)


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
    from analysis.traces import collect, filter_components, read_evaluations
    from analysis.tradeoffs import all_fronts

    folder, out = arguments.results_dir, arguments.out_dir
    judge, mixed, components = arguments.options["judge"], arguments.mixed, dict(arguments.components)
    most_cut = components.pop(AT_MOST_CUT, None)
    frame, fronts = filter_components(read_evaluations(folder), components), all_fronts(folder)
    costs, unreadable = read_if_there(folder)
    if most_cut is not None:
        frame, costs, fronts = _hardly_cut(most_cut, frame, costs, fronts)
    if unreadable:
        print(f"error: records of cost models were left out: {unreadable}", file=sys.stderr)
    verdicts = with_reason(evaluate(frame, costs, fronts, judge, mixed), unreadable)
    print(table(verdicts))
    paths = [*write(verdicts, intervals(frame), out), *write_volumes(collect(frame, judge=judge, mixed=mixed), out)]
    print(*paths, sep="\n")
    return SOME_FAILED if unreadable else 0


def _hardly_cut(share: str, frame: Any, *others: Any) -> list[Any]:
    """Return the rows of the frames (None stays None) about problems of which a time limit cut at most `share` short.

    Raises BadInput for what is no share, where no such problem is left, and for a problem without a shipped table.
    """
    import pandas as pd

    from analysis.traces import PROBLEM
    from tabular_cache.card import cut_short
    from tabular_cache.schema import problem_name
    from tabular_cache.table import load_table

    try:
        value: object = float(share)
    except ValueError:
        value = share
    most = number(AT_MOST_CUT, value, "a share in [0, 1]", 0, 1)
    pairs = [(str(a), str(b)) for a, b in frame[PROBLEM].drop_duplicates().itertuples(index=False)]
    kept = [pair for pair in pairs if cut_short(load_table(problem_name(*pair))) <= most]
    print(f"left out: {len(pairs) - len(kept)} of {len(pairs)} problems, more than {100 * most:g} % of whose trainings "
          "a time limit cut short")  # fmt: skip
    if not kept:
        raise BadInput(f"{AT_MOST_CUT}={share} leaves no problem")
    return [
        f if f is None else f[pd.MultiIndex.from_frame(f[PROBLEM].astype(str)).isin(kept)] for f in (frame, *others)
    ]


def do_budgets(arguments: Arguments) -> int:
    """Write budgets.csv, the minimal budget of every problem, for `python -m harness budgets=...`."""
    from analysis.ranks import minimal_budgets
    from analysis.selection import at_horizon, horizon, select_families

    traces = select_families(arguments.traces(), "alpha")
    if traces.runs.empty:
        raise BadInput("the minimal budget needs runs of EI^alpha: for example python -m harness study=demo")
    n = horizon(traces)
    found = minimal_budgets(at_horizon(traces, n)[0]).reset_index()
    path = arguments.out_dir / "budgets.csv"
    text = found.to_csv(index=False, float_format="%.17g", lineterminator="\n")
    write_atomically(path, text.encode())
    print(f"{len(found)} problems, minimal budget of {n} iterations: {path}")
    return 0


def do_anytime(arguments: Arguments) -> int:
    """Draw errors at equal cost, of families of methods and of EI stopped early, and write anytime.md."""
    from analysis.figures import anytime

    made = drawn_or_why({"anytime": partial(anytime.anytime, arguments.traces(), arguments.out_dir)})
    if not isinstance(made["anytime"], str):
        print(anytime.write(made["anytime"], arguments.out_dir))
    return print_files(made)


def do_leaderboard(arguments: Arguments) -> int:
    """Draw every optimizer's errors at equal cost, ranks and own time, on each track that the records hold."""
    from analysis import leaderboard
    from analysis.traces import read_evaluations
    from harness.records import read_timings

    folder, judge = arguments.results_dir, arguments.options["judge"]
    found, why = leaderboard.tracks(read_evaluations(folder), arguments.components, judge, arguments.mixed)
    for track, reason in why.items():
        print(f"error: the {track} track was left out: {reason}", file=sys.stderr)
    drawn = leaderboard.draw(found, leaderboard.milliseconds(read_timings(folder)), arguments.out_dir)
    print(leaderboard.write(drawn, found, folder, arguments.out_dir))
    print_files({"leaderboard": drawn})
    return SOME_FAILED if why else 0


def do_new_methods(arguments: Arguments) -> int:
    """Print the outcome of the registered test (NEW_METHODS.md); write new_methods.md, its CSVs and figure."""
    from analysis import new_methods
    from analysis.traces import read_evaluations
    from harness.records import read_timings

    frame, timings = read_evaluations(arguments.results_dir), read_timings(arguments.results_dir)
    judge, mixed = arguments.options["judge"], arguments.mixed
    print(new_methods.report(frame, timings, arguments.components, arguments.out_dir, judge, mixed))
    return 0


def do_fronts(arguments: Arguments) -> int:
    """Draw F1 and F7; exit code 3 when one could not be drawn from these records."""
    from analysis.figures import front_figures
    from analysis.tradeoffs import read_fronts

    found = read_fronts(arguments.results_dir)
    drawings = {name: partial(draw, found, arguments.out_dir) for name, draw in front_figures().items()}
    return print_files(drawn_or_why(drawings))


def do_demo(arguments: Arguments) -> int:
    """Write demo.html and demo.md, and print what these few runs tell."""
    from analysis.report import demo

    demo.write(arguments.results_dir, arguments.out_dir)
    return 0


def do_run(arguments: Arguments) -> int:
    """Draw one run step by step."""
    from analysis.figures.one_run import draw_run, one_run

    return print_files({"run": draw_run(*one_run(arguments.results_dir, arguments.components), arguments.out_dir)})


def do_best(arguments: Arguments) -> int:
    """Name the best configuration found on every data set; best.json and its picture lie beside the records."""
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

    folder, out, mixed = arguments.results_dir, arguments.out_dir, arguments.mixed
    frame, settings = read_traces(folder), comparison.settings_of(specs(folder))
    components, judge = arguments.components, arguments.options["judge"]
    runs = comparison.arrange(frame, read_timings(folder), components, judge, mixed, settings)
    known = None
    if "ei" in set(runs.table["utility"]):
        known = budgets(collect(frame, {**components, "utility": "ei"}, mixed=mixed))
    print(utilities.write(*utilities.tables(runs, known), out))
    return print_files(drawn_or_why({"the figure": lambda: utilities.draw_utilities(runs, out)}))


# Commands that compare settings, models or tables.


def do_density(arguments: Arguments) -> int:
    """Draw replay settings beside live training."""
    from analysis import density

    return print_files({"density": density.draw_density(arguments.results_dir, arguments.out_dir)})


def do_engines(arguments: Arguments) -> int:
    """Write what surrogates and fits differ in."""
    from analysis import density as comparison

    print(comparison.engines_page(arguments.results_dir, arguments.out_dir))
    return 0


def do_sensitivities(arguments: Arguments) -> int:
    """Write sensitivities.md and .csv from one folder of records per setting."""
    from analysis import sensitivities as comparison

    print(*comparison.report(arguments.results_dir, arguments.out_dir), sep="\n")
    return 0


def do_costs(arguments: Arguments) -> int:
    """Draw F2, F8 and F9 and write the comparison of cost models."""
    from analysis import cost_models
    from analysis.figures import f2_f8_f9
    from analysis.traces import check_same_origin, filter_components
    from harness.records import read_traces

    folder, out, mixed = arguments.results_dir, arguments.out_dir, arguments.mixed
    costs, unreadable = cost_models.read_if_there(folder)

    def records() -> Any:
        if costs is None:
            raise BadInput(unreadable or f"no records of cost models in {folder}: {cost_models.COMMAND}")
        return costs

    def f9() -> Any:
        frame = filter_components(read_traces(folder), arguments.components)
        if not mixed:
            check_same_origin(frame)
        return f2_f8_f9.f9(frame, out, arguments.options["judge"], mixed)

    made = drawn_or_why({
        "F2": lambda: f2_f8_f9.f2(records(), out), "F8": lambda: f2_f8_f9.f8(records(), out), "F9": f9,
    })  # fmt: skip
    made |= drawn_or_why({"costs.md": lambda: cost_models.write_cost_page(records(), out)}, "was not written")
    return print_files(made)


def do_censored(arguments: Arguments) -> int:
    """Draw C1, C2 and C3 and write censored.md."""
    from analysis.papers import hutter2013
    from harness.problem import SLACKS

    out, parts = arguments.out_dir, list[str]()
    drawn: dict[str, Any] = {"C1": hutter2013.draw(out)}

    def c2() -> Any:
        found = hutter2013.read_censored(arguments.results_dir)
        slack, models = hutter2013.by_slack(found), hutter2013.by_model(found)
        if not slack.empty:
            drawn["C2"] = hutter2013.c2(found, slack, out)
            parts.append(hutter2013.slack_table(slack, found[found["experiment"] == "slack"]))
        if not models.empty:
            parts.append(hutter2013.model_table(models, found[found["experiment"] == "timeout"]))

    def c3() -> Any:
        records = hutter2013.read_runs(arguments.results_dir)
        times = hutter2013.test_times(records)
        drawn["C3"] = hutter2013.c3(times, out)
        solvers = hutter2013.solver_slack_rows(records, SLACKS)
        parts.extend([] if solvers.empty else [hutter2013.solver_table(solvers)])
        parts.append(hutter2013.configured_table(hutter2013.medians(times)))
        parts.append(hutter2013.published_table(times))

    missing = {name: why for name, why in drawn_or_why({"C2": c2, "C3": c3}).items() if why}
    if parts:
        print(hutter2013.write(parts, out))
    code = print_files(drawn)
    return SOME_FAILED if missing else code


def do_tables(arguments: Arguments) -> int:
    """Draw the Pareto front of every shipped table; no records are needed."""
    from analysis.figures import tables

    return print_files({"tables": tables.draw_tables(arguments.out_dir)})


if __name__ == "__main__":
    run_cli(main)

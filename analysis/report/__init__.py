"""`python -m analysis report`: everything from the records on one page, `report.html`, and the same as `report.md`."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from analysis.captions import intervals
from analysis.claims import evaluate as evaluate_claims
from analysis.claims import with_reason
from analysis.claims import write as write_claims
from analysis.claims.verdicts import Verdict
from analysis.cost_models import read_if_there
from analysis.evaluations import check_same_data, filter_components, read_evaluations, tell_apart
from analysis.figures import all_figures
from analysis.hypervolumes import write_volumes
from analysis.report import page, sections, summary
from analysis.report.page import Figure, Section
from analysis.report.sections import Decided, Evaluate, Records, Settings, draw_all
from analysis.traces import Judge, Traces, collect
from analysis.tradeoffs import all_fronts
from datasets.files import write_atomically

T = TypeVar("T")
TITLE = "Cost-aware Bayesian optimization: the study from these records"


def write(
    results_dir: Path,
    out_dir: Path,
    wanted: Mapping[str, str],
    judge: Judge = "validation",
    mixed: bool = False,
    evaluate: Evaluate | None = None,
    say: Callable[[str], None] = print,
) -> None:
    """Write report.html and report.md to `out_dir`, with the figures' files and the numbers as CSV beside them.

    wanted: components whose runs to take (`traces.choose_components`). judge: whose error counts, the validation or the
    test rows'. mixed: whether records of different tables or engines are meant to stand together. evaluate: decides the
    claims; None: `analysis.claims`. say: gets every file, and what could not be made; the page says it, too, in its
    place. Raises BadInput without records.
    """
    every = tell_apart(read_evaluations(results_dir), wanted)
    if not mixed:
        check_same_data(every.specs)
    traces, settings = collect(every, wanted, judge, mixed), summary.provenance(every.specs)
    records = Records(filter_components(every, wanted), traces=traces)
    aside = meanwhile(lambda: _beside(records, results_dir, out_dir, settings, traces, evaluate, mixed))
    figures = draw_all(records, traces, out_dir, mixed, of_runs=True)
    asked, headline = sections.asked(traces, figures), sections.headline(traces)
    utilities = sections.utilities(every, results_dir, wanted, traces, out_dir, mixed)
    beside = aside()
    verdicts, without = beside.verdicts
    order = list(all_figures())
    figures = sorted([*figures, *beside.figures], key=lambda figure: order.index(figure.name))
    parts = [
        *asked,
        *sections.claims(verdicts),
        *headline,
        *utilities,
        *sections.equal_cost(figures),
        *sections.figures(figures),
        *sections.with_caveats(traces, verdicts, without),
        *beside.cost_models,
        *sections.sensitivities(out_dir, every.runs),
        *sections.leaderboard(out_dir),
        *sections.problems(settings, traces, out_dir, beside.changed),
        *sections.provenance(every.headers, settings, traces, beside.changed),
    ]
    summary.write_numbers(parts, out_dir)
    if not isinstance(verdicts, str):
        write_claims(verdicts, intervals(traces.runs), out_dir)
        write_volumes(traces, out_dir)
    for name, render in (("report.md", page.markdown), ("report.html", page.html)):
        write_atomically(out_dir / name, render(TITLE, summary.counts(traces), parts).encode())
    for figure in [*figures, *(s.figure for s in parts if s.id == "utilities-figure" and s.figure)]:
        say(f"{figure.name} was not drawn: {figure.missing}" if figure.missing else str(out_dir / f"{figure.name}.svg"))
    say(str(out_dir / "report.md"))
    say(str(out_dir / "report.html"))


@dataclass(frozen=True)
class _Beside:
    """What needs records of cost models and fronts: verdicts, figures, a section, and `sections.changed`."""

    verdicts: tuple[Decided, Decided | None]
    figures: list[Figure]
    cost_models: list[Section]
    changed: str


def _beside(
    records: Records,
    results_dir: Path,
    out_dir: Path,
    settings: Settings,
    traces: Traces,
    evaluate: Evaluate | None,
    mixed: bool,
) -> _Beside:
    """Read the records of cost models and fronts beside those of the runs, and return what is made from all."""
    costs, unreadable = read_if_there(results_dir)
    records = replace(records, costs=costs, fronts=all_fronts(results_dir))

    def judged(records: Records) -> list[Verdict]:
        found = evaluate_claims(records.evaluations, records.costs, records.fronts, traces.judge, mixed, records.traces)
        return with_reason(found, unreadable)

    figures = draw_all(records, traces, out_dir, mixed, of_runs=False)
    if unreadable:
        figures = [replace(f, missing=unreadable) if f.name in ("f2", "f8") else f for f in figures]
    return _Beside(
        sections.all_verdicts(evaluate or judged, records, traces),
        figures,
        sections.cost_models(costs, out_dir, unreadable),
        sections.changed(records, settings, traces),
    )


def _end_with_parent() -> None:
    """Wait for the end of the process that forked this one, even a killed one, and end too."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def meanwhile(work: Callable[[], T]) -> Callable[[], T]:
    """Start `work` in a fork of this process, on Linux; return what waits for the value, or raises.

    The fork shares this process's arrays; the value is pickled. Elsewhere `work` runs when waited for: there are no
    forks, or none that are safe beside system libraries with threads.
    """
    if sys.platform != "linux":
        return work
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)

    def run() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it too, and ends its children
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        threading.Thread(target=_end_with_parent, daemon=True).start()
        try:
            there.send((work(), None))
        except Exception as error:
            there.send((None, error))

    child = context.Process(target=run, daemon=True)
    child.start()
    there.close()

    def wait() -> T:
        try:
            value, error = here.recv()
        except EOFError:
            child.join()
            raise RuntimeError(
                f"a process that makes a part of the report ended with exit code {child.exitcode}"
            ) from None
        child.join()
        if error is not None:
            raise error
        return value

    return wait

"""`python -m analysis report`: everything from the records on one page, `report.html`, and the same as `report.md`."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd

from analysis.captions import intervals
from analysis.claims import evaluate, with_reason
from analysis.claims import write as write_claims
from analysis.claims.acquisitions import write_volumes
from analysis.claims.verdicts import Verdict
from analysis.cost_models import read_if_there
from analysis.report import page, sections, summary
from analysis.report import sections as origins
from analysis.report import sections as utilities
from analysis.report.page import Figure, Records
from analysis.report.sections import Evaluate, draw_all, verdicts
from analysis.report.summary import provenance
from analysis.traces import Judge, check_same_data, collect, only
from analysis.tradeoffs import all_fronts
from datasets.files import write_atomically
from harness.records import read_traces, specs

TITLE = "Cost-aware Bayesian optimization: the study from these records"


def write(
    results_dir: Path,
    out_dir: Path,
    wanted: Mapping[str, str],
    judge: Judge = "validation",
    evaluate: Evaluate | None = None,
    mixed: bool = False,
    say: Callable[[str], None] = print,
) -> None:
    """Write report.html and report.md to `out_dir`, with the figures' files and the numbers as CSV beside them.

    wanted: components whose runs to take (`components.choose`). judge: whose error counts, the validation or the test
    rows'. mixed: whether records of different tables or engines are meant to stand together. evaluate: decides the
    claims; None: `analysis.claims`. say: is told every file, and what could not be made; the page says it, too, in its
    place. Raises BadInput without records.
    """
    frame = read_traces(results_dir)
    made = specs(results_dir)
    if not mixed:
        check_same_data(made)
    traces, settings = collect(frame, wanted, judge, mixed), provenance(made)
    costs, unreadable = read_if_there(results_dir)
    records = Records(only(frame, wanted), costs, all_fronts(results_dir))
    evaluate = evaluate or partial(_claims, judge, mixed, unreadable)
    relative_csv: list[pd.DataFrame] = []
    ranks_csv: list[pd.DataFrame] = []
    every = verdicts(evaluate, records)
    figures = [_with_reason(figure, unreadable) for figure in draw_all(records, traces, out_dir, mixed)]
    changed = origins.changed(records, settings, traces)
    parts = [
        *sections.claims(every),
        *sections.headline(traces, relative_csv, ranks_csv),
        *utilities.sections(frame, results_dir, made, wanted, judge, traces, out_dir, mixed),
        *sections.figures(figures),
        *sections.marked(records, traces, evaluate, every, relative_csv, ranks_csv),
        *sections.cost_models(costs, out_dir, unreadable),
        *sections.sensitivities(out_dir, frame),
        *sections.problems(settings, traces, out_dir, changed),
        *origins.provenance(results_dir, made, settings, traces, changed),
    ]
    summary.write_numbers(out_dir, relative_csv, ranks_csv)
    if not isinstance(every, str):
        write_claims(every, intervals(traces.runs), out_dir)
        write_volumes(traces, out_dir)
    write_atomically(out_dir / "report.md", page.markdown(TITLE, summary.counts(traces), parts).encode())
    write_atomically(out_dir / "report.html", page.html(TITLE, summary.counts(traces), parts).encode())
    for figure in [*figures, *(s.figure for s in parts if s.id == "utilities-figure" and s.figure)]:
        say(f"{figure.name} was not drawn: {figure.missing}" if figure.missing else str(out_dir / f"{figure.name}.svg"))
    say(str(out_dir / "report.md"))
    say(str(out_dir / "report.html"))


def _claims(judge: Judge, mixed: bool, unreadable: str, records: Records) -> list[Verdict]:
    found = evaluate(records.frame, records.costs, records.fronts, judge, mixed)
    return with_reason(found, unreadable)


def _with_reason(figure: Figure, unreadable: str) -> Figure:
    """Return the figure; one of cost models that lacks its records, with why they cannot be read."""
    return replace(figure, missing=unreadable) if unreadable and figure.name in ("f2", "f8") else figure

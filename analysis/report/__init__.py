"""`python -m analysis report`: everything from the records on one page, `report.html`, and the same as `report.md`."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd

from analysis import summary
from analysis.costs import read_costs
from analysis.marks import marks
from analysis.provenance import provenance
from analysis.report import page, sections
from analysis.report.figures import draw_all
from analysis.report.verdicts import Evaluate, verdicts
from analysis.traces import collect
from harness.errors import BadInput
from harness.files import write_atomically
from harness.records import read_traces

Say = Callable[[str], None]


def write(
    results_dir: Path, out_dir: Path, wanted: Mapping[str, str], evaluate: Evaluate | None = None, say: Say = print
) -> None:
    """Write report.html and report.md to `out_dir`, with the figures' files and the numbers as CSV beside them.

    wanted: components whose runs to take (`components.choose`). evaluate: decides the claims, `claims.evaluate` if
    None. say: is told every file, and what could not be made; the page says it, too, in its place. Raises BadInput
    without records.
    """
    frame = read_traces(results_dir)
    traces, settings, costs = collect(frame, wanted), provenance(results_dir), _costs(results_dir)
    present = sorted(set(traces.runs["dataset"]) & set(marks()))
    evaluate = evaluate or _claims()
    relative_csv: list[pd.DataFrame] = []
    ranks_csv: list[pd.DataFrame] = []
    figures = draw_all(traces, frame, costs, out_dir)
    every = verdicts(evaluate, traces, costs, [])
    parts = [
        *sections.claims(every),
        *sections.headline(traces, relative_csv, ranks_csv),
        *sections.figures(figures),
        *sections.marked(traces, costs, present, evaluate, every, relative_csv, ranks_csv),
        *sections.extras(out_dir),
        *sections.problems(settings, traces, out_dir),
        *sections.provenance(results_dir, settings, traces),
    ]
    summary.write_numbers(out_dir, relative_csv, ranks_csv)
    title = "Cost-aware Bayesian optimization: the study from these records"
    lead = summary.counts(traces)
    write_atomically(out_dir / "report.md", page.markdown(title, lead, parts).encode())
    write_atomically(out_dir / "report.html", page.html(title, lead, parts).encode())
    for figure in figures:
        say(f"{figure.name} was not drawn: {figure.missing}" if figure.missing else str(out_dir / f"{figure.name}.svg"))
    say(str(out_dir / "report.md"))
    say(str(out_dir / "report.html"))


def _costs(results_dir: Path) -> pd.DataFrame | None:
    """Return the records of cost models; None where there are none (damaged ones are told)."""
    if not (results_dir / "costs").is_dir():
        return None
    return read_costs(results_dir)


def _claims() -> Evaluate:
    try:
        from analysis.claims import evaluate
    except ModuleNotFoundError as error:
        raise BadInput(f"the claims are not part of this installation: {error}") from None
    return evaluate

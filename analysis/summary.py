"""`summary.md`: the headline numbers with intervals, what was counted and left out, and provenance."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from analysis import headline, markdown
from analysis.marks import footnote, marked, marks
from analysis.plotting import Drawn
from analysis.provenance import lines
from analysis.scope import intervals, pairs_left_out, plural, ranks_left_out, scope
from analysis.traces import Traces
from datasets.errors import BadInput
from datasets.files import write_atomically

FAMILIES = {"cei": "EI, EIpu and CEI", "eialpha": "EI^alpha among themselves"}


def write(
    traces: Traces,
    settings: Mapping[str, Counter[str]],
    figures: Mapping[str, Drawn | str],
    out_dir: Path,
    tables: str = "",
) -> str:
    """Write summary.md, relative.csv and ranks.csv to `out_dir`; return the summary's text.

    settings: the records' provenance. figures: by name, what was drawn, or one line why it was not.
    tables: a sentence about the tables that the records replayed.
    Sections that the records do not suffice for say so in one line.
    """
    present = sorted(set(traces.runs["dataset"]) & set(marks()))
    variants: list[tuple[str, list[str]]] = [("", [])]
    if present and set(traces.runs["dataset"]) - set(present):
        variants.append((f", without {', '.join(present)}", present))
    parts = ["# Summary", counts(traces)]
    relative_csv: list[pd.DataFrame] = []
    ranks_csv: list[pd.DataFrame] = []
    for title, without in variants:
        parts += relative_section(traces, title, without, relative_csv)
    for family in FAMILIES:
        for title, without in variants:
            parts += ranks_section(traces, family, title, without, ranks_csv)
    parts += ["## Data sets", datasets_table(traces), footnote(traces.runs["dataset"]), tables]
    parts += _figures(figures)
    parts += ["## Provenance", "\n".join(lines(dict(settings))) or "The records name no further setting."]
    text = "\n\n".join(part for part in parts if part) + "\n"
    write_numbers(out_dir, relative_csv, ranks_csv)
    write_atomically(out_dir / "summary.md", text.encode())
    return text


def write_numbers(out_dir: Path, relative: list[pd.DataFrame], ranks: list[pd.DataFrame]) -> None:
    """Write relative.csv and ranks.csv, each where there is something in it."""
    for name, frames in (("relative", relative), ("ranks", ranks)):
        if frames:
            table = pd.concat(frames).to_csv(index=False, float_format="%.6g", lineterminator="\n")
            write_atomically(out_dir / f"{name}.csv", table.encode())


def counts(traces: Traces) -> str:
    """Return the sentence on the records: problems, seeds, methods, runs, evaluations, failures, components."""
    runs = traces.runs
    evaluations = int(runs["evaluations"].sum())
    failed = evaluations - int(np.isfinite(traces.error).sum())
    return (
        f"Records: {scope(runs, traces.evaluator)}, "
        f"{plural(runs['method'].nunique(), 'method')}, {plural(len(runs), 'run')}, "
        f"{plural(evaluations, 'evaluation')}, of which {failed:,} failed; "
        f"{int(runs['tau'].notna().sum()):,} runs were planned for a budget tau. Errors are {traces.judge} errors of "
        f"the configurations that were best in validation. Components: "
        f"{', '.join(f'{kind} {name}' for kind, name in traces.components.items())}. "
        f"{intervals(runs)}"
    )


def relative_section(traces: Traces, title: str, without: list[str], csv: list[pd.DataFrame]) -> list[str]:
    """Return heading, scope, table of cost and error relative to EI, and what was left out; adds numbers to `csv`."""
    heading = f"## Cost and error relative to EI{title}"
    try:
        found = headline.headline(traces, without)
    except BadInput as error:
        return [heading, f"Not computed: {error}."]
    csv.append(found.numbers.assign(judge=traces.judge, without=" ".join(without)))
    return [
        heading,
        f"Total cost and best {traces.judge} error after {found.iterations} iterations, on the same problem and seed; "
        f"EI = 100. "
        f"{scope(found.pairs.table, traces.evaluator)}.",
        markdown.table(headline.headline_table(found.numbers)),
        pairs_left_out(found.pairs, found.short, found.iterations),
    ]


def ranks_section(traces: Traces, family: str, title: str, without: list[str], csv: list[pd.DataFrame]) -> list[str]:
    """Return heading, scope, table of mean ranks per budget, and what was left out; adds numbers to `csv`."""
    heading = f"## Mean rank under a budget: {FAMILIES[family]}{title}"
    try:
        ranked = headline.budget_ranks(traces, family, without)
    except BadInput as error:
        return [heading, f"Not computed: {error}."]
    numbers, shown = headline.rank_table(ranked)
    csv.append(numbers.assign(family=family, judge=traces.judge, without=" ".join(without)))
    return [
        heading,
        f"Rank 1 is best, by the {traces.judge} error; budgets in percent of each problem's minimal budget. "
        f"{scope(ranked.cells_used, traces.evaluator)}.",
        markdown.table(shown),
        ranks_left_out(ranked),
    ]


def datasets_table(traces: Traces) -> str:
    """Return the table of data sets with their pipelines, seeds, methods, runs and evaluations."""
    grouped = traces.runs.groupby("dataset", sort=True)
    table = pd.DataFrame({
        "pipelines": grouped["pipeline"].nunique(), "seeds": grouped["seed"].nunique(),
        "methods": grouped["method"].nunique(), "runs": grouped.size(),
        "evaluations": grouped["evaluations"].sum(),
    }).reset_index(names="data set")  # fmt: skip
    return markdown.table(table.assign(**{"data set": table["data set"].map(marked)}))


def _figures(figures: Mapping[str, Drawn | str]) -> list[str]:
    parts = ["## Figures"] if figures else []
    for name, drawn in figures.items():
        if isinstance(drawn, str):
            parts.append(f"{name.upper()} was not drawn: {drawn}.")
        else:
            parts += [f"![{name.upper()}]({name}.png)", drawn.caption]
    return parts

"""The sections of the report, from what the analyses return; each says in its place what could not be made."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from analysis import costs_report, markdown, summary
from analysis import problems as problem_tables
from analysis.claims.decide import Verdict
from analysis.marks import footnote, marked_reasons, marks
from analysis.marks import marked as with_mark
from analysis.report.parts import Figure, Records, Section, plain
from analysis.report.verdicts import Evaluate, compared, count, reasons, table, verdicts
from analysis.scope import plural
from analysis.sensitivities import from_other_data
from analysis.traces import Traces
from datasets.errors import BadInput

Settings = Mapping[str, Counter[str]]


def claims(found: list[Verdict] | str) -> list[Section]:
    """Return the table of the claims, and how each was decided."""
    if isinstance(found, str):
        return [Section("claims", "The paper's claims", [found])]
    lead = f"{count(found)}. The rules were fixed before the results; a claim that does not hold is a result."
    how = Section("verdicts", "How each claim was decided", reasons(found), level=3)
    return [Section("claims", "The paper's claims", [lead, table(found)]), how]


def headline(traces: Traces, relative: list[pd.DataFrame], ranks: list[pd.DataFrame]) -> list[Section]:
    """Return the headline numbers over all data sets."""
    return [Section("numbers", "Headline numbers"), *_numbers(traces, "", [], relative, ranks, "")]


def figures(drawn: Sequence[Figure]) -> list[Section]:
    """Return one section per figure."""
    each = [Section(f.name, f"{f.name.upper()}: {f.title}", level=3, figure=f) for f in drawn]
    missing = sum(1 for f in drawn if f.missing)
    lead = f"{plural(missing, 'figure')} could not be drawn from these records; each says why." if missing else ""
    return [Section("figures", "Figures", [lead] if lead else []), *each]


def marked(
    records: Records,
    traces: Traces,
    evaluate: Evaluate,
    every: list[Verdict] | str,
    relative: list[pd.DataFrame],
    ranks: list[pd.DataFrame],
) -> list[Section]:
    """Return what is reserved about some data sets, their numbers apart, and the headline numbers without them."""
    present = sorted(set(traces.runs["dataset"]) & set(marks()))
    head = Section("marked", "Data sets with a reservation")
    if not present:
        head.text.append("None of the data sets in these records carries a reservation.")
        return [head]
    head.text.append("\n".join(f"- **{with_mark(name)}**: {plain(why)}" for name, why in marked_reasons(present)))
    others = sorted(set(traces.runs["dataset"]) - set(present))
    if not others:
        head.text.append("The records hold no other data sets: all numbers above rest on these alone.")
        return [head]
    apart = summary.relative_section(traces, f", {', '.join(present)} only", others, relative)
    without = verdicts(evaluate, records.without(present))
    again = [Section("without-claims", "The claims without them", [without] if isinstance(without, str) else [], 3)]
    if not isinstance(without, str) and not isinstance(every, str):
        again[0].text.extend([f"{count(without)}.", compared(every, without)])
    title = f", without {', '.join(present)}"
    return [
        head,
        _section("marked-apart", apart),
        *again,
        *_numbers(traces, title, present, relative, ranks, "without-"),
    ]


def cost_models(costs: pd.DataFrame | None, out_dir: Path, unreadable: str = "") -> list[Section]:
    """Return the numbers on how well cost models predict, which are written to costs.md as well.

    unreadable: why there are none though records are there.
    """
    if costs is None and not unreadable:
        return []
    title = "Cost models in numbers"
    try:
        if costs is None:
            raise BadInput(unreadable)
        return [_page("cost-models", title, costs_report.write(costs, out_dir))]
    except BadInput as error:
        return [Section("cost-models", title, [f"Not made: {plain(str(error))}."])]


def sensitivities(out_dir: Path, frame: pd.DataFrame) -> list[Section]:
    """Return what `python -m analysis sensitivities` left in `out_dir`, or how to make it; frame: the records."""
    title, path = "Sensitivities", out_dir / "sensitivities.md"
    if path.is_file():
        page, older = _page("sensitivities", title, path), from_other_data(out_dir, frame)
        return [replace(page, text=[f"**{older}**", *page.text]) if older else page]
    how = "Not made: `python -m analysis sensitivities`, with the same out_dir, compares several settings."
    return [Section("sensitivities", title, [how])]


def _page(name: str, title: str, path: Path) -> Section:
    """Return a page of Markdown as a section, its headings one level further down."""
    lines = path.read_text(encoding="utf-8").strip().splitlines()
    body = lines[1:] if lines and lines[0].startswith("# ") else lines
    return Section(name, title, ["\n".join(f"#{line}" if line.startswith("#") else line for line in body).strip()])


def problems(settings: Settings, traces: Traces, out_dir: Path, changed: str = "") -> list[Section]:
    """Return the table of the problems: from the measured tables, or for live runs from the runs themselves.

    changed: what is not of these tables (`origins.changed`).
    """
    folder = problem_tables.folder_of(settings, traces)
    note = footnote(traces.runs["dataset"])
    if folder is None:
        text = ["What the runs saw of each problem: these records are not replays of one folder of tables.",
                markdown.table(problem_tables.seen(traces))]  # fmt: skip
    else:
        try:
            frame = problem_tables.write(problem_tables.lines_of(traces, folder), out_dir)
            shown = markdown.table(frame.assign(dataset=frame["dataset"].map(with_mark)))
            lead = f"{problem_tables.counted(frame)} {problem_tables.COSTS}"
        except BadInput as error:
            shown = markdown.table(problem_tables.seen(traces))
            lead = f"What the runs saw of each problem: the tables cannot be read now: {plain(str(error))}."
        text = [*([f"**{changed}**"] if changed else []), lead, shown]
    sets = Section("datasets", "Data sets", [summary.datasets_table(traces), *([note] if note else [])], level=3)
    return [Section("problems", "The problems", text), sets]


def _numbers(
    traces: Traces, title: str, without: list[str], relative: list[pd.DataFrame], ranks: list[pd.DataFrame], prefix: str
) -> list[Section]:
    out = [_section(f"{prefix}relative", summary.relative_section(traces, title, without, relative))]
    for family in summary.FAMILIES:
        out.append(_section(f"{prefix}ranks-{family}", summary.ranks_section(traces, family, title, without, ranks)))
    return out


def _section(name: str, parts: list[str]) -> Section:
    """Return what the summary wrote as a section; its first part is the heading."""
    return Section(name, parts[0].lstrip("# "), [part for part in parts[1:] if part], level=3)

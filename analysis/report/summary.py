"""The headline numbers (relative cost and error, mean ranks), where they come from, and `summary.md` made of them."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.captions import (
    OF_SUMS,
    caveats,
    ended_early,
    footnote,
    format_intervals,
    intervals,
    markdown_table,
    pairs_left_out,
    plural,
    ranks_left_out,
    scope,
    too_short_notes,
    with_caveat,
    write_csv,
)
from analysis.methods import by_method, name_in_text, ordered
from analysis.plotting import Drawn
from analysis.ranks import FAMILIES, Ranks, minimal_budgets, rank_curves, ranks
from analysis.report.page import Section, markdown
from analysis.selection import at_horizon, horizon, rivals_within_budgets, select_families
from analysis.traces import Traces
from analysis.tradeoffs import relative_to_ei, tradeoff
from datasets.errors import BadInput
from datasets.files import write_atomically

NAMES = {"cei": "EI, EIpu and CEI", "eialpha": "EI^alpha"}
VARIED = {"dataset", "pipeline", "dataset_config", "pipeline_config", "acq", "method", "rule", "lam", "alpha"}
"""What the study's grid varies and the summary's tables show; the rest is provenance."""


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
    present = sorted(set(traces.runs["dataset"]) & set(caveats()))
    variants: list[tuple[str, list[str]]] = [("", [])]
    if present and set(traces.runs["dataset"]) - set(present):
        variants.append((f", without {', '.join(present)}", present))
    sections = [relative_section(traces, title, without, level=2) for title, without in variants]
    for family in NAMES:
        sections += [ranks_section(traces, family, title, without, level=2) for title, without in variants]
    drawn: list[str] = []
    for name, one in figures.items():
        reason = f"{name.upper()} was not drawn: {one}."
        drawn += [reason] if isinstance(one, str) else [f"![{name.upper()}]({name}.png)", one.caption]
    sections += [
        Section("datasets", "Data sets", [datasets_table(traces), footnote(traces.runs["dataset"]), tables]),
        *([Section("figures", "Figures", drawn)] if drawn else []),
        Section("provenance", "Provenance", ["\n".join(lines(settings)) or "The records name no further setting."]),
    ]
    text = markdown("Summary", counts(traces), sections)
    write_numbers(sections, out_dir)
    write_atomically(out_dir / "summary.md", text.encode())
    return text


def write_numbers(sections: Sequence[Section], out_dir: Path) -> None:
    """Write the sections' numbers to relative.csv and ranks.csv, each where there is something in it."""
    for name in ("relative", "ranks"):
        frames = [section.numbers for section in sections if section.table == name and section.numbers is not None]
        if frames:
            write_csv(pd.concat(frames), out_dir / f"{name}.csv")


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


def relative_section(traces: Traces, title: str, without: list[str], name: str = "relative", level: int = 3) -> Section:
    """Compare every method with EI after N iterations, leaving the data sets `without` aside."""
    title = f"Cost and error relative to EI{title}"
    try:
        n = horizon(traces)
        equal, short = at_horizon(_leave_aside(traces, without), n)
        pairs = relative_to_ei(equal, "the summary")
        numbers = tradeoff(pairs, ordered(pairs.table))
    except BadInput as error:
        return Section(name, title, [f"Not computed: {error}."], level)
    shown = by_method(numbers)[["n"]].rename(columns={"n": "pairs"})
    for measure, what in (("cost_pct", "cost"), ("error_pct", "error")):
        for statistic, rows in numbers.groupby("statistic", sort=True):
            triples = rows.set_index("method").loc[shown.index, [measure, f"{measure}_low", f"{measure}_high"]]
            shown[f"{statistic} {what} (%)"] = format_intervals(triples, 2)
    text = [
        f"Total cost and best {traces.judge} error after {n} iterations, on the same problem; EI = 100. "
        f"{scope(pairs.table, traces.evaluator)}. {OF_SUMS}",
        markdown_table(shown.rename(index=name_in_text).reset_index()),
        pairs_left_out(pairs, short, n),
    ]
    csv = numbers.assign(judge=traces.judge, without=" ".join(without))
    return Section(name, title, text, level, table="relative", numbers=csv)


def ranks_section(
    traces: Traces, family: str, title: str, without: list[str], name: str = "ranks", level: int = 3
) -> Section:
    """Rank a family of `ranks.FAMILIES` and its rivals at the whole budgets, leaving the data sets `without` aside: as
    the paper does, and at equal money.
    """
    title = f"Mean rank under a budget: {NAMES[family]} and rivals{title}"
    traces = _leave_aside(traces, without)
    runs, own = traces.runs, select_families(traces, "alpha")
    try:
        if own.runs.empty:
            found = ", ".join(ordered(runs)) or "no run"
            raise BadInput(f"the minimal budget needs a method of EI^alpha: the records hold {found}")
        equal, _ = at_horizon(own, horizon(traces))
        budgets = minimal_budgets(equal, "the summary")
        methods = FAMILIES[family](runs) + rivals_within_budgets(traces, budgets)
        both = [ranks(traces, budgets, methods, shares=np.ones(1), what="the summary", equal_money=money)
                for money in (False, True)]  # fmt: skip
    except BadInput as error:
        return Section(name, title, [f"Not computed: {error}."], level)
    (numbers, shown), (at_money, shown_at_money) = map(rank_table, both)
    numbers = pd.concat([numbers.assign(equal_money=False), at_money.assign(equal_money=True)])
    text = [
        f"Rank 1 is best, by the {traces.judge} error; budgets in percent of each problem's minimal budget. "
        f"{scope(both[0].cells_used, traces.evaluator)}.",
        markdown_table(shown),
        ranks_left_out(both[0]),
        "The same at equal money:",
        markdown_table(shown_at_money),
        ended_early(both[1]),
    ]
    csv = numbers.assign(family=family, judge=traces.judge, without=" ".join(without))
    return Section(name, title, text, level, table="ranks", numbers=csv)


def rank_table(ranked: Ranks) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the mean ranks as numbers, and as a table to print with one row per method.

    The heading of a budget that does not count says how many runs are too short for it.
    """
    numbers = rank_curves(ranked).drop(columns="share")
    methods = ranked.taking_part
    shown = pd.DataFrame({"method": [name_in_text(method) for method in methods]})
    marks = dict(zip(ranked.multiples, too_short_notes(ranked), strict=True))
    for multiple, rows in numbers.groupby("multiple", sort=True):
        triples = rows.set_index("method").reindex(methods)[["value", "low", "high"]]
        mark = f" ({marks[multiple]})" if marks[multiple] else ""
        shown[f"{multiple:.0%}{mark}"] = format_intervals(triples, 2)
    return numbers, shown


def _leave_aside(traces: Traces, datasets: list[str]) -> Traces:
    return traces.select(~traces.runs["dataset"].isin(datasets).to_numpy())


def datasets_table(traces: Traces) -> str:
    """Return the table of data sets with their pipelines, seeds, methods, runs and evaluations."""
    grouped = traces.runs.groupby("dataset", sort=True)
    table = pd.DataFrame({
        "pipelines": grouped["pipeline"].nunique(), "seeds": grouped["seed"].nunique(),
        "methods": grouped["method"].nunique(), "runs": grouped.size(),
        "evaluations": grouped["evaluations"].sum(),
    }).reset_index(names="data set")  # fmt: skip
    return markdown_table(table.assign(**{"data set": table["data set"].map(with_caveat)}))


def provenance(made: Sequence[Mapping[str, Any]]) -> dict[str, Counter[str]]:
    """Return the values, and their block counts, of every setting in the specs that the study's grid does not vary.

    Blocks without a setting that others have count under "".
    """
    return {
        key: Counter(json.dumps(spec[key], sort_keys=True) if key in spec else "" for spec in made)
        for key in sorted({key for spec in made for key in spec.keys() - VARIED})
    }


def lines(settings: Mapping[str, Counter[str]], most: int = 3) -> list[str]:
    """Return one Markdown line per setting: its values with block counts, or how many there are when many."""
    out = []
    for key, found in settings.items():
        if len(found) > most:
            out.append(f"- {key}: {len(found)} different values")
            continue
        ordered_values = sorted(found.items(), key=lambda item: (not item[0], item[0]))  # "not set" last
        values = [f"`{value}`" if value else "not set" for value, _ in ordered_values]
        if len(found) > 1:
            values = [f"{value} ({n:,} blocks)" for value, (_, n) in zip(values, ordered_values, strict=True)]
        out.append(f"- {key}: {', '.join(values)}")
    return out

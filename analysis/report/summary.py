"""The headline numbers (relative cost and error, mean ranks), where they come from, and `summary.md` made of them."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis import captions
from analysis.captions import (
    caveats,
    footnote,
    intervals,
    marked,
    pairs_left_out,
    plural,
    ranks_left_out,
    scope,
    too_short_marks,
)
from analysis.plotting import Drawn
from analysis.ranks import Ranks, minimal_budgets, rank_curves, ranks
from analysis.selection import at_horizon, horizon, of_families
from analysis.traces import EI, EIPU, Traces, ordered
from analysis.tradeoffs import Relative, relative_to_ei, tradeoff
from datasets.errors import BadInput
from datasets.files import write_atomically


@dataclass(frozen=True)
class Headline:
    """Relative cost and error of all methods: `numbers` as `tradeoff` gives them, and what they rest on."""

    numbers: pd.DataFrame
    pairs: Relative
    short: int
    iterations: int


def headline(traces: Traces, without: list[str]) -> Headline:
    """Compare every method with EI after N iterations, leaving the data sets `without` aside.

    Raises BadInput without runs of `ei`.
    """
    n = horizon(traces)
    equal, short = at_horizon(_without(traces, without), n)
    pairs = relative_to_ei(equal, "the summary")
    return Headline(tradeoff(pairs, ordered(pairs.table)), pairs, short, n)


def headline_table(numbers: pd.DataFrame) -> pd.DataFrame:
    """Return the numbers as a table to print: one row per method, ``value [low, high]`` in percent of EI."""
    shown = numbers.drop_duplicates("method").set_index("method")[["n"]].rename(columns={"n": "pairs"})
    for measure, what in (("cost_pct", "cost"), ("error_pct", "error")):
        for statistic, rows in numbers.groupby("statistic", sort=True):
            triples = rows.set_index("method").loc[shown.index, [measure, f"{measure}_low", f"{measure}_high"]]
            shown[f"{statistic} {what} (%)"] = [
                captions.format_interval(v, low, high, digits=2) for v, low, high in triples.to_numpy()
            ]
    return shown.reset_index()


def budget_ranks(traces: Traces, family: str, without: list[str]) -> Ranks:
    """Rank a family at the whole budgets: ``cei`` with EI and EIpu (F6), or ``eialpha`` with both.

    Raises BadInput where the methods are too few.
    """
    traces = _without(traces, without)
    runs, own = traces.runs, of_families(traces, "alpha")
    if own.runs.empty:
        found = ", ".join(ordered(runs)) or "no run"
        raise BadInput(f"the minimal budget needs a method of EI^alpha: the records hold {found}")
    equal, _ = at_horizon(own, horizon(traces))
    member = runs["lam"].notna() | runs["method"].isin([EI, EIPU]) if family == "cei" else runs["alpha"].notna()
    budgets = minimal_budgets(equal, "the summary")
    return ranks(traces, budgets, ordered(runs[member]), shares=np.ones(1), what="the summary")


def rank_table(ranked: Ranks) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the mean ranks as numbers, and as a table to print with one row per method.

    The heading of a budget that does not count says how many runs are too short for it.
    """
    numbers = rank_curves(ranked).drop(columns="share")
    shown = pd.DataFrame({"method": ranked.methods})
    marks = dict(zip(ranked.multiples, too_short_marks(ranked), strict=True))
    for multiple, rows in numbers.groupby("multiple", sort=True):
        triples = rows.set_index("method").loc[ranked.methods, ["value", "low", "high"]].to_numpy()
        mark = f" ({marks[multiple]})" if marks[multiple] else ""
        shown[f"{multiple:.0%}{mark}"] = [captions.format_interval(v, low, high, digits=2) for v, low, high in triples]
    return numbers, shown


def _without(traces: Traces, datasets: list[str]) -> Traces:
    return traces.select(~traces.runs["dataset"].isin(datasets).to_numpy())


# Where the numbers come from: what the records' own specs say, one line per setting.

VARIED = {"dataset", "pipeline", "dataset_config", "pipeline_config", "acq", "method", "rule", "lam", "alpha"}
"""What the study's grid varies and the summary's tables show; the rest is provenance."""


def provenance(made: Sequence[Mapping[str, Any]]) -> dict[str, Counter[str]]:
    """Return the values, and their block counts, of every setting in the specs that the study's grid does not vary.

    Blocks without a setting that others have count under "".
    """
    return {
        key: Counter(json.dumps(spec[key], sort_keys=True) if key in spec else "" for spec in made)
        for key in sorted({key for spec in made for key in spec.keys() - VARIED})
    }


def _last_without(item: tuple[str, int]) -> tuple[bool, str]:
    return not item[0], item[0]


def lines(settings: dict[str, Counter[str]], most: int = 3) -> list[str]:
    """Return one Markdown line per setting: its values with block counts, or how many there are when many."""
    out = []
    for key, counts in settings.items():
        if len(counts) > most:
            out.append(f"- {key}: {len(counts)} different values")
            continue
        shown = {f"`{value}`" if value else "not set": n for value, n in sorted(counts.items(), key=_last_without)}
        values = [value + (f" ({n:,} blocks)" if len(counts) > 1 else "") for value, n in shown.items()]
        out.append(f"- {key}: {', '.join(values)}")
    return out


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
    present = sorted(set(traces.runs["dataset"]) & set(caveats()))
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
        found = headline(traces, without)
    except BadInput as error:
        return [heading, f"Not computed: {error}."]
    csv.append(found.numbers.assign(judge=traces.judge, without=" ".join(without)))
    return [
        heading,
        f"Total cost and best {traces.judge} error after {found.iterations} iterations, on the same problem and seed; "
        f"EI = 100. "
        f"{scope(found.pairs.table, traces.evaluator)}.",
        captions.markdown_table(headline_table(found.numbers)),
        pairs_left_out(found.pairs, found.short, found.iterations),
    ]


def ranks_section(traces: Traces, family: str, title: str, without: list[str], csv: list[pd.DataFrame]) -> list[str]:
    """Return heading, scope, table of mean ranks per budget, and what was left out; adds numbers to `csv`."""
    heading = f"## Mean rank under a budget: {FAMILIES[family]}{title}"
    try:
        ranked = budget_ranks(traces, family, without)
    except BadInput as error:
        return [heading, f"Not computed: {error}."]
    numbers, shown = rank_table(ranked)
    csv.append(numbers.assign(family=family, judge=traces.judge, without=" ".join(without)))
    return [
        heading,
        f"Rank 1 is best, by the {traces.judge} error; budgets in percent of each problem's minimal budget. "
        f"{scope(ranked.cells_used, traces.evaluator)}.",
        captions.markdown_table(shown),
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
    return captions.markdown_table(table.assign(**{"data set": table["data set"].map(marked)}))


def _figures(figures: Mapping[str, Drawn | str]) -> list[str]:
    parts = ["## Figures"] if figures else []
    for name, drawn in figures.items():
        if isinstance(drawn, str):
            parts.append(f"{name.upper()} was not drawn: {drawn}.")
        else:
            parts += [f"![{name.upper()}]({name}.png)", drawn.caption]
    return parts

"""Words and tables for captions and pages: Markdown tables, numbers with intervals, caveats, and what was counted."""

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

import datasets
import pipelines
from analysis.selection import CAP, FEWEST_DATASETS, REACHED, SHORT, USED_UP, left_aside
from analysis.statistics import in_use
from analysis.traces import CELL, PROBLEM, ordered
from datasets.catalogue import entries

if TYPE_CHECKING:
    from analysis.ranks import Ranks
    from analysis.tradeoffs import Relative


def markdown_table(frame: pd.DataFrame) -> str:
    """Return a Markdown table of the frame's columns; numbers as `number` writes them."""
    header = [str(c) for c in frame.columns]
    rows = [[_cell(v) for v in row] for row in frame.itertuples(index=False, name=None)]
    ruler = ["---:" if pd.api.types.is_numeric_dtype(frame[c]) else "---" for c in frame.columns]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [header, ruler, *rows])


def format_number(value: float) -> str:
    """Return a number with four significant digits (whole ones in full), or ``-`` for NaN."""
    if np.isnan(value):
        return "-"
    if float(value).is_integer() or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def format_interval(value: float, low: float, high: float, digits: int = 1) -> str:
    """Return e.g. ``50.1 [48.0, 52.3]``, or ``-`` for NaN."""
    if np.isnan(value):
        return "-"
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def _cell(value: object) -> str:
    if isinstance(value, int | float | np.number):
        return format_number(float(value))
    return str(value).replace("|", "\\|").replace("\n", " ")


# Caveats about data sets (partial, a stand-in, of uncertain identity), shown beside their names.

DAGGER = "†"


def caveats() -> dict[str, str]:
    """Return the mark of every marked data set: one is marked as soon as any of its sources is."""
    found = {name: {s.mark for s in entry.sources} - {""} for name, entry in entries().items()}
    return {name: ", ".join(sorted(m)) for name, m in found.items() if m}


def marked(name: str) -> str:
    """Return a data set's name as tables and reports write it: with a dagger and the mark, if it has one."""
    mark = caveats().get(name)
    return f"{name}{DAGGER} ({mark})" if mark else name


def footnote(names: Iterable[str]) -> str:
    """Return the sentence that names the marked data sets among `names`; "" if there is none."""
    listed = [marked(name) for name in sorted(set(names)) if name in caveats()]
    return f"Marked data sets: {', '.join(listed)}." if listed else ""


def marked_reasons(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return (name, what is reserved about it) of the marked data sets among `names`, in the catalogue's words."""
    found = []
    for name in sorted(set(names) & set(caveats())):
        sources = [source for source in entries()[name].sources if source.mark]
        found.append((name, " ".join(dict.fromkeys(s.note for s in sources if s.note)) or caveats()[name]))
    return found


# Sentences that say what a number was taken over: problems, seeds, methods, evaluator, what was left out.

_NONE = "none"


@cache
def study_problems() -> set[tuple[str, str]]:
    """Return the (dataset, pipeline) pairs of the whole study."""
    return {(d, p) for d in datasets.names() for p in pipelines.names()}


def of_study(values: pd.Series) -> pd.Series:
    """Return the values, by (dataset, pipeline, seed), of the study's problems; all of them where none is the study's.

    Data sets of single figures (a1a, splice) do not mix with the study's, whose problems come in eights.
    """
    problems = values.index.to_frame()[PROBLEM].itertuples(index=False, name=None)
    own = [k for k, problem in enumerate(problems) if problem in study_problems()]
    return values.iloc[own] if own else values


def scope(cells: pd.DataFrame, evaluator: str) -> str:
    """Return e.g. ``18 of 144 problems, 10 seeds (replay)`` for the cells (dataset, pipeline, seed).

    Where not every problem has every seed: ``18 of 144 problems, 2 seeds, 19 problem-seed pairs of 1 to 2 seeds each``.
    """
    own = cells[CELL].drop_duplicates()
    present = set(own[PROBLEM].drop_duplicates().itertuples(index=False, name=None))
    study = study_problems()
    others = len(present - study)
    extra = f" and {others} outside the study" if others else ""
    seeds = own["seed"].nunique()
    uneven = ""
    if len(own) < len(present) * seeds:
        each = own.groupby(PROBLEM, observed=True).size()
        span = f"{each.min()} to {each.max()}" if each.min() < each.max() else f"{each.max()}"
        uneven = f", {plural(len(own), 'problem-seed pair')} of {span} seed{'' if each.max() == 1 else 's'} each"
    return f"{len(present & study)} of {len(study)} problems{extra}, {plural(seeds, 'seed')}{uneven} ({evaluator})"


def intervals(cells: pd.DataFrame) -> str:
    """Return what the intervals are, and what they cannot cover when there is only one data set."""
    one = " One data set only: they do not cover differences between data sets."
    name = {
        "hierarchical": "95 % hierarchical paired bootstrap intervals.",
        "plain": "95 % plain paired bootstrap intervals (single runs resampled).",
    }[in_use()]
    return name + (one if cells["dataset"].nunique() == 1 else "")


def plural(n: int, noun: str) -> str:
    """Return e.g. ``1 seed``, ``10 seeds``."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def span(counts: pd.Series, noun: str) -> str:
    """Return e.g. ``1,440 pairs per method``, or ``180 to 1,440 pairs per method`` where methods differ."""
    low, high = int(counts.min()), int(counts.max())
    return f"{plural(low, noun) if low == high else f'{low:,} to {plural(high, noun)}'} per method"


def sentence(*parts: str) -> str:
    """Join the parts that are not empty."""
    return " ".join(part for part in parts if part)


def pairs_left_out(pairs: "Relative", short: int, n: int) -> str:
    """Return the sentence on the runs and pairs that a relative number leaves out."""
    return sentence(
        f"Left out: {plural(short, 'run')} of fewer than {n} iterations or planned for another length, "
        f"{pairs.unpaired:,} without EI's run, {plural(pairs.zero, 'pair')} in which EI's error is 0, "
        f"{pairs.failed:,} without a successful evaluation.",
        _fewer_pairs(pairs.table),
    )


def _fewer_pairs(table: pd.DataFrame) -> str:
    """Return the sentence on methods that are not on all of the pairs, and so on other problems than the rest."""
    names, counts = ordered(table), table["method"].value_counts()
    parts = [
        f"{', '.join(name for name in names if counts[name] == n)} ({n:,})" for n in sorted(set(counts), reverse=True)
    ][1:]
    return f"On fewer than all {counts.max():,} pairs, and not quite comparable: {'; '.join(parts)}." if parts else ""


def ranks_left_out(ranked: "Ranks") -> str:
    """Return the sentences on capped and unfinished runs per budget, and on the cells left out."""
    return (
        f"{ended_early(ranked)} Left out: {plural(ranked.left_out, 'problem-seed pair')} without runs of every method."
        f"{_planning(ranked)}{left_aside(ranked.sparse)}"
    )


def too_short_marks(ranked: "Ranks") -> list[str]:
    """Return, per budget, the mark of one that does not count, such as ``99% of runs too short``; "" otherwise."""
    short = ranked.part(ranked.short)
    return [
        "" if counts else f"{share:.0%} of runs too short" for share, counts in zip(short, ranked.counting, strict=True)
    ]


def ended_early(ranked: "Ranks") -> str:
    """Return the sentences on runs that ended before a budget was spent, and on what they make a budget leave out."""
    names = [f"{m:.0%}" for m in ranked.multiples]
    ways = ((f"reached {CAP} iterations", REACHED), ("used up their table", USED_UP), ("were planned shorter", SHORT))
    shares = ((words, _shares(ranked, ranked.ending == way)) for words, way in ways)
    of_these = [f"{words}: {share}" for words, share in shares if share != _NONE]
    gone = [f"{n:,} ({name})" for n, name in zip((~ranked.used & ranked.there).sum(axis=0), names, strict=True) if n]
    how = f" ({'; '.join(of_these)})" if of_these else ""
    refused = [name for name, counts in zip(names, ranked.counting, strict=True) if not counts]
    return sentence(
        f"Runs that ended before the budget was spent, and count with their final incumbent: "
        f"{_shares(ranked, ranked.capped)}{how}.",
        f"Problem-seed pairs left out of a budget for which runs were planned too short: {', '.join(gone)}."
        if gone else "",
        f"Budgets at which fewer than {FEWEST_DATASETS} data sets (or not all) would be left, so that all pairs are "
        f"shown and no claim is decided: {', '.join(refused)}." if refused else "",
        f"Runs without a successful evaluation within the budget, which rank last: "
        f"{_shares(ranked, ranked.unfinished)}.",
    )  # fmt: skip


def _shares(ranked: "Ranks", which: np.ndarray) -> str:
    """Return the shares of runs per budget, of the budgets at which there are any."""
    shares = zip(ranked.part(which), ranked.multiples, strict=True)
    return ", ".join(f"{share:.1%} ({m:.0%})" for share, m in shares if share > 0) or _NONE


def _planning(ranked: "Ranks") -> str:
    """Return the sentence on the methods that plan with the budget, and take part at some budgets only."""
    absent = [m for k, m in enumerate(ranked.methods) if not ranked.present[:, k].all()]
    parts: list[str] = []
    for method in absent:
        there = ranked.present[:, ranked.methods.index(method)]
        at = ", ".join(f"{m:.0%}" for m in ranked.multiples[there]) or "no budget"
        parts.append(f" {method} plans with its budget and takes part where nine in ten pairs have its run: at {at}.")
    lacking = zip((~ranked.there).sum(axis=0), ranked.multiples, strict=True)
    without = ", ".join(f"{n:,} ({m:.0%})" for n, m in lacking if n)
    parts += [f" Pairs left out of a budget for want of such a run: {without}."] if without else []
    return "".join(parts)

"""Words and tables for captions and pages: Markdown tables, numbers with intervals, caveats, and what was counted."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

import datasets
import pipelines
from analysis.evaluations import CELL
from analysis.methods import PROBLEM, name_in_text, ordered
from analysis.selection import CAP, FEWEST_DATASETS, LEAST_SPENT, REACHED, SHORT, USED_UP, sentence_on_sparse_methods
from analysis.statistics import FEWEST_FOR_MEDIAN, Scheme, in_use
from datasets.catalogue import entries
from datasets.files import write_atomically
from harness.progress import plural as plural

if TYPE_CHECKING:
    from analysis.ranks import Ranks
    from analysis.tradeoffs import Relative


def write_page(path: Path, parts: Iterable[str]) -> Path:
    """Write the parts of a Markdown page, a blank line between two, and return its path; empty parts are left out."""
    write_atomically(path, ("\n\n".join(part for part in parts if part) + "\n").encode())
    return path


def write_csv(numbers: pd.DataFrame, path: Path, digits: int | None = 6) -> None:
    """Write numbers with so many significant digits; None: all of them."""
    form = f"%.{digits}g" if digits else None
    write_atomically(path, numbers.to_csv(index=False, float_format=form, lineterminator="\n").encode())


def markdown_table(frame: pd.DataFrame) -> str:
    """Return a Markdown table of the frame's columns; numbers as `format_number` writes them.

    Cells are not padded, as pandas' own tables are: those of claims are hundreds of letters wide.
    """

    def cell(value: object) -> str:
        if isinstance(value, int | float | np.number):
            return format_number(float(value))
        return str(value).replace("|", "\\|").replace("\n", " ")

    header = [str(c) for c in frame.columns]
    rows = [[cell(v) for v in row] for row in frame.itertuples(index=False, name=None)]
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
    """Return e.g. ``50.1 [48.0, 52.3]``, ``50.1`` without an interval, or ``-`` for NaN."""
    if np.isnan(value):
        return "-"
    if np.isnan(low) or np.isnan(high):
        return f"{value:.{digits}f}"
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def format_intervals(rows: pd.DataFrame, digits: int = 1) -> list[str]:
    """Return `format_interval` of each row; its three columns are value, low and high."""
    return [format_interval(value, low, high, digits) for value, low, high in rows.to_numpy(dtype=float)]


# Caveats about data sets (partial, a stand-in, of uncertain identity), shown beside their names.

DAGGER = "†"


@cache
def caveats() -> dict[str, str]:
    """Return the caveat of every data set that has one: of any of its sources."""
    found = {name: sorted({s.mark for s in entry.sources} - {""}) for name, entry in entries().items()}
    return {name: ", ".join(words) for name, words in found.items() if words}


def with_caveat(name: str) -> str:
    """Return a data set's name as tables and reports write it: with a dagger and its caveat, if it has one."""
    return f"{name}{DAGGER} ({caveats()[name]})" if name in caveats() else name


def footnote(names: Iterable[str]) -> str:
    """Return the sentence that names the data sets with a caveat among `names`; "" if there is none."""
    listed = [with_caveat(name) for name in sorted(set(names)) if name in caveats()]
    return f"Marked data sets: {', '.join(listed)}." if listed else ""


def caveat_notes(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return (name, reason) of the data sets with a caveat among `names`, in the catalogue's words."""
    found = []
    for name in sorted(set(names) & set(caveats())):
        notes = [source.note for source in entries()[name].sources if source.mark and source.note]
        found.append((name, " ".join(dict.fromkeys(notes)) or caveats()[name]))
    return found


# Sentences that say what a number was taken over: problems, seeds, methods, evaluator, what was left out.


@cache
def study_problems() -> set[tuple[str, str]]:
    """Return the (dataset, pipeline) pairs of the whole study."""
    return {(d, p) for d in datasets.names() for p in pipelines.names()}


def study_values(values: pd.Series) -> pd.Series:
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


def intervals(cells: pd.DataFrame, medians: bool = True, scheme: Scheme | None = None) -> str:
    """Return what the intervals are, and what they cannot cover when there is only one data set.

    medians: whether medians are shown, too. scheme: by which they are made, None for the one in use.
    """
    scheme, sets = in_use() if scheme is None else scheme, cells["dataset"].nunique()
    one, few = sets == 1, sets < FEWEST_FOR_MEDIAN
    of_medians = f"none for fewer than {FEWEST_FOR_MEDIAN} data sets" if few else "data sets resampled"
    name = {
        "datasets": "95 % t intervals over data sets (paired, averaged within each"
        f"{f'; of medians, {of_medians}' * medians}).",
        "hierarchical": "95 % hierarchical paired bootstrap intervals.",
        "plain": "95 % plain paired bootstrap intervals (single runs resampled).",
    }[scheme]
    if one and scheme == "datasets":
        hint = " (bootstrap=plain resamples its runs)" if in_use() == scheme else ""
        return f"No intervals: one data set only{hint}."
    return name + (" One data set only: they do not cover differences between data sets." if one else "")


def span(counts: pd.Series, noun: str) -> str:
    """Return e.g. ``1,440 pairs per method``, or ``180 to 1,440 pairs per method`` where methods differ."""
    low, high = int(counts.min()), int(counts.max())
    return f"{plural(low, noun) if low == high else f'{low:,} to {plural(high, noun)}'} per method"


def sentence(*parts: str) -> str:
    """Join the parts that are not empty."""
    return " ".join(part for part in parts if part)


def left_out(*parts: tuple[int, str, str]) -> str:
    """Return the sentence on what is left out: how many, of what, and which; "" where each part is none."""
    found = [f"{plural(n, what)} {which}" for n, what, which in parts if n]
    return f"Left out: {', '.join(found)}." if found else ""


MEANS_OF_SUMS = "Means are of sums over the seeds of a problem."
OF_SUMS = f"{MEANS_OF_SUMS[:-1]}, medians of single runs."


def pairs_left_out(pairs: "Relative", short: int, n: int) -> str:
    """Return the sentences on the runs and pairs that a relative number leaves out, and on methods with fewer pairs."""
    names, counts = ordered(pairs.table), pairs.table["method"].value_counts()
    fewer = [
        f"{', '.join(name_in_text(name) for name in names if counts[name] == n)} ({n:,})"
        for n in sorted(set(counts), reverse=True)
    ][1:]
    return sentence(
        left_out(
            (short, "run", f"of fewer than {n} iterations or planned for another length"),
            (pairs.unpaired, "run", "without EI's"),
            (pairs.zero, "pair", "in which EI's error is 0"),
            (pairs.failed, "pair", "without a successful evaluation"),
        ),
        f"On fewer than all {counts.max():,} pairs, and not quite comparable: {'; '.join(fewer)}." if fewer else "",
    )


def ranks_left_out(ranked: "Ranks") -> str:
    """Return the sentences on capped and unfinished runs per budget, on the cells left out, and on methods that plan
    with the budget and take part at some budgets only.
    """
    parts = [ended_early(ranked), left_out((ranked.left_out, "problem-seed pair", "without runs of every method"))]
    for method, there in zip(ranked.methods, ranked.present.T, strict=True):
        if not there.all():
            at = ", ".join(f"{m:.0%}" for m in ranked.multiples[there]) or "no budget"
            parts.append(
                f"{name_in_text(method)} plans with its budget and takes part where nine in ten pairs have the runs of "
                f"all that do: at {at}."
            )
    lacking = zip((~ranked.there).sum(axis=0), ranked.multiples, strict=True)
    without = ", ".join(f"{n:,} ({m:.0%})" for n, m in lacking if n)
    parts += [f"Pairs left out of a budget for want of such a run: {without}."] if without else []
    return sentence(*parts) + sentence_on_sparse_methods(ranked.sparse)


def too_short_notes(ranked: "Ranks") -> list[str]:
    """Return, per budget, a note on one that does not count, such as ``99% of runs too short``; "" otherwise."""
    found = zip(ranked.counting, ranked.long_enough, ranked.part(ranked.short), ranked.using_up, strict=True)
    return [
        "" if counts else f"only {used:.1%} of runs use it up" if enough else f"{short:.0%} of runs too short"
        for counts, enough, short, used in found
    ]


def ended_early(ranked: "Ranks", beside: "Ranks | None" = None) -> str:
    """Return the sentences on runs that ended before a budget was spent, and on what they make a budget leave out.

    beside: ranks of the same runs about which the same has just been said; what is no different is not said again.
    """
    said = () if beside is None else _on_endings(beside)
    return sentence(*(part for part in _on_endings(ranked) if part not in said))


def _on_endings(ranked: "Ranks") -> tuple[str, ...]:
    def shares(which: np.ndarray) -> str:
        found = zip(ranked.part(which), ranked.multiples, strict=True)
        return ", ".join(f"{share:.1%} ({m:.0%})" for share, m in found if share > 0)

    names = [f"{m:.0%}" for m in ranked.multiples]
    ways = ((f"reached {CAP} iterations", REACHED), ("used up their table", USED_UP), ("were planned shorter", SHORT))
    reasons = [f"{words}: {shares(ranked.ending == way)}" for words, way in ways if shares(ranked.ending == way)]
    how = f": {'; '.join(reasons) or 'none'}"
    if len(reasons) == 1:  # its shares are those of all
        how = f" ({reasons[0].partition(': ')[0]}): {shares(ranked.capped)}"
    gone = [f"{n:,} ({name})" for n, name in zip(ranked.too_short, names, strict=True) if n]
    refused = [name for name, enough in zip(names, ranked.long_enough, strict=True) if not enough]
    unspent = [name for name, counts in zip(names, ranked.counting, strict=True) if not counts and name not in refused]
    cut = zip(ranked.cut_at, names, strict=True) if ranked.equal_money else ()
    money = [f"{share:.0%} ({name})" for share, name in cut if not np.isnan(share)]
    return (
        f"All runs of a pair are cut at what the cheapest of them spent within the budget, in the median "
        f"{', '.join(money)} of it." if ranked.equal_money else "",
        f"Runs that ended before the budget was spent{how}.",
        "They count with their final incumbent." if reasons and not ranked.equal_money else "",
        f"Problem-seed pairs left out of a budget for which runs were planned too short: {', '.join(gone)}."
        if gone else "",
        f"Budgets at which fewer than {FEWEST_DATASETS} data sets (or not all) would be left, so that all pairs are "
        f"shown and no claim is decided: {', '.join(refused)}." if refused else "",
        f"Budgets that fewer than {LEAST_SPENT:.0%} of all runs use up, at which lengths are compared, not money, and "
        f"no claim that ranks these methods is decided: {', '.join(unspent)}." if unspent else "",
        f"Runs without a successful evaluation within the budget, which rank last: "
        f"{shares(ranked.unfinished) or 'none'}.",
    )  # fmt: skip

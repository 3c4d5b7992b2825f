"""Sentences that say what a number was taken over: problems, seeds, methods, evaluator, what was left out."""

import numpy as np
import pandas as pd

import datasets
import pipelines
from analysis.bootstrap import in_use
from analysis.marks import footnote
from analysis.ranks import CAP, Ranks
from analysis.relative import Relative
from analysis.traces import PROBLEM

__all__ = ["footnote", "intervals", "pairs_left_out", "plural", "ranks_left_out", "scope", "sentence", "span"]


def study_problems() -> set[tuple[str, str]]:
    """Return the (dataset, pipeline) pairs of the whole study."""
    return {(d, p) for d in datasets.names() for p in pipelines.names()}


def scope(cells: pd.DataFrame, evaluator: str) -> str:
    """Return e.g. ``18 of 144 problems, 10 seeds (replay)`` for the cells (dataset, pipeline, seed)."""
    present = set(cells[PROBLEM].drop_duplicates().itertuples(index=False, name=None))
    study = study_problems()
    others = len(present - study)
    extra = f" and {others} outside the study" if others else ""
    seeds = cells["seed"].nunique()
    return f"{len(present & study)} of {len(study)} problems{extra}, {plural(seeds, 'seed')} ({evaluator})"


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


def pairs_left_out(pairs: Relative, short: int, n: int) -> str:
    """Return the sentence on the runs and pairs that a relative number leaves out."""
    return (
        f"Left out: {plural(short, 'run')} of fewer than {n} iterations or planned for another length, "
        f"{pairs.unpaired:,} without EI's run, {plural(pairs.zero, 'pair')} in which EI's error is 0, "
        f"{pairs.failed:,} without a successful evaluation."
    )


def ranks_left_out(ranked: Ranks) -> str:
    """Return the sentences on capped and unfinished runs per budget, and on the cells left out."""
    names = [f"{m:.0%}" for m in ranked.multiples]
    capped = [f"{share:.1%} ({name})" for name, share in zip(names, ranked.part(ranked.capped), strict=True)]
    none = [f"{share:.1%} ({name})" for name, share in zip(names, ranked.part(ranked.unfinished), strict=True)]
    short = int(np.where(ranked.present, ranked.short, False).any(axis=1).sum())
    planned = f" ({plural(short, 'run')} planned for fewer than {CAP} iterations)" if short else ""
    return (
        f"Runs that ended before the budget was spent{planned} and count with their final incumbent: "
        f"{', '.join(capped)}. "
        f"Runs without a successful evaluation within the budget, which rank last: {', '.join(none)}. "
        f"Left out: {plural(ranked.left_out, 'problem-seed pair')} without runs of every method."
        f"{_planning(ranked)}"
    )


def _planning(ranked: Ranks) -> str:
    """Return the sentence on the methods that plan with the budget, and take part at some budgets only."""
    absent = [m for k, m in enumerate(ranked.methods) if not ranked.present[:, k].all()]
    parts: list[str] = []
    for method in absent:
        there = ranked.present[:, ranked.methods.index(method)]
        at = ", ".join(f"{m:.0%}" for m in ranked.multiples[there]) or "no budget"
        parts.append(f" {method} plans with its budget and takes part where every pair has its run: at {at}.")
    return "".join(parts)

"""How a claim is decided: conditions on estimates, the verdict by one rule, and the records as evidence."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd

from analysis import REFERENCE
from analysis.captions import plural, scope
from analysis.ranks import Ranks, minimal_budgets, ranks
from analysis.selection import BUDGET_MULTIPLES, CAP, FEWEST_DATASETS, at_horizon, horizon, left_aside, of_families
from analysis.statistics import Estimate, bootstrap
from analysis.traces import STUDY_ITERATIONS, Judge, Traces, collect, ordered
from analysis.tradeoffs import Relative, relative_to_ei

Word = Literal["holds", "does not hold", "undecided"]
HOLDS: Word = "holds"
FAILS: Word = "does not hold"
UNDECIDED: Word = "undecided"


@dataclass(frozen=True)
class Condition:
    """What an estimate has to be: above `at_least`, or below `at_most` (both exclusive).

    what: the estimate in words. digits, unit: how it is printed.
    """

    what: str
    estimate: Estimate
    at_least: float | None = None
    at_most: float | None = None
    unit: str = ""
    digits: int = 1

    @property
    def word(self) -> Word:
        """Whether the interval lies inside, wholly outside, or across."""
        lower = -float("inf") if self.at_least is None else self.at_least
        upper = float("inf") if self.at_most is None else self.at_most
        if lower < self.estimate.low and self.estimate.high < upper:
            return HOLDS
        if self.estimate.high < lower or self.estimate.low > upper:
            return FAILS
        return UNDECIDED

    def __str__(self) -> str:
        value, low, high = (
            f"{v:.{self.digits}f}" for v in (self.estimate.value, self.estimate.low, self.estimate.high)
        )
        return f"{self.what} {value}{self.unit} [{low}, {high}]"


def all_of(words: Sequence[Word]) -> Word:
    """Return the word on several conditions that all have to hold."""
    if FAILS in words:
        return FAILS
    return HOLDS if words and set(words) == {HOLDS} else UNDECIDED


# From conditions to a verdict, by the one rule that all claims share.

__all__ = ["UNDECIDED", "Claim", "Finding", "Missing", "Verdict", "verdict", "without_evidence"]


class Missing(Exception):
    """What a claim needs and the records do not contain; its text is the verdict's `why`."""


@dataclass(frozen=True)
class Finding:
    """What the records say of a claim.

    conditions: all must hold. any_of: further conditions, in groups of which one group must hold in full. barred:
    reasons why no verdict may be given at all; doubts: what is missing for it to hold, though it may already fail;
    unseen: further groups that there are no records for, so that the others' failing does not decide.
    """

    conditions: Sequence[Condition]
    taken_over: str
    any_of: Sequence[Sequence[Condition]] = ()
    barred: Sequence[str] = ()
    doubts: Sequence[str] = field(default_factory=tuple)
    also: str = ""
    unseen: Sequence[str] = ()

    @property
    def every(self) -> list[Condition]:
        """All conditions, those of the groups included."""
        return [*self.conditions, *(c for group in self.any_of for c in group)]

    def words(self) -> list[Word]:
        """Return what came of each condition, and last of the groups together, where there are any."""
        words = [condition.word for condition in self.conditions]
        if self.any_of:
            groups = [all_of([c.word for c in group]) for group in self.any_of]
            none = set(groups) == {FAILS} and not self.unseen
            words.append(HOLDS if HOLDS in groups else FAILS if none else UNDECIDED)
        return words

    def word(self) -> Word:
        """Return the verdict."""
        word = all_of(self.words())
        return UNDECIDED if self.barred or (word == HOLDS and self.doubts) else word

    def why(self) -> str:
        """Return what decided, or what stands against deciding."""
        if self.barred:
            return "; ".join(dict.fromkeys(self.barred))
        # an alternative that fails beside one that holds says nothing
        groups = self.any_of and self.words()[-1] != HOLDS
        listed = self.every if groups else self.conditions
        named = {word: [c.what for c in listed if c.word == word] for word in (FAILS, UNDECIDED)}
        parts = [f"outside: {'; '.join(named[FAILS])}"] if named[FAILS] else []
        parts += [f"interval across the limit: {'; '.join(named[UNDECIDED])}"] if named[UNDECIDED] else []
        parts += [f"not looked at: {', '.join(self.unseen)}"] if groups and self.unseen else []
        return "; ".join(dict.fromkeys([*parts, *self.doubts])) or "every condition holds"

    def deciding(self) -> str:
        """Return the first condition that came out as all of them together did, and how many hold.

        A group of which one alternative must hold counts as one condition.
        """
        words, word = self.words(), all_of(self.words())
        first = next((c for c in self.conditions if c.word == word), None) or self._of_groups(word)
        count = f"; {words.count(HOLDS)} of {len(words)} conditions hold" if len(words) > 1 else ""
        return f"{first}{count}"

    def _of_groups(self, word: Word) -> Condition:
        """Return the first condition that gives the groups their word."""
        group = next((group for group in self.any_of if all_of([c.word for c in group]) == word), self.any_of[0])
        return next((c for c in group if c.word == word), group[0])


@dataclass(frozen=True)
class Claim:
    """One claim of the paper. examine: what the records say of it; raises Missing or BadInput."""

    number: int
    claim: str
    paper: str
    statistic: str
    rule: str
    examine: "Callable[[Evidence], Finding]"


@dataclass(frozen=True)
class Verdict:
    """A claim as it came out. ours: all estimates; low, high: the interval of the first of them.

    deciding: the estimate that decided, and how many conditions hold; "" where nothing was estimated.
    why: what decided, or what is missing. taken_over: problems, seeds, runs.
    """

    number: int
    claim: str
    paper: str
    statistic: str
    rule: str
    ours: str
    low: float | None
    high: float | None
    verdict: str
    why: str
    taken_over: str
    deciding: str = ""


def verdict(claim: Claim, finding: Finding) -> Verdict:
    """Return the verdict on a claim by what was found."""
    first = finding.every[0].estimate
    ours = "; ".join([*map(str, finding.every), *([finding.also] if finding.also else [])])
    return Verdict(claim.number, claim.claim, claim.paper, claim.statistic, claim.rule, ours, first.low, first.high,
                   finding.word(), finding.why(), finding.taken_over, finding.deciding())  # fmt: skip


def without_evidence(claim: Claim, why: str) -> Verdict:
    """Return the verdict on a claim for which something is missing."""
    return Verdict(
        claim.number, claim.claim, claim.paper, claim.statistic, claim.rule, "-", None, None, UNDECIDED, why, "-"
    )


# The evidence: the records, arranged once for all claims.


@dataclass(frozen=True)
class Evidence:
    """frame: `read_traces`; costs: `read_costs`; fronts: `read_fronts`; the last two may be None.

    judge: whose error counts; mixed: whether records of different tables or engines are meant to stand together.
    """

    frame: pd.DataFrame
    costs: pd.DataFrame | None = None
    fronts: pd.DataFrame | None = None
    judge: Judge = "validation"
    mixed: bool = False

    @cached_property
    def traces(self) -> Traces:
        """The runs of the study's own components."""
        return collect(self.frame, judge=self.judge, mixed=self.mixed)

    @cached_property
    def equal(self) -> Traces:
        """All runs cut after the study's N iterations."""
        return at_horizon(self.traces, horizon(self.traces))[0]

    @cached_property
    def pairs(self) -> Relative:
        """Cost and error relative to EI."""
        return relative_to_ei(self.equal, "the claim")

    def change(self, method: str, measure: str) -> Estimate:
        """Return the mean of `saved` (percent of EI's time) or `added` (percent of EI's error) by a method.

        Raises Missing without runs of it.
        """
        if method not in set(self.pairs.table["method"]):
            raise Missing(f"no pairs of {method} with ei: the records hold {', '.join(ordered(self.traces.runs))}")
        values = self.pairs.wide("cost_pct" if measure == "saved" else "error_pct", [method])
        return mean(100 - values[method] if measure == "saved" else values[method] - 100)

    def median(self, method: str, measure: str) -> float:
        """Return the median over pairs, as `change` does the mean."""
        values = self.pairs.wide("cost_pct" if measure == "saved" else "error_pct", [method])[method].dropna()
        return float((100 - values).median() if measure == "saved" else (values - 100).median())

    def ranked(self, methods: list[str]) -> Ranks:
        """Rank methods at the whole budgets."""
        budgets = minimal_budgets(of_families(self.equal, "alpha"), "the claim")
        return ranks(self.traces, budgets, methods, BUDGET_MULTIPLES, np.ones(1), "the claim")

    def of_alpha(self) -> Ranks:
        """Rank EI^alpha among themselves at the whole budgets."""
        return self.ranked(ordered(self.traces.runs[self.traces.runs["alpha"].notna()]))

    def barred(self, cells: pd.DataFrame) -> list[str]:
        """Return why no verdict may be given on these cells; empty if it may."""
        n, found = horizon(self.traces), others(self.traces.components)
        if n < STUDY_ITERATIONS:
            found.append(f"runs of {STUDY_ITERATIONS} iterations are needed; these have {n}")
        return [*found, *too_few(cells)]

    def over(self, cells: pd.DataFrame) -> str:
        """Return what numbers on these cells were taken over."""
        return f"{scope(cells, self.traces.evaluator)}, {horizon(self.traces)} iterations, {self.judge} error"

    def over_ranks(self, ranked: Ranks) -> str:
        """Return what ranks were taken over, with the runs that ended before the budget was spent."""
        names = [
            f"{share:.0%} at {m:.0%}" for share, m in zip(ranked.part(ranked.capped), ranked.multiples, strict=True)
        ]
        longest = int(self.traces.runs["iterations"].max())
        return (
            f"{scope(ranked.cells_used, self.traces.evaluator)}, runs of up to {longest} iterations, {self.judge} "
            f"error; ended before the budget was spent: {', '.join(names)}; left out "
            f"{plural(ranked.left_out, 'cell')} without runs of every method{_too_short(ranked)}"
            f"{left_aside(ranked.sparse, clause=True)}"
        )


def _too_short(ranked: Ranks) -> str:
    """Return how many cells with runs planned too short for them the budgets that count leave out."""
    gone = (~ranked.used & ranked.there).sum(axis=0)
    left = ", ".join(f"{n:,} at {m:.0%}" for n, m in zip(gone, ranked.multiples, strict=True) if n)
    return f"; cells left out of a budget for which runs were planned too short: {left}" if left else ""


def need(ranked: Ranks, multiples: tuple[float, ...]) -> None:
    """Raise Missing unless all of these budgets count."""
    there = set(ranked.multiples[ranked.counting])
    lacking = [m for m in multiples if m not in there]
    if lacking:
        raise Missing(too_short_for(lacking))


def too_short_for(multiples: Sequence[float]) -> str:
    """Return the reason why budgets do not count, and what would help."""
    return (
        f"too many runs were planned too short for {', '.join(f'{m:.0%}' for m in multiples)} of the minimal budget: "
        f"without their cells fewer than {FEWEST_DATASETS} data sets are left; runs have to go on to 20 times that or "
        f"{CAP} iterations (python -m harness study=time)"
    )


def others(chosen: Mapping[str, str]) -> list[str]:
    """Return which components of the runs are not those that the paper's claims are about."""
    return [
        f"these are runs of {name}={chosen[name]}, and the claim is about {name}={REFERENCE[name]}"
        for name in ("utility", "cost_model")
        if chosen.get(name, REFERENCE[name]) != REFERENCE[name]
    ]


def too_few(cells: pd.DataFrame) -> list[str]:
    """Return the reason against a verdict that too few data sets give."""
    n = cells["dataset"].nunique()
    if n >= FEWEST_DATASETS:
        return []
    return [f"{plural(n, 'data set')} only: intervals over fewer than {FEWEST_DATASETS} say nothing of others"]


def mean(values: pd.Series) -> Estimate:
    """Return the mean over cells with its interval."""
    row = bootstrap(values.to_frame("value")).iloc[0]
    return Estimate(float(row["value"]), float(row["low"]), float(row["high"]))

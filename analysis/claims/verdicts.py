"""How a claim is decided: conditions on estimates, the verdict by one rule, and the records as evidence.

A claim is a function from `Evidence` to a `Finding` that `claim` marks, with its statement and its rule beside it:
the modules of this package hold them, and `analysis.claims.CLAIMS` finds them there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd

from analysis import REFERENCE
from analysis.captions import plural, scope
from analysis.ranks import Ranks, minimal_budgets, ranks
from analysis.selection import (
    BUDGET_MULTIPLES,
    CAP,
    FEWEST_DATASETS,
    at_horizon,
    horizon,
    left_aside,
    of_families,
    on_papers_grid,
)
from analysis.statistics import Estimate
from analysis.traces import STUDY_ITERATIONS, Judge, Traces, collect, ordered
from analysis.tradeoffs import Relative, relative_to_ei
from datasets.errors import BadInput

Word = Literal["holds", "does not hold", "undecided"]
HOLDS: Word = "holds"
FAILS: Word = "does not hold"
UNDECIDED: Word = "undecided"


class Missing(Exception):
    """What a claim needs and the records do not contain; its text is the verdict's `why`."""


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
        found, d = self.estimate, self.digits
        return f"{self.what} {found.value:.{d}f}{self.unit} [{found.low:.{d}f}, {found.high:.{d}f}]"


def all_of(words: Sequence[Word]) -> Word:
    """Return the word on several conditions that all have to hold."""
    if FAILS in words:
        return FAILS
    return HOLDS if words and set(words) == {HOLDS} else UNDECIDED


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
class Statement:
    """What the paper claims, in words and in its numbers, and by which rule on which statistic of ours it holds."""

    number: int
    claim: str
    paper: str
    statistic: str
    rule: str


@dataclass(frozen=True)
class Verdict(Statement):
    """A claim as it came out. ours: all estimates; low, high: the interval of the first of them.

    deciding: the estimate that decided, and how many conditions hold; "" where nothing was estimated.
    why: what decided, or what is missing. taken_over: problems, seeds, runs.
    """

    ours: str
    low: float | None
    high: float | None
    verdict: str
    why: str
    taken_over: str
    deciding: str = ""


@dataclass(frozen=True)
class Claim(Statement):
    """One claim of the paper. examine: what the records say of it; raises Missing or BadInput."""

    examine: "Callable[[Evidence], Finding]"

    def verdict(self, evidence: "Evidence", narrowed: Callable[[Finding], Finding] | None = None) -> Verdict:
        """Return the verdict, undecided where something is missing; narrowed: the part of the finding that counts."""
        said = (self.number, self.claim, self.paper, self.statistic, self.rule)
        try:
            finding = self.examine(evidence)
            finding = narrowed(finding) if narrowed else finding
        except (Missing, BadInput) as reason:
            return Verdict(*said, "-", None, None, UNDECIDED, str(reason), "-")
        first = finding.every[0].estimate
        ours = "; ".join([*map(str, finding.every), *([finding.also] if finding.also else [])])
        return Verdict(*said, ours, first.low, first.high, finding.word(), finding.why(), finding.taken_over,
                       finding.deciding())  # fmt: skip


def claim(
    number: int, statement: str, *, statistic: str, rule: str, paper: str = "in words"
) -> "Callable[[Callable[[Evidence], Finding]], Claim]":
    """Make a claim of the function that examines the evidence; the rule is fixed before any result is looked at."""
    return lambda examine: Claim(number, statement, paper, statistic, rule, examine)


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
    def iterations(self) -> int:
        """N, after which runs are compared."""
        return horizon(self.traces)

    @cached_property
    def equal(self) -> Traces:
        """All runs cut after N iterations."""
        return at_horizon(self.traces, self.iterations)[0]

    @cached_property
    def pairs(self) -> Relative:
        """Cost and error relative to EI."""
        return relative_to_ei(self.equal, "the claim")

    def changes(self, method: str, measure: str) -> pd.Series:
        """Return what a method `saved` (percent of EI's time) or `added` (percent of EI's error), by cell.

        Raises Missing without runs of it.
        """
        if method not in set(self.pairs.table["method"]):
            raise Missing(f"no pairs of {method} with ei: the records hold {', '.join(ordered(self.traces.runs))}")
        if measure == "saved":
            return 100 - self.pairs.wide("cost_pct", [method])[method]
        return self.pairs.wide("error_pct", [method])[method] - 100

    @cached_property
    def _budgets(self) -> pd.DataFrame:
        return minimal_budgets(of_families(self.equal, "alpha"), "the claim")

    def ranked(self, methods: list[str]) -> Ranks:
        """Rank methods at the whole budgets."""
        return ranks(self.traces, self._budgets, methods, BUDGET_MULTIPLES, np.ones(1), "the claim")

    @cached_property
    def of_alpha(self) -> Ranks:
        """The ranks of EI^alpha, alpha in [0, 1], among themselves at the whole budgets."""
        return self.ranked(ordered(self.traces.runs[on_papers_grid(self.traces.runs)]))

    def barred(self, cells: pd.DataFrame) -> list[str]:
        """Return why no verdict may be given on these cells; empty if it may."""
        found = others(self.traces.components)
        if self.iterations < STUDY_ITERATIONS:
            found.append(f"runs of {STUDY_ITERATIONS} iterations are needed; these have {self.iterations}")
        return [*found, *too_few(cells)]

    def over(self, cells: pd.DataFrame) -> str:
        """Return what numbers on these cells were taken over."""
        return f"{scope(cells, self.traces.evaluator)}, {self.iterations} iterations, {self.judge} error"

    def of_ranks(
        self, ranked: Ranks, conditions: Sequence[Condition], lead: str = "", doubts: Sequence[str] = ()
    ) -> Finding:
        """Return a finding on ranks, with what they were taken over and which runs ended before the budget."""
        early = ", ".join(
            f"{share:.0%} at {m:.0%}" for share, m in zip(ranked.part(ranked.capped), ranked.multiples, strict=True)
        )
        gone = (~ranked.used & ranked.there).sum(axis=0)
        left = ", ".join(f"{n:,} at {m:.0%}" for n, m in zip(gone, ranked.multiples, strict=True) if n)
        over = (
            f"{lead}{scope(ranked.cells_used, self.traces.evaluator)}, runs of up to "
            f"{int(self.traces.runs['iterations'].max())} iterations, {self.judge} error; ended before the budget was "
            f"spent: {early}; left out {plural(ranked.left_out, 'cell')} without runs of every method"
        )
        if left:
            over += f"; cells left out of a budget for which runs were planned too short: {left}"
        over += left_aside(ranked.sparse, clause=True)
        return Finding(conditions, over, barred=self.barred(ranked.cells_used), doubts=doubts)


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

"""How a claim is decided: conditions on estimates, the verdict by one rule, and the records as evidence.

A claim is a function from `Evidence` to a `Finding` that `claim` marks, with its statement and its rule beside it:
the modules of this package hold them, and `analysis.claims.CLAIMS` finds them there.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np
import pandas as pd

from analysis import REFERENCE
from analysis.captions import plural, scope
from analysis.gains import flat_datasets, gains, scale
from analysis.ranks import Ranks, minimal_budgets, ranks
from analysis.selection import (
    BUDGET_MULTIPLES,
    CAP,
    FEWEST_DATASETS,
    FEWEST_SEEDS,
    LEAST_SPENT,
    at_horizon,
    horizon,
    on_papers_grid,
    select_families,
    sentence_on_sparse_methods,
)
from analysis.statistics import Estimate, holm, mean, median
from analysis.traces import CELL, EI, STUDY_ITERATIONS, Judge, Traces, collect, ordered
from analysis.tradeoffs import Relative, finals, relative_to_ei
from datasets.errors import BadInput

Made = TypeVar("Made")
Values = TypeVar("Values", pd.Series, pd.DataFrame)
Word = Literal["holds", "does not hold", "holds only where", "undecided"]
HOLDS: Word = "holds"
FAILS: Word = "does not hold"
PARTLY: Word = "holds only where"
UNDECIDED: Word = "undecided"
DOUBT = 0.05  # two-sided p value below which a condition is decided


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
    def holding(self) -> float:
        """The p value against its holding: below 0.05 exactly where the interval lies inside; of two limits the larger.

        Both have to be kept, so that no correction is due.
        """
        return max(
            0.0 if self.at_least is None else self.estimate.doubt(self.at_least, above=True),
            0.0 if self.at_most is None else self.estimate.doubt(self.at_most, above=False),
        )

    @property
    def failing(self) -> float:
        """The p value against its failing: below 0.05 exactly where the interval lies wholly outside."""
        return min(
            1.0 if self.at_least is None else self.estimate.doubt(self.at_least, above=False),
            1.0 if self.at_most is None else self.estimate.doubt(self.at_most, above=True),
        )

    @property
    def word(self) -> Word:
        """Whether the interval lies inside, wholly outside, or across."""
        return _word(self.holding, self.failing)

    @property
    def reached(self) -> str:
        """Which precision was reached, and which values are excluded, in words."""
        found, d = self.estimate, self.digits
        if not found.high >= found.low:
            return f"{self.what} (no interval)"
        arm = (found.high - found.low) / 2
        return (
            f"{self.what} (known to within {arm:.{d}f}{self.unit}; below {found.low:.{d}f} and above "
            f"{found.high:.{d}f}{self.unit} is excluded)"
        )

    def __str__(self) -> str:
        found, d = self.estimate, self.digits
        return f"{self.what}: {found.value:.{d}f}{self.unit} [{found.low:.{d}f}, {found.high:.{d}f}]"


def _word(holding: float, failing: float) -> Word:
    return HOLDS if holding < DOUBT else FAILS if failing < DOUBT else UNDECIDED


def all_of(words: Sequence[Word]) -> Word:
    """Return the word on several conditions that all have to hold."""
    if FAILS in words:
        return FAILS
    return HOLDS if words and set(words) == {HOLDS} else UNDECIDED


@dataclass(frozen=True)
class Finding:
    """What the records say of a claim, in one view of them or in several.

    conditions: all must hold. any_of: further conditions, in groups of which one group must hold in full. barred:
    reasons why no verdict may be given at all; doubts: what is missing for it to hold, though it may already fail;
    unseen: further groups that there are no records for, so that the others' failing does not decide.
    view: how its numbers are taken, where there are several ways; views: the same claim's finding in the others;
    unlooked: ways for which the records do not suffice, and why.

    That all conditions hold needs no correction for their number: each has to at its own level (an intersection-union
    test). That one of them fails, or one of several groups holds, does: p values are Holm's.
    """

    conditions: Sequence[Condition]
    taken_over: str
    any_of: Sequence[Sequence[Condition]] = ()
    barred: Sequence[str] = ()
    doubts: Sequence[str] = field(default_factory=tuple)
    also: str = ""
    unseen: Sequence[str] = ()
    view: str = ""
    views: "Sequence[Finding]" = ()
    unlooked: Sequence[str] = ()

    @property
    def every(self) -> list[Condition]:
        """All conditions, those of the groups included."""
        return [*self.conditions, *(c for group in self.any_of for c in group)]

    @cached_property
    def words(self) -> list[Word]:
        """What came of each condition, and last of the groups together, where there are any."""
        holding, failing = [c.holding for c in self.conditions], [c.failing for c in self.conditions]
        if self.any_of:
            holding.append(len(self.any_of) * min(max(c.holding for c in group) for group in self.any_of))
            least = [len(group) * min(c.failing for c in group) for group in self.any_of]
            failing.append(1.0 if self.unseen else min(1.0, max(least)))
        corrected = holm(np.array(failing))
        return [_word(h, f) for h, f in zip(holding, corrected, strict=True)]

    @property
    def own(self) -> Word:
        """The verdict in this view alone."""
        word = all_of(self.words)
        return UNDECIDED if self.barred or (word == HOLDS and self.doubts) else word

    def word(self) -> Word:
        """Return the verdict: that of all views where they agree to hold, else where it does, else the first one's."""
        holding = [one.own == HOLDS for one in (self, *self.views)]
        return HOLDS if all(holding) else PARTLY if any(holding) else self.own

    def where(self) -> str:
        """Return the views in which a claim holds that does not hold in all; "" for any other verdict."""
        held = [one.view for one in (self, *self.views) if one.own == HOLDS]
        return "; ".join(held) if self.word() == PARTLY else ""

    def why(self) -> str:
        """Return what decided, or what stands against deciding, a line for every view."""
        found = [f"{one.view}: {one.own}, {one._why()}" for one in (self, *self.views)] if self.views else [self._why()]
        return "\n".join([*found, *(f"not looked at: {reason}" for reason in self.unlooked)])

    def _why(self) -> str:
        if self.barred:
            return "; ".join(dict.fromkeys(self.barred))
        # an alternative that fails beside one that holds says nothing
        words = self.words
        groups = self.any_of and words[-1] != HOLDS
        judged = [*zip(self.conditions, words, strict=False)]
        judged += [(c, c.word) for group in self.any_of for c in group] if groups else []
        outside = "; ".join(c.what for c, word in judged if word == FAILS)
        across = "; ".join(c.reached for c, word in judged if word == UNDECIDED and c.word == UNDECIDED)
        several = "; ".join(c.reached for c, word in judged if word == UNDECIDED and c.word == FAILS)
        parts = [f"outside: {outside}"] if outside else []
        parts += [f"interval across the limit: {across}"] if across else []
        parts += (
            [f"outside, but not beyond Holm's correction for {len(words)} conditions: {several}"] if several else []
        )
        parts += [f"not looked at: {', '.join(self.unseen)}"] if groups and self.unseen else []
        return "; ".join(dict.fromkeys([*parts, *self.doubts])) or "every condition holds"

    def numbers(self) -> str:
        """Return all estimates, a line for every view."""
        texts = []
        for one in (self, *self.views):
            text = "; ".join([*map(str, one.every), *([one.also] if one.also else [])])
            texts.append(f"{one.view}: {text}" if self.views else text)
        return "\n".join(texts)

    def over(self) -> str:
        """Return what the numbers were taken over, of other views where it differs."""
        others = [f"{one.view}: {one.taken_over}" for one in self.views if one.taken_over != self.taken_over]
        return ". ".join([self.taken_over, *others])

    def deciding(self) -> str:
        """Return the first condition that came out as all of them together did, and how many hold; of the first view.

        A group of which one alternative must hold counts as one condition.
        """
        words, word = self.words, all_of(self.words)
        first = next((c for c, own in zip(self.conditions, words, strict=False) if own == word), None)
        count = f"; {words.count(HOLDS)} of {len(words)} conditions hold" if len(words) > 1 else ""
        return f"{first or self._of_groups(word)}{count}"

    def _of_groups(self, word: Word) -> Condition:
        """Return the first condition that gives the groups their word."""
        group = next((group for group in self.any_of if all_of([c.word for c in group]) == word), self.any_of[0])
        return next((c for c in group if c.word == word), group[0])


PLANNED, MONEY = "budgets that are used up", "equal money"
MEANS, MEDIANS, UNFLAT = "means", "medians", "means without flat data sets"
SHARE = "means of errors as a share of what there was to gain"
POINTS = 10.0  # of what there was to gain stand for one percent of EI's error in a limit


def in_views(ways: "Mapping[str, Callable[[], Finding]]") -> Finding:
    """Return the finding of the first view with those of the others; it lists the views that records do not support.

    ways: by the view's name, what examines the records in it. Raises Missing where no view can be looked at.
    """
    found, unlooked = list[Finding](), list[str]()
    for view, examine in ways.items():
        try:
            found.append(replace(examine(), view=view))
        except (Missing, BadInput) as reason:
            unlooked.append(f"{view} ({reason})")
    if not found:
        raise Missing("; ".join(unlooked))
    return replace(found[0], views=found[1:], unlooked=unlooked)


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
    """A claim as it came out. ours: all estimates, by view; low, high: the interval of the first of them.

    deciding: the estimate that decided, and how many conditions hold; "" where nothing was estimated.
    why: what decided, or what is missing, by view: ours and why have a line for each. taken_over: problems, seeds,
    runs. where: the views of the records in which it holds, for one that holds only there.
    """

    ours: str
    low: float | None
    high: float | None
    verdict: str
    why: str
    taken_over: str
    deciding: str = ""
    where: str = ""

    @property
    def said(self) -> str:
        """The verdict with where it holds, as tables show it."""
        return f"{self.verdict}: {self.where}" if self.where else self.verdict

    def in_one_line(self) -> "Verdict":
        """Return the verdict with its views one after the other, for cells of tables."""
        return replace(self, ours=self.ours.replace("\n", ". "), why=self.why.replace("\n", ". "))


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
        return Verdict(*said, finding.numbers(), first.low, first.high, finding.word(), finding.why(),
                       finding.over(), finding.deciding(), finding.where())  # fmt: skip


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
    collected: the runs of the study's own components, where they are at hand.
    """

    frame: pd.DataFrame
    costs: pd.DataFrame | None = None
    fronts: pd.DataFrame | None = None
    judge: Judge = "validation"
    mixed: bool = False
    collected: Traces | None = None

    @cached_property
    def traces(self) -> Traces:
        """The runs of the study's own components."""
        return self.collected or collect(self.frame, judge=self.judge, mixed=self.mixed)

    @cached_property
    def _made(self) -> dict[Hashable, Any]:
        return {}

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Return what `make` returns, made only once for all views of a claim."""
        if key not in self._made:
            self._made[key] = make()
        found: Made = self._made[key]
        return found

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
        if method not in self.pairs.table["method"].unique():
            raise Missing(f"no pairs of {method} with ei: the records hold {', '.join(ordered(self.traces.runs))}")
        if measure == "saved":
            return 100 - self.pairs.wide("cost_pct", [method])[method]
        return self.pairs.wide("error_pct", [method])[method] - 100

    @cached_property
    def flat(self) -> list[str]:
        """The data sets on which hardly any configuration differs from another."""
        return flat_datasets(self.traces)

    @cached_property
    def final(self) -> pd.DataFrame:
        """The final error of each method; by cell and method."""
        return finals(self.equal).pivot(index=CELL, columns="method", values="final_error")

    @cached_property
    def room(self) -> pd.Series:
        """What there was to gain, by cell: from the median of random search to the best in the table."""
        found = scale(gains(self.equal, self.iterations), self.final.index.to_frame(index=False))[1]
        return pd.Series(found, self.final.index)

    @cached_property
    def lost(self) -> pd.DataFrame:
        """The share of what there was to gain that each method lost against EI, in points; by cell and method."""
        return 100 * self.final.sub(self.final[EI], axis=0).div(self.room, axis=0)

    def unflat(self, values: Values) -> Values:
        """Return the values, by cell, of the data sets that are not flat; raises Missing where all are, or none is."""
        flat = values.index.get_level_values("dataset").isin(self.flat)
        if flat.all() or not flat.any():
            raise Missing("all data sets are flat" if flat.all() else "no data set is flat")
        return values[~flat]

    def estimates(self) -> dict[str, Callable[[pd.Series], Estimate]]:
        """Return, by view, how values by cell become one number with its interval."""
        return {MEANS: mean, MEDIANS: median, UNFLAT: lambda values: mean(self.unflat(values))}

    def change(self, method: str, measure: str, view: str) -> Estimate:
        """Return the estimate of what a method `saved` or `added`, in one of the views of errors.

        Raises Missing where the records do not suffice for it.
        """
        values = self.changes(method, measure).dropna()
        if view == SHARE and measure == "added":
            return mean(require_gain(self.lost[method].dropna()))
        return self.estimates().get(view, mean)(values)

    @cached_property
    def _budgets(self) -> pd.DataFrame:
        return minimal_budgets(select_families(self.equal, "alpha"), "the claim")

    def ranked(self, methods: list[str], equal_money: bool = False) -> Ranks:
        """Rank methods at the whole budgets, or at equal money within them."""
        return ranks(self.traces, self._budgets, methods, BUDGET_MULTIPLES, np.ones(1), "the claim", equal_money)

    @cached_property
    def of_alpha(self) -> dict[bool, Ranks]:
        """The ranks of EI^alpha, alpha in [0, 1], among themselves at the whole budgets, and at equal money (True)."""
        methods = ordered(self.traces.runs[on_papers_grid(self.traces.runs)])
        return {equal_money: self.ranked(methods, equal_money) for equal_money in (False, True)}

    def barred(self, cells: pd.DataFrame) -> list[str]:
        """Return why no verdict may be given on these cells; empty if it may."""
        found = foreign_components(self.traces.components)
        if self.iterations < STUDY_ITERATIONS:
            found.append(f"runs of {STUDY_ITERATIONS} iterations are needed; these have {self.iterations}")
        return [*found, *too_few(cells)]

    def over(self, cells: pd.DataFrame) -> str:
        """Return what numbers on these cells were taken over."""
        return f"{scope(cells, self.traces.evaluator)}, {self.iterations} iterations, {self.judge} error"

    def of_ranks(
        self,
        ranked: Ranks,
        conditions: Sequence[Condition],
        values: Sequence[pd.DataFrame],
        lead: str = "",
        doubts: Sequence[str] = (),
    ) -> Finding:
        """Return a finding on ranks, with what they were taken over and which runs ended before the budget.

        values: what the numbers are made of, by cell; the fewest of these cells say whether a verdict may be given.
        """
        fewest = min((part.index.to_frame(index=False) for part in values), key=len)
        early = ", ".join(
            f"{share:.0%} at {m:.0%}" for share, m in zip(ranked.part(ranked.capped), ranked.multiples, strict=True)
        )
        gone = (~ranked.used & ranked.there).sum(axis=0)
        left = ", ".join(f"{n:,} at {m:.0%}" for n, m in zip(gone, ranked.multiples, strict=True) if n)
        over = (
            f"{lead}{scope(fewest, self.traces.evaluator)}, runs of up to "
            f"{int(self.traces.runs['iterations'].max())} iterations, {self.judge} error; ended before the budget was "
            f"spent: {early}; left out {plural(ranked.left_out, 'cell')} without runs of every method"
        )
        if ranked.equal_money:
            money = ", ".join(
                f"{np.median(ranked.money[used, b]):.0%} at {m:.0%}"
                for b, (m, used) in enumerate(zip(ranked.multiples, ranked.used.T, strict=True))
                if used.any()
            )
            over += f"; equal money is, in the median, this part of a budget: {money}"
        if left:
            over += f"; cells left out of a budget for which runs were planned too short: {left}"
        over += sentence_on_sparse_methods(ranked.sparse, clause=True)
        return Finding(conditions, over, barred=self.barred(fewest), doubts=doubts)


def require_gain(values: Values) -> Values:
    """Return the values, by cell, as parts of what there was to gain; raises Missing where that was nothing."""
    if values.empty:
        raise Missing("random search finds the best of every table: there was nothing to gain")
    return values


def require_budgets(ranked: Ranks, multiples: tuple[float, ...]) -> None:
    """Raise Missing unless all of these budgets count."""
    reasons = not_counting(ranked, multiples)
    if reasons:
        raise Missing("; ".join(reasons))


def not_counting(ranked: Ranks, multiples: Sequence[float]) -> list[str]:
    """Return the reasons why some of these budgets do not count; none if all do."""
    which = np.isin(ranked.multiples, multiples)
    short = ranked.multiples[which & ~ranked.long_enough].tolist()
    unspent = np.flatnonzero(which & ranked.long_enough & ~ranked.counting)
    shares = ", ".join(f"{ranked.using_up[b]:.0%} use up {ranked.multiples[b]:.0%}" for b in unspent)
    return [
        *([too_short_for(short)] if short else []),
        *([f"fewer than {LEAST_SPENT:.0%} of the runs use these budgets up: {shares}"] if shares else []),
    ]


def too_short_for(multiples: Sequence[float]) -> str:
    """Return the reason why budgets do not count, and what would help."""
    return (
        f"too many runs were planned too short for {', '.join(f'{m:.0%}' for m in multiples)} of the minimal budget: "
        f"without their cells fewer than {FEWEST_DATASETS} data sets are left; runs have to go on to 20 times that or "
        f"{CAP} iterations (python -m harness study=time)"
    )


def foreign_components(chosen: Mapping[str, str]) -> list[str]:
    """Return which components of the runs are not those that the paper's claims are about."""
    return [
        f"these are runs of {name}={chosen[name]}, and the claim is about {name}={REFERENCE[name]}"
        for name in ("utility", "cost_model")
        if chosen.get(name, REFERENCE[name]) != REFERENCE[name]
    ]


def too_few(cells: pd.DataFrame) -> list[str]:
    """Return the reason against a verdict that too few data sets, or too few with enough seeds, give."""
    seeds = cells.groupby("dataset", observed=True)["seed"].nunique()
    if len(seeds) < FEWEST_DATASETS:
        return [f"{plural(len(seeds), 'data set')} only: a verdict needs {FEWEST_DATASETS}"]
    enough = int((seeds >= FEWEST_SEEDS).sum())
    if enough < FEWEST_DATASETS:
        return [f"{FEWEST_SEEDS} seeds on {enough} data sets only: a verdict needs them on {FEWEST_DATASETS}"]
    return []

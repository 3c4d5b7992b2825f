"""How a claim is decided: conditions on estimates, a finding of several of them, and the verdict by one rule."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from analysis.statistics import Estimate, holm
from datasets.errors import BadInput

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

    what: the estimate in words. digits, unit: how it is printed. noise_adds: whether noise only makes the estimate
    larger, so that its interval's lower end excludes nothing, and a large estimate decides nothing.
    """

    what: str
    estimate: Estimate
    at_least: float | None = None
    at_most: float | None = None
    unit: str = ""
    digits: int = 1
    noise_adds: bool = False

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
            1.0 if self.at_most is None or self.noise_adds else self.estimate.doubt(self.at_most, above=True),
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
        below = "" if self.noise_adds else f"below {found.low:.{d}f} and "
        known = f"{self.what} (known to within {arm:.{d}f}{self.unit}"
        return f"{known}; {below}above {found.high:.{d}f}{self.unit} is excluded)"

    def __str__(self) -> str:
        found, d = self.estimate, self.digits
        value = f"{self.what}: {found.value:.{d}f}{self.unit}"
        return value if np.isnan(found.low + found.high) else f"{value} [{found.low:.{d}f}, {found.high:.{d}f}]"


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
        if groups:  # each alternative may fail by itself without all failing beyond the correction
            corrected = words[-1] == UNDECIDED and all(FAILS in [c.word for c in group] for group in self.any_of)
            held_back = {FAILS: UNDECIDED} if corrected and not self.unseen else {}
            judged += [(c, held_back.get(c.word, c.word)) for group in self.any_of for c in group]
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


def in_views(ways: Mapping[str, Callable[[], Finding]]) -> Finding:
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

"""From conditions to a verdict, by the one rule that all claims share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from analysis.claims.condition import FAILS, HOLDS, UNDECIDED, Condition, Word, all_of

if TYPE_CHECKING:
    from analysis.claims.evidence import Evidence


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

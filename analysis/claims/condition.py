"""What an estimate has to be, and what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from analysis.bootstrap import Estimate

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

"""Options of a program: reals, integers and categories, as a forest sees them and as the program is given them.

A configuration is a row of numbers: reals and integers as their place in the range in [0, 1] (log scale where asked),
categories as codes 0..k-1. Integers are snapped, so that equal settings are equal rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from datasets.errors import BadInput

_STEP = 0.2  # sd of a neighbour's step in a numeric option, as a share of its range
_STEPS = 4  # neighbours per numeric option


@dataclass(frozen=True)
class Option:
    """One option: numbers in [low, high], or one of `choices`; `default` in native values."""

    name: str
    default: Any
    choices: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    integer: bool = False

    def __post_init__(self) -> None:
        if self.choices:
            if self.default not in self.choices:
                raise ValueError(f"{self.name}: the default {self.default!r} is not among {self.choices}")
        elif not self.low <= self.default <= self.high or not self.low < self.high or (self.log and self.low <= 0):
            raise ValueError(f"{self.name}: {self.default} in [{self.low}, {self.high}] is no default in a range")

    def place(self, value: Any) -> float:
        """Return a native value as a number of the row."""
        if self.choices:
            return float(self.choices.index(value))
        low, high, v = (np.log(x) if self.log else x for x in (self.low, self.high, value))
        return float((v - low) / (high - low))

    def value(self, place: float) -> Any:
        """Return the native value of a row's number."""
        if self.choices:
            return self.choices[int(place)]
        low, high = (np.log(x) if self.log else x for x in (self.low, self.high))
        v = low + float(np.clip(place, 0.0, 1.0)) * (high - low)
        v = float(np.clip(np.exp(v) if self.log else v, self.low, self.high))
        return round(v) if self.integer else v


class OptionSpace:
    """The options of one program; raises BadInput for none, or for a name that occurs twice."""

    def __init__(self, options: Sequence[Option]) -> None:
        names = [option.name for option in options]
        if not names or len(set(names)) < len(names):
            raise BadInput(f"options must have different names, got {names}")
        self.options = tuple(options)
        self.categories = tuple(len(option.choices) for option in options)
        self.default = self.row({option.name: option.default for option in options})

    def __len__(self) -> int:
        return len(self.options)

    def row(self, settings: dict[str, Any]) -> Float[np.ndarray, " d"]:
        """Return native settings, all of them, as a row."""
        return np.array([option.place(settings[option.name]) for option in self.options])

    def settings(self, row: Float[np.ndarray, " d"]) -> dict[str, Any]:
        """Return a row's native settings."""
        return {option.name: option.value(place) for option, place in zip(self.options, row, strict=True)}

    def sample(self, rng: np.random.Generator, n: int) -> Float[np.ndarray, "n d"]:
        """Return `n` uniform configurations."""
        rows = rng.random((n, len(self)))
        for j, k in enumerate(self.categories):
            if k:
                rows[:, j] = np.floor(rows[:, j] * k)
        return self.snap(rows)

    def neighbours(self, row: Float[np.ndarray, " d"], rng: np.random.Generator) -> Float[np.ndarray, "n d"]:
        """Return configurations that differ from `row` in one option: every other category, some steps of a number."""
        found = []
        for j, k in enumerate(self.categories):
            values = np.arange(float(k)) if k else np.clip(row[j] + _STEP * rng.normal(size=_STEPS), 0.0, 1.0)
            for value in values:
                other = row.copy()
                other[j] = value
                found.append(other)
        rows = self.snap(np.array(found))
        return rows[(rows != row).any(axis=1)]

    def snap(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Move integers onto whole values."""
        rows = rows.copy()
        for j, option in enumerate(self.options):
            if option.integer:
                low, high = (np.log(x) if option.log else x for x in (option.low, option.high))
                value = low + np.clip(rows[:, j], 0.0, 1.0) * (high - low)
                whole = np.rint(np.clip(np.exp(value) if option.log else value, option.low, option.high))
                rows[:, j] = ((np.log(whole) if option.log else whole) - low) / (high - low)
        return rows

"""Ranks of methods within budgets, and which of the cells and budgets count (`endings.RULE`).

Notation: C cells (problem and seed), B budget multiples, S shares of a budget, M methods.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from analysis.endings import SHORT, SPENT, budgets_that_count, cells_that_count


@dataclass(frozen=True)
class Ranks:
    """Ranks (1 = best) of M methods in every cell in which all of them have a run.

    present: which methods take part at which budget: a method that plans with its budget (EI-cool) has one run for
    each, and takes part where nearly every cell has that run; elsewhere its ranks are NaN. there: cells in which all
    that take part have a run; the others count nowhere.
    ending: how each run ended against the budget (`endings`); runs that ended before it was spent count with their
    final incumbent. brief: runs that could have gone on. unfinished: runs with no successful evaluation within the
    budget, which rank last (ties).
    left_out: cells in which some method has no run, or whose problem has no minimal budget. sparse: methods asked for
    and left out, for want of runs.
    """

    methods: list[str]
    cells: pd.DataFrame
    multiples: Float[np.ndarray, " B"]
    shares: Float[np.ndarray, " S"]
    rank: Float[np.ndarray, "C B S M"]
    present: Bool[np.ndarray, "B M"]
    ending: Int[np.ndarray, "C B M"]
    brief: Bool[np.ndarray, "C B M"]
    unfinished: Bool[np.ndarray, "C B M"]
    there: Bool[np.ndarray, "C B"]
    left_out: int
    sparse: list[str]

    @property
    def capped(self) -> Bool[np.ndarray, "C B M"]:
        """Runs that ended before the budget was spent."""
        return np.asarray(self.ending != SPENT)

    @property
    def short(self) -> Bool[np.ndarray, "C B M"]:
        """Those of them that were planned too short for it."""
        return np.asarray(self.ending == SHORT)

    @cached_property
    def kept(self) -> Bool[np.ndarray, "C B"]:
        """Cells that count at each budget: without a run that is too short for it (`endings.RULE`), or missing."""
        return cells_that_count(self.ending, self.brief) & self.there

    @cached_property
    def counting(self) -> Bool[np.ndarray, " B"]:
        """Budgets that count: enough data sets are left."""
        return budgets_that_count(self.kept, self.cells)

    @property
    def taking_part(self) -> list[str]:
        """The methods that take part at some budget."""
        return [method for k, method in enumerate(self.methods) if self.present[:, k].any()]

    @property
    def used(self) -> Bool[np.ndarray, "C B"]:
        """Cells that numbers are taken over: those kept; at a budget that does not count, all that have every run."""
        return self.kept | (self.there & ~self.counting)

    @property
    def cells_used(self) -> pd.DataFrame:
        """The cells that some number is taken over."""
        return self.cells.iloc[np.flatnonzero(self.used.any(axis=1))]

    def over(self, budget: int) -> pd.DataFrame:
        """Return the ranks at a budget, by its position: one row per cell used, columns (share, method)."""
        columns = pd.MultiIndex.from_product([self.shares, self.methods], names=["share", "method"])
        used = self.used[:, budget]
        flat = self.rank[used, budget].reshape(int(used.sum()), -1)
        return pd.DataFrame(flat, index=pd.MultiIndex.from_frame(self.cells[used]), columns=columns)

    def at(self, multiple: float) -> pd.DataFrame:
        """Return the ranks at one whole budget: one row per cell used, one column per method."""
        whole = self.over(int(np.flatnonzero(self.multiples == multiple)[0]))
        return whole.loc[:, self.shares[-1]]

    def part(self, which: Bool[np.ndarray, "C B M"]) -> Float[np.ndarray, " B"]:
        """Return, per budget, the share of the runs taking part for which `which` holds, over the cells used."""
        taking = self.used[:, :, None] & self.present
        return np.asarray((taking & which).sum((0, 2)) / taking.sum((0, 2)))

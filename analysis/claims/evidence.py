"""What claims are decided by: the records, arranged once for all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from analysis import REFERENCE
from analysis.bootstrap import Estimate, bootstrap
from analysis.budgets import MULTIPLES, minimal_budgets
from analysis.claims.decide import Missing
from analysis.coverage import left_aside
from analysis.endings import CAP, FEWEST_DATASETS
from analysis.methods import ordered
from analysis.ranked import Ranks
from analysis.ranks import ranks
from analysis.relative import Relative, relative
from analysis.scope import plural, scope
from analysis.selection import at_horizon, horizon, of_families
from analysis.traces import STUDY_ITERATIONS, Judge, Traces, collect


@dataclass(frozen=True)
class Evidence:
    """frame: `read_traces`; costs: `costs.read_costs`; fronts: `fronts.read_fronts`; the last two may be None.

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
        return relative(self.equal, "the claim")

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
        return ranks(self.traces, budgets, methods, MULTIPLES, np.ones(1), "the claim")

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

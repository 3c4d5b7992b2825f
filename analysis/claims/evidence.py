"""The evidence: the records, arranged once for all claims; and the claims, which are decided from it.

A claim is a function from `Evidence` to a `Finding` that `claim` marks, with its statement and its rule beside it: the
modules of this package hold them, and `analysis.claims.CLAIMS` finds them there.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from analysis import REFERENCE
from analysis.captions import plural, scope
from analysis.claims.verdicts import UNDECIDED, Condition, Finding, Missing, Statement, Verdict
from analysis.evaluations import CELL, Evaluations, Recorded
from analysis.gains import flat_datasets, gains, scale
from analysis.methods import EI, name_in_text, ordered
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
    whole_runs,
)
from analysis.statistics import Estimate, Statistic, mean, median, percent_of_sums
from analysis.traces import STUDY_ITERATIONS, Judge, Traces, at_budgets, check_judge, collect
from analysis.tradeoffs import Relative, finals, relative_to_ei
from datasets.errors import BadInput

Made = TypeVar("Made")
Values = TypeVar("Values", pd.Series, pd.DataFrame)
PLANNED, MONEY = "budgets that are used up", "equal money"
MEANS, MEDIANS, UNFLAT = "means", "medians", "means without flat data sets"
SHARE = "means of errors as a share of what there was to gain"
RIVALS = (EI, "random", "sobol")  # that claims 1 to 3 are seen beside
POINTS = 10.0  # of what there was to gain stand for one percent of EI's error in a limit


@dataclass(frozen=True)
class Evidence:
    """The records that claims are examined on.

    recorded: the evaluations; costs: `read_costs`; fronts: `read_fronts`; the last two may be None.
    judge: whose error counts; mixed: whether records of different tables or engines are meant to stand together.
    collected: the runs of the study's own components, where they are at hand.
    """

    recorded: Recorded
    costs: pd.DataFrame | None = None
    fronts: pd.DataFrame | None = None
    judge: Judge = "validation"
    mixed: bool = False
    collected: Traces | None = None

    def __post_init__(self) -> None:
        """Refuse an unknown judge here: where claims are examined, BadInput makes them undecided."""
        check_judge(self.judge)

    @cached_property
    def evaluations(self) -> Evaluations:
        """All evaluations."""
        return Evaluations.of(self.recorded)

    @cached_property
    def traces(self) -> Traces:
        """The runs of the study's own components."""
        return self.collected or collect(self.evaluations, judge=self.judge, mixed=self.mixed)

    @cached_property
    def _made(self) -> dict[Hashable, Any]:
        return {}

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Return what `make` returns, which is called once per `key`."""
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

    def changes(self, method: str, measure: str, statistic: Statistic = "mean") -> pd.Series:
        """Return what a method `saved` (percent of EI's time) or `added` (percent of EI's error), by cell.

        statistic: what is to be taken of them (`Relative.wide`). Raises Missing without runs of it.
        """
        if method not in self.pairs.table["method"].unique():
            raise Missing(f"no pairs of {method} with ei: the records hold {', '.join(ordered(self.traces.runs))}")
        if measure == "saved":
            return 100 - self.pairs.wide("cost_pct", [method], statistic)[method]
        return self.pairs.wide("error_pct", [method], statistic)[method] - 100

    @cached_property
    def flat(self) -> list[str]:
        """The data sets on which hardly any configuration differs from another."""
        return flat_datasets(self.traces)

    @cached_property
    def _ends(self) -> pd.DataFrame:
        return finals(self.equal)

    @cached_property
    def final(self) -> pd.DataFrame:
        """The final error of each method; by cell and method."""
        return self._ends.pivot(index=CELL, columns="method", values="final_error")

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
        values = self.changes(method, measure, "median" if view == MEDIANS else "mean").dropna()
        if view == SHARE and measure == "added":
            return mean(require_gain(self.lost[method].dropna()))
        return self.estimates().get(view, mean)(values)

    @cached_property
    def _longest(self) -> Traces:
        return whole_runs(self.traces, self.iterations)[0]

    def with_the_same_money(self, method: str, rival: str) -> tuple[pd.Series, float]:
        """Return the error that a method adds, by cell, in percent of the rival's with the same money (of sums over
        seeds: `statistics.percent_of_sums`), and the share of the rival's runs that ended before it was spent.

        The rival's longest run of a cell is cut at what the method's spent there; one that spent less counts as it
        ended.
        """
        own = self._ends[self._ends["method"] == method].set_index(CELL)
        other = self._longest.select((self._longest.runs["method"] == rival).to_numpy())
        cells = pd.MultiIndex.from_frame(other.runs[CELL])
        money = own["total_cost_s"].reindex(cells, fill_value=0.0).to_numpy()
        error = pd.Series(at_budgets(other.incumbent, other.cost_s, money[:, None])[:, 0], cells)
        both = pd.DataFrame({"own": own["final_error"], "rival": error.where(error > 0)}).dropna()
        added = percent_of_sums(both[["own"]], both["rival"])["own"] - 100
        ended = pd.Series(other.total_s < money, cells).reindex(both.index)
        return added, float(ended.mean()) if len(added) else 0.0

    def beside_rivals(self, method: str) -> str:
        """Return how far a method's error is from those of EI, random search and Sobol points with the same money, and
        of which rivals more than a tenth of the runs had ended before.
        """
        found = []
        for rival in RIVALS:
            added, ended = self.with_the_same_money(method, rival)
            if len(added):
                text = str(Condition(name_in_text(rival), mean(added), unit=" %", digits=2))
                found.append(text + (f" (of whose runs {ended:.0%} ended before)" if ended > 1 - LEAST_SPENT else ""))
        return f"error added to what rivals reach with the same money, {', '.join(found)}" if found else ""

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
        left = ", ".join(f"{n:,} at {m:.0%}" for n, m in zip(ranked.too_short, ranked.multiples, strict=True) if n)
        over = (
            f"{lead}{scope(fewest, self.traces.evaluator)}, runs of up to "
            f"{int(self.traces.runs['iterations'].max())} iterations, {self.judge} error; ended before the budget was "
            f"spent: {early}; left out {plural(ranked.left_out, 'cell')} without runs of every method"
        )
        if ranked.equal_money:
            cut = zip(ranked.cut_at, ranked.multiples, strict=True)
            money = ", ".join(f"{share:.0%} at {m:.0%}" for share, m in cut if not np.isnan(share))
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
    shares = ", ".join(f"{ranked.using_up[b]:.1%} use up {ranked.multiples[b]:.0%}" for b in unspent)
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


# A claim: what the paper says, and the function that examines the evidence for it.


@dataclass(frozen=True)
class Claim(Statement):
    """One claim of the paper. examine: what the records say of it; raises Missing or BadInput."""

    examine: Callable[[Evidence], Finding]

    def finding(self, evidence: Evidence) -> Finding:
        """Return what the records say of it, examined once; raises Missing or BadInput."""
        return evidence.once(self.number, lambda: self.examine(evidence))

    def verdict(self, evidence: Evidence, narrowed: Callable[[Finding], Finding] | None = None) -> Verdict:
        """Return the verdict, undecided where something is missing; narrowed: the part of the finding that counts."""
        said = (self.number, self.claim, self.paper, self.statistic, self.rule)
        try:
            finding = self.finding(evidence)
            finding = narrowed(finding) if narrowed else finding
        except (Missing, BadInput) as reason:
            return Verdict(*said, "-", None, None, UNDECIDED, str(reason), "-")
        first = finding.every[0].estimate
        return Verdict(*said, finding.numbers(), first.low, first.high, finding.word(), finding.why(),
                       finding.over(), finding.deciding(), finding.where())  # fmt: skip


def claim(
    number: int, statement: str, *, statistic: str, rule: str, paper: str = "in words"
) -> Callable[[Callable[[Evidence], Finding]], Claim]:
    """Make a claim of the function that examines the evidence; the rule is fixed before any result is looked at."""
    return lambda examine: Claim(number, statement, paper, statistic, rule, examine)

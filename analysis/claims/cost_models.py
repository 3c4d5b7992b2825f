"""The claims about cost models: how well they predict (9 and 10), and what they do to EI^alpha's trade-off (11)."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from analysis.captions import scope
from analysis.claims.evidence import (
    MEANS,
    MEDIANS,
    POINTS,
    SHARE,
    UNFLAT,
    Evidence,
    claim,
    foreign_components,
    require_gain,
    too_few,
)
from analysis.claims.verdicts import Condition, Finding, Missing, in_views
from analysis.cost_models import REFERENCE_COST_MODEL, comparable, compare_cost_models
from analysis.evaluations import CELL
from analysis.gains import gains, scale
from analysis.methods import EI, by_method, ordered
from analysis.statistics import Estimate, mean, median, of_means
from analysis.traces import STUDY_ITERATIONS, Traces
from analysis.tradeoffs import STATISTICS, Relative
from datasets.errors import BadInput

# Claims 9 and 10: how well cost models predict, online and transferred.

FEW, MANY = 10, 64
ENOUGH = 20  # evaluations that claim 10 has to be followed to
GPS = {"gp": "GP", "warped_gp": "warped GP"}
TRANSFERRED = "transfer_"


def _costs(evidence: Evidence) -> pd.DataFrame:
    if evidence.costs is None:
        raise Missing("no records of cost models: run `python -m tabular_cache costs`")
    if REFERENCE_COST_MODEL not in evidence.costs["cost_model"].unique():
        raise Missing(f"the records of cost models hold no {REFERENCE_COST_MODEL}")
    return evidence.costs


def _wide(costs: pd.DataFrame, model: str) -> pd.DataFrame:
    """Return the RMSE of one model: one row per cell, one column per n."""
    return costs[costs["cost_model"] == model].pivot(index=CELL, columns="n", values="rmse")


def _sizes(wide: pd.DataFrame) -> list[int]:
    return sorted(int(str(n)) for n in wide.columns)


class _Gap(NamedTuple):
    """RMSE of LV-3 minus that of one GP: the conditions, and the cells of few and of many evaluations."""

    conditions: list[Condition]
    few: pd.DataFrame
    many: pd.DataFrame

    @property
    def over(self) -> str:
        return f"{scope(self.many, 'tables')}; from few evaluations: {scope(self.few, 'tables')}"


def _gap(costs: pd.DataFrame, model: str, name: str, estimate: Callable[[pd.Series], Estimate]) -> _Gap:
    if model not in costs["cost_model"].unique():
        raise Missing(f"no records of the {name}")
    gap = (_wide(costs, REFERENCE_COST_MODEL) - _wide(costs, model)).dropna(axis=1, how="all")
    few, many = [n for n in _sizes(gap) if n <= FEW], max(_sizes(gap), default=0)
    if not few or many < MANY:
        raise Missing(f"the {name} needs records from {FEW} evaluations or fewer and from {MANY} or more")
    most = gap[few].dropna().mean(axis=1)  # of the tables long enough for few evaluations
    gap = gap.dropna()
    if gap.empty:
        raise Missing(f"no table is long enough for {many} evaluations under LV-3 and the {name}")
    low, high = gap[few].mean(axis=1), gap[many]
    words = f"RMSE of LV-3 minus that of the {name}"
    conditions = [
        Condition(f"{words}, n <= {FEW}", estimate(most), at_most=0.0, digits=3),
        Condition(f"{words}, n = {many}", estimate(high), at_most=0.0, digits=3),
        Condition(f"the former minus the latter ({name})", estimate(low - high), at_most=0.0, digits=3),
    ]
    return _Gap(conditions, most.index.to_frame(index=False), gap.index.to_frame(index=False))


@claim(
    9,
    "linear cost models predict training time better than GPs, most of all from few evaluations",
    statistic="paired differences of RMSE of log cost, LV-3 minus GP and minus warped GP: means and medians over "
    "problems and seeds",
    rule=f"all are below 0: from at most {FEW} evaluations, from the most recorded ({MANY} or more), and the former "
    "minus the latter",
)
def claim_9(evidence: Evidence) -> Finding:
    """RMSE of LV-3 minus that of GPs, from few and from many evaluations."""
    return in_views({MEANS: lambda: _better(evidence, mean), MEDIANS: lambda: _better(evidence, median)})


def _better(evidence: Evidence, estimate: Callable[[pd.Series], Estimate]) -> Finding:
    """Return the finding on LV-3 against GPs; a GP with too few data sets is left out, and named, unless both have."""
    costs, gaps, doubts = _costs(evidence), dict[str, _Gap](), []
    for model, name in GPS.items():
        try:
            gaps[name] = _gap(costs, model, name, estimate)
        except Missing as missing:
            doubts.append(str(missing))
    if not gaps:
        raise Missing("; ".join(doubts))
    barred = {name: too_few(gap.many) for name, gap in gaps.items()}
    if not all(barred.values()):
        doubts += [f"the {name} is left out: {'; '.join(why)}" for name, why in barred.items() if why]
        gaps = {name: gap for name, gap in gaps.items() if not barred[name]}
        barred = {}
    scopes = {gap.over for gap in gaps.values()}
    over = scopes.pop() if len(scopes) == 1 else "; ".join(f"{name}: {gap.over}" for name, gap in gaps.items())
    conditions = [condition for gap in gaps.values() for condition in gap.conditions]
    return Finding(conditions, over, barred=[w for why in barred.values() for w in why], doubts=doubts)


@claim(
    10,
    "about ten online evaluations equal transfer",
    paper="10 evaluations",
    statistic="least number of online evaluations from which LV-3's mean RMSE of log cost is no worse than the best "
    "transferred model's",
    rule="its interval lies in 5 to 20",
)
def claim_10(evidence: Evidence) -> Finding:
    """How many online evaluations LV-3 needs to predict as well as the best transferred model."""
    costs = _costs(evidence)
    transferred = sorted(m for m in costs["cost_model"].unique() if m.startswith(TRANSFERRED))
    if not transferred:
        raise Missing("no records of transferred cost models: `python -m tabular_cache costs` with transfer_* models")
    own, few = comparable(costs[costs["cost_model"].isin(transferred)])
    online = _wide(costs, REFERENCE_COST_MODEL)
    fixed = pd.DataFrame({m: _wide(own, m).iloc[:, 0] for m in transferred if m not in few})
    decisive = [n for n in _sizes(online) if n <= ENOUGH]
    common = online[decisive].dropna().index.intersection(fixed.dropna().index)  # tables long enough to decide
    sizes = [n for n in _sizes(online) if not online.loc[common, n].isna().any()]
    if len(common) == 0 or not sizes or sizes[0] > 5 or sizes[-1] < ENOUGH:
        raise Missing(
            f"needs LV-3's records from 5 evaluations to {ENOUGH} or more on the problems of a transferred model"
        )
    values = online.loc[common, sizes].join(fixed.loc[common])
    never = 2 * sizes[-1]

    def first(means: Float[np.ndarray, "B K"]) -> Float[np.ndarray, " B"]:
        reached = means[:, : len(sizes)] <= means[:, len(sizes) :].min(axis=1, keepdims=True)
        return np.where(reached.any(axis=1), np.array(sizes)[reached.argmax(axis=1)], never).astype(float)

    found = Condition("online evaluations that LV-3 needs", of_means(values, first), 4.5, 20.5, digits=0)
    best = fixed.loc[common].mean().idxmin()
    also = f"best transferred: {best}; {never} stands for more than {sizes[-1]}"
    also += f"; left out, with records of fewer than half of their pairs: {', '.join(few)}" if few else ""
    cells = common.to_frame(index=False)
    return Finding([found], scope(cells, "tables"), barred=too_few(cells), also=also)


# Claim 11: what the cost model does to the trade-off of EI^alpha.

LINEAR, GP, TRANSFER = "lv3", "gp", "transfer_linear"
ERROR, TIME = 1.0, 5.0  # points of EI's error and time within which two models are as good
LARGE = 0.5  # alphas from here on are large


class _Differences(NamedTuple):
    """Time saved and error added by one cost model minus by another (cells x methods); what they are taken over.

    saved, added: for means; single_saved, single_added: run by run (`Relative.wide`). ei: EI's final errors by cell; n:
    after how many iterations; runs: those of one of the two models.
    """

    saved: pd.DataFrame
    added: pd.DataFrame
    single_saved: pd.DataFrame
    single_added: pd.DataFrame
    ei: pd.Series
    n: int
    runs: Traces
    over: str
    barred: list[str]

    def of_gain(self) -> pd.DataFrame:
        """Return the errors added as a share of what there was to gain, in points; raises BadInput as `gains` does."""
        room = scale(gains(self.runs, self.n), self.ei.index.to_frame(index=False))[1]
        return self.single_added.mul(self.ei / room, axis=0).dropna()


def _differences(evidence: Evidence, one: str, other: str) -> _Differences:
    runs = evidence.evaluations.runs
    held = set(runs["cost_model"].unique())
    if {one, other} - held:
        raise Missing(f"no runs under cost_model={', '.join(sorted({one, other} - held))}")
    both = evidence.evaluations.select(runs["cost_model"].isin([one, other]).to_numpy())
    compared = compare_cost_models(both, evidence.judge, evidence.mixed)
    mine, theirs = compared.pairs[one], compared.pairs[other]
    methods = [m for m in ordered(mine.table) if m in set(theirs.table["method"]) and m != EI]
    complete = [own.wide("cost_pct", methods).dropna().index for own in (mine, theirs)]
    mine, theirs = (own.on(complete[0].intersection(complete[1])) for own in (mine, theirs))

    def less(one: Relative, other: Relative, measure: str) -> list[pd.DataFrame]:
        return [(one.wide(measure, methods, s) - other.wide(measure, methods, s)).dropna() for s in STATISTICS]

    (saved, single_saved), (added, single_added) = less(theirs, mine, "cost_pct"), less(mine, theirs, "error_pct")
    if saved.empty or not methods:
        raise Missing(f"no problem and seed with the same EI^alpha under {one} and {other}")
    n, cells = compared.n, saved.index.to_frame(index=False)
    short = [] if n >= STUDY_ITERATIONS else [f"runs of {STUDY_ITERATIONS} iterations are needed; both have {n}"]
    over = f"{scope(cells, compared.components['evaluator'])}, {n} iterations, {evidence.judge} error"
    barred = [*foreign_components(compared.components), *short, *too_few(cells)]
    ei = mine.table.drop_duplicates(CELL).set_index(CELL)["final_error_ei"]
    return _Differences(saved, added, single_saved, single_added, ei, n, compared.runs, over, barred)


@claim(
    11,
    "LV-3 in BO is at least as good as GP, clearly better for large alpha; transfer saves as much time but loses more "
    "accuracy",
    statistic="paired differences of time saved and error added against EI, averaged over the alphas > 0 that both "
    "cost models were run with: means over problems and seeds, medians, means without flat data sets, and means of "
    f"errors as a share of what there was to gain, of which {POINTS:g} points stand for one in the rule",
    rule=f"LV-3 minus GP: less than {ERROR:g} point more error and {TIME:g} points less time saved; for alpha >= "
    f"{LARGE}: less error, and less than {TIME:g} points less time saved; transferred linear minus LV-3: less than "
    f"{TIME:g} points less time saved, and more error",
)
def claim_11(evidence: Evidence) -> Finding:
    """LV-3 against GP over all alphas and large ones, and the transferred model against LV-3."""
    views = {**evidence.estimates(), SHARE: mean}
    return in_views({view: partial(_trade_offs, evidence, view, estimate) for view, estimate in views.items()})


def _in_view(found: _Differences, view: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return time saved, and errors added in points of EI's error, or of what there was to gain."""
    if view == MEDIANS:
        return found.single_saved, found.single_added
    return found.saved, require_gain(found.of_gain()) if view == SHARE else found.added


def _trade_offs(evidence: Evidence, view: str, estimate: Callable[[pd.Series], Estimate]) -> Finding:
    found = evidence.once(GP, lambda: _differences(evidence, LINEAR, GP))
    over, barred = found.over, found.barred
    (saved, added), most = _in_view(found, view), ERROR * (POINTS if view == SHARE else 1.0)
    counting = evidence.unflat(added) if view == UNFLAT else added
    if len(counting) < len(saved):
        over += f"; in this view {len(counting):,} of the {len(saved):,} cells"
        barred = [*dict.fromkeys([*barred, *too_few(counting.index.to_frame(index=False))])]
    alpha = by_method(evidence.evaluations.runs)["alpha"]
    large = [m for m in saved if m == "eipu" or alpha.get(m, 0.0) >= LARGE]
    conditions = [
        Condition("error added, LV-3 minus GP", estimate(added.mean(axis=1)), at_most=most, digits=2, unit=" points"),
        Condition("time saved, LV-3 minus GP", estimate(saved.mean(axis=1)), -TIME, unit=" points"),
    ]
    doubts = []
    if large:
        conditions += [
            Condition(f"error added, alpha >= {LARGE}, LV-3 minus GP", estimate(added[large].mean(axis=1)), at_most=0.0,
                      digits=2, unit=" points"),
            Condition(f"time saved, alpha >= {LARGE}, LV-3 minus GP", estimate(saved[large].mean(axis=1)), -TIME,
                      unit=" points"),
        ]  # fmt: skip
    else:
        doubts.append(f"no alpha of {LARGE} or more under both cost models")
    try:
        transferred = evidence.once(TRANSFER, lambda: _differences(evidence, TRANSFER, LINEAR))
        if transferred.barred:
            raise Missing("; ".join(transferred.barred))
        saved, added = _in_view(transferred, view)
        conditions += [
            Condition("time saved, transferred minus LV-3", estimate(saved.mean(axis=1)), -TIME, unit=" points"),
            Condition(
                "error added, transferred minus LV-3", estimate(added.mean(axis=1)), 0.0, digits=2, unit=" points"
            ),
        ]
        over = f"{over}; transfer: {transferred.over}"
    except (Missing, BadInput) as missing:
        doubts.append(f"{TRANSFER} is left out: {missing}")
    return Finding(conditions, over, barred=barred, doubts=doubts)

"""The claims about acquisitions: EI^alpha (1 to 6), contextual EI (7 and 8), and the EI-cost front (12)."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

import numpy as np
import pandas as pd
from jaxtyping import Float

from analysis import REFERENCE
from analysis.captions import plural, scope, study_values
from analysis.claims.evidence import (
    MEANS,
    MEDIANS,
    MONEY,
    PLANNED,
    POINTS,
    SHARE,
    UNFLAT,
    Evidence,
    claim,
    foreign_components,
    not_counting,
    require_budgets,
    too_few,
)
from analysis.claims.verdicts import Condition, Finding, Missing, in_views
from analysis.evaluations import CELL
from analysis.hypervolumes import EVERY, FEWEST, Hypervolumes, families_of, volumes
from analysis.methods import EI, EIPU, by_method, name_in_text, ordered
from analysis.ranks import Ranks
from analysis.selection import RULE, select_families, sentence_on_sparse_methods, sparse_methods
from analysis.statistics import Estimate, mean, of_means
from analysis.tradeoffs import EI_STOPPED, over_steps, persistence, reference
from datasets.errors import BadInput

# Claims 1 to 3: what EI^alpha saves and loses after N iterations, against EI on the same problem and seed.

SMALL = (0.01, 0.05, 0.1)  # alphas of claim 3, fixed beforehand
_CHANGES = (
    "percent of EI's total cost saved and of EI's final error added, over problems and seeds: means (of sums over the "
    "seeds of a problem), medians (of single runs), means without flat data sets, and means of the error added as a "
    "share of what there was to gain, from the median of random search to the best in the table, of which "
    f"{POINTS:g} points stand for one percent in the rule"
)


def _of_alpha(alpha: float) -> str:
    return f"eialpha(alpha={alpha:g})"


def _in_every_scale(examine: Callable[[str], Finding]) -> Finding:
    """Return the finding by means, medians, means without flat data sets, and shares of what there was to gain."""
    return in_views({view: partial(examine, view) for view in (MEANS, MEDIANS, UNFLAT, SHARE)})


def _added(
    alpha: float,
    method: str,
    evidence: Evidence,
    view: str,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Condition:
    """Return the condition on the error added, in percent of EI's, or in points of what there was to gain."""
    scale, unit = (POINTS, " points") if view == SHARE else (1.0, " %")
    least, most = (None if limit is None else scale * limit for limit in (at_least, at_most))
    added = evidence.change(method, "added", view)
    return Condition(f"error added at alpha = {alpha:g}", added, least, most, unit, digits=2)


def _saves(alpha: float, least: float, most: float, evidence: Evidence, view: str) -> list[Condition]:
    saved = evidence.change(_of_alpha(alpha), "saved", view)
    return [
        Condition(f"time saved at alpha = {alpha:g}", saved, at_least=least, unit=" %"),
        _added(alpha, _of_alpha(alpha), evidence, view, at_most=most),
    ]


def _one_alpha(alpha: float, least: float, most: float, evidence: Evidence) -> Finding:
    def in_one(view: str) -> Finding:
        cells = _cells(evidence, _of_alpha(alpha), view)
        also = evidence.beside_rivals(_of_alpha(alpha)) if view == MEANS else ""
        found = _saves(alpha, least, most, evidence, view)
        return Finding(found, evidence.over(cells), barred=evidence.barred(cells), also=also)

    return _in_every_scale(in_one)


def _cells(evidence: Evidence, method: str, view: str) -> pd.DataFrame:
    """Return the cells that a method's numbers are taken over in a view."""
    cells = evidence.pairs.table[evidence.pairs.table["method"] == method]
    if view == UNFLAT:
        return cells[~cells["dataset"].isin(evidence.flat)]
    if view == SHARE and method in evidence.lost:
        return cells[pd.MultiIndex.from_frame(cells[CELL]).isin(evidence.lost[method].dropna().index)]
    return cells


@claim(
    1,
    "alpha = 0.1 saves half of the time at a loss of 1 % accuracy",
    paper="50 % saved, 1 % lost",
    statistic=_CHANGES,
    rule="time saved above 40 % and error added below 2 %",
)
def claim_1(evidence: Evidence) -> Finding:
    """Half the time at one percent of error: alpha = 0.1."""
    return _one_alpha(0.1, 40.0, 2.0, evidence)


@claim(
    2,
    "alpha = 0.01 saves a fifth of the time at no loss",
    paper="20 % saved, none lost",
    statistic=_CHANGES,
    rule="time saved above 10 % and error added below 0.5 %",
)
def claim_2(evidence: Evidence) -> Finding:
    """A fifth of the time at no loss: alpha = 0.01."""
    return _one_alpha(0.01, 10.0, 0.5, evidence)


@claim(
    3,
    "alpha = 1 loses accuracy severely; alpha = 0 is needlessly costly",
    statistic=_CHANGES,
    rule="alpha = 1 adds more than 5 % of error; and of alpha = 0.01, 0.05, 0.1 at least one saves more than 10 % of "
    "the time at less than 1 % of error added",
)
def claim_3(evidence: Evidence) -> Finding:
    """Both ends are bad: EIpu loses accuracy, EI wastes time."""
    return _in_every_scale(lambda view: _both_ends(evidence, view))


def _both_ends(evidence: Evidence, view: str) -> Finding:
    severe = _added(1.0, EIPU, evidence, view, at_least=5.0)
    present = set(evidence.pairs.table["method"])
    small = [alpha for alpha in SMALL if _of_alpha(alpha) in present]
    if not small:
        raise Missing(f"no runs of EI^alpha with a small alpha ({', '.join(map(str, SMALL))})")
    cells = _cells(evidence, EIPU, view)
    barred = evidence.barred(cells)
    seen = [alpha for alpha in small if not too_few(_cells(evidence, _of_alpha(alpha), view))]
    if not seen:  # whatever they are, they say nothing of other data sets
        seen, barred = small, [*barred, *too_few(_cells(evidence, _of_alpha(small[0]), view))]
    unseen = [f"alpha = {alpha:g}" for alpha in SMALL if alpha not in seen]
    also = evidence.beside_rivals(EIPU) if view == MEANS else ""
    return Finding([severe], evidence.over(cells), [_saves(alpha, 10.0, 1.0, evidence, view) for alpha in seen],
                   barred, also=also, unseen=unseen)  # fmt: skip


# Claims 4 to 6: mean rank of EI^alpha under time budgets.

FEWEST_ALPHAS, FEWEST_BUDGETS = 5, 3
LARGE = (20.0, 10.0, 5.0, 2.0)  # a large budget of claim 6, the largest first: four times the lowest, or more
BEST = 0.2
_RANK = (
    "mean rank, over problems and seeds with and without flat data sets, of the best error within a budget, among "
    "EI^alpha"
)


Kept = Callable[[pd.DataFrame], pd.DataFrame]


def _either_way(evidence: Evidence, examine: Callable[[bool, Kept], Finding]) -> Finding:
    """Return the finding within budgets that are used up, and at equal money; both also without flat data sets.

    examine: of equal_money, and of what is kept of ranks by cell.
    """
    ways: dict[str, Callable[[], Finding]] = {}
    for view, equal_money in ((PLANNED, False), (MONEY, True)):
        ways[view] = partial(examine, equal_money, lambda ranks: ranks)
        ways[f"{view}, without flat data sets"] = partial(examine, equal_money, evidence.unflat)
    return in_views(ways)


def _ranks_over_alpha(evidence: Evidence, equal_money: bool) -> tuple[Ranks, list[float]]:
    ranked = evidence.of_alpha[equal_money]
    axis = by_method(evidence.traces.runs)["alpha"]
    alphas = [float(axis[m]) for m in ranked.methods]
    if len(alphas) < FEWEST_ALPHAS or not {0.0, BEST, 1.0} <= set(alphas):
        shown = ", ".join(f"{a:g}" for a in alphas)
        raise Missing(f"needs {FEWEST_ALPHAS} alphas, 0, {BEST:g} and 1 among them; the records hold {shown}")
    return ranked, alphas


def wrong_way(rank: Float[np.ndarray, "B M"]) -> Float[np.ndarray, " B"]:
    """Return which share of a curve's way goes the wrong one: up before its lowest point, or down after it.

    0 for a curve with one valley, 0.5 at most (as a curve that ends as high as it began goes up half of its way); noise
    makes about a third of it with nine alphas, less with fewer.
    """
    steps = np.diff(rank, axis=1)
    before = np.arange(steps.shape[1]) < rank.argmin(axis=1)[:, None]
    wrong = np.where(before, np.maximum(steps, 0.0), np.maximum(-steps, 0.0)).sum(axis=1)
    way = np.abs(steps).sum(axis=1)
    return np.divide(wrong, way, out=np.zeros_like(wrong), where=way > 0)


@claim(
    4,
    "under a time budget rank is bell-shaped in alpha, best near 0.2",
    paper="best near alpha = 0.2",
    statistic=f"{_RANK}; averaged over the budgets of 50 to 2000 % that count (at least {FEWEST_BUDGETS}), on the "
    f"cells that count at all of them: {RULE}",
    rule="the best alpha's interval lies in 0.1 to 0.3; alpha = 0 and alpha = 1 both rank worse than 0.2; less than a "
    "fifth of the curve's way goes up before its lowest point or down after it (noise only adds to that, so that more "
    "does not count against the claim)",
)
def claim_4(evidence: Evidence) -> Finding:
    """The valley of ranks over alpha, averaged over the budgets that count."""
    return _either_way(evidence, partial(_valley, evidence))


def _valley(evidence: Evidence, equal_money: bool, kept: Kept) -> Finding:
    ranked, alphas = _ranks_over_alpha(evidence, equal_money)
    budgets = ranked.multiples[ranked.counting]
    if len(budgets) < FEWEST_BUDGETS:
        require_budgets(ranked, tuple(ranked.multiples))
    values = sum(ranked.at(m) for m in budgets) / len(budgets)
    assert isinstance(values, pd.DataFrame)
    values = kept(values.dropna())  # the cells that count at every one of them
    middle = values[ranked.methods[alphas.index(BEST)]]

    def best(means: Float[np.ndarray, "B M"]) -> Float[np.ndarray, " B"]:
        return np.array(alphas)[means.argmin(axis=1)]

    conditions = [
        Condition("best alpha", of_means(values, best), at_least=0.099, at_most=0.301, digits=2),
        Condition("rank of alpha = 0 minus that of 0.2", mean(values[EI] - middle), 0.0, digits=2),
        Condition("rank of alpha = 1 minus that of 0.2", mean(values[EIPU] - middle), 0.0, digits=2),
        Condition(
            "share of the curve's way that goes the wrong way",
            of_means(values, wrong_way),
            at_most=0.2,
            digits=2,
            noise_adds=True,
        ),
    ]
    lead = f"mean over budgets of {', '.join(ranked.named(m) for m in budgets)}; "
    return evidence.of_ranks(ranked, conditions, [values], lead)


@claim(
    5,
    "EIpu is poor even at low budgets",
    statistic=f"{_RANK}, at 50 and 100 % of the minimal budget: {RULE}",
    rule="EIpu ranks worse than the middle of the methods at both budgets",
)
def claim_5(evidence: Evidence) -> Finding:
    """EIpu's place among EI^alpha at the two lowest budgets."""
    return _either_way(evidence, partial(_place_of_eipu, evidence))


def _place_of_eipu(evidence: Evidence, equal_money: bool, kept: Kept) -> Finding:
    ranked, alphas = _ranks_over_alpha(evidence, equal_money)
    require_budgets(ranked, (0.5, 1.0))
    middle, lowest = (len(alphas) + 1) / 2, {m: kept(ranked.at(m)) for m in (0.5, 1.0)}
    conditions = [
        Condition(f"rank of EIpu at {ranked.named(m)} minus the middle one ({middle:g} of {len(alphas)})",
                  mean(at[EIPU] - middle), 0.0, digits=2)
        for m, at in lowest.items()
    ]  # fmt: skip
    return evidence.of_ranks(ranked, conditions, [*lowest.values()])


@claim(
    6,
    "EI catches up as the budget grows",
    statistic=f"{_RANK}, at 50 % and at the largest that counts, on the cells that count at both: {RULE}",
    rule="EI's mean rank is better at the largest budget that counts (200 % or more) than at 50 %",
)
def claim_6(evidence: Evidence) -> Finding:
    """EI's rank at a large budget against its rank at the lowest."""
    return _either_way(evidence, partial(_catching_up, evidence))


def _catching_up(evidence: Evidence, equal_money: bool, kept: Kept) -> Finding:
    ranked, _ = _ranks_over_alpha(evidence, equal_money)
    usable = [m for m in LARGE if m in set(ranked.multiples[ranked.counting])]
    if not usable:
        require_budgets(ranked, LARGE)
    require_budgets(ranked, (0.5,))
    change = kept(ranked.at(usable[0])[[EI]] - ranked.at(0.5)[[EI]]).dropna()
    what = f"rank of EI at {ranked.named(usable[0])} minus that at {ranked.named(0.5)}"
    return evidence.of_ranks(ranked, [Condition(what, mean(change[EI]), at_most=0.0, digits=2)], [change])


# Claims 7 and 8: contextual EI against EI^alpha, EI and EIpu.

MARGIN = 0.02  # of the hypervolume: 2 % of EI's time at no loss
INNER = (0.1, 0.7)  # lambdas that are not extreme, fixed beforehand


_Volumes = tuple[Hypervolumes, dict[str, list[str]]]


def _volumes(evidence: Evidence, chosen: Mapping[str, list[str]] | None = None) -> _Volumes:
    return evidence.once("volumes", lambda: volumes(evidence.equal, chosen))


def share_members(base: Evidence, own: Evidence) -> None:
    """Compare the same methods' hypervolumes in `own` as in `base`, where they are to be had.

    To be called before anything else asks `own` for its hypervolumes.
    """
    with suppress(BadInput):
        _volumes(own, _volumes(base)[1])


def _gaps(found: Hypervolumes) -> pd.DataFrame:
    """Return CEI's hypervolume minus each other's, means over seeds, by problem as if by cell."""
    return (found.own - found.others).assign(seed=0).set_index("seed", append=True)


def volume_gap(evidence: Evidence) -> pd.Series:
    """Return CEI's hypervolume minus EI^alpha's, by problem; raises BadInput as `volumes` does."""
    return _gaps(_volumes(evidence)[0])["alpha"]


@claim(
    7,
    "CEI's trade-offs are on par with or better than EI^alpha's",
    statistic="mean over problems (and median, and mean without flat data sets) of the difference of two hypervolumes "
    "of (cost, error), means over seeds: of CEI over lambda and of EI^alpha over alpha, EI in both; reference: EI's "
    "total cost and the initial design's error, over the range of cost that both reach on a problem (a method cheaper "
    "than the other family's cheapest counts as if it cost as much); as many methods of either, of the larger family "
    "those nearest in cost to the other's; beside them as many of EI, and of each rival, stopped after n evaluations, "
    "nearest in cost",
    rule=f"the difference is above -{MARGIN} (2 % of EI's time at no loss)",
)
def claim_7(evidence: Evidence) -> Finding:
    """Hypervolumes of the two families' trade-offs, problem by problem."""
    runs = evidence.equal.runs
    families = families_of(runs)
    if min(map(len, families.values())) < FEWEST or EI not in families["alpha"]:
        raise Missing(f"needs ei and two values or more of alpha and of lambda; there are {', '.join(ordered(runs))}")
    found, chosen = _volumes(evidence)
    gaps = _gaps(found)
    ours, theirs = (areas.groupby(level="dataset").mean().mean() for areas in (found.own, found.others))
    few = sparse_methods(select_families(evidence.equal, "alpha", "lam").runs)
    over = (
        f"{evidence.over(found.cells)}; left out {plural(found.flat, 'problem')} in which no method gains on the "
        f"initial design, and {plural(found.incomplete, 'pair')} without a successful run of every method"
        f"{sentence_on_sparse_methods(few, clause=True)}"
    )
    gap = gaps["alpha"]
    shown = {name: Condition("", mean(gaps[name]), digits=3) for name in [*chosen, EVERY] if name != "lam"}
    members = {name: f"({', '.join(map(name_in_text, methods))})" for name, methods in chosen.items()}
    beside = [
        f"{name_in_text(name)} {theirs[name]:.3f}, CEI {ours[name]:.3f}, the difference{shown[name]}"
        for name in shown
        if name not in ("alpha", EI_STOPPED, EVERY)
    ]
    also = (
        f"hypervolumes {ours['alpha']:.3f} {members['lam']} and {theirs['alpha']:.3f} {members['alpha']}, EI in both; "
        f"CEI's is larger on {(gap > 0).mean():.0%} of the problems; of all {len(families['lam']) - 1} lambdas and "
        f"{len(families['alpha']) - 1} alphas, the difference{shown[EVERY]}"
    )
    if EI_STOPPED in chosen:
        also += (
            f"; over the range of cost that CEI shares with each: EI stopped early {theirs[EI_STOPPED]:.3f} "
            f"{members[EI_STOPPED]}, CEI {ours[EI_STOPPED]:.3f}, the difference{shown[EI_STOPPED]}"
        )
    also += f"; rivals stopped early as often: {'; '.join(beside)}" if beside else ""

    def examine(view: str, estimate: Callable[[pd.Series], Estimate]) -> Finding:
        words, flat = "hypervolume of CEI minus that of EI^alpha", found.cells["dataset"].isin(evidence.flat)
        cells = found.cells[~flat] if view == UNFLAT else found.cells
        return Finding([Condition(words, estimate(gap), -MARGIN, digits=3)], over, barred=evidence.barred(cells),
                       also=also if estimate is mean else "")  # fmt: skip

    return in_views({view: partial(examine, view, estimate) for view, estimate in evidence.estimates().items()})


@claim(
    8,
    "CEI outranks EI and EIpu at every budget, extreme lambda aside, and beats EI even at large budgets",
    statistic="mean rank, with and without flat data sets, among EI, EIpu and CEI with lambda in 0.1 to 0.7: CEI's, "
    "averaged over lambda, minus EI's and minus EIpu's, at budgets of 50, 100, 200, 500, 1000 and 2000 % of the "
    f"minimal one: {RULE}",
    rule="all differences are below 0, at each budget that counts: at equal money all six of them, twelve differences",
)
def claim_8(evidence: Evidence) -> Finding:
    """Mean rank of CEI, over its inner lambdas, against both rivals at every budget."""
    runs = evidence.traces.runs
    few = sparse_methods(runs)
    inner = [method for method in ordered(runs[runs["lam"].between(*INNER)]) if method not in few]
    if not inner or not {EI, EIPU} <= set(runs["method"]) - set(few):
        raise Missing(f"needs ei, eipu and cei with lambda in {INNER[0]} to {INNER[1]}; got {', '.join(ordered(runs))}")
    return _either_way(evidence, partial(_against_both, evidence, inner))


def _against_both(evidence: Evidence, inner: list[str], equal_money: bool, kept: Kept) -> Finding:
    ranked = evidence.ranked([EI, EIPU, *inner], equal_money)
    if not ranked.counting.any():
        require_budgets(ranked, tuple(ranked.multiples))
    conditions, counting = [], {m: kept(ranked.at(m)) for m in ranked.multiples[ranked.counting]}
    for multiple, at in counting.items():
        for rival, name in ((EI, "EI"), (EIPU, "EIpu")):
            gap = mean(at[inner].mean(axis=1) - at[rival])
            conditions.append(
                Condition(f"rank of CEI minus {name}'s at {ranked.named(multiple)}", gap, at_most=0.0, digits=2)
            )
    lacking = not_counting(ranked, ranked.multiples[~ranked.long_enough].tolist())
    return evidence.of_ranks(ranked, conditions, [*counting.values()], doubts=lacking)


# Claim 12: whether the points of the EI-cost front stay on it.

RARELY = 1 / 3
SEVERAL, ALSO = 5, (1, 10)  # steps on the front throughout: those that decide, and those beside them
STAGES: dict[str, tuple[int, float]] = {  # of a run, by the steps of its fronts
    "all steps": (0, np.inf), "steps before 20": (0, 19), "steps 20 to 49": (20, 49), "steps from 50": (50, np.inf),
}  # fmt: skip


@claim(
    12,
    "points of the front rarely stay optimal from one iteration to the next",
    statistic=f"share of the EI-cost front's points at t that are on the front throughout t + 1 to t + {SEVERAL}, each "
    "time of the same candidates without those evaluated since, which do not count themselves; mean over the steps of "
    f"a run, then over the study's problems and seeds; beside it the same for {ALSO[0]} and {ALSO[1]} steps; by stage",
    rule=f"less than a third of them stay for {SEVERAL} steps",
)
def claim_12(evidence: Evidence) -> Finding:
    """The share of a front's points that stay on the front of the same candidates for several iterations."""
    if evidence.fronts is None or evidence.fronts.empty:
        raise Missing("no fronts: run `python -m harness +acq=ei fronts=true`")
    fronts = reference(evidence.fronts)
    shares = {lag: persistence(fronts, lag) for lag in (SEVERAL, *ALSO)}
    return in_views({stage: partial(_staying, fronts, shares, *ends) for stage, ends in STAGES.items()})


def _staying(fronts: pd.DataFrame, by_lag: dict[int, pd.Series], first: int, last: float) -> Finding:
    shares = study_values(over_steps(by_lag[SEVERAL], first, last))
    cells = shares.index.to_frame(index=False)
    found = Condition(f"points that stay for {SEVERAL} steps", mean(100 * shares), at_most=100 * RARELY, unit=" %")
    also = []
    for lag in ALSO:
        try:
            others_stay = mean(100 * study_values(over_steps(by_lag[lag], first, last)))
            also.append(str(Condition(f"for {plural(lag, 'step')}", others_stay, unit=" %")))
        except BadInput as reason:
            also.append(f"for {lag} steps: {reason}")
    steps = fronts.loc[fronts["step"].between(first, last), "step"]
    over = f"{scope(cells, str(fronts['evaluator'].iloc[0]))}, steps {steps.min()} to {steps.max()} of EI"
    chosen = {name: str(fronts[name].iloc[0]) for name in REFERENCE}
    return Finding([found], over, barred=[*foreign_components(chosen), *too_few(cells)], also="; ".join(also))

"""The claims about acquisitions: EI^alpha (1 to 6), contextual EI (7 and 8), and the EI-cost front (12)."""

from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float

from analysis import REFERENCE
from analysis.captions import of_study, plural, scope
from analysis.claims.verdicts import (
    FAILS,
    Claim,
    Condition,
    Evidence,
    Finding,
    Missing,
    mean,
    need,
    others,
    too_few,
    too_short_for,
)
from analysis.ranks import Ranks
from analysis.selection import RULE, at_horizon, horizon, left_aside, of_families, sparse
from analysis.statistics import of_means
from analysis.traces import EI, EIPU, Traces, ordered
from analysis.tradeoffs import Hypervolumes, Relative, hypervolumes, persistence, reference
from datasets.errors import BadInput
from datasets.files import write_atomically

# Claims 4 to 6: mean rank of EI^alpha under time budgets.

FEWEST_ALPHAS, FEWEST_BUDGETS = 5, 3
LARGE = (20.0, 10.0)  # a large budget of claim 6, the largest first
BEST = 0.2


def _alphas(evidence: Evidence, ranked: Ranks) -> list[float]:
    axis = evidence.traces.runs.drop_duplicates("method").set_index("method")["alpha"]
    alphas = [float(axis[m]) for m in ranked.methods]
    if len(alphas) < FEWEST_ALPHAS or not {0.0, BEST, 1.0} <= set(alphas):
        shown = ", ".join(f"{a:g}" for a in alphas)
        raise Missing(f"needs {FEWEST_ALPHAS} alphas, 0, {BEST:g} and 1 among them; the records hold {shown}")
    return alphas


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


def claim_4(evidence: Evidence) -> Finding:
    """The valley of ranks over alpha, averaged over the budgets that count."""
    ranked = evidence.of_alpha()
    alphas = _alphas(evidence, ranked)
    budgets = ranked.multiples[ranked.counting]
    if len(budgets) < FEWEST_BUDGETS:
        need(ranked, tuple(ranked.multiples))
    values = sum(ranked.at(m) for m in budgets) / len(budgets)
    assert isinstance(values, pd.DataFrame)
    values = values.dropna()  # the cells that count at every one of them
    middle = ranked.methods[alphas.index(BEST)]

    def best(means: Float[np.ndarray, "B M"]) -> Float[np.ndarray, " B"]:
        return np.array(alphas)[means.argmin(axis=1)]

    at = f"mean over budgets of {', '.join(f'{m:.0%}' for m in budgets)}"
    return Finding(
        [
            Condition("best alpha", of_means(values, best), at_least=0.099, at_most=0.301, digits=2),
            Condition("rank of alpha = 0 above that of 0.2 by", mean(values[EI] - values[middle]), 0.0, digits=2),
            Condition("rank of alpha = 1 above that of 0.2 by", mean(values[EIPU] - values[middle]), 0.0, digits=2),
            Condition("share of the curve's way that goes the wrong way", of_means(values, wrong_way), at_most=0.2,
                      digits=2),
        ],
        f"{at}; {evidence.over_ranks(ranked)}",
        barred=evidence.barred(ranked.cells_used),
    )  # fmt: skip


def claim_5(evidence: Evidence) -> Finding:
    """EIpu's place among EI^alpha at the two lowest budgets."""
    ranked = evidence.of_alpha()
    _alphas(evidence, ranked)
    need(ranked, (0.5, 1.0))
    middle = (len(ranked.methods) + 1) / 2
    conditions = [
        Condition(f"rank of EIpu at {m:.0%} above the middle one ({middle:g} of {len(ranked.methods)}) by",
                  mean(ranked.at(m)[EIPU] - middle), 0.0, digits=2)
        for m in (0.5, 1.0)
    ]  # fmt: skip
    return Finding(conditions, evidence.over_ranks(ranked), barred=evidence.barred(ranked.cells_used))


def claim_6(evidence: Evidence) -> Finding:
    """EI's rank at a large budget against its rank at the lowest."""
    ranked = evidence.of_alpha()
    _alphas(evidence, ranked)
    usable = [m for m in LARGE if m in set(ranked.multiples[ranked.counting])]
    if not usable:
        need(ranked, LARGE[-1:])
    need(ranked, (0.5,))
    change = mean((ranked.at(usable[0])[EI] - ranked.at(0.5)[EI]).dropna())
    what = f"rank of EI at {usable[0]:.0%} minus that at 50%"
    return Finding([Condition(what, change, at_most=0.0, digits=2)], evidence.over_ranks(ranked),
                   barred=evidence.barred(ranked.cells_used))  # fmt: skip


_RANK = "mean rank, over problems and seeds, of the best error within a budget, among EI^alpha"
CLAIMS_ON_BUDGETS = (
    Claim(4, "under a time budget rank is bell-shaped in alpha, best near 0.2", "best near alpha = 0.2",
          f"{_RANK}; averaged over the budgets of 50 to 2000 % that count (at least 3), on the cells that count at all "
          f"of them: {RULE}",
          "the best alpha's interval lies in 0.1 to 0.3; alpha = 0 and alpha = 1 both rank worse than 0.2; less than a "
          "fifth of the curve's way goes up before its lowest point or down after it", claim_4),
    Claim(5, "EIpu is poor even at low budgets", "in words", f"{_RANK}, at 50 and 100 % of the minimal budget: {RULE}",
          "EIpu ranks worse than the middle of the methods at both budgets", claim_5),
    Claim(6, "EI catches up as the budget grows", "in words",
          f"{_RANK}, at 50 % and at the largest that counts, on the cells that count at both: {RULE}",
          "EI's mean rank is better at 2000 % (or else 1000 %) than at 50 %", claim_6),
)  # fmt: skip


# Claims 7 and 8: contextual EI against EI^alpha, EI and EIpu.

MARGIN = 0.02  # of the hypervolume: 2 % of EI's time at no loss
INNER = (0.1, 0.7)  # lambdas that are not extreme, fixed beforehand
FEWEST = 3  # members of a family, EI included
ALIKE = 1  # families whose sizes differ by no more are compared either way; the study's have 9 and 8 members


def families_of(runs: pd.DataFrame) -> dict[str, list[str]]:
    """Return the methods present of EI^alpha (``alpha``), and of CEI with EI, which is its lambda = 0 (``lam``).

    Those with too few runs are left out (`selection.sparse`).
    """
    runs = runs[~runs["method"].isin(sparse(runs))]
    return {
        "alpha": ordered(runs[runs["alpha"].notna()]),
        "lam": [EI, *ordered(runs[runs["lam"].notna()])],
    }


def volumes(equal: Traces) -> Hypervolumes:
    """Return the hypervolumes of the two families, in which no other method's runs take part.

    `equal`: runs of equal length. Raises BadInput where no problem and seed has runs of both that can be compared.
    """
    families = families_of(equal.runs)
    counted = {method for methods in families.values() for method in methods}
    return hypervolumes(equal.select(equal.runs["method"].isin(counted).to_numpy()), families)


def write_volumes(traces: Traces, out_dir: Path) -> list[Path]:
    """Write hypervolumes.csv, those of claim 7 per problem; nothing where the records hold none."""
    try:
        found = volumes(at_horizon(traces, horizon(traces))[0]).per_problem.reset_index()
    except BadInput:
        return []
    path = out_dir / "hypervolumes.csv"
    write_atomically(path, found.to_csv(index=False, float_format="%.6g", lineterminator="\n").encode())
    return [path]


def claim_7(evidence: Evidence) -> Finding:
    """Hypervolumes of the two families' trade-offs, problem by problem."""
    runs = evidence.equal.runs
    families = families_of(runs)
    few = [name for name, methods in families.items() if len(methods) < FEWEST]
    if few or EI not in families["alpha"]:
        raise Missing(f"needs ei and two values or more of alpha and of lambda; there are {', '.join(ordered(runs))}")
    found = volumes(evidence.equal)
    values = found.per_problem.assign(seed=0).set_index("seed", append=True)
    shares = found.per_problem.mean()
    also = (
        f"hypervolumes {shares['lam']:.3f} ({len(families['lam'])} methods) and {shares['alpha']:.3f} "
        f"({len(families['alpha'])} methods); CEI's is larger on {(values['lam'] > values['alpha']).mean():.0%} of the "
        "problems"
    )
    left = f"; left out {plural(found.flat, 'pair')} in which no method gains on the initial design, and "
    left += f"{found.incomplete:,} without a successful run of every method"
    left += left_aside(sparse(of_families(evidence.equal, "alpha", "lam").runs), clause=True)
    gap = Condition(
        "hypervolume of CEI minus that of EI^alpha", mean(values["lam"] - values["alpha"]), -MARGIN, digits=3
    )
    more = len(families["lam"]) - len(families["alpha"])
    why = f"the larger family reaches more by its size alone: {len(families['lam'])} methods of CEI, EI among them, "
    why += f"against {len(families['alpha'])} of EI^alpha"
    barred = [*evidence.barred(found.cells), *([why] if more < -ALIKE and gap.word == FAILS else [])]
    doubts = [why] if more > ALIKE else []
    return Finding([gap], evidence.over(found.cells) + left, barred=barred, doubts=doubts, also=also)


def claim_8(evidence: Evidence) -> Finding:
    """Mean rank of CEI, over its inner lambdas, against both rivals at every budget."""
    runs = evidence.traces.runs
    few = sparse(runs)
    inner = [method for method in ordered(runs[runs["lam"].between(*INNER)]) if method not in few]
    if not inner or not {EI, EIPU} <= set(runs["method"]) - set(few):
        raise Missing(f"needs ei, eipu and cei with lambda in {INNER[0]} to {INNER[1]}; got {', '.join(ordered(runs))}")
    ranked = evidence.ranked([EI, EIPU, *inner])
    if not ranked.counting.any():
        need(ranked, tuple(ranked.multiples))
    conditions = []
    for multiple in ranked.multiples[ranked.counting]:
        at = ranked.at(multiple)
        for rival, name in ((EI, "EI"), (EIPU, "EIpu")):
            gap = mean(at[inner].mean(axis=1) - at[rival])
            conditions.append(Condition(f"rank of CEI minus {name}'s at {multiple:.0%}", gap, at_most=0.0, digits=2))
    lacking = ranked.multiples[~ranked.counting].tolist()
    doubts = [too_short_for(lacking)] if lacking else []
    return Finding(conditions, evidence.over_ranks(ranked), barred=evidence.barred(ranked.cells_used), doubts=doubts)


CLAIMS_ON_CONTEXTUAL_EI = (
    Claim(7, "CEI's trade-offs are on par with or better than EI^alpha's", "in words",
          "mean over problems of the difference of two hypervolumes of (cost, error), means over seeds: of CEI over "
          "lambda and of EI^alpha over alpha, EI in both; reference: EI's total cost and the initial design's error; "
          "the interval resamples problems with their means over seeds, not the seeds",
          f"the difference is above -{MARGIN} (2 % of EI's time at no loss); as a larger family reaches more by its "
          f"size, CEI is not said to be ahead with over {ALIKE} method more, nor behind with over {ALIKE} fewer",
          claim_7),
    Claim(8, "CEI outranks EI and EIpu at every budget, extreme lambda aside, and beats EI even at large budgets",
          "in words", "mean rank among EI, EIpu and CEI with lambda in 0.1 to 0.7: CEI's, averaged over lambda, minus "
          "EI's and minus EIpu's, at budgets of 50, 100, 200, 500, 1000 and 2000 % of the minimal one: " + RULE,
          "all twelve differences are below 0", claim_8),
)  # fmt: skip


# Claim 12: whether the points of the EI-cost front stay on it.

RARELY = 1 / 3


def claim_12(evidence: Evidence) -> Finding:
    """The share of a front's points that are on the front of the same candidates one iteration later."""
    if evidence.fronts is None or evidence.fronts.empty:
        raise Missing("no fronts: run `python -m harness +acq=ei fronts=true`")
    fronts = reference(evidence.fronts)
    shares = of_study(persistence(fronts))
    cells = shares.index.to_frame(index=False)
    staying = Condition("points that stay on the front", mean(100 * shares), at_most=100 * RARELY, unit=" %")
    steps = f"steps {fronts['step'].min()} to {fronts['step'].max()} of EI"
    over = f"{scope(cells, str(fronts['evaluator'].iloc[0]))}, {steps}"
    chosen = {name: str(fronts[name].iloc[0]) for name in REFERENCE}
    return Finding([staying], over, barred=[*others(chosen), *too_few(cells)])


CLAIMS_ON_PERSISTENCE = (
    Claim(12, "points of the front rarely stay optimal from one iteration to the next", "in words",
          "share of the EI-cost front's points at t - 1, the one evaluated left out, that are on the front of the same "
          "candidates at t; mean over the steps of a run, then over the study's problems and seeds",
          "less than a third of them", claim_12),
)  # fmt: skip


# Claims 1 to 3: what EI^alpha saves and loses after N iterations, against EI on the same problem and seed.

SMALL = (0.01, 0.05, 0.1)  # alphas of claim 3, fixed beforehand
_STATISTIC = "mean over problems and seeds of percent of EI's total cost saved and of EI's final error added"


def _saves(least: float, most: float, alpha: float, evidence: Evidence) -> list[Condition]:
    method = f"eialpha(alpha={alpha:g})"
    return [
        Condition(f"time saved at alpha = {alpha:g}", evidence.change(method, "saved"), at_least=least, unit=" %"),
        Condition(f"error added at alpha = {alpha:g}", evidence.change(method, "added"), at_most=most, unit=" %",
                  digits=2),
    ]  # fmt: skip


def _one_alpha(alpha: float, least: float, most: float, evidence: Evidence) -> Finding:
    conditions = _saves(least, most, alpha, evidence)
    method = f"eialpha(alpha={alpha:g})"
    median = f"medians: {evidence.median(method, 'saved'):.1f} % and {evidence.median(method, 'added'):.2f} %"
    cells = _cells(evidence.pairs, method)
    return Finding(conditions, evidence.over(cells), barred=evidence.barred(cells), also=median)


def _cells(pairs: Relative, method: str) -> pd.DataFrame:
    return pairs.table[pairs.table["method"] == method]


def claim_1(evidence: Evidence) -> Finding:
    """Half the time at one percent of error: alpha = 0.1."""
    return _one_alpha(0.1, 40.0, 2.0, evidence)


def claim_2(evidence: Evidence) -> Finding:
    """A fifth of the time at no loss: alpha = 0.01."""
    return _one_alpha(0.01, 10.0, 0.5, evidence)


def claim_3(evidence: Evidence) -> Finding:
    """Both ends are bad: EIpu loses accuracy, EI wastes time."""
    severe = Condition("error added at alpha = 1", evidence.change(EIPU, "added"), at_least=5.0, unit=" %", digits=2)
    present = set(evidence.pairs.table["method"])
    small = {alpha: f"eialpha(alpha={alpha:g})" for alpha in SMALL if f"eialpha(alpha={alpha:g})" in present}
    if not small:
        raise Missing(f"no runs of EI^alpha with a small alpha ({', '.join(map(str, SMALL))})")
    cells = _cells(evidence.pairs, EIPU)
    barred = evidence.barred(cells)
    told = [alpha for alpha, method in small.items() if not too_few(_cells(evidence.pairs, method))]
    if not told:  # whatever they are, they say nothing of other data sets
        told, barred = list(small), [*barred, *too_few(_cells(evidence.pairs, next(iter(small.values()))))]
    unseen = [f"alpha = {alpha:g}" for alpha in SMALL if alpha not in told]
    return Finding([severe], evidence.over(cells), [_saves(10.0, 1.0, alpha, evidence) for alpha in told], barred,
                   unseen=unseen)  # fmt: skip


CLAIMS_ON_TRADEOFFS = (
    Claim(1, "alpha = 0.1 saves half of the time at a loss of 1 % accuracy", "50 % saved, 1 % lost", _STATISTIC,
          "time saved above 40 % and error added below 2 %", claim_1),
    Claim(2, "alpha = 0.01 saves a fifth of the time at no loss", "20 % saved, none lost", _STATISTIC,
          "time saved above 10 % and error added below 0.5 %", claim_2),
    Claim(3, "alpha = 1 loses accuracy severely; alpha = 0 is needlessly costly", "in words", _STATISTIC,
          "alpha = 1 adds more than 5 % of error; and of alpha = 0.01, 0.05, 0.1 at least one saves more than 10 % of "
          "the time at less than 1 % of error added (not corrected for the three looks)", claim_3),
)  # fmt: skip

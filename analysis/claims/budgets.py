"""Claims 4 to 6: mean rank of EI^alpha under time budgets."""

import numpy as np
import pandas as pd
from jaxtyping import Float

from analysis.bootstrap import of_means
from analysis.claims.condition import Condition
from analysis.claims.decide import Claim, Finding, Missing
from analysis.claims.evidence import Evidence, mean, need
from analysis.endings import RULE
from analysis.methods import EI, EIPU
from analysis.ranked import Ranks

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
CLAIMS = (
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

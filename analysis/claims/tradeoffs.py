"""Claims 1 to 3: what EI^alpha saves and loses after N iterations, against EI on the same problem and seed."""

import pandas as pd

from analysis.claims.condition import Condition
from analysis.claims.decide import Claim, Finding, Missing
from analysis.claims.evidence import Evidence, too_few
from analysis.methods import EIPU
from analysis.relative import Relative

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


CLAIMS = (
    Claim(1, "alpha = 0.1 saves half of the time at a loss of 1 % accuracy", "50 % saved, 1 % lost", _STATISTIC,
          "time saved above 40 % and error added below 2 %", claim_1),
    Claim(2, "alpha = 0.01 saves a fifth of the time at no loss", "20 % saved, none lost", _STATISTIC,
          "time saved above 10 % and error added below 0.5 %", claim_2),
    Claim(3, "alpha = 1 loses accuracy severely; alpha = 0 is needlessly costly", "in words", _STATISTIC,
          "alpha = 1 adds more than 5 % of error; and of alpha = 0.01, 0.05, 0.1 at least one saves more than 10 % of "
          "the time at less than 1 % of error added (not corrected for the three looks)", claim_3),
)  # fmt: skip

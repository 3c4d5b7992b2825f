"""Claim 12: whether the points of the EI-cost front stay on it."""

from analysis import REFERENCE
from analysis.claims.condition import Condition
from analysis.claims.decide import Claim, Finding, Missing
from analysis.claims.evidence import Evidence, mean, others, too_few
from analysis.fronts import persistence, reference
from analysis.scope import of_study, scope

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


CLAIMS = (
    Claim(12, "points of the front rarely stay optimal from one iteration to the next", "in words",
          "share of the EI-cost front's points at t - 1, the one evaluated left out, that are on the front of the same "
          "candidates at t; mean over the steps of a run, then over the study's problems and seeds",
          "less than a third of them", claim_12),
)  # fmt: skip

"""Claim 11: what the cost model does to the trade-off of EI^alpha."""

from typing import NamedTuple

import pandas as pd

from analysis.claims.condition import Condition
from analysis.claims.decide import Claim, Finding, Missing
from analysis.claims.evidence import Evidence, mean, others, too_few
from analysis.costs_pairs import compare
from analysis.methods import EI, ordered
from analysis.scope import scope
from analysis.traces import STUDY_ITERATIONS
from datasets.errors import BadInput

LINEAR, GP, TRANSFER = "lv3", "gp", "transfer_linear"
ERROR, TIME = 1.0, 5.0  # points of EI's error and time within which two models are as good
LARGE = 0.5  # alphas from here on are large


class _Differences(NamedTuple):
    """Time saved and error added by one cost model minus by another (cells x methods); what they are taken over."""

    saved: pd.DataFrame
    added: pd.DataFrame
    over: str
    barred: list[str]


def _differences(evidence: Evidence, one: str, other: str) -> _Differences:
    frame = evidence.frame[evidence.frame["cost_model"].isin([one, other])]
    held = set(frame["cost_model"])
    if {one, other} - held:
        raise Missing(f"no runs under cost_model={', '.join(sorted({one, other} - held))}")
    compared = compare(frame, evidence.judge, evidence.mixed)
    kept, n = compared.pairs, compared.n
    shared = set.intersection(*(set(pairs.table["method"]) for pairs in kept.values()))
    methods = [m for m in ordered(kept[one].table) if m in shared and m != EI]
    saved = kept[other].wide("cost_pct", methods) - kept[one].wide("cost_pct", methods)
    added = kept[one].wide("error_pct", methods) - kept[other].wide("error_pct", methods)
    saved, added = saved.dropna(), added.dropna()
    if saved.empty or not methods:
        raise Missing(f"no problem and seed with the same EI^alpha under {one} and {other}")
    cells = saved.index.to_frame(index=False)
    short = [] if n >= STUDY_ITERATIONS else [f"runs of {STUDY_ITERATIONS} iterations are needed; both have {n}"]
    over = f"{scope(cells, compared.components['evaluator'])}, {n} iterations, {evidence.judge} error"
    return _Differences(saved, added, over, [*others(compared.components), *short, *too_few(cells)])


def claim_11(evidence: Evidence) -> Finding:
    """LV-3 against GP over all alphas and large ones, and the transferred model against LV-3."""
    saved, added, over, barred = _differences(evidence, LINEAR, GP)
    alpha = evidence.frame.assign(method=evidence.frame["method"].astype(str)).groupby("method")["alpha"].first()
    large = [m for m in saved if m == "eipu" or alpha.get(m, 0.0) >= LARGE]
    conditions = [
        Condition("error added, LV-3 minus GP", mean(added.mean(axis=1)), at_most=ERROR, digits=2, unit=" points"),
        Condition("time saved, LV-3 minus GP", mean(saved.mean(axis=1)), -TIME, unit=" points"),
    ]
    doubts = []
    if large:
        conditions += [
            Condition(f"error added, alpha >= {LARGE}, LV-3 minus GP", mean(added[large].mean(axis=1)), at_most=0.0,
                      digits=2, unit=" points"),
            Condition(f"time saved, alpha >= {LARGE}, LV-3 minus GP", mean(saved[large].mean(axis=1)), -TIME,
                      unit=" points"),
        ]  # fmt: skip
    else:
        doubts.append(f"no alpha of {LARGE} or more under both cost models")
    try:
        saved, added, over_transfer, too_little = _differences(evidence, TRANSFER, LINEAR)
        if too_little:
            raise Missing("; ".join(too_little))
        conditions += [
            Condition("time saved, transferred minus LV-3", mean(saved.mean(axis=1)), -TIME, unit=" points"),
            Condition("error added, transferred minus LV-3", mean(added.mean(axis=1)), 0.0, digits=2, unit=" points"),
        ]
        over = f"{over}; transfer: {over_transfer}"
    except (Missing, BadInput) as missing:
        doubts.append(f"{TRANSFER} is left out: {missing}")
    return Finding(conditions, over, barred=barred, doubts=doubts)


CLAIMS = (
    Claim(11, "LV-3 in BO is at least as good as GP, clearly better for large alpha; transfer saves as much time but "
          "loses more accuracy", "in words",
          "paired differences of time saved and error added against EI, mean over problems, seeds and the alphas > 0 "
          "that both cost models were run with",
          f"LV-3 minus GP: less than {ERROR:g} point more error and {TIME:g} points less time saved; for alpha >= "
          f"{LARGE}: less error, and less than {TIME:g} points less time saved; transferred linear minus LV-3: less "
          f"than {TIME:g} points less time saved, and more error", claim_11),
)  # fmt: skip

"""The claims of the paper, each with its number, ours with its interval, and a verdict by a rule fixed beforehand.

STUDY, "Claims to test", lists them. The rules were written before any result was looked at; what was changed since, and
why, STUDY says with its effect (means of sums, for statistics that lean; the methods that claim 7 compares). A claim is
a few conditions on estimates with 95 % intervals: it *holds* when every interval lies inside its condition, *does not
hold* when one lies wholly outside by Holm's correction for their number, and is *undecided* otherwise, or when the
records do not contain what it needs. Where the records can be looked at in several ways (means, medians, equal money),
it *holds only where* it holds in some. `evaluate` judges all twelve.
"""

import importlib
import pkgutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pandas as pd

from analysis import captions
from analysis.claims import cost_models
from analysis.claims.evidence import Claim, Evidence
from analysis.claims.verdicts import Verdict
from analysis.evaluations import Recorded
from analysis.traces import Judge, Traces, check_columns

__all__ = ["Verdict", "evaluate"]

_MODULES = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
_FOUND = {found.number: found for module in _MODULES for found in vars(module).values() if isinstance(found, Claim)}
CLAIMS = tuple(_FOUND[number] for number in sorted(_FOUND))


def evaluate(
    recorded: Recorded,
    costs: pd.DataFrame | None = None,
    fronts: pd.DataFrame | None = None,
    judge: Judge = "validation",
    mixed: bool = False,
    collected: Traces | None = None,
) -> list[Verdict]:
    """Return the verdict on each of the twelve claims; what the records do not suffice for is undecided, and says why.

    recorded: the evaluations; costs: `analysis.cost_models.read_costs`; fronts:
    `analysis.tradeoffs.read_fronts`. judge: whether the validation or the test error of the configurations chosen
    counts. mixed: as for `collect`; collected: what that makes of them, where it is at hand.
    """
    check_columns(recorded)
    evidence = Evidence(recorded, costs, fronts, judge, mixed, collected)
    return [claim.verdict(evidence) for claim in CLAIMS]


def with_reason(verdicts: Sequence[Verdict], unreadable: str) -> list[Verdict]:
    """Return the verdicts; those on how well cost models predict with why their records are not read, if they are not.

    unreadable: that reason, "" where the records were read or there are none.
    """
    about = {cost_models.claim_9.number, cost_models.claim_10.number} if unreadable else set()
    return [replace(verdict, why=unreadable) if verdict.number in about else verdict for verdict in verdicts]


def table(verdicts: Sequence[Verdict]) -> str:
    """Return the verdicts as a Markdown table, and below it how each was reached."""
    verdicts = [v.in_one_line() for v in verdicts]
    rows = [
        {"#": str(v.number), "claim": v.claim, "paper": v.paper, "ours": v.deciding or v.ours,
         "verdict": f"**{v.said}**"}
        for v in verdicts
    ]  # fmt: skip
    how = [
        f"{v.number}. *Statistic*: {v.statistic}. *Holds if*: {v.rule}. *Ours*: {v.ours}. "
        f"*Why {v.verdict}*: {v.why}. *Taken over*: {v.taken_over}."
        for v in verdicts
    ]
    return captions.markdown_table(pd.DataFrame(rows)) + "\n\n" + "\n".join(how)


def frame(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """Return one row per verdict, with the columns of `Verdict`."""
    return pd.DataFrame([asdict(v.in_one_line()) for v in verdicts])


def write(verdicts: Sequence[Verdict], intervals: str, out_dir: Path) -> tuple[Path, Path]:
    """Write claims.md and claims.csv; `intervals` says what the intervals are."""
    rules = (
        f"{intervals} A claim holds if the intervals of all its conditions lie inside them, does not hold "
        f"if one lies wholly outside (Holm's correction for their number), holds only where it holds in some ways to "
        f"take the numbers, which are not corrected for, and is undecided otherwise. The rules were written before the "
        f"results; what was changed since, and what by, says STUDY.md."
    )
    paths = out_dir / "claims.md", out_dir / "claims.csv"
    captions.write_page(paths[0], ["# Claims", rules, table(verdicts)])
    captions.write_csv(frame(verdicts), paths[1])
    return paths

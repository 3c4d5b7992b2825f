"""All claims on one set of records, and the table of their verdicts."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from analysis import markdown
from analysis.claims import budgets, contextual, models, persistence, prediction, tradeoffs
from analysis.claims.decide import Claim, Missing, Verdict, verdict, without_evidence
from analysis.claims.evidence import Evidence
from analysis.traces import Judge
from datasets.errors import BadInput
from datasets.files import write_atomically

CLAIMS: tuple[Claim, ...] = tuple(
    sorted(
        (
            *tradeoffs.CLAIMS,
            *budgets.CLAIMS,
            *contextual.CLAIMS,
            *prediction.CLAIMS,
            *models.CLAIMS,
            *persistence.CLAIMS,
        ),
        key=lambda claim: claim.number,
    )
)


def evaluate(
    traces: pd.DataFrame,
    costs: pd.DataFrame | None = None,
    fronts: pd.DataFrame | None = None,
    judge: Judge = "validation",
    mixed: bool = False,
) -> list[Verdict]:
    """Return the verdict on each of the twelve claims; what the records do not suffice for is undecided, and says why.

    traces: `harness.records.read_traces`; costs: `analysis.costs.read_costs`; fronts: `analysis.fronts.read_fronts`.
    judge: whether the validation or the test error of the configurations chosen counts. mixed: as for `collect`.
    """
    evidence = Evidence(traces, costs, fronts, judge, mixed)
    return [_examine(claim, evidence) for claim in CLAIMS]


def _examine(claim: Claim, evidence: Evidence) -> Verdict:
    try:
        return verdict(claim, claim.examine(evidence))
    except (Missing, BadInput) as reason:
        return without_evidence(claim, str(reason))


def table(verdicts: Sequence[Verdict]) -> str:
    """Return the verdicts as a Markdown table, and below it how each was reached."""
    rows = [
        {
            "#": str(v.number),
            "claim": v.claim,
            "paper": v.paper,
            "ours": v.deciding or v.ours,
            "verdict": f"**{v.verdict}**",
        }
        for v in verdicts
    ]
    how = [
        f"{v.number}. *Statistic*: {v.statistic}. *Holds if*: {v.rule}. *Ours*: {v.ours}. "
        f"*Why {v.verdict}*: {v.why}. *Taken over*: {v.taken_over}."
        for v in verdicts
    ]
    return markdown.table(pd.DataFrame(rows)) + "\n\n" + "\n".join(how)


def write(verdicts: Sequence[Verdict], intervals: str, out_dir: Path) -> tuple[Path, Path]:
    """Write claims.md and claims.csv; `intervals` says what the intervals are."""
    text = (
        f"# Claims\n\n{intervals} A claim holds if the intervals of all its conditions lie inside them, does not hold "
        f"if one lies wholly outside, and is undecided otherwise. The rules were written before the results.\n\n"
        f"{table(verdicts)}\n"
    )
    paths = out_dir / "claims.md", out_dir / "claims.csv"
    write_atomically(paths[0], text.encode())
    frame = pd.DataFrame([asdict(v) for v in verdicts])
    write_atomically(paths[1], frame.to_csv(index=False, float_format="%.6g", lineterminator="\n").encode())
    return paths

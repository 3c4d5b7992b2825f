"""The claims about predicted cost where records of cost models are there, but cannot be read."""

from collections.abc import Sequence
from dataclasses import replace

from analysis.claims.decide import Verdict
from analysis.claims.prediction import CLAIMS


def with_reason(verdicts: Sequence[Verdict], unreadable: str) -> list[Verdict]:
    """Return the verdicts; those on how well cost models predict with why their records are not read, if they are not.

    unreadable: that reason, "" where the records were read or there are none.
    """
    about = {claim.number for claim in CLAIMS} if unreadable else set()
    return [replace(verdict, why=unreadable) if verdict.number in about else verdict for verdict in verdicts]

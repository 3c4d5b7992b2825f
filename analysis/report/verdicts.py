"""The claims on the page: asking for the verdicts, and the tables made of them."""

from collections import Counter
from collections.abc import Callable, Sequence

import pandas as pd

from analysis import markdown
from analysis.claims.condition import FAILS, HOLDS, UNDECIDED
from analysis.claims.decide import Verdict
from analysis.report.parts import Records, plain
from datasets.errors import BadInput

Evaluate = Callable[[Records], Sequence[Verdict]]


def verdicts(evaluate: Evaluate, records: Records) -> list[Verdict] | str:
    """Return the verdicts on these records, or one line why there are none."""
    try:
        return sorted(evaluate(records), key=lambda verdict: verdict.number)
    except BadInput as error:
        return f"The claims could not be decided: {plain(str(error))}."


def count(found: Sequence[Verdict]) -> str:
    """Return e.g. ``7 hold, 2 do not hold, 3 are undecided``."""
    n = Counter(verdict.verdict for verdict in found)
    words = {
        HOLDS: ("holds", "hold"),
        FAILS: ("does not hold", "do not hold"),
        UNDECIDED: ("is undecided", "are undecided"),
    }
    return ", ".join(f"{n[kind]} {one if n[kind] == 1 else many}" for kind, (one, many) in words.items())


def number(verdict: Verdict) -> str:
    """Return our number with its interval, where there is one: of several, the one that decided."""
    if verdict.deciding:
        return verdict.deciding
    if verdict.low is None or verdict.high is None or "[" in verdict.ours:
        return verdict.ours or "-"
    return f"{verdict.ours} [{markdown.number(verdict.low)}, {markdown.number(verdict.high)}]"


def table(found: Sequence[Verdict]) -> str:
    """Return the headline table: claim, the paper's number, the one of ours that decided, verdict."""
    rows = [{"#": str(v.number), "verdict": v.verdict, "claim": plain(v.claim), "ours [95 %]": plain(number(v)),
             "paper": plain(v.paper)} for v in found]  # fmt: skip
    return markdown.table(pd.DataFrame(rows))


def reasons(found: Sequence[Verdict]) -> list[str]:
    """Return, claim by claim, how it was decided: why, by which numbers, statistic and rule, over which runs."""
    out = []
    for v in found:
        over = "" if v.taken_over in ("", "-") else f" *Taken over:* {_ended(v.taken_over)}"
        out.append(f"**{v.number}. {_ended(v.claim)}** **{v.verdict.capitalize()}:** {_ended(v.why)}")
        if v.deciding:
            out.append(f"*Numbers:* {_ended(v.ours)}")
        out.append(f"*Statistic:* {_ended(v.statistic)} *Rule:* {_ended(v.rule)}{over}")
    return out


def compared(found: Sequence[Verdict], without: Sequence[Verdict]) -> str:
    """Return the table of verdicts with and without some data sets, and whether they differ."""
    others = {v.number: v for v in without}
    rows = [{"#": str(v.number), "all": v.verdict, "without": others[v.number].verdict,
             "differs": "yes" if others[v.number].verdict != v.verdict else "no",
             "claim": plain(v.claim), "ours without them [95 %]": plain(number(others[v.number]))}
            for v in found if v.number in others]  # fmt: skip
    return markdown.table(pd.DataFrame(rows))


def _ended(text: str) -> str:
    text = plain(text) or "-"
    return text if text.endswith((".", "!", "?")) else f"{text}."

"""The verdicts on the claims under one setting, beside those under another on what both have.

A folder holds one folder of records per setting: `base`, and others of any name, such as those of configs/setting.
Each is compared with the base, or with the setting that differs from it in one thing only (AGAINST), on the problems,
seeds, methods and lengths that both have. Beside them, the base itself judged by the test error of the configurations
chosen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.claims import Verdict
from analysis.claims.decide import UNDECIDED, Claim, Missing, verdict, without_evidence
from analysis.claims.evaluate import CLAIMS as EVERY
from analysis.claims.evidence import Evidence
from analysis.mixing import check_same_origin, check_same_tables
from analysis.traces import CELL, Judge
from datasets.catalogue import entries
from harness.errors import BadInput
from harness.records import read_traces

BASE, TEST, LOSS = "base", "test", "log_loss"
RANKED, LOWEST = 8, " at 50%"  # the claim about ranks under budgets, and how its conditions at the lowest end
CLAIMS = (1, 2, 3, 7, RANKED)  # those that runs of 100 iterations under one cost model decide
SCALES = ("log_error", "winsorized")  # on which the surrogate sees errors
SAME_TABLES = ("ard_off", *SCALES, "cpu", "wall", LOSS, "coarse", "exact")  # these differ in something else
AGAINST: Mapping[str, str] = {"wall": "cpu", "hist": "exact"}  # compared with that setting, where it is there
ORDER = ("ard_off", *SCALES, "cpu", "wall", LOSS, "coarse", "surface", "exact", "hist")  # others follow by name
_VALIDATION: Judge = "validation"


@dataclass(frozen=True)
class Comparison:
    """The verdicts under a setting and under what it is compared with, on the same problems, seeds and methods."""

    setting: str
    against: str
    cells: pd.DataFrame
    methods: int
    base: list[Verdict]
    own: list[Verdict]

    @property
    def changed(self) -> list[int]:
        """The numbers of the claims whose verdict is another one."""
        return [b.number for b, o in zip(self.base, self.own, strict=True) if b.verdict != o.verdict]

    @property
    def open(self) -> list[int]:
        """The numbers of the claims that are undecided under both, by an estimate under one of them or both."""
        both, unknown = zip(self.base, self.own, strict=True), self.unknown
        return [b.number for b, o in both if b.verdict == o.verdict == UNDECIDED and b.number not in unknown]

    @property
    def unknown(self) -> list[int]:
        """The numbers of the claims that there is no estimate for, under either."""
        return [b.number for b, o in zip(self.base, self.own, strict=True) if b.low is None and o.low is None]


class NothingShared(BadInput):
    """A setting and what it is compared with have no runs in common."""


def compare(
    setting: str, base: pd.DataFrame, own: pd.DataFrame, judge: Judge = "validation", against: str = BASE
) -> Comparison:
    """Compare records under a setting with the base's, or those of `against`.

    Raises NothingShared where they share no runs, BadInput where tables differ, of a setting that is not about tables.
    """
    keys = [*CELL, "method", "iterations", "tau"]
    both = _runs(base, keys).intersection(_runs(own, keys))
    if setting == LOSS:
        regression = {name for name, entry in entries().items() if entry.task == "regression"}
        classified = both[~both.get_level_values("dataset").isin(regression)]
        if len(both) and not len(classified):
            raise NothingShared(f"setting {setting}: of classification only, and all runs shared are of regression")
        both = classified
    if not len(both):
        shared = f"no problem, seed, method and length of runs in common with the {against}"
        raise NothingShared(f"setting {setting}: {shared}")
    base, own = (frame[_index(frame, keys).isin(both)] for frame in (base, own))
    if setting in SAME_TABLES:
        check_same_tables({against: base, setting: own})
    cells = both.to_frame(index=False)
    first, second = (
        _verdicts(Evidence(frame.reset_index(drop=True), judge=by)) for frame, by in ((base, _VALIDATION), (own, judge))
    )
    return Comparison(setting, against, cells[CELL].drop_duplicates(), cells["method"].nunique(), first, second)


def _verdicts(evidence: Evidence) -> list[Verdict]:
    return [_decide(claim, evidence) for claim in EVERY if claim.number in CLAIMS]


def _decide(claim: Claim, evidence: Evidence) -> Verdict:
    """Return the verdict on one claim; on that about ranks under budgets, at the lowest budget alone.

    Runs of 100 iterations are too short for the others.
    """
    try:
        finding = claim.examine(evidence)
        if claim.number == RANKED:
            lowest = [one for one in finding.conditions if one.what.endswith(LOWEST)]
            if not lowest:
                raise Missing(f"no ranks{LOWEST} of the minimal budget")
            finding = replace(finding, conditions=lowest, doubts=())
        return verdict(claim, finding)
    except (Missing, BadInput) as reason:
        return without_evidence(claim, str(reason))


def _runs(frame: pd.DataFrame, keys: list[str]) -> pd.MultiIndex:
    return _index(frame, keys).drop_duplicates()


def _index(frame: pd.DataFrame, keys: list[str]) -> pd.MultiIndex:
    told = frame[keys].astype({"dataset": str, "pipeline": str, "method": str})
    return pd.MultiIndex.from_frame(told.assign(tau=told["tau"].fillna(np.inf)))


def read(folder: Path) -> tuple[list[Comparison], list[str]]:
    """Compare every folder of records with the base, some with another one (AGAINST), and say why some are not.

    Raises BadInput without a base.
    """
    names = sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if BASE not in names:
        there = ", ".join(names) or "none"
        raise BadInput(f"{folder} needs a folder {BASE!r} of records to compare with; folders there: {there}")
    order = [name for name in ORDER if name in names] + [n for n in names if n not in (BASE, *ORDER)]

    def recorded(name: str) -> pd.DataFrame:
        frame = read_traces(folder / name)
        check_same_origin(frame, told=f" ({folder / name})")
        return frame

    records = {name: recorded(name) for name in {BASE, *(set(AGAINST.values()) & set(names))}}

    found, left_out = [compare(TEST, records[BASE], records[BASE], "test")], list[str]()
    for name in order:
        against = AGAINST[name] if AGAINST.get(name) in records else BASE
        own = records[name] if name in records else recorded(name)
        try:
            found.append(compare(name, records[against], own, against=against))
        except NothingShared as reason:
            left_out.append(str(reason))
    return found, left_out

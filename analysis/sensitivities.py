"""Does a claim's verdict depend on a setting? The same study under several settings, compared with the base.

A folder holds one folder of records per setting: `base`, and others of any name, such as those of configs/setting.
Each is compared with the base on the problems, seeds and methods that both have, so that only the setting differs.
Beside them, the base itself judged by the test error of the configurations chosen.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.claims import Verdict, evaluate
from analysis.claims.decide import UNDECIDED
from analysis.markdown import table
from analysis.scope import intervals, plural
from analysis.traces import CELL, Judge
from harness.errors import BadInput
from harness.files import write_atomically
from harness.records import read_traces, specs

BASE, TEST = "base", "test"
DATA, DATA_COLUMNS = "sensitivities_data.csv", ["dataset", "pipeline", "data"]
_VALIDATION: Judge = "validation"
CLAIMS = range(1, 9)  # those that runs under one cost model decide
TITLES: Mapping[str, str] = {
    TEST: "test error of the configuration chosen, for validation error",
    "ard_off": "one length-scale (ARD off), for one per dimension",
    "wall": "wall-clock seconds as cost, for CPU seconds",
    "log_loss": "log-loss minimised, for misclassification rate",
    "coarse": "the tables' first 32 configurations, for all",
    "surface": "tables interpolated, for their rows",
    "hist": "tree_method=hist, for exact",
}


@dataclass(frozen=True)
class Comparison:
    """The verdicts under a setting and under the base, on the same problems, seeds and methods."""

    setting: str
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
        """The numbers of the claims that are undecided under both."""
        both = zip(self.base, self.own, strict=True)
        return [b.number for b, o in both if b.verdict == o.verdict == UNDECIDED]


def compare(setting: str, base: pd.DataFrame, own: pd.DataFrame, judge: Judge = "validation") -> Comparison:
    """Compare records under a setting with the base's; raises BadInput where they have nothing in common."""
    keys = [*CELL, "method"]
    both = _runs(base, keys).intersection(_runs(own, keys))
    if not len(both):
        raise BadInput(f"setting {setting}: no problem, seed and method in common with the base")
    base, own = (
        frame[pd.MultiIndex.from_frame(frame[keys].astype({"method": str})).isin(both)] for frame in (base, own)
    )
    cells = both.to_frame(index=False)
    first, second = (
        [v for v in evaluate(frame.reset_index(drop=True), judge=by) if v.number in CLAIMS]
        for frame, by in ((base, _VALIDATION), (own, judge))
    )
    return Comparison(setting, cells[CELL].drop_duplicates(), cells["method"].nunique(), first, second)


def _runs(frame: pd.DataFrame, keys: list[str]) -> pd.MultiIndex:
    return pd.MultiIndex.from_frame(
        frame[keys].astype({"dataset": str, "pipeline": str, "method": str}).drop_duplicates()
    )


def read(folder: Path) -> list[Comparison]:
    """Compare every folder of records with the base; raises BadInput without one."""
    names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    if BASE not in names:
        found = ", ".join(names) or "none"
        raise BadInput(f"{folder} needs a folder {BASE!r} of records to compare with; folders there: {found}")
    base = read_traces(folder / BASE)
    order = [name for name in TITLES if name in names] + [n for n in names if n not in TITLES and n != BASE]
    found_there = [compare(name, base, read_traces(folder / name)) for name in order]
    return [compare(TEST, base, base, "test"), *found_there]


def report(folder: Path, out_dir: Path) -> tuple[Path, ...]:
    """Write sensitivities.md, its numbers as CSV, and what the base was replayed from; BadInput without a base."""
    found = read(folder)
    text = "\n\n".join(
        [
            "# Sensitivities",
            "Does any claim change its verdict? Each setting beside the base on the same problems, seeds and methods. "
            f"{intervals(found[0].cells)}",
            table(pd.DataFrame([_row(one) for one in found])),
            _answer(found),
            *(part for one in found if (part := _changes(one))),
        ]
    )
    paths = out_dir / "sensitivities.md", out_dir / "sensitivities.csv", out_dir / DATA
    write_atomically(paths[0], f"{text}\n".encode())
    rows = pd.concat([_numbers(one) for one in found])
    write_atomically(paths[1], rows.to_csv(index=False, float_format="%.6g", lineterminator="\n").encode())
    data = pd.DataFrame([{name: str(spec.get(name, "")) for name in DATA_COLUMNS} for spec in specs(folder / BASE)])
    write_atomically(paths[2], data.drop_duplicates().to_csv(index=False, lineterminator="\n").encode())
    return paths


def from_other_data(out_dir: Path, frame: pd.DataFrame) -> str:
    """Return how many of the base's problems were replayed from other tables than `frame`'s, in words; "" for none."""
    path = out_dir / DATA
    if not path.is_file():
        return "It is not known which tables these were replayed from."
    base = pd.read_csv(path, dtype=str, keep_default_na=False)
    here = frame[DATA_COLUMNS].drop_duplicates().astype(str)
    both = base.merge(here, on=["dataset", "pipeline"], suffixes=("", "_here"))
    other = both[both["data"] != both["data_here"]][["dataset", "pipeline"]].drop_duplicates()
    if other.empty:
        return ""
    return f"Made earlier, from other tables than the rest of this page on {plural(len(other), 'problem')}."


def _row(one: Comparison) -> dict[str, str]:
    problems = len(one.cells[["dataset", "pipeline"]].drop_duplicates())
    size = f"{problems} x {one.cells['seed'].nunique()}"
    row = {"setting": f"`{one.setting}`: {TITLES.get(one.setting, 'as its records say')}", "problems x seeds": size}
    for base, own in zip(one.base, one.own, strict=True):
        same = base.verdict == own.verdict
        row[f"claim {own.number}"] = own.verdict if same else f"**{base.verdict} -> {own.verdict}**"
    return row


def _answer(found: list[Comparison]) -> str:
    changed = [f"{one.setting} ({', '.join(map(str, one.changed))})" for one in found if one.changed]
    if changed:
        text = f"A verdict changes under {plural(len(changed), 'setting')}: {'; '.join(changed)}."
    else:
        text = "No verdict changes under any of these settings."
    open_ = {one.setting: one.open for one in found if one.open}
    if open_:
        each = "; ".join(f"{setting} ({', '.join(map(str, numbers))})" for setting, numbers in open_.items())
        text += f" Undecided under the base and the setting alike, which says nothing of a change: {each}."
    return text + " Claims 9 to 12, on cost models and fronts, are not among those compared."


def _changes(one: Comparison) -> str:
    """Return the numbers behind the verdicts that changed; "" where none did."""
    rows = [
        {"claim": f"{own.number}. {own.claim}", "base": base.ours, f"{one.setting}": own.ours, "why": own.why}
        for base, own in zip(one.base, one.own, strict=True)
        if own.number in one.changed
    ]
    return f"## {one.setting}\n\n{table(pd.DataFrame(rows))}" if rows else ""


def _numbers(one: Comparison) -> pd.DataFrame:
    rows = []
    for setting, verdicts in ((BASE, one.base), (one.setting, one.own)):
        for v in verdicts:
            numbers: dict[str, object] = {
                "claim": v.number,
                "verdict": v.verdict,
                "ours": v.ours,
                "low": v.low,
                "high": v.high,
            }
            context: dict[str, object] = {"why": v.why, "taken_over": v.taken_over}
            rows.append({"compared": one.setting, "setting": setting, **numbers, **context})
    return pd.DataFrame(rows)

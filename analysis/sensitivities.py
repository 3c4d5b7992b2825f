"""Does a claim's verdict depend on a setting? The study under several settings (`settings_compared`), as a page."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from analysis.markdown import table
from analysis.mixing import REPLAYED
from analysis.scope import intervals, plural
from analysis.settings_compared import BASE, LOSS, LOWEST, RANKED, TEST, Comparison, read
from harness.files import write_atomically
from harness.records import specs

NOT_ESTIMATED = "not estimated"
DATA, DATA_COLUMNS = "sensitivities_data.csv", ["dataset", "pipeline", "data"]
TITLES: Mapping[str, str] = {
    TEST: "test error of the configuration chosen, for validation error",
    "ard_off": "one length-scale (ARD off), for one per dimension",
    "log_error": "surrogate of the log of the error, for one of the error",
    "winsorized": "surrogate of errors pulled down to Tukey's fence, for one of the errors",
    "cpu": "CPU seconds as measured, for CPU seconds at the pace of the reference machine",
    "wall": "wall-clock seconds as measured, for CPU seconds {}",
    LOSS: "log-loss minimised and judged by, for misclassification rate; classification problems only",
    "coarse": "the tables' first 32 configurations, for all",
    "surface": "tables interpolated, for their rows",
    "exact": "the same tables, of two pipelines, with no more configurations than those of `hist` have",
    "hist": "tree_method=hist, for exact {}",
}
_PAIRED = {"wall": ("as measured (`cpu`)", "at the pace of the reference machine"),
           "hist": ("with as many configurations of each problem (`exact`)",
                    "with other numbers of configurations, which may be the cause")}  # fmt: skip


def title(one: Comparison) -> str:
    """Return what differs, and from what."""
    like, other = _PAIRED.get(one.setting, ("", ""))
    return TITLES.get(one.setting, "as its records say").format(other if one.against == BASE else like)


def report(folder: Path, out_dir: Path) -> tuple[Path, ...]:
    """Write sensitivities.md, its numbers as CSV, and what the base was replayed from; BadInput without a base."""
    found, left_out = read(folder)
    text = "\n\n".join(
        [
            "# Sensitivities",
            "Does any claim change its verdict? Each setting beside the base, or beside the setting that it names, on "
            f"the same problems, seeds and methods. Of claim {RANKED} only the ranks{LOWEST} of the minimal budget are "
            "compared: runs of 100 iterations are too short for more, and for that where more than a tenth of some "
            f"method's end before. {intervals(found[0].cells)}",
            table(pd.DataFrame([_row(one) for one in found])),
            _answer(found),
            *([f"Left out: {'; '.join(left_out)}."] if left_out else []),
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
    here = frame.loc[frame["evaluator"].isin(REPLAYED), DATA_COLUMNS].drop_duplicates().astype(str)
    both = base.merge(here, on=["dataset", "pipeline"], suffixes=("", "_here"))
    other = both[both["data"] != both["data_here"]][["dataset", "pipeline"]].drop_duplicates()
    if other.empty:
        return ""
    return f"Made earlier, from other tables than the rest of this page on {plural(len(other), 'problem')}."


def _row(one: Comparison) -> dict[str, str]:
    problems = len(one.cells[["dataset", "pipeline"]].drop_duplicates())
    size = f"{problems} x {one.cells['seed'].nunique()}"
    row = {"setting": f"`{one.setting}`: {title(one)}", "problems x seeds": size}
    for base, own in zip(one.base, one.own, strict=True):
        same, verdict = base.verdict == own.verdict, NOT_ESTIMATED if own.number in one.unknown else own.verdict
        name = f"claim {own.number}" + (LOWEST if own.number == RANKED else "")
        row[name] = verdict if same else f"**{base.verdict} -> {own.verdict}**"
    return row


def _answer(found: list[Comparison]) -> str:
    changed = [f"{one.setting} ({', '.join(map(str, one.changed))})" for one in found if one.changed]
    if changed:
        text = f"A verdict changes under {plural(len(changed), 'setting')}: {'; '.join(changed)}."
    else:
        text = "No verdict changes under any of these settings."
    text += _listed("Undecided under the base and the setting alike, which says nothing of a change", "open", found)
    text += _listed("Not estimated under either", "unknown", found)
    return text + (
        " Not among those compared: claims 4 to 6, which need longer runs, and 9 to 12, on cost models and fronts."
    )


def _listed(what: str, which: str, found: list[Comparison]) -> str:
    """Return the sentence that lists, by setting, the numbers of the claims `which` gives; "" for none."""
    numbers = {one.setting: getattr(one, which) for one in found}
    each = "; ".join(f"{setting} ({', '.join(map(str, own))})" for setting, own in numbers.items() if own)
    return f" {what}: {each}." if each else ""


def _changes(one: Comparison) -> str:
    """Return the numbers behind the verdicts that changed; "" where none did."""
    rows = [
        {"claim": f"{own.number}. {own.claim}", one.against: base.ours, one.setting: own.ours, "why": own.why}
        for base, own in zip(one.base, one.own, strict=True)
        if own.number in one.changed
    ]
    return f"## {one.setting}\n\n{table(pd.DataFrame(rows))}" if rows else ""


def _numbers(one: Comparison) -> pd.DataFrame:
    rows = []
    for setting, verdicts in ((one.against, one.base), (one.setting, one.own)):
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

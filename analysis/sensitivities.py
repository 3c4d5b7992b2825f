"""Does a claim hang on a setting? Verdicts under several settings and the base, and how far numbers move, as a page."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.captions import format_interval, intervals, markdown_table, plural, write_csv, write_page
from analysis.claims import CLAIMS as EVERY
from analysis.claims.acquisitions import share_members, volume_gap
from analysis.claims.evidence import Claim, Evidence
from analysis.claims.verdicts import UNDECIDED, Finding, Missing, Verdict
from analysis.evaluations import CELL, REPLAYED, check_same_origin, check_same_tables, table_of
from analysis.methods import EIPU, name_in_text, ordered
from analysis.statistics import mean, percent_of_sums
from analysis.traces import Judge, at_budgets
from analysis.tradeoffs import finals
from datasets.catalogue import KINDS, entries
from datasets.errors import BadInput
from harness.records import read_traces, specs


def _change(method: str, what: str) -> Callable[[Evidence], pd.Series]:
    return lambda evidence: evidence.changes(method, what)


NUMBERS: Mapping[str, tuple[Callable[[Evidence], pd.Series], int]] = {  # of claims 1, 3 and 7, by cell; digits shown
    "alpha = 0.1: time saved, %": (_change("eialpha(alpha=0.1)", "saved"), 1),
    "error added, %": (_change("eialpha(alpha=0.1)", "added"), 2),
    "EIpu: time saved, %": (_change(EIPU, "saved"), 1),
    "error added by EIpu, %": (_change(EIPU, "added"), 2),
    "hypervolume, CEI minus EI^alpha": (volume_gap, 3),
}

# A folder holds one folder of records per setting: `base`, and others of any name, such as those of configs/setting.
# Each is compared with the base, or with the setting that differs from it in one thing only (AGAINST), on the problems,
# seeds, methods and lengths that both have. Beside them, the base itself judged by the test error of the configurations
# chosen.

BASE, TEST, LOSS = "base", "test", "log_loss"
RANKED, LOWEST = 8, " at 50%"  # the claim about ranks under budgets, and how its conditions at the lowest end
CLAIMS_COMPARED = (1, 2, 3, 7, RANKED)  # those that runs of 100 iterations under one cost model decide
TITLES: Mapping[str, str] = {  # what differs, and from what, in the page's order; others follow by name
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
OTHER_TABLES = ("surface", "hist")  # these differ from the base in their tables, the others in something else
AGAINST: Mapping[str, str] = {"wall": "cpu", "hist": "exact"}  # compared with that setting, where it is there
_PAIRED = {"wall": ("as measured (`cpu`)", "at the pace of the reference machine"),
           "hist": ("with as many configurations of each problem (`exact`)",
                    "with other numbers of configurations, which may be the cause")}  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """The verdicts under a setting and under what it is compared with, on the same problems, seeds and methods."""

    setting: str
    against: str
    cells: pd.DataFrame
    methods: int
    base: list[Verdict]
    own: list[Verdict]
    shifts: pd.DataFrame
    itself: pd.DataFrame

    @property
    def changed(self) -> list[int]:
        """The numbers of the claims whose verdict is another one."""
        return [b.number for b, o in zip(self.base, self.own, strict=True) if b.verdict != o.verdict]

    @property
    def unknown(self) -> list[int]:
        """The numbers of the claims that there is no estimate for, under either."""
        return [b.number for b, o in zip(self.base, self.own, strict=True) if b.low is None and o.low is None]

    @property
    def open(self) -> list[int]:
        """The numbers of the claims that are undecided under both, by an estimate under one of them or both."""
        passed = {*self.changed, *self.unknown}
        return [b.number for b in self.base if b.verdict == UNDECIDED and b.number not in passed]

    @property
    def title(self) -> str:
        """What differs, and from what."""
        like, other = _PAIRED.get(self.setting, ("", ""))
        return TITLES.get(self.setting, "as its records say").format(other if self.against == BASE else like)


class NothingShared(BadInput):
    """A setting and what it is compared with have no runs in common."""


def compare_settings(
    setting: str, base: pd.DataFrame, own: pd.DataFrame, judge: Judge = "validation", against: str = BASE
) -> Comparison:
    """Compare records under a setting with the base's, or those of `against`.

    Raises NothingShared where they share no runs, BadInput where tables differ, of a setting that is not about tables.
    """
    keys = [*CELL, "method", "iterations", "tau"]
    runs = _index(base, keys), _index(own, keys)
    both = runs[0].drop_duplicates().intersection(runs[1].drop_duplicates())
    if setting == LOSS:
        regression = {name for name, entry in entries().items() if entry.task == "regression"}
        classified = both[~both.get_level_values("dataset").isin(regression)]
        if len(both) and not len(classified):
            raise NothingShared(f"setting {setting}: of classification only, and all runs shared are of regression")
        both = classified
    if not len(both):
        shared = f"no problem, seed, method and length of runs in common with the {against}"
        raise NothingShared(f"setting {setting}: {shared}")
    base, own = base[runs[0].isin(both)], own[runs[1].isin(both)]
    if setting in TITLES and setting not in OTHER_TABLES:
        check_same_tables({against: base, setting: own})
    cells = both.to_frame(index=False)
    pair = Evidence(base.reset_index(drop=True)), Evidence(own.reset_index(drop=True), judge=judge)
    share_members(*pair)
    first, second = _verdicts(*pair)
    size = cells[CELL].drop_duplicates(), cells["method"].nunique()
    return Comparison(setting, against, *size, first, second, shifts(*pair), beside_itself(*pair))


def shifts(base: Evidence, own: Evidence) -> pd.DataFrame:
    """Return how far numbers behind the claims differ under a setting, on the cells that have them under both.

    Columns: number; against, own: means under either; change, low, high: of the difference, cell by cell.
    """
    rows, other = [], _numbers_behind(base)
    for name, values in _numbers_behind(own).items():
        pairs = pd.concat({"against": other.get(name, values.iloc[:0]), "own": values}, axis=1, join="inner").dropna()
        if len(pairs):
            change = mean(pairs["own"] - pairs["against"])
            means = (mean(pairs[side]).value for side in ("against", "own"))
            rows.append((name, *means, change.value, change.low, change.high))
    return pd.DataFrame(rows, columns=["number", "against", "own", "change", "low", "high"])


CHANGES = ("error", "cost", "error at equal cost")


def beside_itself(base: Evidence, own: Evidence) -> pd.DataFrame:
    """Return what a setting does to each method: its runs beside its own without the setting, in percent.

    Columns: task (all, regression, classification), method, measure (of `CHANGES`), change, low, high, n (cells). The
    change is that of sums over the seeds of a problem: of final errors, of total costs, and of the errors when either
    has spent what the cheaper of the two runs did. Without rows where costs or errors under the setting are other
    quantities than without it: where the first evaluation of a run, which no method chooses, has another error or cost.
    """
    empty = pd.DataFrame(columns=["task", "method", "measure", "change", "low", "high", "n"])
    if base.judge != own.judge:
        return empty
    rows = [
        pd.Series(np.arange(len(runs)), pd.MultiIndex.from_frame(runs[[*CELL, "method"]]))
        for runs in (base.equal.runs, own.equal.runs)
    ]
    both = pd.concat(rows, axis=1, join="inner")
    before, after = (side.equal.select(both[k].to_numpy()) for k, side in enumerate((base, own)))
    for name in ("error", "cost_s"):
        if not np.array_equal(getattr(before, name)[:, 0], getattr(after, name)[:, 0], equal_nan=True):
            return empty
    spent_s = np.minimum(before.total_s, after.total_s)[:, None]
    sides = [finals(one).assign(equal=at_budgets(one.incumbent, one.cost_s, spent_s)[:, 0]) for one in (before, after)]
    found, tasks = [], {name: KINDS[entry.task] for name, entry in entries().items()}
    for measure, column in zip(CHANGES, ("final_error", "total_cost_s", "equal"), strict=True):
        wide = [side.pivot(index=CELL, columns="method", values=column) for side in sides]
        for method in ordered(before.runs):
            change = percent_of_sums(wide[1][[method]], wide[0][method])[method].dropna() - 100
            task = change.index.get_level_values("dataset").map(tasks)
            for name in ("all", *sorted(set(task.dropna()))):
                part = change if name == "all" else change[task == name]
                estimate = mean(part)
                found.append((name, method, measure, estimate.value, estimate.low, estimate.high, len(part)))
    return pd.DataFrame(found, columns=empty.columns)


def _numbers_behind(evidence: Evidence) -> dict[str, pd.Series]:
    """Return `NUMBERS`, without those that are not to be had."""
    found = {}
    for name, (make, _) in NUMBERS.items():
        with suppress(Missing, BadInput):
            found[name] = make(evidence)
    return found


def _verdicts(*both: Evidence) -> list[list[Verdict]]:
    """Return the verdicts on each of the two, by the views that both can be looked at in."""
    compared, found = [claim for claim in EVERY if claim.number in CLAIMS_COMPARED], [list[Verdict]() for _ in both]
    for claim in compared:
        shared = set.intersection(*({one.view for one in _views(claim, evidence)} for evidence in both))
        narrowed = _lowest if claim.number == RANKED else partial(_in_shared, shared=shared)
        for evidence, verdicts in zip(both, found, strict=True):
            verdicts.append(claim.verdict(evidence, narrowed))
    return found


def _views(claim: Claim, evidence: Evidence) -> Sequence[Finding]:
    try:
        finding = claim.finding(evidence)
    except (Missing, BadInput):
        return ()
    return finding, *finding.views


def _in_shared(finding: Finding, shared: Collection[str]) -> Finding:
    """Return a finding without the views that the other side lacks: a verdict would change for want of them alone."""
    kept = [one for one in (finding, *finding.views) if one.view in shared]
    if not kept:
        return finding
    lacking = [f"{one.view} (not to be had under both)" for one in (finding, *finding.views) if one.view not in shared]
    return replace(kept[0], views=tuple(kept[1:]), unlooked=(*finding.unlooked, *lacking))


def _lowest(finding: Finding) -> Finding:
    """Return what a finding says of the lowest budget: runs of 100 iterations are too short for the others."""
    lowest = [one for one in finding.conditions if one.what.endswith(LOWEST)]
    if not lowest:
        raise Missing(f"no ranks{LOWEST} of the minimal budget")
    return replace(finding, conditions=lowest, doubts=(), views=(), unlooked=())


def _index(frame: pd.DataFrame, keys: list[str]) -> pd.MultiIndex:
    named = frame[keys].astype({"dataset": str, "pipeline": str, "method": str})
    return pd.MultiIndex.from_frame(named.assign(tau=named["tau"].fillna(np.inf)))


def read(folder: Path) -> tuple[list[Comparison], list[str]]:
    """Compare every folder of records with the base, some with another one (AGAINST), and say why some are not.

    Raises BadInput without a base.
    """
    names = sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if BASE not in names:
        there = ", ".join(names) or "none"
        raise BadInput(f"{folder} needs a folder {BASE!r} of records to compare with; folders there: {there}")
    order = [name for name in TITLES if name in names] + [n for n in names if n not in (BASE, *TITLES)]

    def recorded(name: str) -> pd.DataFrame:
        frame = read_traces(folder / name)
        check_same_origin(frame, remedy=f" ({folder / name})")
        return frame

    records = {name: recorded(name) for name in {BASE, *(set(AGAINST.values()) & set(names))}}

    found, left_out = [compare_settings(TEST, records[BASE], records[BASE], "test")], list[str]()
    for name in order:
        against = AGAINST[name] if AGAINST.get(name) in records else BASE
        own = records[name] if name in records else recorded(name)
        try:
            found.append(compare_settings(name, records[against], own, against=against))
        except NothingShared as reason:
            left_out.append(str(reason))
    return found, left_out


DATA, DATA_COLUMNS = "sensitivities_data.csv", ["dataset", "pipeline", "data"]


def report(folder: Path, out_dir: Path) -> tuple[Path, ...]:
    """Write sensitivities.md, its numbers as CSV, and what the base was replayed from; BadInput without a base."""
    found, left_out = read(folder)
    names = "sensitivities.md", "sensitivities.csv", DATA, "sensitivities_shifts.csv", "sensitivities_methods.csv"
    paths = tuple(out_dir / name for name in names)
    itself = pd.concat([one.itself.assign(setting=one.setting, compared_with=one.against) for one in found])
    write_page(
        paths[0],
        [
            "# Sensitivities",
            "Does any claim change its verdict? Each setting beside the base, or beside the setting that it names, on "
            f"the same problems, seeds and methods. Of claim {RANKED} only the ranks{LOWEST} of the minimal budget are "
            "compared: runs of 100 iterations are too short for more, and for that where more than a tenth of some "
            f"method's end before. {intervals(found[0].cells)}",
            markdown_table(pd.DataFrame([_row(one) for one in found])),
            _answer(found),
            "How far do the numbers move? Means under each setting (of sums over seeds), and in brackets the change, "
            "pair by pair, from what it is compared with, with its interval; bold where that excludes 0, which one in "
            "twenty does by chance. Fewer seeds suffice for this than for a verdict, which needs ten.",
            markdown_table(pd.DataFrame([_moved(one) for one in found])),
            *_of_methods(itself[itself["task"] == "all"]),
            f"Left out: {'; '.join(left_out)}." if left_out else "",
            *map(_changes, found),
        ],
    )
    write_csv(pd.concat([_numbers(one) for one in found]), paths[1])
    data = pd.DataFrame([{name: str(spec.get(name, "")) for name in DATA_COLUMNS} for spec in specs(folder / BASE)])
    write_csv(data.drop_duplicates(), paths[2])
    write_csv(pd.concat([one.shifts.assign(setting=one.setting, compared_with=one.against) for one in found]), paths[3])
    write_csv(itself, paths[4])
    return paths


def from_other_data(out_dir: Path, runs: pd.DataFrame) -> str:
    """Return how many of the base's problems were replayed from other tables than `runs`', in words; "" for none.

    How much of a table counted may differ.
    """
    path = out_dir / DATA
    if not path.is_file():
        return "It is not known which tables these were replayed from."
    base = pd.read_csv(path, dtype=str, keep_default_na=False)
    here = runs.loc[runs["evaluator"].isin(REPLAYED), DATA_COLUMNS].drop_duplicates().astype(str)
    both = base.merge(here, on=["dataset", "pipeline"], suffixes=("", "_here"))
    differ = both["data"].map(table_of).str[0] != both["data_here"].map(table_of).str[0]
    other = both[differ][["dataset", "pipeline"]].drop_duplicates()
    if other.empty:
        return ""
    return f"Made earlier, from other tables than the rest of this page on {plural(len(other), 'problem')}."


def _row(one: Comparison) -> dict[str, str]:
    problems = len(one.cells[["dataset", "pipeline"]].drop_duplicates())
    size = f"{problems} x {one.cells['seed'].nunique()}"
    row = {"setting": f"`{one.setting}`: {one.title}", "problems x seeds": size}
    for base, own in zip(one.base, one.own, strict=True):
        same, verdict = base.verdict == own.verdict, "not estimated" if own.number in one.unknown else own.verdict
        name = f"claim {own.number}" + (LOWEST if own.number == RANKED else "")
        row[name] = verdict if same else f"**{base.verdict} -> {own.verdict}**"
    return row


def _moved(one: Comparison) -> dict[str, str]:
    row = {"setting": f"`{one.setting}`"} | dict.fromkeys(NUMBERS, "")
    for name, _, own, change, low, high in one.shifts.itertuples(index=False):
        digits = NUMBERS[name][1]
        text = f"{'+' * (change >= 0)}{format_interval(change, low, high, digits)}"
        row[name] = f"{own:.{digits}f} ({f'**{text}**' if low > 0 or high < 0 else text})"
    return row


def _of_methods(itself: pd.DataFrame) -> list[str]:
    """Return the table of `beside_itself`, and what it shows; nothing where there are no rows."""
    if itself.empty:
        return []

    def text(row: pd.Series) -> str:
        return format_interval(row["change"], row["low"], row["high"], 1 if row["measure"] == "cost" else 2)

    wide = itself.assign(text=itself.apply(text, axis=1)).set_index(["setting", "method", "measure"])["text"]
    rows = [
        {"setting": f"`{setting}`", "method": name_in_text(method)}
        | {f"{measure}, %": wide[setting, method, measure] for measure in CHANGES}
        for setting, method in dict.fromkeys(zip(itself["setting"], itself["method"], strict=True))
    ]
    return [
        "What does a setting do to a method itself? Its runs beside its own without the setting, where errors and "
        "costs are the same quantities under both: changes of the sums over seeds of final errors, of total costs, and "
        "of errors when either has spent what the cheaper of the two runs did.",
        markdown_table(pd.DataFrame(rows)),
    ]


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
        for base, own in zip(*([v.in_one_line() for v in found] for found in (one.base, one.own)), strict=True)
        if own.number in one.changed
    ]
    return f"## {one.setting}\n\n{markdown_table(pd.DataFrame(rows))}" if rows else ""


def _numbers(one: Comparison) -> pd.DataFrame:
    rows = [
        {"compared": one.setting, "setting": setting, **asdict(verdict.in_one_line()), "claim": verdict.number}
        for setting, verdicts in ((one.against, one.base), (one.setting, one.own))
        for verdict in verdicts
    ]
    shown = ["compared", "setting", "claim", "verdict", "ours", "low", "high", "why", "taken_over"]
    return pd.DataFrame(rows)[shown]

"""The sections of the report, from what the analyses return; each says in its place what could not be made."""

import hashlib
import json
import platform
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis import selection
from analysis import utilities as compared_utilities
from analysis.captions import caveat_notes, caveats, footnote, format_number, markdown_table, plural, with_caveat
from analysis.claims.verdicts import FAILS, HOLDS, PARTLY, UNDECIDED, Verdict
from analysis.cost_models import write_cost_page
from analysis.equal_cost import pair_runs
from analysis.evaluations import REPLAYED, Evaluations, filter_components
from analysis.figures import all_figures, anytime, tables
from analysis.figures import utilities as utilities_figure
from analysis.plotting import Drawn
from analysis.ranks import minimal_budgets
from analysis.report import front, summary
from analysis.report.page import Figure, Section, plain
from analysis.sensitivities import from_other_data
from analysis.traces import Traces
from datasets.errors import BadInput
from harness.records import read_timings
from harness.sealed import spec_hash
from tabular_cache.table import TABLES, read_manifest


@dataclass(frozen=True)
class Records:
    """All that the report is made from: evaluations, records of cost models, fronts; None: none.

    traces: what `collect` makes of the evaluations, None where it is not at hand.
    """

    evaluations: Evaluations
    costs: pd.DataFrame | None = None
    fronts: pd.DataFrame | None = None
    traces: Traces | None = None

    def without(self, datasets: list[str]) -> "Records":
        """Return the records of the other data sets."""

        def others(frame: pd.DataFrame) -> np.ndarray:
            return ~frame["dataset"].isin(datasets).to_numpy()

        costs, fronts = (None if part is None else part[others(part)] for part in (self.costs, self.fronts))
        own = self.traces and self.traces.select(others(self.traces.runs))
        return Records(self.evaluations.select(others(self.evaluations.runs)), costs, fronts, own)


Evaluate = Callable[[Records], Sequence[Verdict]]
Decided = list[Verdict] | str  # or one line why there are none
Settings = Mapping[str, Counter[str]]

# The claims: the verdicts on them, and the tables made of these.


def verdicts(evaluate: Evaluate, records: Records) -> Decided:
    """Return the verdicts on these records, or one line why there are none."""
    try:
        return sorted(evaluate(records), key=lambda verdict: verdict.number)
    except BadInput as error:
        return f"The claims could not be decided: {plain(str(error))}."


def split_by_caveat(traces: Traces) -> tuple[list[str], list[str]]:
    """Return the data sets with a caveat, and the others."""
    found = set(traces.runs["dataset"])
    return sorted(found & set(caveats())), sorted(found - set(caveats()))


def all_verdicts(evaluate: Evaluate, records: Records, traces: Traces) -> tuple[Decided, Decided | None]:
    """Return the verdicts on these records, and those without the data sets that have a caveat.

    The latter are None where there are no such data sets, or no others.
    """
    present, others = split_by_caveat(traces)
    without = verdicts(evaluate, records.without(present)) if present and others else None
    return verdicts(evaluate, records), without


def claims(found: Decided) -> list[Section]:
    """Return the table of the claims, and how each was decided."""
    if isinstance(found, str):
        return [Section("claims", "The paper's claims", [found])]
    lead = f"{count(found)}. The rules were fixed before the results; a claim that does not hold is a result."
    how = Section("verdicts", "How each claim was decided", reasons(found), level=3)
    return [Section("claims", "The paper's claims", [lead, table(found)]), how]


def count(found: Sequence[Verdict]) -> str:
    """Return e.g. ``7 hold, 2 do not hold, 3 are undecided``."""
    n = Counter(verdict.verdict for verdict in found)
    words = (
        (HOLDS, "holds", "hold"),
        (PARTLY, "holds only in part", "hold only in part"),
        (FAILS, "does not hold", "do not hold"),
        (UNDECIDED, "is undecided", "are undecided"),
    )
    return ", ".join(f"{n[k]} {one if n[k] == 1 else many}" for k, one, many in words if n[k] or k != PARTLY)


def number(verdict: Verdict) -> str:
    """Return our number with its interval, where there is one: of several, the one that decided."""
    if verdict.deciding:
        return verdict.deciding
    if verdict.low is None or verdict.high is None or "[" in verdict.ours:
        return verdict.ours or "-"
    return f"{verdict.ours} [{format_number(verdict.low)}, {format_number(verdict.high)}]"


def table(found: Sequence[Verdict]) -> str:
    """Return the headline table: claim, the paper's number, the one of ours that decided, verdict."""
    rows = [{"#": str(v.number), "verdict": v.said, "claim": plain(v.claim), "ours [95 %]": plain(number(v)),
             "paper": plain(v.paper)} for v in found]  # fmt: skip
    return markdown_table(pd.DataFrame(rows))


def reasons(found: Sequence[Verdict]) -> list[str]:
    """Return, claim by claim, how it was decided: why, by which numbers, statistic and rule, over which runs."""

    def ended(text: str) -> str:
        """Make sentences of a text, and a list of its lines where it has several."""
        lines = [plain(line) or "-" for line in text.splitlines() or [""]]
        lines = [line if line.endswith((".", "!", "?")) else f"{line}." for line in lines]
        return lines[0] if len(lines) == 1 else "".join(f"\n- {line}" for line in lines)

    out = []
    for v in found:
        over = "" if v.taken_over in ("", "-") else f" *Taken over:* {ended(v.taken_over)}"
        out.append(f"**{v.number}. {ended(v.claim)}** **{v.said.capitalize()}:** {ended(v.why)}")
        if v.deciding:
            out.append(f"*Numbers:* {ended(v.ours)}")
        out.append(f"*Statistic:* {ended(v.statistic)} *Rule:* {ended(v.rule)}{over}")
    return out


def compared(found: Sequence[Verdict], without: Sequence[Verdict]) -> str:
    """Return the table of verdicts with and without some data sets, and whether they differ."""
    others = {v.number: v for v in without}
    rows = [{"#": str(v.number), "all": v.said, "without": others[v.number].said,
             "differs": "yes" if others[v.number].said != v.said else "no",
             "claim": plain(v.claim), "ours without them [95 %]": plain(number(others[v.number]))}
            for v in found if v.number in others]  # fmt: skip
    return markdown_table(pd.DataFrame(rows))


# Headline numbers, with and without the data sets that carry a caveat.


def headline(traces: Traces) -> list[Section]:
    """Return the headline numbers over all data sets."""
    return [Section("numbers", "Headline numbers"), *_numbers(traces, "", [], "")]


def _numbers(traces: Traces, title: str, without: list[str], prefix: str) -> list[Section]:
    ranked = [
        summary.ranks_section(traces, family, title, without, f"{prefix}ranks-{family}") for family in summary.NAMES
    ]
    return [summary.relative_section(traces, title, without, f"{prefix}relative"), *ranked]


def with_caveats(traces: Traces, every: Decided, without: Decided | None) -> list[Section]:
    """Return the caveats of data sets, the numbers of these alone, and the headline numbers without them.

    every, without: `all_verdicts`.
    """
    present, others = split_by_caveat(traces)
    head = Section("marked", "Data sets with a reservation")
    if not present:
        head.text.append("None of the data sets in these records carries a reservation.")
        return [head]
    head.text.append("\n".join(f"- **{with_caveat(name)}**: {plain(why)}" for name, why in caveat_notes(present)))
    if without is None:
        head.text.append("The records hold no other data sets: all numbers above rest on these alone.")
        return [head]
    names = ", ".join(present)
    if isinstance(without, str):
        text = [without]
    else:
        text = [] if isinstance(every, str) else [f"{count(without)}.", compared(every, without)]
    return [
        head,
        summary.relative_section(traces, f", {names} only", others, "marked-apart"),
        Section("without-claims", "The claims without them", text, level=3),
        *_numbers(traces, f", without {names}", present, "without-"),
    ]


# Figures: all that the records suffice for; for the others, one line why not.

MAKE = {
    "fronts": "fronts: make fronts, or python -m harness +acq=ei fronts=true with the same results_dir",
    "costs": "records of cost models: make models, or python -m tabular_cache costs with the same results_dir",
}


def draw_all(records: Records, traces: Traces, out_dir: Path, mixed: bool, of_runs: bool) -> list[Figure]:
    """Draw the figures into `out_dir`; traces: the runs among the records that the study's figures are about.

    mixed: whether records of different tables or engines are meant to stand together. of_runs: whether to draw the
    figures of runs, or the others, of fronts and cost models.
    """
    held: dict[str, Any] = {"fronts": records.fronts, "costs": records.costs, "traces": traces}
    if of_runs:
        held["runs"] = _under_any_cost_model(records.evaluations, traces)
    found = []
    for name, draw in all_figures().items():
        if (draw.drawn_from in MAKE) == of_runs:
            continue
        source = held[draw.drawn_from]
        if draw.drawn_from in MAKE and (source is None or source.empty):
            found.append(Figure(name, draw.title, missing=f"{name.upper()} needs {MAKE[draw.drawn_from]}"))
            continue
        more = (traces.judge, mixed) if draw.drawn_from == "runs" else ()
        found.append(drawn_or_missing(name, draw.title, partial(draw, source, out_dir, *more)))
    return found


def _under_any_cost_model(evaluations: Evaluations, traces: Traces) -> Evaluations:
    """Return the evaluations that differ from those of `traces` in their cost model at most."""
    return filter_components(evaluations, {k: name for k, name in traces.components.items() if k != "cost_model"})


def drawn_or_missing(name: str, title: str, draw: Callable[[], Drawn]) -> Figure:
    """Return the figure that `draw` makes, or the reason why it cannot."""
    try:
        return Figure(name, title, draw())
    except BadInput as error:
        return Figure(name, title, missing=str(error))


def figures(drawn: Sequence[Figure]) -> list[Section]:
    """Return one section per figure."""
    each = [Section(f.name, f"{f.name.upper()}: {f.title}", level=3, figure=f) for f in drawn]
    missing = sum(1 for f in drawn if f.missing)
    lead = f"{plural(missing, 'figure')} could not be drawn from these records; each says why." if missing else ""
    return [Section("figures", "Figures", [lead] if lead else []), *each]


_STATIC = ("f5", "f3", "anytime")  # figures that say what the front says, the first that is drawn where no script runs


def asked(traces: Traces, drawn: Sequence[Figure]) -> list[Section]:
    """Return the front that answers questions, with a figure for where no script runs; drawn: the figures."""
    name, title = "front", "What does cheaper cost?"
    try:
        runs = pair_runs(traces)
        held = front.numbers(runs), front.caption(runs)
    except BadInput as error:
        return [Section(name, title, [f"Not made: {plain(str(error))}."])]
    lead = (
        "Every method trades error for cost. Move the number of evaluations and the parameters, choose what counts, "
        "point at a mark for its numbers; the page's address holds the view."
    )
    figure = next((f for wanted in _STATIC for f in drawn if f.name == wanted and f.drawn), None)
    return [Section(name, title, [lead], figure=figure, front=held)]


def equal_cost(drawn: Sequence[Figure]) -> list[Section]:
    """Return the tables of the figure `anytime`, or one line why there are none; nothing where it was not asked for."""
    title = "Errors at equal cost, against EI stopped early"
    figure = next((figure for figure in drawn if figure.name == "anytime"), None)
    if figure is None:
        return []
    if figure.drawn is None:
        return [Section("equal-cost", title, [f"Not made: {plain(figure.missing)}."])]
    lead = "What the same money buys where EI is merely stopped sooner; the figure's caption says what was averaged."
    parts = anytime.tables(figure.drawn.numbers)
    found = [Section(f"equal-cost-{k}", heading, text, level=3) for k, (heading, text) in enumerate(parts)]
    return [Section("equal-cost", title, [lead]), *found]


# Utilities other than EI, cost models, and sensitivities, which have pages of their own, too.


def utilities(
    evaluations: Evaluations,
    results_dir: Path,
    wanted: Mapping[str, str],
    traces: Traces,
    out_dir: Path,
    mixed: bool = False,
) -> list[Section]:
    """Return the tables and the figure, or one line why there are none; the same is written to utilities.md.

    evaluations: of `results_dir`, all; traces: the runs of EI among them, for the minimal budgets and the error that
    counts. mixed: as for `utilities.arrange`.
    """
    name, title = "utilities", "Utilities and cost rules"
    try:
        times = partial(read_timings, results_dir)
        runs = compared_utilities.arrange(evaluations, times, wanted, traces.judge, mixed)
    except BadInput as error:
        return [Section(name, title, [f"Not made: {error}."])]
    parts, numbers = utilities_figure.tables(runs, budgets(traces))
    utilities_figure.write(parts, numbers, out_dir)
    draw = partial(utilities_figure.draw_utilities, runs, out_dir)
    figure = drawn_or_missing(name, "cost against error, and mean ranks", draw)
    found = [Section(f"{name}-{k}", heading, text, level=3) for k, (heading, text) in enumerate(parts)]
    return [Section(name, title), *found, Section(f"{name}-figure", f"{title}: {figure.title}", level=3, figure=figure)]


def budgets(traces: Traces) -> pd.Series | None:
    """Return the minimal budget of every problem in seconds, None where the runs do not say."""
    own = selection.select_families(traces, "alpha")
    try:
        return minimal_budgets(selection.at_horizon(own, selection.horizon(own))[0])["budget_s"]
    except (BadInput, ValueError):  # no runs at all have no longest
        return None


def cost_models(costs: pd.DataFrame | None, out_dir: Path, unreadable: str = "") -> list[Section]:
    """Return the numbers on how well cost models predict, which are written to costs.md as well.

    unreadable: why there are none though records are there.
    """
    name, title = "cost-models", "Cost models in numbers"
    try:
        if costs is not None:
            return [_page(name, title, write_cost_page(costs, out_dir))]
    except BadInput as error:
        unreadable = str(error)
    return [Section(name, title, [f"Not made: {plain(unreadable)}."])] if unreadable else []


def sensitivities(out_dir: Path, runs: pd.DataFrame) -> list[Section]:
    """Return what `python -m analysis sensitivities` left in `out_dir`, or how to make it; runs: of the records."""
    title, path = "Sensitivities", out_dir / "sensitivities.md"
    if path.is_file():
        page, older = _page("sensitivities", title, path), from_other_data(out_dir, runs)
        return [replace(page, text=[f"**{older}**", *page.text]) if older else page]
    how = "Not made: `python -m analysis sensitivities`, with the same out_dir, compares several settings."
    return [Section("sensitivities", title, [how])]


def leaderboard(out_dir: Path) -> list[Section]:
    """Return what `python -m analysis leaderboard` left in `out_dir`, or how to make it."""
    title, path = "Other projects' optimizers beside ours", out_dir / "leaderboard.md"
    if path.is_file():
        return [_page("leaderboard", title, path)]
    return [Section("leaderboard", title, ["Not made: `make leaderboard`, with the same out_dir, compares them."])]


def _page(name: str, title: str, path: Path) -> Section:
    """Return a page of Markdown as a section, its headings one level further down."""
    lines = path.read_text(encoding="utf-8").strip().splitlines()
    body = lines[1:] if lines and lines[0].startswith("# ") else lines
    return Section(name, title, ["\n".join(f"#{line}" if line.startswith("#") else line for line in body).strip()])


# The problems, and where the numbers come from: specs, settings of the runs, measured tables, versions.

LIBRARIES = ("numpy", "scipy", "pandas", "pyarrow", "scikit-learn", "xgboost-cpu", "numba", "matplotlib", "hydra-core")


def problems(settings: Settings, traces: Traces, out_dir: Path, changed: str = "") -> list[Section]:
    """Return the table of the problems: from the measured tables, or for live runs from the runs themselves.

    changed: which records are not of these tables (the function of that name).
    """
    folder = tables.folder_of(settings, traces)
    warning = [f"**{changed}**"] if changed and folder else []
    what = "What the runs saw of each problem: "
    if folder is None:
        lead, shown = f"{what}these records are not replays of one folder of tables.", tables.seen(traces)
    else:
        try:
            frame = tables.write(tables.lines_of(traces, folder), out_dir)
            lead = f"{tables.counted(frame)} {tables.COSTS}"
            shown = frame.assign(dataset=frame["dataset"].map(with_caveat))
        except BadInput as error:
            lead, shown = f"{what}the tables cannot be read now: {plain(str(error))}.", tables.seen(traces)
    note = footnote(traces.runs["dataset"])
    sets = Section("datasets", "Data sets", [summary.datasets_table(traces), *([note] if note else [])], level=3)
    return [Section("problems", "The problems", [*warning, lead, markdown_table(shown)]), sets]


def changed(records: Records, settings: Settings, traces: Traces) -> str:
    """Return which records were replayed from other tables than those in the folder now, in words; "" for none."""
    folder = tables.folder_of(settings, traces)
    both = (records.evaluations.runs, records.fronts)
    runs, fronts = (None if frame is None else frame[frame["evaluator"].isin(REPLAYED)] for frame in both)
    frames = {"the runs": runs, "the records of cost models": records.costs, "the fronts": fronts}
    try:
        return tables.of_other_tables(frames, folder) if folder else ""
    except BadInput:
        return ""  # the tables are gone, which the section on them says


def provenance(
    headers: Sequence[Mapping[str, Any]], settings: Settings, traces: Traces, changed: str = ""
) -> list[Section]:
    """Return where the numbers come from: specs, settings, tables (`changed`: what is not of them), versions.

    headers: of the records.
    """
    hashes = sorted({spec_hash(header["spec"]) for header in headers})
    whole = spec_hash({"specs": hashes})
    head = f"Spec hash of these records: `{whole}` (over the hashes of {plural(len(hashes), 'spec')})."
    warning = [f"**{changed}**"] if changed else []
    shown = {key: counts for key, counts in settings.items() if key != "data"}
    return [
        Section("provenance", "Provenance", [head]),
        Section("settings", "Settings of the runs", ["\n".join(summary.lines(shown))], level=3),
        Section("tables", "Measured tables", [*warning, *_tables(settings, traces)], level=3),
        Section("versions", "Versions", _versions(headers), level=3),
    ]


def _tables(settings: Settings, traces: Traces) -> list[str]:
    folder = tables.folder_of(settings, traces)
    if folder is None:
        return ["These records are not replays of one folder of tables."]
    try:
        manifest = read_manifest(folder)
    except BadInput as error:
        return [f"The manifest cannot be read now: {plain(str(error))}."]
    digest = hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()
    where = "the shipped tables" if folder == TABLES else f"`{folder}`"
    head = (
        f"{len(manifest['tables'])} tables in {where}, schema {manifest['schema']}, tree method "
        f"{manifest['tree_method']}, Sobol seed {manifest['sobol_seed']}; SHA-256 of manifest.json: `{digest}`."
    )
    rows = pd.DataFrame([
        {"processor": c["cpu"], "workers": c["workers"], "date": c["date"], "trainings": c["trainings"],
         "core seconds": c["core_s"], "versions": _listed(dict(sorted(c["versions"].items())))}
        for c in manifest["campaigns"]
    ])  # fmt: skip
    if rows.empty:
        return [head]
    each = rows.groupby(["processor", "workers", "versions"], sort=False)
    shown = each[["trainings", "core seconds"]].sum()
    shown[["from", "to", "sessions"]] = each["date"].agg(["min", "max", "size"])
    columns = ["processor", "workers", "from", "to", "sessions", "trainings", "core seconds", "versions"]
    return [head, f"Measured in {plural(len(rows), 'session')}:", markdown_table(shown.reset_index()[columns])]


def _versions(headers: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what the page was made with, and the records: one line per set of versions, with how many files."""

    def installed(package: str) -> str:
        try:
            return version(package)
        except PackageNotFoundError:
            return "(not installed)"

    now = {"Python": platform.python_version(), "this project": installed("cost-aware-bo")}
    now |= {name: installed(name) for name in LIBRARIES}
    found = Counter(json.dumps(header.get("versions", {}), sort_keys=True) for header in headers)
    return [f"This page was made with {_listed(now)}."] + [
        f"{plural(files, 'file')} of records made with {_listed(json.loads(made)) or 'versions not written down'}."
        for made, files in sorted(found.items())
    ]


def _listed(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in versions.items())

"""The sections of the report, from what the analyses return; each says in its place what could not be made."""

import hashlib
import json
import platform
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import captions, selection, utilities
from analysis import cost_models as costs_report
from analysis.captions import caveats, footnote, marked_reasons, plural
from analysis.captions import marked as with_mark
from analysis.claims.verdicts import FAILS, HOLDS, UNDECIDED, Verdict
from analysis.figures import f2_f8_f9, front_figures, trace_figures
from analysis.figures import tables as problem_tables
from analysis.figures import utilities as utilities_figure
from analysis.figures import utilities as utilities_report
from analysis.figures.f2_f8_f9 import f9
from analysis.plotting import Drawn
from analysis.ranks import minimal_budgets
from analysis.report import summary
from analysis.report.page import Figure, Records, Section, plain
from analysis.report.summary import lines
from analysis.sensitivities import from_other_data
from analysis.traces import REPLAYED, Judge, Traces
from datasets.errors import BadInput
from harness.records import read_header, read_timings, spec_hash, trace_files
from tabular_cache.table import TABLES, read_manifest

# Every figure that the records suffice for, in the study's order; for the others, one line why not.

TITLES = {
    "f1": "The EI-cost front at two iterations",
    "f2": "How fast cost models learn",
    "f3": "EI^alpha: cost saved against error lost",
    "f4": "EI^alpha under time budgets",
    "f5": "Contextual EI beside EI^alpha, and the alpha it amounts to",
    "f6": "Contextual EI under time budgets",
    "f7": "Where the points of the front are one iteration later",
    "f8": "Transferred against online cost models",
    "f9": "EI^alpha under several cost models",
    "cd": "Which methods differ over data sets",
}
_NO_FRONTS = "{} needs fronts: make fronts, or python -m harness +acq=ei fronts=true with the same results_dir"
_NO_COSTS = "{} needs records of cost models: make models, or python -m tabular_cache costs with the same results_dir"


def draw_all(records: Records, traces: Traces, out_dir: Path, mixed: bool = False) -> list[Figure]:
    """Draw the figures into `out_dir`; traces: the runs among the records that the study's figures are about.

    mixed: whether records of different tables or engines are meant to stand together.
    """
    drawings = {name: partial(draw, traces, out_dir) for name, draw in trace_figures().items()}
    for name, draw in front_figures().items():
        drawings[name] = partial(_of, records.fronts, draw, out_dir, _NO_FRONTS.format(name.upper()))
    for name, draw in {"f2": f2_f8_f9.f2, "f8": f2_f8_f9.f8}.items():
        drawings[name] = partial(_of, records.costs, draw, out_dir, _NO_COSTS.format(name.upper()))
    drawings["f9"] = partial(f9, _comparable(records.frame, traces), out_dir, traces.judge, mixed)
    return [_figure(name, drawings[name]) for name in sorted(drawings, key=_place)]


def _of(records: pd.DataFrame | None, draw: Callable[[pd.DataFrame, Path], Drawn], out_dir: Path, none: str) -> Drawn:
    """Draw from a kind of records; raises BadInput, saying `none`, where there are none."""
    if records is None or records.empty:
        raise BadInput(none)
    return draw(records, out_dir)


def _figure(name: str, draw: Callable[[], Drawn]) -> Figure:
    title = TITLES.get(name, name.replace("_", " "))
    try:
        return Figure(name, title, draw())
    except BadInput as error:
        return Figure(name, title, missing=str(error))


def _comparable(frame: pd.DataFrame, traces: Traces) -> pd.DataFrame:
    """Return the evaluations that differ from those of `traces` in their cost model at most."""
    for component, name in traces.components.items():
        if component != "cost_model":
            frame = frame[frame[component].astype(str) == name]
    return frame


def _place(name: str) -> tuple[bool, int, str]:
    match = re.fullmatch(r"f(\d+)", name)
    return (match is None, int(match[1]) if match else 0, name)


# The section on utilities other than EI, from whatever runs of them the records hold.

TITLE = "Utilities and cost rules"
ID = "utilities"


def sections(
    frame: pd.DataFrame,
    results_dir: Path,
    made: Sequence[dict[str, Any]],
    wanted: Mapping[str, str],
    judge: Judge,
    traces: Traces,
    out_dir: Path,
    mixed: bool = False,
) -> list[Section]:
    """Return the tables and the figure, or one line why there are none; the same is written to utilities.md.

    frame, made: `read_traces` and `specs` of `results_dir`; traces: the runs of EI among them, for the minimal budgets.
    mixed: as for `utilities.arrange`.
    """
    try:
        if set(frame["utility"].astype(str)) <= {"ei"}:
            raise BadInput(utilities.NONE)
        settings = utilities.settings_of(made)
        runs = utilities.arrange(frame, read_timings(results_dir), wanted, judge, mixed, settings)
    except BadInput as error:
        return [Section(ID, TITLE, [f"Not made: {error}."])]
    parts, numbers = utilities_report.tables(runs, budgets(traces))
    utilities_report.write(parts, numbers, out_dir)
    figure = Figure(ID, "cost against error, and mean ranks")
    try:
        figure = Figure(ID, figure.title, utilities_figure.draw_utilities(runs, out_dir))
    except BadInput as error:
        figure = Figure(ID, figure.title, missing=str(error))
    found = [Section(f"{ID}-{k}", title, body, level=3) for k, (title, body) in enumerate(parts)]
    return [Section(ID, TITLE), *found, Section(f"{ID}-figure", f"{TITLE}: {figure.title}", level=3, figure=figure)]


def budgets(traces: Traces) -> pd.Series | None:
    """Return the minimal budget of every problem in seconds, None where the runs do not say."""
    own = selection.of_families(traces, "alpha")
    try:
        return minimal_budgets(selection.at_horizon(own, selection.horizon(own))[0])["budget_s"]
    except (BadInput, ValueError):  # no runs at all have no longest
        return None


# The claims on the page: asking for the verdicts, and the tables made of them.

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
    return f"{verdict.ours} [{captions.format_number(verdict.low)}, {captions.format_number(verdict.high)}]"


def table(found: Sequence[Verdict]) -> str:
    """Return the headline table: claim, the paper's number, the one of ours that decided, verdict."""
    rows = [{"#": str(v.number), "verdict": v.verdict, "claim": plain(v.claim), "ours [95 %]": plain(number(v)),
             "paper": plain(v.paper)} for v in found]  # fmt: skip
    return captions.markdown_table(pd.DataFrame(rows))


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
    return captions.markdown_table(pd.DataFrame(rows))


def _ended(text: str) -> str:
    text = plain(text) or "-"
    return text if text.endswith((".", "!", "?")) else f"{text}."


Settings = Mapping[str, Counter[str]]


def claims(found: list[Verdict] | str) -> list[Section]:
    """Return the table of the claims, and how each was decided."""
    if isinstance(found, str):
        return [Section("claims", "The paper's claims", [found])]
    lead = f"{count(found)}. The rules were fixed before the results; a claim that does not hold is a result."
    how = Section("verdicts", "How each claim was decided", reasons(found), level=3)
    return [Section("claims", "The paper's claims", [lead, table(found)]), how]


def headline(traces: Traces, relative: list[pd.DataFrame], ranks: list[pd.DataFrame]) -> list[Section]:
    """Return the headline numbers over all data sets."""
    return [Section("numbers", "Headline numbers"), *_numbers(traces, "", [], relative, ranks, "")]


def figures(drawn: Sequence[Figure]) -> list[Section]:
    """Return one section per figure."""
    each = [Section(f.name, f"{f.name.upper()}: {f.title}", level=3, figure=f) for f in drawn]
    missing = sum(1 for f in drawn if f.missing)
    lead = f"{plural(missing, 'figure')} could not be drawn from these records; each says why." if missing else ""
    return [Section("figures", "Figures", [lead] if lead else []), *each]


def marked(
    records: Records,
    traces: Traces,
    evaluate: Evaluate,
    every: list[Verdict] | str,
    relative: list[pd.DataFrame],
    ranks: list[pd.DataFrame],
) -> list[Section]:
    """Return what is reserved about some data sets, their numbers apart, and the headline numbers without them."""
    present = sorted(set(traces.runs["dataset"]) & set(caveats()))
    head = Section("marked", "Data sets with a reservation")
    if not present:
        head.text.append("None of the data sets in these records carries a reservation.")
        return [head]
    head.text.append("\n".join(f"- **{with_mark(name)}**: {plain(why)}" for name, why in marked_reasons(present)))
    others = sorted(set(traces.runs["dataset"]) - set(present))
    if not others:
        head.text.append("The records hold no other data sets: all numbers above rest on these alone.")
        return [head]
    apart = summary.relative_section(traces, f", {', '.join(present)} only", others, relative)
    without = verdicts(evaluate, records.without(present))
    again = [Section("without-claims", "The claims without them", [without] if isinstance(without, str) else [], 3)]
    if not isinstance(without, str) and not isinstance(every, str):
        again[0].text.extend([f"{count(without)}.", compared(every, without)])
    title = f", without {', '.join(present)}"
    return [
        head,
        _section("marked-apart", apart),
        *again,
        *_numbers(traces, title, present, relative, ranks, "without-"),
    ]


def cost_models(costs: pd.DataFrame | None, out_dir: Path, unreadable: str = "") -> list[Section]:
    """Return the numbers on how well cost models predict, which are written to costs.md as well.

    unreadable: why there are none though records are there.
    """
    if costs is None and not unreadable:
        return []
    title = "Cost models in numbers"
    try:
        if costs is None:
            raise BadInput(unreadable)
        return [_page("cost-models", title, costs_report.write_cost_page(costs, out_dir))]
    except BadInput as error:
        return [Section("cost-models", title, [f"Not made: {plain(str(error))}."])]


def sensitivities(out_dir: Path, frame: pd.DataFrame) -> list[Section]:
    """Return what `python -m analysis sensitivities` left in `out_dir`, or how to make it; frame: the records."""
    title, path = "Sensitivities", out_dir / "sensitivities.md"
    if path.is_file():
        page, older = _page("sensitivities", title, path), from_other_data(out_dir, frame)
        return [replace(page, text=[f"**{older}**", *page.text]) if older else page]
    how = "Not made: `python -m analysis sensitivities`, with the same out_dir, compares several settings."
    return [Section("sensitivities", title, [how])]


def _page(name: str, title: str, path: Path) -> Section:
    """Return a page of Markdown as a section, its headings one level further down."""
    lines = path.read_text(encoding="utf-8").strip().splitlines()
    body = lines[1:] if lines and lines[0].startswith("# ") else lines
    return Section(name, title, ["\n".join(f"#{line}" if line.startswith("#") else line for line in body).strip()])


def problems(settings: Settings, traces: Traces, out_dir: Path, changed: str = "") -> list[Section]:
    """Return the table of the problems: from the measured tables, or for live runs from the runs themselves.

    changed: what is not of these tables (`origins.changed`).
    """
    folder = problem_tables.folder_of(settings, traces)
    note = footnote(traces.runs["dataset"])
    if folder is None:
        text = ["What the runs saw of each problem: these records are not replays of one folder of tables.",
                captions.markdown_table(problem_tables.seen(traces))]  # fmt: skip
    else:
        try:
            frame = problem_tables.write(problem_tables.lines_of(traces, folder), out_dir)
            shown = captions.markdown_table(frame.assign(dataset=frame["dataset"].map(with_mark)))
            lead = f"{problem_tables.counted(frame)} {problem_tables.COSTS}"
        except BadInput as error:
            shown = captions.markdown_table(problem_tables.seen(traces))
            lead = f"What the runs saw of each problem: the tables cannot be read now: {plain(str(error))}."
        text = [*([f"**{changed}**"] if changed else []), lead, shown]
    sets = Section("datasets", "Data sets", [summary.datasets_table(traces), *([note] if note else [])], level=3)
    return [Section("problems", "The problems", text), sets]


def _numbers(
    traces: Traces, title: str, without: list[str], relative: list[pd.DataFrame], ranks: list[pd.DataFrame], prefix: str
) -> list[Section]:
    out = [_section(f"{prefix}relative", summary.relative_section(traces, title, without, relative))]
    for family in summary.FAMILIES:
        out.append(_section(f"{prefix}ranks-{family}", summary.ranks_section(traces, family, title, without, ranks)))
    return out


def _section(name: str, parts: list[str]) -> Section:
    """Return what the summary wrote as a section; its first part is the heading."""
    return Section(name, parts[0].lstrip("# "), [part for part in parts[1:] if part], level=3)


# Where the report's numbers come from: specs, settings of the runs, measured tables, versions.

LIBRARIES = ("numpy", "scipy", "pandas", "pyarrow", "scikit-learn", "xgboost-cpu", "numba", "matplotlib", "hydra-core")


def changed(records: Records, settings: Settings, traces: Traces) -> str:
    """Return which records were replayed from other tables than those in the folder now, in words; "" for none."""
    folder = problem_tables.folder_of(settings, traces)
    runs = records.frame[records.frame["evaluator"].isin(REPLAYED)]
    fronts = records.fronts
    if fronts is not None:
        fronts = fronts[fronts["evaluator"].isin(REPLAYED)]
    frames = {"the runs": runs, "the records of cost models": records.costs, "the fronts": fronts}
    try:
        return problem_tables.of_other_tables(frames, folder) if folder else ""
    except BadInput:
        return ""  # the tables are gone, which the section on them says


def provenance(
    results_dir: Path, made: Sequence[dict[str, Any]], settings: Settings, traces: Traces, changed: str = ""
) -> list[Section]:
    """Return where the numbers come from: specs `made`, settings, tables (what is not of them: `changed`), versions."""
    hashes = sorted({spec_hash(spec) for spec in made})
    whole = spec_hash({"specs": hashes})
    head = f"Spec hash of these records: `{whole}` (over the hashes of {plural(len(hashes), 'spec')})."
    told = [f"**{changed}**"] if changed else []
    shown = {key: counts for key, counts in settings.items() if key != "data"}
    return [
        Section("provenance", "Provenance", [head]),
        Section("settings", "Settings of the runs", ["\n".join(lines(shown))], level=3),
        Section("tables", "Measured tables", [*told, *_tables(settings, traces)], level=3),
        Section("versions", "Versions", [_versions(), *_made_with(results_dir)], level=3),
    ]


def _tables(settings: Settings, traces: Traces) -> list[str]:
    folder = problem_tables.folder_of(settings, traces)
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
    rows = [
        {"date": c["date"], "processor": c["cpu"], "workers": c["workers"], "trainings": c["trainings"],
         "core seconds": c["core_s"], "versions": ", ".join(f"{k} {v}" for k, v in sorted(c["versions"].items()))}
        for c in manifest["campaigns"]
    ]  # fmt: skip
    return [head, "Measured in:", captions.markdown_table(pd.DataFrame(rows))] if rows else [head]


def _versions() -> str:
    found = [("Python", platform.python_version()), ("this project", _version("cost-aware-bo"))]
    found += [(name, _version(name)) for name in LIBRARIES]
    return "This page was made with " + ", ".join(f"{name} {number}" for name, number in found) + "."


def _made_with(results_dir: Path) -> list[str]:
    """Return what the records were made with: one line per set of versions, with how many files."""
    found = Counter(
        json.dumps(read_header(path).get("versions", {}), sort_keys=True) for path in trace_files(results_dir)
    )
    return [
        f"{plural(count, 'file')} of records made with "
        + (", ".join(f"{name} {number}" for name, number in json.loads(made).items()) or "versions not written down")
        + "."
        for made, count in sorted(found.items())
    ]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed)"

"""Settings against a reference: how dense must a replayed table be, and do conclusions depend on the engine?

For density, a folder holds one folder of records per setting: `live` (the truth), `rows-128`, `rows-256`, ... (replay
of a table's first configurations) and `surface-2048`, ... (the table's emulator). For each setting and method,

    time saved = 100 - cost_pct,   error added = error_pct - 100   (percent of EI's, of sums over a problem's seeds),

and their differences to live, paired by problem and seed. Where `python -m tabular_cache confirm` has trained what the
runs on surfaces chose, also the *error measured*: error added with these trainings' errors (those of live trainings and
of tables are measured anyway).
"""

import re
from collections.abc import Iterable, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.captions import (
    MEANS_OF_SUMS,
    format_interval,
    intervals,
    markdown_table,
    plural,
    sentence,
    write_csv,
    write_page,
)
from analysis.evaluations import CELL, check_same_origin, check_same_tables, choose_components, read_evaluations
from analysis.methods import EI, PROBLEM, name_in_figures, ordered
from analysis.plotting import BLACK, BLUE, ORANGE, Drawn, new_figure, save, sequence, style
from analysis.statistics import of_means, percent_of_sums, with_intervals, with_intervals_and_differences
from analysis.traces import Traces, collect
from analysis.tradeoffs import finals, relative_to_ei
from datasets.errors import BadInput
from harness.records import specs
from tabular_cache.live_truth import CONFIRMED_FILE, TRUTH
from tabular_cache.schema import problem_name
from tabular_cache.table import TABLES, first_configs, load_table

# The settings: one folder of records each, checked to be comparable.

LIVE = "live"
Effects = Mapping[str, Mapping[str, pd.DataFrame]]  # by setting, by effect: cells x methods


def settings(folder: Path, reference: str = LIVE) -> dict[str, Traces]:
    """Return the traces of each setting, the reference first, then rows and surfaces by density.

    Without a folder `live`, the shipped live runs take its place (`tabular_cache.live_truth`). Raises BadInput without
    the reference, and where settings cannot be compared: runs of other lengths, methods that one has and another has
    not, tables that changed between two settings.
    """

    def order(name: str) -> tuple[bool, str, int]:
        kind, _, n = name.partition("-")
        return (name != reference, kind, int(n) if n.isdigit() else 0)

    paths = {path.name: path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")}
    if reference == LIVE and LIVE not in paths and TRUTH.is_dir():
        paths[LIVE] = TRUTH
    if reference not in paths:
        found = ", ".join(sorted(paths, key=order)) or "none"
        raise BadInput(f"{folder} needs a folder {reference!r} of records to compare with; folders there: {found}")
    every = {name: read_evaluations(paths[name]) for name in sorted(paths, key=order)}
    for evaluations in every.values():
        check_same_origin(choose_components(evaluations, {})[0].runs, remedy="")
    traces = {name: collect(evaluations) for name, evaluations in every.items()}
    _check_alike(traces, reference)
    check_same_tables({name: evaluations.runs for name, evaluations in every.items()})
    return traces


def _check_alike(traces: Mapping[str, Traces], reference: str) -> None:
    """Raise BadInput, naming the setting, unless all have the reference's methods and lengths of runs."""
    of = {name: (set(t.runs["method"]), set(t.runs["iterations"])) for name, t in traces.items()}
    methods, lengths = of[reference]
    if len(lengths) > 1:
        raise BadInput(f"{reference}: runs of one length are compared, there are {sorted(lengths)} iterations")
    for name, (own, steps) in of.items():
        if steps != lengths:
            raise BadInput(f"{name}: runs of {sorted(steps)} iterations, those of {reference} have {sorted(lengths)}")
        for here, there, lacking in ((name, reference, methods - own), (reference, name, own - methods)):
            if lacking:
                raise BadInput(f"{here}: no runs of {', '.join(sorted(lacking))}, which {there} has")


def confirmed(folder: Path, names: Iterable[str]) -> dict[str, pd.DataFrame]:
    """Return, for the settings in which it is there, what `python -m tabular_cache confirm` measured."""
    files = {name: folder / name / CONFIRMED_FILE for name in names}
    return {name: pd.read_csv(path) for name, path in files.items() if path.exists()}


def n_configs(name: str) -> int | None:
    """Return the number of configurations in a setting's name; None for live."""
    found = re.search(r"-(\d+)$", name)
    return int(found[1]) if found else None


def exhausted(folder: Path, name: str, traces: Traces, cells: pd.MultiIndex) -> float:
    """Return the share of a setting's runs of these cells that end with the best error of their table.

    NaN where none is replayed, or a table is another one now than when it was replayed.
    """
    best: dict[tuple[str, str], float] = {}
    for spec in specs(folder / name):
        key, evaluator = (spec["dataset"], spec["pipeline"]), spec["components"]["evaluator"]
        if spec["evaluator"] != "replay":
            return float("nan")
        if key not in best:
            table = load_table(problem_name(*key), Path(evaluator["tables"] or TABLES))
            if table.meta["sha256"] != spec["data"]:
                return float("nan")
            known = table.measured & first_configs(table, evaluator["n_configs"])
            best[key] = float(np.nanmin(table["val_error"][known]))
    last = finals(traces)
    last = last[pd.MultiIndex.from_frame(last[CELL]).isin(cells)]
    goal = [best[d, p] for d, p in zip(last["dataset"], last["pipeline"], strict=True)]
    return float((last["final_error"].to_numpy() <= np.array(goal)).mean())


MEASURED = "measured"


def method_effects(
    all_traces: Mapping[str, Traces],
    reference: str = LIVE,
    confirmed: Mapping[str, pd.DataFrame] | None = None,
) -> dict[str, dict[str, pd.DataFrame]]:
    """Return, per setting and effect, one row per cell (those of all settings) and one column per method but EI.

    `confirmed`: trainings of what surfaces chose; with them comes the effect `MEASURED`. Raises BadInput without a
    cell that all settings have.
    """
    pairs = {name: relative_to_ei(traces, f"setting {name}") for name, traces in all_traces.items()}
    methods = [m for m in ordered(pairs[reference].table) if m != EI]
    complete = [pair.wide("cost_pct", methods).dropna().index for pair in pairs.values()]
    errors = {}
    for name, trained in (confirmed or {}).items():
        wide = trained.pivot(index=CELL, columns="method", values="error").reindex(columns=[*methods, EI])
        errors[name] = wide[wide[EI] > 0].dropna()
        complete.append(errors[name].index)
    shared = reduce(pd.Index.intersection, complete)
    if not len(shared):
        raise BadInput("no problem and seed was run under every setting")
    tables = {}
    for name, pair in pairs.items():
        kept = pair.on(shared)
        saved, added = (kept.wide(measure, methods).loc[shared] for measure in ("cost_pct", "error_pct"))
        tables[name] = {"saved": 100 - saved, "added": added - 100}
        if name in errors:
            own = errors[name].loc[shared]
            tables[name][MEASURED] = percent_of_sums(own[methods], own[EI]) - 100
        elif confirmed and not name.startswith("surface"):
            tables[name][MEASURED] = tables[name]["added"]
    return tables


def effects_table(found: Effects, reference: str = LIVE) -> pd.DataFrame:
    """Return one row per setting, effect and method: mean with interval, and the same of its difference to live's."""
    rows = []
    for name, frames in found.items():
        for effect, frame in frames.items():
            part = with_intervals_and_differences(frame, found[reference][effect]).rename_axis("method").reset_index()
            rows.append(part.assign(setting=name, effect=effect))
    return pd.concat(rows, ignore_index=True)


def sign_agreement(found: Effects) -> pd.DataFrame:
    """Return, per setting and effect, how far its effects lie from live's, problem by problem.

    distance: root mean square, over methods and problems (averaged within data sets), of the difference of means over
    seeds, less the part that the seeds' scatter explains (so a setting that is live itself has distance 0 in
    expectation); with its 95 % interval over data sets. bias: mean difference over methods and runs, with the interval
    of effects (bias_low, bias_high). same_sign: share of (problem, method) pairs whose effect has live's sign, among
    those where live's own interval over seeds excludes 0. Problems of one seed are left out (`one_seed` counts them),
    since their scatter is unknown. Raises BadInput when none is left.
    """
    seeds = found[LIVE]["saved"].groupby(level=PROBLEM).size()
    known = seeds.index[seeds > 1]
    if not len(known):
        raise BadInput("no problem has two seeds under every setting: the seeds' scatter is unknown")
    rows = []
    for name, frames in found.items():
        for effect in frames if name != LIVE else ():
            replayed, live = frames[effect], found[LIVE][effect]
            off = replayed - live
            judged = off[off.droplevel("seed").index.isin(known)]
            bias = with_intervals(judged.mean(axis=1).to_frame("bias"))[["value", "low", "high"]].iloc[0]
            row = {"setting": name, "effect": effect, **_distance(off, known)}
            row |= dict(zip(("bias", "bias_low", "bias_high"), map(float, bias), strict=True))
            rows.append(row | signs(replayed, live) | {"one_seed": len(seeds) - len(known)})
    return pd.DataFrame(rows)


def _distance(difference: pd.DataFrame, known: pd.Index) -> dict[str, float]:
    """Return the root mean square, over methods and data sets' means, less the seeds' scatter, with its interval."""
    groups = difference.groupby(level=PROBLEM)
    mean, n = groups.mean().loc[known], groups.size().loc[known]
    square = (mean**2 - groups.var().loc[known].div(n, axis=0)).mean(axis=1)
    values = square.to_frame("square").assign(seed=0).set_index("seed", append=True)
    found = of_means(values, lambda means: np.sqrt(np.maximum(means[:, 0], 0.0)))
    return {"distance": found.value, "low": found.low, "high": found.high}


def signs(replayed: pd.DataFrame, live: pd.DataFrame) -> dict[str, float]:
    """Return the share of sure live effects whose sign replay has as well, and how many are sure."""
    groups = live.groupby(level=PROBLEM)
    sure = (groups.mean().abs() > 1.96 * np.sqrt(groups.var().div(groups.size(), axis=0))).to_numpy()
    same = (np.sign(replayed.groupby(level=PROBLEM).mean()) == np.sign(groups.mean())).to_numpy()
    return {"same_sign": float(same[sure].mean()) if sure.any() else np.nan, "sure": int(sure.sum())}


# The figure: effects of the methods under every setting, and how far each setting is from live training.

_LABELS = {
    "saved": "time saved (% of EI's cost)",
    "added": "error added (% of EI's error)",
    "measured": "error added, measured (% of EI's error)",
}
_KINDS = (("rows", BLUE, "o", 0.97), ("surface", ORANGE, "s", 1.03))  # the last: beside each other, not over


def draw_density(folder: Path, out_dir: Path) -> Drawn:
    """Draw the comparison of the settings in `folder` (see `analysis.density`); writes its tables beside it."""
    traces = settings(folder)
    if len(traces) < 2:
        raise BadInput(
            f"{folder} has no setting to compare with live training: a folder beside {LIVE}, such as rows-512"
        )
    found = method_effects(traces, confirmed=confirmed(folder, traces))
    numbers, agreement = effects_table(found), sign_agreement(found)
    cells = pd.MultiIndex.from_frame(found[LIVE]["saved"].index.to_frame(index=False)[CELL])
    shares = {name: exhausted(folder, name, t, cells) for name, t in traces.items() if name != LIVE}
    agreement["exhausted"] = agreement["setting"].map(shares)
    effects = list(dict.fromkeys(numbers["effect"]))
    caption = _caption(found, agreement)
    with style():
        figure, plots = new_figure(4.8 * len(effects), 7.4, caption)
        axes = plots.subplots(2, len(effects), height_ratios=(1.25, 1))
        for above, below, effect in zip(*axes, effects, strict=True):
            _effects_panel(above, numbers[numbers["effect"] == effect], effect)
            _distance_panel(below, agreement[agreement["effect"] == effect], effect)
        key = axes[0][0].get_legend_handles_labels()
        plots.legend(*key, loc="outside upper center", ncols=7, fontsize=8)
        drawn = save(figure, "density", caption, numbers, out_dir)
    write_csv(agreement, out_dir / "density-agreement.csv", digits=5)
    return drawn


def _arms(part: pd.DataFrame, value: str) -> Any:
    return np.maximum([part[value] - part["low"], part["high"] - part[value]], 0)


def _effects_panel(axis: Any, rows: pd.DataFrame, effect: str) -> None:
    names, methods = list(dict.fromkeys(rows["setting"])), list(dict.fromkeys(rows["method"]))
    colours: dict[str, Any] = {LIVE: BLACK}
    for surface, ramp in ((False, "GnBu"), (True, "YlOrRd")):  # from light, few configurations, to dark
        kind = [name for name in names if name != LIVE and name.startswith("surface") == surface]
        colours |= dict(zip(kind, sequence(len(kind) + 2, ramp)[2:], strict=True))
    for k, name in enumerate(names):
        part = rows[rows["setting"] == name].set_index("method").loc[methods]
        y = np.arange(len(methods)) + (k - (len(names) - 1) / 2) * 0.8 / len(names)
        marker = "D" if name == LIVE else "s" if name.startswith("surface") else "o"
        axis.errorbar(part["value"], y, xerr=_arms(part, "value"), fmt=marker, markersize=3.2, elinewidth=0.8,
                      color=colours[name], label=name.replace("-", " "))  # fmt: skip
    axis.set_yticks(np.arange(len(methods)), [name_in_figures(m) for m in methods])
    axis.invert_yaxis()
    axis.axvline(0, color="0.6", linewidth=0.8, zorder=0)
    axis.set_xlabel(_LABELS[effect])


def _distance_panel(axis: Any, rows: pd.DataFrame, effect: str) -> None:
    for kind, colour, marker, beside in _KINDS:
        part = rows[rows["setting"].str.startswith(kind)]
        if len(part):
            x = part["setting"].map(n_configs).astype(float) * beside
            axis.errorbar(x, part["distance"], yerr=_arms(part, "distance"), color=colour, marker=marker, markersize=4,
                          elinewidth=0.8, label=kind)  # fmt: skip
    axis.set_xscale("log", base=2)
    ticks = sorted({int(n) for n in rows["setting"].map(n_configs).dropna()})
    axis.set_xticks(ticks, [str(t) for t in ticks])
    axis.minorticks_off()
    axis.set_ylim(bottom=0)
    axis.set_xlabel("Sobol configurations in the table")
    axis.set_ylabel(f"distance from live:\n{_LABELS[effect].split(' (')[0]} (points)")
    axis.legend(fontsize=8)


def _caption(found: Effects, agreement: pd.DataFrame) -> str:
    cells = found[LIVE]["saved"].index.to_frame(index=False)
    alone = int(agreement["one_seed"].iloc[0])
    return sentence(
        "Replay against live training. Above: total cost saved and final error added against EI on the same "
        f"problem, of sums over seeds, mean over {plural(len(cells[PROBLEM].drop_duplicates()), 'problem')} of "
        f"{plural(cells['dataset'].nunique(), 'data set')} and {plural(len(cells), 'run')} per method. Bars: "
        f"{intervals(cells, medians=False)} Below: root mean square, over methods and problems (averaged within data "
        "sets), of the difference between a setting's and live training's mean effect, the seeds' own scatter "
        "subtracted; bars: by the same rule. Only problems and seeds that were run under every setting.",
        f"Below without {plural(alone, 'problem')} of a single seed." if alone else "",
        "Measured: what runs on surfaces chose was trained live." if MEASURED in found[LIVE] else "",
    )


# Engines: the same study under several surrogates and fits, compared with the default.
#
# A folder holds one folder of records per engine: `fast` (the default, the reference) and others of any name, such
# as `fit-gpyopt` and `gpyopt`. Everything is paired by problem and seed.

REFERENCE_ENGINE = "fast"
_MEASURES = {"final_error": "final error", "total_cost_s": "total cost"}


def ratios(traces: Mapping[str, Traces]) -> pd.DataFrame:
    """Return one row per engine, measure and method: percent above the reference's, 100 (exp mean log ratio - 1).

    value, low, high, n: the mean over cells, its interval, and the cells that both engines have. Cells with an error of
    0 under either have no ratio and are left out.
    """
    tables = {name: finals(t).set_index([*CELL, "method"]) for name, t in traces.items()}
    rows = []
    for name, measure in ((name, measure) for name in tables if name != REFERENCE_ENGINE for measure in _MEASURES):
        both = pd.concat([tables[name][measure], tables[REFERENCE_ENGINE][measure]], axis=1, keys=["own", "reference"])
        both = both[(both > 0).all(axis=1)].dropna()
        if both.empty:
            what = f"no problem, seed and method with a {_MEASURES[measure]} under both"
            raise BadInput(f"{name} and {REFERENCE_ENGINE}: {what}")
        logs = (np.log(both["own"]) - np.log(both["reference"])).unstack("method")
        part = with_intervals(logs.reindex(columns=[m for m in ordered(traces[name].runs) if m in logs]))
        part[["value", "low", "high"]] = 100 * np.expm1(part[["value", "low", "high"]])
        rows.append(part.rename_axis("method").reset_index().assign(engine=name, measure=measure))
    return pd.concat(rows, ignore_index=True)


def engines_page(folder: Path, out_dir: Path) -> Path:
    """Write `engines.md` with its tables; raises BadInput without the reference or without another engine."""
    traces = settings(folder, REFERENCE_ENGINE)
    if len(traces) < 2:
        raise BadInput(f"{folder} holds only {REFERENCE_ENGINE!r}: there is no engine to compare with it")
    found = method_effects(traces, REFERENCE_ENGINE)
    cells = found[REFERENCE_ENGINE]["saved"].index.to_frame(index=False)
    steps = " and ".join(str(n) for n in sorted({int(n) for t in traces.values() for n in t.runs["iterations"]}))
    heading = f"# Engines\n\nRuns of {steps} evaluations, paired by problem and seed. {intervals(cells)}"
    return write_page(out_dir / "engines.md", [heading, _ratio_table(ratios(traces)), *_effect_tables(found, cells)])


def _ratio_table(found: pd.DataFrame) -> str:
    rows = []
    for (engine, method), part in found.groupby(["engine", "method"], sort=False):
        cells = part.set_index("measure")
        row = {"engine": engine, "method": method}
        for measure, title in _MEASURES.items():
            value, low, high = cells.loc[[measure], ["value", "low", "high"]].to_numpy(float)[0].tolist()
            row[f"{title}, % above `{REFERENCE_ENGINE}`"] = format_interval(value, low, high, 2)
        rows.append({**row, "pairs": int(cells["n"].min())})
    return (
        "## The same method under another engine\n\nGeometric means of paired ratios, over the problems and seeds that "
        f"both engines were run on.\n\n{markdown_table(pd.DataFrame(rows))}"
    )


def _effect_tables(found: Effects, cells: pd.DataFrame) -> list[str]:
    numbers = effects_table(found, REFERENCE_ENGINE).sort_values("method", kind="stable")
    off = f"difference from `{REFERENCE_ENGINE}`"
    problems = plural(len(cells[PROBLEM].drop_duplicates()), "problem")
    over = f"over the {problems} and {plural(len(cells), 'problem-seed pair')} that every engine was run on"
    parts = [f"## What each engine says of the methods\n\nAgainst EI under the same engine, {over}. {MEANS_OF_SUMS}"]
    for effect, title in (("saved", "Time saved, % of EI's cost"), ("added", "Error added, % of EI's error")):
        rows = numbers[numbers["effect"] == effect]
        shown = rows[["method", "setting"]].rename(columns={"setting": "engine"})
        shown[title] = [format_interval(*v) for v in rows[["value", "low", "high"]].to_numpy(float)]
        shown[off] = [format_interval(*v) for v in rows[["off_value", "off_low", "off_high"]].to_numpy(float)]
        shown.loc[shown["engine"] == REFERENCE_ENGINE, off] = "-"
        parts.append(f"### {title}\n\n{markdown_table(shown)}")
    return parts

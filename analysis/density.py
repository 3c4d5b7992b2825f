"""Settings against a reference: how dense must a replayed table be, and do conclusions depend on the engine?

For density, a folder holds one folder of records per setting: `live` (the truth), `rows-128`, `rows-256`, ... (replay
of a table's first configurations) and `surface-2048`, ... (the table's emulator). For each setting and method,

    time saved = 100 - cost_pct,   error added = error_pct - 100   (percent of EI's, same problem and seed),

and their differences to live, paired by problem and seed. Where `python -m tabular_cache confirm` has trained what the
runs on surfaces chose, also the *error measured*: error added with these trainings' errors (those of live trainings and
of tables are measured anyway).
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.captions import format_interval, intervals, markdown_table, plural, sentence
from analysis.plotting import BLACK, BLUE, ORANGE, Drawn, new_figure, save, sequence, style
from analysis.statistics import bootstrap, resample, weighted
from analysis.traces import (
    CELL,
    EI,
    PROBLEM,
    Traces,
    check_same_origin,
    check_same_tables,
    choose_components,
    collect,
    ordered,
)
from analysis.tradeoffs import finals, relative_to_ei
from datasets.errors import BadInput
from datasets.files import write_atomically
from harness.records import read_traces, specs
from tabular_cache.live_truth import CONFIRMED_FILE, TRUTH
from tabular_cache.schema import problem_name
from tabular_cache.table import TABLES, first_configs, load_table

# The settings: one folder of records each, checked to be comparable.

LIVE = "live"


def settings(folder: Path, reference: str = LIVE) -> dict[str, Traces]:
    """Return the traces of each setting, the reference first, then rows and surfaces by density.

    Without a folder `live`, the shipped live runs take its place (`tabular_cache.live_truth`). Raises BadInput without
    the reference, and where settings cannot be compared: runs of other lengths, methods that one has and another has
    not, tables that changed between two settings.
    """
    names = sorted((p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")), key=_order)
    paths = {name: folder / name for name in names}
    if reference == LIVE and LIVE not in paths and TRUTH.is_dir():
        paths[LIVE] = TRUTH
    if reference not in paths:
        found = ", ".join(names) or "none"
        raise BadInput(f"{folder} needs a folder {reference!r} of records to compare with; folders there: {found}")
    frames = {name: read_traces(paths[name]) for name in sorted(paths, key=lambda name: name != reference)}
    for frame in frames.values():
        check_same_origin(choose_components(frame, {})[0], remedy="")
    traces = {name: collect(frame) for name, frame in frames.items()}
    check_alike(traces, reference)
    check_same_tables(frames)
    return traces


def check_alike(traces: Mapping[str, Traces], reference: str) -> None:
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


def _order(name: str) -> tuple[str, int]:
    kind, _, n = name.partition("-")
    return (kind, int(n) if n.isdigit() else 0)


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


EFFECTS = ("saved", "added")
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
    tables = {}
    for name, pair in pairs.items():
        saved, added = 100 - pair.wide("cost_pct", methods), pair.wide("error_pct", methods) - 100
        tables[name] = {"saved": saved.dropna(), "added": added.dropna()}
        if confirmed and name in confirmed:
            tables[name][MEASURED] = _measured(confirmed[name], methods).dropna()
        elif confirmed and not name.startswith("surface"):
            tables[name][MEASURED] = tables[name]["added"]
    shared = None
    for frames in tables.values():
        for frame in frames.values():
            shared = frame.index if shared is None else shared.intersection(frame.index)
    assert shared is not None
    if not len(shared):
        raise BadInput("no problem and seed was run under every setting")
    return {name: {effect: frame.loc[shared] for effect, frame in frames.items()} for name, frames in tables.items()}


def _measured(trainings: pd.DataFrame, methods: list[str]) -> pd.DataFrame:
    """Return the error added by each method, in percent of EI's, by trainings of what both chose."""
    wide = trainings.pivot(index=CELL, columns="method", values="error").reindex(columns=[*methods, EI])
    ei = wide[EI].where(wide[EI] > 0)
    return wide[methods].div(ei, axis=0) * 100 - 100


def compare(found: Mapping[str, Mapping[str, pd.DataFrame]], reference: str = LIVE) -> pd.DataFrame:
    """Return one row per setting, effect and method: mean with interval, and the same of its difference to live's."""
    rows = []
    for name, frames in found.items():
        for effect in frames:
            own = bootstrap(frames[effect])
            off = bootstrap(frames[effect] - found[reference][effect]).add_prefix("off_")
            part = own.join(off[["off_value", "off_low", "off_high"]])
            rows.append(part.rename_axis("method").reset_index().assign(setting=name, effect=effect))
    return pd.concat(rows, ignore_index=True)


def sign_agreement(found: Mapping[str, Mapping[str, pd.DataFrame]]) -> pd.DataFrame:
    """Return, per setting and effect, how far its effects lie from live's, problem by problem.

    distance: root mean square, over problems and methods, of the difference of means over seeds, less the part
    that the seeds' scatter explains (so a setting that is live itself has distance 0 in expectation); with a 95 %
    bootstrap interval over problems. bias: mean difference over methods and runs, with the interval of effects
    (bias_low, bias_high). same_sign: share of (problem, method) pairs whose effect has live's sign, among those where
    live's own interval over seeds excludes 0. Problems of one seed are left out (`one_seed` counts them), since their
    scatter is unknown. Raises BadInput when none is left.
    """
    seeds = found[LIVE]["saved"].groupby(level=PROBLEM).size()
    known = seeds.index[seeds > 1]
    if not len(known):
        raise BadInput("no problem has two seeds under every setting: the seeds' scatter is unknown")
    rows = []
    for name, frames in found.items():
        for effect in frames if name != LIVE else ():
            told, live = frames[effect], found[LIVE][effect]
            measures = _distance(told - live, known) | _bias(told - live, known) | _signs(told, live)
            rows.append({"setting": name, "effect": effect, **measures, "one_seed": len(seeds) - len(known)})
    return pd.DataFrame(rows)


def _distance(difference: pd.DataFrame, known: pd.Index) -> dict[str, float]:
    """Return the root mean square over problems and methods, less the seeds' scatter, with its interval."""
    groups = difference.groupby(level=PROBLEM)
    mean, n = groups.mean().loc[known], groups.size().loc[known]
    scatter = groups.var().loc[known].div(n, axis=0)
    square = (mean**2 - scatter).mean(axis=1).to_numpy()
    cells = mean.index.to_frame(index=False).assign(seed=0)
    replicates = weighted(square[:, None], resample(cells[CELL]), "mean")[:, 0]
    low, high = np.sqrt(np.maximum(np.quantile(replicates, [0.025, 0.975]), 0.0))
    return {"distance": float(np.sqrt(max(square.mean(), 0.0))), "low": float(low), "high": float(high)}


def _signs(told: pd.DataFrame, live: pd.DataFrame) -> dict[str, float]:
    """Return the share of sure live effects whose sign is told as well, and how many are sure."""
    groups = live.groupby(level=PROBLEM)
    sure = (groups.mean().abs() > 1.96 * np.sqrt(groups.var().div(groups.size(), axis=0))).to_numpy()
    same = (np.sign(told.groupby(level=PROBLEM).mean()) == np.sign(groups.mean())).to_numpy()
    return {"same_sign": float(same[sure].mean()) if sure.any() else np.nan, "sure": int(sure.sum())}


def _bias(difference: pd.DataFrame, problems: pd.Index) -> dict[str, float]:
    """Return the mean over methods and the runs of `problems`, with its interval."""
    judged = difference[difference.droplevel("seed").index.isin(problems)]
    line = bootstrap(judged.mean(axis=1).to_frame("bias")).iloc[0]
    return {"bias": float(line["value"]), "bias_low": float(line["low"]), "bias_high": float(line["high"])}


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
    found = method_effects(traces, confirmed=confirmed(folder, traces))
    numbers, agreement = compare(found), sign_agreement(found)
    cells = pd.MultiIndex.from_frame(found[LIVE]["saved"].index.to_frame(index=False)[CELL])
    shares = {name: exhausted(folder, name, t, cells) for name, t in traces.items() if name != LIVE}
    agreement["exhausted"] = agreement["setting"].map(shares)
    effects = list(dict.fromkeys(numbers["effect"]))
    caption = _caption(found, agreement)
    with style():
        figure, plots = new_figure(4.8 * len(effects), 7.4, caption)
        axes = plots.subplots(2, len(effects), height_ratios=(1.25, 1))
        for axis, effect in zip(axes[0], effects, strict=True):
            _effects(axis, numbers[numbers["effect"] == effect], effect)
        key = axes[0][0].get_legend_handles_labels()
        plots.legend(*key, loc="outside upper center", ncols=7, fontsize=8)
        for axis, effect in zip(axes[1], effects, strict=True):
            _distance_panel(axis, agreement[agreement["effect"] == effect], effect)
        drawn = save(figure, "density", caption, numbers, out_dir)
    table = agreement.to_csv(index=False, float_format="%.5g", lineterminator="\n")
    write_atomically(out_dir / "density-agreement.csv", table.encode())
    return drawn


def _effects(axis: Any, rows: pd.DataFrame, effect: str) -> None:
    names, methods = list(dict.fromkeys(rows["setting"])), list(dict.fromkeys(rows["method"]))
    others = [name for name in names if name != LIVE]
    colours = dict(zip(others, sequence(len(others)), strict=True)) | {LIVE: BLACK}
    for k, name in enumerate(names):
        part = rows[rows["setting"] == name].set_index("method").loc[methods]
        y = np.arange(len(methods)) + (k - (len(names) - 1) / 2) * 0.8 / len(names)
        arms = np.maximum([part["value"] - part["low"], part["high"] - part["value"]], 0)
        marker = "D" if name == LIVE else "s" if name.startswith("surface") else "o"
        axis.errorbar(part["value"], y, xerr=arms, fmt=marker, markersize=3.2, elinewidth=0.8, color=colours[name],
                      label=name.replace("-", " "))  # fmt: skip
    axis.set_yticks(np.arange(len(methods)), [m.replace("(", " ").rstrip(")") for m in methods])
    axis.invert_yaxis()
    axis.axvline(0, color="0.6", linewidth=0.8, zorder=0)
    axis.set_xlabel(_LABELS[effect])


def _distance_panel(axis: Any, rows: pd.DataFrame, effect: str) -> None:
    for kind, colour, marker, beside in _KINDS:
        part = rows[rows["setting"].str.startswith(kind)]
        if part.empty:
            continue
        x = part["setting"].map(n_configs).astype(float) * beside
        arms = np.maximum([part["distance"] - part["low"], part["high"] - part["distance"]], 0)
        axis.errorbar(x, part["distance"], yerr=arms, color=colour, marker=marker, markersize=4, elinewidth=0.8,
                      label=kind)  # fmt: skip
    axis.set_xscale("log", base=2)
    ticks = sorted({int(n) for n in rows["setting"].map(n_configs).dropna()})
    axis.set_xticks(ticks, [str(t) for t in ticks])
    axis.minorticks_off()
    axis.set_ylim(bottom=0)
    axis.set_xlabel("Sobol configurations in the table")
    axis.set_ylabel(f"distance from live:\n{_LABELS[effect].split(' (')[0]} (points)")
    axis.legend(fontsize=8)


def _caption(found: dict[str, dict[str, pd.DataFrame]], agreement: pd.DataFrame) -> str:
    cells = found[LIVE]["saved"].index.to_frame(index=False)
    problems = cells[["dataset", "pipeline"]].drop_duplicates()
    alone = int(agreement["one_seed"].iloc[0])
    return sentence(
        "Replay against live training. Above: total cost saved and final error added against EI on the same problem",
        f"and seed, mean over {plural(len(problems), 'problem')} of {plural(cells['dataset'].nunique(), 'data set')}",
        f"and {plural(len(cells), 'run')} per method. Bars: {intervals(cells)} Below: root mean",
        "square, over problems and methods, of the difference between a setting's and live training's mean effect,",
        "the seeds' own scatter subtracted; bars: 95 % bootstrap intervals over problems. Only problems and seeds that",
        "were run under every setting.",
        f"Below without {plural(alone, 'problem')} of a single seed." if alone else "",
        "Measured: what runs on surfaces chose was trained live." if MEASURED in found[LIVE] else "",
    )


# Engines: the same study under several surrogates and fits, compared with the default.
#
# A folder holds one folder of records per engine: `fast` (the default, the reference) and others of any name, such
# as `fit-gpyopt` and `gpyopt`. Everything is paired by problem and seed.

REFERENCE = "fast"
_MEASURES = {"final_error": "final error", "total_cost_s": "total cost"}


def ratios(traces: Mapping[str, Traces]) -> pd.DataFrame:
    """Return one row per engine, measure and method: percent above the reference's, 100 (exp mean log ratio - 1).

    value, low, high, n: the mean over cells, its interval, and the cells that both engines have. Cells with an error of
    0 under either have no ratio and are left out.
    """
    tables = {name: finals(t).set_index([*CELL, "method"]) for name, t in traces.items()}
    rows = []
    for name, frame in tables.items():
        if name == REFERENCE:
            continue
        for measure in _MEASURES:
            both = pd.concat([frame[measure], tables[REFERENCE][measure]], axis=1, keys=["own", "reference"])
            both = both[(both > 0).all(axis=1)].dropna()
            if both.empty:
                raise BadInput(
                    f"{name} and {REFERENCE}: no problem, seed and method with a {_MEASURES[measure]} under both"
                )
            logs = (np.log(both["own"]) - np.log(both["reference"])).unstack("method")
            part = bootstrap(logs.reindex(columns=[m for m in ordered(finals(traces[name])) if m in logs]))
            part[["value", "low", "high"]] = 100 * np.expm1(part[["value", "low", "high"]])
            rows.append(part.rename_axis("method").reset_index().assign(engine=name, measure=measure))
    return pd.concat(rows, ignore_index=True)


def engines_page(folder: Path, out_dir: Path) -> Path:
    """Write `engines.md` with its tables; raises BadInput without the reference or without another engine."""
    traces = settings(folder, REFERENCE)
    if len(traces) < 2:
        raise BadInput(f"{folder} holds only {REFERENCE!r}: there is no engine to compare with it")
    found = method_effects(traces, REFERENCE)
    cells = found[REFERENCE]["saved"].index.to_frame(index=False)
    text = "\n\n".join([_heading(traces, cells), _ratio_table(ratios(traces)), *_effect_tables(found, cells)])
    path = out_dir / "engines.md"
    write_atomically(path, f"{text}\n".encode())
    return path


def _heading(traces: Mapping[str, Traces], cells: pd.DataFrame) -> str:
    steps = " and ".join(str(n) for n in sorted({int(n) for t in traces.values() for n in t.runs["iterations"]}))
    return f"# Engines\n\nRuns of {steps} evaluations, paired by problem and seed. {intervals(cells)}"


def _ratio_table(found: pd.DataFrame) -> str:
    rows = []
    for (engine, method), part in found.groupby(["engine", "method"], sort=False):
        cells = part.set_index("measure")
        row = {"engine": engine, "method": method}
        for measure, title in _MEASURES.items():
            value, low, high = cells.loc[[measure], ["value", "low", "high"]].to_numpy(float)[0].tolist()
            row[f"{title}, % above `{REFERENCE}`"] = format_interval(value, low, high, 2)
        rows.append({**row, "pairs": int(cells["n"].min())})
    return (
        "## The same method under another engine\n\nGeometric means of paired ratios, over the problems and seeds that "
        f"both engines were run on.\n\n{markdown_table(pd.DataFrame(rows))}"
    )


def _effect_tables(found: Mapping[str, Mapping[str, pd.DataFrame]], cells: pd.DataFrame) -> list[str]:
    numbers = compare(found, REFERENCE).sort_values("method", kind="stable")
    off = f"difference from `{REFERENCE}`"
    problems = plural(len(cells[PROBLEM].drop_duplicates()), "problem")
    over = f"over the {problems} and {plural(len(cells), 'problem-seed pair')} that every engine was run on"
    parts = [f"## What each engine says of the methods\n\nAgainst EI under the same engine, {over}."]
    for effect, title in (("saved", "Time saved, % of EI's cost"), ("added", "Error added, % of EI's error")):
        rows = numbers[numbers["effect"] == effect]
        shown = rows[["method", "setting"]].rename(columns={"setting": "engine"})
        shown[title] = [format_interval(*v) for v in rows[["value", "low", "high"]].to_numpy(float)]
        shown[off] = [format_interval(*v) for v in rows[["off_value", "off_low", "off_high"]].to_numpy(float)]
        shown.loc[shown["engine"] == REFERENCE, off] = "-"
        parts.append(f"### {title}\n\n{markdown_table(shown)}")
    return parts

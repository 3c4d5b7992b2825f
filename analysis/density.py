"""How dense must a replayed table be? Effects of methods under replay, compared with live training's.

A folder holds one folder of records per setting: `live` (the truth), `rows-128`, `rows-256`, ... (replay of a
table's first configurations) and `surface-2048`, ... (the table's emulator). For each setting and method,

    time saved = 100 - cost_pct,   error added = error_pct - 100   (percent of EI's, same problem and seed),

and their differences to live, paired by problem and seed.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.bootstrap import bootstrap, resample, weighted
from analysis.methods import EI, ordered
from analysis.relative import finals, relative
from analysis.traces import CELL, PROBLEM, Traces, collect
from harness.errors import BadInput
from harness.records import read_traces, specs
from tabular_cache.cargo import first
from tabular_cache.schema import problem_name
from tabular_cache.table import TABLES, load_table

LIVE = "live"
EFFECTS = ("saved", "added")


def settings(folder: Path, reference: str = LIVE) -> dict[str, Traces]:
    """Return the traces of each setting, the reference first, then rows and surfaces by density.

    Raises BadInput without the reference.
    """
    names = sorted((p.name for p in folder.iterdir() if p.is_dir()), key=_order)
    if reference not in names:
        found = ", ".join(names) or "none"
        raise BadInput(f"{folder} needs a folder {reference!r} of records to compare with; folders there: {found}")
    names.sort(key=lambda name: name != reference)
    return {name: collect(read_traces(folder / name)) for name in names}


def _order(name: str) -> tuple[str, int]:
    kind, _, n = name.partition("-")
    return (kind, int(n) if n.isdigit() else 0)


def density(name: str) -> int | None:
    """Return the number of configurations in a setting's name; None for live."""
    found = re.search(r"-(\d+)$", name)
    return int(found[1]) if found else None


def effects(all_traces: Mapping[str, Traces], reference: str = LIVE) -> dict[str, dict[str, pd.DataFrame]]:
    """Return, per setting and effect, one row per cell (those of all settings) and one column per method but EI."""
    pairs = {name: relative(traces, f"setting {name}") for name, traces in all_traces.items()}
    methods = [m for m in ordered(pairs[reference].table) if m != EI]
    tables = {}
    for name, pair in pairs.items():
        saved, added = 100 - pair.wide("cost_pct", methods), pair.wide("error_pct", methods) - 100
        tables[name] = {"saved": saved.dropna(), "added": added.dropna()}
    shared = None
    for frames in tables.values():
        index = frames["saved"].index.intersection(frames["added"].index)
        shared = index if shared is None else shared.intersection(index)
    assert shared is not None
    if not len(shared):
        raise BadInput("no problem and seed was run under every setting")
    return {name: {effect: frame.loc[shared] for effect, frame in frames.items()} for name, frames in tables.items()}


def compare(found: Mapping[str, Mapping[str, pd.DataFrame]], reference: str = LIVE) -> pd.DataFrame:
    """Return one row per setting, effect and method: mean with interval, and the same of its difference to live's."""
    rows = []
    for name, frames in found.items():
        for effect in EFFECTS:
            own = bootstrap(frames[effect])
            off = bootstrap(frames[effect] - found[reference][effect]).add_prefix("off_")
            part = own.join(off[["off_value", "off_low", "off_high"]])
            rows.append(part.rename_axis("method").reset_index().assign(setting=name, effect=effect))
    return pd.concat(rows, ignore_index=True)


def agreement(found: Mapping[str, Mapping[str, pd.DataFrame]]) -> pd.DataFrame:
    """Return, per setting and effect, how far its effects lie from live's, problem by problem.

    distance: root mean square, over problems and methods, of the difference of means over seeds, less the part
    that the seeds' scatter explains (so a setting that is live itself has distance 0 in expectation); with a 95 %
    bootstrap interval over problems. bias: mean difference. same_sign: share of (problem, method) pairs whose
    effect has live's sign, among those where live's own interval over seeds excludes 0.
    """
    rows = []
    for name, frames in found.items():
        if name == LIVE:
            continue
        for effect in EFFECTS:
            difference = frames[effect] - found[LIVE][effect]
            groups = difference.groupby(level=PROBLEM)
            mean, n = groups.mean(), groups.size()
            scatter = groups.var().div(n, axis=0)
            square = (mean**2 - scatter).mean(axis=1).to_numpy()
            cells = mean.index.to_frame(index=False).assign(seed=0)
            replicates = weighted(square[:, None], resample(cells[CELL]), "mean")[:, 0]
            low, high = np.sqrt(np.maximum(np.quantile(replicates, [0.025, 0.975]), 0.0))
            live = found[LIVE][effect].groupby(level=PROBLEM)
            sure = live.mean().abs() > 1.96 * np.sqrt(live.var().div(live.size(), axis=0))
            same = np.sign(frames[effect].groupby(level=PROBLEM).mean()) == np.sign(live.mean())
            rows.append(
                {
                    "setting": name,
                    "effect": effect,
                    "distance": float(np.sqrt(max(square.mean(), 0.0))),
                    "low": float(low),
                    "high": float(high),
                    "bias": float(mean.to_numpy().mean()),
                    "same_sign": float(same.to_numpy()[sure.to_numpy()].mean()) if sure.to_numpy().any() else np.nan,
                    "sure": int(sure.to_numpy().sum()),
                }
            )
    return pd.DataFrame(rows)


def exhausted(folder: Path, name: str, traces: Traces) -> float:
    """Return the share of a setting's runs that end with the best error of their table; NaN if it replays none.

    Raises BadInput where the table is another one now than when it was replayed.
    """
    best: dict[tuple[str, str], float] = {}
    for spec in specs(folder / name):
        key, evaluator = (spec["dataset"], spec["pipeline"]), spec["components"]["evaluator"]
        if spec["evaluator"] != "replay":
            return float("nan")
        if key not in best:
            table = load_table(problem_name(*key), Path(evaluator["tables"] or TABLES))
            if table.meta["sha256"] != spec["data"]:
                raise BadInput(f"{folder / name}: the table of {table.problem} has changed since it was replayed")
            known = table.measured & first(table, evaluator["n_configs"])
            best[key] = float(np.nanmin(table["val_error"][known]))
    last = finals(traces)
    goal = [best[d, p] for d, p in zip(last["dataset"], last["pipeline"], strict=True)]
    return float((last["final_error"].to_numpy() <= np.array(goal)).mean())

"""How dense must a replayed table be? Effects of methods under replay, compared with live training's.

A folder holds one folder of records per setting: `live` (the truth), `rows-128`, `rows-256`, ... (replay of a
table's first configurations) and `surface-2048`, ... (the table's emulator). For each setting and method,

    time saved = 100 - cost_pct,   error added = error_pct - 100   (percent of EI's, same problem and seed),

and their differences to live, paired by problem and seed. Where `python -m tabular_cache confirm` has trained what the
runs on surfaces chose, also the *error measured*: error added with these trainings' errors (those of live trainings and
of tables are measured anyway).
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from analysis.bootstrap import bootstrap, resample, weighted
from analysis.density_settings import LIVE
from analysis.methods import EI, ordered
from analysis.relative import relative
from analysis.traces import CELL, PROBLEM, Traces
from datasets.errors import BadInput

EFFECTS = ("saved", "added")
MEASURED = "measured"


def effects(
    all_traces: Mapping[str, Traces],
    reference: str = LIVE,
    confirmed: Mapping[str, pd.DataFrame] | None = None,
) -> dict[str, dict[str, pd.DataFrame]]:
    """Return, per setting and effect, one row per cell (those of all settings) and one column per method but EI.

    `confirmed`: trainings of what surfaces chose; with them comes the effect `MEASURED`. Raises BadInput without a
    cell that all settings have.
    """
    pairs = {name: relative(traces, f"setting {name}") for name, traces in all_traces.items()}
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


def agreement(found: Mapping[str, Mapping[str, pd.DataFrame]]) -> pd.DataFrame:
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

"""Do conclusions depend on the engine? The same study under several surrogates and fits, compared with the default.

A folder holds one folder of records per engine: `fast` (the default, the reference) and others of any name, such
as `fit-gpyopt` and `gpyopt`. Everything is paired by problem and seed.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.bootstrap import bootstrap
from analysis.density import compare, effects
from analysis.density_settings import settings
from analysis.markdown import interval, table
from analysis.methods import ordered
from analysis.relative import finals
from analysis.scope import intervals, plural
from analysis.traces import CELL, PROBLEM, Traces
from datasets.errors import BadInput
from datasets.files import write_atomically

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


def report(folder: Path, out_dir: Path) -> Path:
    """Write `engines.md` with its tables; raises BadInput without the reference or without another engine."""
    traces = settings(folder, REFERENCE)
    if len(traces) < 2:
        raise BadInput(f"{folder} holds only {REFERENCE!r}: there is no engine to compare with it")
    found = effects(traces, REFERENCE)
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
            row[f"{title}, % above `{REFERENCE}`"] = interval(value, low, high, 2)
        rows.append({**row, "pairs": int(cells["n"].min())})
    return (
        "## The same method under another engine\n\nGeometric means of paired ratios, over the problems and seeds that "
        f"both engines were run on.\n\n{table(pd.DataFrame(rows))}"
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
        shown[title] = [interval(*v) for v in rows[["value", "low", "high"]].to_numpy(float)]
        shown[off] = [interval(*v) for v in rows[["off_value", "off_low", "off_high"]].to_numpy(float)]
        shown.loc[shown["engine"] == REFERENCE, off] = "-"
        parts.append(f"### {title}\n\n{table(shown)}")
    return parts

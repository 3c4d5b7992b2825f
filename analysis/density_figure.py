"""The density figure: effects of the methods under every setting, and how far each setting is from live training."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis import density
from analysis.density_settings import LIVE, confirmed, exhausted, n_configs, settings
from analysis.plotting import BLACK, BLUE, ORANGE, Drawn, new_figure, save, sequence, style
from analysis.scope import intervals, plural, sentence
from analysis.traces import CELL
from datasets.files import write_atomically

_LABELS = {
    "saved": "time saved (% of EI's cost)",
    "added": "error added (% of EI's error)",
    "measured": "error added, measured (% of EI's error)",
}
_KINDS = (("rows", BLUE, "o", 0.97), ("surface", ORANGE, "s", 1.03))  # the last: beside each other, not over


def draw(folder: Path, out_dir: Path) -> Drawn:
    """Draw the comparison of the settings in `folder` (see `analysis.density`); writes its tables beside it."""
    traces = settings(folder)
    found = density.effects(traces, confirmed=confirmed(folder, traces))
    numbers, agreement = density.compare(found), density.agreement(found)
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
            _distance(axis, agreement[agreement["effect"] == effect], effect)
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


def _distance(axis: Any, rows: pd.DataFrame, effect: str) -> None:
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
        "Measured: what runs on surfaces chose was trained live." if density.MEASURED in found[LIVE] else "",
    )

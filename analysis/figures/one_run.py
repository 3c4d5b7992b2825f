"""One run, step by step: errors and costs of its evaluations, the fronts it chose from, and what it expected to pay."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from matplotlib.ticker import MaxNLocator

from analysis.captions import plural, sentence
from analysis.figures.f1_f7 import place
from analysis.methods import name_in_figures
from analysis.plotting import BLACK, BLUE, ORANGE, RED, Drawn, few_ticks, new_figure, save, stacked, style, upper_edge
from analysis.tradeoffs import all_fronts
from datasets.errors import BadInput
from harness.records import read_traces

NAMED = ("dataset", "pipeline", "method", "seed", "iterations", "tau")
"""The columns that identify a run of one results directory, as far as a user names it; `tau` in seconds, or null."""
SHOWN = 6  # fronts, at even distances from the first choice to the last
_LEAST = np.exp(-14)  # of EI, relative to the highest, that is drawn as it is
HOW = "python -m harness +acq=cei lam=0.3 'dataset=[abalone]' 'pipeline=[clean]' 'seeds=[0]' fronts=true"

# Which run.


def one_run(results_dir: Path, wanted: Mapping[str, str]) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Return a run's evaluations by step, and the points of its fronts, from `results_dir` or ``<results_dir>-fronts``.

    wanted: values of `NAMED`, as many as it takes to name one run. None for fronts that were not recorded. Raises
    BadInput for none that is so named, and for several, with what tells them apart.
    """
    folder = results_dir
    for name in ("dataset", "pipeline"):  # as records lie: a part of them is read where that is asked for
        folder = folder / wanted[name] if name in wanted and (folder / wanted[name]).is_dir() else folder
        if folder == results_dir:
            break
    frame = read_traces(folder).astype({"seed": int})
    if frame.empty:
        raise BadInput(f"no records in {results_dir}: {HOW} results_dir={results_dir}")
    for name in [name for name in NAMED if name in wanted]:
        names = _names(frame[name])
        if wanted[name] not in set(names):
            raise BadInput(f"no run of {name}={wanted[name]}; there are: {_some(names)}")
        frame = frame[names == wanted[name]]
    if len(frame[["spec", "seed"]].drop_duplicates()) > 1:
        several = [f"{name}= ({_some(frame[name])})" for name in NAMED if frame[name].nunique(dropna=False) > 1]
        runs = plural(len(frame[["spec", "seed"]].drop_duplicates()), "run")
        settings = "a results_dir of its own: they differ in nothing that has a name here"
        raise BadInput(f"{runs} fit: name one with {', '.join(several) or settings}")
    own = frame.sort_values("step", ignore_index=True)
    fronts = all_fronts(results_dir)
    fronts = fronts[(fronts["spec"] == own["spec"].iloc[0]) & (fronts["seed"] == own["seed"].iloc[0])]
    return own, None if fronts.empty else fronts.sort_values(["step", "log_cost"], ignore_index=True)


def _names(values: pd.Series) -> pd.Series:
    """Return the values as they are named on the command line."""
    return values.map(lambda v: "null" if pd.isna(v) else str(v).removesuffix(".0")).astype(str)


def _some(values: pd.Series, most: int = 12) -> str:
    found = _names(values.drop_duplicates().sort_values()).tolist()
    return ", ".join(found[:most]) + (f" and {len(found) - most} more" if len(found) > most else "")


def steps(run: pd.DataFrame, fronts: pd.DataFrame) -> dict[str, Any]:
    """Return every recorded front, what was chosen and what came of it, as JSON values for the page.

    steps: evaluation (from 1), cost (predicted seconds of the front's points, rising) and ei (relative to the highest),
    chosen (position, None for a choice off the front), predicted, paid, spent (seconds), error (None: failed), best.
    acceptable: the least EI that CEI takes, None for other rules.
    """
    spent, best = run["cost_s"].cumsum().to_numpy(), np.fmin.accumulate(run["error"].to_numpy(dtype=float))

    def number(value: float) -> float | None:
        return float(f"{value:.4g}") if np.isfinite(value) else None

    found = []
    for step, points in fronts.groupby("step", sort=True):
        placed, row = place(points, float(points["log_ei"].max())), run.iloc[int(str(step))]
        on = np.flatnonzero(placed["chosen"].eq(True))
        found.append({
            "evaluation": int(str(step)) + 1, "cost": [number(x) for x in placed["x"]],
            "ei": [number(y) for y in placed["y"]], "chosen": int(on[0]) if len(on) else None,
            "predicted": number(row["predicted_cost_s"]), "paid": number(row["cost_s"]), "error": number(row["error"]),
            "best": number(best[int(str(step))]), "spent": number(spent[int(str(step))]),
        })  # fmt: skip
    return {"steps": found, "acceptable": _acceptable(run)}


def _acceptable(run: pd.DataFrame) -> float | None:
    """Return the least EI, relative to the highest, that CEI takes; None for other rules."""
    first = run.iloc[0]
    return 1 - float(first["lam"]) if first["acq"] == "cei" else None


# The picture.


def draw_run(run: pd.DataFrame, fronts: pd.DataFrame | None, out_dir: Path, name: str = "run") -> Drawn:
    """Draw a run's evaluations, and below them its fronts, where they were recorded; both as `one_run` returns them."""
    first, model = run.iloc[0], run["predicted_cost_s"].notna()
    what = f"{name_in_figures(str(first['method']))} on {first['dataset']}/{first['pipeline']}, seed {first['seed']}"
    shown = [] if fronts is None else _shown(fronts)
    caption = sentence(
        f"One run: {what},",
        f"{plural(len(run), 'evaluation')} ({first['evaluator']}). Nothing is averaged. Error: of each evaluation",
        f"(dots{_outside(run)}) and the best so far (line). Cost: what each evaluation cost, what the cost model had",
        "predicted for it, and what is spent in total.",
        _predictions(run[model]) if model.any() else "No cost was predicted: the method has no models.",
        _on_fronts(shown, fronts),
    )
    height = 2.9 + (2.0 * -(-len(shown) // 3) if shown else 0.0)
    with style():
        figure, plots = new_figure(9.6, height, caption)
        above, below = plots, None
        if shown:
            above, below = stacked(plots, 2.9, height - 2.9)
        axes = above.subplots(1, 3 if model.any() else 2)
        _draw_errors(axes[0], run)
        _draw_costs(axes[1], run)
        if model.any():
            _draw_predictions(axes[2], run[model])
        drawn = None
        if below is not None and fronts is not None:
            drawn = _draw_fronts(below, shown, fronts, _acceptable(run))
        above.suptitle(what, fontsize=10.5)
        columns = ["step", "error", "cost_s", "predicted_cost_s", "log_ei"]
        numbers = run[columns].assign(panel="evaluations")
        return save(figure, name, caption, pd.concat([numbers, drawn]) if drawn is not None else numbers, out_dir)


def _top(run: pd.DataFrame) -> float:
    """Return the highest error drawn; those beyond lie on the edge. Raises BadInput where there is none."""
    good = run["error"].dropna()
    if good.empty:
        raise BadInput("no evaluation of this run succeeded: there is nothing to draw")
    return upper_edge(good.to_numpy())


def _outside(run: pd.DataFrame) -> str:
    far, failed = int((run["error"] > _top(run)).sum()), int(run["error"].isna().sum())
    beyond = f"beyond the upper edge ({'a triangle' if far == 1 else 'triangles'} on it)"
    parts = [f"{n} {words}" for n, words in ((far, beyond), (failed, "failed")) if n]
    return "".join(f", {part}" for part in parts)


def _predictions(chosen: pd.DataFrame) -> str:
    """Return the sentence on how near the predictions came, early and late."""
    off = np.abs(np.log(chosen["predicted_cost_s"].to_numpy() / chosen["cost_s"].to_numpy()))
    half = len(off) // 2
    near = [f"{(part < np.log(2)).sum()} of {len(part)}" for part in (off[:half], off[half:]) if len(part)]
    halves = f"of the first half of the choices {near[0]}, of the second {near[1]}" if len(near) == 2 else near[0]
    return f"Right: predictions against what was paid; within a factor of two lie {halves}."


def _shown(fronts: pd.DataFrame) -> list[int]:
    """Return the steps whose fronts are drawn."""
    steps = np.unique(fronts["step"].to_numpy())
    return [int(steps[k]) for k in np.unique(np.linspace(0, len(steps) - 1, SHOWN).round().astype(int))]


def _on_fronts(shown: list[int], fronts: pd.DataFrame | None) -> str:
    if fronts is None:
        return "The fronts it chose from were not recorded: run it with fronts=true, in a results_dir of its own."
    chosen = fronts["chosen"].eq(True)
    every = int(fronts["step"].nunique())
    return (
        f"Below: the EI-cost front of the candidates before {plural(len(shown), 'choice')} of {every}, EI relative to "
        f"the highest, and what was chosen (star); the chosen point was on the front at {int(chosen.sum())} of {every} "
        "steps."
    )


def _draw_errors(axes: Axes, run: pd.DataFrame) -> None:
    t, error = run["step"] + 1, run["error"]
    design = run["predicted_cost_s"].isna() & bool(run["predicted_cost_s"].notna().any())
    top = _top(run)
    for which, colour, label in ((design, "0.55", "initial design"), (~design, BLUE, "evaluation")):
        if which.any():
            axes.plot(t[which], error[which].where(error <= top), ".", color=colour, markersize=4.5, label=label)
            axes.plot(t[which], error[which].clip(upper=top).where(error > top), "^", color=colour, markersize=3.5)
    axes.step(t, np.fmin.accumulate(error.to_numpy()), where="post", color=BLACK, linewidth=1.2, label="best so far")
    low = float(error.min())
    room = (top - low) or abs(top) or 1.0
    axes.set(xlabel="evaluation", ylabel="validation error", ylim=(low - 0.05 * room, top + 0.4 * room))  # the legend's
    axes.legend(fontsize=7.5)


def _draw_costs(axes: Axes, run: pd.DataFrame) -> None:
    t = run["step"] + 1
    axes.plot(t, run["cost_s"], ".", color=BLUE, markersize=4.5, label="paid")
    if run["predicted_cost_s"].notna().any():
        axes.plot(t, run["predicted_cost_s"], "x", color=ORANGE, markersize=3.5, label="predicted")
    axes.step(t, run["cost_s"].cumsum(), where="post", color=BLACK, linewidth=1.2, label="spent in total")
    axes.set(xlabel="evaluation", ylabel="cost (s)", yscale="log")
    axes.set_ylim(top=axes.get_ylim()[1] * 4)  # room for the legend
    axes.legend(fontsize=7.5, ncols=3, loc="upper center", handlelength=1.0, columnspacing=0.8, handletextpad=0.4)
    few_ticks(axes.yaxis)


def _draw_predictions(axes: Axes, chosen: pd.DataFrame) -> None:
    dots = axes.scatter(chosen["cost_s"], chosen["predicted_cost_s"], c=chosen["step"] + 1, cmap="viridis", s=13)
    both = chosen[["cost_s", "predicted_cost_s"]].to_numpy(float)
    ends = np.array([np.nanmin(both), np.nanmax(both)])
    axes.plot(ends, ends, "-", color="0.45", linewidth=0.9, zorder=0, label="as predicted")
    axes.fill_between(ends, ends / 2, ends * 2, color="0.45", alpha=0.12, linewidth=0, label="factor of two")
    axes.set(xscale="log", yscale="log", xlabel="paid (s)", ylabel="predicted (s)")
    for axis in (axes.xaxis, axes.yaxis):
        few_ticks(axis)
    axes.legend(fontsize=7.5)
    axes.figure.colorbar(dots, ax=axes, label="evaluation", aspect=30, ticks=MaxNLocator(6, integer=True))


def _draw_fronts(part: SubFigure, shown: list[int], fronts: pd.DataFrame, acceptable: float | None) -> pd.DataFrame:
    """Draw a panel per step of `shown`; return the points drawn.

    acceptable: the least EI that CEI takes, None for others.
    """
    rows = -(-len(shown) // 3)
    grid = part.subplots(rows, 3, sharex=True, sharey=True, squeeze=False)
    parts = []
    for axes, step in zip(grid.ravel(), shown, strict=False):
        points = fronts[fronts["step"] == step]
        points = place(points, float(points["log_ei"].max()))
        chosen = points[points["chosen"].eq(True)]
        y = points["y"].clip(lower=_LEAST)
        axes.step(points["x"], y, where="post", color=BLUE, linewidth=0.7, alpha=0.6)
        axes.plot(points["x"], y, ".", color=BLUE, markersize=4.5, label="front")
        axes.plot(chosen["x"], chosen["y"].clip(lower=_LEAST), "*", color=RED, markersize=10, label="chosen")
        if acceptable is not None:
            axes.axhline(acceptable, color=BLACK, linestyle=":", linewidth=0.9, label="EI that CEI asks for")
        axes.set_title(f"before evaluation {step + 1}", fontsize=8.5)
        parts.append(points.assign(panel="fronts")[["panel", "step", "candidate", "log_ei", "log_cost", "chosen"]])
    for axes in grid.ravel()[len(shown) :]:
        axes.set_axis_off()
    grid[0, 0].set(xscale="log", ylim=(-0.05, 1.1))
    few_ticks(grid[0, 0].xaxis)
    for axes in grid[-1]:
        axes.set_xlabel("predicted cost (s)")
    for axes in grid[:, 0]:
        axes.set_ylabel("EI (highest = 1)")
    grid[0, 0].legend(fontsize=7.5, loc="lower right")
    return pd.concat(parts, ignore_index=True)

"""F1 and F7: the EI-cost Pareto front, what EI^alpha chooses on it, and where its points lie one step later."""

from collections.abc import Hashable
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.text import Text

from analysis.captions import format_interval, intervals, plural, scope, sentence, study_values
from analysis.plotting import BLUE, GREEN, RED, Drawn, drawn_from, new_figure, place_labels, save, style
from analysis.statistics import with_intervals
from analysis.tradeoffs import over_steps, persistence, reference
from datasets.errors import BadInput

# What both share: which runs and steps are drawn, and the axes.


def chosen(
    fronts: pd.DataFrame, names: tuple[str, ...], what: str
) -> tuple[dict[str, pd.DataFrame], str, pd.DataFrame]:
    """Return the fronts of one run (lowest seed, first pipeline) for each of the data sets `names`, by data set,
    the sentences on which runs these are, and all fronts that they were chosen from (`reference`).

    Where the records hold none of these, their first data sets instead. Raises BadInput, naming the asker `what`,
    without fronts.
    """
    if fronts.empty:
        raise BadInput(f"{what} needs fronts: run `python -m harness +acq=ei fronts=true`")
    own = reference(fronts)
    held = list(own["dataset"].unique())
    found, parts = {}, []
    for name in [name for name in names if name in held] or held[: len(names)]:
        part = own[own["dataset"] == name]
        first = part.iloc[0]
        found[name] = part[(part["pipeline"] == first["pipeline"]) & (part["seed"] == first["seed"])]
        how = f"{first['evaluator']}, {plural(int(first['iterations']), 'iteration')}"
        parts.append(f"{name}/{first['pipeline']} (seed {first['seed']}, {how})")
    missing = [name for name in names if name not in found]
    gone = f" Not in the records: {', '.join(missing)}." if missing else ""
    return found, f"One run of EI on each of {', '.join(parts)}.{gone}", own


def steps(run: pd.DataFrame, shares: tuple[float, ...]) -> list[int]:
    """Return the recorded steps at these shares of a run's proposals, each with a step before it; 0-based.

    Raises BadInput for a run of fewer than two proposals.
    """
    every = np.unique(run["step"].to_numpy())
    later = every[np.isin(every - 1, every)]
    if not len(later):
        raise BadInput("a front needs the one before it: run two iterations or more past the initial design")
    return sorted({int(later[round(share * (len(later) - 1))]) for share in shares})


def place(points: pd.DataFrame, top: float, prefix: str = "") -> pd.DataFrame:
    """Return predicted seconds `x` and EI relative to exp(top) `y` of points, by cost."""
    y = np.exp(points[f"{prefix}log_ei"].to_numpy(float) - top)
    x = np.exp(points[f"{prefix}log_cost"].to_numpy(float))
    return points.assign(x=x, y=y).sort_values(["x", "y"])


def _label_front(axes: Axes, key: tuple[Hashable, ...]) -> None:
    """Name and scale the axes of a panel; key: its data set and iteration."""
    axes.set_xscale("log")
    axes.margins(x=0.09, y=0.16)
    axes.set_xlabel("predicted cost (s)")
    axes.set_title(f"{key[0]}, t = {key[1]}", fontsize=9)


# F1: the EI-cost Pareto front at two iterations, and what EI^alpha would choose on it (STUDY: F1).

FRONT_DATASETS = ("a1a", "splice")
SHARES = (0.15, 0.6)  # of a run's proposals: the two iterations drawn
ALPHAS = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)


def maximiser(front: pd.DataFrame, alpha: float) -> int:
    """Return the position of the point that maximises log EI - alpha log c; ties go to the cheaper."""
    score = (front["log_ei"] - alpha * front["log_cost"]).to_numpy(float)
    best = np.flatnonzero(score == score.max())
    return int(best[front["log_cost"].to_numpy(float)[best].argmin()])


@drawn_from("fronts", "The EI-cost front at two iterations")
def f1(fronts: pd.DataFrame, out_dir: Path) -> Drawn:
    """Draw F1 from `read_fronts`; raises BadInput without two fronts of EI in a row."""
    runs, which, _ = chosen(fronts, FRONT_DATASETS, "F1")
    numbers = pd.concat([_points_f1(name, run) for name, run in runs.items()], ignore_index=True)
    caption = sentence(
        "F1. EI and predicted cost of the candidates on the EI-cost Pareto front at iteration t (dots) and at t - 1",
        "(dashed), relative to the highest EI at t; squares: what EI^alpha would choose at t, for alpha =",
        f"{', '.join(f'{a:g}' for a in ALPHAS)}.",
        which,
    )
    panels = list(numbers.groupby(["dataset", "iteration"], sort=False))
    columns = min(2, max(numbers.groupby("dataset")["iteration"].nunique()))
    rows = -(-len(panels) // columns)
    with style():
        figure, plots = new_figure(4.6 * columns, 2.9 * rows, caption)
        grid = plots.subplots(rows, columns, squeeze=False)
        labels = []
        for axes, (key, points) in zip(grid.ravel(), panels, strict=False):
            labels.append(_panel_f1(axes, points))
            _label_front(axes, key)
        for axes in grid.ravel()[len(panels) :]:
            axes.set_visible(False)
        for axes in grid[:, 0]:
            axes.set_ylabel("EI (highest = 1)")
        plots.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        for axes, texts in zip(grid.ravel(), labels, strict=False):
            place_labels(axes, texts)
        return save(figure, "f1", caption, numbers, out_dir)


def _points_f1(name: str, run: pd.DataFrame) -> pd.DataFrame:
    """Return the points of each panel: fronts `now` and `before`, alphas that choose a point; iterations from 1."""
    parts = []
    for step in steps(run, SHARES):
        now, before = run[run["step"] == step], run[run["step"] == step - 1]
        top = float(now["log_ei"].max())
        taken: dict[int, list[str]] = {}
        for alpha in ALPHAS:
            taken.setdefault(maximiser(now, alpha), []).append(f"{alpha:g}")
        alphas = [" ".join(taken.get(i, [])) for i in range(len(now))]
        for front, points in (("now", now.assign(alphas=alphas)), ("before", before.assign(alphas=""))):
            part = place(points, top).assign(dataset=name, iteration=step + 1, front=front)
            parts.append(part[["dataset", "iteration", "front", "candidate", "x", "y", "alphas"]])
    return pd.concat(parts, ignore_index=True)


def _panel_f1(axes: Axes, points: pd.DataFrame) -> list[Text]:
    """Draw a panel; return the labels of the points chosen, for `place_labels` to move."""
    now, before = points[points["front"] == "now"], points[points["front"] == "before"]
    axes.plot(before["x"], before["y"], "--", color="0.55", linewidth=1.0, label="front at t - 1")
    axes.plot(now["x"], now["y"], ".", color=BLUE, markersize=5, label="front at t")
    best = now[now["alphas"] != ""]
    axes.plot(best["x"], best["y"], "s", color=RED, markersize=6, fillstyle="none",
              label=r"maximisers of EI$^\alpha$, with $\alpha$")  # fmt: skip
    labels = []
    for x, y, alphas in best[["x", "y", "alphas"]].itertuples(index=False):
        values = alphas.split()
        text = values[0] if len(values) == 1 else f"{values[0]} to {values[-1]}"
        labels.append(axes.text(x, y, text, fontsize=7.5, color=RED, zorder=6))
    return labels


# F7: where the points of the EI-cost front at t - 1 lie at t (STUDY: F7).

PERSISTENCE_DATASETS = ("a1a", "a3a", "splice")
SHARE = (0.4,)  # of a run's proposals: the iteration drawn
_NOW, _STAYS, _GONE = "front at t", "on the front at t - 1 and at t", "on the front at t - 1 only"


@drawn_from("fronts", "Where the points of the front are one iteration later")
def f7(fronts: pd.DataFrame, out_dir: Path) -> Drawn:
    """Draw F7 from `read_fronts`; raises BadInput without two fronts of EI in a row."""
    runs, which, every = chosen(fronts, PERSISTENCE_DATASETS, "F7")
    numbers = pd.concat([_points_f7(name, run) for name, run in runs.items()], ignore_index=True)
    caption = sentence(
        "F7. The points of the EI-cost Pareto front at t - 1, at what the refitted models say of them at t: those",
        "that are on the front of the same candidates again (filled) and those that are not (crosses), beside the",
        "front at t (line); EI relative to the highest at t. The candidate evaluated in between is left out.",
        which,
        _shares(every),
    )
    with style():
        figure, plots = new_figure(3.5 * max(len(runs), 2), 3.3, caption)
        grid = plots.subplots(1, len(runs), squeeze=False)[0]
        for axes, (key, points) in zip(grid, numbers.groupby(["dataset", "iteration"], sort=False), strict=True):
            for what, look, colour in ((_NOW, "-", BLUE), (_STAYS, "o", GREEN), (_GONE, "x", RED)):
                part = points[points["what"] == what]
                axes.plot(part["x"], part["y"], look, color=colour, linewidth=1.0, markersize=4.5, label=what)
            _label_front(axes, key)
        grid[0].set_ylabel("EI (highest at t = 1)")
        plots.legend(*grid[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        return save(figure, "f7", caption, numbers, out_dir)


def _points_f7(name: str, run: pd.DataFrame) -> pd.DataFrame:
    step = steps(run, SHARE)[0]
    now, before = run[run["step"] == step], run[run["step"] == step - 1]
    before = before[before["stays"].notna()]
    top = float(now["log_ei"].max())
    kept = before["stays"].map({True: _STAYS, False: _GONE})
    points = pd.concat([place(now, top).assign(what=_NOW), place(before.assign(what=kept), top, "then_")])
    return points.assign(dataset=name, iteration=step + 1)[["dataset", "iteration", "what", "candidate", "x", "y"]]


def _shares(fronts: pd.DataFrame) -> str:
    """Return the sentence on how many points stay, over all recorded steps and runs of EI on the study's problems."""
    shares = study_values(over_steps(persistence(fronts)))
    value, low, high = with_intervals((100 * shares).to_frame())[["value", "low", "high"]].to_numpy(float)[0]
    cells = shares.index.to_frame(index=False)
    return (
        f"Over all steps of all runs of EI recorded, {format_interval(value, low, high)} % of the points stay "
        f"on the front; {scope(cells, str(fronts['evaluator'].iloc[0]))}. {intervals(cells, medians=False)}"
    )

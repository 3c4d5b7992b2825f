"""F1: the EI-cost Pareto front at two iterations, and what EI^alpha would choose on it (STUDY: F1)."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.front_panels import chosen, described, finish, place, steps
from analysis.plotting import BLUE, RED, Drawn, drawn_from, new_figure, save, style
from analysis.scope import sentence

DATASETS = ("a1a", "splice")
SHARES = (0.15, 0.6)  # of a run's proposals: the two iterations drawn
ALPHAS = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)


def maximiser(front: pd.DataFrame, alpha: float) -> int:
    """Return the position of the point that maximises log EI - alpha log c; ties go to the cheaper."""
    score = (front["log_ei"] - alpha * front["log_cost"]).to_numpy(float)
    best = np.flatnonzero(score == score.max())
    return int(best[front["log_cost"].to_numpy(float)[best].argmin()])


@drawn_from("fronts")
def draw(fronts: pd.DataFrame, out_dir: Path) -> Drawn:
    """Draw F1 from `read_fronts`; raises BadInput without two fronts of EI in a row."""
    runs = chosen(fronts, DATASETS, "F1")
    numbers = pd.concat([_points(name, run) for name, run in runs.items()], ignore_index=True)
    caption = sentence(
        "F1. EI and predicted cost of the candidates on the EI-cost Pareto front at iteration t (dots) and at t - 1",
        "(dashed), relative to the highest EI at t; squares: what EI^alpha would choose at t, for alpha =",
        f"{', '.join(f'{a:g}' for a in ALPHAS)}.",
        described(runs, DATASETS),
    )
    panels = list(numbers.groupby(["dataset", "iteration"], sort=False))
    columns = min(2, max(numbers.groupby("dataset")["iteration"].nunique()))
    rows = -(-len(panels) // columns)
    with style():
        figure, plots = new_figure(4.6 * columns, 2.9 * rows, caption)
        grid = plots.subplots(rows, columns, squeeze=False)
        for axes, (key, points) in zip(grid.ravel(), panels, strict=False):
            _panel(axes, points, f"{key[0]}, t = {key[1]}")
        for axes in grid.ravel()[len(panels) :]:
            axes.set_visible(False)
        for axes in grid[:, 0]:
            axes.set_ylabel("EI (highest = 1)")
        plots.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        return save(figure, "f1", caption, numbers, out_dir)


def _points(name: str, run: pd.DataFrame) -> pd.DataFrame:
    """The points of each panel: fronts `now` and `before`, alphas that choose a point; iterations count from 1."""
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


def _panel(axes: Axes, points: pd.DataFrame, title: str) -> None:
    now, before = points[points["front"] == "now"], points[points["front"] == "before"]
    axes.plot(before["x"], before["y"], "--", color="0.55", linewidth=1.0, label="front at t - 1")
    axes.plot(now["x"], now["y"], ".", color=BLUE, markersize=5, label="front at t")
    best = now[now["alphas"] != ""]
    axes.plot(best["x"], best["y"], "s", color=RED, markersize=6, fillstyle="none", label="maximisers of EI$^\\alpha$")
    for k, (x, y, alphas) in enumerate(best[["x", "y", "alphas"]].itertuples(index=False)):
        values = alphas.split()
        text = values[0] if len(values) == 1 else f"{values[0]} to {values[-1]}"
        below = k % 2 == 0  # neighbours' labels on either side
        axes.annotate(text, (x, y), xytext=(0, -8 if below else 7), textcoords="offset points", ha="center",
                      va="top" if below else "bottom", fontsize=7, color=RED)  # fmt: skip
    finish(axes, title)

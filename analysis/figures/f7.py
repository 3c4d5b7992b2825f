"""F7: where the points of the EI-cost front at t - 1 lie at t (STUDY: F7)."""

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from analysis.bootstrap import bootstrap
from analysis.front_panels import chosen, described, finish, place, steps
from analysis.fronts import persistence, reference
from analysis.markdown import interval
from analysis.plotting import BLUE, GREEN, RED, Drawn, drawn_from, new_figure, save, style
from analysis.scope import intervals, of_study, scope, sentence

DATASETS = ("a1a", "a3a", "splice")
SHARE = (0.4,)  # of a run's proposals: the iteration drawn


@drawn_from("fronts")
def draw(fronts: pd.DataFrame, out_dir: Path) -> Drawn:
    """Draw F7 from `read_fronts`; raises BadInput without two fronts of EI in a row."""
    runs = chosen(fronts, DATASETS, "F7")
    numbers = pd.concat([_points(name, run) for name, run in runs.items()], ignore_index=True)
    caption = sentence(
        "F7. The points of the EI-cost Pareto front at t - 1, at what the refitted models say of them at t: those",
        "that are on the front of the same candidates again (filled) and those that are not (crosses), beside the",
        "front at t (line); EI relative to the highest at t. The candidate evaluated in between is left out.",
        described(runs, DATASETS),
        _shares(fronts),
    )
    with style():
        figure, plots = new_figure(3.5 * max(len(runs), 2), 3.3, caption)
        grid = plots.subplots(1, len(runs), squeeze=False)[0]
        for axes, (key, points) in zip(grid, numbers.groupby(["dataset", "iteration"], sort=False), strict=True):
            _panel(axes, points, f"{key[0]}, t = {key[1]}")
        grid[0].set_ylabel("EI (highest at t = 1)")
        plots.legend(*grid[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        return save(figure, "f7", caption, numbers, out_dir)


def _points(name: str, run: pd.DataFrame) -> pd.DataFrame:
    step = steps(run, SHARE)[0]
    now, before = run[run["step"] == step], run[run["step"] == step - 1]
    before = before[before["stays"].notna()]
    top = float(now["log_ei"].max())
    parts = [place(now, top).assign(what="front at t"), place(before, top, "then_")]
    points = pd.concat(parts).assign(dataset=name, iteration=step + 1)
    kept = points["stays"].map({True: "on the front at t - 1 and at t", False: "on the front at t - 1 only"})
    points["what"] = points["what"].fillna(kept)
    return points[["dataset", "iteration", "what", "candidate", "x", "y"]]


def _panel(axes: Axes, points: pd.DataFrame, title: str) -> None:
    now = points[points["what"] == "front at t"]
    axes.plot(now["x"], now["y"], "-", color=BLUE, linewidth=1.0, label="front at t")
    for what, mark, colour in (("at t - 1 and at t", "o", GREEN), ("at t - 1 only", "x", RED)):
        part = points[points["what"] == f"on the front {what}"]
        axes.plot(part["x"], part["y"], mark, color=colour, markersize=4.5, label=f"on the front {what}")
    finish(axes, title)


def _shares(fronts: pd.DataFrame) -> str:
    """Return the sentence on how many points stay, over all recorded steps and runs of EI on the study's problems."""
    own = reference(fronts)
    shares = of_study(persistence(own))
    value, low, high = bootstrap((100 * shares).to_frame())[["value", "low", "high"]].to_numpy(float)[0]
    cells = shares.index.to_frame(index=False)
    return (
        f"Over all steps of all runs of EI recorded, {interval(value, low, high)} % of the points stay on the front; "
        f"{scope(cells, str(own['evaluator'].iloc[0]))}. {intervals(cells)}"
    )

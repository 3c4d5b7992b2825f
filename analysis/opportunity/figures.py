"""Pictures of the experiments: where on Branin-Hoo each method evaluates, and the best error against time."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, NullLocator

from analysis.opportunity.branin import DEADLINE_S, MINIMUM, branin, seconds
from analysis.opportunity.timed import Timed
from analysis.plotting import BLACK, BLUE, ORANGE, RED, Drawn, new_figure, save, style
from analysis.scope import plural

COLOURS = {"EI": BLACK, "EI/s": ORANGE, "MCMS": BLUE}
_TIMES = 240
_MINIMA = ((12.275, -np.pi), (2.275, np.pi), (2.475, 9.42478))


def draw_branin(found: Mapping[str, Sequence[Timed]], out_dir: Path) -> Drawn:
    """Draw `opportunity_branin`: the first seed's sequences on the function, and all seeds' regret against time."""
    caption = (
        f"Branin-Hoo with a deadline of {DEADLINE_S:g} s: an evaluation takes 10 s in the shaded half and 1 s in the "
        "other. Left: the evaluations of the first seed that end in time, numbered in their order, on contours of the "
        "function; crosses: its minima. Right: lowest value found so far above the minimum, mean and standard error "
        f"over {plural(len(next(iter(found.values()))), 'seed')}, from when every run has a value."
    )
    numbers = curves(found, DEADLINE_S)
    with style():
        figure, plots = new_figure(13.0, 3.6, caption)
        panels = plots.subplots(1, len(found) + 1)
        for ax, (method, runs) in zip(panels, found.items(), strict=False):
            _sequence(ax, method, runs[0])
        panels[0].set_ylabel("x2")
        _curves(panels[-1], numbers.assign(value=numbers["value"] - MINIMUM))
        panels[-1].set(yscale="log", xlabel="seconds", ylabel="lowest value found - minimum")
        panels[-1].legend(fontsize=8)
        return save(figure, "opportunity_branin", caption, numbers, out_dir)


def _sequence(ax: Axes, method: str, one: Timed) -> None:
    x1, x2 = np.meshgrid(np.linspace(0, 15, 200), np.linspace(-5, 10, 200))
    points = np.stack([x1, x2], axis=-1).reshape(-1, 2)
    value, dear = branin(points).reshape(x1.shape), seconds(points).reshape(x1.shape)
    ax.contourf(x1, x2, dear, levels=[5, 15], colors=["0.92"])
    ax.contour(x1, x2, np.log10(value - MINIMUM + 1.0), levels=8, cmap="viridis", linewidths=0.6)
    ax.plot(*np.transpose(_MINIMA), "x", color=RED, markersize=7)
    X = one.X[: one.done]
    ax.plot(X[:, 0], X[:, 1], "o", color=COLOURS[method], markersize=3)
    for k, (a, b) in enumerate(X):
        ax.annotate(f"{k + 1}", (a, b), xytext=(2, 2), textcoords="offset points", fontsize=6.5, color=COLOURS[method])
    ax.set(xlim=(-0.3, 15.3), ylim=(-5.3, 10.3), xlabel="x1")
    ax.set_title(f"{method}: {one.done} evaluations", fontsize=9)
    ax.grid(visible=False)


def draw_learners(
    part: str, found: Mapping[str, Mapping[str, Sequence[Timed]]], deadlines: Mapping[str, float], out_dir: Path
) -> Drawn:
    """Draw `opportunity_<part>`: error on the held-out half against time, one panel per data set."""
    seeds = max(len(runs) for methods in found.values() for runs in methods.values())
    caption = (
        "Lowest error found so far on the held-out half, which is what is minimised, against the CPU seconds of "
        f"training, up to the deadline; mean and standard error over {plural(seeds, 'split')}, from when every run has "
        "a value."
    )
    numbers = pd.concat([curves(runs, deadlines[name]).assign(dataset=name) for name, runs in found.items()])
    with style():
        figure, plots = new_figure(3.4 * max(2, len(found)), 3.2, caption)
        panels = plots.subplots(1, len(found), squeeze=False)[0]
        for ax, name in zip(panels, found, strict=True):
            _curves(ax, numbers[numbers["dataset"] == name])
            ax.set(xlabel="seconds", yscale="log")
            ax.yaxis.set(major_locator=MaxNLocator(6), major_formatter="{x:g}", minor_locator=NullLocator())
            ax.set_title(name, fontsize=9)
        panels[0].set_ylabel("error on the held-out half (%)")
        panels[-1].legend(fontsize=8)
        return save(figure, f"opportunity_{part}", caption, numbers, out_dir)


def curves(found: Mapping[str, Sequence[Timed]], deadline_s: float) -> pd.DataFrame:
    """Return method, seconds, value (mean over the runs of the best so far), error (its standard error; 0 for one)."""
    at, parts = np.linspace(0.0, deadline_s, _TIMES + 1), []
    for method, runs in found.items():
        best = np.array([one.best_at(at) for one in runs])
        spread = best.std(axis=0, ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else np.zeros(len(at))
        parts.append(
            pd.DataFrame({"method": method, "seconds": at, "value": best.mean(axis=0), "error": spread}).dropna()
        )
    return pd.concat(parts, ignore_index=True)


def _curves(ax: Axes, numbers: pd.DataFrame) -> None:
    for method, rows in numbers.groupby("method", sort=False):
        colour = COLOURS[str(method)]
        ax.step(rows["seconds"], rows["value"], where="post", color=colour, linewidth=1.3, label=str(method))
        low, high = rows["value"] - rows["error"], rows["value"] + rows["error"]
        ax.fill_between(rows["seconds"], low, high, step="post", color=colour, alpha=0.15, linewidth=0)

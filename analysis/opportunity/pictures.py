"""What looking ahead means, on a line: the AutoML lecture's pictures of KG and entropy search, for the docs."""

from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure

from analysis.plotting import BLACK, BLUE, GREEN, ORANGE, RED, Drawn, new_figure, save, style
from harness.acquisitions.envelope import log_expected_gain
from harness.acquisitions.es import p_min
from harness.streams import stream
from harness.surrogates.gp import GaussianProcess
from harness.surrogates.joint import Joint

X = np.array([[0.08], [0.3], [0.42], [0.66], [0.93]])
GRID = np.linspace(0.0, 1.0, 81)[:, None]
ASKED = (20, 44, 62)  # of the grid, where an observation is looked ahead to
_OUTCOMES, _DRAWS = (-1.5, 0.0, 1.5), 20_000


def objective(x: np.ndarray) -> np.ndarray:
    """Return the function behind the pictures, sin 9x + x."""
    return np.sin(9.0 * x[:, 0]) + x[:, 0]


def look_ahead() -> tuple[Joint, pd.DataFrame]:
    """Return the joint posterior on the grid, and per grid point mean, sd, KG, and the share of draws lowest there."""
    process = GaussianProcess()
    joint = process.fit(X, objective(X)).joint(GRID)
    variance = np.maximum(joint.covariance.diagonal(), 0.0)
    slope = joint.covariance / np.sqrt(variance + joint.noise)[:, None]
    gain = log_expected_gain(-joint.mean, -slope, -joint.mean, -slope.diagonal())
    draws = joint.draw(stream(0, "pictures").standard_normal((_DRAWS, len(GRID))))
    return joint, pd.DataFrame(
        {"x": GRID[:, 0], "mean": joint.mean, "sd": np.sqrt(variance), "kg": np.exp(gain), "p_min": p_min(draws)}
    )


def draw(out_dir: Path) -> Drawn:
    """Write the figure `lookahead` to `out_dir`."""
    joint, numbers = look_ahead()
    caption = (
        "Looking ahead on a line, five evaluations (dots). Top: posterior mean (black, band: 2 sd), and the mean after "
        "an observation at each of three candidates, 1.5 sd below, at, and 1.5 sd above its mean. Bottom left: the "
        "knowledge gradient, by how much the lowest mean is expected to fall. Bottom right: draws of the function with "
        f"their minima, and how often each point is the lowest (p_min, {_DRAWS:,} draws), whose entropy ES lowers."
    )
    with style():
        figure, plots = new_figure(8.0, 4.6, caption)
        top, bottom = cast(np.ndarray, plots.subfigures(2, 1))
        _surrogates(top, joint, numbers)
        left, right = bottom.subplots(1, 2)
        left.plot(numbers["x"], numbers["kg"], color=GREEN)
        left.set(xlabel="x", ylabel="KG: expected fall of min mean")
        _minima(right, joint, numbers)
        return save(figure, "lookahead", caption, numbers, out_dir)


def _surrogates(part: SubFigure, joint: Joint, numbers: pd.DataFrame) -> None:
    panels = part.subplots(1, len(ASKED), sharey=True)
    for ax, i in zip(panels, ASKED, strict=True):
        ax.fill_between(
            numbers["x"], numbers["mean"] - 2 * numbers["sd"], numbers["mean"] + 2 * numbers["sd"], color="0.9"
        )
        ax.plot(numbers["x"], numbers["mean"], color=BLACK, linewidth=1.0)
        ax.plot(X[:, 0], objective(X), "o", color=BLACK, markersize=3)
        for z, colour in zip(_OUTCOMES, (BLUE, GREEN, ORANGE), strict=True):
            y = float(joint.mean[i] + z * np.sqrt(joint.covariance[i, i]))
            after = joint.condition(i, y).mean
            ax.plot(numbers["x"], after, color=colour, linewidth=1.0)
            ax.plot(numbers["x"][i], y, "D", color=colour, markersize=3)
            ax.axhline(after.min(), color=colour, linewidth=0.6, linestyle=":")
        ax.set(xlabel="x", title=f"observing x = {GRID[i, 0]:.2f}")
    panels[0].set_ylabel("error")


def _minima(ax: Axes, joint: Joint, numbers: pd.DataFrame) -> None:
    for one in joint.draw(stream(1, "pictures").standard_normal((12, len(GRID)))):
        ax.plot(numbers["x"], one, color="0.8", linewidth=0.6)
        ax.plot(numbers["x"][one.argmin()], one.min(), ".", color=RED, markersize=5)
    ax.set(xlabel="x", ylabel="draws of the function")
    other = ax.twinx()
    other.grid(visible=False)
    other.bar(numbers["x"], numbers["p_min"], width=1 / 80, color=BLUE, alpha=0.5)
    other.set(ylabel="p_min", ylim=(0, 3 * numbers["p_min"].max()))

"""What looking ahead means, on a line: the AutoML lecture's pictures of KG and entropy search (README.md explains)."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.special import entr

from analysis.plotting import BLACK, BLUE, GREEN, ORANGE, RED, Drawn, new_figure, save, style
from harness.acquisitions.ei import log_ei
from harness.acquisitions.entropy import information, p_min
from harness.acquisitions.kg import log_expected_gain
from harness.streams import stream
from harness.surrogates import Joint
from harness.surrogates.gp import GaussianProcess

X = np.array([[0.08], [0.3], [0.42], [0.66], [0.93]])
GRID = np.linspace(0.0, 1.0, 81)[:, None]
ASKED = (20, 44, 62)  # of the grid, where an observation is looked ahead to
_OUTCOMES, _DRAWS = (-1.5, 1.5), 20_000


def objective(x: np.ndarray) -> np.ndarray:
    """Return the function behind the pictures, sin 9x + x."""
    return np.sin(9.0 * x[:, 0]) + x[:, 0]


def look_ahead() -> tuple[Joint, pd.DataFrame]:
    """Return the joint posterior on the grid, and per point mean, sd, EI, KG, ES and p_min."""
    observed = objective(X)
    posterior = GaussianProcess().fit(X, observed)
    joint = posterior.joint(GRID)
    variance = np.maximum(joint.covariance.diagonal(), 0.0)
    slope = joint.covariance / np.sqrt(variance + joint.noise)[:, None]
    gain = log_expected_gain(-joint.mean, -slope, -joint.mean, -slope.diagonal())
    draws = joint.draw(stream(0, "pictures").standard_normal((_DRAWS, len(GRID))))
    normals = stream(3, "pictures").standard_normal((_DRAWS, len(GRID) + 1))
    return joint, pd.DataFrame({
        "x": GRID[:, 0], "mean": joint.mean, "sd": np.sqrt(variance),
        "ei": np.exp(log_ei(observed.min() - joint.mean, np.sqrt(variance))), "kg": np.exp(gain),
        "es": information(posterior, GRID, GRID, normals, outcomes=9), "p_min": p_min(draws),
    })  # fmt: skip


def draw_pictures(out_dir: Path) -> Drawn:
    """Write the figure `lookahead` to `out_dir`."""
    joint, numbers = look_ahead()
    caption = (
        "Looking ahead on a line, five evaluations (dots). Top: posterior mean (black, band: 2 sd), and the mean after "
        f"an observation (diamond) at each of three candidates, {_OUTCOMES[1]:g} sd below and above its mean; dotted: "
        "the lowest mean before and after, whose difference, averaged over observations, is KG. Bottom left: EI, by "
        "how much an evaluation is expected to be below the lowest so far; KG, by how much the lowest mean is expected "
        "to fall; ES, by how much the entropy H of the minimiser's place is; circles: the three candidates. Bottom "
        "middle: draws of the function with their minima. Bottom right: how often each point is the lowest (p_min, "
        f"{_DRAWS:,} draws) now and after an observation at x = {GRID[ASKED[1], 0]:.2f}, {_OUTCOMES[1]:g} sd below its "
        "mean."
    )
    with style():
        figure, plots = new_figure(9.5, 5.4, caption)
        panels = plots.subplots(2, 3, sharex=True)
        _draw_surrogates(panels[0], joint, numbers)
        _draw_worth(panels[1, 0], numbers)
        _draw_minima(panels[1, 1], joint, numbers)
        _draw_lowest(panels[1, 2], joint, numbers)
        for ax in panels[1]:
            ax.set(xlabel="x")
        return save(figure, "lookahead", caption, numbers, out_dir)


def _draw_surrogates(panels: np.ndarray, joint: Joint, numbers: pd.DataFrame) -> None:
    for ax, i in zip(panels, ASKED, strict=True):
        mean, sd = numbers["mean"], numbers["sd"]
        ax.fill_between(numbers["x"], mean - 2 * sd, mean + 2 * sd, color="0.9")
        ax.plot(numbers["x"], numbers["mean"], color=BLACK, linewidth=1.2)
        ax.axhline(numbers["mean"].min(), color=BLACK, linewidth=0.8, linestyle=":")
        for z, colour in zip(_OUTCOMES, (BLUE, ORANGE), strict=True):
            y = float(joint.mean[i] + z * np.sqrt(joint.covariance[i, i]))
            after = joint.condition(i, y).mean
            ax.plot(numbers["x"], after, color=colour, linewidth=1.0)
            ax.plot(numbers["x"][i], y, "D", color=colour, markersize=4)
            ax.axhline(after.min(), color=colour, linewidth=0.8, linestyle=":")
        ax.plot(X[:, 0], objective(X), "o", color=BLACK, markersize=3.5)
        ax.set_title(f"x = {GRID[i, 0]:.2f}: KG {numbers['kg'][i]:.3f}, ES {numbers['es'][i]:.2f}", fontsize=9)
        ax.sharey(panels[0])
    panels[0].set_ylabel("error")


def _draw_worth(ax: Axes, numbers: pd.DataFrame) -> None:
    beside, asked = ax.twinx(), list(ASKED)
    for axis, name, colour, line in ((ax, "ei", BLACK, "--"), (ax, "kg", GREEN, "-"), (beside, "es", RED, "-")):
        axis.plot(numbers["x"], numbers[name], color=colour, linestyle=line, linewidth=1.2, label=name.upper())
        axis.plot(numbers["x"][asked], numbers[name][asked], "o", color=colour, markersize=4.5)
    ax.locator_params(axis="y", nbins=4)
    ax.set(ylabel="EI, KG (error)", ylim=(0, 1.3 * numbers[["ei", "kg"]].to_numpy().max()))
    beside.set(ylabel="ES (nats)", ylim=(0, 1.3 * numbers["es"].max()))
    beside.grid(visible=False)
    beside.spines["right"].set_visible(True)
    handles = [*ax.get_legend_handles_labels()[0], *beside.get_legend_handles_labels()[0]]
    ax.legend(handles=handles, fontsize=8, ncols=3, loc="upper center")


def _draw_minima(ax: Axes, joint: Joint, numbers: pd.DataFrame) -> None:
    for one in joint.draw(stream(1, "pictures").standard_normal((12, len(GRID)))):
        ax.plot(numbers["x"], one, color="0.75", linewidth=0.7)
        ax.plot(numbers["x"][one.argmin()], one.min(), "o", color=RED, markersize=4, zorder=3)
    ax.plot(X[:, 0], objective(X), "o", color=BLACK, markersize=3.5, zorder=3)
    ax.set(ylabel="draws of the function")


def _draw_lowest(ax: Axes, joint: Joint, numbers: pd.DataFrame) -> None:
    i, z = ASKED[1], _OUTCOMES[0]
    after = joint.condition(i, float(joint.mean[i] + z * np.sqrt(joint.covariance[i, i])))
    later = p_min(after.draw(stream(2, "pictures").standard_normal((_DRAWS, len(GRID)))))
    now = numbers["p_min"].to_numpy()
    ax.bar(numbers["x"], now, width=1 / 80, color=BLUE, alpha=0.55, label=f"now, H = {entr(now).sum():.2f}")
    ax.step(numbers["x"], later, where="mid", color=ORANGE, linewidth=1.2, label=f"after, H = {entr(later).sum():.2f}")
    ax.set(ylabel="p_min: share of draws lowest here")
    ax.legend(fontsize=8)

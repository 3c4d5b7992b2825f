"""C1: a forest on capped evaluations before and after a step of Bayesian optimization, in one dimension.

Source: Hutter, Hoos and Leyton-Brown 2013, figure 1, with another function.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float
from scipy.stats import qmc

from analysis.captions import sentence
from analysis.plotting import BLUE, GREEN, ORANGE, RED, Drawn, new_figure, save, style
from harness.acquisitions.ei import log_ei
from harness.problem import threshold
from harness.streams import seed_sequence
from harness.surrogates.forest import CensoredForest, RandomForest

SLACK, START, KAPPA_MAX, TREES, SEED = 1.2, 8, 3.0, 1000, 0
GRID = np.linspace(0.0, 1.0, 801)


def cost(x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return the runtime to be minimised: two valleys, the lower one narrow, between costly points."""
    return np.asarray(1.7 - 1.2 * np.exp(-(((x - 0.68) / 0.09) ** 2)) - 0.75 * np.exp(-(((x - 0.22) / 0.13) ** 2)))


@dataclass(frozen=True)
class State:
    """What is known at a step: points, costs as observed, which are bounds; the model and EI on GRID."""

    x: Float[np.ndarray, " n"]
    y: Float[np.ndarray, " n"]
    censored: Bool[np.ndarray, " n"]
    mean: Float[np.ndarray, " g"]
    sd: Float[np.ndarray, " g"]
    ei: Float[np.ndarray, " g"]


def state(x: list[float]) -> State:
    """Evaluate `x` in that order, each stopped at SLACK times the best so far, and fit the forest (Algorithm 1)."""
    true, best, y = cost(np.array(x)), None, np.empty(len(x))
    for k, value in enumerate(true):
        y[k] = min(value, threshold(SLACK, best, KAPPA_MAX))
        best = float(y[: k + 1].min())
    censored = y < true
    forest = CensoredForest(RandomForest(trees=TREES, seed=SEED))
    mean, sd = forest.fit(np.array(x)[:, None], y, censored, KAPPA_MAX).posterior.mean_sd(GRID[:, None])
    return State(np.array(x), y, censored, mean, sd, np.exp(log_ei(y[~censored].min() - mean, sd)))


def steps() -> tuple[State, State]:
    """Return the states after a Latin hypercube design and after the point of highest EI."""
    rng = np.random.Generator(np.random.PCG64(seed_sequence(SEED, "censored example")))
    x = qmc.LatinHypercube(1, rng=rng).random(START)[:, 0].tolist()
    before = state(x)
    return before, state([*x, float(GRID[np.argmax(before.ei)])])


def draw(out_dir: Path) -> Drawn:
    """Draw the two states: costs known and capped, mean and band of one sd either way, and EI below."""
    both = steps()
    known, capped = int((~both[0].censored).sum()), int(both[0].censored.sum())
    caption = sentence(
        f"C1. Minimising a runtime on [0, 1] whose evaluations are stopped at {SLACK:g} times the best so far. Left:",
        f"after a Latin hypercube design of {START} points ({known} known, {capped} stopped); right: one step later,",
        f"at the point of highest EI. Mean and band (one sd either way) over {TREES:,} trees by Algorithm 1 of",
        "Hutter et al. 2013: at a stopped point (cross) the mean lies above the bound, and the band does not close.",
        "Dashed below: EI; dotted: where it is highest. After the paper's figure 1, with another function.",
    )
    numbers = []
    with style():
        figure, plots = new_figure(9.6, 4.4, caption)
        axes: Any = plots.subplots(2, 2, sharex=True, sharey="row", height_ratios=(3, 1))
        for column, one in enumerate(both):
            _model(axes[0, column], one, newest=column == 1)
            chosen = GRID[np.argmax(one.ei)]
            axes[1, column].plot(GRID, one.ei, color=GREEN, linestyle="--")
            axes[1, column].axvline(chosen, color=GREEN, linestyle=":", linewidth=1)
            axes[1, column].set_xlabel("x")
            title = "before the step" if column == 0 else "after the step"
            axes[0, column].set_title(title, fontsize=10)
            columns = {"x": GRID, "cost": cost(GRID), "mean": one.mean, "sd": one.sd, "ei": one.ei}
            numbers.append(pd.DataFrame({"step": title, **columns}))
        axes[0, 0].set_ylabel("runtime")
        axes[1, 0].set_ylabel("EI")
        axes[0, 0].legend(fontsize=7.5, loc="lower left", bbox_to_anchor=(0.28, 0.02))
        return save(figure, "c1", caption, pd.concat(numbers), out_dir)


def _model(axis: Any, one: State, newest: bool) -> None:
    axis.plot(GRID, cost(GRID), color="0.45", linestyle="--", linewidth=1, label="true runtime")
    axis.fill_between(GRID, one.mean - one.sd, one.mean + one.sd, color=BLUE, alpha=0.2, linewidth=0)
    axis.plot(GRID, one.mean, color=BLUE, label="mean, band: one sd")
    axis.plot(one.x[~one.censored], one.y[~one.censored], "o", color=RED, markersize=6, label="known")
    axis.plot(one.x[one.censored], one.y[one.censored], "x", color=ORANGE, markersize=7, markeredgewidth=2,
              label="stopped (bound)")  # fmt: skip
    if newest:
        axis.plot(one.x[-1:], one.y[-1:], "o", markersize=12, fillstyle="none", color="black", label="new")
        axis.annotate("new", (one.x[-1], one.y[-1]), textcoords="offset points", xytext=(9, -11), fontsize=8)
    axis.set_ylim(bottom=0)

"""The picture of one data set's runs: error against cost, progress over time, and EI against predicted cost."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.incumbent import front, incumbents, spent
from analysis.plotting import BLACK, BLUE, ORANGE, RED, Drawn, new_figure, save, style
from analysis.scope import plural, sentence

_RUN = ["pipeline", "spec", "seed"]
_COLUMNS = ["pipeline", "method", "seed", "step", "cost_s", "error", "test_error", "predicted_cost_s", "log_ei"]
_FLOOR = 1e-6  # of the utility, as a share of the highest: what is lower is drawn there


def draw(frame: pd.DataFrame, found: Mapping[str, Any], folder: Path) -> Drawn:
    """Draw best.png and best.svg: frame, one data set's evaluations; found: its best (`analysis.best.best`)."""
    good = frame[frame["error"].notna()].reset_index(drop=True)
    proposed = frame[frame["log_ei"].notna()].reset_index(drop=True)
    caption = _caption(frame, proposed, found)
    with style():
        figure, plots = new_figure(11.0, 3.8, caption)
        left, middle, right = plots.subplots(1, 3)
        _trade_off(left, good, found)
        _progress(middle, frame, found)
        _choices(right, proposed)
        plots.suptitle(f"{found['dataset']}: {found['metric']} and training time", fontsize=10)
        return save(figure, "best", caption, frame[_COLUMNS], folder)


def _trade_off(axes: Axes, good: pd.DataFrame, found: Mapping[str, Any]) -> None:
    cost, error = good["cost_s"].to_numpy(), good["error"].to_numpy()
    rows = front(cost, error)
    axes.plot(cost, error, ".", color=BLUE, alpha=0.55, label="evaluation")
    axes.step(cost[rows], error[rows], where="post", color=ORANGE, linewidth=1.3, label="front")
    axes.plot(found["training_cpu_s"], found["validation_error"], "*", color=RED, markersize=11, label="best")
    axes.set_xscale("log")
    axes.set_xlabel("cost of the training (CPU s)")
    axes.set_ylabel(f"validation error ({found['metric']})")
    axes.legend(fontsize=7.5)


def _progress(axes: Axes, frame: pd.DataFrame, found: Mapping[str, Any]) -> None:
    for _, run in frame.sort_values("step", kind="stable").groupby(_RUN, sort=False, observed=True):
        time = spent(run["cost_s"].to_numpy()[None])[0]
        axes.step(time, incumbents(run["error"].to_numpy()[None])[0], where="post", color=BLUE, alpha=0.7)
    axes.axhline(found["validation_error"], color=RED, linewidth=0.8, zorder=0)
    axes.set_xlabel("time spent on trainings (CPU s)")
    axes.set_ylabel("best validation error so far")


def _choices(axes: Axes, proposed: pd.DataFrame) -> None:
    """Utility and predicted cost of what was chosen, from dark (first) to light (last)."""
    if proposed.empty:
        axes.text(0.5, 0.5, "initial design only:\nnothing was chosen", ha="center", transform=axes.transAxes)
        axes.set_axis_off()
        return
    log_ei = proposed["log_ei"].to_numpy()
    highest = log_ei.max() if np.isfinite(log_ei.max()) else 0.0
    shown = np.exp(np.maximum(log_ei, highest + np.log(_FLOOR)))
    dots = axes.scatter(proposed["predicted_cost_s"], shown, c=proposed["step"] + 1, cmap="viridis", s=14)
    axes.set(xscale="log", yscale="log", xlabel="predicted cost of the choice (s)", ylabel=f"its {_utility(proposed)}")
    bar = axes.figure.colorbar(dots, ax=axes, label="evaluation")
    bar.outline.set_edgecolor(BLACK)  # type: ignore[operator]


def _utility(proposed: pd.DataFrame) -> str:
    """Return what the choices were scored by, in words."""
    names = {str(name) for name in proposed["utility"]}
    return "expected improvement" if names <= {"ei", "logei"} else f"utility ({', '.join(sorted(names))})"


def _caption(frame: pd.DataFrame, proposed: pd.DataFrame, found: Mapping[str, Any]) -> str:
    runs = len(frame[_RUN].drop_duplicates())
    below = 0
    if len(proposed):
        log_ei = proposed["log_ei"].to_numpy()
        below = int((log_ei < log_ei.max() + np.log(_FLOOR)).sum())
    utility = _utility(proposed)
    return sentence(
        f"{found['dataset']}, {plural(runs, 'run')}, {plural(len(frame), 'evaluation')}, {found['failed']} of which",
        "failed and are left out on the left. Left: cost and validation error of every training, the front of those",
        "that none beats in both, and the best. Middle: best error so far against training time spent, a line per run.",
        f"Right: {utility} and predicted cost of each choice; the initial design was not chosen.",
        f"{plural(below, 'choice')} whose {utility} is below a millionth of the highest lie on the lower edge."
        if below else "",
    )  # fmt: skip

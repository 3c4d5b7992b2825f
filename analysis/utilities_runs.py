"""Runs of utilities under cost rules as arrays: what each found, what it paid and how long the optimizer thought.

Notation: R runs, T steps of the longest; padding is NaN.
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from jaxtyping import Float

from analysis.traces import CELL

REFERENCE = "ei x ei"


@dataclass(frozen=True)
class Runs:
    """table: one row per run: dataset, pipeline, seed, utility, rule, label, tau, iterations, evaluations, ms_per_step.

    curve: the best error so far, by `judge`; cost_s: training seconds; thinking_s: the optimizer's own before the step.
    evaluator: of all runs. ms_per_step: median over the run's proposals.
    """

    table: pd.DataFrame
    curve: Float[np.ndarray, "R T"]
    cost_s: Float[np.ndarray, "R T"]
    thinking_s: Float[np.ndarray, "R T"]
    evaluator: str

    def select(self, rows: np.ndarray) -> "Runs":
        """Return the runs at `rows` (positions, or a mask)."""
        arrays = (self.curve[rows], self.cost_s[rows], self.thinking_s[rows])
        return Runs(self.table.iloc[rows].reset_index(drop=True), *arrays, self.evaluator)

    def cut(self, kept: np.ndarray) -> "Runs":
        """Return the runs with `kept` (R,) first steps of each; `ms_per_step` of these, NaN without a proposal."""
        beyond = np.arange(self.curve.shape[1]) >= kept[:, None]
        curve, cost, thinking = (np.where(beyond, np.nan, a) for a in (self.curve, self.cost_s, self.thinking_s))
        proposed = pd.DataFrame(thinking).where(thinking > 0)
        table = self.table.assign(evaluations=kept, ms_per_step=1e3 * proposed.median(axis=1).to_numpy())
        return Runs(table, curve, cost, thinking, self.evaluator)

    @property
    def training_s(self) -> Float[np.ndarray, " R"]:
        """Training seconds of each run."""
        return np.asarray(np.nansum(self.cost_s, axis=1))

    @property
    def thought_s(self) -> Float[np.ndarray, " R"]:
        """Seconds that the optimizer took in each run."""
        return np.asarray(np.nansum(self.thinking_s, axis=1))

    @property
    def final(self) -> Float[np.ndarray, " R"]:
        """The best error of each run; NaN where nothing succeeded."""
        last = np.maximum(self.table["evaluations"].to_numpy(int) - 1, 0)[:, None]
        found = np.take_along_axis(self.curve, last, axis=1)[:, 0]
        return np.where(self.table["evaluations"] > 0, found, np.nan)

    def wide(self, values: np.ndarray) -> pd.DataFrame:
        """Return `values` of the runs as cells x methods; NaN where a cell lacks the method."""
        return self.table.assign(value=values).pivot(index=CELL, columns="label", values="value")


def thinking_counted(runs: Runs) -> Runs:
    """Return the same runs with the optimizer's own seconds added to those of training."""
    return replace(runs, cost_s=runs.cost_s + runs.thinking_s)

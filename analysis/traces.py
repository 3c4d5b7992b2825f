"""Recorded runs as dense arrays: one row per run, one column per step.

Notation: R runs, T steps of the longest run (0-based, initial design included); shorter runs are padded
with NaN on the right.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from analysis import REFERENCE, methods
from analysis.components import choose
from analysis.incumbent import incumbents, of_the_best
from analysis.mixing import check_same_origin
from datasets.errors import BadInput

PROBLEM = ["dataset", "pipeline"]
CELL = [*PROBLEM, "seed"]
RUN = [*PROBLEM, "acq", "lam", "alpha", "tau", "method", "iterations", "seed"]
ARRAYS = ["error", "test_error", "cost_s", "effective_alpha", "predicted_cost_s"]
Judge = Literal["validation", "test"]
_KEPT = ("error", "test_error", "cost_s", "effective_alpha", "proposed")
STUDY_ITERATIONS = 100


@dataclass(frozen=True)
class Traces:
    """Runs of one choice of components.

    runs: keys (`RUN`, acq as `methods.families`), `evaluations` and `plans` (`methods.plans`), 0 .. R-1.

    error, test_error: NaN for a failed evaluation and as padding. cost_s: seconds, NaN as padding.
    effective_alpha: NaN where none exists. proposed: steps that the optimizer chose (no initial design).
    components: the choice, by kind. judge: which error of the chosen configurations counts.
    """

    runs: pd.DataFrame
    error: Float[np.ndarray, "R T"]
    test_error: Float[np.ndarray, "R T"]
    cost_s: Float[np.ndarray, "R T"]
    effective_alpha: Float[np.ndarray, "R T"]
    proposed: Bool[np.ndarray, "R T"]
    components: dict[str, str]
    judge: Judge = "validation"

    @property
    def incumbent(self) -> Float[np.ndarray, "R T"]:
        """The error, by `judge`, of each run's best configuration so far; best is by validation error."""
        if self.judge == "test":
            return of_the_best(self.error, self.test_error)
        return incumbents(self.error)

    @property
    def evaluator(self) -> str:
        """The evaluator of these runs, such as ``replay``."""
        return self.components["evaluator"]

    def select(self, rows: np.ndarray) -> "Traces":
        """Return the runs at `rows` (positions, or a mask over the runs)."""
        arrays = {k: getattr(self, k)[rows] for k in _KEPT}
        return replace(self, runs=self.runs.iloc[rows].reset_index(drop=True), **arrays)

    def first(self, steps: int) -> "Traces":
        """Return the same runs cut after `steps` steps."""
        arrays = {k: getattr(self, k)[:, :steps] for k in _KEPT}
        runs = self.runs.assign(evaluations=self.runs["evaluations"].clip(upper=steps))
        return replace(self, runs=runs, **arrays)


def collect(
    frame: pd.DataFrame,
    wanted: Mapping[str, str] | None = None,
    judge: Judge = "validation",
    mixed: bool = False,
) -> Traces:
    """Arrange a frame of evaluations (`harness.records.read_traces`) as `Traces`.

    `wanted`: components whose runs to take (see `components.choose`), such as ``{"evaluator": "live"}``. `judge`: the
    error of the configurations chosen that counts, ``validation`` or ``test``. `mixed`: whether runs of different
    tables or engines are meant to stand together.
    Raises BadInput: nothing there, a column missing, components without runs, runs mixed without saying so, a run
    recorded twice, or a trace with steps missing.
    """
    missing = [c for c in [*RUN, *ARRAYS, *REFERENCE, "step", "spec"] if c not in frame.columns]
    if missing:
        raise BadInput(f"the records lack the column(s) {', '.join(missing)}")
    if frame.empty:
        raise BadInput("the records hold no evaluation: run a study first (python -m harness)")
    frame, chosen = choose(frame, wanted or {})
    if not mixed:
        check_same_origin(frame)
    keys = frame.groupby(RUN, dropna=False, observed=True, sort=True)
    run, step = keys.ngroup().to_numpy(), frame["step"].to_numpy(dtype=np.int64)
    first = pd.Series(run).drop_duplicates()
    if "plans_ahead" not in frame:  # a frame of somebody's own making
        frame = frame.assign(plans_ahead=True)
    runs = (
        frame.iloc[first.index][[*RUN, "spec", "plans_ahead"]].iloc[np.argsort(first.to_numpy())].reset_index(drop=True)
    )
    counts = np.bincount(run)
    _check_steps(frame, run, step, counts)
    dense = {}
    for name in ARRAYS:
        dense[name] = np.full((len(counts), counts.max()), np.nan)
        dense[name][run, step] = frame[name].to_numpy(dtype=float)
    predicted = dense.pop("predicted_cost_s")
    runs = _canonical(runs, counts)
    runs = runs.assign(plans=methods.plans(runs["acq"], chosen["utility"]))
    return Traces(runs, proposed=~np.isnan(predicted), components=chosen, judge=judge, **dense)


def _check_steps(frame: pd.DataFrame, run: np.ndarray, step: np.ndarray, counts: np.ndarray) -> None:
    """Refuse a run with two evaluations of one step (two specs under one name), or with a step missing."""
    twice = pd.Series(run * (counts.max() + step.max() + 1) + step).duplicated().to_numpy()
    gaps = (step < 0) | (step >= counts[run])
    if not (twice.any() or gaps.any()):
        return
    at = int(np.argmax(twice if twice.any() else gaps))
    r = frame.iloc[at]
    name = f"the run {r['method']} on {r['dataset']}/{r['pipeline']} seed {r['seed']}"
    if not twice.any():
        raise BadInput(f"{name} lacks steps: a trace counts 0, 1, 2, ... without gaps")
    specs = sorted(set(frame.loc[run == run[at], "spec"].astype(str)))
    raise BadInput(f"{name} is recorded twice (spec {', '.join(specs)}): move the folders that end in one of these "
                   "away, or keep one results_dir per configuration")  # fmt: skip


def _canonical(runs: pd.DataFrame, counts: np.ndarray) -> pd.DataFrame:
    """Give every run its place on the alpha and lambda axes and the one label of its method."""
    runs = runs.astype(dict.fromkeys(["dataset", "pipeline", "acq", "method"], str))
    runs = runs.assign(acq=methods.families(runs["acq"], runs.pop("plans_ahead")))
    runs = runs.assign(alpha=methods.alpha_axis(runs["acq"], runs["alpha"]),
                       lam=methods.lambda_axis(runs["acq"], runs["lam"]), evaluations=counts)  # fmt: skip
    return runs.assign(method=methods.labels(runs))

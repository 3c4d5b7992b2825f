"""Confirming emulated choices: what a run chose at the end is trained live and compared with what it was told."""

from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harness.errors import BadInput
from harness.executors import run_tasks
from harness.files import write_atomically
from harness.progress import Progress
from harness.records import read_traces
from harness.space import XGBOOST_SPACE
from harness.training import train
from tabular_cache.measure import prepared
from tabular_cache.reference import pace

_RUN = ["dataset", "pipeline", "method", "spec", "seed"]
FILE = "confirmed.csv"


@dataclass(frozen=True)
class Choice:
    """One chosen configuration: native hyperparameters in the order of the space, and what the run was told."""

    dataset: str
    pipeline: str
    x: tuple[float, ...]
    error: float
    cost_s: float


def choices(results: Path, problems: set[tuple[str, str]] | None = None) -> list[Choice]:
    """Return the final incumbents of all runs in `results`, each different one once."""
    frame = read_traces(results)
    frame = frame[frame["error"].notna()]
    best = frame.loc[frame.groupby(_RUN, observed=True)["error"].idxmin()]
    names = list(XGBOOST_SPACE.names)
    best = best.drop_duplicates(["dataset", "pipeline", *names])
    return [
        Choice(str(r["dataset"]), str(r["pipeline"]), tuple(float(r[n]) for n in names), r["error"], r["cost_s"])
        for _, r in best.iterrows()
        if problems is None or (r["dataset"], r["pipeline"]) in problems
    ]


def retrain(choice: Choice) -> dict[str, Any]:
    """Train a choice; returns its measured error and cost beside what the run was told."""
    result = train(prepared(choice.dataset, choice.pipeline, 0), np.array(choice.x), (), pace=pace)
    return {
        "dataset": choice.dataset,
        "pipeline": choice.pipeline,
        **dict(zip(XGBOOST_SPACE.names, choice.x, strict=True)),
        "told_error": choice.error,
        "error": float(result.val_error[-1]) if len(result.val_error) else float("nan"),
        "told_cost_s": choice.cost_s,
        "cost_s": result.spent_scaled_s,
        "status": result.status,
    }


def confirm(executor: Executor, results: Path, problems: set[tuple[str, str]]) -> pd.DataFrame:
    """Train all choices of the runs in `results` on `problems` and write them to `confirmed.csv` there."""
    todo = choices(results, problems)
    if not todo:
        raise BadInput(f"no runs of these problems in {results}")
    rows = []
    with Progress(len(todo), "trainings", "confirm") as progress:
        for _, row in run_tasks(executor, retrain, todo):
            if isinstance(row, BaseException):
                raise row
            rows.append(row)
            progress.advance()
    frame = pd.DataFrame(rows).sort_values(["dataset", "pipeline", "told_error", *XGBOOST_SPACE.names])
    write_atomically(results / FILE, frame.to_csv(index=False, lineterminator="\n").encode())
    return frame


def print_confirmed(frame: pd.DataFrame) -> int:
    """Print, per problem, how far what was told is from what was measured; returns the exit code."""
    frame = frame.assign(
        error_off=100 * (frame["error"] / frame["told_error"] - 1),
        cost_off=100 * (frame["cost_s"] / frame["told_cost_s"] - 1),
    )
    table = frame.groupby(["dataset", "pipeline"]).agg(
        choices=("error", "size"),
        error_off=("error_off", "median"),
        error_off_abs=("error_off", lambda v: v.abs().median()),
        cost_off=("cost_off", "median"),
        cost_off_abs=("cost_off", lambda v: v.abs().median()),
    )
    print("measured against told, percent, medians over choices")
    print(table.to_string(float_format="{:.2f}".format))
    error, cost = table["error_off_abs"].median(), table["cost_off_abs"].median()
    print(f"median over problems: error {error:.2f} %, cost {cost:.1f} %")
    return 0

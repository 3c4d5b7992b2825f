"""Confirming emulated choices: what a run chose at the end is trained live and compared with what it was told.

`confirmed.csv`, beside the records, has one row per run; a training that several runs chose is done once. Rows of runs
that are not asked about stay; a training that failed, or whose worker was lost, is tried again by the next call.
"""

import io
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from datasets.errors import BadInput
from datasets.files import write_atomically
from harness.cli import SOME_FAILED
from harness.execution import run_tasks
from harness.execution.supervisor import worker_count
from harness.problem import OK
from harness.progress import Progress
from pipelines.identity import difference
from tabular_cache.chosen import RUN, TOLD, TRAINING, Choice, choice_of, choices, data_of
from tabular_cache.measure import prepared, trained

FILE = "confirmed.csv"
_FOUND = ["error", "cost_s", "status"]


def retrain(choice: Choice) -> dict[str, Any]:
    """Train a choice; returns its error, its cost as tables have it (scaled seconds), status and what its data are."""
    data = prepared(choice.dataset, choice.pipeline, choice.split_seed)
    result = trained(data, np.array(choice.x), choice.tree_method, prefixes=())
    ok = result.status == OK
    return {
        "error": float(result.val_error[-1]) if ok else float("nan"),
        "cost_s": float(result.scaled_s[-1]) if ok else float("nan"),
        "status": result.status,
        "data": data.description(),
    }


def confirm(executor: Executor, results: Path, problems: set[tuple[str, str]]) -> pd.DataFrame:
    """Train what the runs in `results` on `problems` chose; returns and writes `confirmed.csv` there, a row per run.

    What an earlier call trained is not trained again; what could not be trained has its reason as status. Raises
    BadInput without runs of these problems, and where the data here are not those that the tables were trained on.
    """
    chosen = choices(results, problems)
    before = _read(results / FILE)
    known, data = _known(before), data_of(results)
    todo = [choice_of(row) for row in chosen[TRAINING].drop_duplicates().itertuples(index=False)]
    todo = [choice for choice in todo if choice not in known]
    try:
        with Progress(len(todo), "trainings", "confirm", worker_count(executor)) as progress:
            for choice, found in run_tasks(executor, retrain, todo):
                if isinstance(found, BadInput):
                    raise found
                if isinstance(found, BaseException):
                    found = {"error": np.nan, "cost_s": np.nan, "status": f"{type(found).__name__}: {found}"}
                elif reason := difference(data[choice.dataset, choice.pipeline], found.pop("data")):
                    raise BadInput(
                        f"{choice.dataset}/{choice.pipeline}: the data here (DATASETS_HOME) are not those that its "
                        f"table was trained on ({reason}): leave it out, dataset=[...]"
                    )
                known[choice] = found
                progress.advance()
    finally:  # what is trained is kept, also when a worker dies
        if known:
            write_atomically(results / FILE, _file(_joined(chosen, known), before))
    return _joined(chosen, known)


def _read(path: Path) -> pd.DataFrame:
    """Return what an earlier call wrote, as text, so that no digit is lost; raises BadInput for another file."""
    if not path.exists():
        return pd.DataFrame(columns=[*RUN, *TRAINING[2:], *TOLD, *_FOUND], dtype=str)
    try:
        frame = pd.read_csv(path, dtype=str)
        frame[[*RUN, *TRAINING, *TOLD, "status"]]
        frame[["error", "cost_s"]].astype(float)
    except (OSError, ValueError, KeyError) as error:
        raise BadInput(f"{path} holds no confirmed choices ({error}): move it away") from None
    return frame


def _known(before: pd.DataFrame) -> dict[Choice, dict[str, Any]]:
    """Return what was found out of the choices that were trained to their end."""
    frame = before[before["status"] == OK].drop_duplicates(TRAINING)
    trainings = [choice_of(row) for row in frame[TRAINING].itertuples(index=False)]
    lines = frame[_FOUND].astype({"error": float, "cost_s": float}).itertuples(index=False)
    return {choice: dict(zip(_FOUND, line, strict=True)) for choice, line in zip(trainings, lines, strict=True)}


def _file(joined: pd.DataFrame, before: pd.DataFrame) -> bytes:
    """Return the rows of `joined`, and those before of other runs, as a file's content."""
    text = pd.read_csv(io.StringIO(joined.to_csv(index=False)), dtype=str)
    both = pd.concat([text, before]).drop_duplicates(RUN).sort_values(RUN, key=_as_numbers)
    return both.to_csv(index=False, lineterminator="\n").encode()


def _as_numbers(column: pd.Series) -> pd.Series:
    return column.astype(int) if column.name == "seed" else column


def _joined(chosen: pd.DataFrame, known: dict[Choice, dict[str, Any]]) -> pd.DataFrame:
    found = [known.get(choice_of(row)) for row in chosen[TRAINING].itertuples(index=False)]
    there = [f is not None for f in found]
    measured = pd.DataFrame([f for f in found if f is not None], columns=_FOUND)
    return pd.concat([chosen[there].reset_index(drop=True), measured], axis=1)


def print_confirmed(frame: pd.DataFrame) -> int:
    """Print, per problem, how far what was told is from what was measured; returns the exit code."""
    frame = frame.assign(
        error_off=100 * (frame["error"] / frame["told_error"] - 1),
        cost_off=100 * (frame["cost_s"] / frame["told_cost_s"] - 1),
    )
    table = frame.groupby(["dataset", "pipeline"]).agg(
        runs=("error", "size"),
        error_off=("error_off", "median"),
        error_off_abs=("error_off", lambda v: v.abs().median()),
        cost_off=("cost_off", "median"),
        cost_off_abs=("cost_off", lambda v: v.abs().median()),
    )
    print("measured against told, percent, medians over runs")
    print(table.to_string(float_format="{:.2f}".format))
    error, cost = table["error_off_abs"].median(), table["cost_off_abs"].median()
    print(f"median over problems: error {error:.2f} %, cost {cost:.1f} %")
    bad = frame.loc[frame["status"] != OK, ["dataset", "pipeline", "method", "seed", "status"]]
    for row in bad.itertuples(index=False):
        print(f"not confirmed: {row.dataset}/{row.pipeline} {row.method} seed {row.seed}: {row.status}")
    return SOME_FAILED if len(bad) else 0

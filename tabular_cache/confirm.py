"""Confirming emulated choices: what a run chose at the end is trained live and compared with what it was told.

`confirmed.csv`, beside the records, has one row per run; a training that several runs chose is done once.
"""

from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harness.cli import SOME_FAILED
from harness.errors import BadInput
from harness.executors import run_tasks
from harness.files import write_atomically
from harness.problem import OK
from harness.progress import Progress
from harness.records import read_traces, spec_hash, specs
from harness.space import XGBOOST_SPACE
from tabular_cache.measure import prepared, trained
from tabular_cache.table import TABLES, read_manifest, table_entry

FILE = "confirmed.csv"
_RUN = ["dataset", "pipeline", "method", "spec", "seed"]
_TRAINING = ["dataset", "pipeline", "tree_method", "split_seed", *XGBOOST_SPACE.names]
_FOUND = ["error", "cost_s", "status"]


@dataclass(frozen=True)
class Choice:
    """One training to do: native hyperparameters in the order of the space."""

    dataset: str
    pipeline: str
    tree_method: str
    split_seed: int
    x: tuple[float, ...]


def choices(results: Path) -> pd.DataFrame:
    """Return one row per run in `results`: what it chose at the end, was told of it, how to train it.

    Raises BadInput without records, and for runs that were told something else than what is measured here.
    """
    frame = read_traces(results)
    ways = {spec_hash(spec): _way(spec) for spec in specs(results)}
    frame = frame[frame["error"].notna()]
    best = frame.loc[frame.groupby(_RUN, observed=True)["error"].idxmin()].copy()
    best["tree_method"], best["split_seed"] = zip(*(ways[spec] for spec in best["spec"]), strict=True)
    texts = dict.fromkeys(("dataset", "pipeline", "method"), str)
    best = best.astype(texts | dict.fromkeys(XGBOOST_SPACE.names, np.float64))  # every digit goes to the file
    best = best.rename(columns={"error": "told_error", "cost_s": "told_cost_s"})
    best = best[[*_RUN, *_TRAINING[2:], "told_error", "told_cost_s"]]
    return best.sort_values(_RUN, ignore_index=True)


def _way(spec: dict[str, Any]) -> tuple[str, int]:
    """Return (tree method, split seed) of the trainings that a spec's evaluator does or stands for."""
    evaluator = spec["components"]["evaluator"]
    if evaluator.get("objective", "error") != "error" or evaluator.get("cost", "scaled") != "scaled":
        raise BadInput(
            f"{spec['method']} on {spec['dataset']}/{spec['pipeline']}: error and cost at the reference machine's pace "
            "are measured, its runs were told log-loss (replay_loss), or cost=cpu or wall"
        )
    if spec["evaluator"] == "live":
        raise BadInput("runs of evaluator=live were told what their trainings measured: there is nothing to confirm")
    if "tree_method" in evaluator:
        return str(evaluator["tree_method"]), int(evaluator.get("split_seed") or 0)
    folder = evaluator.get("tables")
    return str(read_manifest(TABLES if folder is None else Path(folder))["tree_method"]), 0


def _data_hashes(results: Path) -> dict[tuple[str, str], str]:
    """Return, by problem, the hash of the matrices that the runs' tables were trained on, or their live trainings."""
    found = {}
    for spec in specs(results):
        evaluator, problem = spec["components"]["evaluator"], (spec["dataset"], spec["pipeline"])
        folder = Path(evaluator.get("tables") or TABLES)
        live = "tables" not in evaluator
        found[problem] = str(spec["data"] if live else table_entry("/".join(problem), folder)["data_hash"])
    return found


def retrain(choice: Choice) -> dict[str, Any]:
    """Train a choice; returns its error, its cost as tables have it (scaled seconds), status and data's hash."""
    data = prepared(choice.dataset, choice.pipeline, choice.split_seed)
    result = trained(data, np.array(choice.x), choice.tree_method, prefixes=())
    ok = result.status == OK
    return {
        "error": float(result.val_error[-1]) if ok else float("nan"),
        "cost_s": float(result.scaled_s[-1]) if ok else float("nan"),
        "status": result.status,
        "data_hash": data.data_hash,
    }


def confirm(executor: Executor, results: Path, problems: set[tuple[str, str]]) -> pd.DataFrame:
    """Train what the runs in `results` on `problems` chose; returns and writes `confirmed.csv` there, a row per run.

    What an earlier call trained is not trained again. Raises BadInput without runs of these problems, and where the
    data here are not those that the tables were trained on.
    """
    every = choices(results)
    chosen = every[[pair in problems for pair in zip(every["dataset"], every["pipeline"], strict=True)]]
    if chosen.empty:
        raise BadInput(f"no runs of these problems in {results}")
    known, hashes = _known(results / FILE), _data_hashes(results)
    todo = [_choice(row) for row in chosen[_TRAINING].drop_duplicates().itertuples(index=False)]
    todo = [choice for choice in todo if choice not in known]
    try:
        with Progress(len(todo), "trainings", "confirm") as progress:
            for choice, found in run_tasks(executor, retrain, todo):
                if isinstance(found, BaseException):
                    raise found
                if found.pop("data_hash") != hashes[choice.dataset, choice.pipeline]:
                    raise BadInput(
                        f"{choice.dataset}/{choice.pipeline}: the data here (DATASETS_HOME) are not those that its "
                        "table was trained on: leave it out, dataset=[...]"
                    )
                known[choice] = found
                progress.advance()
    finally:  # what is trained is kept, also when a worker dies
        if known:
            frame = _joined(every, known)
            write_atomically(results / FILE, frame.to_csv(index=False, lineterminator="\n").encode())
    return _joined(chosen, known)


def _choice(row: Any) -> Choice:
    return Choice(row.dataset, row.pipeline, row.tree_method, int(row.split_seed), tuple(float(v) for v in row[4:]))


def _known(path: Path) -> dict[Choice, dict[str, Any]]:
    """Return what an earlier call found out; raises BadInput for a file that is none of ours."""
    if not path.exists():
        return {}
    try:
        frame = pd.read_csv(path, dtype=str).drop_duplicates(_TRAINING)  # as text, so that no digit is lost
        trainings = [_choice(row) for row in frame[_TRAINING].itertuples(index=False)]
        lines = frame[_FOUND].astype({"error": float, "cost_s": float}).itertuples(index=False)
        found = [dict(zip(_FOUND, line, strict=True)) for line in lines]
    except (OSError, ValueError, KeyError) as error:
        raise BadInput(f"{path} holds no confirmed choices ({error}): move it away") from None
    return dict(zip(trainings, found, strict=True))


def _joined(chosen: pd.DataFrame, known: dict[Choice, dict[str, Any]]) -> pd.DataFrame:
    found = [known.get(_choice(row)) for row in chosen[_TRAINING].itertuples(index=False)]
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

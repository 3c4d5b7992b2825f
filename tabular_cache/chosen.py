"""What runs chose at the end, and the trainings that this stands for."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from datasets.errors import BadInput
from harness.records import read_traces, spec_hash, specs
from harness.space import XGBOOST_SPACE
from tabular_cache.table import TABLES, read_manifest, table_entry

RUN = ["dataset", "pipeline", "method", "spec", "seed"]
TRAINING = ["dataset", "pipeline", "tree_method", "split_seed", *XGBOOST_SPACE.names]
TOLD = ["told_error", "told_cost_s"]


@dataclass(frozen=True)
class Choice:
    """One training to do: native hyperparameters in the order of the space."""

    dataset: str
    pipeline: str
    tree_method: str
    split_seed: int
    x: tuple[float, ...]


def choices(results: Path, problems: set[tuple[str, str]]) -> pd.DataFrame:
    """Return one row per run on `problems` in `results`: what it chose at the end, was told of it, how to train it.

    Raises BadInput without such runs, and for those that were told something else than what is measured here.
    """
    frame = read_traces(results)
    asked = [pair in problems for pair in zip(frame["dataset"], frame["pipeline"], strict=True)]
    frame = frame[np.array(asked) & frame["error"].notna().to_numpy()]
    if frame.empty:
        raise BadInput(f"no runs of these problems in {results}")
    every = {spec_hash(spec): spec for spec in specs(results)}
    ways = {name: _way(every[name]) for name in dict.fromkeys(frame["spec"])}
    best = frame.loc[frame.groupby(RUN, observed=True)["error"].idxmin()].copy()
    best["tree_method"], best["split_seed"] = zip(*(ways[spec] for spec in best["spec"]), strict=True)
    texts = dict.fromkeys(("dataset", "pipeline", "method"), str)
    best = best.astype(texts | dict.fromkeys(XGBOOST_SPACE.names, np.float64))  # every digit goes to the file
    best = best.rename(columns={"error": "told_error", "cost_s": "told_cost_s"})
    best = best[[*RUN, *TRAINING[2:], *TOLD]]
    return best.sort_values(RUN, ignore_index=True)


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


def data_of(results: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Return, by problem, hash and identity of what the runs' tables were trained on; of live trainings, the hash."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for spec in specs(results):
        evaluator, problem = spec["components"]["evaluator"], (spec["dataset"], spec["pipeline"])
        folder = Path(evaluator.get("tables") or TABLES)
        live = "tables" not in evaluator
        found[problem] = {"data_hash": spec["data"]} if live else table_entry("/".join(problem), folder)
    return found


def choice_of(row: Any) -> Choice:
    """Return the training of a row of TRAINING columns."""
    return Choice(row.dataset, row.pipeline, row.tree_method, int(row.split_seed), tuple(float(v) for v in row[4:]))

"""The best configuration that runs have found, per data set: `best.json`, one line of Python, and a picture.

`finish` is what `python -m harness dataset=csv ...` ends with (configs/dataset/csv.yaml names it); `python -m analysis
best` does the same for whatever records there are.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hydra.utils import instantiate

from analysis import best_figure
from analysis.best_code import code
from analysis.plotting import Drawn
from analysis.scope import plural
from datasets.errors import BadInput
from datasets.files import write_atomically
from harness.live import Live
from harness.progress import duration
from harness.records import read_traces, spec_hash, specs
from harness.space import XGBOOST_SPACE
from harness.training import model_line
from tabular_cache.table import TABLES, read_manifest

Spec = Mapping[str, Any]
METRICS = {
    "error": {"regression": "RMSE", "binary": "share misclassified", "multiclass": "share misclassified"},
    "loss": {"regression": "RMSE", "binary": "log-loss", "multiclass": "log-loss"},
}
"""What an evaluator's `objective` is of each task."""


def finish(results: Path, made: Sequence[Spec]) -> bool:
    """Tell the best of all runs so far on the data of the specs `made`, whatever their method, seed and pipeline.

    Returns whether there is one of every data set.
    """
    asked = {tuple(_question(spec).values()) for spec in made}
    there = [spec for spec in specs(results) if tuple(_question(spec).values()) in asked]
    contents = {(str(spec["dataset"]), str(spec["pipeline"])): str(spec["data"]) for spec in made}
    for spec in there:  # another pipeline's matrices have another hash: is it that of the data as they are?
        problem = (str(spec["dataset"]), str(spec["pipeline"]))
        if problem not in contents:
            contents[problem] = _content_now(spec)
    there = [spec for spec in there if contents[str(spec["dataset"]), str(spec["pipeline"])] == spec["data"]]
    names = dict.fromkeys(str(spec["dataset"]) for spec in made)
    told = [_finish(results, name, [spec for spec in there if spec["dataset"] == name]) for name in names]
    return all(told)


def _content_now(spec: Spec) -> str:
    """Return the hash of what a run of this spec would be trained on today, "" where it cannot be had."""
    try:
        evaluator = instantiate(spec["components"]["evaluator"])
        return str(evaluator.fingerprint(spec["dataset_config"], spec["pipeline_config"]))
    except BadInput:
        return ""


def of_records(results: Path) -> None:
    """Tell the best of every data set with records in `results`; one whose records are of several data, say so."""
    made = specs(results)
    if not made:
        raise BadInput(f"no records in {results}: run `python -m harness` first, or give results_dir=...")
    for dataset in sorted({str(spec["dataset"]) for spec in made}):
        own = [spec for spec in made if spec["dataset"] == dataset]
        different = _differences(own)
        if different:
            print(f"{dataset}: not compared, its records differ in {', '.join(different)}: give each a results_dir")
        else:
            _finish(results, dataset, own)


def _finish(results: Path, dataset: str, made: Sequence[Spec]) -> bool:
    own = {spec_hash(dict(spec)): spec for spec in made}
    try:
        frame = read_traces(results / dataset)
        frame = frame[frame["spec"].isin(set(own))]
        found = best(frame, own)
    except BadInput as error:
        print(f"{dataset}: {error}")
        return False
    tell(found, write(found, frame, results / dataset))
    return True


def _question(spec: Spec) -> dict[str, str]:
    """Return what must be the same for errors to be of one question: the data and target, how it is evaluated."""
    evaluator = spec["components"]["evaluator"]
    settings = {key: evaluator.get(key) for key in ("_target_", "split_seed", "tree_method", "objective")}
    return {"data or target": json.dumps(spec["dataset_config"], sort_keys=True), "evaluator": json.dumps(settings)}


def _differences(made: Sequence[Spec]) -> list[str]:
    """Return in what the specs of one data set ask different questions."""
    questions = [_question(spec) for spec in made]
    found = [name for name in questions[0] if len({question[name] for question in questions}) > 1]
    contents = {(spec["pipeline"], spec["data"]) for spec in made}
    if not found and len(contents) > len({spec["pipeline"] for spec in made}):
        found.append("content")
    return found


def best(frame: pd.DataFrame, made: Mapping[str, Spec]) -> dict[str, Any]:
    """Return what there is to know about the evaluation of lowest validation error, as plain JSON values.

    Ties go to the cheaper, then to the earlier evaluation. frame: evaluations of one data set; made: their specs by
    hash. Raises BadInput without a successful evaluation.
    """
    good = frame[frame["error"].notna()]
    if good.empty:
        raise BadInput(f"none of {plural(len(frame), 'evaluation')} succeeded: there is no best configuration")
    row = good.sort_values(["error", "cost_s", "step"], kind="stable").iloc[0]
    spec = made[str(row["spec"])]
    x = row[list(XGBOOST_SPACE.names)].to_numpy(dtype=np.float64)
    task, notes = _about(spec)
    line = model_line(task, x, _tree_method(spec))
    given = {name: float(str(np.float32(value))) for name, value in zip(XGBOOST_SPACE.names, x, strict=True)}
    whole = {p.name: int(given[p.name]) for p in XGBOOST_SPACE.parameters if p.integer}
    return {
        "dataset": spec["dataset"],
        "data": {k: v for k, v in spec["dataset_config"].items() if k != "_target_"},
        "task": task,
        "pipeline": spec["pipeline"],
        "configuration": {**given, **whole},
        "model": line,
        "code": code(spec, task, line),
        "metric": METRICS[spec["components"]["evaluator"].get("objective", "error")][task],
        "validation_error": float(row["error"]),
        "test_error": float(row["test_error"]),
        "training_cpu_s": float(row["cost_s"]),
        "found_by": {"method": str(row["method"]), "seed": int(row["seed"]), "evaluation": int(row["step"]) + 1},
        "evaluations": len(frame),
        "failed": len(frame) - len(good),
        "spent_cpu_s": float(frame["cost_s"].sum()),
        "spent_wall_s": float(frame["wall_s"].sum()),
        "notes": notes,
    }


def write(found: Mapping[str, Any], frame: pd.DataFrame, folder: Path) -> Drawn:
    """Write best.json, and draw best.png and best.svg beside it."""
    write_atomically(folder / "best.json", (json.dumps(found, indent=2, ensure_ascii=False) + "\n").encode())
    return best_figure.draw(frame, found, folder)


def tell(found: Mapping[str, Any], drawn: Drawn) -> None:
    """Print the best configuration as JSON and as a line of Python, its errors, the time spent, and the files."""
    by, spent = found["found_by"], duration(found["spent_cpu_s"])
    print(
        f"{found['dataset']}: best of {plural(found['evaluations'], 'evaluation')} ({spent} of training) is "
        f"evaluation {by['evaluation']} of {by['method']} on seed {by['seed']}, pipeline {found['pipeline']}: "
        f"{found['metric']} {found['validation_error']:.5g} on the validation rows, {found['test_error']:.5g} on the "
        "test rows"
    )
    for note in found["notes"]:
        print(f"  note: {note}")
    print(f"  {json.dumps(found['configuration'])}\n  {found['model']}")
    if found["code"]:
        print("  to fit it on all rows and predict those of new.csv:", *found["code"], sep="\n    ")
    folder = drawn.paths[0].parent
    print(f"  {folder / 'best.json'}, {', '.join(str(p) for p in drawn.paths if p.suffix in ('.png', '.svg'))}")


def _about(spec: Spec) -> tuple[str, list[str]]:
    """Return the task of a spec's problem, and what was done to its data on the way."""
    evaluator = instantiate(spec["components"]["evaluator"])
    dataset, pipeline = spec["dataset_config"], spec["pipeline_config"]
    task = str(evaluator.open(dataset, pipeline, 0).about.task)
    if not isinstance(evaluator, Live):
        return task, []
    note = "" if dataset["_target_"] == "datasets.load" else instantiate(dataset).note
    dropped = [f"left out, {what}" for what in evaluator.data(dataset, pipeline).dropped]
    return task, [part for part in [*note.split("; "), *dropped] if part]


def _tree_method(spec: Spec) -> str:
    evaluator = spec["components"]["evaluator"]
    if "tables" not in evaluator:
        return str(evaluator.get("tree_method", "exact"))
    return str(read_manifest(Path(evaluator["tables"] or TABLES))["tree_method"])

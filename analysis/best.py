"""The best configuration that runs have found, per data set: `best.json`, lines of Python, and a picture.

`finish` is what `python -m harness dataset=csv ...` ends with (configs/dataset/csv.yaml names it); `python -m analysis
best` does the same for whatever records there are.
"""

import inspect
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hydra.utils import instantiate
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from analysis.captions import plural, sentence
from analysis.plotting import BLACK, BLUE, ORANGE, RED, Drawn, few_ticks, new_figure, save, style, upper_edge
from analysis.traces import front, incumbents, spent
from datasets.catalogue import Dataset
from datasets.csv_file import load_csv
from datasets.errors import BadInput
from datasets.files import write_atomically
from harness.config import bad_input
from harness.grid import make_evaluator
from harness.live import Live
from harness.progress import duration
from harness.records import read_traces, specs
from harness.sealed import spec_hash
from harness.space import XGBOOST_SPACE
from harness.training import model_line
from pipelines.columns import column_kinds
from tabular_cache.table import TABLES, read_manifest

# What to do with the best configuration: the lines of Python that fit it and predict rows to come.


def _given(spec: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of `load_csv` that differ from its defaults; None where the data are no user's file."""
    config = spec["dataset_config"]
    if config["_target_"] != "datasets.csv_file.load_csv":
        return None
    usual = {name: p.default for name, p in inspect.signature(load_csv).parameters.items()}
    own = {k: v for k, v in config.items() if k != "_target_" and v not in (usual[k], [])}
    if own.get("name") == Path(str(config["path"])).name:  # which `load_csv` takes by itself; rows are split by it
        del own["name"]
    return own


def _load_csv(given: Mapping[str, Any]) -> str:
    return f"load_csv({', '.join(f'{k}={v!r}' for k, v in given.items())})"


def code(spec: Mapping[str, Any], task: str, line: str) -> list[str]:
    """Return lines of Python that fit this model on all rows of the file and predict those of another; [] without one.

    They read the file and prepare its columns as the runs did, which the line of the model alone would not.
    """
    given = _given(spec)
    if given is None:
        return []
    reading = {k: v for k, v in given.items() if k in ("sep", "decimal", "encoding")}
    more = "".join(f", {k}={v!r}" for k, v in reading.items())
    found = f"model.predict(inputs.matrix(load_rows('new.csv', data{more})))"
    return [
        "from datasets.csv_file import load_csv, load_rows",
        "from pipelines.prepared import Fitted",
        f"from xgboost import {line.partition('(')[0]}",
        f"data = {_load_csv(given)}",
        f"inputs = Fitted(data, {str(spec['pipeline'])!r})",
        f"model = {line}.fit(inputs.matrix(data.X), data.y)  # on all rows, to predict new ones",
        f"print({found if task == 'regression' else f'[data.classes[int(code)] for code in {found}]'})",
    ]


def check_code(spec: Mapping[str, Any], task: str, line: str) -> list[str]:
    """Return lines of Python that fit this model on the training rows, and print the errors that the run recorded.

    [] for what is no file of the user's, and for an evaluator that minimises something else.
    """
    given, evaluator = _given(spec), spec["components"]["evaluator"]
    if given is None or evaluator.get("objective", "error") != "error":
        return []
    split = f", split_seed={evaluator['split_seed']}" if evaluator.get("split_seed") else ""
    error = "((found - y) ** 2).mean() ** 0.5" if task == "regression" else "(found != y).mean()"
    return [
        "from datasets.csv_file import load_csv",
        "from pipelines import prepare",
        f"from xgboost import {line.partition('(')[0]}",
        f"data = prepare({_load_csv(given)}, {str(spec['pipeline'])!r}{split})",
        f"model = {line}.fit(data.X_train, data.y_train)",
        "for X, y in ((data.X_valid, data.y_valid), (data.X_test, data.y_test)):",
        "    found = model.predict(X)" + (".astype(float)" if task == "regression" else ""),
        f"    print({error})",
    ]


# The picture of one data set's runs: error against cost, progress over time, and EI against predicted cost.

_RUN = ["pipeline", "spec", "seed"]
_COLUMNS = ["pipeline", "method", "seed", "step", "cost_s", "error", "test_error", "predicted_cost_s", "log_ei"]
_FLOOR = np.log(1e-6)  # of the utility, as a share of the highest: what is lower is drawn there


def draw(frame: pd.DataFrame, found: Mapping[str, Any], folder: Path) -> Drawn:
    """Draw best.png and best.svg: frame, one data set's evaluations; found: its best (`analysis.best.best`)."""
    good = frame[frame["error"].notna()]
    proposed = frame[frame["log_ei"].notna()]
    highest = float(proposed["log_ei"].max())
    lowest = (highest if np.isfinite(highest) else 0.0) + _FLOOR
    names = {str(name) for name in proposed["utility"]}
    utility = "expected improvement" if names <= {"ei", "logei"} else f"utility ({', '.join(sorted(names))})"
    below = int((proposed["log_ei"] < lowest).sum())
    top = upper_edge(good["error"].to_numpy())
    beyond = int((good["error"] > top).sum())
    caption = sentence(
        f"{found['dataset']}, {plural(len(frame[_RUN].drop_duplicates()), 'run')}, {plural(len(frame), 'evaluation')},",
        f"{found['failed']} of which failed and are left out on the left. Left: cost and validation error of every",
        "training, the front of those that none beats in both, and the best. Middle: best error so far against the",
        f"training time spent, a line per run, and the best of all (dashed). Right: {utility} and predicted cost of",
        "each choice made with models:",
        "the initial design, and search without models, have none.",
        f"{plural(below, 'choice')} whose {utility} is below a millionth of the highest "
        f"{'lie' if below > 1 else 'lies'} on the lower edge."
        if below else "",
        f"{plural(beyond, 'evaluation')} of an error above {top:.4g} (triangle{'s' * (beyond > 1)}) "
        f"{'lie' if beyond > 1 else 'lies'} beyond the upper edge." if beyond else "",
    )  # fmt: skip
    with style():
        figure, plots = new_figure(11.0, 3.8, caption)
        left, middle, right = plots.subplots(1, 3)
        cost, error = good["cost_s"].to_numpy(), good["error"].to_numpy()
        rows = front(cost, error)
        within = error <= top
        left.plot(cost[within], error[within], ".", color=BLUE, alpha=0.55, label="evaluation")
        left.step(cost[rows], error[rows], where="post", color=ORANGE, linewidth=1.3, label="front")
        left.plot(found["evaluation_cpu_s"], found["validation_error"], "*", color=RED, markersize=11, label="best")
        left.set(xscale="log", xlabel="cost of the training (CPU s)", ylabel=f"validation error ({found['metric']})")
        if beyond:
            low = float(error.min())
            edge = top + 0.06 * (top - low)
            left.plot(cost[~within], np.full(beyond, edge), "^", color=BLUE, markersize=4, label="beyond the edge")
            left.set_ylim(low - 0.05 * (top - low), top + 0.1 * (top - low))
        _legend_above(left)
        for _, run in frame.sort_values("step", kind="stable").groupby(_RUN, sort=False, observed=True):
            time = spent(run["cost_s"].to_numpy()[None])[0]
            middle.step(time, incumbents(run["error"].to_numpy()[None])[0], where="post", color=BLUE, alpha=0.7)
        middle.axhline(found["validation_error"], color=RED, linestyle="--", linewidth=0.9, label="best of all runs")
        _legend_above(middle)
        middle.set(xlabel="time spent on trainings (CPU s)", ylabel="best validation error so far")
        _draw_choices(right, proposed, lowest, utility)
        for axes in (left, middle, *([] if proposed.empty else [right])):
            few_ticks(axes.xaxis)
        plots.suptitle(f"{found['dataset']}: {found['metric']} and training time", fontsize=10)
        return save(figure, "best", caption, frame[_COLUMNS], folder)


def _legend_above(axes: Axes) -> None:
    """Put the legend where it covers no evaluation, above the axes."""
    axes.legend(
        loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, fontsize=7, borderpad=0.1,
        handlelength=1.2, handletextpad=0.4, columnspacing=0.9,
    )  # fmt: skip


def _draw_choices(axes: Axes, proposed: pd.DataFrame, lowest: float, utility: str) -> None:
    """Draw utility and predicted cost of what was chosen, from dark (first) to light (last)."""
    if proposed.empty:
        why = "initial design, or search without\nmodels: nothing was predicted"
        axes.text(0.5, 0.5, why, ha="center", transform=axes.transAxes)
        axes.set_axis_off()
        return
    shown = np.exp(proposed["log_ei"].clip(lower=lowest))
    dots = axes.scatter(proposed["predicted_cost_s"], shown, c=proposed["step"] + 1, cmap="viridis", s=14)
    axes.set(xscale="log", yscale="log", xlabel="predicted cost of the choice (s)", ylabel=f"its {utility}")
    bar = axes.figure.colorbar(dots, ax=axes, label="evaluation", ticks=MaxNLocator(6, integer=True))
    bar.outline.set_edgecolor(BLACK)  # type: ignore[operator]


Spec = Mapping[str, Any]
METRICS = {
    "error": {"regression": "RMSE", "binary": "share misclassified", "multiclass": "share misclassified"},
    "loss": {"regression": "RMSE", "binary": "log-loss", "multiclass": "log-loss"},
}
"""What an evaluator's `objective` is of each task."""


def finish(results: Path, made: Sequence[Spec]) -> bool:
    """Print the best of all runs so far on the data of the specs `made`, whatever their method, seed and pipeline.

    Returns whether there is one of every data set.
    """
    asked = [_question(spec) for spec in made]
    alike = [spec for spec in specs(results) if _question(spec) in asked]
    there = _of_one_content(alike, {_problem(spec): str(spec["data"]) for spec in made})
    names = dict.fromkeys(str(spec["dataset"]) for spec in made)
    found = [_finish(results, name, [spec for spec in there if spec["dataset"] == name]) for name in names]
    return all(found)


def _problem(spec: Spec) -> tuple[str, str]:
    return str(spec["dataset"]), str(spec["pipeline"])


def _of_one_content(made: Sequence[Spec], known: Mapping[tuple[str, str], str]) -> list[Spec]:
    """Return the specs whose data are those of today, by problem as far as they are known.

    Each pipeline's matrices have a hash of their own: whether it is that of the data as they are, only these say.
    """
    contents = dict(known)
    for spec in made:
        if (problem := _problem(spec)) not in contents:
            contents[problem] = _content_now(spec)
    return [spec for spec in made if contents[_problem(spec)] == spec["data"]]


def _content_now(spec: Spec) -> str:
    """Return the hash of what a run of this spec would be trained on today, "" where it cannot be had."""
    try:
        evaluator = make_evaluator(spec["components"]["evaluator"])
        return str(evaluator.fingerprint(spec["dataset_config"], spec["pipeline_config"]))
    except Exception as error:  # Hydra wraps what a loader raises
        if bad_input(error) is None:
            raise
        return ""


def of_records(results: Path) -> None:
    """Print the best of every data set with records in `results`; of one whose records are of several data, that."""
    made = specs(results)
    if not made:
        raise BadInput(f"no records in {results}: run `python -m harness` first, or give results_dir=...")
    for dataset in sorted({str(spec["dataset"]) for spec in made}):
        own: Sequence[Spec] = [spec for spec in made if spec["dataset"] == dataset]
        questions = [_question(spec) for spec in own]
        different = [name for name in questions[0] if len({question[name] for question in questions}) > 1]
        contents = {(spec["pipeline"], spec["data"]) for spec in own}
        if not different and len(contents) > len({spec["pipeline"] for spec in own}):
            different = ["content"]
        if different:
            print(f"{dataset}: not compared, its records differ in {', '.join(different)}: give each a results_dir")
            continue
        if _given(own[0]) is not None:  # a file that may have changed between runs of different pipelines
            now = _of_one_content(own, {})
            if len(now) < len(own):
                print(f"{dataset}: records of {plural(len(own) - len(now), 'block')} left out, made of other data than "
                      "the file holds today (or it cannot be read)")  # fmt: skip
            own = now
        if own:
            _finish(results, dataset, own)


def _question(spec: Spec) -> dict[str, str]:
    """Return what runs must have in common for their errors to be compared: data, target, and evaluator."""
    evaluator = spec["components"]["evaluator"]
    settings = {key: evaluator.get(key) for key in ("_target_", "split_seed", "tree_method", "objective")}
    return {"data or target": json.dumps(spec["dataset_config"], sort_keys=True), "evaluator": json.dumps(settings)}


def _finish(results: Path, dataset: str, made: Sequence[Spec]) -> bool:
    own = {spec_hash(dict(spec)): spec for spec in made}
    try:
        frame = read_traces(results / dataset)
        frame = frame[frame["spec"].isin(set(own))]
        found = best(frame, own)
    except BadInput as error:
        print(f"{dataset}: {error}")
        return False
    folder = results / dataset
    write_atomically(folder / "best.json", (json.dumps(found, indent=2, ensure_ascii=False) + "\n").encode())
    report(found, draw(frame, found, folder))
    return True


def best(frame: pd.DataFrame, made: Mapping[str, Spec]) -> dict[str, Any]:
    """Return what there is to know about the evaluation of lowest validation error, as plain JSON values.

    Ties go to the cheaper, then to the earlier evaluation. frame: evaluations of one data set; made: their specs by
    hash. training_cpu_s, front: of whole trainings; with learning curves the model of an evaluation is a prefix of what
    was paid for, or goes on from an earlier one, so that its seconds (`evaluation_cpu_s`) say nothing of the model.
    Raises BadInput without a successful evaluation.
    """
    good = frame[frame["error"].notna()]
    if good.empty:
        raise BadInput(f"none of {plural(len(frame), 'evaluation')} succeeded: there is no best configuration")
    row = good.sort_values(["error", "cost_s", "step"], kind="stable").iloc[0]
    spec = made[str(row["spec"])]
    x = row[list(XGBOOST_SPACE.names)].to_numpy(dtype=np.float64)
    if np.isnan(x).any():
        raise BadInput(
            "these records do not hold the configurations: unpacked ones lack them (tabular_cache.packed); run again"
        )
    task, notes = _about(spec)
    line, curved = model_line(task, x, _tree_method(spec), _continues(spec)), _has_curves(spec)
    front: list[dict[str, Any]] = []
    if curved:
        notes.append("of a training the best prefix counts, or what was added to one: its seconds are not the model's")
    else:
        whole = good[[not _has_curves(made[str(name)]) for name in good["spec"]]]
        front = [_model(row) for _, row in _front(whole).iterrows()]
    return {
        "dataset": spec["dataset"],
        "data": {k: v for k, v in spec["dataset_config"].items() if k != "_target_"},
        "task": task,
        "pipeline": spec["pipeline"],
        "configuration": _configuration(row),
        "model": line,
        "code": code(spec, task, line),
        "check": check_code(spec, task, line),
        "front": front,
        "metric": METRICS[spec["components"]["evaluator"].get("objective", "error")][task],
        "validation_error": float(row["error"]),
        "test_error": float(row["test_error"]),
        "training_cpu_s": None if curved else float(row["cost_s"]),
        "evaluation_cpu_s": float(row["cost_s"]),
        "found_by": {"method": str(row["method"]), "seed": int(row["seed"]), "evaluation": int(row["step"]) + 1},
        "evaluations": len(frame),
        "failed": len(frame) - len(good),
        "spent_cpu_s": float(frame["cost_s"].sum()),
        "spent_wall_s": float(frame["wall_s"].sum()),
        "notes": notes,
    }


def _configuration(row: pd.Series) -> dict[str, float]:
    """Return the hyperparameters of an evaluation as the model line writes them."""
    given = {name: float(row[name]) for name in XGBOOST_SPACE.names}
    return given | {p.name: int(given[p.name]) for p in XGBOOST_SPACE.parameters if p.integer}


def _front(good: pd.DataFrame) -> pd.DataFrame:
    """Return the evaluations that none beats in training time and validation error, the cheapest first."""
    return good.iloc[front(good["cost_s"].to_numpy(), good["error"].to_numpy())]


def _model(row: pd.Series) -> dict[str, Any]:
    """Return one model of the front, as plain JSON values."""
    return {
        "training_cpu_s": float(row["cost_s"]),
        "validation_error": float(row["error"]),
        "test_error": float(row["test_error"]),
        "pipeline": str(row["pipeline"]),
        "configuration": _configuration(row),
    }


_SHOWN = 5  # models of the front that are printed; best.json has all


def report(found: Mapping[str, Any], drawn: Drawn) -> None:
    """Print the best configuration as JSON and as a line of Python, its errors, the time spent, and the files."""
    by, time = found["found_by"], duration(found["spent_cpu_s"])
    print(
        f"{found['dataset']}: best of {plural(found['evaluations'], 'evaluation')} ({time} of training) is "
        f"evaluation {by['evaluation']} of {by['method']} on seed {by['seed']}, pipeline {found['pipeline']}: "
        f"{found['metric']} {found['validation_error']:.5g} on the validation rows, {found['test_error']:.5g} on the "
        "test rows"
    )
    for note in found["notes"]:
        print(f"  note: {note}")
    print(f"  {json.dumps(found['configuration'])}\n  {found['model']}")
    if cheaper := found["front"][:-1][-_SHOWN:]:  # without the best, those whose error is the nearest to its
        print("  cheaper models, the least validation error for their training time (all of them: front in best.json):")
    for model in cheaper:
        other = "" if model["pipeline"] == found["pipeline"] else f", pipeline {model['pipeline']}"
        print(
            f"    {model['training_cpu_s']:.3g} s instead of {found['training_cpu_s']:.3g} s: {found['metric']} "
            f"{model['validation_error']:.5g}, {model['test_error']:.5g} on the test rows; "
            f"{json.dumps(model['configuration'])}{other}"
        )
    if found["check"]:
        print("  to fit it on the training rows and get these errors again:", *found["check"], sep="\n    ")
    if found["code"]:
        print("  to fit it on all rows and predict those of new.csv:", *found["code"], sep="\n    ")
    pictures = ", ".join(str(path) for path in drawn.paths if path.suffix in (".png", ".svg"))
    print(f"  {drawn.paths[0].parent / 'best.json'}, {pictures}")


def _about(spec: Spec) -> tuple[str, list[str]]:
    """Return the task of a spec's problem, and what was done to its data on the way."""
    evaluator = make_evaluator(spec["components"]["evaluator"])
    dataset, pipeline = spec["dataset_config"], spec["pipeline_config"]
    about = evaluator.open(dataset, pipeline, 0).about
    if about is None:
        raise BadInput(
            f"{spec['dataset']}/{spec['pipeline']}: its evaluator's problem has no `about`, which tells the task"
        )
    task = str(about.task)
    if not isinstance(evaluator, Live):
        return task, []
    notes = [] if dataset["_target_"] == "datasets.load" else _reading(instantiate(dataset))
    dropped = [f"left out, {what}" for what in evaluator.data(dataset, pipeline).dropped]
    return task, [*notes, *dropped]


def _reading(data: Dataset) -> list[str]:
    """Return what was done to the columns of a file in reading it, and which of them are taken as text."""
    text = column_kinds(data.X, detect=False).positions["text"]
    words = [f"{data.X.columns[k]} taken as text: how often its words occur (tf-idf)" for k in text]
    return [note for note in data.note.split("; ") if note] + words


def _has_curves(spec: Spec) -> bool:
    return "curves" in spec["components"]


def _continues(spec: Spec) -> bool:
    """Say whether trainings stop and go on; those that tables replay were made in one piece."""
    components = spec["components"]
    continues = _has_curves(spec) and components["curves"].get("continues", False)
    return bool(continues) and "tables" not in components["evaluator"]


def _tree_method(spec: Spec) -> str:
    evaluator = spec["components"]["evaluator"]
    if "tables" not in evaluator:
        return str(evaluator.get("tree_method", "exact"))
    return str(read_manifest(Path(evaluator["tables"] or TABLES))["tree_method"])

"""Live trainings beside the tables: of what runs chose (`confirm`), and whole runs, by which replay is judged.

`PacedLive`, the evaluator `live_paced`, charges costs at the tables' pace.
"""

import io
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from datasets.errors import BadInput
from datasets.files import write_atomically
from harness.cli import SOME_FAILED
from harness.execution import run_counted
from harness.live import Live, LiveProblem
from harness.problem import OK
from harness.records import (
    TIMINGS,
    TIMINGS_SUFFIX,
    TRACE,
    block_files,
    block_folder,
    checked_header,
    read_traces,
    specs,
    trace_files,
    write_block,
)
from harness.sealed import damage_named, read_parquet, spec_hash
from harness.space import XGBOOST_SPACE
from pipelines.identity import difference
from tabular_cache.measure import pace, prepared, trained
from tabular_cache.table import TABLES, read_manifest, table_entry

# What runs chose at the end, and the trainings that this stands for.

RUN = ["dataset", "pipeline", "method", "spec", "seed"]
TRAINING = ["dataset", "pipeline", "tree_method", "split_seed", *XGBOOST_SPACE.names]
SEEN = ["told_error", "told_cost_s"]


@dataclass(frozen=True)
class Choice:
    """One training to do: native hyperparameters in the order of the space."""

    dataset: str
    pipeline: str
    tree_method: str
    split_seed: int
    x: tuple[float, ...]


def choices(results: Path, problems: set[tuple[str, str]]) -> pd.DataFrame:
    """Return one row per run on `problems` in `results`: what it chose at the end, what it saw there, how to train it.

    Where some ran on surfaces, those on rows are left out: what they saw was measured. Raises BadInput without such
    runs, and for those that saw something else than what is measured here.
    """
    frame = read_traces(results)
    asked = [pair in problems for pair in zip(frame["dataset"], frame["pipeline"], strict=True)]
    frame = frame[np.array(asked) & frame["error"].notna().to_numpy()]
    if frame.empty:
        raise BadInput(f"no runs of these problems in {results}")
    every = {spec_hash(spec): spec for spec in specs(results)}
    how = frame["spec"].astype(str).map({name: spec["evaluator"] for name, spec in every.items()})
    frame = frame[how != "replay"] if (how == "surface").any() else frame
    ways = {name: _way(every[name]) for name in dict.fromkeys(frame["spec"])}
    best = frame.loc[frame.groupby(RUN, observed=True)["error"].idxmin()].copy()
    best["tree_method"], best["split_seed"] = zip(*(ways[spec] for spec in best["spec"]), strict=True)
    texts = dict.fromkeys(("dataset", "pipeline", "method"), str)
    best = best.astype(texts | dict.fromkeys(XGBOOST_SPACE.names, np.float64))  # every digit goes to the file
    curves = best["spec"].astype(str).map({name: "curves" in spec["components"] for name, spec in every.items()})
    best["cost_s"] = best["cost_s"].where(~curves.astype(bool))  # else of another training than the prefix chosen
    best = best.rename(columns={"error": "told_error", "cost_s": "told_cost_s"})
    best = best[[*RUN, *TRAINING[2:], *SEEN]]
    return best.sort_values(RUN, ignore_index=True)


def _way(spec: dict[str, Any]) -> tuple[str, int]:
    """Return (tree method, split seed) of the trainings that a spec's evaluator does or stands for."""
    evaluator = spec["components"]["evaluator"]
    if evaluator.get("objective", "error") != "error" or evaluator.get("cost", "scaled") != "scaled":
        raise BadInput(
            f"{spec['method']} on {spec['dataset']}/{spec['pipeline']}: error and cost at the reference machine's pace "
            "are measured, its runs saw log-loss (replay_loss), or cost=cpu or wall"
        )
    if spec["evaluator"] == "live":
        raise BadInput("runs of evaluator=live saw what their trainings measured: there is nothing to confirm")
    if spec["evaluator"] not in CONFIRMED:
        raise BadInput(
            f"{spec['method']} on {spec['dataset']}/{spec['pipeline']} ran under evaluator={spec['evaluator']}: only "
            f"runs of {', '.join(CONFIRMED)} saw what is measured here"
        )
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


# Confirming emulated choices: what a run chose at the end is trained live and compared with what the emulator said.
#
# `confirmed.csv`, beside the records, has one row per run; a training that several runs chose is done once. Rows of
# runs that are not asked about stay; a training that failed, or whose worker was lost, is tried again by the next call.
# Rows are compared as text, so that no digit is lost.

CONFIRMED = ("replay", "surface", "live_paced")  # evaluators whose runs saw what is measured here, or say so
CONFIRMED_FILE = "confirmed.csv"
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
    path = results / CONFIRMED_FILE
    chosen, before, data = _as_text(choices(results, problems)), _read(path), data_of(results)
    known = before.loc[before["status"] == OK, [*TRAINING, *_FOUND]].drop_duplicates(TRAINING)
    trainings = pd.concat([known, chosen])[TRAINING].drop_duplicates()[len(known) :].itertuples(index=False)
    todo = {Choice(row[0], row[1], row[2], int(row[3]), tuple(map(float, row[4:]))): row for row in trainings}
    new: list[dict[str, Any]] = []
    try:
        for choice, found in run_counted(executor, retrain, list(todo), "trainings", "confirm"):
            if isinstance(found, BadInput):
                raise found
            if isinstance(found, BaseException):
                found = {"error": np.nan, "cost_s": np.nan, "status": f"{type(found).__name__}: {found}"}
            elif reason := difference(data[choice.dataset, choice.pipeline], found.pop("data")):
                raise BadInput(
                    f"{choice.dataset}/{choice.pipeline}: the data here (DATASETS_HOME) are not those that its "
                    f"table was trained on ({reason}): leave it out, 'dataset=[...]'"
                )
            new.append(dict(zip(TRAINING, todo[choice], strict=True)) | found)
    finally:  # what is trained is kept, also when a worker dies
        known = pd.concat([known, _as_text(pd.DataFrame(new, columns=[*TRAINING, *_FOUND]))])
        joined = chosen.merge(known, on=TRAINING)
        if len(joined):
            both = pd.concat([joined, before]).drop_duplicates(RUN)
            both = both.sort_values(RUN, key=lambda column: column.astype(int) if column.name == "seed" else column)
            write_atomically(path, both.to_csv(index=False, lineterminator="\n").encode())
    numbers = dict.fromkeys([*XGBOOST_SPACE.names, *SEEN, "error", "cost_s"], float)
    return joined.astype(numbers | {"seed": int, "split_seed": int})


def _as_text(frame: pd.DataFrame) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(frame.to_csv(index=False)), dtype=str)


def _read(path: Path) -> pd.DataFrame:
    """Return what an earlier call wrote, as text; raises BadInput for another file."""
    if not path.exists():
        return pd.DataFrame(columns=[*RUN, *TRAINING[2:], *SEEN, *_FOUND], dtype=str)
    try:
        frame = pd.read_csv(path, dtype=str)
        frame[[*RUN, *TRAINING, *SEEN, "status"]]
        frame[["error", "cost_s"]].astype(float)
    except (OSError, ValueError, KeyError) as error:
        raise BadInput(f"{path} holds no confirmed choices ({error}): move it away") from None
    return frame


def print_confirmed(frame: pd.DataFrame) -> int:
    """Print, per problem, how far what the runs saw is from what was measured; returns the exit code."""
    frame = frame.assign(
        error_off=100 * (frame["error"] / frame["told_error"] - 1),
        cost_off=100 * (frame["cost_s"] / frame["told_cost_s"] - 1),
    )
    medians: dict[str, Any] = {name: (name, "median") for name in ("error_off", "cost_off")}
    medians |= {f"{name}_abs": (name, lambda v: v.abs().median()) for name in ("error_off", "cost_off")}
    table = frame.groupby(["dataset", "pipeline"]).agg(runs=("error", "size"), **medians)
    print("measured against what the runs saw, percent, medians over runs")
    print(table.to_string(float_format="{:.2f}".format))
    error, cost = table["error_off_abs"].median(), table["cost_off_abs"].median()
    of_cost = (
        "cost not compared, as with curves= it is not that of the model chosen"
        if np.isnan(cost)
        else f"cost {cost:.1f} %"
    )
    print(f"median over problems: error {error:.2f} %, {of_cost}")
    bad = frame.loc[frame["status"] != OK, ["dataset", "pipeline", "method", "seed", "status"]]
    for row in bad.itertuples(index=False):
        print(f"not confirmed: {row.dataset}/{row.pipeline} {row.method} seed {row.seed}: {row.status}")
    return SOME_FAILED if len(bad) else 0


@dataclass(frozen=True)
class PacedLive(Live):
    """The evaluator `live_paced`: as `live`, a training's cost being what it would have been on the reference machine.

    A host's pace changes by up to two within minutes, and with it the costs of what runs at different times. Raises
    BadInput for limits, which are in this machine's seconds.
    """

    def __post_init__(self) -> None:
        """Refuse wrong settings."""
        super().__post_init__()
        if self.time_limit_s is not None or self.memory_limit_mb is not None:
            raise BadInput("evaluator=live_paced takes no limits: they are in seconds of this machine (evaluator=live)")

    def open(self, dataset: Mapping[str, Any], pipeline: Mapping[str, Any], seed: int) -> LiveProblem:
        """Return the problem of one run."""
        return LiveProblem(self.data(dataset, pipeline), seed, self.n_candidates, self.tree_method, None, None, pace)


# The live runs that replay is held against, shipped as records: one block per method and problem, all its seeds.
#
# They are made by `python -m harness study=density evaluator=live_paced`, for hours; `python -m tabular_cache truth`
# gathers them.

TRUTH = Path(__file__).resolve().parent / "truth"


def gather_live_runs(
    results: Path, problems: set[tuple[str, str]], folder: Path = TRUTH
) -> list[tuple[dict[str, Any], int]]:
    """Write the runs in `results` on `problems` to `folder`, a block per spec; returns (spec, runs) of each.

    Raises BadInput without such runs, for damaged records, for runs of one spec made with several versions of the
    libraries, and where `folder` has runs of a spec already.
    """
    by_spec: dict[str, list[tuple[Path, dict[str, Any]]]] = {}
    for path in trace_files(results):
        header = checked_header(path, path.read_bytes())
        if (header["spec"]["dataset"], header["spec"]["pipeline"]) in problems:
            timings = path.with_suffix(TIMINGS_SUFFIX)
            with damage_named(timings):
                checked_header(timings, timings.read_bytes())
            by_spec.setdefault(spec_hash(header["spec"]), []).append((path, header))
    if not by_spec:
        raise BadInput(f"no runs of these problems in {results}")
    for parts in by_spec.values():
        spec = parts[0][1]["spec"]
        name = f"{spec['dataset']}/{spec['pipeline']} {spec['method']}"
        if len({tuple(sorted(header["versions"].items())) for _, header in parts}) > 1:
            raise BadInput(f"{name}: runs made with several versions of the libraries cannot be one block")
        if trace_files(block_folder(folder, spec)):
            raise BadInput(f"{name}: {folder} has runs of it already: move them away, or give truth=FOLDER")
    return [_write_truth(parts, folder) for parts in by_spec.values()]


def _write_truth(parts: list[tuple[Path, dict[str, Any]]], folder: Path) -> tuple[dict[str, Any], int]:
    header = parts[0][1]
    seeds = sorted({seed for _, part in parts for seed in part["seeds"]})
    trace = _together([path for path, _ in parts], TRACE)
    timings = _together([path.with_suffix(TIMINGS_SUFFIX) for path, _ in parts], TIMINGS)
    write_block(folder, block_files(header["spec"], seeds, trace, timings, made_with=header["versions"]))
    return header["spec"], len(seeds)


def _together(paths: list[Path], schema: pa.Schema) -> dict[str, list[Any]]:
    """Return the rows of blocks, by seed and step, each (seed, step) once, as lists by column."""
    table = pa.concat_tables([read_parquet(path).select(schema.names).cast(schema) for path in paths])
    keys = np.stack([table["seed"].to_numpy(), table["step"].to_numpy()])
    columns: dict[str, list[Any]] = table.take(np.unique(keys, axis=1, return_index=True)[1]).to_pydict()
    return columns

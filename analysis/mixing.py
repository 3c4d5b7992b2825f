"""Records that may be compared: of one table per problem, and of one engine."""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from datasets.errors import BadInput

PROBLEM = ["dataset", "pipeline"]
TOLD = "mixed=true"
REPLAYED = ("replay", "replay_loss")  # evaluators whose `data` is the checksum of a table, or begins with it


def check_same_origin(frame: pd.DataFrame, told: str = f", or say {TOLD}") -> None:
    """Raise BadInput where an evaluator's runs of a problem come from two tables, or runs from two engines.

    The frame is `harness.records.read_traces`'s; one without the columns `data` and `engine` says nothing of either.
    told: what else may be done about it, at the end of the line.
    """
    if not {"data", "engine"} <= set(frame.columns):
        return
    engines = sorted(set(frame["engine"].astype(str)))
    if len(engines) > 1:
        raise BadInput(
            f"the records are of engines {', '.join(engines)}, which choose differently: keep one results_dir per "
            f"engine{told}"
        )
    where = ["evaluator", *PROBLEM]
    tables = frame[[*where, "data"]].drop_duplicates().astype(str)
    twice = tables[tables.duplicated(where, keep=False)]
    if len(twice):
        first = twice.iloc[0]
        same = twice[(twice[where] == first[where]).all(axis=1)]
        problem = "/".join(str(first[name]) for name in PROBLEM)
        hashes = ", ".join(data[:12] for data in sorted(same["data"]))
        if first["evaluator"] not in REPLAYED:
            raise BadInput(
                f"the {first['evaluator']} records of {problem} are of data that changed between them ({hashes}): keep "
                f"one results_dir per content of the data{told}"
            )
        raise BadInput(
            f"the records of {problem} are of different tables ({hashes}): keep one results_dir per set of tables{told}"
        )


def check_same_data(specs: Iterable[Mapping[str, Any]], told: str = f", or say {TOLD}") -> None:
    """Raise BadInput where the specs of one data set that say what it is differ: file, target, columns left out."""
    seen: dict[str, dict[str, Any]] = {}
    for spec in (spec for spec in specs if "dataset_config" in spec):
        config = dict(spec["dataset_config"])
        first = seen.setdefault(str(spec["dataset"]), config)
        differ = [key for key in sorted({*first, *config}) if first.get(key) != config.get(key)]
        if differ:
            values = " and ".join(f"dataset.{differ[0]}={one.get(differ[0])}" for one in (first, config))
            raise BadInput(f"the records of {spec['dataset']} are of {values}: keep one results_dir for each{told}")


def check_same_tables(frames: Mapping[str, pd.DataFrame]) -> None:
    """Raise BadInput where two settings, given by their evaluations, replayed different tables of one problem.

    How much of a table counts may differ. Live runs and surfaces do not say which table they come from, and are passed
    over.
    """
    seen: dict[tuple[str, str], tuple[str, str]] = {}
    for name, frame in frames.items():
        if "data" not in frame.columns:
            continue
        replayed = frame.loc[frame["evaluator"].isin(REPLAYED), [*PROBLEM, "data"]]
        for dataset, pipeline, data in replayed.drop_duplicates().astype(str).to_numpy():
            here = data.partition("-first-")[0]
            first, there = seen.setdefault((dataset, pipeline), (name, here))
            if there != here:
                raise BadInput(f"{dataset}/{pipeline}: {first} and {name} were replayed from different tables")

"""Recorded evaluations, run by run (`Evaluations`): each run described once, its numbers kept as they were read.

Also the choice of components, and whether records are compatible. Notation: R runs, T steps of the longest (0-based,
initial design included; padding on the right is NaN).
"""

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from analysis import REFERENCE
from analysis.methods import EI, PROBLEM, canonical, plans_ahead
from datasets.errors import BadInput
from harness.config import OPTIONAL, options
from harness.records import Block, describe, read_blocks

CELL = [*PROBLEM, "seed"]
RUN = [*PROBLEM, "acq", "lam", "alpha", "tau", "method", "iterations", "seed"]
MEASURED = ["error", "test_error", "cost_s", "effective_alpha"]
ARRAYS = [*MEASURED, "predicted_cost_s", "effective_alpha_high", "log_ei"]  # the last two: where they are known
NAMED = [*RUN, *REFERENCE, "data", "engine", "plans_ahead", "spec"]  # what describes a run, where a frame has it


@dataclass(frozen=True)
class Evaluations:
    """Evaluations of R runs.

    runs: one row per run: what `harness.records.read_traces` says of each of its evaluations beside their numbers
    (`NAMED`), and `evaluations`, how many count. headers: of the records that were read, none for a frame.

    columns: pieces of columns by their names, each with the steps of some runs, one run after the other. piece, start:
    in which of them the steps of a run are, and from where on.
    """

    runs: pd.DataFrame
    columns: Sequence[Mapping[str, Float[np.ndarray, " _"]]]
    piece: Int[np.ndarray, " R"]
    start: Int[np.ndarray, " R"]
    headers: Sequence[dict[str, Any]] = ()

    @staticmethod
    def of(recorded: "Recorded") -> "Evaluations":
        """Return the evaluations of a frame of `harness.records.read_traces`, in whatever order its rows are.

        Raises BadInput for a run recorded twice, or with a step missing.
        """
        if isinstance(recorded, Evaluations):
            return recorded
        names = [name for name in NAMED if name in recorded]
        run = recorded.groupby(names, dropna=False, observed=True, sort=False).ngroup().to_numpy()
        step = recorded["step"].to_numpy(np.int64)
        order = np.lexsort((step, run))
        counts = np.bincount(run)
        start = np.cumsum(counts) - counts
        runs = recorded[names].iloc[order[start]].reset_index(drop=True).assign(evaluations=counts)
        _check_steps(step[order], runs, np.repeat(np.arange(len(counts)), counts), start)
        columns = {name: recorded[name].to_numpy(float)[order] for name in ARRAYS if name in recorded}
        return Evaluations(runs, [columns], np.zeros(len(counts), np.int64), start)

    @property
    def specs(self) -> list[dict[str, Any]]:
        """The specs of the records that were read."""
        return [header["spec"] for header in self.headers]

    def select(self, rows: np.ndarray) -> "Evaluations":
        """Return the runs at `rows` (positions, or a mask over the runs)."""
        at = np.flatnonzero(rows) if rows.dtype == bool else rows
        if len(at) == len(self.runs) and (at == np.arange(len(at))).all():
            return self
        return replace(self, runs=self.runs.iloc[at].reset_index(drop=True), piece=self.piece[at], start=self.start[at])

    def first(self, steps: int) -> "Evaluations":
        """Return the same runs, of each its first `steps` steps."""
        return replace(self, runs=self.runs.assign(evaluations=self.runs["evaluations"].clip(upper=steps)))

    def arranged(self, rows: Int[np.ndarray, " R"], name: str) -> Float[np.ndarray, "R T"]:
        """Return a column as an array, with run i in its row rows[i]; NaN throughout where it is not known."""
        counts = self.runs["evaluations"].to_numpy()
        found = np.empty((len(counts), counts.max()))
        follows = (np.diff(self.piece) == 0) & (np.diff(self.start) == counts[:-1]) & (np.diff(counts) == 0)
        bounds = np.flatnonzero(np.concatenate([[True], ~follows, [True]]))
        for i, j in pairwise(bounds):  # runs of one length that lie one behind the other
            column, begin, n = self.columns[self.piece[i]].get(name), self.start[i], counts[i]
            values = np.nan if column is None else column[begin : begin + (j - i) * n].reshape(j - i, n)
            found[rows[i:j], :n], found[rows[i:j], n:] = values, np.nan
        return found


Recorded = pd.DataFrame | Evaluations
"""What may be given where evaluations are wanted: these, or a frame of `harness.records.read_traces`."""


def read_evaluations(results_dir: Path) -> Evaluations:
    """Return every evaluation on disk, of its numbers those that analyses look at (`ARRAYS`).

    Raises BadInput where there is none, for a damaged record, and for a run with a step missing.
    """
    columns = ("seed", "step", *(name for name in ARRAYS if name != "effective_alpha_high"))
    blocks = read_blocks(results_dir, columns=columns, of_models=("effective_alpha_high",))
    pieces, seeds, counts, starts = [], [], [], []
    for block in blocks:
        piece, seed, count = _in_order(block)
        pieces.append(piece)
        seeds.append(seed)
        counts.append(count)
        starts.append(np.cumsum(count) - count)
    of_block = np.repeat(np.arange(len(blocks)), [len(seed) for seed in seeds])
    named = {name: values.take(of_block) for name, values in describe(blocks).items()}
    runs = pd.DataFrame({**named, "seed": np.concatenate(seeds), "evaluations": np.concatenate(counts)})
    every = Evaluations(runs, pieces, of_block, np.concatenate(starts), [block.header for block in blocks])
    return every.select(~runs.duplicated([*CELL, "spec"]).to_numpy())  # a folder may hold some seeds twice


def _in_order(block: Block) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Return a record's columns run by run, and of each run its seed and how many evaluations it has."""
    columns = {name: block.table[name].to_numpy() for name in block.table.column_names}
    seed, step = columns.pop("seed"), columns.pop("step")
    begins = np.flatnonzero(np.concatenate([[True], seed[1:] != seed[:-1]]))
    counts = np.diff(begins, append=len(seed))
    if not (step == np.arange(len(step)) - np.repeat(begins, counts)).all():
        raise BadInput(f"{block.path} lacks steps: a trace counts 0, 1, 2, ... without gaps, one seed after the other")
    return columns, seed[begins], counts


def _check_steps(step: np.ndarray, runs: pd.DataFrame, run: np.ndarray, start: np.ndarray) -> None:
    """Raise BadInput for a run with two evaluations of one step, or with a step missing; steps ascend in each run."""
    wrong = np.flatnonzero(step != np.arange(len(step)) - start[run])
    if len(wrong):
        own = step[run == run[wrong[0]]]
        row = runs.iloc[run[wrong[0]]]
        if len(np.unique(own)) == len(own):
            raise BadInput(f"{_name(row)} lacks steps: a trace counts 0, 1, 2, ... without gaps")
        raise _twice(row, {str(row["spec"])})


def _name(row: pd.Series) -> str:
    method = row["method"] if row["utility"] == EI else f"{row['utility']} x {row['method']}"
    return f"the run {method} on {row['dataset']}/{row['pipeline']} seed {row['seed']}"


def _twice(row: pd.Series, specs: set[str]) -> BadInput:
    return BadInput(f"{_name(row)} is recorded twice (spec {', '.join(sorted(specs))}): move the folders that end in "
                    "one of these away, or keep one results_dir per configuration")  # fmt: skip


def dense(evaluations: Evaluations, keys: list[str]) -> tuple[pd.DataFrame, Callable[[str], np.ndarray]]:
    """Return the runs that `keys` tell apart, in their order, with canonical names; and what makes a column's array.

    Raises BadInput for a run recorded twice (two specs under one name).
    """
    runs = evaluations.runs
    number = runs.groupby(keys, dropna=False, observed=True, sort=True).ngroup().to_numpy()
    order = np.argsort(number, kind="stable")
    same = np.flatnonzero(np.diff(number[order]) == 0)
    if len(same):
        own = runs.iloc[order[number[order] == number[order][same[0]]]]
        raise _twice(own.iloc[0], set(own["spec"].astype(str)))
    return canonical(runs.iloc[order].reset_index(drop=True)), partial(evaluations.arranged, number)


# The components looked at: one evaluator, utility, surrogate and cost model, never a mix.


def choose_components(
    evaluations: Evaluations, wanted: Mapping[str, str], free: Container[str] = ()
) -> tuple[Evaluations, dict[str, str]]:
    """Return the evaluations of one choice of components, and that choice; those `free` may be mixed.

    Component by component: the one `wanted`, else the only one there is, else the reference. Raises BadInput
    for a component that no run has, or when there are several and the reference is not among them.
    """
    evaluations = tell_apart(evaluations, wanted)
    chosen: dict[str, str] = {}
    for component, reference in REFERENCE.items():
        if component in free:
            continue
        names = _names(evaluations, component)
        name = wanted.get(component, names[0] if len(names) == 1 else reference)
        so_far = " with " + ", ".join(f"{k}={v}" for k, v in chosen.items()) if chosen else ""
        evaluations, chosen[component] = _having(evaluations, component, name, so_far), name
    return evaluations, chosen


def filter_components(evaluations: Evaluations, wanted: Mapping[str, str]) -> Evaluations:
    """Return the evaluations whose components are those `wanted`, whatever the others; raises BadInput for none."""
    evaluations = tell_apart(evaluations, wanted)
    for component, name in wanted.items():
        evaluations = _having(evaluations, component, name)
    return evaluations


def tell_apart(evaluations: Evaluations, wanted: Mapping[str, str]) -> Evaluations:
    """Return the evaluations; what stands beside runs that had less is a method of its own, as a study would name it.

    So ``+acq=ei curves=stopped``, whose surrogate is recorded as ``gp+stopped``, is ``ei(curves=stopped)`` where there
    are runs with ``gp``, too: design, curves and stopping are compared, as methods are, unless a surrogate is `wanted`.
    """
    if "surrogate" in wanted:
        return evaluations
    names = _names(evaluations, "surrogate")
    for name in names:
        alone, plus, more = name.partition("+")
        more, colon, scale = more.partition(":")
        if plus and alone + colon + scale in names:
            rows = (evaluations.runs["surrogate"] == name).to_numpy()
            evaluations = replace(evaluations, runs=_renamed(evaluations.runs, rows, alone + colon + scale, more))
    return evaluations


def _renamed(runs: pd.DataFrame, rows: np.ndarray, surrogate: str, more: str) -> pd.DataFrame:
    """Return the runs, of `rows` with that surrogate and a method's name that says what `more` it has."""
    runs = runs.astype(dict.fromkeys(["acq", "method", "surrogate"], object))
    rule_plans = runs.loc[rows, "acq"].map(lambda acq: plans_ahead("acq", str(acq)))  # whose name is about to change
    own = runs["plans_ahead"].astype(bool) if "plans_ahead" in runs else pd.Series(True, index=runs.index)
    settings = ",".join(f"{_group(part)}={part}" for part in more.split("+"))
    labels = runs.loc[rows, "method"].map(lambda label: _with_settings(str(label), settings))
    runs.loc[rows, "method"] = runs.loc[rows, "acq"] = labels
    runs.loc[rows, "surrogate"] = surrogate
    return runs.assign(plans_ahead=own.where(~rows, own & rule_plans.reindex(runs.index, fill_value=True)))


def _group(part: str) -> str:
    """Return the setting that chose a component of this name."""
    return next((group for group in OPTIONAL if part in options(group)), "with")


def _with_settings(label: str, settings: str) -> str:
    return f"{label[:-1]},{settings})" if label.endswith(")") else f"{label}({settings})"


def without_settings(label: str) -> str:
    """Return the name that a method has without a design, candidates or the like: what `tell_apart` added is gone."""
    group = f"(?:{'|'.join(OPTIONAL)})="
    return re.sub(rf"\({group}.*\)|,{group}.*(?=\))", "", label)


def _names(evaluations: Evaluations, component: str) -> list[str]:
    return sorted(map(str, evaluations.runs[component].unique()))


def _having(evaluations: Evaluations, component: str, name: str, so_far: str = "") -> Evaluations:
    names = _names(evaluations, component)
    if name not in names:
        raise BadInput(f"no runs of {component}={name}{so_far}; the records hold: {', '.join(names)}")
    return evaluations.select((evaluations.runs[component] == name).to_numpy())


# Compatibility: records that may be compared are of one table per problem, and of one engine.

MIXED = ", or say mixed=true"
REPLAYED = ("replay", "replay_loss")  # evaluators whose `data` is the checksum of a table, or begins with it


def check_same_origin(runs: pd.DataFrame, remedy: str = MIXED) -> None:
    """Raise BadInput where an evaluator's runs of a problem come from two tables, or runs from two engines.

    runs: a row per run or per evaluation, as `harness.records.read_traces` describes them; without the columns `data`
    and `engine` they say nothing of either. remedy: what else may be done about it, at the end of the line.
    """
    if not {"data", "engine"} <= set(runs.columns):
        return
    engines = sorted(map(str, runs["engine"].unique()))
    if len(engines) > 1:
        raise BadInput(
            f"the records are of engines {', '.join(engines)}, which choose differently: keep one results_dir per "
            f"engine{remedy}"
        )
    where = ["evaluator", *PROBLEM]
    tables = runs[[*where, "data"]].drop_duplicates().astype(str)
    twice = tables[tables.duplicated(where, keep=False)]
    if twice.empty:
        return
    evaluator, dataset, pipeline, _ = twice.iloc[0]
    same = twice[(twice[where] == [evaluator, dataset, pipeline]).all(axis=1)]
    hashes = ", ".join(data[:12] for data in sorted(same["data"]))
    if evaluator not in REPLAYED:
        raise BadInput(
            f"the {evaluator} records of {dataset}/{pipeline} are of data that changed between them ({hashes}): keep "
            f"one results_dir per content of the data{remedy}"
        )
    raise BadInput(
        f"the records of {dataset}/{pipeline} are of different tables ({hashes}): keep one results_dir per set of "
        f"tables{remedy}"
    )


def check_same_data(specs: Iterable[Mapping[str, Any]]) -> None:
    """Raise BadInput where the specs of one data set that say what it is differ: file, target, columns left out."""
    seen: dict[str, dict[str, Any]] = {}
    for spec in (spec for spec in specs if "dataset_config" in spec):
        config = dict(spec["dataset_config"])
        first = seen.setdefault(str(spec["dataset"]), config)
        differ = [key for key in sorted({*first, *config}) if first.get(key) != config.get(key)]
        if differ:
            values = " and ".join(f"dataset.{differ[0]}={one.get(differ[0])}" for one in (first, config))
            raise BadInput(f"the records of {spec['dataset']} are of {values}: keep one results_dir for each{MIXED}")


def table_of(data: str) -> tuple[str, int | None]:
    """Return the checksum of the table that a record's `data` names, and how many configurations count (None: all).

    Written by `tabular_cache.replay`.
    """
    checksum, _, part = data.partition("-first-")
    return checksum, int(part) if part else None


def check_same_tables(settings: Mapping[str, pd.DataFrame]) -> None:
    """Raise BadInput where two settings, given by their runs or evaluations, replayed different tables of one problem.

    How much of a table counts may differ. Live runs and surfaces do not say which table they come from, and are passed
    over.
    """
    seen: dict[tuple[str, str], tuple[str, str]] = {}
    for name, frame in settings.items():
        if "data" not in frame.columns:
            continue
        replayed = frame.loc[frame["evaluator"].isin(REPLAYED), [*PROBLEM, "data"]]
        for dataset, pipeline, data in replayed.drop_duplicates().astype(str).to_numpy():
            here, _ = table_of(data)
            first, there = seen.setdefault((dataset, pipeline), (name, here))
            if there != here:
                raise BadInput(f"{dataset}/{pipeline}: {first} and {name} were replayed from different tables")

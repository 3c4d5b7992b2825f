"""Runs of several utilities under cost rules, side by side: which of them can be compared, and how far each got.

A method is a utility with a cost rule, such as ``kg x cei(lam=0.3)``. Everything is paired by problem and seed.
Notation: R runs, T steps of the longest; padding is NaN.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float

from analysis import methods
from analysis.components import choose
from analysis.incumbent import incumbents, of_the_best
from analysis.mixing import TOLD, check_same_origin
from analysis.traces import CELL, PROBLEM, STUDY_ITERATIONS, Judge
from harness.errors import BadInput
from harness.records import specs
from harness.records.layout import spec_hash

REFERENCE = "ei x ei"
PLANNING = ("mcms", "bmsei")
"""Utilities whose choices depend on the planned length or deadline: only runs planned for it count."""
NONE = "these records hold no utility but ei: python -m harness study=utilities, with the same results_dir"
LONGEST = 10.0
"""A step counts for at most so many times its run's median: compilation and stalls of the host are not thinking."""


@dataclass(frozen=True)
class Runs:
    """table: one row per run: dataset, pipeline, seed, utility, rule, label, tau, iterations, evaluations, ms_per_step.

    curve: the best error so far, by `judge`; cost_s: training seconds; thinking_s: the optimizer's own before the step.
    evaluator: of all runs. ms_per_step: median over the run's proposals.
    """

    table: pd.DataFrame
    curve: Float[np.ndarray, "R T"]
    cost_s: Float[np.ndarray, "R T"]
    thinking_s: Float[np.ndarray, "R T"]
    evaluator: str

    def select(self, rows: np.ndarray) -> "Runs":
        """Return the runs at `rows` (positions, or a mask)."""
        arrays = (self.curve[rows], self.cost_s[rows], self.thinking_s[rows])
        return Runs(self.table.iloc[rows].reset_index(drop=True), *arrays, self.evaluator)

    def cut(self, kept: np.ndarray) -> "Runs":
        """Return the runs with `kept` (R,) first steps of each."""
        beyond = np.arange(self.curve.shape[1]) >= kept[:, None]
        curve, cost, thinking = (np.where(beyond, np.nan, a) for a in (self.curve, self.cost_s, self.thinking_s))
        return Runs(self.table.assign(evaluations=kept), curve, cost, thinking, self.evaluator)

    @property
    def training_s(self) -> Float[np.ndarray, " R"]:
        """Training seconds of each run."""
        return np.asarray(np.nansum(self.cost_s, axis=1))

    @property
    def thought_s(self) -> Float[np.ndarray, " R"]:
        """Seconds that the optimizer took in each run."""
        return np.asarray(np.nansum(self.thinking_s, axis=1))

    @property
    def final(self) -> Float[np.ndarray, " R"]:
        """The best error of each run; NaN where nothing succeeded."""
        last = np.maximum(self.table["evaluations"].to_numpy(int) - 1, 0)[:, None]
        found = np.take_along_axis(self.curve, last, axis=1)[:, 0]
        return np.where(self.table["evaluations"] > 0, found, np.nan)

    def wide(self, values: np.ndarray) -> pd.DataFrame:
        """Return `values` of the runs as cells x methods; NaN where a cell lacks the method."""
        return self.table.assign(value=values).pivot(index=CELL, columns="label", values="value")


def arrange(
    frame: pd.DataFrame,
    timings: pd.DataFrame,
    wanted: Mapping[str, str] | None = None,
    judge: Judge = "validation",
    mixed: bool = False,
    settings: Mapping[str, str] | None = None,
) -> Runs:
    """Return the runs of all utilities that are recorded under a rule which some utility other than EI has, too.

    frame, timings: as `harness.records` reads them. wanted: as for `components.choose`; a utility is never chosen.
    settings: of the utility, by spec (`settings_of`). mixed: whether records of different tables, engines or settings
    are meant to stand together.
    Raises BadInput where there is no other utility, or the records are mixed without saying so.
    """
    others = {key: name for key, name in (wanted or {}).items() if key != "utility"}
    frame, chosen = choose(frame, others, free=("utility",))
    frame = frame.assign(utility=frame["utility"].astype(str))
    if set(frame["utility"]) <= {"ei"}:
        raise BadInput(NONE)
    frame = frame.assign(alpha=methods.alpha_axis(frame["acq"], frame["alpha"]))
    frame = frame.assign(rule=methods.labels(frame))
    frame = frame[frame["rule"].isin(frame.loc[frame["utility"] != "ei", "rule"].unique())]
    if not mixed:
        check_same_origin(frame)
        _check_same_settings(frame, settings or {})
    frame = frame.sort_values(["spec", "seed", "step"], kind="stable", ignore_index=True)
    frame = frame.merge(timings, on=["spec", "seed", "step"], how="left", validate="one_to_one")
    run = frame.groupby(["spec", "seed"], sort=False).ngroup().to_numpy()
    first = frame.drop_duplicates(["spec", "seed"]).reset_index(drop=True)
    counts, step = np.bincount(run), frame["step"].to_numpy(int)
    if (step >= counts[run]).any():
        raise BadInput("a recorded run lacks steps: a trace counts 0, 1, 2, ... without gaps")
    spent = frame["fit_ms"] + frame["propose_ms"]
    median = spent.groupby(run).median().to_numpy(float)
    ms = np.minimum(spent.to_numpy(float), LONGEST * median[run])

    def dense(values: np.ndarray) -> np.ndarray:
        out = np.full((len(counts), counts.max()), np.nan)
        out[run, step] = values
        return out

    error, cost = dense(frame["error"].to_numpy(float)), dense(frame["cost_s"].to_numpy(float))
    test = dense(frame["test_error"].to_numpy(float))
    curve = of_the_best(error, test) if judge == "test" else incumbents(error)
    columns = [*CELL, "acq", "utility", "rule", "tau", "iterations"]
    table = first[columns].astype(dict.fromkeys([*PROBLEM, "acq", "rule"], str))
    table = table.assign(label=table["utility"] + " x " + table["rule"], evaluations=counts,
                         ms_per_step=median)  # fmt: skip
    thinking = np.where(np.isnan(cost), np.nan, np.nan_to_num(dense(ms / 1e3)))
    return Runs(table, curve, cost, thinking, chosen["evaluator"])


def settings_of(results_dir: Path) -> dict[str, str]:
    """Return the settings of the utility of every spec on disk, as text, by the spec's hash."""
    return {
        spec_hash(spec): json.dumps(spec.get("components", {}).get("utility"), sort_keys=True)
        for spec in specs(results_dir)
    }


def _check_same_settings(frame: pd.DataFrame, settings: Mapping[str, str]) -> None:
    """Raise BadInput where one utility's runs were made with different settings, such as those of an older version."""
    seen = frame[["utility", "spec"]].drop_duplicates()
    kinds = seen.assign(settings=seen["spec"].map(settings)).groupby("utility")["settings"].nunique()
    several = [str(name) for name in kinds.index[kinds > 1]]
    if several:
        raise BadInput(
            f"the records of utility={', '.join(several)} were made with different settings of it: keep one "
            f"results_dir per setting, or say {TOLD}"
        )


def at_horizon(runs: Runs) -> tuple[Runs, int, dict[str, int]]:
    """Return one run per method and cell, cut after N evaluations without a deadline, and N: 100, or fewer.

    Last: how many runs of each method (label) are shorter or planned for another length, where no other serves a cell.

    Of a method that does not plan, the first N steps of a longer run count, as far as its deadline allowed it.
    Raises BadInput where no utility but EI has such runs.
    """
    table = runs.table
    own = table[(table["utility"] != "ei") & table["tau"].isna()]
    if own.empty:
        raise BadInput("the runs of utilities other than ei all have a deadline")
    n = int(min(STUDY_ITERATIONS, own["evaluations"].max()))
    fits = (table["evaluations"] >= n) & (~plans(table) | (table["tau"].isna() & (table["iterations"] == n)))
    if REFERENCE not in set(table.loc[fits, "label"]):
        raise BadInput(f"comparing utilities needs runs of {REFERENCE} with {n} evaluations: run study=utilities")
    kept = table[fits].sort_values(["iterations", "acq"], kind="stable").drop_duplicates([*CELL, "label"])
    found = runs.select(np.sort(kept.index.to_numpy()))
    served, short = pd.MultiIndex.from_frame(kept[[*CELL, "label"]]), table[~fits].drop_duplicates([*CELL, "label"])
    short = short[~pd.MultiIndex.from_frame(short[[*CELL, "label"]]).isin(served)]
    return (
        found.cut(np.full(len(found.table), n)),
        n,
        {str(k): int(v) for k, v in short["label"].value_counts().items()},
    )


def plans(table: pd.DataFrame) -> pd.Series:
    """Return which runs' choices depend on the length or the deadline that they were planned for."""
    return table["utility"].isin(PLANNING) | ~table["acq"].isin(methods.PREFIX_FAMILIES)


@dataclass(frozen=True)
class Complete:
    """The runs of `labels` on the cells that have them all; missing: methods left out, with how many cells they have.

    partial: cells left out, since they lack one of `labels`.
    """

    runs: Runs
    labels: list[str]
    missing: dict[str, int]
    partial: int


def complete(runs: Runs) -> Complete:
    """Choose methods and cells so that every cell has every method, and as many runs as possible are compared.

    Methods go in the order of their number of cells, fewest first; the reference stays. Raises BadInput without it.
    """
    present = runs.wide(np.ones(len(runs.table))).notna()
    if REFERENCE not in present:
        raise BadInput(f"comparing utilities needs runs of {REFERENCE}: run study=utilities")
    cells = {str(name): int(n) for name, n in present.sum().items()}
    order = sorted((name for name in cells if name != REFERENCE), key=lambda name: (cells[name], name))
    best: tuple[int, int] | None = None
    for gone in range(len(order)):
        size = int(present[[REFERENCE, *order[gone:]]].all(axis=1).sum()) * (1 + len(order) - gone)
        if size and (best is None or size > best[0]):
            best = (size, gone)
    if best is None:
        raise BadInput(f"no problem and seed has runs of {REFERENCE} and of another utility")
    labels = sorted([REFERENCE, *order[best[1] :]])
    whole = present[labels].all(axis=1)
    rows = runs.table["label"].isin(labels) & pd.MultiIndex.from_frame(runs.table[CELL]).isin(whole[whole].index)
    missing = {name: cells[name] for name in order[: best[1]]}
    return Complete(runs.select(rows.to_numpy()), labels, missing, int((~whole & present.any(axis=1)).sum()))


def thinking_counted(runs: Runs) -> Runs:
    """Return the same runs with the optimizer's own seconds added to those of training."""
    return replace(runs, cost_s=runs.cost_s + runs.thinking_s)

"""Recorded runs as dense arrays (`Traces`, by `collect`): one row per run, one column per step.

Also the choice of components, incumbent curves, and whether records are compatible. Notation: R runs, T steps of the
longest (0-based, initial design included; padding on the right is NaN), B budgets.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, no_type_check

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from analysis import REFERENCE
from analysis.methods import EI, PROBLEM, canonical
from datasets.errors import BadInput
from harness.compile_cache import njit
from harness.errors import unknown
from harness.records import read_traces

CELL = [*PROBLEM, "seed"]
RUN = [*PROBLEM, "acq", "lam", "alpha", "tau", "method", "iterations", "seed"]
MEASURED = ["error", "test_error", "cost_s", "effective_alpha"]
ARRAYS = [*MEASURED, "predicted_cost_s", "effective_alpha_high", "log_ei"]  # the last two: where the frame has them
STUDY_ITERATIONS = 100
Judge = Literal["validation", "test"]
AnyTraces = TypeVar("AnyTraces", bound="Traces")

# The components looked at: one evaluator, utility, surrogate and cost model, never a mix.


def choose_components(
    frame: pd.DataFrame, wanted: Mapping[str, str], free: Container[str] = ()
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the evaluations of one choice of components, and that choice; those `free` may be mixed.

    Component by component: the one `wanted`, else the only one there is, else the reference. Raises BadInput
    for a component that no run has, or when there are several and the reference is not among them.
    """
    chosen: dict[str, str] = {}
    for component, reference in REFERENCE.items():
        if component in free:
            continue
        names = sorted(map(str, frame[component].unique()))
        name = wanted.get(component, names[0] if len(names) == 1 else reference)
        so_far = " with " + ", ".join(f"{k}={v}" for k, v in chosen.items()) if chosen else ""
        frame, chosen[component] = _having(frame, component, name, so_far), name
    return frame, chosen


def filter_components(frame: pd.DataFrame, wanted: Mapping[str, str]) -> pd.DataFrame:
    """Return the evaluations whose components are those `wanted`, whatever the others; raises BadInput for none."""
    for component, name in wanted.items():
        frame = _having(frame, component, name)
    return frame


def _having(frame: pd.DataFrame, component: str, name: str, so_far: str = "") -> pd.DataFrame:
    names = sorted(map(str, frame[component].unique()))
    if name not in names:
        raise BadInput(f"no runs of {component}={name}{so_far}; the records hold: {', '.join(names)}")
    return frame if len(names) == 1 else frame[frame[component] == name]


# Incumbent curves: the best error found, as a step function of iterations or of cost.
# Padding and failed evaluations carry a NaN error; padding a NaN cost.
# Source: Guinet et al. 2020, optimal time allocation (best error with sum of costs <= tau).


def incumbents(error: Float[np.ndarray, "R T"]) -> Float[np.ndarray, "R T"]:
    """Return y*_t = min of error_i over i <= t; NaN before the first successful evaluation."""
    return np.fmin.accumulate(error, axis=1)


def at_incumbent(error: Float[np.ndarray, "R T"], other: Float[np.ndarray, "R T"]) -> Float[np.ndarray, "R T"]:
    """Return `other` (the test error, say) of the step of lowest `error` up to each step, the first of equal ones.

    NaN before the first successful evaluation.
    """
    best = incumbents(error)
    before = np.concatenate([np.full((len(error), 1), np.nan), best[:, :-1]], axis=1)
    improves = ~np.isnan(best) & (np.isnan(before) | (best < before))
    at = np.maximum.accumulate(np.where(improves, np.arange(error.shape[1]), -1), axis=1)
    return np.where(at >= 0, np.take_along_axis(other, np.maximum(at, 0), axis=1), np.nan)


def front(cost: Float[np.ndarray, " n"], error: Float[np.ndarray, " n"]) -> Int[np.ndarray, " f"]:
    """Return the rows that no other beats in one of both and matches in the other, from the cheapest to the best.

    Of equal rows one is kept; rows whose error is not finite are left out.
    """
    order = np.lexsort((error, cost))
    before = np.fmin.accumulate(np.concatenate([[np.inf], error[order]]))[:-1]
    return order[error[order] < before]


def spent(cost_s: Float[np.ndarray, "R T"]) -> Float[np.ndarray, "R T"]:
    """Return the cumulative cost in seconds, sum of cost_i over i <= t; NaN in the padding.

    Failed evaluations cost like any other.
    """
    return np.cumsum(cost_s, axis=1)


def finished_within(
    cost_s: Float[np.ndarray, "N T"], budgets_s: Float[np.ndarray, "R B"], rows: Int[np.ndarray, " R"] | None = None
) -> Int[np.ndarray, "R B"]:
    """Count each run's evaluations that end within each of its budgets (cumulative cost <= budget).

    rows: where the R runs are among the N whose costs are given; None: these are they.
    Raises ValueError for a budget that is NaN.
    """
    if np.isnan(budgets_s).any():
        raise ValueError("a budget must be a number of seconds, got NaN")
    done = np.zeros(budgets_s.shape, np.int64)
    at = np.arange(len(budgets_s)) if rows is None else rows
    _count_finished(np.asarray(cost_s, np.float64), at, np.ascontiguousarray(budgets_s, np.float64), done)
    return done


@njit(cache=True)
@no_type_check
def _count_finished(cost_s, rows, budgets_s, done):  # type: ignore[no-untyped-def]
    """Fill `done`: costs are summed in the order of `spent`, and budgets that ascend are met in one pass."""
    for k in range(len(rows)):
        run, step, total = rows[k], 0, 0.0
        for b in range(budgets_s.shape[1]):
            if b and budgets_s[k, b] < budgets_s[k, b - 1]:
                step, total = 0, 0.0
            while step < cost_s.shape[1] and total + cost_s[run, step] <= budgets_s[k, b]:  # not so for NaN
                total += cost_s[run, step]
                step += 1
            done[k, b] = step


def at_budgets(
    curve: Float[np.ndarray, "N T"],
    cost_s: Float[np.ndarray, "N T"],
    budgets_s: Float[np.ndarray, "R B"],
    rows: Int[np.ndarray, " R"] | None = None,
) -> Float[np.ndarray, "R B"]:
    """Return a curve over steps at its last step that ends within each budget; NaN where none does.

    Of `incumbents`, the best error within each budget: an evaluation that ends past it does not count.
    rows: see `finished_within`.
    """
    return at_step(curve, finished_within(cost_s, budgets_s, rows), rows)


def at_step(
    curve: Float[np.ndarray, "N T"], done: Int[np.ndarray, "R B"], rows: Int[np.ndarray, " R"] | None = None
) -> Float[np.ndarray, "R B"]:
    """Return a curve over steps after so many of them; NaN after none. rows: see `finished_within`."""
    at = np.arange(len(done)) if rows is None else rows
    return np.where(done > 0, curve[at[:, None], np.maximum(done - 1, 0)], np.nan)


# Compatibility: records that may be compared are of one table per problem, and of one engine.

MIXED = ", or say mixed=true"
REPLAYED = ("replay", "replay_loss")  # evaluators whose `data` is the checksum of a table, or begins with it


def check_same_origin(frame: pd.DataFrame, remedy: str = MIXED) -> None:
    """Raise BadInput where an evaluator's runs of a problem come from two tables, or runs from two engines.

    The frame is `harness.records.read_traces`'s; one without the columns `data` and `engine` says nothing of either.
    remedy: what else may be done about it, at the end of the line.
    """
    if not {"data", "engine"} <= set(frame.columns):
        return
    engines = sorted(map(str, frame["engine"].unique()))
    if len(engines) > 1:
        raise BadInput(
            f"the records are of engines {', '.join(engines)}, which choose differently: keep one results_dir per "
            f"engine{remedy}"
        )
    where = ["evaluator", *PROBLEM]
    tables = frame[[*where, "data"]].drop_duplicates().astype(str)
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


# The arrays.


def read_evaluations(results_dir: Path) -> pd.DataFrame:
    """Return every evaluation on disk (`harness.records.read_traces`), of its numbers those that analyses look at.

    Among them the largest alpha that would have made the choice; NaN where no models are recorded.
    """
    columns = ("seed", "step", *MEASURED, "predicted_cost_s", "log_ei")
    return read_traces(results_dir, columns=columns, of_models=("effective_alpha_high",))


@dataclass(frozen=True)
class _Origin:
    """Where selected runs come from: they are at the positions `rows` of `whole`, cut after `steps` (None: not cut)."""

    whole: "Traces"
    arrays: tuple[str, ...]
    rows: Int[np.ndarray, " R"]
    steps: int | None = None

    def take(self, array: np.ndarray) -> np.ndarray:
        """Return an array's part: a view, which takes no time and no memory, of runs that are neighbours."""
        rows = self.rows
        neighbours = len(rows) > 0 and bool((np.diff(rows) == 1).all())
        return np.asarray(array[:, : self.steps][slice(rows[0], rows[-1] + 1) if neighbours else rows])


@dataclass(frozen=True)
class Traces:
    """Runs of one choice of components.

    runs: keys (`RUN`, alpha, lam and method as `canonical` gives them), `evaluations`, `data` (the checksum of what
    was replayed or trained on, "" where the frame does not say), and `plans`: whether the choices depend on the length
    or the budget that the run was planned for; 0 .. R-1.

    error, test_error: NaN for a failed evaluation and as padding. cost_s: seconds, NaN as padding.
    effective_alpha: the least alpha that would have made the choice, NaN where none exists; effective_alpha_high: the
    largest, NaN throughout for a frame without it. log_ei, predicted_cost_s: log utility and predicted seconds of what
    the optimizer chose, NaN in the initial design; log_ei is NaN throughout for a frame without it. components: the
    choice, by kind. judge: which error of the chosen configurations counts.

    Of runs that were selected from others (`select`, `first`) each array is made when it is first asked for.
    """

    runs: pd.DataFrame
    error: Float[np.ndarray, "R T"]
    test_error: Float[np.ndarray, "R T"]
    cost_s: Float[np.ndarray, "R T"]
    effective_alpha: Float[np.ndarray, "R T"]
    effective_alpha_high: Float[np.ndarray, "R T"]
    log_ei: Float[np.ndarray, "R T"]
    predicted_cost_s: Float[np.ndarray, "R T"]
    components: dict[str, str]
    judge: Judge = "validation"

    @cached_property
    def incumbent(self) -> Float[np.ndarray, "R T"]:
        """The error, by `judge`, of each run's best configuration so far; best is by validation error."""
        if (origin := self._origin) is not None:
            return origin.take(origin.whole.incumbent)
        if self.judge == "test":
            return at_incumbent(self.error, self.test_error)
        return incumbents(self.error)

    @cached_property
    def spent_s(self) -> Float[np.ndarray, "R T"]:
        """`spent` of the costs."""
        return spent(self.cost_s) if (origin := self._origin) is None else origin.take(origin.whole.spent_s)

    @cached_property
    def total_s(self) -> Float[np.ndarray, " R"]:
        """What each run cost in all, in seconds."""
        return np.asarray(self.spent_s[np.arange(len(self.runs)), self.runs["evaluations"].to_numpy() - 1])

    @cached_property
    def proposed(self) -> Bool[np.ndarray, "R T"]:
        """The steps that the optimizer chose: those whose cost it predicted."""
        return ~np.isnan(self.predicted_cost_s)

    @property
    def evaluator(self) -> str:
        """The evaluator of these runs, such as ``replay``."""
        return self.components["evaluator"]

    def arrays(self) -> dict[str, Any]:
        """Return the arrays by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}

    @property
    def _origin(self) -> _Origin | None:
        found: _Origin | None = self.__dict__.get("_from")
        return found

    def __getattr__(self, name: str) -> Any:
        origin = self._origin
        if origin is None or name not in origin.arrays:
            raise AttributeError(f"{type(self).__name__} has no attribute {name}")
        return self.__dict__.setdefault(name, origin.take(getattr(origin.whole, name)))

    def select(self: AnyTraces, rows: np.ndarray) -> AnyTraces:
        """Return the runs at `rows` (positions, or a mask over the runs)."""
        at = np.flatnonzero(rows) if rows.dtype == bool else rows
        origin = self._whole()
        return self._selected(self.runs.iloc[at].reset_index(drop=True), replace(origin, rows=origin.rows[at]))

    def first(self: AnyTraces, steps: int) -> AnyTraces:
        """Return the same runs cut after `steps` steps."""
        origin = self._whole()
        runs = self.runs.assign(evaluations=self.runs["evaluations"].clip(upper=steps))
        return self._selected(runs, replace(origin, steps=steps if origin.steps is None else min(steps, origin.steps)))

    def _whole(self) -> _Origin:
        """Return where these runs come from, themselves if they were not selected."""
        return self._origin or _Origin(self, tuple(self.arrays()), np.arange(len(self.runs)))

    def _selected(self: AnyTraces, runs: pd.DataFrame, origin: _Origin) -> AnyTraces:
        """Return `runs`, selected from others, without arrays."""
        made = object.__new__(type(self))
        kept = [field.name for field in fields(self) if field.name not in origin.arrays]
        vars(made).update({name: getattr(self, name) for name in kept} | {"runs": runs, "_from": origin})
        return made


def check_judge(judge: object) -> None:
    """Raise BadInput unless `judge` is a `Judge`."""
    if judge not in get_args(Judge):
        raise unknown("judge", judge, get_args(Judge))


def collect(
    frame: pd.DataFrame,
    wanted: Mapping[str, str] | None = None,
    judge: Judge = "validation",
    mixed: bool = False,
) -> Traces:
    """Arrange a frame of evaluations (`harness.records.read_traces`) as `Traces`.

    `wanted`: components whose runs to take (see `choose_components`), such as ``{"evaluator": "live"}``. `judge`: the
    error of the configurations chosen that counts, ``validation`` or ``test``. `mixed`: whether runs of different
    tables or engines are meant to stand together.
    Raises BadInput: another judge, nothing there, a column missing, components without runs, runs mixed without saying
    so, a run recorded twice, or a trace with steps missing.
    """
    check_judge(judge)
    missing = [c for c in [*RUN, *MEASURED, "predicted_cost_s", *REFERENCE, "step", "spec"] if c not in frame.columns]
    if missing:
        raise BadInput(f"the records lack the column(s) {', '.join(missing)}")
    if frame.empty:
        raise BadInput("the records hold no evaluation: run a study first (python -m harness)")
    frame, chosen = choose_components(frame, wanted or {})
    if not mixed:
        check_same_origin(frame)
    runs, arrays = dense(frame, RUN, ARRAYS)
    data = runs["data"].astype(str) if "data" in runs else ""
    runs = runs[[*RUN, "spec", "plans", "evaluations"]].assign(data=data)
    return Traces(runs, components=chosen, judge=judge, **arrays)


def dense(
    frame: pd.DataFrame, keys: list[str], columns: list[str]
) -> tuple[pd.DataFrame, dict[str, Float[np.ndarray, "R T"]]]:
    """Return the runs that `keys` tell apart, in their order, with `evaluations` and canonical names; and the columns.

    A column that the frame lacks is NaN throughout.
    Raises BadInput for a run recorded twice (two specs under one name), or with a step missing.
    """
    step = frame["step"].to_numpy(dtype=np.int64)
    run, first = _numbered(frame, keys, step)
    counts = np.bincount(run)
    _check_steps(frame, run, step, counts)
    runs = frame.iloc[first].reset_index(drop=True)
    arrays = {}
    for name in columns:
        arrays[name] = np.full((len(counts), counts.max()), np.nan)
        if name in frame:
            arrays[name][run, step] = frame[name].to_numpy(dtype=float)
    return canonical(runs).assign(evaluations=counts), arrays


def _numbered(frame: pd.DataFrame, keys: list[str], step: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each row's run, numbered in the order of the keys, and each run's first row.

    Records come run by run and step by step; then the keys of the rows of step 0 say it all.
    """

    def number(rows: pd.DataFrame) -> np.ndarray:
        return rows.groupby(keys, dropna=False, observed=True, sort=True).ngroup().to_numpy()

    begins = step == 0
    part, start = np.cumsum(begins) - 1, np.flatnonzero(begins)
    if begins[0] and (step == np.arange(len(step)) - start[part]).all():
        same = ~begins[1:]
        spec, seed = frame["spec"].astype("category").cat.codes.to_numpy(), frame["seed"].to_numpy()
        if all((key[1:] == key[:-1])[same].all() for key in (spec, seed)):
            found = number(frame.iloc[start])
            if len(np.unique(found)) == len(found):
                first = np.empty_like(start)
                first[found] = start
                return found[part], first
    run = number(frame)
    return run, np.unique(run, return_index=True)[1]


def _check_steps(frame: pd.DataFrame, run: np.ndarray, step: np.ndarray, counts: np.ndarray) -> None:
    """Raise BadInput for a run with two evaluations of one step, or with a step missing."""
    gaps = (step < 0) | (step >= counts[run])
    seen = np.zeros((len(counts), counts.max()), bool)
    seen[run[~gaps], step[~gaps]] = True
    if not gaps.any() and seen.sum() == len(step):
        return
    twice = pd.Series(run * (counts.max() + step.max() + 1) + step).duplicated().to_numpy()
    at = int(np.argmax(twice if twice.any() else gaps))
    row = frame.iloc[at]
    method = row["method"] if row["utility"] == EI else f"{row['utility']} x {row['method']}"
    name = f"the run {method} on {row['dataset']}/{row['pipeline']} seed {row['seed']}"
    if not twice.any():
        raise BadInput(f"{name} lacks steps: a trace counts 0, 1, 2, ... without gaps")
    specs = sorted(set(frame.loc[run == run[at], "spec"].astype(str)))
    raise BadInput(f"{name} is recorded twice (spec {', '.join(specs)}): move the folders that end in one of these "
                   "away, or keep one results_dir per configuration")  # fmt: skip

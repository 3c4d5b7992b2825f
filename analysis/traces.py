"""Recorded runs as dense arrays (`Traces`, by `collect`): one row per run, one column per step; incumbent curves.

Notation: R runs, T steps of the longest (0-based, initial design included; padding on the right is NaN), B budgets.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal, TypeVar, get_args, no_type_check

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from analysis import REFERENCE
from analysis.evaluations import MEASURED, RUN, Evaluations, Recorded, check_same_origin, choose_components, dense
from datasets.errors import BadInput
from harness.compile_cache import njit
from harness.errors import unknown

STUDY_ITERATIONS = 100
Judge = Literal["validation", "test"]
AnyTraces = TypeVar("AnyTraces", bound="Traces")

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


# The arrays.


@dataclass(frozen=True)
class _Origin:
    """Where selected runs come from: they are at the positions `rows` of `whole`, cut after `steps` (None: not cut)."""

    whole: "Traces"
    rows: Int[np.ndarray, " R"]
    steps: int | None = None

    def take(self, array: np.ndarray) -> np.ndarray:
        """Return an array's part: a view, which takes no time and no memory, of runs that are neighbours."""
        rows = self.rows
        neighbours = len(rows) > 0 and bool((np.diff(rows) == 1).all())
        return np.asarray(array[:, : self.steps][slice(rows[0], rows[-1] + 1) if neighbours else rows])

    def array(self, name: str) -> np.ndarray:
        """Return that part of one of the arrays."""
        return self.take(getattr(self.whole, name))


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

    Of runs that were collected, or selected from others, each array is made when it is first asked for.
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
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in _NO_ARRAYS}

    @property
    def _origin(self) -> _Origin | None:
        found: _Origin | None = self.__dict__.get("_from")
        return found

    def __getattr__(self, name: str) -> Any:
        make = self.__dict__.get("_make")
        if make is None or name in _NO_ARRAYS or name not in self.__dataclass_fields__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name}")
        return self.__dict__.setdefault(name, make(name))

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
        return self._origin or _Origin(self, np.arange(len(self.runs)))

    def _selected(self: AnyTraces, runs: pd.DataFrame, origin: _Origin) -> AnyTraces:
        """Return `runs`, selected from others."""
        made = lazily(type(self), runs, origin.array, self.components, self.judge)
        vars(made)["_from"] = origin
        return made


_NO_ARRAYS = ("runs", "components", "judge")


def lazily(
    kind: type[AnyTraces],
    runs: pd.DataFrame,
    make: Callable[[str], np.ndarray],
    components: dict[str, str],
    judge: Judge,
) -> AnyTraces:
    """Return traces of which `make` makes each array, by its name, when it is first asked for."""
    made = object.__new__(kind)
    vars(made).update(runs=runs, components=components, judge=judge, _make=make)
    return made


def check_judge(judge: object) -> None:
    """Raise BadInput unless `judge` is a `Judge`."""
    if judge not in get_args(Judge):
        raise unknown("judge", judge, get_args(Judge))


def check_columns(recorded: Recorded) -> None:
    """Raise BadInput for a frame that lacks a column of those that `harness.read` gives."""
    needed = [*RUN, *MEASURED, "predicted_cost_s", *REFERENCE, "step", "spec"]
    if isinstance(recorded, pd.DataFrame) and (missing := [name for name in needed if name not in recorded.columns]):
        raise BadInput(f"the records lack the column(s) {', '.join(missing)}")


def collect(
    recorded: Recorded,
    wanted: Mapping[str, str] | None = None,
    judge: Judge = "validation",
    mixed: bool = False,
) -> Traces:
    """Arrange evaluations as `Traces`.

    `wanted`: components whose runs to take (see `choose_components`), such as ``{"evaluator": "live"}``. `judge`: the
    error of the configurations chosen that counts, ``validation`` or ``test``. `mixed`: whether runs of different
    tables or engines are meant to stand together.
    Raises BadInput: another judge, nothing there, a column missing, components without runs, runs mixed without saying
    so, a run recorded twice, or a trace with steps missing.
    """
    check_judge(judge)
    check_columns(recorded)
    evaluations = Evaluations.of(recorded)
    if evaluations.runs.empty:
        raise BadInput("the records hold no evaluation: run a study first (python -m harness)")
    evaluations, chosen = choose_components(evaluations, wanted or {})
    if not mixed:
        check_same_origin(evaluations.runs)
    runs, arranged = dense(evaluations, RUN)
    data = runs["data"].astype(str) if "data" in runs else ""
    runs = runs[[*RUN, "spec", "plans", "evaluations"]].assign(data=data)
    return lazily(Traces, runs, arranged, chosen, judge)

"""Replay: a measured table as the problem of one run, and the evaluator `replay` that opens tables so.

Also the settings that evaluators on tables share (`TableSettings`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, no_type_check

import numpy as np
from jaxtyping import Float, Int, UInt

from datasets.errors import BadInput
from harness.arrays import point_keys
from harness.compile_cache import njit
from harness.errors import folder, one_of, whole
from harness.problem import Candidates, Curve, Evaluation, Evaluator, Problem, Stop, TableRows, cap, draw_of, stopped
from harness.space import XGBOOST_SPACE
from harness.streams import stream
from tabular_cache.schema import problem_name
from tabular_cache.table import TABLES, Table, about, configurations, first_configs, read_table

# The problem of one run: candidates are rows; evaluating one looks it up.

COST_COLUMNS = {"scaled": "scaled_s", "cpu": "cpu_s", "wall": "wall_s"}
_NEIGHBOURS = 200  # of the incumbent, always on offer when the rows are too many to offer all
_SAMPLED = 16  # values of which one is looked at to tell about which of them are the smallest


class ReplayProblem(Problem):
    """A table replayed for one run: what was evaluated is not offered again.

    The initial design draws configurations, each at its full number of rounds, since these fill the space
    evenly; the shorter prefixes of the same trainings crowd its cheap end.
    """

    space = XGBOOST_SPACE
    costs_known = snaps = True
    rounds, stoppable = "n_estimators", True

    def __init__(
        self,
        table: Table,
        seed: int,
        max_candidates: int,
        cost: str = "scaled",
        n_configs: int | None = None,
        objective: str = "error",
    ) -> None:
        self.name, self.about = table.problem, about(table.problem, table.meta)
        self._places: tuple[np.ndarray, np.ndarray] | None = None
        self._table, self._seed, self._max = table, seed, max_candidates
        self._cost = table[COST_COLUMNS[cost]]
        self._error, self._test_error = table[f"val_{objective}"], table[f"test_{objective}"]
        self._known = first_configs(table, n_configs)
        self._free = table.measured & self._known
        self._left = int(self._free.sum())
        self._best = self._near_to = -1
        self._near = np.empty(0, np.intp)
        self._drawn = -1, self._near  # the step of the draw that serves, and its rows
        self._paid_s: dict[int, tuple[int, float]] = {}  # by configuration: its last row trained, and seconds up to it

    def initial(self, n: int) -> Candidates:
        """Return `n` configurations drawn without replacement from (problem, seed)."""
        rows = np.flatnonzero(self._table.longest & self._known)
        if len(rows) < n:
            raise BadInput(f"the table of {self.name} has {len(rows)} configurations, the initial design needs {n}")
        ids = stream(self._seed, "initial", self.name).choice(rows, size=n, replace=False)
        return TableRows(ids, self._table.unit)

    def nearest(self, unit: Float[np.ndarray, "k d"]) -> Candidates:
        """Return for each point the nearest unevaluated row, each once, while there are some; ties: the lower row."""
        rows = np.flatnonzero(self._free)
        unit = unit[: len(rows)]
        ids = np.empty(len(unit), np.intp)
        for i, point in enumerate(unit):
            gaps = np.square(self._table.unit[rows] - point).sum(axis=1)
            gaps[np.isin(rows, ids[:i])] = np.inf
            ids[i] = rows[gaps.argmin()]
        return TableRows(ids, self._table.unit)

    def candidates(self, step: int) -> Candidates:
        """Return the unevaluated rows; beyond `max_candidates`, a seeded draw and the incumbent's neighbours."""
        if self._left <= self._max:
            return self.all_candidates(step)
        ids = self._draw(step)
        return TableRows(ids, self._table.unit)

    def all_candidates(self, step: int) -> Candidates:
        """Return the unevaluated rows, however many: to random search, the incumbent's neighbours are as any others."""
        ids = np.flatnonzero(self._free)
        return TableRows(ids, self._table.unit)

    def offer(self, step: int, candidate: int) -> Candidates:
        """Return that row, without drawing others; raises ValueError if it was evaluated before."""
        if not self._free[candidate]:
            raise ValueError(f"{self.name} does not offer candidate {candidate} at step {step}")
        ids = np.array([candidate])
        return TableRows(ids, self._table.unit)

    def _draw(self, step: int) -> np.ndarray:
        near, drawn_at = self._neighbours(), draw_of(step)
        if self._drawn[0] != drawn_at:
            among = self._left - len(near)
            places = _drawn(self._seed, self.name, drawn_at, among, self._max - len(near))
            self._drawn = drawn_at, _left(self._free, near).take(places)
        return _on_offer(self._free, near, self._drawn[1])  # type: ignore[no-any-return]

    def _neighbours(self) -> np.ndarray:
        """Return the unevaluated rows nearest to the incumbent; none while nothing has succeeded."""
        if self._best < 0:
            return np.empty(0, np.intp)
        n = min(_NEIGHBOURS, self._max // 2)
        near = self._near[self._free[self._near]]
        if self._near_to != self._best or len(near) < n:
            rows = np.flatnonzero(self._free)
            nearest = smallest(_squared_distances(self._table.unit, rows, self._best), 3 * n)
            self._near, self._near_to = rows[nearest], self._best
            near = self._near
        return near[:n]

    def true_cost_s(self, C: Float[np.ndarray, "m d"]) -> Float[np.ndarray, " m"]:
        """Return the costs in seconds of points that are rows of the table; raises ValueError for others."""
        if self._places is None:
            keys = point_keys(self._table.unit)
            rows = np.argsort(keys, kind="stable")
            self._places = keys[rows], rows
        keys, rows = self._places
        found = rows[
            np.searchsorted(keys[:-1], point_keys(C))
        ]  # without the last: what lies beyond it is compared with it
        if not np.array_equal(self._table.unit[found], C):
            raise ValueError(f"the table of {self.name} does not hold all of these points")
        return self._cost[found].astype(float)

    def evaluate(self, candidate: int) -> Evaluation:
        """Look the row up and take it off the offer."""
        self._note(candidate)
        return self._look_up(candidate)

    def evaluate_with_curve(self, candidate: int, stop: Stop | None = None) -> Evaluation:
        """Look up the row and the shorter rows of its configuration, and take them all off the offer.

        stop: asked at every one that was not trained before, in their order. Without it a row costs all that is
        measured there, whatever was trained before.
        """
        config = self._table["config"]
        same = np.arange(np.searchsorted(config, config[candidate]), candidate + 1)  # sorted by rounds, too
        shown = same[self._table.measured[same] & np.isfinite(self._error[same])]
        if not len(shown) or shown[-1] != candidate:
            return self.evaluate(candidate)  # it failed
        before, paid_s = self._paid_s.get(int(config[candidate]), (-1, 0.0)) if stop is not None else (-1, 0.0)
        new = shown > before
        for k in np.flatnonzero(new[:-1]) if stop is not None else ():
            if stop is not None and stop(self._curve(shown[: k + 1])):
                shown = shown[: k + 1]
                break
        last = int(shown[-1])
        curve = self._curve(shown)
        self._note(int(shown[curve.best]))
        self._take(same[same <= last])
        found = self._look_up(last)
        if stop is not None and last > before:
            self._paid_s[int(config[candidate])] = last, found.cost_s
        cost_s = max(found.cost_s - paid_s, float(np.finfo(np.float32).tiny))
        return replace(found, cost_s=cost_s, wall_s=found.wall_s * cost_s / found.cost_s, curve=curve)

    def _curve(self, rows: np.ndarray) -> Curve:
        rounds = self._table.native[rows, XGBOOST_SPACE.names.index(self.rounds)]
        columns = (self._error[rows], self._test_error[rows], self._cost[rows])
        return Curve(tuple(int(r) for r in rounds), *(tuple(float(v) for v in column) for column in columns))

    def _note(self, candidate: int) -> None:
        """Note an error that was seen: candidates near the lowest are always on offer."""
        error = self._error[candidate]
        if np.isfinite(error) and (self._best < 0 or error < self._error[self._best]):
            self._best = candidate

    def _take(self, rows: np.ndarray | int) -> None:
        """Take rows off the offer."""
        self._left -= int(self._free[rows].sum())
        self._free[rows] = False

    def _look_up(self, candidate: int) -> Evaluation:
        table = self._table
        self._take(candidate)
        return Evaluation(
            error=float(self._error[candidate]),
            cost_s=float(self._cost[candidate]),
            test_error=float(self._test_error[candidate]),
            wall_s=float(table["wall_s"][candidate]),
            status=table.statuses[table.status[candidate]],
        )

    def evaluate_capped(self, candidate: int, cap_s: float) -> Evaluation:
        """Look the row up, as a training stopped at `cap_s` seconds would have ended."""
        if self._cost[candidate] <= cap(cap_s):
            return self.evaluate(candidate)
        return stopped(self._look_up(candidate), cap_s)  # its error stays unseen, by the choice of candidates too


@lru_cache(maxsize=1200)  # every draw of ten runs of 100 evaluations: the next method's runs take most of them again
def _drawn(seed: int, problem: str, step: int, among: int, size: int) -> UInt[np.ndarray, " m"]:
    """Return `size` different places among so many, in no order."""
    rng = stream(seed, "candidates", problem, str(step))
    return rng.choice(among, size, replace=False, shuffle=False).astype(np.min_scalar_type(among))


@njit(cache=True)
@no_type_check
def _left(free, near):  # type: ignore[no-untyped-def]
    """Return the rows that are free but for those `near`."""
    wanted = free.copy()
    for row in near:
        wanted[row] = False
    return _rows(wanted)


@njit(cache=True)
@no_type_check
def _on_offer(free, near, drawn):  # type: ignore[no-untyped-def]
    """Return, in order, the rows of either that are free."""
    wanted = np.zeros(len(free), np.bool_)
    for row in near:
        wanted[row] = free[row]
    for row in drawn:
        wanted[row] = free[row]
    return _rows(wanted)


@njit(inline="always")
@no_type_check
def _rows(wanted):  # type: ignore[no-untyped-def]
    """Return the rows that are wanted: `np.flatnonzero`, at a third of its price where few are."""
    rows, found = np.empty(len(wanted), np.intp), 0
    for row in range(len(wanted)):
        rows[found] = row
        found += wanted[row]
    return rows[:found].copy()


def smallest(values: Float[np.ndarray, " m"], count: int) -> Int[np.ndarray, " k"]:
    """Return where the `count` smallest values are, in their order, or all; of equal ones the first."""
    sample, at = values[::_SAMPLED], 2 * count // _SAMPLED
    if at < len(sample):
        low = np.flatnonzero(values <= np.partition(sample, at)[at])  # about twice as many as are wanted
        if len(low) >= count:
            return low[np.argsort(values[low], kind="stable")[:count]]
    return np.argsort(values, kind="stable")[:count]  # not argpartition, whose order depends on the processor


@njit(cache=True)
@no_type_check
def _squared_distances(unit: Float[np.ndarray, "r d"], rows: Int[np.ndarray, " m"], to: int) -> Float[np.ndarray, " m"]:
    """Return |u_i - u_to|^2 of `rows`, in one pass over a table that no cache holds."""
    out = np.zeros(len(rows))
    for i in range(len(rows)):
        for j in range(unit.shape[1]):
            out[i] += (unit[rows[i], j] - unit[to, j]) ** 2
    return out


# The evaluator.

OBJECTIVES = ("error", "loss")


class TableSettings(Evaluator):
    """Where the tables of an evaluator lie, and how much of each it uses.

    tables: the folder, None for the shipped one; n_configs: use the first so many configurations of a table only,
    None for all. Raises BadInput for less than one, and for more than the table of a problem has (`first_configs`).
    at_most_configs: the same where a table may have fewer; a folder of tables, which every worker needs, stands for as
    many as the problem's table there has, so that two folders are replayed with equally many. Not both.
    """

    tables: str | None
    n_configs: int | None
    at_most_configs: int | str | None

    def __post_init__(self) -> None:
        if self.tables is not None:
            folder("evaluator.tables", self.tables)
        if self.n_configs is not None:
            whole("evaluator.n_configs", self.n_configs, 1)
        most = self.at_most_configs
        if most == "" or not (most is None or isinstance(most, str)):
            whole("evaluator.at_most_configs, if it names no folder,", most, 1)
        if most is not None and self.n_configs is not None:
            raise BadInput("evaluator.n_configs and evaluator.at_most_configs exclude each other")

    def _configs(self, problem: str) -> int | None:
        """Return how many of the first configurations of a problem's table are used, None for all."""
        most = self.at_most_configs
        if most is None:
            return self.n_configs
        if isinstance(most, str):
            most = configurations(read_table(problem, Path(most)))
        return min(most, configurations(read_table(problem, self._folder)))

    @property
    def _folder(self) -> Path:
        return TABLES if self.tables is None else folder("evaluator.tables", self.tables)

    @staticmethod
    def _problem(dataset: Mapping[str, Any], pipeline: Mapping[str, Any]) -> str:
        return problem_name(str(dataset["name"]), str(pipeline["name"]))


@dataclass(frozen=True)
class Replay(TableSettings):
    """The evaluator `replay`: opens measured tables as problems.

    tables: folder of the tables, null for the shipped ones; max_candidates: rows scored per step at most;
    cost: "scaled" (CPU seconds on the reference machine), "cpu" or "wall" (seconds as measured); n_configs: only
    the first so many configurations of a table, null for all; at_most_configs: the same where tables may have fewer;
    objective: what is minimised and recorded as the error, "error" (misclassification rate or RMSE) or
    "loss" (log-loss or RMSE).
    """

    tables: str | None = None
    max_candidates: int = 5000
    cost: str = "scaled"
    n_configs: int | None = None
    objective: str = "error"
    seeds_per_block: int | None = 10  # a block takes seconds: workers that share many of them end together
    at_most_configs: int | str | None = None

    def __post_init__(self) -> None:
        whole("evaluator.max_candidates", self.max_candidates, 2)
        one_of("evaluator.cost", self.cost, COST_COLUMNS)
        one_of("evaluator.objective", self.objective, OBJECTIVES)
        super().__post_init__()

    def fingerprint(self, dataset: Mapping[str, Any], pipeline: Mapping[str, Any]) -> str:
        """Return the table's sha256, and how much of it counts where another folder says so.

        Raises BadInput when a table is missing or damaged.
        """
        table = self._table(dataset, pipeline)
        part = f"-first-{self._configs(table.problem)}" if isinstance(self.at_most_configs, str) else ""
        return f"{table.meta['sha256']}{part}"

    def check_design(self, dataset: Mapping[str, Any], pipeline: Mapping[str, Any], n: int) -> None:
        """Raise BadInput if the table, or its part in use, has fewer than `n` configurations to begin with."""
        table = self._table(dataset, pipeline)
        used = self._configs(table.problem)
        there = int((table.longest & first_configs(table, used)).sum())
        if there < n:
            setting = "at_most_configs" if self.n_configs is None else "n_configs"
            part = "" if used is None else f" in use (evaluator.{setting}={used})"
            raise BadInput(f"the table of {table.problem} has {there} configurations{part}, n_initial={n} needs more")

    def open(self, dataset: Mapping[str, Any], pipeline: Mapping[str, Any], seed: int) -> ReplayProblem:
        """Return the problem of one run."""
        table = self._table(dataset, pipeline)
        configs = self._configs(table.problem)
        return ReplayProblem(table, seed, self.max_candidates, self.cost, configs, self.objective)

    def _table(self, dataset: Mapping[str, Any], pipeline: Mapping[str, Any]) -> Table:
        return read_table(self._problem(dataset, pipeline), self._folder)

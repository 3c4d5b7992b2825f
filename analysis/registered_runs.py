"""The runs of a registered test (NEW_METHODS.md), half by half, and what is kept of them.

Errors are as in `analysis.equal_cost`: of runs paired by problem and seed, cut where the budget is spent, in percent of
EI's final error; EI cut so is EI-n. The runs take hours. What the test needs of them, a row per run, is written beside
its outcome (`RUNS`); a folder of such files, of data sets that were run at other times or on other machines, has one
outcome (`kept_halves`).
"""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Bool, Float, Int

from analysis.equal_cost import pair_runs
from analysis.evaluations import CELL, Evaluations, Recorded, check_same_origin
from analysis.leaderboard import own_times
from analysis.methods import EI, by_method, require
from analysis.statistics import group_means
from analysis.traces import Judge, collect
from datasets.errors import BadInput
from datasets.files import write_atomically
from tabular_cache.schema import digest_of
from tabular_cache.table import TABLES, table_entries

METHOD = "informed"  # of the first test, and no rival in any
BUDGETS = (10.0, 20.0, 40.0, 60.0, 70.0, 80.0, 100.0)
HALVES = {
    "development": ["abalone", "bank32nh", "hiva", "letters", "parkinsons", "phoneme", "satellite", "satimage_code",
                    "wind"],
    "judgement": ["bach", "coil2000", "kin8nm", "mtp", "pendigits", "spam", "texture", "turkiye", "wine"],
}  # fmt: skip
BOTH = "both"  # the name of both halves together
RUNS = "new_methods_runs"  # how the names of such files begin


@dataclass(frozen=True)
class Half:
    """The runs on the data sets of a half, or both: errors in percent of EI's final, (C cells, S budgets, M methods).

    method: the one that is tested; families: the positions in `methods` of each family's; runs: per cell and method, in
    this order, what says where a run comes from; ms: own milliseconds per step; judge: by which error; n: EI's
    evaluations, whose cost is 100 %; done, ended: how many evaluations a run had made when so much was spent, and
    whether it had ended before.
    absent: cells without runs of every method; uncounted: those in which EI's final error is 0 or missing; sparse:
    methods left out, for want of runs. tables: which tables stood there, of which methods learn.
    """

    name: str
    method: str
    methods: list[str]
    families: dict[str, list[int]]
    cells: pd.DataFrame
    runs: pd.DataFrame
    error: Float[np.ndarray, "C S M"]
    done: Int[np.ndarray, "C S M"]
    ended: Bool[np.ndarray, "C S M"]
    ms: Float[np.ndarray, "C M"]
    judge: str
    n: int
    absent: int
    uncounted: int
    sparse: str
    tables: str

    @property
    def title(self) -> str:
        """The name as a reader sees it."""
        return "Both halves" if self.name == BOTH else f"{self.name.capitalize()} half"

    @cached_property
    def dataset(self) -> np.ndarray:
        """The data set of each cell, 0 .. D-1."""
        return np.asarray(pd.factorize(self.cells["dataset"])[0])

    def best(self, budget: float, methods: Sequence[int]) -> tuple[int, Float[np.ndarray, " D"]]:
        """Return the method with the lowest mean over data sets at a budget, and the data sets' mean errors of it.

        NaN for a data set in which no cell counts; all methods have the same ones.
        """
        means = group_means(self.error[:, BUDGETS.index(budget), list(methods)], self.dataset)
        there = np.isfinite(means).all(axis=1)
        k = int(means[there].mean(axis=0).argmin()) if there.any() else 0
        return methods[k], np.asarray(means[:, k])

    def used_up(self, budget: float, methods: Sequence[int]) -> float:
        """Return the share of a method's runs that had not ended before a budget was spent, the least of these."""
        k = BUDGETS.index(budget)
        counted = np.isfinite(self.error[:, k]).all(axis=1)
        return float(1 - self.ended[counted, k][:, list(methods)].mean(axis=0).max()) if counted.any() else np.nan


def halves(
    recorded: Recorded,
    thinking_ms: pd.Series,
    wanted: Mapping[str, str],
    judge: Judge = "validation",
    mixed: bool = False,
    method: str = METHOD,
) -> list[Half]:
    """Return the halves that the records hold; raises BadInput for none, and without runs of EI or of `method`.

    thinking_ms: by (spec, seed).
    """
    _check_method(method)
    found, evaluations = [], Evaluations.of(recorded)
    tables = digest_of({problem: str(entry["sha256"]) for problem, entry in table_entries(TABLES).items()})
    for name, datasets in HALVES.items():
        part = evaluations.select(evaluations.runs["dataset"].isin(datasets).to_numpy())
        if part.runs.empty:
            continue
        runs = pair_runs(collect(part, wanted, judge, mixed), "not asked for")
        require(runs.traces.runs, method, "the registered test")
        if method not in runs.methods:
            raise BadInput(f"the registered test needs {method} on more problems and seeds: on the {name} half it has "
                           "less than half of EI's runs")  # fmt: skip
        error, done, ended = runs.within(BUDGETS)
        error *= 100 / runs.final[:, None, None]
        error[~np.isfinite(error).all(axis=2)] = np.nan  # a budget within which some method has no evaluation
        engines = sorted(map(str, part.runs["engine"].unique())) if "engine" in part.runs else []
        origin = runs.traces.runs.iloc[runs.rows.ravel()][["method", "data", "spec"]].reset_index(drop=True)
        origin = origin.assign(engine="+".join(engines), evaluator=runs.traces.components["evaluator"])
        found.append(
            Half(
                name, method, runs.methods, runs.families, runs.cells, origin, error, done, ended,
                own_times(runs, thinking_ms), judge, runs.n, runs.absent, runs.zero + runs.failed,
                "; ".join(runs.sparse), tables,
            )
        )  # fmt: skip
    if not found:
        raise BadInput(
            "the records hold no run on the data sets of NEW_METHODS.md: python -m harness study=new_methods"
        )
    return found


def _check_method(method: str) -> None:
    if method == EI:
        raise BadInput(f"method={EI} is what the others are compared with: name another method")


# What is kept of the runs.

_ORIGIN = ("evaluator", "data", "engine", "spec")  # as `harness.records.read_traces` describes them
_HALF = ("judge", "n", "absent", "uncounted", "sparse", "tables")  # the same in all rows of a half
_ALL = ("judge", "n", "tables")  # and in all files
_AT = ("error", "done", "ended")  # a column for each budget


def _rows(found: Sequence[Half]) -> pd.DataFrame:
    """Return a row per run: half, cell, method, family, what there is at each budget (error NaN: none counts), ms."""
    parts = []
    for half in found:
        many = len(half.methods)
        family = {half.methods[k]: name for name, members in half.families.items() for k in members}
        rows = half.cells.loc[half.cells.index.repeat(many)].reset_index(drop=True)
        rows = rows.assign(half=half.name, **{name: getattr(half, name) for name in _HALF})
        rows = rows.join(half.runs.astype(str))
        for name, k in product(_AT, range(len(BUDGETS))):
            rows[f"{name}_{BUDGETS[k]:g}"] = getattr(half, name)[:, k].ravel()
        parts.append(rows.assign(family=rows["method"].map(family), ms=half.ms.ravel()))
    return pd.concat(parts, ignore_index=True)


def write_runs(found: Sequence[Half], path: Path) -> None:
    """Write the rows of the halves' runs, from which `kept_halves` has them again."""
    sink = io.BytesIO()
    table = pa.Table.from_pandas(_rows(found), preserve_index=False)
    pq.write_table(table, sink, compression="zstd", compression_level=9)
    write_atomically(path, sink.getvalue())


def kept_halves(folder: Path, judge: Judge, method: str = METHOD) -> list[Half]:
    """Return the halves that the files of `write_runs` in a folder hold together, none where it has no such file.

    Raises BadInput for files of another error, of different lengths, methods, tables or engines, for a run in two of
    them, and without runs of `method`.
    """
    files = sorted(folder.glob(f"{RUNS}*.parquet"))
    if not files:
        return []
    rows = pd.concat([pq.read_table(file).to_pandas().assign(file=file.name) for file in files], ignore_index=True)
    _check_method(method)
    _check_together(rows, f"the files in {folder}")
    if rows["judge"].iloc[0] != judge:
        raise BadInput(f"the runs kept in {folder} are judged by {rows['judge'].iloc[0]} error: judge={judge} needs "
                       "the records themselves")  # fmt: skip
    twice = rows[rows.duplicated([*CELL, "method"])]
    if not twice.empty:
        raise BadInput(f"{folder} keeps the run of {twice['method'].iloc[0]} on {twice['dataset'].iloc[0]}/"
                       f"{twice['pipeline'].iloc[0]} with seed {twice['seed'].iloc[0]} twice")  # fmt: skip
    if method not in set(rows["method"]):
        raise BadInput(f"{folder} keeps no runs of {method}, but of {', '.join(dict.fromkeys(rows['method']))}")
    halves = sorted(rows.groupby("half"), key=lambda part: list(HALVES).index(str(part[0])))
    return [_kept_half(str(name), method, part, str(folder)) for name, part in halves]


def _check_together(rows: pd.DataFrame, what: str) -> None:
    for name in _ALL:
        if rows[name].nunique() > 1:
            values = ", ".join(f"{own.iloc[0]} in {file}" for file, own in list(rows.groupby("file")[name])[:3])
            raise BadInput(f"{what} do not go together: {name} is {values}, ...")
    check_same_origin(rows, "")


def both(found: Sequence[Half]) -> Half:
    """Return the two halves as one; raises BadInput where one is missing, and where they do not go together."""
    if len(found) < 2:
        raise BadInput(f"there are runs of the {found[0].name} half alone")
    rows = _rows(found).assign(file=lambda rows: rows["half"])
    _check_together(rows, "the halves")
    return _kept_half(BOTH, found[0].method, rows, "the halves")


def _kept_half(half: str, method: str, rows: pd.DataFrame, source: str) -> Half:
    lists = {str(file): list(dict.fromkeys(part["method"])) for file, part in rows.groupby("file")}
    first, methods = next(iter(lists.items()))
    for file, own in lists.items():
        if own != methods:
            raise BadInput(f"{source}: {file} has other methods than {first}: "
                           f"{', '.join(sorted(set(own) ^ set(methods))) or 'in another order'}")  # fmt: skip
    rows = rows.assign(place=rows["method"].map({method: k for k, method in enumerate(methods)}))
    rows = rows.sort_values([*CELL, "place"], ignore_index=True)
    cells = rows[CELL].drop_duplicates(ignore_index=True)
    family = by_method(rows)["family"]
    families: dict[str, list[int]] = {}
    for k, name in enumerate(methods):
        families.setdefault(str(family[name]), []).append(k)
    shape = len(cells), len(methods)
    at: dict[str, Any] = {}
    for name in _AT:
        columns = [rows[f"{name}_{budget:g}"].to_numpy().reshape(shape) for budget in BUDGETS]
        at[name] = np.stack(columns, axis=1)
    of_half: dict[str, Any] = {name: rows[name].iloc[0] for name in _HALF}
    each = rows.drop_duplicates("file")
    of_half |= {name: int(each[name].sum()) for name in ("absent", "uncounted")} | {"n": int(rows["n"].iloc[0])}
    of_half["sparse"] = "; ".join(sorted({method for text in each["sparse"] for method in text.split("; ") if method}))
    ms = rows["ms"].to_numpy().reshape(shape)
    return Half(half, method, methods, families, cells, rows[["method", *_ORIGIN]], **at, ms=ms, **of_half)

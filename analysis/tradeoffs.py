"""Trade-offs of cost and error: relative to EI on the same problem and seed, and the EI-cost fronts.

The fronts are those that `python -m harness fronts=true` keeps: the numbers of F1 and F7.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int

from analysis import REFERENCE
from analysis.evaluations import CELL, check_same_origin
from analysis.methods import EI, PROBLEM, by_method, require
from analysis.statistics import Statistic, ratios_of_sums, with_intervals
from analysis.traces import Traces
from datasets.errors import BadInput
from harness.records import FRONTS, front_files, read_header
from harness.sealed import damage_named, read_parquet, spec_hash

# The EI-cost fronts on disk.

_WORDS = ("dataset", "pipeline", "acq", "method", *REFERENCE, "iterations")
_ORIGIN = ("data", "engine")


def read_fronts(*folders: Path) -> pd.DataFrame:
    """Return every point of every front in the folders, with its run's description; empty where there is none.

    Columns: those of `harness.records.FRONTS` (see `harness.fronts.FrontRecorder`), and the run's dataset, pipeline,
    acq, method, components (`analysis.REFERENCE`), iterations, data, engine and spec; words as categories. A run that
    several folders hold is returned once. Raises BadInput for a damaged file.
    """
    parts, words, known = list[pa.Table](), list[dict[str, Any]](), set[tuple[str, int]]()
    for path in (path for folder in folders for path in front_files(folder)):
        with damage_named(path):
            header = read_header(path)
            spec, found = header["spec"], read_parquet(path)
            runs = {(spec_hash(spec), seed) for seed in header["seeds"]}
            if twice := runs & known:
                seeds = pa.array([seed for _, seed in twice], found["seed"].type)
                found = found.filter(pc.invert(pc.is_in(found["seed"], seeds)))
            known |= runs
            if "stays_for" not in found.column_names:  # from before points were followed for more than a step
                found = found.append_column("stays_for", pa.nulls(len(found), pa.int32()))
            parts.append(found.select(FRONTS.names).cast(FRONTS).replace_schema_metadata(None))
            own = {name: spec.get(name, REFERENCE.get(name)) for name in _WORDS}
            words.append(own | {name: str(spec.get(name, "")) for name in _ORIGIN} | {"spec": spec_hash(spec)})
    if not parts:
        return pd.DataFrame(columns=[*FRONTS.names, *_WORDS, *_ORIGIN, "spec"])
    frame, lengths = pa.concat_tables(parts).to_pandas(), [len(part) for part in parts]
    for name in words[0]:
        values = pd.Series([own[name] for own in words])
        column = values if name == "iterations" else values.astype("category")
        frame[name] = column.repeat(lengths).array
    return frame


def reference(fronts: pd.DataFrame) -> pd.DataFrame:
    """Return the fronts of EI's runs under one choice of components, the longest run of each.

    Component by component the study's own (`analysis.REFERENCE`), or what there is. Raises BadInput where EI has
    none, and where one problem and seed has fronts under several settings, or they are of different tables or engines:
    what lies on a front depends on that.
    """
    own = fronts[fronts["acq"] == EI]
    if own.empty:
        found = ", ".join(sorted(set(fronts["method"]))) or "none"
        raise BadInput(f"no fronts of ei; there are: {found} (python -m harness +acq=ei fronts=true)")
    for component, usual in REFERENCE.items():
        there = set(own[component].unique())
        own = own[own[component] == (usual if usual in there else min(there))]
    longest = own.groupby(CELL)["iterations"].transform("max")
    own = own[own["iterations"] == longest]
    check_same_origin(own, remedy="")
    if (own.groupby(CELL)["spec"].nunique() > 1).any():
        raise BadInput(
            "the fronts of a problem and seed were made under several settings: keep one results_dir for each"
        )
    return own.drop_duplicates([*CELL, "step", "candidate"]).sort_values([*CELL, "step", "log_cost"], ignore_index=True)


def persistence(fronts: pd.DataFrame, lag: int = 1) -> pd.Series:
    """Return, per (dataset, pipeline, seed, step), the share of the front's points that stay on it for `lag` steps.

    That is throughout, up to `harness.fronts.FOLLOWED` steps, each time among the same candidates without those
    evaluated since. Points that are evaluated within the lag, and fronts that have not as many steps after them, do not
    count. The series is named by the lag.
    """
    run = fronts.groupby([*CELL, "spec"], sort=False).ngroup().to_numpy()
    step = fronts["step"].to_numpy(np.int64)
    if lag == 1:
        known, stays = fronts["stays"].notna().to_numpy(), fronts["stays"].eq(True).to_numpy(bool)
    else:
        end = pd.Series(step).groupby(run).transform("max").to_numpy()
        point = run * 2**32 + fronts["candidate"].to_numpy(np.int64)
        chosen = fronts["chosen"].eq(True).to_numpy(bool)
        taken = pd.Series(step[chosen], point[chosen]).reindex(point).to_numpy(float)
        known = fronts["stays_for"].notna().to_numpy() & ~(taken < step + lag) & (step + lag <= end)
        stays = fronts["stays_for"].fillna(0).to_numpy(float) >= lag
    cells = fronts[CELL].drop_duplicates().astype({"dataset": str, "pipeline": str})
    cell = fronts.groupby(CELL, sort=False).ngroup().to_numpy()
    shares = pd.Series(stays[known].astype(float)).groupby([cell[known], step[known]]).mean()
    which, at = (shares.index.get_level_values(level).to_numpy() for level in (0, 1))
    index = pd.MultiIndex.from_frame(cells.iloc[which].assign(step=at))
    return pd.Series(shares.to_numpy(), index, name=f"{lag} step{'' if lag == 1 else 's'}").sort_index()


def over_steps(shares: pd.Series, first: int = 0, last: float = np.inf) -> pd.Series:
    """Return, per (dataset, pipeline, seed), the mean over the steps first .. last of what `persistence` returns.

    Raises BadInput where there is none.
    """
    inside = shares[pd.Series(shares.index.get_level_values("step")).between(first, last).to_numpy()]
    if inside.empty:
        raise BadInput(
            f"no front is followed for {shares.name} there: runs have to go on past the initial design, with "
            "fronts=true, in records that follow their points"
        )
    return inside.groupby(level=CELL).mean()


def all_fronts(results_dir: Path) -> pd.DataFrame:
    """Return the fronts in the folder and in the one that `make fronts` keeps beside it, ``<results_dir>-fronts``."""
    beside = Path(f"{results_dir}-fronts")
    return read_fronts(*(folder for folder in (results_dir, beside) if folder.is_dir()))


# Final error and total cost after N iterations, relative to EI on the same problem and seed.
#
# Source: Guinet et al. 2020, bi-optimization figures (STUDY: F3, F5). They average ratios of single runs; medians here
# are of these, means of ratios of sums over the seeds of a problem (`statistics.ratios_of_sums` says why).

MEASURES = ("cost_pct", "error_pct")
_TAKEN_FROM = {"cost_pct": "total_cost_s", "error_pct": "final_error"}
EI_STOPPED = "ei-n"  # the `acq` of EI stopped after n evaluations


@dataclass(frozen=True)
class Relative:
    """One row per pair of a run and EI's run on the same (dataset, pipeline, seed); EI itself is 100, 100.

    table: dataset, pipeline, seed, method, acq, alpha, lam, cost_pct, error_pct (run by run), and what these were taken
    from: total_cost_s, final_error, and EI's with the ending _ei.
    unpaired: runs of other methods without an EI partner. zero: pairs whose EI run reached error 0, where a
    ratio does not exist. failed: pairs in which a run had no successful evaluation. All three are left out.
    parameters: alpha and lam of every method, also of one without a pair.
    """

    table: pd.DataFrame
    parameters: pd.DataFrame
    unpaired: int
    zero: int
    failed: int

    @cached_property
    def _wide(self) -> dict[tuple[str, Statistic], pd.DataFrame]:
        problems = self.table.groupby([*PROBLEM, "method"], observed=True).ngroup().to_numpy()
        found: dict[tuple[str, Statistic], pd.DataFrame] = {}
        for measure, name in _TAKEN_FROM.items():
            own, ei = self.table[name].to_numpy(float), self.table[f"{name}_ei"].to_numpy(float)
            means = self.table.assign(**{measure: 100 * ratios_of_sums(own, ei, problems)})
            found[measure, "median"] = self.table.pivot(index=CELL, columns="method", values=measure)
            found[measure, "mean"] = means.pivot(index=CELL, columns="method", values=measure)
        return found

    def on(self, cells: pd.Index) -> "Relative":
        """Return the pairs on these cells: of these alone are the sums that means are taken of."""
        return replace(self, table=self.table[pd.MultiIndex.from_frame(self.table[CELL]).isin(cells)])

    def wide(self, measure: str, methods: list[str], statistic: Statistic = "mean") -> pd.DataFrame:
        """Return what to take the statistic of: a row per (dataset, pipeline, seed) and a column per method.

        For medians `measure` run by run; for means values whose mean over a problem's seeds is the ratio of sums.
        """
        return self._wide[measure, statistic].reindex(columns=methods)


def finals(traces: Traces, stopped: Int[np.ndarray, " R"] | int | None = None) -> pd.DataFrame:
    """Return the runs with `final_error` and `total_cost_s` after their last step, or `stopped` after so many.

    initial_error: the best of the initial design, or of the run where the optimizer proposed nothing.
    """
    every, proposed = traces.runs["evaluations"].to_numpy(), traces.proposed
    steps = every if stopped is None else np.minimum(every, stopped)
    design = np.where(proposed.any(axis=1), proposed.argmax(axis=1), every)
    run = np.arange(len(steps))
    return traces.runs.assign(
        evaluations=steps,
        final_error=traces.incumbent[run, steps - 1],
        total_cost_s=traces.spent_s[run, steps - 1],
        initial_error=traces.incumbent[run, np.maximum(design - 1, 0)],
    )


def tenths(n: int) -> list[int]:
    """Return the numbers of evaluations that are a tenth, two tenths, ... of n, each once."""
    return sorted({k * n // 10 for k in range(1, 10)} - {0})


def stopped_early(traces: Traces, method: str = EI, lengths: Sequence[int] | None = None) -> pd.DataFrame:
    """Return the `finals` of a method's runs stopped after each of some numbers of evaluations, methods ``<method>-n``.

    lengths: None for all from the first choice of the optimizer, or the first evaluation, to the last but one.
    """
    own = traces.select((traces.runs["method"] == method).to_numpy())
    if lengths is None:
        lengths = range(int(own.proposed.argmax(axis=1).max()) + 1, int(own.runs["evaluations"].max()))
    ended, n = finals(own), np.repeat(np.asarray(lengths, dtype=int), len(own.runs))
    run = np.tile(np.arange(len(own.runs)), len(lengths))
    steps = np.minimum(ended["evaluations"].to_numpy()[run], n)
    return ended.iloc[run].reset_index(drop=True).assign(
        method=[f"{method}-{k}" for k in n], acq=EI_STOPPED if method == EI else f"{method}-n", alpha=np.nan,
        lam=np.nan, evaluations=steps, final_error=own.incumbent[run, steps - 1],
        total_cost_s=own.spent_s[run, steps - 1],
    )  # fmt: skip


def relative_to_ei(traces: Traces, what: str = "relative numbers", beside: pd.DataFrame | None = None) -> Relative:
    """Return cost_pct = 100 c*/c*_EI and error_pct = 100 y*/y*_EI of runs of equal length.

    These are of single runs; `Relative.wide` gives what means are taken of. `what` names the asker in the error;
    beside: `finals` of further methods, such as EI stopped early. Raises BadInput without runs of `ei`, and where no
    pair is left.
    """
    require(traces.runs, EI, what)
    table = pd.concat([finals(traces), *([] if beside is None else [beside])], ignore_index=True)
    ei = table.loc[table["method"] == EI, [*CELL, "final_error", "total_cost_s"]]
    pairs = table.merge(ei, on=CELL, how="left", suffixes=("", "_ei"), validate="many_to_one")
    unpaired = pairs["total_cost_s_ei"].isna()
    failed = ~unpaired & (pairs["final_error"].isna() | pairs["final_error_ei"].isna())
    zero = ~unpaired & ~failed & (pairs["final_error_ei"] == 0)
    pairs["cost_pct"] = 100 * pairs["total_cost_s"] / pairs["total_cost_s_ei"]
    pairs["error_pct"] = 100 * pairs["final_error"] / pairs["final_error_ei"].where(~zero)
    taken = [f"{name}{ending}" for name in _TAKEN_FROM.values() for ending in ("", "_ei")]
    kept = pairs.loc[~(unpaired | failed | zero), [*CELL, "method", "acq", "alpha", "lam", *MEASURES, *taken]]
    if kept.empty:
        raise BadInput(
            f"{what} needs a run to compare with EI's on the same problem and seed ({unpaired.sum():,} without it, "
            f"{zero.sum():,} where EI's error is 0, {failed.sum():,} without a successful evaluation)"
        )
    parameters = by_method(table)[["alpha", "lam"]]
    return Relative(kept.reset_index(drop=True), parameters, int(unpaired.sum()), int(zero.sum()), int(failed.sum()))


# The bi-optimization trade-off of a family of methods: mean and median cost and error relative to EI.


STATISTICS: tuple[Statistic, ...] = ("mean", "median")


def tradeoff(pairs: Relative, methods: list[str]) -> pd.DataFrame:
    """Return one row per method and statistic: alpha, lam, n (pairs), cost_pct and error_pct with intervals.

    Columns cost_pct, cost_pct_low, cost_pct_high and the same for error_pct, in percent of EI (EI = 100).
    All methods and both measures share the resamples.
    """
    axis = pairs.parameters.reindex(methods)
    rows = []
    for statistic in STATISTICS:
        row = axis.assign(statistic=statistic)
        for measure in MEASURES:
            estimate = with_intervals(pairs.wide(measure, methods, statistic), statistic)
            row["n"], row[measure] = estimate["n"], estimate["value"]
            row[f"{measure}_low"], row[f"{measure}_high"] = estimate["low"], estimate["high"]
        rows.append(row.reset_index())
    return pd.concat(rows, ignore_index=True)

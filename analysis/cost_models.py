"""Cost models compared: how well they predict (F2, F8), and what they do to EI^alpha's trade-off (F9).

`costs.md` has both in numbers. Predictions are read from the records of `python -m tabular_cache costs`, trade-offs
from runs under several models.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from analysis.captions import format_interval, intervals, markdown_table, plural, scope, sentence, write_csv, write_page
from analysis.evaluations import CELL, Evaluations, Recorded, choose_components
from analysis.methods import EI, PROBLEM, alpha_axis, ordered, require
from analysis.selection import LEAST_SHARE, at_horizon, horizon, select_families
from analysis.statistics import with_intervals, with_intervals_and_differences
from analysis.traces import STUDY_ITERATIONS, Judge, Traces, collect
from analysis.tradeoffs import Relative, relative_to_ei, tradeoff
from datasets.errors import BadInput
from harness.sealed import read_all, read_record

ONLINE = ("lv1", "lv2", "lv3", "gp", "gp3", "gp_lv", "warped_gp")  # F2's order; others follow by name
NAMES = {
    "lv1": "LV-1",
    "lv2": "LV-2",
    "lv3": "LV-3",
    "gp": "GP",
    "gp3": "GP on 3 features",
    "warped_gp": "warped GP",
    "gp_lv": "GP on LV-3's residuals",
    "hybrid": "hybrid",
}
REFERENCE_COST_MODEL = "lv3"
COVERAGE = ("cover50", "cover80", "cover95")
CURVES = ["cost_model", "value", "low", "high", "cells", "problems", "n"]  # columns of `learning_curves`
COMMAND = "python -m tabular_cache costs"
SHARED = ("data", "sizes", "version")  # of a problem's records; the evaluations asked about depend on the sizes


def read_costs(results_dir: Path) -> pd.DataFrame:
    """Return one row per problem, seed, cost model and n, with `task` and `data`, the table's checksum.

    Records of one model and problem share out its seeds (a seed in several counts once: equal settings give equal
    numbers). Raises BadInput where there is nothing, for records of one model and problem under two settings (two table
    versions, say), and for two models that were not asked about the same evaluations of one table.
    """
    specs, tables, first = [], [], dict[str, Mapping[str, Any]]()
    folder = results_dir / "costs"
    for spec, table in read_all(
        folder, read_record, lambda s: f"{s['cost_model']} on {s['problem']}", COMMAND, "seeds"
    ):
        other = first.setdefault(spec["problem"], spec)
        differ = [key for key in SHARED if spec.get(key) != other.get(key)]
        if differ:
            raise BadInput(
                f"{spec['problem']}: the records of {other['cost_model']} and {spec['cost_model']} do not compare, "
                f"since they differ in {', '.join(differ)}: move those of one away and run `{COMMAND}`"
            )
        dataset, _, pipeline = spec["problem"].partition("/")
        specs.append({"dataset": dataset, "pipeline": pipeline, **{n: spec[n] for n in ("cost_model", "task", "data")}})
        tables.append(table.replace_schema_metadata(None))
    rows = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
    words = pd.DataFrame(specs).iloc[rows].reset_index(drop=True)
    costs = pd.concat([pa.concat_tables(tables, promote_options="default").to_pandas(), words], axis=1)
    return costs.drop_duplicates([*CELL, "cost_model", "n"], ignore_index=True)


def read_if_there(results_dir: Path) -> tuple[pd.DataFrame | None, str]:
    """Return the rows of `read_costs`, None where there are no records or they cannot be read; and why they cannot."""
    if not (results_dir / "costs").is_dir():
        return None, ""
    try:
        return read_costs(results_dir), ""
    except BadInput as error:
        return None, str(error)


def models(costs: pd.DataFrame) -> list[str]:
    """Return the cost models in the records, those of F2 first."""
    present = set(costs["cost_model"].unique())
    return [m for m in ONLINE if m in present] + sorted(present - set(ONLINE))


def comparable(costs: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return the rows of the models that have at least half of all cells, and how many cells each other one has.

    A model with fewer would leave next to nothing to compare the others on, since models are paired.
    """
    cells = costs[[*CELL, "cost_model"]].drop_duplicates()
    own, every = cells["cost_model"].value_counts(), len(cells[CELL].drop_duplicates())
    few = {name: int(own[name]) for name in models(costs) if own[name] < LEAST_SHARE * every}
    return costs[~costs["cost_model"].isin(few)], few


def paired(costs: pd.DataFrame, n: int, column: str = "rmse") -> pd.DataFrame:
    """Return `column` after n evaluations: one row per cell that every model has at that n, one column per model."""
    part = costs[costs["n"] == n]
    return part.pivot(index=CELL, columns="cost_model", values=column)[models(part)].dropna()


def learning_curves(costs: pd.DataFrame, column: str = "rmse") -> pd.DataFrame:
    """Return, per model and n: the mean of `column` over problems and seeds with its interval; cells and problems.

    Only cells that every model has at that n count (`paired`); an n without any has no row. off_*: mean and interval
    of the paired difference to LV-3, where that is among the models.
    """
    rows = []
    for n in sorted(costs["n"].unique().tolist()):
        wide = paired(costs, n, column)
        if wide.empty:
            continue
        reference = wide.get(REFERENCE_COST_MODEL)
        found = with_intervals(wide) if reference is None else with_intervals_and_differences(wide, reference)
        found = found.rename(columns={"n": "cells"}).rename_axis("cost_model").reset_index()
        found.insert(5, "problems", len(wide.index.to_frame()[PROBLEM].drop_duplicates()))
        rows.append(found.assign(n=int(n)))
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame(columns=CURVES)


def taken(costs: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Return the cells (dataset, pipeline, seed) that curves begin with, at the smallest n that has any; and how many
    of that n are left out because a model has no record there.
    """
    for n in sorted(costs["n"].unique().tolist()):
        wide = paired(costs, n)
        if len(wide):
            every = costs.loc[costs["n"] == n, CELL].drop_duplicates()
            return wide.index.to_frame(index=False), len(every) - len(wide)
    return pd.DataFrame(columns=CELL), 0


def left_out(costs: pd.DataFrame) -> str:
    """Return the sentences on what curves leave out of `costs`: models with few records, cells that some lack."""
    kept, few = comparable(costs)
    lacking = taken(kept)[1]
    parts = [f"{name} ({plural(n, 'problem-seed pair')})" for name, n in few.items()]
    return sentence(
        f"Left out, with records of fewer than half of the problem-seed pairs: {', '.join(parts)}." if few else "",
        f"Left out: {plural(lacking, 'problem-seed pair')} where a model has no record." if lacking else "",
    )


def calibration(costs: pd.DataFrame) -> pd.DataFrame:
    """Return, per model and n, the mean share of costs inside the 50, 80 and 95 % intervals, and their intervals.

    Over the cells that every model has at that n, as in `learning_curves`; columns cover50, cover50_low, ...
    """
    parts = []
    for column in COVERAGE:
        curves = learning_curves(costs, column).set_index(["cost_model", "n"])[["value", "low", "high"]]
        parts.append(curves.set_axis([column, f"{column}_low", f"{column}_high"], axis=1))
    return reduce(lambda one, other: one.join(other), parts).reset_index()


def per_problem(costs: pd.DataFrame, n: int | None) -> pd.DataFrame:
    """Return the RMSE of every model and problem, mean over seeds, after n evaluations (None: the fewest recorded)."""
    size = int(costs["n"].min()) if n is None else n
    part = costs[costs["n"] == size]
    return part.groupby([*PROBLEM, "task", "cost_model"], as_index=False)["rmse"].mean().assign(n=size)


# The bi-optimization of EI^alpha under several cost models, paired: the numbers of F9 (STUDY: F9).

ORDER = ("lv3", "gp", "transfer_linear", "hybrid", "oracle")  # others follow by name


@dataclass(frozen=True)
class Compared:
    """EI^alpha under several cost models, on the cells (problem, seed) that all of them have, method by method.

    pairs: of each cost model; their counts (zero, failed, unpaired) and `short`, the runs that are too short or planned
    for another length, are of these cells only. dropped: the cells that some cost model lacks. n: iterations.
    runs: the first cost model's, after n iterations. components: of all the runs (`choose_components`). few: cost
    models left out, with runs on less than half of the cells that another one has.
    """

    pairs: dict[str, Relative]
    short: dict[str, int]
    dropped: int
    n: int
    runs: Traces
    components: Mapping[str, str]
    few: list[str]

    @cached_property
    def numbers(self) -> pd.DataFrame:
        """The numbers of F9: `tradeoffs.tradeoff` of every cost model."""
        parts = [tradeoff(p, ordered(p.table)).assign(cost_model=name) for name, p in self.pairs.items()]
        return pd.concat(parts, ignore_index=True)


def compare_cost_models(recorded: Recorded, judge: Judge = "validation", mixed: bool = False) -> Compared:
    """Compare the cost models that there are runs of.

    EI does not look at cost, so its runs under whichever cost model serve all of them. Only cells (problem, seed)
    that every cost model has are taken, and of everything but cost models one choice (`choose_components`).
    judge: whose error counts; mixed: as for `collect`. Raises BadInput with fewer than two cost models, or without EI.
    """
    every, components = choose_components(Evaluations.of(recorded), {}, free=("cost_model",))
    if components["utility"] == EI:  # no run plans with its length: of longer ones the first steps are all that counts
        every = every.first(STUDY_ITERATIONS)
    runs = every.runs
    of_alpha = alpha_axis(runs["acq"], runs["alpha"]) > 0.0
    names, few = _models_with_runs_enough(runs[of_alpha])
    require(runs, EI, "F9")
    ei = runs[runs["acq"] == EI].sort_values("cost_model", key=lambda m: m != REFERENCE_COST_MODEL, kind="stable")
    of_ei = runs.index.isin(ei.drop_duplicates([*CELL, "iterations", "tau"]).index)
    traces = {}
    for name in names:
        taken = every.select((of_alpha & (runs["cost_model"] == name)).to_numpy() | of_ei)
        taken = replace(taken, runs=taken.runs.assign(cost_model=name))
        traces[name] = select_families(collect(taken, {"cost_model": name}, judge, mixed), "alpha")
    n = min(horizon(own.select((own.runs["method"] != EI).to_numpy())) for own in traces.values())
    every_cell = [_cells(own.runs) for own in traces.values()]
    shared = _common([_cells(at_horizon(own, n)[0].runs) for own in traces.values()])
    cut = {name: at_horizon(own.select(_inside(own.runs, shared)), n) for name, own in traces.items()}
    pairs = {name: relative_to_ei(own, "F9") for name, (own, _) in cut.items()}
    paired_cells = [_cells(own.table) for own in pairs.values()]
    kept = _common(paired_cells)
    tables = _alike({name: own.table[_inside(own.table, kept)] for name, own in pairs.items()})
    return Compared(
        {name: replace(own, table=tables[name]) for name, own in pairs.items()},
        {name: short for name, (_, short) in cut.items()},
        len(reduce(pd.Index.union, every_cell)) - len(shared) + len(reduce(pd.Index.union, paired_cells)) - len(kept),
        n,
        cut[names[0]][0],
        components,
        few,
    )


def _models_with_runs_enough(of_alpha: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Return the cost models to compare, the study's first, and those with too few runs; none where few are left."""
    cells = of_alpha[[*CELL, "cost_model"]].drop_duplicates()["cost_model"].astype(str).value_counts()
    few = sorted(cells.index[cells < LEAST_SHARE * cells.max()])
    few = few if len(cells) - len(few) >= 2 else []
    names = sorted(set(cells.index) - set(few), key=lambda m: (ORDER.index(m) if m in ORDER else len(ORDER), m))
    if len(names) < 2:
        there = ", ".join(names) or "none"
        raise BadInput(f"F9 needs records of EI^alpha under two cost models or more; there are: {there}")
    return names, few


def _alike(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the pairs of every method that all cost models have on the cells where all have it; others as they are."""
    own = {name: pd.MultiIndex.from_frame(table[[*CELL, "method"]]) for name, table in tables.items()}
    shared = reduce(pd.Index.intersection, own.values())
    methods = set(shared.get_level_values("method"))
    return {
        name: table[~table["method"].isin(methods).to_numpy() | own[name].isin(shared)].reset_index(drop=True)
        for name, table in tables.items()
    }


def _cells(runs: pd.DataFrame) -> pd.Index:
    """Return the cells that have a run of another method than EI."""
    return pd.MultiIndex.from_frame(runs.loc[runs["method"] != EI, CELL].drop_duplicates())


def _inside(runs: pd.DataFrame, cells: pd.Index) -> np.ndarray:
    return np.asarray(pd.MultiIndex.from_frame(runs[CELL]).isin(cells))


def _common(parts: Sequence[pd.Index]) -> pd.Index:
    """Return the cells that are in all of the parts; raises BadInput where there is none."""
    shared = reduce(pd.Index.intersection, parts)
    if not len(shared):
        raise BadInput("F9: no problem and seed was run under every cost model")
    return shared


# The page `costs.md`.

SHOWN = (4, 8, 16, 32, 64, 100)  # evaluations


def write_cost_page(costs: pd.DataFrame, out_dir: Path) -> Path:
    """Write `costs.md`: RMSE at some sizes with intervals, differences to LV-3, and calibration, `costs.csv` as well.

    Raises BadInput where the models have no problem and seed in common after any number of evaluations.
    """
    compared = comparable(costs)[0]
    curves = learning_curves(compared)
    if curves.empty:
        raise BadInput("the records of cost models have no problem, seed and number of evaluations in common")
    covered = calibration(compared)
    text = [f"# Cost models\n\n{sentence(_head(compared, curves), left_out(costs))}", _wide(curves, "")]
    if "off_value" in curves:
        text += ["Paired difference to LV-3 (negative: better than LV-3):", _wide(curves, "off_")]
    text += [
        "Calibration, on the same problems: percent of costs inside the 50 / 80 / 95 % intervals, mean -/+ z sd of log "
        "cost for every model (the hybrid's own predictions have longer tails, the warped GP's are skewed); in "
        "brackets the 95 % interval of the second:",
        _coverage(covered, models(compared), curves),
    ]
    write_csv(covered, out_dir / "costs.csv", digits=None)
    return write_page(out_dir / "costs.md", text)


def _head(compared: pd.DataFrame, curves: pd.DataFrame) -> str:
    cells, least = taken(compared)[0], int(curves["n"].min())
    over = f"mean over {scope(cells, 'tables')}"
    if curves["cells"].nunique() > 1:
        over = (
            f"mean over seeds and over those problems whose tables are long enough for n (`problems`); at n = {least}: "
            f"{scope(cells, 'tables')}; along a row, the problems become fewer"
        )
    return f"RMSE of log cost, {over}. {intervals(cells, medians=False)}"


def _shown(curves: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the sizes that tables show; of all sizes where there is none of these."""
    some = curves[curves["n"].isin(SHOWN)]
    return some if len(some) else curves


def _wide(curves: pd.DataFrame, prefix: str) -> str:
    shown = _shown(curves)
    numbers = shown[[f"{prefix}{name}" for name in ("value", "low", "high")]].to_numpy(float).tolist()
    text = [format_interval(value, low, high, 3) for value, low, high in numbers]
    return _table(shown, text, list(dict.fromkeys(curves["cost_model"])), curves)


def _coverage(covered: pd.DataFrame, order: list[str], curves: pd.DataFrame) -> str:
    found = covered[covered["n"].isin(_shown(curves)["n"])]
    numbers = (100 * found[[*COVERAGE, "cover80_low", "cover80_high"]]).to_numpy(float).tolist()
    text = [f"{a:.0f} / {format_interval(b, low, high, 0)} / {c:.0f}" for a, b, c, low, high in numbers]
    return _table(found, text, order, curves)


def _table(cells: pd.DataFrame, text: list[str], order: list[str], curves: pd.DataFrame) -> str:
    wide = cells.assign(text=text).pivot(index="cost_model", columns="n", values="text").reindex(order).fillna("-")
    problems = curves.groupby("n")["problems"].first()
    wide.loc["problems"] = [str(problems[n]) for n in wide.columns]
    return markdown_table(wide.rename(columns=lambda n: f"n = {n}").rename_axis("model").reset_index())

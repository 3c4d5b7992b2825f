"""How well cost models predict, from the records of `python -m tabular_cache costs`: numbers of F2 and F8."""

from pathlib import Path

import pandas as pd

from analysis.bootstrap import bootstrap
from analysis.traces import CELL, PROBLEM
from harness.records.experiments import read_all, read_record

ONLINE = ("lv1", "lv2", "lv3", "gp", "gp3", "gp_lv", "warped_gp")  # F2's order; others follow by name
REFERENCE = "lv3"
COVERAGE = ("cover50", "cover80", "cover95")


def read_costs(results_dir: Path) -> pd.DataFrame:
    """Return one row per problem, seed, cost model and n, with `task`; raises BadInput where there is nothing.

    Records of one model and problem under two settings (two table versions, say) are refused.
    """
    parts = []
    folder, command = results_dir / "costs", "python -m tabular_cache costs"
    for spec, table in read_all(folder, read_record, lambda s: f"{s['cost_model']} on {s['problem']}", command):
        dataset, _, pipeline = spec["problem"].partition("/")
        words = {"dataset": dataset, "pipeline": pipeline, "cost_model": spec["cost_model"], "task": spec["task"]}
        parts.append(table.to_pandas().assign(**words))
    return pd.concat(parts, ignore_index=True)


def models(costs: pd.DataFrame) -> list[str]:
    """Return the cost models in the records, those of F2 first."""
    present = set(costs["cost_model"])
    return [m for m in ONLINE if m in present] + sorted(present - set(ONLINE))


def learning_curves(costs: pd.DataFrame, column: str = "rmse") -> pd.DataFrame:
    """Return, per model and n: the mean of `column` over problems and seeds with its interval; cells and problems.

    Only cells that every model has at that n count, so that models are paired; off_*: mean and interval of
    the paired difference to LV-3, where that is among the models.
    """
    rows = []
    for n, part in costs.groupby("n"):
        wide = part.pivot(index=CELL, columns="cost_model", values=column)[models(part)].dropna()
        if wide.empty:
            continue
        found = bootstrap(wide).rename(columns={"n": "cells"}).rename_axis("cost_model").reset_index()
        found["problems"] = len(wide.index.to_frame()[PROBLEM].drop_duplicates())
        if REFERENCE in wide:
            off = bootstrap(wide.sub(wide[REFERENCE], axis=0)).add_prefix("off_").drop(columns="off_n")
            found = found.merge(off, left_on="cost_model", right_index=True)
        rows.append(found.assign(n=int(str(n))))
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame()


def calibration(costs: pd.DataFrame) -> pd.DataFrame:
    """Return, per model and n, the mean share of costs inside the 50, 80 and 95 % intervals, and their intervals.

    Over the cells that every model has at that n, as in `learning_curves`; columns cover50, cover50_low, ...
    """
    found: pd.DataFrame | None = None
    for column in COVERAGE:
        curves = learning_curves(costs, column).rename(columns={"value": column})
        own = curves.rename(columns={end: f"{column}_{end}" for end in ("low", "high")})
        own = own[["cost_model", "n", column, f"{column}_low", f"{column}_high"]]
        found = own if found is None else found.merge(own, on=["cost_model", "n"])
    assert found is not None
    return found


def per_problem(costs: pd.DataFrame, n: int | None) -> pd.DataFrame:
    """Return the RMSE of every model and problem, mean over seeds, after n evaluations (None: the fewest recorded)."""
    size = int(costs["n"].min()) if n is None else n
    part = costs[costs["n"] == size]
    return part.groupby([*PROBLEM, "task", "cost_model"], as_index=False)["rmse"].mean().assign(n=size)

"""How well cost models predict, from the records of `python -m tabular_cache costs`: numbers of F2 and F8."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.bootstrap import bootstrap
from analysis.coverage import LEAST_SHARE
from analysis.scope import plural, sentence
from analysis.traces import CELL, PROBLEM
from datasets.errors import BadInput
from harness.records import read_all, read_record

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
REFERENCE = "lv3"
COVERAGE = ("cover50", "cover80", "cover95")
CURVES = ["cost_model", "value", "low", "high", "cells", "problems", "n"]  # columns of `learning_curves`
COMMAND = "python -m tabular_cache costs"
SHARED = ("data", "sizes", "version")  # of a problem's records; the evaluations asked about depend on the sizes


def read_costs(results_dir: Path) -> pd.DataFrame:
    """Return one row per problem, seed, cost model and n, with `task` and `data`, the table's checksum.

    Raises BadInput where there is nothing.

    Records of one model and problem share out its seeds (a seed in several counts once: equal settings give equal
    numbers); under two settings (two table versions, say) they are refused, as are those of two models that were
    not asked about the same evaluations of one table.
    """
    parts = []
    records = read_all(
        results_dir / "costs", read_record, lambda s: f"{s['cost_model']} on {s['problem']}", COMMAND, "seeds"
    )
    _check_comparable([spec for spec, _ in records])
    for spec, table in records:
        dataset, _, pipeline = spec["problem"].partition("/")
        words = {"dataset": dataset, "pipeline": pipeline, "cost_model": spec["cost_model"], "task": spec["task"],
                 "data": spec["data"]}  # fmt: skip
        parts.append(table.to_pandas().assign(**words))
    return pd.concat(parts, ignore_index=True).drop_duplicates([*CELL, "cost_model", "n"], ignore_index=True)


def _check_comparable(specs: Sequence[Mapping[str, Any]]) -> None:
    """Raise BadInput where two cost models were not asked about the same evaluations of a problem's table."""
    first = dict[str, Mapping[str, Any]]()
    for spec in specs:
        other = first.setdefault(spec["problem"], spec)
        differ = [key for key in SHARED if spec.get(key) != other.get(key)]
        if differ:
            raise BadInput(
                f"{spec['problem']}: the records of {other['cost_model']} and {spec['cost_model']} do not compare, "
                f"since they differ in {', '.join(differ)}: move those of one away and run `{COMMAND}`"
            )


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
    present = set(costs["cost_model"])
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
    for n in sorted(set(costs["n"])):
        wide = paired(costs, n, column)
        if wide.empty:
            continue
        found = bootstrap(wide).rename(columns={"n": "cells"}).rename_axis("cost_model").reset_index()
        found["problems"] = len(wide.index.to_frame()[PROBLEM].drop_duplicates())
        if REFERENCE in wide:
            off = bootstrap(wide.sub(wide[REFERENCE], axis=0)).add_prefix("off_").drop(columns="off_n")
            found = found.merge(off, left_on="cost_model", right_index=True)
        rows.append(found.assign(n=int(n)))
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame(columns=CURVES)


def taken(costs: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Return the cells (dataset, pipeline, seed) that curves begin with, at the smallest n that has any; and how many
    of that n are left out because a model has no record there.
    """
    for n in sorted(set(costs["n"])):
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

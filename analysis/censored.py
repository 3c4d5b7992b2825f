"""Numbers about censored costs, from the records of `python -m tabular_cache censored`."""

from pathlib import Path

import numpy as np
import pandas as pd

from analysis.bootstrap import bootstrap
from analysis.traces import CELL
from harness.records import check_same, read_all, read_record

TREATMENTS = ("sampled", "mean", "dropped", "bound")
COST_TREATMENTS = ("imputed", "dropped", "bound", "known")


def read_censored(results_dir: Path) -> pd.DataFrame:
    """Return one row per problem, seed, n, model, treatment and slack factor; raises BadInput where there is none.

    Records of one experiment on a problem share out its seeds (one in several counts once); under two settings they
    are refused.
    """
    parts = []
    folder, command = results_dir / "censored", "python -m tabular_cache censored"
    found = read_all(folder, read_record, lambda s: f"{s['experiment']} on {s['problem']}", command, "seeds")
    for experiment in ("slack", "timeout"):
        specs = [spec for spec, _ in found if spec["experiment"] == experiment]
        check_same(specs, ("sizes", "slacks", "trees", "models", "share", "version"), folder)
    for spec, table in found:
        dataset, _, pipeline = spec["problem"].partition("/")
        words = {"dataset": dataset, "pipeline": pipeline, "share": spec.get("share", np.nan)}
        parts.append(table.to_pandas().assign(experiment=spec["experiment"], **words))
    keys = [*CELL, "experiment", "n", "model", "treatment", "slack"]
    return pd.concat(parts, ignore_index=True).drop_duplicates(keys, ignore_index=True)


def by_slack(found: pd.DataFrame) -> pd.DataFrame:
    """Return, per n, slack factor (NaN: none) and treatment: the share censored, RMSE with its interval, and LL.

    rmse: mean over cells of the RMSE of log cost; off_*: its paired difference from ``sampled``; log_likelihood: the
    median over cells of the mean log density of a true log cost (a mean would show only the worst cells).
    """
    rows = []
    part = found[found["experiment"] == "slack"]
    for (n, slack), group in part.groupby(["n", part["slack"].fillna(np.inf)]):
        wide = group.pivot(index=CELL, columns="treatment", values="rmse")[list(TREATMENTS)]
        rmse = bootstrap(wide).rename(columns={"value": "rmse", "n": "cells"})
        off = bootstrap(wide.sub(wide["sampled"], axis=0)).add_prefix("off_").drop(columns="off_n")
        density = group.groupby("treatment")["log_likelihood"].median().rename("log_likelihood")
        whole = {"n": int(str(n)), "slack": float(str(slack)), "censored": float(group["censored"].mean())}
        rows.append(rmse.join(off).join(density).rename_axis("treatment").reset_index().assign(**whole))
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame()


def by_model(found: pd.DataFrame) -> pd.DataFrame:
    """Return, per n and cost model, the mean RMSE under each treatment of timed-out costs, and of all and long costs.

    gain_*: RMSE of ``bound`` minus that of ``imputed``, paired, with its interval.
    """
    rows = []
    part = found[found["experiment"] == "timeout"]
    for (n, model), group in part.groupby(["n", "model"], sort=False):
        wide = group.pivot(index=CELL, columns="treatment", values="rmse")[list(COST_TREATMENTS)]
        beyond = group.groupby("treatment")["rmse_beyond"].mean()
        gain = bootstrap((wide["bound"] - wide["imputed"]).to_frame("gain")).iloc[0]
        mean = wide.mean()
        row = {"n": int(str(n)), "model": model, "cells": len(wide), "censored": float(group["censored"].mean())}
        row |= {t: float(mean[t]) for t in COST_TREATMENTS} | {f"{t}_beyond": float(beyond[t]) for t in COST_TREATMENTS}
        row |= {"gain": gain["value"], "gain_low": gain["low"], "gain_high": gain["high"]}
        rows.append(row)
    return pd.DataFrame(rows)

"""Numbers from the records of `python -m tabular_cache censored` and of `python -m harness.configurator`."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import mannwhitneyu

from analysis.evaluations import CELL
from analysis.plotting import BLUE, GREEN, ORANGE, RED
from analysis.statistics import with_intervals
from harness.configurator.experiment import read
from harness.sealed import check_same, read_all, read_record
from harness.streams import stream
from harness.surrogates.forest import RandomForest
from tabular_cache.cost_study import CensoringData, slack_rows

# Numbers about censored costs, from the records of `python -m tabular_cache censored`.

TREATMENTS = {
    "sampled": ("Algorithm 1", BLUE, "o"),
    "mean": ("mean imputation", GREEN, "s"),
    "dropped": ("dropped", ORANGE, "v"),
    "bound": ("bound as value", RED, "^"),
}
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
    """Return, per n, slack factor (infinite: none) and treatment: the share censored, RMSE with its interval, and LL.

    rmse: mean over cells of the RMSE of log cost; off_*: its paired difference from ``sampled``; log_likelihood: the
    median over cells of the mean log density of a true log cost (a mean would show only the worst cells).
    """
    rows = []
    part = found[found["experiment"] == "slack"]
    for (n, slack), group in part.groupby(["n", part["slack"].fillna(np.inf)]):
        wide = group.pivot(index=CELL, columns="treatment", values="rmse")[list(TREATMENTS)]
        rmse = with_intervals(wide).rename(columns={"value": "rmse", "n": "cells"})
        off = with_intervals(wide.sub(wide["sampled"], axis=0)).add_prefix("off_").drop(columns="off_n")
        density = group.groupby("treatment")["log_likelihood"].median()
        joined = rmse.join(off).join(density).rename_axis("treatment").reset_index()
        rows.append(joined.assign(n=int(str(n)), slack=float(str(slack)), censored=group["censored"].mean()))
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame()


def by_model(found: pd.DataFrame) -> pd.DataFrame:
    """Return, per n and cost model, the mean RMSE under each treatment of timed-out costs, and of all and long costs.

    gain_*: RMSE of ``bound`` minus that of ``imputed``, paired, with its interval.
    """
    rows = []
    part = found[found["experiment"] == "timeout"]
    for (n, model), group in part.groupby(["n", "model"], sort=False):
        wide = group.pivot(index=CELL, columns="treatment", values="rmse")[list(COST_TREATMENTS)]
        beyond = group.groupby("treatment")["rmse_beyond"].mean().add_suffix("_beyond")
        gain = with_intervals((wide["bound"] - wide["imputed"]).to_frame("gain")).iloc[0]
        row = {"n": n, "model": model, "cells": len(wide), "censored": group["censored"].mean()}
        row |= {"gain": gain["value"], "gain_low": gain["low"], "gain_high": gain["high"]}
        rows.append(row | wide.mean().to_dict() | beyond.to_dict())
    return pd.DataFrame(rows)


# Numbers about the configuration experiment, from the records of `python -m harness.configurator`.

SIGNIFICANT = 0.05
SETTINGS = ("budget_s", "kappa_max_s", "train", "test", "treatment", "version")  # the same in all runs compared
_FEWEST = 20  # runs on either side, to score treatments on solver runtimes
_TREES = 30


def read_runs(results_dir: Path) -> list[dict[str, Any]]:
    """Return every record; raises BadInput where there is none, for a damaged one, and for a mix of settings."""

    def name(spec: dict[str, Any]) -> str:
        return f"{spec['scenario']}, slack {spec.get('slack', 'default')}, run {spec.get('run')},"

    folder = results_dir / "configurator"
    found = read_all(folder, read, name, "python -m harness.configurator")
    check_same([spec for spec, _ in found], SETTINGS, folder)
    records = [record for _, record in found]
    for scenario in {record["spec"]["scenario"] for record in records}:
        of_it = [record for record in records if record["spec"]["scenario"] == scenario]
        check_same([{"release": record.get("release")} for record in of_it], ("release",), folder / scenario)
    return records


def test_times(records: list[dict[str, Any]]) -> pd.DataFrame:
    """Return one row per record: scenario, slack (inf: none, NaN: the solver's defaults), run, mean test seconds."""
    rows = []
    for record in records:
        spec, made = record["spec"], "runs" in record  # a record of the defaults has no runs
        slack = spec.get("slack", np.nan)
        rows.append({
            "scenario": spec["scenario"], "slack": np.inf if slack is None else float(slack),
            "run": spec.get("run", -1),
            "test_s": float(np.mean([t["seconds"] for t in record["test"]])),
            "unsolved": sum(t["status"] != "solved" for t in record["test"]),
            "target_runs": len(record.get("runs", [])), "configurations": len(record.get("rows", [])),
            "own_share": record["model_s"] / (record["model_s"] + record["target_s"]) if made else np.nan,
            "kappa_max_s": spec["kappa_max_s"], "budget_s": spec.get("budget_s", np.nan),
        })  # fmt: skip
    return pd.DataFrame(rows).sort_values(["scenario", "slack", "run"], ignore_index=True)


def medians(times: pd.DataFrame) -> pd.DataFrame:
    """Return, per scenario and slack factor, the median test time over runs, and whether it is among the best.

    The best group has the lowest median; another is among the best unless a two-sided Mann-Whitney U test against it
    has p < 0.05, as in the paper. p: that test's, NaN for the best group itself.
    """
    rows = []
    for scenario, part in times.dropna(subset="slack").groupby("scenario"):
        groups = dict(iter(part.groupby("slack")))
        best = min(groups, key=lambda slack: float(groups[slack]["test_s"].median()))
        default = times.loc[(times["scenario"] == scenario) & times["slack"].isna(), "test_s"]
        for slack, own in groups.items():
            p = np.nan if slack == best else float(mannwhitneyu(own["test_s"], groups[best]["test_s"]).pvalue)
            rows.append({
                "scenario": scenario, "slack": slack, "runs": len(own), "median_s": own["test_s"].median(),
                "best": slack == best or p >= SIGNIFICANT, "p": p,
                "default_s": default.iloc[0] if len(default) else np.nan,
                **own[["target_runs", "configurations"]].median(), **own[["own_share", "unsolved"]].mean(),
            })  # fmt: skip
    return pd.DataFrame(rows)


def solver_slack_rows(records: list[dict[str, Any]], slacks: tuple[float | None, ...]) -> pd.DataFrame:
    """Return the scores of the four treatments on solver runtimes, as `tabular_cache.cost_study` does on tables.

    Data: the runs of configurators that stopped nothing before kappa_max (slack none). A random half of the
    configurations is learned from, in the order of their runs, stopped at a slack factor times the lowest time so far
    on the same instance; the others are asked about, every run counting. Runs that crashed are left out.
    """
    rows = []
    for record in records:
        if "runs" not in record or record["spec"]["slack"] is not None:
            continue
        features = np.array(record["features"])
        spread = features.std(axis=0)
        features = (features - features.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        runs = [run for run in record["runs"] if run["status"] != "crashed"]
        row, instance = (np.array([run[name] for run in runs], np.int64) for name in ("row", "instance"))
        X = np.hstack([np.array(record["rows"])[row], features[instance]])
        y = np.log([run["cpu_s"] for run in runs])
        spec = record["spec"]
        configurations = stream(spec["run"], "solver halves", spec["scenario"]).permutation(np.unique(row))
        mine = np.isin(row, configurations[: (len(configurations) + 1) // 2])
        if min(mine.sum(), (~mine).sum()) < _FEWEST:
            continue
        forest = RandomForest(_TREES, categories=[*record["categories"], *[0] * features.shape[1]])
        data = CensoringData(X[mine], y[mine], X[~mine], y[~mine])
        own = slack_rows(data, slacks, forest, float(np.log(spec["kappa_max_s"])), instance[mine])
        rows += [{"scenario": spec["scenario"], "run": spec["run"], "n": int(mine.sum()), **found} for found in own]
    return pd.DataFrame(rows)

"""Numbers about the configuration experiment, from the records of `python -m harness.configurator`."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import mannwhitneyu

from harness.configurator.experiment import read
from harness.records import check_same, read_all
from harness.streams import stream
from harness.surrogates.forest import RandomForest
from tabular_cache.censoring import Data, slack_rows

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
        spec = record["spec"]
        slack = spec.get("slack", float("nan"))
        rows.append(
            {
                "scenario": spec["scenario"],
                "slack": float("inf") if slack is None else float(slack),
                "run": spec.get("run", -1),
                "test_s": float(np.mean([t["seconds"] for t in record["test"]])),
                "unsolved": sum(t["status"] != "solved" for t in record["test"]),
                "target_runs": len(record.get("runs", [])),
                "configurations": len(record.get("rows", [])),
                "own_share": record["model_s"] / (record["model_s"] + record["target_s"])
                if "runs" in record
                else np.nan,
                "kappa_max_s": spec["kappa_max_s"],
                "budget_s": spec.get("budget_s", np.nan),
            }
        )
    return pd.DataFrame(rows).sort_values(["scenario", "slack", "run"], ignore_index=True)


def medians(times: pd.DataFrame) -> pd.DataFrame:
    """Return, per scenario and slack factor, the median test time over runs, and whether it is among the best.

    The best group has the lowest median; another is marked with it unless a two-sided Mann-Whitney U test against it
    has p < 0.05, as in the paper. p: that test's, NaN for the best group itself.
    """
    rows = []
    for scenario, part in times.dropna(subset="slack").groupby("scenario"):
        groups = {float(str(slack)): g["test_s"].to_numpy() for slack, g in part.groupby("slack")}
        best = min(groups, key=lambda slack: float(np.median(groups[slack])))
        default = times.loc[(times["scenario"] == scenario) & times["slack"].isna(), "test_s"]
        for slack, seconds in groups.items():
            p = float("nan") if slack == best else float(mannwhitneyu(seconds, groups[best]).pvalue)
            own = part[part["slack"] == slack]
            rows.append(
                {
                    "scenario": scenario, "slack": slack, "runs": len(seconds), "median_s": float(np.median(seconds)),
                    "best": slack == best or p >= SIGNIFICANT, "p": p,
                    "default_s": float(default.iloc[0]) if len(default) else np.nan,
                    "target_runs": float(own["target_runs"].median()),
                    "configurations": float(own["configurations"].median()),
                    "own_share": float(own["own_share"].mean()), "unsolved": float(own["unsolved"].mean()),
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def solver_slack_rows(records: list[dict[str, Any]], slacks: tuple[float | None, ...]) -> pd.DataFrame:
    """Return the scores of the four treatments on solver runtimes, as `tabular_cache.censoring` does on tables.

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
        data = Data(X[mine], y[mine], X[~mine], y[~mine])
        own = slack_rows(data, slacks, forest, float(np.log(spec["kappa_max_s"])), instance[mine])
        rows += [{"scenario": spec["scenario"], "run": spec["run"], "n": int(mine.sum()), **found} for found in own]
    return pd.DataFrame(rows)

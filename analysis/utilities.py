"""Runs of several utilities under cost rules, read from records.

A method is a utility with a cost rule, such as ``kg x cei(lam=0.3)``. Everything is paired by problem and seed.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis import methods
from analysis.components import choose
from analysis.incumbent import incumbents, of_the_best
from analysis.mixing import TOLD, check_same_origin
from analysis.traces import CELL, PROBLEM, Judge
from analysis.utilities_runs import Runs
from datasets.errors import BadInput
from harness.records import spec_hash

NONE = "these records hold no utility but ei: python -m harness study=utilities, with the same results_dir"
LONGEST = 10.0
"""A step counts for at most so many times its run's median: compilation and stalls of the host are not thinking."""


def arrange(
    frame: pd.DataFrame,
    timings: pd.DataFrame,
    wanted: Mapping[str, str] | None = None,
    judge: Judge = "validation",
    mixed: bool = False,
    settings: Mapping[str, str] | None = None,
) -> Runs:
    """Return the runs of all utilities that are recorded under a rule which some utility other than EI has, too.

    frame, timings: as `harness.records` reads them. wanted: as for `components.choose`; a utility is never chosen.
    settings: of the utility, by spec (`settings_of`). mixed: whether records of different tables, engines or settings
    are meant to stand together.
    Raises BadInput where there is no other utility, or the records are mixed without saying so.
    """
    others = {key: name for key, name in (wanted or {}).items() if key != "utility"}
    frame, chosen = choose(frame, others, free=("utility",))
    frame = frame.assign(utility=frame["utility"].astype(str))
    if set(frame["utility"]) <= {"ei"}:
        raise BadInput(NONE)
    frame = frame.assign(alpha=methods.alpha_axis(frame["acq"], frame["alpha"]))
    frame = frame.assign(rule=methods.labels(frame))
    frame = frame[frame["rule"].isin(frame.loc[frame["utility"] != "ei", "rule"].unique())]
    if not mixed:
        check_same_origin(frame)
        _check_same_settings(frame, settings or {})
    frame = frame.sort_values(["spec", "seed", "step"], kind="stable", ignore_index=True)
    frame = frame.merge(timings, on=["spec", "seed", "step"], how="left", validate="one_to_one")
    run = frame.groupby(["spec", "seed"], sort=False).ngroup().to_numpy()
    first = frame.drop_duplicates(["spec", "seed"]).reset_index(drop=True)
    counts, step = np.bincount(run), frame["step"].to_numpy(int)
    if (step >= counts[run]).any():
        raise BadInput("a recorded run lacks steps: a trace counts 0, 1, 2, ... without gaps")
    spent = frame["fit_ms"] + frame["propose_ms"]
    median = spent.groupby(run).median().to_numpy(float)
    ms = np.minimum(spent.to_numpy(float), LONGEST * median[run])

    def dense(values: np.ndarray) -> np.ndarray:
        out = np.full((len(counts), counts.max()), np.nan)
        out[run, step] = values
        return out

    error, cost = dense(frame["error"].to_numpy(float)), dense(frame["cost_s"].to_numpy(float))
    test = dense(frame["test_error"].to_numpy(float))
    curve = of_the_best(error, test) if judge == "test" else incumbents(error)
    columns = [*CELL, "acq", "utility", "rule", "tau", "iterations"]
    table = first[columns].astype(dict.fromkeys([*PROBLEM, "acq", "rule"], str))
    table = table.assign(acq=methods.families(table["acq"], first["plans_ahead"]))
    table = table.assign(label=table["utility"] + " x " + table["rule"], evaluations=counts,
                         ms_per_step=median)  # fmt: skip
    _check_one_each(table, first["spec"])
    thinking = np.where(np.isnan(cost), np.nan, np.nan_to_num(dense(ms / 1e3)))
    return Runs(table, curve, cost, thinking, chosen["evaluator"])


def settings_of(made: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return the settings of the utility of every spec, and of which versions it was, as text, by its hash."""
    versions = ("look_ahead", "cost_sd")
    return {
        spec_hash(spec): json.dumps(
            [spec.get("components", {}).get("utility"), *(spec.get(name) for name in versions)], sort_keys=True
        )
        for spec in made
    }


def _check_one_each(table: pd.DataFrame, specs: pd.Series) -> None:
    """Raise BadInput where two specs give one method, length and deadline on a problem and seed: neither is chosen."""
    twice = table.duplicated([*CELL, "label", "acq", "tau", "iterations"], keep=False).to_numpy()
    if twice.any():
        one = table[twice].iloc[0]
        same = twice & (table[[*CELL, "label"]] == one[[*CELL, "label"]]).all(axis=1).to_numpy()
        raise BadInput(
            f"the run {one['label']} on {one['dataset']}/{one['pipeline']} seed {one['seed']} is recorded twice "
            f"(spec {', '.join(sorted(specs[same]))}): keep one results_dir per configuration"
        )


def _check_same_settings(frame: pd.DataFrame, settings: Mapping[str, str]) -> None:
    """Raise BadInput where one utility's runs were made with different settings, such as those of an older version."""
    seen = frame[["utility", "spec"]].drop_duplicates()
    kinds = seen.assign(settings=seen["spec"].map(settings)).groupby("utility")["settings"].nunique()
    several = [str(name) for name in kinds.index[kinds > 1]]
    if several:
        raise BadInput(
            f"the records of utility={', '.join(several)} were made with different settings of it: keep one "
            f"results_dir per setting, or say {TOLD}"
        )

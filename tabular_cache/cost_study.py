"""Offline studies of cost models on the tables: prediction and censoring. Both keep records (`harness.records`).

How well does each model predict after n evaluations, and what does stopping evaluations early cost it under each
treatment?
"""

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hydra.utils import instantiate
from jaxtyping import Bool, Float
from scipy.special import ndtri

from harness import cost_models as costs
from harness import execution
from harness.component import complete
from harness.cost_models import CostModel, known_beforehand
from harness.normal import log
from harness.records import code_of
from harness.sealed import missing_seeds, record_path, write_record
from harness.streams import stream
from harness.surrogates import forest as forests
from harness.surrogates.forest import RandomForest
from tabular_cache.replay import COST_COLUMNS, ReplayProblem
from tabular_cache.schema import file_stem
from tabular_cache.table import Table, read_table


class Trial:
    """One experiment on one problem, and its records in `results`/<kind>; what is recorded is not done again."""

    kind: str
    columns: pa.Schema
    problem: str
    tables: str
    results: str

    @property
    def table(self) -> Table:
        """The problem's table."""
        return read_table(self.problem, Path(self.tables))

    @property
    def label(self) -> str:
        """What is tried, as the names of the records begin."""
        raise NotImplementedError

    @property
    def folder(self) -> Path:
        """Where the records of the problem lie."""
        return Path(self.results) / self.kind / file_stem(self.problem)

    def path(self, spec: dict[str, Any]) -> Path:
        """Return where the record of `spec` belongs."""
        return record_path(self.folder, self.label, spec)

    def spec(self) -> dict[str, Any]:
        """Return all that determines the numbers, as plain JSON values; `seeds`: those of the record."""
        raise NotImplementedError

    def rows(self, seed: int) -> list[dict[str, Any]]:
        """Return the scores of one seed."""
        raise NotImplementedError


def run_trial(trial: Trial) -> None:
    """Run the seeds of one trial that no record holds, and write theirs; what is recorded stays as it is."""
    spec = trial.spec()
    seeds = missing_seeds(spec, trial.folder, trial.label)
    if seeds:
        spec = {**spec, "seeds": seeds}
        rows = [row for seed in seeds for row in trial.rows(seed)]
        write_record(trial.path(spec), rows, trial.columns, spec)


def run_all(executor: Executor, trials: Sequence[Trial]) -> list[str]:
    """Run the trials that lack seeds in their records; returns a line for each that failed."""
    label = trials[0].kind if trials else ""
    return execution.run_all(executor, run_trial, trials, lambda t: f"{t.problem} {t.label}", "trials", label)


# What censoring costs a model on one order of evaluations: caps, time limits, scores under each treatment.

MOST_CENSORED = 1000  # rows asked about
SMALLEST_SD = 0.01  # of log cost, in the log-likelihood: costs are not known to less than a percent
KNOWN = "known"


@dataclass(frozen=True)
class CensoringData:
    """A training set, in order (X, y), and a test set (C, truth): points of the unit cube and log costs."""

    X: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    C: Float[np.ndarray, "m d"]
    truth: Float[np.ndarray, " m"]


def halves(table: Table, seed: int) -> CensoringData:
    """Return the rows of half of the configurations, in random order, to learn from, and of the others to ask."""
    rng = stream(seed, "censored", table.problem)
    configs = rng.permutation(np.unique(table["config"]))
    mine = np.isin(table["config"], configs[: len(configs) // 2])
    rows = rng.permutation(np.flatnonzero(table.measured))
    known, asked = rows[mine[rows]], rows[~mine[rows]][:MOST_CENSORED]
    cost = np.log(table[COST_COLUMNS["scaled"]])
    return CensoringData(table.unit[known], cost[known], table.unit[asked], cost[asked])


def cap_sequence(
    y: Float[np.ndarray, " n"], slack: float | None, kappa_max: float, group: np.ndarray | None = None
) -> tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """Return log costs as observed one after the other under capping, and which of them are only bounds.

    Each is stopped at slack x the lowest cost so far of its group (one group if None), or at exp(kappa_max), where a
    cost counts for that and is no bound. slack None: at exp(kappa_max) only.
    """
    observed, censored, best = y.copy(), np.zeros(len(y), bool), dict[Any, float]()
    for i, value in enumerate(y):
        key = None if group is None else group[i]
        cap = kappa_max if slack is None or key not in best else min(best[key] + np.log(slack), kappa_max)
        observed[i], censored[i] = min(value, cap), value > cap and cap < kappa_max
        if not censored[i]:
            best[key] = min(best.get(key, np.inf), observed[i])
    return observed, censored


def slack_rows(
    data: CensoringData,
    slacks: Sequence[float | None],
    forest: RandomForest,
    kappa_max: float = math.inf,
    group: np.ndarray | None = None,
) -> list[dict[str, Any]]:
    """Return the scores of a forest under every slack factor and treatment.

    slacks: None for no cap; kappa_max: log cost at which everything is stopped, and above which nothing is imputed;
    group: of each evaluation of the training set, see `cap_sequence`.
    """
    rows = []
    for slack in slacks:
        y, censored = cap_sequence(data.y, slack, kappa_max, group)
        for treatment in forests.TREATMENTS:
            posterior = forests.CensoredForest(forest, treatment).fit(data.X, y, censored, kappa_max).posterior
            found = _score(data.truth, *posterior.mean_sd(data.C), float(y.max()))
            shared = {"model": "rf", "treatment": treatment, "slack": np.nan if slack is None else slack}
            rows.append({**shared, "censored": float(censored.mean()), **found})
    return rows


def timeout_rows(
    data: CensoringData, models: Mapping[str, Mapping[str, Any]], share: float, table: Table, seed: int
) -> list[dict[str, Any]]:
    """Return the scores of every cost model and treatment where the longest `share` of the trainings were stopped."""
    limit = float(np.quantile(data.y, 1.0 - share))
    censored, rows = data.y > limit, list[dict[str, Any]]()
    stopped, whole = np.exp(np.minimum(data.y, limit)), np.exp(data.y)
    for name, config in models.items():
        for treatment in (*costs.TREATMENTS, KNOWN):
            model = complete(instantiate(dict(config)), CostModel)
            model.start(ReplayProblem(table, seed, max_candidates=MOST_CENSORED))
            if treatment == KNOWN:
                model.fit(data.X, whole)
            else:
                costs.fit_with_bounds(model, data.X, stopped, censored, treatment)
            found = _score(data.truth, *model.predict(data.C), limit)
            shared = {"model": name, "treatment": treatment, "slack": np.nan, "censored": float(censored.mean())}
            rows.append({**shared, **found})
    return rows


def _score(
    truth: Float[np.ndarray, " m"], mean: Float[np.ndarray, " m"], sd: Float[np.ndarray, " m"], limit: float
) -> dict[str, float]:
    """Return RMSE of log cost, of all and of those below and beyond `limit` (NaN if none), and mean log-likelihood."""
    error, sd = mean - truth, np.maximum(sd, SMALLEST_SD)

    def rmse(part: Sequence[bool] | np.ndarray) -> float:
        chosen = error[part]
        return float(np.sqrt(np.mean(np.square(chosen)))) if len(chosen) else float("nan")

    density = -0.5 * np.square(error / sd) - np.log(sd) - 0.5 * np.log(2.0 * np.pi)
    return {
        "rmse": rmse(np.ones(len(truth), bool)),
        "rmse_below": rmse(truth <= limit),
        "rmse_beyond": rmse(truth > limit),
        "log_likelihood": float(np.mean(density)),
    }


# The experiments on censoring: treatments of capped evaluations, and of timed-out trainings.
#
# A problem's configurations are halved at random: n rows of one half, in random order, are the training set, and the
# rows of the other half (up to 1,000) the test set, their true costs known. Two experiments, a record per problem each:
#
#     slack     evaluations capped at a slack factor times the lowest cost so far; a random forest on log cost under the
#               four treatments of `CensoredForest`
#     timeout   a time limit that a share of the learned trainings would exceed; cost models under the treatments of
#               `harness.cost_models`, and `known`: as if there were no limit

SLACK, TIMEOUT = "slack", "timeout"
VERSIONS = {SLACK: 3, TIMEOUT: 3}  # raise one when the same settings give other numbers than before

_NUMBERS = ("slack", "censored", "rmse", "rmse_below", "rmse_beyond", "log_likelihood")
CENSORING_COLUMNS = pa.schema(
    [
        *((name, pa.int32()) for name in ("seed", "n")),
        *((name, pa.string()) for name in ("model", "treatment")),
        *((name, pa.float64()) for name in _NUMBERS),
    ]
)


@dataclass(frozen=True)
class CensoringTrial(Trial):
    """One experiment on one problem. slacks: of `slack`, None for no cap; models, share: of `timeout`."""

    experiment: str
    problem: str
    seeds: tuple[int, ...]
    sizes: tuple[int, ...]
    slacks: tuple[float | None, ...]
    trees: int
    models: Mapping[str, Any]
    share: float
    tables: str
    results: str

    kind, columns = "censored", CENSORING_COLUMNS

    @property
    def label(self) -> str:
        """The experiment."""
        return self.experiment

    def spec(self) -> dict[str, Any]:
        """Return all that determines the numbers, as plain JSON values."""
        own: dict[str, Any] = {"slacks": list(self.slacks), "trees": self.trees}
        if self.experiment == TIMEOUT:
            own = {"models": {name: dict(config) for name, config in self.models.items()}, "share": self.share}
            problem = ReplayProblem(self.table, 0, max_candidates=MOST_CENSORED)
            known = {name: known_beforehand(instantiate(dict(config)), problem) for name, config in self.models.items()}
            if any(known.values()):  # of transferred models, trained on other tables
                own["known"] = {name: digest for name, digest in known.items() if digest is not None}
            if code := code_of(*self.models.values()):
                own["code"] = code
        return {
            "experiment": self.experiment, "problem": self.problem, "seeds": list(self.seeds),
            "sizes": list(self.sizes), "data": self.table.meta["sha256"], "version": VERSIONS[self.experiment],
            **own,
        }  # fmt: skip

    def rows(self, seed: int) -> list[dict[str, Any]]:
        """Return the scores of one seed, for each size that the table allows."""
        rows, data = list[dict[str, Any]](), halves(self.table, seed)
        for n in [n for n in self.sizes if n <= len(data.y)]:
            part = CensoringData(data.X[:n], data.y[:n], data.C, data.truth)
            if self.experiment == SLACK:
                found = slack_rows(part, self.slacks, RandomForest(trees=self.trees))
            else:
                found = timeout_rows(part, self.models, self.share, self.table, seed)
            rows += [{"seed": seed, "n": n, **row} for row in found]
        return rows


# How well do cost models predict? Each is fitted to n evaluations of a table and tested on the rest of it.
#
# Evaluations are configurations at their own number of rounds, since these fill the space evenly, in an order drawn
# from (problem, seed); the first n are the training set, for each n. The test set: the configurations beyond the
# largest n, the same ones for every n. One record per problem and cost model; later calls add the seeds missing.

LEVELS = (50, 80, 95)  # percent: intervals whose coverage is counted
LEAST = 32  # configurations to ask about; sizes that leave fewer are not run
MOST_EVALUATIONS = 1000
VERSION = 2  # raise it when the same settings give other numbers than before

PREDICTION_COLUMNS = pa.schema(
    [
        ("seed", pa.int32()),
        ("n", pa.int32()),
        ("trained_on", pa.int64()),
        ("asked", pa.int32()),
        ("rmse", pa.float64()),
        ("bias", pa.float64()),
        *((f"cover{level}", pa.float64()) for level in LEVELS),
        ("sd", pa.float64()),
    ]
)


@dataclass(frozen=True)
class PredictionTrial(Trial):
    """One cost model on one problem, for some seeds. name: of the cost model; config: its YAML's content."""

    problem: str
    name: str
    config: Mapping[str, Any]
    seeds: tuple[int, ...]
    sizes: tuple[int, ...]
    tables: str
    results: str

    kind, columns = "costs", PREDICTION_COLUMNS

    @property
    def label(self) -> str:
        """The cost model."""
        return self.name

    def spec(self) -> dict[str, Any]:
        """Return all that determines the numbers, as plain JSON values; `seeds`: those of the record."""
        model: CostModel = instantiate(dict(self.config))
        known = known_beforehand(model, ReplayProblem(self.table, 0, max_candidates=MOST_EVALUATIONS))
        meta = self.table.meta
        return {
            "problem": self.problem, "cost_model": self.name, "config": dict(self.config), "seeds": list(self.seeds),
            "sizes": list(self.sizes), "data": meta["sha256"], "task": meta["task"], "version": VERSION,
            "known": known, **({"code": code} if (code := code_of(self.config)) else {}),
        }  # fmt: skip

    def rows(self, seed: int) -> list[dict[str, Any]]:
        """Return the scores of one seed."""
        return learn(self.table, self.config, seed, self.sizes)


def learn(table: Table, config: Mapping[str, Any], seed: int, sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Return the scores of one cost model and one order of evaluations, one row per size that the table allows."""
    order = stream(seed, "cost evaluations", table.problem).permutation(np.flatnonzero(table.longest))
    known = [n for n in sizes if n + LEAST <= len(order)]
    if not known:
        return []
    asked = order[max(known) :][:MOST_EVALUATIONS]
    cost = table[COST_COLUMNS["scaled"]]
    model = complete(instantiate(dict(config)), CostModel)
    model.start(ReplayProblem(table, seed, max_candidates=MOST_EVALUATIONS))
    rows = []
    for n in known:  # in order, since models may continue from their last fit, as they do in a run
        model.fit(table.unit[order[:n]], cost[order[:n]])
        trained_on = getattr(model, "trained_on", n)  # rows of other problems' tables, for a transferred model
        scores = score(log(cost[asked]), *model.predict(table.unit[asked]))
        rows.append({"seed": seed, "n": n, "trained_on": trained_on, **scores})
    return rows


def score(
    log_cost: Float[np.ndarray, " m"], mean: Float[np.ndarray, " m"], sd: Float[np.ndarray, " m"]
) -> dict[str, Any]:
    """Return RMSE and bias of the predicted log cost, the share within mean -/+ z sd per level, and the median sd."""
    error = mean - log_cost
    cover = {f"cover{p}": float(np.mean(np.abs(error) <= ndtri(0.5 + p / 200) * sd)) for p in LEVELS}
    rmse, bias = float(np.sqrt(np.mean(np.square(error)))), float(np.mean(error))
    return {"asked": len(error), "rmse": rmse, "bias": bias, **cover, "sd": float(np.median(sd))}

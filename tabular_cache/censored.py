"""What censoring costs a model, on the tables' costs: treatments of capped evaluations, and of timed-out trainings.

A problem's configurations are halved at random. From the rows of one half n are learned from, in random order; the
rows of the other half (up to 1,000) are asked about, their true costs known. Nothing of a training that is asked
about is learned from. Two experiments, each one record per problem:

    slack     evaluations capped at a slack factor times the lowest cost so far; a random forest on log cost under the
              four treatments of `CensoredForest`
    timeout   a time limit that a share of the learned trainings would exceed; cost models under the treatments of
              `harness.cost_models.censored`, and `known`: as if there were no limit
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hydra.utils import instantiate
from jaxtyping import Bool, Float

from harness.cost_models import censored as costs
from harness.cost_models.protocol import CostModel, ProblemAware
from harness.files import write_atomically
from harness.records import spec_hash
from harness.streams import stream
from harness.surrogates import censored as forests
from harness.surrogates.forest import RandomForest
from tabular_cache.replay import COSTS, ReplayProblem
from tabular_cache.schema import file_stem
from tabular_cache.table import Table, read_table

VERSION = 1  # raise it when the same settings give other numbers than before
MOST = 1000  # rows asked about
SMALLEST_SD = 0.01  # of log cost, in the log-likelihood: costs are not known to less than a percent
KNOWN = "known"
SLACK, TIMEOUT = "slack", "timeout"

COLUMNS = pa.schema(
    [
        ("seed", pa.int32()),
        ("n", pa.int32()),
        ("model", pa.string()),
        ("treatment", pa.string()),
        ("slack", pa.float64()),
        ("censored", pa.float64()),
        ("rmse", pa.float64()),
        ("rmse_below", pa.float64()),
        ("rmse_beyond", pa.float64()),
        ("log_likelihood", pa.float64()),
    ]
)


@dataclass(frozen=True)
class Case:
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

    def spec(self) -> dict[str, Any]:
        """Return all that determines the numbers, as plain JSON values."""
        own = {"slacks": list(self.slacks), "trees": self.trees}
        if self.experiment == TIMEOUT:
            own = {"models": {name: dict(config) for name, config in self.models.items()}, "share": self.share}
        table = read_table(self.problem, Path(self.tables))
        return {
            "experiment": self.experiment, "problem": self.problem, "seeds": list(self.seeds),
            "sizes": list(self.sizes), "data": table.meta["sha256"], "version": VERSION, **own,
        }  # fmt: skip

    def path(self, spec: dict[str, Any]) -> Path:
        """Return where the record of `spec` belongs."""
        folder = Path(self.results) / "censored" / file_stem(self.problem)
        return folder / f"{self.experiment}-{spec_hash(spec)}.parquet"


@dataclass(frozen=True)
class Data:
    """What is learned from, in order, and what is asked about: points of the unit cube and log costs."""

    X: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    C: Float[np.ndarray, "m d"]
    truth: Float[np.ndarray, " m"]


def run_case(case: Case) -> None:
    """Run one experiment on one problem and write its record, unless it is there."""
    spec = case.spec()
    if case.path(spec).exists():
        return
    table, rows = read_table(case.problem, Path(case.tables)), list[dict[str, Any]]()
    for seed in case.seeds:
        data = halves(table, seed)
        for n in case.sizes:
            if n <= len(data.y):
                part = Data(data.X[:n], data.y[:n], data.C, data.truth)
                found = slack_rows(part, case) if case.experiment == SLACK else timeout_rows(part, case, table, seed)
                rows += [{"seed": seed, "n": n, **row} for row in found]
    columns = {name: [row[name] for row in rows] for name in COLUMNS.names}
    sink = pa.BufferOutputStream()
    schema = COLUMNS.with_metadata({"spec": json.dumps(spec, sort_keys=True)})
    pq.write_table(pa.table(columns, schema=schema), sink, compression="zstd")
    write_atomically(case.path(spec), sink.getvalue().to_pybytes())


def halves(table: Table, seed: int) -> Data:
    """Return the rows of half of the configurations, in random order, to learn from, and of the others to ask."""
    rng = stream(seed, "censored", table.problem)
    configs = rng.permutation(np.unique(table["config"]))
    mine = np.isin(table["config"], configs[: len(configs) // 2])
    rows = rng.permutation(np.flatnonzero(table.measured))
    known, asked = rows[mine[rows]], rows[~mine[rows]][:MOST]
    cost = np.log(table[COSTS["scaled"]])
    return Data(table.unit[known], cost[known], table.unit[asked], cost[asked])


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
    data: Data, case: Case, forest: RandomForest | None = None, kappa_max: float | None = None,
    group: np.ndarray | None = None,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return the scores of a forest under every slack factor and treatment; kappa_max None: the largest cost."""
    forest = RandomForest(trees=case.trees) if forest is None else forest
    limit = float(max(data.y.max(), data.truth.max())) if kappa_max is None else kappa_max
    rows = []
    for slack in case.slacks:
        y, censored = cap_sequence(data.y, slack, limit, group)
        for treatment in forests.TREATMENTS:
            posterior = forests.CensoredForest(forest, treatment).fit(data.X, y, censored, limit).posterior
            found = _score(data.truth, *posterior.mean_sd(data.C), float(y.max()))
            shared = {"model": "rf", "treatment": treatment, "slack": np.nan if slack is None else slack}
            rows.append({**shared, "censored": float(censored.mean()), **found})
    return rows


def timeout_rows(data: Data, case: Case, table: Table, seed: int) -> list[dict[str, Any]]:
    """Return the scores of every cost model and treatment where the longest `share` of the trainings were stopped."""
    limit = float(np.quantile(data.y, 1.0 - case.share))
    censored, rows = data.y > limit, list[dict[str, Any]]()
    stopped, whole = np.exp(np.minimum(data.y, limit)), np.exp(data.y)
    for name, config in case.models.items():
        for treatment in (*costs.TREATMENTS, KNOWN):
            model: CostModel = instantiate(dict(config))
            if isinstance(model, ProblemAware):
                model.start(ReplayProblem(table, seed, max_candidates=MOST))
            if treatment == KNOWN:
                model.fit(data.X, whole)
            else:
                costs.learn(model, data.X, stopped, censored, treatment)
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

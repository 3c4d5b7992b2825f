"""What censoring costs a model on one order of evaluations: caps, time limits, and the scores under each treatment."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hydra.utils import instantiate
from jaxtyping import Bool, Float

from harness.cost_models import CostModel, ProblemAware
from harness.cost_models import censored as costs
from harness.streams import stream
from harness.surrogates import forest as forests
from harness.surrogates.forest import RandomForest
from tabular_cache.replayed import COSTS, ReplayProblem
from tabular_cache.table import Table

MOST = 1000  # rows asked about
SMALLEST_SD = 0.01  # of log cost, in the log-likelihood: costs are not known to less than a percent
KNOWN = "known"


@dataclass(frozen=True)
class Data:
    """What is learned from, in order, and what is asked about: points of the unit cube and log costs."""

    X: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    C: Float[np.ndarray, "m d"]
    truth: Float[np.ndarray, " m"]


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
    data: Data,
    slacks: Sequence[float | None],
    forest: RandomForest,
    kappa_max: float = math.inf,
    group: np.ndarray | None = None,
) -> list[dict[str, Any]]:
    """Return the scores of a forest under every slack factor and treatment.

    slacks: None for no cap; kappa_max: log cost at which everything is stopped, and above which nothing is imputed;
    group: of each evaluation learned from, see `cap_sequence`.
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
    data: Data, models: Mapping[str, Mapping[str, Any]], share: float, table: Table, seed: int
) -> list[dict[str, Any]]:
    """Return the scores of every cost model and treatment where the longest `share` of the trainings were stopped."""
    limit = float(np.quantile(data.y, 1.0 - share))
    censored, rows = data.y > limit, list[dict[str, Any]]()
    stopped, whole = np.exp(np.minimum(data.y, limit)), np.exp(data.y)
    for name, config in models.items():
        for treatment in (*costs.TREATMENTS, KNOWN):
            model: CostModel = instantiate(dict(config))
            if isinstance(model, ProblemAware):
                model.start(ReplayProblem(table, seed, max_candidates=MOST))
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

"""How much of a problem is measured: the same machine time for each, within bounds.

A problem is done when it has had `seconds` of core time and at least `at_least` configurations, or when it has
`at_most`. On costly problems `at_least` trainings to the end would take days, so a training is stopped at a time
limit there: the longest for which that many trainings fit into `longest_s`, but never less than `floor_s`.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from harness.problem import TIMEOUT
from tabular_cache.table import Table

PILOT = 32  # configurations measured under `floor_s` before a problem's own limit is set


@dataclass(frozen=True)
class Allowance:
    """What each problem gets. Seconds are core seconds; time limits are set so that `limit_for` trainings fit."""

    seconds: float = 600.0
    at_least: int = 384
    at_most: int = 4096
    floor_s: float = 5.0
    longest_s: float = 900.0
    limit_for: int = 384

    def done(self, configs: int, core_s: float) -> bool:
        """Whether a problem with so many configurations and so much time has had its share."""
        return configs >= self.at_most or (configs >= self.at_least and core_s >= self.seconds)

    def limit(self, uncut_s: Float[np.ndarray, " n"]) -> float | None:
        """Return the time limit of a problem's trainings from the costs of its pilot; None: no limit is needed.

        The largest L with limit_for * mean(min(uncut_s, L)) <= longest_s, at least floor_s, to two digits.
        """
        mean = self.longest_s / self.limit_for
        if uncut_s.mean() <= mean:
            return None
        c = np.sort(uncut_s)
        n = len(c)
        below = np.concatenate([[0.0], np.cumsum(c)[:-1]])  # of those cheaper than c_k, all spent in full
        at_cost = (below + c * (n - np.arange(n))) / n  # mean(min(c, c_k)), increasing in k
        k = int(np.searchsorted(at_cost, mean))
        limit = (mean * n - below[k]) / (n - k)
        return max(self.floor_s, float(f"{limit:.2g}"))


def uncut_costs(table: Table) -> Float[np.ndarray, " n"]:
    """Return the CPU seconds of each configuration at its own rounds; where cut short, on the line of its prefixes.

    Rounds cost about the same each, so a training's cost is nearly linear in their number.
    """
    config, rounds, cost = table["config"], table.native[:, 0], table["cpu_s"]
    own = np.flatnonzero(table["own"])
    costs = cost[own].copy()
    cut = np.array(table.statuses)[table.status[own]] == TIMEOUT
    for i in np.flatnonzero(cut):
        mine = np.flatnonzero((config == config[own[i]]) & table.measured)
        if len(mine) == 0:  # not even one round
            costs[i] *= rounds[own[i]]
            continue
        slope = cost[mine[-1]] / rounds[mine[-1]]
        costs[i] = max(costs[i], slope * rounds[own[i]])
    return costs

"""What a build does next: the missing trainings of the next pass, and the repeats that follow it."""

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from harness.problem import OK, TIMEOUT
from tabular_cache import noise
from tabular_cache.allowance import PILOT, Allowance, uncut_costs
from tabular_cache.measure import Measurement
from tabular_cache.quiet import MOST_BUSY
from tabular_cache.rows import AGAIN, NOISE
from tabular_cache.store import Store
from tabular_cache.table import to_table

MOST_STRETCH = 1.2  # wall over CPU seconds beyond which a training counts as disturbed
MOST_REPEATS = 2
AUTO = "auto"


@dataclass(frozen=True)
class Planner:
    """The order of a build: breadth first by machine time.

    Each pass gives every unfinished problem `slice_s` core seconds (at least `pass_size` configurations), so
    that all problems are covered evenly however early the build is stopped.
    """

    store: Store
    problems: Sequence[tuple[str, str]]
    allowance: Allowance
    time_limit_s: float | str | None = AUTO  # CPU seconds per training; auto: each problem's own (Allowance.limit)
    tree_method: str = "exact"
    slice_s: float = 30.0
    pass_size: int = 4
    refused: set[str] = field(default_factory=set)  # problems that cannot be measured here; not planned again
    given_up: set[tuple[str, int]] = field(default_factory=set)  # trainings that raised; not planned again
    not_repeated: set[Measurement] = field(default_factory=set)  # repeats that raised or failed; not planned again

    def next_pass(self) -> list[Measurement]:
        """Return the trainings of the next pass; empty when all problems have had their share."""
        return [task for dataset, pipeline in self._open() for task in self._slice(dataset, pipeline)]

    def _open(self) -> list[tuple[str, str]]:
        return [pair for pair in self.problems if "/".join(pair) not in self.refused]

    def _slice(self, dataset: str, pipeline: str) -> list[Measurement]:
        problem = f"{dataset}/{pipeline}"
        limit = self.limit(problem)
        done = self.store.done(problem, limit)
        entry = self.store.manifest["tables"].get(problem, {}) if done else {}  # of a table that was moved away
        core_s, configs = entry.get("core_s", 0.0), entry.get("configs", 0)
        lost = {config for name, config in self.given_up if name == problem}
        todo = (c for c in itertools.count() if c not in done and c not in lost)
        share, seen = self.allowance, len(done) + len(lost)
        pilot = min(PILOT, share.at_least)
        if not done and len(lost) >= pilot:  # all of the pilot raised: so would the rest
            return []
        if seen < pilot:
            n = pilot - seen
        elif len(done) >= configs and share.done(configs + len(lost), core_s):
            n = 0
        else:
            each = max(core_s / max(configs, 1), 1e-6)
            time_left = self.slice_s if configs < share.at_least else min(self.slice_s, share.seconds - core_s)
            n = min(max(self.pass_size, int(time_left / each)), share.at_most - seen)
        return [self._task(dataset, pipeline, c, limit) for c in itertools.islice(todo, max(n, 0))]

    def _task(self, dataset: str, pipeline: str, config: int, limit: float | None, purpose: str = "new") -> Measurement:
        return Measurement(dataset, pipeline, config, self.tree_method, limit, purpose=purpose)

    def limit(self, problem: str) -> float | None:
        """Return the time limit of a problem's trainings; one of its own is set once, after its pilot."""
        if self.time_limit_s != AUTO:
            return None if self.time_limit_s is None else float(self.time_limit_s)
        entry = self.store.manifest["tables"].get(problem)
        rows = None if entry is None or "time_limit_s" in entry else self.store.packed(problem)
        if entry is None or entry["configs"] < PILOT or ("time_limit_s" not in entry and rows is None):
            return self.allowance.floor_s
        if rows is not None:
            costs = uncut_costs(to_table(problem, rows, entry))
            entry["time_limit_s"] = self.allowance.limit(costs)
        limit: float | None = entry["time_limit_s"]
        return limit

    def repeats(self) -> list[Measurement]:
        """Return the trainings to measure again now: disturbed ones, and those of the noise sample."""
        names = {f"{d}/{p}": (d, p) for d, p in self._open()}
        tasks = []
        for problem, pair in names.items():
            rows = self.store.packed(problem)
            for config in [] if rows is None else disturbed(rows):
                tasks.append(self._task(*pair, config, self.limit(problem), AGAIN))
        for problem, config in noise.due(self.store.folder, list(names), time.time()):
            tasks.append(self._task(*names[problem], config, None, NOISE))
        return [task for task in tasks if task not in self.not_repeated]

    def core_seconds_left(self) -> float:
        """Return an estimate of the core seconds that the rest of the build takes."""
        total = 0.0
        entries: dict[str, Any] = self.store.manifest["tables"]
        known = [e["core_s"] / e["configs"] for e in entries.values() if e.get("configs")]
        for dataset, pipeline in self._open():
            entry = entries.get(f"{dataset}/{pipeline}", {"configs": 0, "core_s": 0.0})
            n, spent, a = entry["configs"], entry["core_s"], self.allowance
            if a.done(n, spent):
                continue
            each = spent / n if n else (float(np.mean(known)) if known else 1.0)
            total += min(max((a.at_least - n) * each, a.seconds - spent), (a.at_most - n) * each)
        return total


def disturbed(rows: pa.Table) -> list[int]:
    """Return the configurations of a table to measure again, those repeated often enough left out.

    They were measured beside other work, or failed otherwise than by the time limit: for want of memory, say, which
    may have been others'.
    """
    own = rows.filter(rows["own"])
    stretch = own["wall_s"].to_numpy() / own["cpu_s"].to_numpy()
    noisy = (stretch > MOST_STRETCH) | (own["busy"].to_numpy() > MOST_BUSY)
    noisy |= ~np.isin(own["status"].to_numpy(), (OK, TIMEOUT))
    few = own["repeats"].to_numpy() < MOST_REPEATS
    return [int(c) for c in own["config"].to_numpy()[noisy & few]]

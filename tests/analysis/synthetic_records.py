"""Made-up traces with the columns of `harness.records.read_traces`, at any completeness."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harness.records import FRONTS, TRACE, block_files, write_block
from harness.sealed import spec_hash

ALPHAS = (0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7)
LAMS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
INITIAL = 5


@dataclass(frozen=True)
class Way:
    """A method as a spec names it."""

    acq: str
    lam: float | None = None
    alpha: float | None = None

    @property
    def method(self) -> str:
        """The label that records carry."""
        given = [f"{k}={v:g}" for k, v in (("lam", self.lam), ("alpha", self.alpha)) if v is not None]
        return f"{self.acq}({','.join(given)})" if given else self.acq


EVERY = (
    Way("ei"),
    *(Way("eialpha", alpha=a) for a in ALPHAS),
    Way("eipu"),
    *(Way("cei", lam=v) for v in LAMS),
    Way("eicool"),
)


def block(dataset: str, pipeline: str, way: Way, seeds: Sequence[int], steps: int, fail: float = 0.0) -> dict[str, Any]:
    """Columns of one block: frugal methods cost less and end a little worse."""
    frugal = {"ei": 0.0, "eipu": 1.0, "eicool": 0.4}.get(way.acq, way.alpha or (way.lam or 0) * 0.6)
    columns: dict[str, list[Any]] = {name: [] for name in TRACE.names}
    for seed in seeds:
        words = [*dataset.encode(), 0, *pipeline.encode(), 0, seed]
        shared, own = np.random.default_rng(words), np.random.default_rng([*words, *way.method.encode()])
        level, scale = shared.uniform(0.05, 0.4), 10 ** shared.uniform(-1, 2)
        first = shared.uniform(size=(INITIAL, 2))
        size = own.uniform(size=steps) * (1 - 0.85 * frugal**0.5)
        size[:INITIAL] = first[:, 0]
        noise = own.exponential(1.0 + 0.6 * frugal, size=steps) / (1 + 0.1 * np.arange(steps))
        noise[:INITIAL] = first[:, 1] * 2
        error = level * (1 + 0.3 * noise)
        broken = own.uniform(size=steps) < fail
        later = np.arange(steps) >= INITIAL
        unsupported = own.uniform(size=steps) < 0.2
        alpha = frugal * own.gamma(2.0, 0.5, size=steps) * (1 + np.arange(steps) / steps)
        columns["seed"] += [seed] * steps
        columns["step"] += range(steps)
        columns["candidate"] += range(steps)
        columns["error"] += np.where(broken, np.nan, error).tolist()
        columns["test_error"] += np.where(broken, np.nan, error * 1.05).tolist()
        columns["cost_s"] += (scale * 10 ** (3 * size - 2)).tolist()
        columns["wall_s"] += (scale * 10 ** (3 * size - 2)).tolist()
        columns["status"] += np.where(broken, "failed", "ok").tolist()
        columns["predicted_cost_s"] += np.where(later, scale, np.nan).tolist()
        columns["log_ei"] += np.where(later, -3.0, np.nan).tolist()
        columns["effective_alpha"] += np.where(later & ~unsupported, alpha, np.nan).tolist()
    for name in TRACE.names:
        columns[name] = columns[name] or [0.5] * (steps * len(seeds))
    return columns


NAMES = {"utility": "ei", "surrogate": "gp", "cost_model": "lv3", "cost_statistic": "exp_mean"}


def spec(dataset: str, pipeline: str, way: Way, iterations: int, evaluator: str = "replay") -> dict[str, Any]:
    """The spec of a block, as far as an analysis reads it."""
    return {
        "dataset": dataset, "pipeline": pipeline, "acq": way.acq, "lam": way.lam, "alpha": way.alpha,
        "tau": None,
        "method": way.method, "evaluator": evaluator, "iterations": iterations,
        "n_initial": INITIAL, **NAMES, "engine": 1,
    }  # fmt: skip


def frame(
    problems: Iterable[tuple[str, str]],
    ways: Iterable[Way] = EVERY,
    seeds: Sequence[int] = (0, 1, 2),
    steps: int = 100,
    fail: float = 0.0,
    evaluator: str = "replay",
) -> pd.DataFrame:
    """The traces of a whole grid."""
    parts = []
    ways = list(ways)
    for dataset, pipeline in problems:
        for way in ways:
            part = pd.DataFrame(block(dataset, pipeline, way, seeds, steps, fail))
            described = spec(dataset, pipeline, way, steps, evaluator)
            part["spec"] = spec_hash(described)
            for key, value in described.items():
                part[key] = np.nan if value is None else value
            parts.append(part)
    return pd.concat(parts, ignore_index=True)


def on_disk(
    results: Path,
    problems: Iterable[tuple[str, str]],
    ways: Iterable[Way],
    seeds: Sequence[int],
    steps: int,
    **about: str | float,
) -> None:
    """Write the same grid as records; about: components other than the usual ones."""
    ways = list(ways)
    for dataset, pipeline in problems:
        for way in ways:
            trace = block(dataset, pipeline, way, seeds, steps)
            n = len(trace["seed"])
            timings = {
                "seed": trace["seed"],
                "step": trace["step"],
                "fit_ms": [1.0] * n,
                "propose_ms": [1.0] * n,
            }
            described = {**spec(dataset, pipeline, way, steps), **about}
            write_block(results, block_files(described, list(seeds), trace, timings))


def fronts_on_disk(
    results: Path, problems: Iterable[tuple[str, str]], seeds: Sequence[int], stays: bool, steps: int = 8
) -> None:
    """Write EI's runs of some iterations with fronts of four points, all of which stay, or none; one is evaluated."""
    points = 4
    for dataset, pipeline in problems:
        trace, fronts = block(dataset, pipeline, Way("ei"), seeds, steps), {name: list[Any]() for name in FRONTS.names}
        for seed, step, k in itertools.product(seeds, range(INITIAL, steps), range(points)):
            known = stays if k and step < steps - 1 else None  # the point evaluated, and the last front: no next step
            row = {"seed": seed, "step": step, "candidate": 10 * step + k, "stays": known, "chosen": k == 0}
            row["stays_for"] = None if known is None else (steps - 1 - step) * stays
            row |= {"log_ei": float(k), "log_cost": float(k), "then_log_ei": float(k), "then_log_cost": float(k)}
            for name, values in fronts.items():
                values.append(row.get(name))
        timings = {"seed": trace["seed"], "step": trace["step"]} | dict.fromkeys(
            ("fit_ms", "propose_ms"), [1.0] * len(trace["seed"])
        )
        described = spec(dataset, pipeline, Way("ei"), steps)
        write_block(results, block_files(described, list(seeds), trace, timings, fronts))


DATASETS = ("wind", "wine", "abalone", "spam", "letters")
STEPS = 300
Outcome = tuple[float, float]  # total cost of 100 iterations and final error, in percent of EI's


def records(outcomes: Mapping[Way, Outcome], datasets: tuple[str, ...] = DATASETS, steps: int = STEPS) -> pd.DataFrame:
    """Runs that reach their final error at step 50, at the same cost per step; EI costs 1 s a step and ends at 0.1."""
    parts = []
    step = np.arange(steps)
    for dataset in datasets:
        for way, (cost, error) in outcomes.items():
            columns = {name: np.full(steps, 0.5) for name in TRACE.names}
            columns |= {"seed": 0 * step, "step": step, "cost_s": np.full(steps, cost / 100)}
            columns["error"] = np.where(step < 50, 0.2, 0.1 * error / 100)
            columns["test_error"] = 0.4 - columns["error"]
            columns["predicted_cost_s"] = np.where(step < 5, np.nan, 1.0)
            described = {"dataset": dataset, "pipeline": "clean", "acq": way.acq, "lam": way.lam, "alpha": way.alpha}
            described |= {"tau": None, "method": way.method, "evaluator": "replay", "utility": "ei", "surrogate": "gp"}
            described |= {"cost_model": "lv3", "cost_statistic": "exp_mean", "iterations": steps, "spec": way.method}
            values = {k: np.nan if v is None else v for k, v in described.items()}
            parts.append(pd.DataFrame(columns).assign(**values))
    return pd.concat(parts, ignore_index=True)


def percent_of_sums(wide: pd.DataFrame, method: str) -> pd.Series:
    """A method's sum over the seeds of a problem in percent of EI's over the same seeds, for each of its cells."""
    both = wide[sorted({method, "ei"})].dropna()
    levels = [name for name in both.index.names if name != "seed"]
    sums = both.groupby(level=levels).transform("sum")
    return 100 * sums[method] / sums["ei"]

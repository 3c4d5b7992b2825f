"""Studies on several workers: throughput by executor, what records and scheduling cost, and a live study's price."""

import json
import shutil
import tempfile
import time
from collections import defaultdict
from concurrent.futures import Executor
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from omegaconf import OmegaConf
from rich.console import Console
from rich.table import Table

from harness.config import CONFIGS
from harness.execution import dask, local, serial
from harness.grid import Method, Study
from harness.records import read_traces
from harness.study import Block, blocks, run_study
from tabular_cache.table import read_manifest, read_table

PROBLEMS = {"datasets": ("abalone", "phoneme", "kin8nm", "wine"), "pipelines": ("clean", "pca_small")}
SEEDS = range(5)
VCPUS, USD_PER_H = 4, 0.20  # of an m4.xlarge (STUDY.md)
RUNS = 144 * 17 * 10
POWERS = (0.0, 0.1, 0.3, 1.0)  # enough blocks for no worker to idle long at the end


def _plain(path: str) -> dict:
    return OmegaConf.to_container(OmegaConf.load(CONFIGS / path))  # type: ignore[return-value]


def _grid(seeds: range, iterations: int) -> Study:
    names = {"evaluator": "replay", "utility": "ei", "surrogate": "gp", "cost_model": "lv3"}
    return Study(
        datasets={name: {"name": name} for name in PROBLEMS["datasets"]},
        pipelines={name: {"name": name} for name in PROBLEMS["pipelines"]},
        methods=[
            Method(
                "power", f"power(alpha={alpha})", {"_target_": "harness.acquisitions.cost_rules.Power", "alpha": alpha}
            )
            for alpha in POWERS
        ],
        seeds=list(seeds),
        iterations=iterations,
        n_initial=5,
        tau=None,
        components={group: _plain(f"{group}/{name}.yaml") for group, name in names.items()},
        names=names,
    )


def _seconds(results: Path) -> float:
    files = results.rglob("*.timings.parquet")
    return sum(json.loads(pq.read_schema(path).metadata[b"block"])["seconds"] for path in files)


def _timed(executor: Executor) -> tuple[float, float]:
    """Return the wall seconds of a study on workers that have started, and the seconds inside its blocks."""
    folder = Path(tempfile.mkdtemp())
    try:
        todo: list[Block] = blocks(_grid(range(1), 8), folder / "warm")[0]
        run_study(todo, 0, executor, "")
        todo, _ = blocks(_grid(SEEDS, 100), folder / "timed")
        start = time.perf_counter()
        report = run_study(todo, 0, executor, "")
        wall = time.perf_counter() - start
        assert not report.failed
        return wall, _seconds(folder / "timed")
    finally:
        shutil.rmtree(folder)


def executors(console: Console) -> None:
    """Print runs per second by executor, and the share of worker time that is spent outside the blocks."""
    runs = len(PROBLEMS["datasets"]) * len(PROBLEMS["pipelines"]) * len(SEEDS) * len(POWERS)
    out = Table("executor", "workers", "runs/s", "records and scheduling, % of time")
    for name, workers, make in (
        ("serial", 1, serial),
        ("local", 1, lambda: local(1)),
        ("local", 2, lambda: local(2)),
        ("dask", 1, lambda: dask(n_workers=1)),
        ("dask", 2, lambda: dask(n_workers=2)),
    ):
        with make() as executor:
            wall, inside = _timed(executor)
        out.add_row(name, str(workers), f"{runs / wall:.2f}", f"{100 * (1 - inside / (workers * wall)):.2f}")
    console.print(out)


def estimate(console: Console, results: str = "results") -> None:
    """Print what the whole study would take live, from replayed runs in `results` and the shipped tables.

    Per run: its trainings' CPU seconds (replayed runs of a problem and method, where there are any; else the
    problem's mean over its table times what runs of that method cost against their tables), its proposals' time.
    """
    tables = read_manifest()["tables"]
    mean = {problem: _table_mean(problem) for problem in tables}
    frame = read_traces(results)
    frame = frame[frame["evaluator"] == "replay"]
    runs = frame.groupby(["dataset", "pipeline", "method", "spec", "seed"], observed=True)["cost_s"]
    cost = runs.sum()[runs.size() == 100].groupby(["dataset", "pipeline", "method"], observed=True).mean()
    ratio: dict[str, list[float]] = defaultdict(list)
    for (dataset, pipeline, method), total in cost.items():  # type: ignore[misc]
        ratio[method].append(total / (100 * mean[f"{dataset}/{pipeline}"]))
    training = sum(100 * mean[p] * float(np.mean(values)) for values in ratio.values() for p in mean) / len(ratio) * 17
    steps = [pq.read_table(path, columns=["fit_ms", "propose_ms"]) for path in Path(results).rglob("*.timings.parquet")]
    engine = float(np.median(np.concatenate([t["fit_ms"].to_numpy() + t["propose_ms"].to_numpy() for t in steps])))
    hours = {
        "trainings": training * 10 / 3600,
        "proposals": RUNS * 95 * engine / 1e3 / 3600,
        "pipelines, once per problem": sum(t["pipeline_fit_s"] for t in tables.values()) / 3600,
    }  # fmt: skip
    out = Table("part of the live study", "core hours")
    for name, value in hours.items():
        out.add_row(name, f"{value:.1f}")
    total = sum(hours.values())
    console.print(out)
    console.print(
        f"{RUNS:,} runs, from {len(cost)} replayed problem-method pairs ({len(ratio)} methods): {total:.0f} core hours "
        f"at the tables' pace, without scoring; {total / VCPUS:.0f} m4.xlarge hours with {VCPUS} trainings at once, "
        f"{total / VCPUS * USD_PER_H:.0f} USD at {USD_PER_H} USD/h."
    )


def _table_mean(problem: str) -> float:
    """Return the mean cost of a problem's configurations at their own number of rounds, in seconds."""
    table = read_table(problem)
    return float(table["scaled_s"][table.longest].mean())

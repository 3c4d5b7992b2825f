"""Small stand-ins that tests share: a prepared problem, a measured folder of tables, a block's spec."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from harness.problem import Candidates, Evaluation, Problem
from harness.streams import stream
from pipelines.prepared import Prepared
from tabular_cache.schema import METRICS, configuration, file_stem, seal_of
from tabular_cache.store import Store

GRID = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def prepared(task: str = "regression", n: int = 120, d: int = 4, classes: int = 3, seed: int = 0) -> Prepared:
    """A real problem of n rows in each part, small enough to train on in milliseconds."""
    rng = stream(seed, "fake data")
    X = rng.normal(size=(3 * n, d)).astype(np.float32)
    signal = X[:, 0] * 2 + np.sin(3 * X[:, 1]) + 0.1 * rng.normal(size=3 * n)
    if task == "regression":
        y = signal
    else:
        y = np.digitize(signal, np.quantile(signal, np.linspace(0, 1, classes + 1)[1:-1]))
    parts = [slice(0, n), slice(n, 2 * n), slice(2 * n, 3 * n)]
    return Prepared(
        dataset="fake",
        pipeline="raw",
        X_train=X[parts[0]],
        X_valid=X[parts[1]],
        X_test=X[parts[2]],
        y_train=y[parts[0]],
        y_valid=y[parts[1]],
        y_test=y[parts[2]],
        task=task,
        n_classes=0 if task == "regression" else classes,
        width_before=d,
        width_after=d,
        fit_seconds=0.0,
        mark="",
        data_hash="fake",
        dropped=(),
    )


def journal_line(config: int, problem: str = "fake", status: str = "ok", seed: int = 0) -> dict[str, Any]:
    """The journal line of a made-up training whose error and cost are smooth functions of the configuration."""
    x = configuration(config)
    own = int(x[0])
    rounds = np.array(sorted({r for r in (*GRID, own) if r <= own}))
    if status != "ok":
        rounds = rounds[rounds < own]
    cost = 0.002 + 1e-4 * rounds * x[6] * (1 + 0.1 * stream(seed, "noise", problem, str(config)).random())
    error = 0.1 + 0.5 / np.sqrt(rounds) + 0.05 * abs(np.log10(x[1]) + 1) + 0.01 * abs(x[6] - 6)
    values = dict(zip(METRICS, [error, error + 0.01, 2 * error, 2 * error, cost, 1.1 * cost, 0.8 * cost], strict=True))
    return {
        "config": config,
        "purpose": "new",
        "busy": 0.5,
        "load": 0.5,
        "started": 1_700_000_000.0 + config,
        "core_s": float(cost[-1]) + 0.01 if len(rounds) else 0.01,
        "status": status,
        "note": "",
        "spent_cpu_s": float(cost[-1]) + 0.001 if len(rounds) else 0.001,
        "spent_wall_s": float(cost[-1]) * 1.1 + 0.001 if len(rounds) else 0.001,
        "spent_scaled_s": float(cost[-1]) * 0.8 + 0.001 if len(rounds) else 0.001,
        "rounds": rounds.tolist(),
        **{name: value.tolist() for name, value in values.items()},
        "problem": {
            "data_hash": "0" * 64,
            "task": "binary",
            "n_classes": 2,
            "mark": "",
            "n_train": 60,
            "n_valid": 20,
            "n_test": 20,
            "width_before": 3,
            "width_after": 3,
            "pipeline_fit_s": 0.01,
        },
    }


def make_tables(folder: Path, problems: list[str], n_configs: int = 16) -> Path:
    """A folder of made-up tables, written by the builder's own store."""
    store = Store(folder)
    with store.locked():
        for number, problem in enumerate(problems):
            for config in range(n_configs):
                store.append(problem, journal_line(config, problem, seed=number))
            store.pack(problem)
    return folder


def vouch(folder: Path, problem: str, seal: bool = True, **changes: Any) -> None:
    """Make the manifest vouch for a problem's file as it is now, and say `changes` of it; `seal`: under its seal."""
    path = folder / "manifest.json"
    manifest, content = json.loads(path.read_text()), (folder / f"{file_stem(problem)}.parquet").read_bytes()
    entry = manifest["tables"][problem]
    entry |= {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content), **changes}
    if seal:
        entry["seal"] = seal_of(manifest, problem)
    path.write_text(json.dumps(manifest))


class Unasked(Problem):
    """The part of a problem that cost models never ask: whoever does fails."""

    def initial(self, n: int) -> Candidates:
        raise NotImplementedError

    def candidates(self, step: int) -> Candidates:
        raise NotImplementedError

    def evaluate(self, candidate: int) -> Evaluation:
        raise NotImplementedError

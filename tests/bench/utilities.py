"""Milliseconds per step of every utility, and of MCMS's paths alone."""

import time

import numpy as np
from hydra.utils import instantiate
from omegaconf import OmegaConf
from rich.console import Console
from rich.table import Table
from sequence import CANDIDATES, FEATURES, sequence

from harness.acquisitions.ignore import Ignore
from harness.acquisitions.lookahead import Clock
from harness.acquisitions.paths import path_values
from harness.cli import CONFIGS
from harness.cost_models.lv import LowVariance
from harness.optimizer import Optimizer
from harness.problem import Evaluation
from harness.surrogates.gp import GaussianProcess

SIZES, ROUNDS = (20, 50, 100), 5


def table(console: Console) -> None:
    """Print ms per step, fit included, at each n."""
    data = sequence(SIZES[-1])
    out = Table("ms per step", *(f"n = {n}" for n in SIZES))
    for path in sorted((CONFIGS / "utility").glob("*.yaml")):
        row = []
        for n in SIZES:
            config = OmegaConf.to_container(OmegaConf.load(path))
            optimizer = Optimizer(
                GaussianProcess(), LowVariance(FEATURES), instantiate(config), Ignore(), iterations=SIZES[-1] + 20
            )
            for i in range(n):
                optimizer.tell(data.X[i], Evaluation(data.y[i], data.cost_s[i], 0.0, 0.0))
            optimizer.ask(data.candidates[n])  # compiles, and fits for the first time
            steps = [optimizer.ask(data.candidates[n]) for _ in range(ROUNDS)]
            row.append(float(np.median([p.fit_ms + p.propose_ms for p in steps])))
        out.add_row(path.stem, *(f"{ms:.1f}" for ms in row))
    console.print(out)
    console.print(f"{CANDIDATES} candidates; medians of {ROUNDS} steps.")
    _paths(console)


def _paths(console: Console) -> None:
    data, n = sequence(50), 50
    posterior = GaussianProcess().fit(data.X[:n], data.y[:n])
    joint, clock = posterior.joint(data.candidates[n][:100]), Clock(10.0, np.zeros(100), np.zeros(100))
    normals, spent = np.random.default_rng(0).standard_normal((32, 10, 3)), []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        path_values(joint, clock, np.arange(20), float(data.y.min()), normals)
        spent.append(1e3 * (time.perf_counter() - start))
    console.print(f"MCMS, 20 candidates x 32 paths x 10 steps over a pool of 100, n = 50: {min(spent):.0f} ms.")

"""Whole runs: steps per second, and two worker processes against one."""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sequence import CANDIDATES, optimizer, problem

from harness.loop import run

RUNS = 480  # of the study that one and two workers share: enough for start-up not to matter
ROUNDS = 3
PROBLEMS = [(d, p) for d in ("abalone", "phoneme", "kin8nm", "wine") for p in ("clean", "pca_small")]


def whole(console: Console) -> None:
    """Print what a run of 100 evaluations takes, look-ups and all."""
    out = Table("run of 100", "steps/s", "ms/step: fit", "propose", "everything")
    rows = []
    for name in PROBLEMS:
        start = time.perf_counter()
        trace = run(problem(0, name), optimizer(), 0, 100, 5, None)
        all_ms = 1e3 * (time.perf_counter() - start) / len(trace.timings["step"])
        rows.append((np.mean(trace.timings["fit_ms"]), np.mean(trace.timings["propose_ms"]), all_ms))
        out.add_row("/".join(name), f"{1e3 / all_ms:.0f}", *(f"{ms:.2f}" for ms in rows[-1]))
    fit, propose, all_ms = np.median(rows, axis=0)
    out.add_row("median", f"{1e3 / all_ms:.0f}", f"{fit:.2f}", f"{propose:.2f}", f"{all_ms:.2f}", style="bold")
    console.print(out)
    console.print(f"The engine alone (fit and propose, {CANDIDATES} candidates): {fit + propose:.2f} ms per step.")


def workers(console: Console) -> None:
    """Print the time of one small study with one and with two worker processes, in turns."""
    times: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(ROUNDS):
        for n_jobs in times:
            times[n_jobs].append(_study(n_jobs))
    one, two = (float(np.median(times[n])) for n in (1, 2))
    console.print(
        f"A study of {RUNS} runs, start-up included: {one:.1f} s with 1 worker, {two:.1f} s with 2: "
        f"{one / two:.2f} times as fast."
    )


def _study(n_jobs: int) -> float:
    folder = Path(tempfile.mkdtemp())
    arguments = ["+acq=cei", "lam=0.1", "dataset=[abalone,phoneme,kin8nm,wine]", "pipeline=[clean,pca_small]"]
    arguments += [f"executor.n_jobs={n_jobs}", f"results_dir={folder}", f"seeds={list(range(RUNS // len(PROBLEMS)))}"]
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "harness", *arguments], check=True, capture_output=True)
    spent = time.perf_counter() - start
    shutil.rmtree(folder)
    return spent

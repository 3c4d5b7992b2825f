"""Whole runs: steps per second, and the memory of the process that makes them."""

import resource
import time

import numpy as np
from rich.console import Console
from rich.table import Table
from sequence import CANDIDATES, optimizer, problem

from harness.loop import run

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
    kilobytes = [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]
    run(problem(0, PROBLEMS[0]), optimizer(300), 0, 300, 5, None)
    kilobytes.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    console.print("This process at its largest, with these libraries and tables: {:.0f} MB, after a run of 300 "
                  "evaluations {:.0f} MB.".format(*(k / 1024 for k in kilobytes)))  # fmt: skip

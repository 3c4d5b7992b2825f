"""`make bench`: how fast everything is, as ratios from one run on one thread. No test: machines differ and are noisy.

Usage: python tests/bench [step|parts|runs|executors|utilities|truth|estimate ...]; without any,
all of them. `estimate` needs replayed runs in the folder `results`; `truth` prints parity errors instead of times.
"""

import sys

import cluster
import steps
import truth
import utilities
import whole_runs
from rich.console import Console

import harness  # noqa: F401 - pins one BLAS thread per process before NumPy is loaded

PARTS = {
    "step": steps.table,
    "parts": steps.parts,
    "runs": whole_runs.whole,
    "executors": cluster.executors,
    "utilities": utilities.table,
    "truth": truth.table,
    "estimate": cluster.estimate,
}

if __name__ == "__main__":
    chosen = sys.argv[1:] or list(PARTS)
    unknown = [name for name in chosen if name not in PARTS]
    if unknown:
        sys.exit(f"error: unknown benchmark {', '.join(unknown)}; allowed: {', '.join(PARTS)}")
    console = Console(width=110)
    for name in chosen:
        PARTS[name](console)

"""Does memory grow over many runs?"""

import resource
from pathlib import Path

from rich.console import Console
from rich.progress import track
from sequence import optimizer, problem

from harness.loop import run

RUNS = 1000


def resident_mb() -> float:
    """Return the memory that this process holds now, in MB."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 2**20
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def growth(console: Console) -> None:
    """Print the resident memory after 100 and after 1,000 runs of 15 evaluations in one process."""
    seen = {}
    for k in track(range(RUNS), "memory", console=console, transient=True):
        run(problem(k), optimizer(15), k, 15, 5, None)
        if k + 1 in (100, RUNS):
            seen[k + 1] = resident_mb()
    console.print(f"Resident memory: {seen[100]:.0f} MB after 100 runs, {seen[RUNS]:.0f} MB after {RUNS:,}.")

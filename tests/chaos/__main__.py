"""`make chaos`: faults injected into a small real study, and the bytes that come out of it compared; hostile inputs.

Usage: python tests/chaos [study|dask|hostile ...] [rounds=50] [kills=20] [seed=0]; without parts, all of them.
Exits with 1 if anything was lost, mixed up, hung or silently used.
"""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]

import dask_kills  # noqa: E402
import hostile  # noqa: E402
import rounds  # noqa: E402

PARTS = {"study": rounds.main, "dask": dask_kills.main, "hostile": hostile.main}


def run() -> int:
    """Run the parts that the arguments name; returns the exit code."""
    settings = {"rounds": 50, "kills": 20, "seed": 0}
    for argument in [a for a in sys.argv[1:] if "=" in a]:
        name, _, value = argument.partition("=")
        if name not in settings or not value.isdigit():
            sys.exit(f"error: unknown setting {argument!r}; allowed: {', '.join(settings)}, whole numbers")
        settings[name] = int(value)
    chosen = [a for a in sys.argv[1:] if "=" not in a] or list(PARTS)
    if unknown := [name for name in chosen if name not in PARTS]:
        sys.exit(f"error: unknown part {', '.join(unknown)}; allowed: {', '.join(PARTS)}")
    failures = [failure for name in chosen for failure in PARTS[name](settings)]
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(run())

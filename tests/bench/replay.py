"""The tables: time to open one, look-ups per second."""

import time
from pathlib import Path

import numpy as np
from rich.console import Console
from sequence import PROBLEM

from tabular_cache.schema import problem_name
from tabular_cache.table import TABLES, load_table, read_table

LOOKUPS = 1_000_000


def table(console: Console) -> None:
    """Print the time to open tables for the first time, and that of a million look-ups."""
    names = sorted(path.stem.replace("--", "/") for path in Path(TABLES).glob("*--*.parquet"))
    spent = []
    load_table(names[0])  # imports
    for name in names:
        start = time.perf_counter()
        load_table(name)
        spent.append(1e3 * (time.perf_counter() - start))
    console.print(
        f"Opening a table: {np.median(spent):.1f} ms (median of {len(names)}), the longest {max(spent):.1f} ms "
        f"({names[int(np.argmax(spent))]})."
    )
    largest = read_table(problem_name(*PROBLEM))
    rows = np.random.default_rng(0).integers(len(largest), size=LOOKUPS)
    start = time.perf_counter()
    total = sum(float(largest[name][rows].sum()) for name in ("val_error", "test_error", "scaled_s"))
    whole = time.perf_counter() - start
    assert total
    console.print(f"{LOOKUPS:,} random rows (both errors and the cost): {whole:.3f} s, {LOOKUPS / whole:,.0f} rows/s.")

"""What the tables hold: one line per problem, and the whole."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from datasets.errors import BadInput
from tabular_cache import noise
from tabular_cache.table import Table, load_table, read_manifest


def summarise(table: Table) -> dict[str, Any]:
    """Return one problem's line: sizes, costs in seconds on the reference machine, errors.

    The mean cost is over the configurations at their own rounds, or where the time limit cut them short, as counted;
    failed: for another reason, kept as evaluations without an error. The cost ratio is the slowest over the fastest
    row, prefixes included.
    """
    own, error, cost = table["own"], table["val_error"], table["scaled_s"]
    return {
        "problem": table.problem + (f" ({table.meta['mark']})" if table.meta["mark"] else ""),
        "task": table.meta["task"],
        "classes": table.meta["n_classes"] or None,
        "train rows": table.meta["n_train"],
        "width": table.meta["width_after"],
        "configs": table.meta["configs"],
        "rows": table.meta["rows"],
        "mean cost s": cost[own].mean(),
        "max cost s": cost.max(),
        "best error": np.nanmin(error),
        "worst error": np.nanmax(error),
        "slowest/fastest": cost.max() / cost.min(),
        "cut short": int((~table.measured).sum()),
        "failed": int((table.measured & ~np.isfinite(error)).sum()),
    }


def problem_table(problems: Sequence[tuple[str, str]], folder: Path) -> pd.DataFrame:
    """Return the lines of the problems; raises BadInput for a missing or damaged table."""
    return pd.DataFrame([summarise(load_table(f"{d}/{p}", folder)) for d, p in problems])


def held(folder: Path, first: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the problems whose tables are in the folder, those of `first` in that order, then others by name.

    Raises BadInput where there is none.
    """
    there = {(name.partition("/")[0], name.partition("/")[2]) for name in read_manifest(folder)["tables"]}
    if not there:
        raise BadInput(f"no table in {folder}: build some with `python -m tabular_cache build tables={folder}`")
    return [*(problem for problem in first if problem in there), *sorted(there - set(first))]


def print_info(problems: Sequence[tuple[str, str]], folder: Path) -> int:
    """Print the table of problems and the totals; returns the exit code."""
    manifest = read_manifest(folder)
    frame = problem_table(problems, folder)
    frame["classes"] = frame["classes"].astype("Int64")
    digits = {"mean cost s": "{:.3f}", "max cost s": "{:.2f}", "best error": "{:.4g}", "worst error": "{:.4g}"}
    formats = {name: text.format for name, text in digits.items()} | {"slowest/fastest": "{:.0f}".format}
    print(frame.to_string(index=False, na_rep="-", formatters=formats))
    size = sum(manifest["tables"][f"{d}/{p}"]["bytes"] for d, p in problems)
    hours = sum(manifest["tables"][f"{d}/{p}"]["core_s"] for d, p in problems) / 3600
    print(
        f"\n{len(frame)} problems, {frame['configs'].sum():,} configurations, {frame['rows'].sum():,} rows, "
        f"{size / 1e6:.1f} MB; {hours:.2f} core-hours"
    )
    _print_noise(folder)
    _print_references(manifest)
    return 0


def _print_noise(folder: Path) -> None:
    noisy = noise.by_cost(folder)
    if len(noisy):
        print("\nNoise of the costs: the same training again, hours or days later (coefficients of variation)")
        print(noisy.to_string(index=False, float_format="{:.1f}".format))


def _print_references(manifest: dict[str, Any]) -> None:
    """Print, per processor and date, what the one reference training took: scaled, it should be the same."""
    timed = [(c["date"], c["cpu"], *timing) for c in manifest["campaigns"] for timing in c["reference"]]
    if not timed:
        return
    frame = pd.DataFrame(timed, columns=["date", "processor", "at", "cpu_s", "scaled_s"])
    median = frame.groupby(["date", "processor"], sort=False)[["cpu_s", "scaled_s"]].median()
    median.insert(0, "times", frame.groupby(["date", "processor"], sort=False).size())
    print("\nThe reference training, timed every ten minutes of measuring (medians)")
    print(median.reset_index().to_string(index=False, float_format="{:.3f}".format))

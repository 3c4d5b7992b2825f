"""What there is to gain on a problem, so that a tiny error to compare with carries nothing; and flat data sets.

The scale of a problem runs from the best validation error in its table to what random search finds:

    share = (error - best) / (random - best),

0 at the best row, 1 at the median of random search after as many evaluations as the runs compared have. That median
needs no runs: of m rows N are drawn without replacement, and the lowest of them is among the k best rows with
probability 1 - C(m - k, N) / C(m, N).
Source: our reading (STUDY: "Rules of the verdicts").
"""

from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.stats import hypergeom

from analysis.traces import CELL, EI, PROBLEM, Traces
from datasets.errors import BadInput
from tabular_cache.schema import problem_name
from tabular_cache.table import TABLES, load_table, table_entry

REPLAYED = "replay"
FLAT = 2 / 3  # share of random configurations with one and the same error from which a data set is flat


def flat_datasets(traces: Traces) -> list[str]:
    """Return the data sets on which most random configurations have one and the same error: nothing tells them apart.

    Of each problem's initial designs, those of EI or else of the first method there, over all seeds: the share of the
    commonest error; a data set is flat whose problems' median share is two thirds or more.
    """
    runs = traces.runs.assign(row=np.arange(len(traces.runs)), other=traces.runs["method"] != EI)
    rows = runs.sort_values("other", kind="stable").drop_duplicates(CELL)["row"].to_numpy()
    proposed = traces.proposed[rows]
    steps = np.where(proposed.any(axis=1), proposed.argmax(axis=1), 0)
    design = np.where(np.arange(proposed.shape[1]) < steps[:, None], traces.error[rows], np.nan)
    shares = {}
    for problem, places in traces.runs.iloc[rows].reset_index(drop=True).groupby(PROBLEM, observed=True).groups.items():
        errors = design[places]
        counts = np.unique(errors[np.isfinite(errors)], return_counts=True)[1]
        shares[problem] = counts.max() / counts.sum() if len(counts) else np.nan
    by_dataset = pd.Series(shares).groupby(level=0).median()
    return sorted(str(name) for name in by_dataset.index[by_dataset >= FLAT])


def of_random_search(error: Float[np.ndarray, " m"], n: int) -> float:
    """Return the median of the lowest of n errors drawn without replacement."""
    ordered = np.sort(error)
    drawn = min(n, len(ordered))
    found = hypergeom.sf(0, len(ordered), np.arange(1, len(ordered) + 1), drawn)  # one of the k best or more
    return float(ordered[int(np.argmax(found >= 0.5))])


@lru_cache(maxsize=512)
def _ends(problem: str, sha256: str, n: int, folder: Path) -> tuple[float, float]:
    table = load_table(problem, folder)
    error = table["val_error"][table.measured]
    return float(error.min()), of_random_search(error, n)


def gains(frame: pd.DataFrame, n: int, folder: Path = TABLES) -> pd.DataFrame:
    """Return `best` and `random` (after n evaluations) per (dataset, pipeline) of the tables that were replayed.

    frame: evaluations (`read_traces`). Raises BadInput where the records do not say which tables they are of, or where
    those in `folder` are others.
    """
    if "data" not in frame.columns or set(frame["evaluator"].astype(str)) != {REPLAYED}:
        raise BadInput("what there was to gain is known of replayed tables only, and of records that name them")
    found = {}
    for dataset, pipeline, data in frame[[*PROBLEM, "data"]].drop_duplicates().astype(str).to_numpy():
        problem = problem_name(dataset, pipeline)
        if table_entry(problem, folder)["sha256"] != data:
            raise BadInput(f"the records of {problem} are of another table than the one in {folder.name}")
        found[dataset, pipeline] = _ends(problem, data, n, folder)
    index = pd.MultiIndex.from_tuples(list(found), names=PROBLEM)
    return pd.DataFrame(list(found.values()), index=index, columns=["best", "random"])


def shares(error: pd.DataFrame, ends: pd.DataFrame) -> pd.DataFrame:
    """Return errors (one row per (dataset, pipeline, seed)) as shares of what there was to gain.

    Problems whose table's best is what random search finds are left out.
    """
    own = ends.reindex(pd.MultiIndex.from_frame(error.index.to_frame()[PROBLEM]))
    best, room = own["best"].to_numpy(), (own["random"] - own["best"]).to_numpy()
    return error.sub(best, axis=0).div(room, axis=0)[room > 0]

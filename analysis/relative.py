"""Final error and total cost after N iterations, relative to EI on the same problem and seed.

Source: Guinet et al. 2020, bi-optimization figures (STUDY: F3, F5).
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.incumbent import spent
from analysis.methods import EI, require
from analysis.traces import CELL, Traces
from datasets.errors import BadInput

MEASURES = ("cost_pct", "error_pct")


@dataclass(frozen=True)
class Relative:
    """One row per pair of a run and EI's run on the same (dataset, pipeline, seed); EI itself is 100, 100.

    table: dataset, pipeline, seed, method, acq, alpha, lam, cost_pct, error_pct.
    unpaired: runs of other methods without an EI partner. zero: pairs whose EI run reached error 0, where a
    ratio does not exist. failed: pairs in which a run had no successful evaluation. All three are left out.
    """

    table: pd.DataFrame
    unpaired: int
    zero: int
    failed: int

    def wide(self, measure: str, methods: list[str]) -> pd.DataFrame:
        """Return `measure` with one row per (dataset, pipeline, seed) and one column per method."""
        wide = self.table.pivot(index=CELL, columns="method", values=measure)
        return wide.reindex(columns=methods)


def finals(traces: Traces) -> pd.DataFrame:
    """Return the runs with `final_error` and `total_cost_s` after their last step."""
    last = traces.runs["evaluations"].to_numpy()[:, None] - 1
    return traces.runs.assign(
        final_error=np.take_along_axis(traces.incumbent, last, axis=1)[:, 0],
        total_cost_s=np.take_along_axis(spent(traces.cost_s), last, axis=1)[:, 0],
    )


def relative(traces: Traces, what: str = "relative numbers") -> Relative:
    """Return cost_pct = 100 c*/c*_EI and error_pct = 100 y*/y*_EI of runs of equal length.

    `what` names the asker in the error. Raises BadInput without runs of `ei`, and where no pair is left.
    """
    require(traces.runs, EI, what)
    table = finals(traces)
    ei = table.loc[table["method"] == EI, [*CELL, "final_error", "total_cost_s"]]
    pairs = table.merge(ei, on=CELL, how="left", suffixes=("", "_ei"), validate="many_to_one")
    unpaired = pairs["total_cost_s_ei"].isna()
    failed = ~unpaired & (pairs["final_error"].isna() | pairs["final_error_ei"].isna())
    zero = ~unpaired & ~failed & (pairs["final_error_ei"] == 0)
    pairs["cost_pct"] = 100 * pairs["total_cost_s"] / pairs["total_cost_s_ei"]
    pairs["error_pct"] = 100 * pairs["final_error"] / pairs["final_error_ei"].where(~zero)
    kept = pairs.loc[~(unpaired | failed | zero), [*CELL, "method", "acq", "alpha", "lam", *MEASURES]]
    if kept.empty:
        raise BadInput(
            f"{what} needs a run to compare with EI's on the same problem and seed ({unpaired.sum():,} without it, "
            f"{zero.sum():,} where EI's error is 0, {failed.sum():,} without a successful evaluation)"
        )
    return Relative(kept.reset_index(drop=True), int(unpaired.sum()), int(zero.sum()), int(failed.sum()))

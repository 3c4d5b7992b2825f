"""The alpha that CEI amounts to, iteration by iteration (STUDY: F5, right half)."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.bootstrap import Scheme, bootstrap
from analysis.methods import ordered
from analysis.traces import CELL, Traces


@dataclass(frozen=True)
class Effective:
    """curve: method, lam, iteration (1-based), value (mean effective alpha), low, high, n (runs), median,
    unsupported (share).

    unsupported: the share of the proposed points for which no alpha exists, over all and by lambda; they are
    left out of the mean.
    """

    curve: pd.DataFrame
    unsupported: float
    by_lambda: pd.Series


def effective_alpha(traces: Traces, scheme: Scheme | None = None) -> Effective:
    """Average the effective alpha over runs, for every method and iteration with at least one proposal.

    Points of the initial design were not proposed and do not count, nor do alphas that are not finite.
    """
    runs, supported = traces.runs, np.isfinite(traces.effective_alpha) & traces.proposed
    alpha = np.where(supported, traces.effective_alpha, np.nan)
    axis = runs.drop_duplicates("method").set_index("method")["lam"]
    parts = []
    for method in ordered(runs):
        rows = np.flatnonzero(runs["method"] == method)
        steps = np.flatnonzero(traces.proposed[rows].any(axis=0))
        values = pd.DataFrame(alpha[np.ix_(rows, steps)], index=pd.MultiIndex.from_frame(runs.loc[rows, CELL]))
        mean = bootstrap(values, "mean", scheme)
        part = mean.assign(method=method, lam=axis[method], iteration=steps + 1)
        proposed = traces.proposed[np.ix_(rows, steps)].sum(axis=0)
        parts.append(part.assign(median=values.median().to_numpy(), unsupported=1 - part["n"] / proposed))
    columns = ["method", "lam", "iteration", "value", "low", "high", "n", "median", "unsupported"]
    counts = pd.DataFrame({"proposed": traces.proposed.sum(axis=1), "supported": supported.sum(axis=1)})
    by_lambda = counts.groupby(runs["lam"]).sum()
    total = by_lambda.sum()
    return Effective(
        pd.concat(parts, ignore_index=True)[columns],
        float(1 - total["supported"] / total["proposed"]) if total["proposed"] else 0.0,
        1 - by_lambda["supported"] / by_lambda["proposed"],
    )


def unsupported_sentence(effective: Effective) -> str:
    """Return the sentence on the choices that no alpha would make, over all and by lambda."""
    shares = [f"{share:.0%} at {lam:g}" for lam, share in effective.by_lambda.dropna().items()]
    return (
        f"Left out are the {effective.unsupported:.1%} of CEI's choices that lie on no supported part of the "
        f"EI-cost front, which no alpha would make (by lambda: {', '.join(shares) or 'none proposed'})."
    )

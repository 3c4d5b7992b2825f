"""The headline numbers: per method, relative cost and error, and mean rank per budget."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis import markdown
from analysis.budgets import minimal_budgets
from analysis.methods import EI, EIPU, ordered
from analysis.ranked import Ranks
from analysis.ranks import rank_curves, ranks
from analysis.relative import Relative, relative
from analysis.scope import too_short_marks
from analysis.selection import at_horizon, horizon, of_families
from analysis.traces import Traces
from analysis.tradeoff import tradeoff
from datasets.errors import BadInput


@dataclass(frozen=True)
class Headline:
    """Relative cost and error of all methods: `numbers` as `tradeoff` gives them, and what they rest on."""

    numbers: pd.DataFrame
    pairs: Relative
    short: int
    iterations: int


def headline(traces: Traces, without: list[str]) -> Headline:
    """Compare every method with EI after N iterations, leaving the data sets `without` aside.

    Raises BadInput without runs of `ei`.
    """
    n = horizon(traces)
    equal, short = at_horizon(_without(traces, without), n)
    pairs = relative(equal, "the summary")
    return Headline(tradeoff(pairs, ordered(pairs.table)), pairs, short, n)


def headline_table(numbers: pd.DataFrame) -> pd.DataFrame:
    """Return the numbers as a table to print: one row per method, ``value [low, high]`` in percent of EI."""
    shown = numbers.drop_duplicates("method").set_index("method")[["n"]].rename(columns={"n": "pairs"})
    for measure, what in (("cost_pct", "cost"), ("error_pct", "error")):
        for statistic, rows in numbers.groupby("statistic", sort=True):
            triples = rows.set_index("method").loc[shown.index, [measure, f"{measure}_low", f"{measure}_high"]]
            shown[f"{statistic} {what} (%)"] = [
                markdown.interval(v, low, high, digits=2) for v, low, high in triples.to_numpy()
            ]
    return shown.reset_index()


def budget_ranks(traces: Traces, family: str, without: list[str]) -> Ranks:
    """Rank a family at the whole budgets: ``cei`` with EI and EIpu (F6), or ``eialpha`` with both.

    Raises BadInput where the methods are too few.
    """
    traces = _without(traces, without)
    runs, own = traces.runs, of_families(traces, "alpha")
    if own.runs.empty:
        found = ", ".join(ordered(runs)) or "no run"
        raise BadInput(f"the minimal budget needs a method of EI^alpha: the records hold {found}")
    equal, _ = at_horizon(own, horizon(traces))
    member = runs["lam"].notna() | runs["method"].isin([EI, EIPU]) if family == "cei" else runs["alpha"].notna()
    budgets = minimal_budgets(equal, "the summary")
    return ranks(traces, budgets, ordered(runs[member]), shares=np.ones(1), what="the summary")


def rank_table(ranked: Ranks) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the mean ranks as numbers, and as a table to print with one row per method.

    The heading of a budget that does not count says how many runs are too short for it.
    """
    numbers = rank_curves(ranked).drop(columns="share")
    shown = pd.DataFrame({"method": ranked.methods})
    marks = dict(zip(ranked.multiples, too_short_marks(ranked), strict=True))
    for multiple, rows in numbers.groupby("multiple", sort=True):
        triples = rows.set_index("method").loc[ranked.methods, ["value", "low", "high"]].to_numpy()
        mark = f" ({marks[multiple]})" if marks[multiple] else ""
        shown[f"{multiple:.0%}{mark}"] = [markdown.interval(v, low, high, digits=2) for v, low, high in triples]
    return numbers, shown


def _without(traces: Traces, datasets: list[str]) -> Traces:
    return traces.select(~traces.runs["dataset"].isin(datasets).to_numpy())

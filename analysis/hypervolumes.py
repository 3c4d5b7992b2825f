"""Hypervolumes of (cost, error): how much of what EI leaves to gain a family of methods gains, per problem.

For each problem, cost and error after N iterations are put on a scale that EI's runs fix:

    cost = c* / c*_EI,   loss = (y* - y_best) / (y_initial - y_best),

y_initial the best error of the initial design, which all methods share, and y_best the best that any method found with
the same seed. Each of the five is first averaged over seeds: the best of many noisy runs is no gain, ratios of single
runs are biased (`statistics.ratios_of_sums`), and a seed that leaves no room weighs nothing. The reference point is
(1, 1), EI's total cost and nothing gained over the initial design; the ideal point is (0, 0). A method that gains all
there is at half of EI's cost has 0.5, EI itself 0. Two families are compared over the range of cost that both reach:
what a point gains below it does not count.
Source: Zitzler and Thiele 1998 (hypervolume); the scale is our reading (STUDY is silent).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment

from analysis.captions import write_csv
from analysis.evaluations import CELL
from analysis.methods import EI, PROBLEM, ordered, require
from analysis.selection import at_horizon, horizon, sparse_methods
from analysis.traces import Traces
from analysis.tradeoffs import EI_STOPPED, finals, stopped_early
from datasets.errors import BadInput


def hypervolume(points: Float[np.ndarray, "n 2"], reference: Float[np.ndarray, "2"]) -> float:
    """Return the area that lies between the points and the reference: of all (a, b) <= reference with a point <= it.

    Both coordinates are minimised; points beyond the reference add nothing. Raises ValueError for NaN.
    """
    if np.isnan(points).any() or np.isnan(reference).any():
        raise ValueError("a hypervolume needs numbers, got NaN")
    inside = points[(points < reference).all(axis=1)]
    area, height = 0.0, float(reference[1])
    for a, b in inside[np.lexsort((inside[:, 1], inside[:, 0]))]:
        area += (float(reference[0]) - a) * max(0.0, height - b)
        height = min(height, float(b))
    return area


@dataclass(frozen=True)
class Hypervolumes:
    """A family's hypervolumes (own) beside those of others (others), over the range of cost that the two reach.

    own, others: index (dataset, pipeline), a column for each of the others. cells: those that count. flat: problems
    left out, where no method gains on the initial design; incomplete: cells left out in which some method has no
    successful run, or the design none.
    """

    own: pd.DataFrame
    others: pd.DataFrame
    cells: pd.DataFrame
    flat: int
    incomplete: int


@dataclass(frozen=True)
class Scaled:
    """Cost and loss of every method on EI's scale (points; index dataset, pipeline, method), and what was left out.

    cells, flat, incomplete: as in `Hypervolumes`.
    """

    points: pd.DataFrame
    cells: pd.DataFrame
    flat: int
    incomplete: int

    def costs(self, methods: Iterable[str]) -> dict[str, float]:
        """Return the mean over problems of each method's cost, of those that have one."""
        means = self.points["cost"].groupby(level="method").mean().reindex([*methods]).dropna()
        return {str(method): float(value) for method, value in means.items()}


def scaled(table: pd.DataFrame, beside: pd.DataFrame | None = None) -> Scaled:
    """Return cost and loss of every method on the scale above, each of means over the seeds that it was run with.

    NaN where these leave no room. table: `finals` of runs of equal length; beside: of others, put on the same scale.
    Raises BadInput where no problem is left.
    """
    ei = table.loc[table["method"] == EI].set_index(CELL)[["total_cost_s", "initial_error"]]
    known = ei.set_axis(["whole", "initial"], axis=1).join(table.groupby(CELL)["final_error"].min().rename("best"))
    there = table[table["final_error"].notna()].groupby(CELL)["method"].nunique() == table["method"].nunique()
    known = known.join(there.rename("there"), how="outer")
    complete = known["there"].fillna(False).astype(bool) & known["whole"].notna() & known["initial"].notna()
    known = known[complete].drop(columns="there")
    scale = known.groupby(level=PROBLEM).sum()
    steep = scale.index[scale["initial"] > scale["best"]]
    if steep.empty:
        raise BadInput("no problem and seed in which every method ran and one gained on the initial design")
    cells = known.index.to_frame(index=False)
    cells = cells[pd.MultiIndex.from_frame(cells[PROBLEM]).isin(steep)].reset_index(drop=True)
    rows = pd.concat([table, *([] if beside is None else [beside])], ignore_index=True)
    rows = rows[rows["final_error"].notna()].merge(cells, on=CELL).join(known, on=CELL)
    sums = rows.groupby([*PROBLEM, "method"])[["total_cost_s", "final_error", *known.columns]].sum()
    room = (sums["initial"] - sums["best"]).where(lambda there: there > 0)
    loss = (sums["final_error"] - sums["best"]) / room
    found = pd.DataFrame({"cost": sums["total_cost_s"] / sums["whole"], "loss": loss})
    return Scaled(found, cells, len(scale) - len(steep), int((~complete).sum()))


def hypervolumes(on_scale: Scaled, family: Sequence[str], others: Mapping[str, Sequence[str]]) -> Hypervolumes:
    """Return the hypervolumes of a family of methods and of each other, per problem.

    A point of one of two families that is cheaper than the other's cheapest, on that
    problem, counts as if it cost as much: what lies a hair beyond the range of cost that both reach loses a hair, not
    the whole point. NaN on problems without runs of all methods of both.
    """
    areas = {}
    for problem, there in on_scale.points.groupby(level=PROBLEM):
        points = there.droplevel([*PROBLEM])
        areas[problem] = {name: _over_common_range(points, family, other) for name, other in others.items()}
    both = pd.DataFrame.from_dict(areas, orient="index").rename_axis(index=PROBLEM)
    own, beside_it = (both.map(lambda pair, k=k: pair[k]) for k in range(2))
    return Hypervolumes(own, beside_it, on_scale.cells, on_scale.flat, on_scale.incomplete)


def _over_common_range(points: pd.DataFrame, *families: Sequence[str]) -> tuple[float, ...]:
    """Return the hypervolume of each family's points (index: method; columns cost, loss), NaN where one is missing."""
    own = [points.reindex([*family])[["cost", "loss"]].to_numpy() for family in families]
    if any(np.isnan(part).any() for part in own):
        return (np.nan,) * len(own)
    least = max(part[:, 0].min() for part in own)
    return tuple(hypervolume(np.maximum(part, [least, -np.inf]), np.ones(2)) for part in own)


def match_costs(
    cost: Mapping[str, float], families: Mapping[str, Sequence[str]], beside: Mapping[str, Mapping[str, float]]
) -> dict[str, list[str]]:
    """Return as many methods of each of two families, EI apart, and of others.

    cost: each method's mean cost relative to EI's. Of the family that has more methods those are taken that lie nearest
    to the other's in log cost, one for each, at the least sum of distances; of those `beside` (a method stopped after n
    evaluations, by label: its cost) likewise. Errors play no part.
    """
    fewest = min(families, key=lambda name: len(families[name]))
    few = list(families[fewest])

    def nearest(among: Sequence[str], costs: Mapping[str, float]) -> list[str]:
        apart = np.abs(np.log([[costs[other] / cost[m] for other in among] for m in few])).reshape(len(few), len(among))
        return [among[k] for k in sorted(linear_sum_assignment(apart)[1].tolist())]

    found = {name: few if name == fewest else nearest(own, cost) for name, own in families.items()}
    return found | {name: nearest(list(costs), costs) for name, costs in beside.items()}


# The two families of the study, EI^alpha and CEI, and what stands beside them.

FEWEST = 3  # members of a family, EI included
EVERY = "every"


def families_of(runs: pd.DataFrame) -> dict[str, list[str]]:
    """Return the methods present of EI^alpha (``alpha``), and of CEI with EI, which is its lambda = 0 (``lam``).

    Those with too few runs are left out (`selection.sparse_methods`).
    """
    runs = runs[~runs["method"].isin(sparse_methods(runs))]
    return {
        "alpha": ordered(runs[runs["alpha"].notna()]),
        "lam": [EI, *ordered(runs[runs["lam"].notna()])],
    }


def volumes(equal: Traces, chosen: Mapping[str, list[str]] | None = None) -> tuple[Hypervolumes, dict[str, list[str]]]:
    """Return CEI's hypervolumes beside those of EI^alpha, of EI stopped early (``ei-n``) and of each rival stopped
    early, by its name; and the methods of each without EI.

    As many methods of each (`match_costs`, or those of `chosen`, as returned for other runs); EI itself stands in all.
    A rival, or EI, that cannot be stopped after as many as two numbers of evaluations is left out. Beside them
    ``every``: all methods of CEI and of EI^alpha. The scale, and the cells that count, are those of the two families.
    `equal`: runs of equal length. Raises BadInput without runs of EI, where no problem and seed has runs of both that
    can be compared, or where there are fewer than two methods of each.
    """
    require(equal.runs, EI, "a hypervolume")
    families = families_of(equal.runs)
    counted = {method for methods in families.values() for method in methods}
    own = finals(equal.select(equal.runs["method"].isin(counted).to_numpy()))
    few = sparse_methods(equal.runs)
    rivals = [m for m in _rivals(equal.runs) if m not in few]
    stopped = {name: stopped_early(equal, method) for name, method in [(EI_STOPPED, EI), *((m, m) for m in rivals)]}
    inner = {name: [m for m in methods if m != EI] for name, methods in families.items()}
    on_scale = scaled(own, pd.concat(stopped.values(), ignore_index=True))
    if chosen is None:
        costs = {name: on_scale.costs(t["method"].unique()) for name, t in stopped.items()}
        chosen = match_costs(on_scale.costs([*counted]), inner, costs)
    members = {name: m for name, m in chosen.items() if name in inner or (name in stopped and len(m) >= FEWEST - 1)}
    if min(len(members[name]) for name in inner) < FEWEST - 1:
        raise BadInput(f"fewer than {FEWEST - 1} methods of EI^alpha or of CEI")
    with_ei = {name: [EI, *methods] for name, methods in members.items()}
    found = hypervolumes(on_scale, with_ei.pop("lam"), with_ei)
    every = hypervolumes(on_scale, families["lam"], {EVERY: families["alpha"]})
    return replace(found, own=found.own.join(every.own), others=found.others.join(every.others)), members


def _rivals(runs: pd.DataFrame) -> list[str]:
    """Return the methods on neither axis that were not planned for a budget."""
    return sorted(set(runs.loc[runs["alpha"].isna() & runs["lam"].isna() & runs["tau"].isna(), "method"]))


def write_volumes(traces: Traces, out_dir: Path) -> list[Path]:
    """Write hypervolumes.csv, those of claim 7 per problem; nothing where the records hold none."""
    try:
        found = volumes(at_horizon(traces, horizon(traces))[0])[0]
    except BadInput:
        return []
    table = found.others.join(found.own.add_prefix("lam beside ")).reset_index()
    path = out_dir / "hypervolumes.csv"
    write_csv(table, path)
    return [path]

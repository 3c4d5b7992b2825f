"""Runs of several utilities under cost rules: arranged, chosen, cut at deadlines, and compared in numbers.

A method is a utility with a cost rule, such as ``kg x cei(lam=0.3)``. Everything is paired by problem and seed.
"""

import json
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from hydra.utils import instantiate
from jaxtyping import Float
from omegaconf import OmegaConf
from scipy.stats import rankdata

from analysis.captions import plural
from analysis.evaluations import (
    ARRAYS,
    CELL,
    MIXED,
    RUN,
    Evaluations,
    Recorded,
    check_same_origin,
    choose_components,
    dense,
)
from analysis.methods import EI, PROBLEM, canonical
from analysis.selection import BUDGET_MULTIPLES, SAME, most_reached
from analysis.statistics import percent_of_sums, with_intervals, with_intervals_and_differences
from analysis.traces import STUDY_ITERATIONS, Judge, Traces, at_budgets
from datasets.errors import BadInput
from harness.acquisitions import Setup, Utility
from harness.config import CONFIGS
from harness.cost_models import Oracle
from harness.sealed import spec_hash
from harness.surrogates.gp import GaussianProcess

REFERENCE_METHOD = "ei x ei"


@dataclass(frozen=True)
class Runs(Traces):
    """Traces of several utilities: what each run found, what it paid, and how long the optimizer thought.

    table: beside what `Traces` has, utility, rule, label (``utility x rule``), and ms_per_step, the median over the
    run's proposals. thinking_s: the optimizer's own seconds before the step.
    """

    thinking_s: Float[np.ndarray, "R T"] = field(kw_only=True)

    @property
    def table(self) -> pd.DataFrame:
        """The descriptions of the runs, one row each."""
        return self.runs

    def cut(self, kept: np.ndarray) -> "Runs":
        """Return the runs with `kept` (R,) first steps of each; `ms_per_step` of these, NaN without a proposal."""
        beyond = np.arange(self.cost_s.shape[1]) >= kept[:, None]
        arrays: dict[str, Any] = {name: np.where(beyond, np.nan, a) for name, a in self.arrays().items()}
        proposals = pd.DataFrame(arrays["thinking_s"]).where(arrays["thinking_s"] > 0)
        runs = self.runs.assign(evaluations=kept, ms_per_step=1e3 * proposals.median(axis=1).to_numpy())
        return replace(self, runs=runs, **arrays)

    @property
    def training_s(self) -> Float[np.ndarray, " R"]:
        """Training seconds of each run."""
        return np.asarray(np.nansum(self.cost_s, axis=1))

    @property
    def thought_s(self) -> Float[np.ndarray, " R"]:
        """Seconds that the optimizer took in each run."""
        return np.asarray(np.nansum(self.thinking_s, axis=1))

    @property
    def final(self) -> Float[np.ndarray, " R"]:
        """The best error of each run; NaN where nothing succeeded."""
        made = self.runs["evaluations"].to_numpy(int)
        return np.where(made > 0, self.incumbent[np.arange(len(made)), np.maximum(made - 1, 0)], np.nan)

    def wide(self, values: np.ndarray) -> pd.DataFrame:
        """Return `values` of the runs as cells x methods; NaN where a cell lacks the method."""
        return self.runs.assign(value=values).pivot(index=CELL, columns="label", values="value")


NONE = "these records hold no utility but ei: python -m harness study=utilities, with the same results_dir"
LONGEST = 10.0
"""A step counts for at most so many times its run's median: compilation and stalls of the host are not thinking."""


def arrange(
    recorded: Recorded,
    timings: Callable[[Container[str]], pd.DataFrame],
    wanted: Mapping[str, str] | None = None,
    judge: Judge = "validation",
    mixed: bool = False,
) -> Runs:
    """Return the runs of all utilities that are recorded under a rule which some utility other than EI has, too.

    timings: returns the milliseconds of some specs, by their hashes (`harness.records.read_timings`). wanted: as for
    `choose_components`; a utility is never chosen. mixed: whether records of different tables, engines or settings of
    a utility (which a frame does not say) are meant to stand together.
    Raises BadInput where there is no other utility, the records are mixed without saying so, or one run is recorded
    twice.
    """
    others = {key: name for key, name in (wanted or {}).items() if key != "utility"}
    evaluations, chosen = choose_components(Evaluations.of(recorded), others, free=("utility",))
    evaluations = replace(evaluations, runs=evaluations.runs.astype({"utility": str}))
    named = canonical(evaluations.runs.drop_duplicates("spec"))
    compared = named.loc[named["utility"] != EI, "method"].unique()
    if not len(compared):
        raise BadInput(NONE)
    compared_specs = named.loc[named["method"].isin(compared), "spec"]
    evaluations = evaluations.select(evaluations.runs["spec"].isin(compared_specs).to_numpy())
    if not mixed:
        check_same_origin(evaluations.runs)
        _check_same_settings(evaluations)
    runs, arranged = dense(evaluations, [*RUN, "utility"])
    arrays = {name: arranged(name) for name in ARRAYS}
    runs = runs.assign(rule=runs["method"], label=runs["utility"] + " x " + runs["method"])
    thinking_s = _thinking_s(runs, arrays["cost_s"].shape, timings(set(compared_specs.astype(str))))
    found = Runs(runs, components=chosen, judge=judge, thinking_s=thinking_s, **arrays)
    return found.cut(runs["evaluations"].to_numpy())


def _thinking_s(runs: pd.DataFrame, shape: tuple[int, int], timings: pd.DataFrame) -> Float[np.ndarray, "R T"]:
    """Return the optimizer's seconds before each step, at most LONGEST times the median; 0 where none are known."""
    rows = pd.MultiIndex.from_arrays([runs["spec"].astype(str), runs["seed"]])
    run = rows.get_indexer(pd.MultiIndex.from_arrays([timings["spec"].astype(str), timings["seed"]]))
    step, spent = timings["step"].to_numpy(int), (timings["fit_ms"] + timings["propose_ms"]).to_numpy(float)
    known = (run >= 0) & (step < runs["evaluations"].to_numpy()[run])
    found = np.full(shape, np.nan)
    found[run[known], step[known]] = spent[known]
    median = pd.DataFrame(found).median(axis=1).to_numpy()
    return np.nan_to_num(np.minimum(found, LONGEST * median[:, None])) / 1e3


def _settings(specs: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return the settings of the utility of every spec, and of which versions it was, as text, by its hash."""
    versions = ("look_ahead", "cost_sd")
    return {
        spec_hash(spec): json.dumps(
            [spec.get("components", {}).get("utility"), *(spec.get(name) for name in versions)], sort_keys=True
        )
        for spec in specs
    }


def _check_same_settings(evaluations: Evaluations) -> None:
    """Raise BadInput where one utility's runs were made with different settings, such as those of an older version."""
    seen, settings = evaluations.runs[["utility", "spec"]].drop_duplicates(), _settings(evaluations.specs)
    kinds = seen.assign(settings=seen["spec"].map(settings)).groupby("utility")["settings"].nunique()
    several = [str(name) for name in kinds.index[kinds > 1]]
    if several:
        raise BadInput(
            f"the records of utility={', '.join(several)} were made with different settings of it: keep one "
            f"results_dir per setting{MIXED}"
        )


# Which runs of utilities can be compared: as long as the others, and on the cells that every method has.


def utilities_at_horizon(runs: Runs) -> tuple[Runs, int, dict[str, int]]:
    """Return one run per method and cell, cut after N evaluations without a deadline, and N: 100, or fewer.

    Last: how many runs of each method (label) are shorter or planned for another length, where no other serves a cell.

    Of a method that does not plan, the first N steps of a longer run count, as far as its deadline allowed it.
    Raises BadInput where no utility but EI has such runs.
    """
    table = runs.table
    own = table[(table["utility"] != EI) & table["tau"].isna()]
    if own.empty:
        raise BadInput("the runs of utilities other than ei all have a deadline")
    reference = table[(table["label"] == REFERENCE_METHOD) & table["tau"].isna()]
    n = int(min(STUDY_ITERATIONS, *(most_reached(part) for part in (own, reference) if len(part))))
    planned = table["tau"].isna() & (table["iterations"] == n)
    fits = (table["evaluations"] >= n) & (~table["plans"] | planned)
    if REFERENCE_METHOD not in set(table.loc[fits, "label"]):
        raise BadInput(
            f"comparing utilities needs runs of {REFERENCE_METHOD} with {n} evaluations: run study=utilities"
        )
    kept = table[fits].sort_values(["iterations", "acq"], kind="stable").drop_duplicates([*CELL, "label"])
    served = pd.MultiIndex.from_frame(kept[[*CELL, "label"]])
    short = table[~fits].drop_duplicates([*CELL, "label"])
    short = short[~pd.MultiIndex.from_frame(short[[*CELL, "label"]]).isin(served)]
    found = runs.select(np.sort(kept.index.to_numpy()))
    counts = {str(label): int(count) for label, count in short["label"].value_counts().items()}
    return found.cut(np.full(len(found.table), n)), n, counts


@dataclass(frozen=True)
class Complete:
    """The runs of `labels` on the cells that have them all; missing: methods left out, with how many cells they have.

    partial: cells left out, since they lack one of `labels`.
    """

    runs: Runs
    labels: list[str]
    missing: dict[str, int]
    partial: int


def complete(runs: Runs) -> Complete:
    """Choose methods and cells so that every cell has every method, and as many runs as possible are compared.

    Methods go in the order of their number of cells, fewest first; the reference stays. Raises BadInput without it.
    """
    present = runs.wide(np.ones(len(runs.table))).notna()
    if REFERENCE_METHOD not in present:
        raise BadInput(f"comparing utilities needs runs of {REFERENCE_METHOD}: run study=utilities")
    cells = {str(name): int(n) for name, n in present.sum().items()}
    order = sorted((name for name in cells if name != REFERENCE_METHOD), key=lambda name: (cells[name], name))
    best: tuple[int, int] | None = None
    for gone in range(len(order)):
        size = int(present[[REFERENCE_METHOD, *order[gone:]]].all(axis=1).sum()) * (1 + len(order) - gone)
        if size and (best is None or size > best[0]):
            best = (size, gone)
    if best is None:
        raise BadInput(f"no problem and seed has runs of {REFERENCE_METHOD} and of another utility")
    labels = sorted([REFERENCE_METHOD, *order[best[1] :]])
    whole = present[labels].all(axis=1)
    rows = runs.table["label"].isin(labels) & pd.MultiIndex.from_frame(runs.table[CELL]).isin(whole[whole].index)
    missing = {name: cells[name] for name in order[: best[1]]}
    return Complete(runs.select(rows.to_numpy()), labels, missing, int((~whole & present.any(axis=1)).sum()))


# Runs of utilities up to a deadline: which runs serve which, and what of them ends in time.
#
# A method that does not plan with the deadline makes the same choices whatever it is: one long run of it serves every
# deadline within the run. Methods that plan need runs of their own for each.

NAMELESS = ""


def with_deadlines(runs: Runs, budgets: pd.Series | None = None) -> dict[str, Runs]:
    """Return, by the deadline's name, the runs that serve it, cut after what ends in time.

    budgets: the minimal budget in seconds by (dataset, pipeline), if it is known; deadlines that are a multiple of it
    are named by that, others by their seconds, but for those that `of_other_budgets` names. A deadline is there
    where a run of another utility than EI was made for it, and every multiple of the budget up to the longest deadline
    of such runs that do not plan. A run serves the deadline that it was made for; of a method that does not plan, so
    does one with a later deadline, or with none if it goes on that long. The table's column `capped` says which runs
    ended before the deadline: they have no more iterations.
    """
    table, found = runs.table, dict[str, Runs]()
    tau = table["tau"].to_numpy(float)
    spent = np.cumsum(np.where(np.isnan(runs.cost_s), np.inf, runs.cost_s), axis=1)
    for name, deadline in _deadlines(table, budgets).items():
        end = deadline.reindex(pd.MultiIndex.from_frame(table[PROBLEM])).to_numpy(float)
        covers = runs.training_s >= end
        serves = np.isclose(tau, end, rtol=SAME, atol=0.0)
        serves |= ~table["plans"].to_numpy() & ((tau > end) | (np.isnan(tau) & covers))
        own = table.assign(capped=~covers)[serves]
        own = own.sort_values(["capped", "iterations", "acq"], ascending=[True, False, True], kind="stable")
        rows = np.sort(own.drop_duplicates([*CELL, "label"]).index.to_numpy())
        if set(table["utility"].iloc[rows]) > {EI}:
            part = runs.select(rows).cut((spent[rows] <= end[rows, None]).sum(axis=1))
            part.table["capped"] = ~covers[rows]
            found[name] = part
    return found


def _deadlines(table: pd.DataFrame, budgets: pd.Series | None) -> dict[str, pd.Series]:
    """Return, by name, seconds by (dataset, pipeline): multiples of the budget first, then others, shortest first."""
    timed = _timed(table, budgets)
    timed = timed[timed["name"] != NAMELESS]
    rows = [timed[[*PROBLEM, "name"]].assign(seconds=timed["tau"])]
    if budgets is not None:
        longest = timed[~timed["plans"]].groupby(PROBLEM)["tau"].max()
        base = budgets.reindex(longest.index)
        for multiple in BUDGET_MULTIPLES:
            within = (multiple * base)[multiple * base <= longest * (1.0 + SAME)]
            rows.append(within.rename("seconds").reset_index().assign(name=_multiple(multiple)))
    every = pd.concat(rows).drop_duplicates([*PROBLEM, "name"])
    order = [_multiple(m) for m in BUDGET_MULTIPLES] + list(dict.fromkeys(every["name"]))
    series = {str(name): part.set_index(PROBLEM)["seconds"] for name, part in every.groupby("name", sort=False)}
    return {name: series[name] for name in dict.fromkeys(order) if name in series}


def of_other_budgets(runs: Runs, budgets: pd.Series | None) -> str:
    """Return the sentence on deadlines that `with_deadlines` leaves out, "" for none: those that have no name."""
    timed = _timed(runs.table, budgets)
    gone = timed[timed["name"] == NAMELESS]
    if gone.empty:
        return ""
    return (
        f"Left out: {plural(len(gone), 'run')} on {plural(len(gone[PROBLEM].drop_duplicates()), 'problem')} with "
        "deadlines that are no multiple of the minimal budget, such as those made with the budgets of other runs: "
        "`python -m analysis budgets`, then study=deadlines with these. The minimal budget is that of "
        "the study's runs in this results_dir: these have to lie there, too."
    )


def _timed(table: pd.DataFrame, budgets: pd.Series | None) -> pd.DataFrame:
    """Return the runs of other utilities than EI that were made for a deadline, shortest first, and its `name`."""
    timed = table[table["tau"].notna() & (table["utility"] != EI)].sort_values("tau", kind="stable")
    return timed.assign(name=_names(timed, budgets))


def _multiple(multiple: float) -> str:
    return f"{multiple:.0%} of the minimal budget"


def _names(table: pd.DataFrame, budgets: pd.Series | None) -> np.ndarray:
    """Return the name of each run's deadline.

    NAMELESS where several problems have several in seconds: each would be a part of its own, on one problem.
    """
    tau = table["tau"].to_numpy(float)
    names = np.array([f"{t:g} s" for t in tau], dtype=object)
    if budgets is not None and len(table):
        share = tau / budgets.reindex(pd.MultiIndex.from_frame(table[PROBLEM])).to_numpy(float)
        for multiple in BUDGET_MULTIPLES:
            names[np.isclose(share, multiple, rtol=SAME)] = _multiple(multiple)
    loose = np.array([str(name).endswith(" s") for name in names], dtype=bool)
    per_problem = table[loose].assign(name=names[loose]).groupby(PROBLEM)["name"].nunique()
    if len(per_problem) > 1 and per_problem.max() == 1 and len(set(names[loose])) == len(per_problem):
        names[loose] = "each problem's own deadline"
    elif budgets is not None and len(per_problem) > 1 and per_problem.max() > 1:
        names[loose] = NAMELESS
    return names


# Utilities and cost rules in numbers: cost and error relative to EI, and mean ranks, with intervals.

_ROUNDED = 1 + 1e-9  # a run ends within its own total, whatever order the sums were taken in
SHARES = (0.25, 0.5, 1.0)  # of the mean time of `REFERENCE_METHOD` on the problem


def relative(found: Complete) -> pd.DataFrame:
    """Return label, measure (cost, error, both: percent of the reference's, of sums over seeds), value, low, high.

    Pairs in which either run has no successful evaluation, or the reference's error is 0, are left out of `error`.
    """
    runs, out = found.runs, []
    both = runs.training_s + runs.thought_s
    for measure, values in (("cost", runs.training_s), ("error", runs.final), ("both", both)):
        wide = runs.wide(values)[found.labels]
        percent = percent_of_sums(wide, wide[REFERENCE_METHOD].where(wide[REFERENCE_METHOD] > 0))
        out.append(with_intervals(percent).rename_axis("label").reset_index().assign(measure=measure))
    return pd.concat(out, ignore_index=True)


def utility_ranks(found: Complete) -> pd.DataFrame:
    """Return label, measure (when the rank is taken), value, low, high, n: mean ranks with their intervals."""
    score = {"at the end": found.runs.wide(found.runs.final)}
    for share in SHARES:
        score[f"within {share:.0%} of EI's training"] = _within(found.runs, share)
    counted = replace(found.runs, cost_s=found.runs.cost_s + found.runs.thinking_s)
    score["within EI's training + thinking"] = _within(counted, 1.0)
    return rank_means({name: wide[found.labels] for name, wide in score.items()})


def ended_before(found: Complete) -> pd.DataFrame:
    """Return, methods x SHARES, which share of the runs had made all of their evaluations before that was spent."""
    spent = found.runs.wide(found.runs.training_s)[found.labels]
    budget = _reference_time(found.runs, spent.index.to_frame(index=False))
    return pd.DataFrame({share: spent.lt(share * budget / _ROUNDED, axis=0).mean() for share in SHARES})


def _reference_time(runs: Runs, cells: pd.DataFrame) -> np.ndarray:
    """Return the reference's mean training seconds on the problem of each cell."""
    total = runs.table.assign(total=runs.training_s)
    budget = total[total["label"] == REFERENCE_METHOD].groupby(PROBLEM)["total"].mean()
    return budget.reindex(pd.MultiIndex.from_frame(cells[PROBLEM])).to_numpy(float)


def _within(runs: Runs, share: float) -> pd.DataFrame:
    """Return the best error, cells x methods, within a share of the reference's mean time on the problem."""
    own = _reference_time(runs, runs.table)
    return runs.wide(at_budgets(runs.incumbent, runs.cost_s, share * own[:, None] * _ROUNDED)[:, 0])


def rank_means(score: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Return label, measure, value, low, high, n: mean ranks of each measure's scores, cells x methods; low is good.

    A run that has nothing is last; ties share. off_value, off_low, off_high: the rank minus the reference's, cell by
    cell, which says more of two methods than whether their own intervals overlap.
    """
    out = []
    for name, wide in score.items():
        values = wide.to_numpy(float)
        rank = rankdata(np.where(np.isnan(values), np.inf, values), method="average", axis=1)
        own = pd.DataFrame(rank, index=wide.index, columns=wide.columns)
        found = with_intervals_and_differences(own, own[REFERENCE_METHOD])
        out.append(found.rename_axis("label").reset_index().assign(measure=name))
    return pd.concat(out, ignore_index=True)


# Which pairs of a utility and a cost rule there cannot be, and why: a table that lacks them says so.


def undefined(runs: Runs, deadline: bool) -> list[str]:
    """Return a line per reason for which pairs of the runs' utilities and rules are refused, and so have no row."""
    gone: dict[str, list[str]] = {}
    present = set(runs.table["label"])
    for utility, rule in product(sorted(set(runs.table["utility"])), sorted(set(runs.table["rule"]))):
        reason = None if f"{utility} x {rule}" in present else refusal(utility, rule, deadline)
        if reason is not None:
            gone.setdefault(reason, []).append(f"{utility} x {rule}")
    return [f"Not defined: {', '.join(pairs)}, since {reason}." for reason, pairs in gone.items()]


def refusal(utility: str, rule: str, deadline: bool) -> str | None:
    """Return why `utility` refuses `rule` (a method's name, such as ``cei(lam=0.3)``); None if it does not, or unknown.

    deadline: whether the run has one.
    """
    acq, _, given = rule.removesuffix(")").partition("(")
    files = CONFIGS / "utility" / f"{utility}.yaml", CONFIGS / "acq" / f"{acq}.yaml"
    if not all(path.is_file() for path in files):
        return None
    made: Utility = instantiate(OmegaConf.load(files[0]))
    parameters = [pair.split("=") for pair in given.split(",") if pair]
    config = OmegaConf.create({**{k: float(v) for k, v in parameters}, "acq": OmegaConf.load(files[1])})
    try:
        made.check(Setup(GaussianProcess(), Oracle(), instantiate(config.acq.rule), 1.0 if deadline else None))
    except BadInput as error:
        return str(error)
    return None

"""Runs of several utilities under cost rules: arranged, chosen, cut at deadlines, and compared in numbers.

A method is a utility with a cost rule, such as ``kg x cei(lam=0.3)``. Everything is paired by problem and seed.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from hydra.utils import instantiate
from jaxtyping import Float
from omegaconf import OmegaConf
from scipy.stats import rankdata

from analysis import traces
from analysis.captions import plural
from analysis.selection import BUDGET_MULTIPLES
from analysis.statistics import bootstrap
from analysis.traces import (
    CELL,
    PROBLEM,
    STUDY_ITERATIONS,
    TOLD,
    Judge,
    at_budgets,
    check_same_origin,
    choose_components,
    incumbents,
    of_the_best,
)
from datasets.errors import BadInput
from harness.acquisitions import CostRule, Setup, Utility
from harness.acquisitions.cost_rules import Contextual, Cool, Ignore, Power
from harness.config import CONFIGS
from harness.cost_models import Oracle
from harness.records import spec_hash
from harness.surrogates.gp import GaussianProcess

# Runs of utilities under cost rules as arrays: what each found, what it paid and how long the optimizer thought.
#
# Notation: R runs, T steps of the longest; padding is NaN.

REFERENCE = "ei x ei"


@dataclass(frozen=True)
class Runs:
    """table: one row per run: dataset, pipeline, seed, utility, rule, label, tau, iterations, evaluations, ms_per_step.

    curve: the best error so far, by `judge`; cost_s: training seconds; thinking_s: the optimizer's own before the step.
    evaluator: of all runs. ms_per_step: median over the run's proposals.
    """

    table: pd.DataFrame
    curve: Float[np.ndarray, "R T"]
    cost_s: Float[np.ndarray, "R T"]
    thinking_s: Float[np.ndarray, "R T"]
    evaluator: str

    def select(self, rows: np.ndarray) -> "Runs":
        """Return the runs at `rows` (positions, or a mask)."""
        arrays = (self.curve[rows], self.cost_s[rows], self.thinking_s[rows])
        return Runs(self.table.iloc[rows].reset_index(drop=True), *arrays, self.evaluator)

    def cut(self, kept: np.ndarray) -> "Runs":
        """Return the runs with `kept` (R,) first steps of each; `ms_per_step` of these, NaN without a proposal."""
        beyond = np.arange(self.curve.shape[1]) >= kept[:, None]
        curve, cost, thinking = (np.where(beyond, np.nan, a) for a in (self.curve, self.cost_s, self.thinking_s))
        proposed = pd.DataFrame(thinking).where(thinking > 0)
        table = self.table.assign(evaluations=kept, ms_per_step=1e3 * proposed.median(axis=1).to_numpy())
        return Runs(table, curve, cost, thinking, self.evaluator)

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
        last = np.maximum(self.table["evaluations"].to_numpy(int) - 1, 0)[:, None]
        found = np.take_along_axis(self.curve, last, axis=1)[:, 0]
        return np.where(self.table["evaluations"] > 0, found, np.nan)

    def wide(self, values: np.ndarray) -> pd.DataFrame:
        """Return `values` of the runs as cells x methods; NaN where a cell lacks the method."""
        return self.table.assign(value=values).pivot(index=CELL, columns="label", values="value")


def thinking_counted(runs: Runs) -> Runs:
    """Return the same runs with the optimizer's own seconds added to those of training."""
    return replace(runs, cost_s=runs.cost_s + runs.thinking_s)


NONE = "these records hold no utility but ei: python -m harness study=utilities, with the same results_dir"
LONGEST = 10.0
"""A step counts for at most so many times its run's median: compilation and stalls of the host are not thinking."""


def arrange(
    frame: pd.DataFrame,
    timings: pd.DataFrame,
    wanted: Mapping[str, str] | None = None,
    judge: Judge = "validation",
    mixed: bool = False,
    settings: Mapping[str, str] | None = None,
) -> Runs:
    """Return the runs of all utilities that are recorded under a rule which some utility other than EI has, too.

    frame, timings: as `harness.records` reads them. wanted: as for `components.choose`; a utility is never chosen.
    settings: of the utility, by spec (`settings_of`). mixed: whether records of different tables, engines or settings
    are meant to stand together.
    Raises BadInput where there is no other utility, or the records are mixed without saying so.
    """
    others = {key: name for key, name in (wanted or {}).items() if key != "utility"}
    frame, chosen = choose_components(frame, others, free=("utility",))
    frame = frame.assign(utility=frame["utility"].astype(str))
    if set(frame["utility"]) <= {"ei"}:
        raise BadInput(NONE)
    frame = frame.assign(alpha=traces.alpha_axis(frame["acq"], frame["alpha"]))
    frame = frame.assign(rule=traces.labels(frame))
    frame = frame[frame["rule"].isin(frame.loc[frame["utility"] != "ei", "rule"].unique())]
    if not mixed:
        check_same_origin(frame)
        _check_same_settings(frame, settings or {})
    frame = frame.sort_values(["spec", "seed", "step"], kind="stable", ignore_index=True)
    frame = frame.merge(timings, on=["spec", "seed", "step"], how="left", validate="one_to_one")
    run = frame.groupby(["spec", "seed"], sort=False).ngroup().to_numpy()
    first = frame.drop_duplicates(["spec", "seed"]).reset_index(drop=True)
    counts, step = np.bincount(run), frame["step"].to_numpy(int)
    if (step >= counts[run]).any():
        raise BadInput("a recorded run lacks steps: a trace counts 0, 1, 2, ... without gaps")
    spent = frame["fit_ms"] + frame["propose_ms"]
    median = spent.groupby(run).median().to_numpy(float)
    ms = np.minimum(spent.to_numpy(float), LONGEST * median[run])

    def dense(values: np.ndarray) -> np.ndarray:
        out = np.full((len(counts), counts.max()), np.nan)
        out[run, step] = values
        return out

    error, cost = dense(frame["error"].to_numpy(float)), dense(frame["cost_s"].to_numpy(float))
    test = dense(frame["test_error"].to_numpy(float))
    curve = of_the_best(error, test) if judge == "test" else incumbents(error)
    columns = [*CELL, "acq", "utility", "rule", "tau", "iterations"]
    table = first[columns].astype(dict.fromkeys([*PROBLEM, "acq", "rule"], str))
    table = table.assign(acq=traces.families(table["acq"], first["plans_ahead"]))
    table = table.assign(label=table["utility"] + " x " + table["rule"], evaluations=counts,
                         ms_per_step=median)  # fmt: skip
    _check_one_each(table, first["spec"])
    thinking = np.where(np.isnan(cost), np.nan, np.nan_to_num(dense(ms / 1e3)))
    return Runs(table, curve, cost, thinking, chosen["evaluator"])


def settings_of(made: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return the settings of the utility of every spec, and of which versions it was, as text, by its hash."""
    versions = ("look_ahead", "cost_sd")
    return {
        spec_hash(spec): json.dumps(
            [spec.get("components", {}).get("utility"), *(spec.get(name) for name in versions)], sort_keys=True
        )
        for spec in made
    }


def _check_one_each(table: pd.DataFrame, specs: pd.Series) -> None:
    """Raise BadInput where two specs give one method, length and deadline on a problem and seed: neither is chosen."""
    twice = table.duplicated([*CELL, "label", "acq", "tau", "iterations"], keep=False).to_numpy()
    if twice.any():
        one = table[twice].iloc[0]
        same = twice & (table[[*CELL, "label"]] == one[[*CELL, "label"]]).all(axis=1).to_numpy()
        raise BadInput(
            f"the run {one['label']} on {one['dataset']}/{one['pipeline']} seed {one['seed']} is recorded twice "
            f"(spec {', '.join(sorted(specs[same]))}): keep one results_dir per configuration"
        )


def _check_same_settings(frame: pd.DataFrame, settings: Mapping[str, str]) -> None:
    """Raise BadInput where one utility's runs were made with different settings, such as those of an older version."""
    seen = frame[["utility", "spec"]].drop_duplicates()
    kinds = seen.assign(settings=seen["spec"].map(settings)).groupby("utility")["settings"].nunique()
    several = [str(name) for name in kinds.index[kinds > 1]]
    if several:
        raise BadInput(
            f"the records of utility={', '.join(several)} were made with different settings of it: keep one "
            f"results_dir per setting, or say {TOLD}"
        )


# Which runs of utilities can be compared: as long as the others, and on the cells that every method has.


def at_horizon(runs: Runs) -> tuple[Runs, int, dict[str, int]]:
    """Return one run per method and cell, cut after N evaluations without a deadline, and N: 100, or fewer.

    Last: how many runs of each method (label) are shorter or planned for another length, where no other serves a cell.

    Of a method that does not plan, the first N steps of a longer run count, as far as its deadline allowed it.
    Raises BadInput where no utility but EI has such runs.
    """
    table = runs.table
    own = table[(table["utility"] != "ei") & table["tau"].isna()]
    if own.empty:
        raise BadInput("the runs of utilities other than ei all have a deadline")
    n = int(min(STUDY_ITERATIONS, own["evaluations"].max()))
    fits = (table["evaluations"] >= n) & (~plans(table) | (table["tau"].isna() & (table["iterations"] == n)))
    if REFERENCE not in set(table.loc[fits, "label"]):
        raise BadInput(f"comparing utilities needs runs of {REFERENCE} with {n} evaluations: run study=utilities")
    kept = table[fits].sort_values(["iterations", "acq"], kind="stable").drop_duplicates([*CELL, "label"])
    found = runs.select(np.sort(kept.index.to_numpy()))
    served, short = pd.MultiIndex.from_frame(kept[[*CELL, "label"]]), table[~fits].drop_duplicates([*CELL, "label"])
    short = short[~pd.MultiIndex.from_frame(short[[*CELL, "label"]]).isin(served)]
    return (
        found.cut(np.full(len(found.table), n)),
        n,
        {str(k): int(v) for k, v in short["label"].value_counts().items()},
    )


def plans(table: pd.DataFrame) -> pd.Series:
    """Return which runs' choices depend on the length or the deadline that they were planned for."""
    return traces.plans(table["acq"], table["utility"])


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
    if REFERENCE not in present:
        raise BadInput(f"comparing utilities needs runs of {REFERENCE}: run study=utilities")
    cells = {str(name): int(n) for name, n in present.sum().items()}
    order = sorted((name for name in cells if name != REFERENCE), key=lambda name: (cells[name], name))
    best: tuple[int, int] | None = None
    for gone in range(len(order)):
        size = int(present[[REFERENCE, *order[gone:]]].all(axis=1).sum()) * (1 + len(order) - gone)
        if size and (best is None or size > best[0]):
            best = (size, gone)
    if best is None:
        raise BadInput(f"no problem and seed has runs of {REFERENCE} and of another utility")
    labels = sorted([REFERENCE, *order[best[1] :]])
    whole = present[labels].all(axis=1)
    rows = runs.table["label"].isin(labels) & pd.MultiIndex.from_frame(runs.table[CELL]).isin(whole[whole].index)
    missing = {name: cells[name] for name in order[: best[1]]}
    return Complete(runs.select(rows.to_numpy()), labels, missing, int((~whole & present.any(axis=1)).sum()))


# Runs of utilities up to a deadline: which runs serve which, and what of them ends in time.
#
# A method that does not plan with the deadline makes the same choices whatever it is: one long run of it serves every
# deadline within the run. Utilities that plan (all but `traces.MYOPIC`) need runs of their own for each.

NAMELESS = ""
_SAME = 1e-6  # relative: budgets are written as text


def with_deadlines(runs: Runs, budgets: pd.Series | None = None) -> dict[str, Runs]:
    """Return, by the deadline's name, the runs that serve it, cut after what ends in time.

    budgets: the minimal budget in seconds by (dataset, pipeline), if it is known; deadlines that are a multiple of it
    are named by that, others by their seconds, but for those that `of_other_budgets` tells of. A deadline is there
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
        serves = np.isclose(tau, end, rtol=_SAME, atol=0.0)
        serves |= ~plans(table).to_numpy() & ((tau > end) | (np.isnan(tau) & covers))
        own = table.assign(capped=~covers)[serves]
        own = own.sort_values(["capped", "iterations", "acq"], ascending=[True, False, True], kind="stable")
        rows = np.sort(own.drop_duplicates([*CELL, "label"]).index.to_numpy())
        if set(table["utility"].iloc[rows]) > {"ei"}:
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
        longest = timed[~plans(timed)].groupby(PROBLEM)["tau"].max()
        base = budgets.reindex(longest.index)
        for multiple in BUDGET_MULTIPLES:
            within = (multiple * base)[multiple * base <= longest * (1.0 + _SAME)]
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
        "`python -m analysis budgets`, then study=deadlines with these."
    )


def _timed(table: pd.DataFrame, budgets: pd.Series | None) -> pd.DataFrame:
    """Return the runs of other utilities than EI that were made for a deadline, shortest first, and its `name`."""
    timed = table[table["tau"].notna() & (table["utility"] != "ei")].sort_values("tau", kind="stable")
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
            names[np.isclose(share, multiple, rtol=_SAME)] = _multiple(multiple)
    loose = np.array([str(name).endswith(" s") for name in names], dtype=bool)
    per_problem = table[loose].assign(name=names[loose]).groupby(PROBLEM)["name"].nunique()
    if len(per_problem) > 1 and per_problem.max() == 1 and len(set(names[loose])) == len(per_problem):
        names[loose] = "each problem's own deadline"
    elif budgets is not None and len(per_problem) > 1 and per_problem.max() > 1:
        names[loose] = NAMELESS
    return names


# Utilities and cost rules in numbers: cost and error relative to EI, and mean ranks, with intervals.

_ROUNDED = 1 + 1e-9  # a run ends within its own total, whatever order the sums were taken in
SHARES = (0.25, 0.5, 1.0)  # of the mean time of `REFERENCE` on the problem


def relative(found: Complete) -> pd.DataFrame:
    """Return label, measure (cost, error, both: percent of the reference's, same problem and seed), value, low, high.

    Pairs in which either run has no successful evaluation, or the reference's error is 0, are left out of `error`.
    """
    runs, out = found.runs, []
    both = runs.training_s + runs.thought_s
    for measure, values in (("cost", runs.training_s), ("error", runs.final), ("both", both)):
        wide = runs.wide(values)[found.labels]
        base = wide[REFERENCE].where(wide[REFERENCE] > 0)
        percent = 100.0 * wide.div(base, axis=0)
        out.append(bootstrap(percent).rename_axis("label").reset_index().assign(measure=measure))
    return pd.concat(out, ignore_index=True)


def ranks(found: Complete) -> pd.DataFrame:
    """Return label, measure (when the rank is taken), value, low, high, n: mean ranks with their intervals."""
    score = {"at the end": found.runs.wide(found.runs.final)}
    for share in SHARES:
        score[f"within {share:.0%} of EI's training"] = _within(found.runs, share)
    score["within EI's training + thinking"] = _within(thinking_counted(found.runs), 1.0)
    return rank_means({name: wide[found.labels] for name, wide in score.items()})


def ended_before(found: Complete) -> pd.DataFrame:
    """Return, methods x SHARES, which share of the runs had made all of their evaluations before that was spent."""
    spent = found.runs.wide(found.runs.training_s)[found.labels]
    budget = _reference_time(found.runs, spent.index.to_frame(index=False))
    return pd.DataFrame({share: spent.lt(share * budget / _ROUNDED, axis=0).mean() for share in SHARES})


def _reference_time(runs: Runs, cells: pd.DataFrame) -> np.ndarray:
    """Return the reference's mean training seconds on the problem of each cell."""
    total = runs.table.assign(total=runs.training_s)
    budget = total[total["label"] == REFERENCE].groupby(PROBLEM)["total"].mean()
    return budget.reindex(pd.MultiIndex.from_frame(cells[PROBLEM])).to_numpy(float)


def _within(runs: Runs, share: float) -> pd.DataFrame:
    """Return the best error, cells x methods, within a share of the reference's mean time on the problem."""
    own = _reference_time(runs, runs.table)
    return runs.wide(at_budgets(runs.curve, runs.cost_s, share * own[:, None] * _ROUNDED)[:, 0])


def rank_means(score: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Return label, measure, value, low, high, n: mean ranks of each measure's scores, cells x methods; low is good.

    A run that has nothing is last; ties share. off_value, off_low, off_high: the rank minus the reference's, cell by
    cell, which tells more of two methods than whether their own intervals overlap.
    """
    out = []
    for name, wide in score.items():
        values = wide.to_numpy(float)
        rank = rankdata(np.where(np.isnan(values), np.inf, values), method="average", axis=1)
        own = pd.DataFrame(rank, index=wide.index, columns=wide.columns)
        off = bootstrap(own.sub(own[REFERENCE], axis=0)).drop(columns="n").add_prefix("off_")
        out.append(bootstrap(own).join(off).rename_axis("label").reset_index().assign(measure=name))
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
    path, known = CONFIGS / "utility" / f"{utility}.yaml", _rule(rule)
    if known is None or not path.is_file():
        return None
    made: Utility = instantiate(OmegaConf.load(path))
    try:
        made.check(Setup(GaussianProcess(), Oracle(), known, 1.0 if deadline else None))
    except BadInput as error:
        return str(error)
    return None


def _rule(name: str) -> CostRule | None:
    plain: dict[str, CostRule] = {"ei": Ignore(), "eipu": Power(1.0), "eicool": Cool()}
    found = re.fullmatch(r"(eialpha|cei)\((?:alpha|lam)=([^,)]*)\)", name)
    if found:
        return Power(float(found[2])) if found[1] == "eialpha" else Contextual(float(found[2]))
    return plain.get(name)

"""Errors at equal cost: families of methods against EI stopped early, which costs nothing but a cut of its own curve.

Notation: C cells (problem and seed), S budgets in percent of what EI's N evaluations cost in that cell, M methods, F
families, D data sets. A run counts at a budget with the best of its evaluations that *end* within it, however many
those are, and with its last where it ended before; so a family's number at a budget is its best over the parameter and
the number of evaluations.

- The parameter is **one choice per budget for all problems**: that of the lowest mean. Chosen and judged on the same
  runs it flatters a family, the more so the longer its list. Beside it stands what a choice made on the other data sets
  gives on each (``mean, held out``), which does not.
- *EI-n* is EI with any budget. EI^alpha and CEI are the families without it (alpha, lambda > 0).
- EI stopped by rule, the same rule on all problems: after n evaluations, or to a price; and each method after N. Their
  cost differs from problem to problem, so they are held against EI cut at the rule's own mean cost in every cell:
  better, if stopping late here and early there is worth something.

Intervals: t over the means of data sets, whose eight pipelines are not independent (STUDY: "Confidence").
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from analysis.evaluations import CELL
from analysis.gains import flat_datasets, gains, scale
from analysis.methods import EI, PROBLEM, by_method, ordered, require
from analysis.selection import at_horizon, horizon, sparse_methods, whole_runs
from analysis.statistics import group_means, over_datasets, ratios_of_sums
from analysis.traces import Traces, at_step, finished_within
from analysis.tradeoffs import finals, tenths
from datasets.errors import BadInput

BUDGETS = (10.0, 20.0, 40.0, 60.0, 80.0, 100.0)
PRICES = (1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
EI_N, AFTER, PRICED, WHOLE = "EI-n", "EI after n", "EI to a price", "after N"
RULES = (WHOLE, AFTER, PRICED)
ERROR, REGRET = "error_pct", "regret"
MEAN, HELD_OUT, NOT_FLAT, MEDIAN = "mean", "mean, held out", "mean, not flat", "median"
SPENT = "mean, beside EI at what was spent"

# The runs compared, and their errors within budgets.


def families(methods: Sequence[str], runs: pd.DataFrame) -> dict[str, list[str]]:
    """Return the methods of each family: EI-n, EI^alpha and CEI without EI, and of others the runs' `acq`."""
    acq = by_method(runs)["acq"]
    names = {"ei": EI_N, "eialpha": "EI^alpha", "eipu": "EI^alpha", "cei": "CEI", "eicool": "EI-cool"}
    found: dict[str, list[str]] = {EI_N: [EI]}
    for method in methods:
        if method != EI:
            found.setdefault(names.get(acq[method], acq[method]), []).append(method)
    return found


@dataclass(frozen=True)
class EqualCost:
    """Runs whose errors at equal cost are compared: of each cell in `cells` one of every method.

    rows: positions among the runs of `traces`. n: EI's evaluations, whose cost in seconds, `whole`, is 100 %, and whose
    error, `final`, too. scale: `gains`, or the reason why there is none.
    absent: cells without runs of every method; zero, failed: those in which EI's final error is 0, or no evaluation of
    EI's succeeded; none of them counts. short: (problem, method, seed) without a run of n evaluations or of EI's cost.
    sparse: methods left out, for want of runs.
    """

    traces: Traces
    cells: pd.DataFrame
    methods: list[str]
    rows: Int[np.ndarray, "C M"]
    n: int
    scale: pd.DataFrame | str
    absent: int
    zero: int
    failed: int
    short: int
    sparse: list[str]

    @cached_property
    def whole(self) -> Float[np.ndarray, " C"]:
        """Seconds that EI's n evaluations cost."""
        return np.asarray(self.traces.spent_s[self._ei, self.n - 1])

    @cached_property
    def final(self) -> Float[np.ndarray, " C"]:
        """EI's error after n evaluations."""
        return np.asarray(self.traces.incumbent[self._ei, self.n - 1])

    def over_seeds(self, values: Float[np.ndarray, " C"]) -> Float[np.ndarray, " C"]:
        """Return, of each cell, the mean of the values over the seeds of its problem."""
        problem = self.cells.groupby(PROBLEM).ngroup().to_numpy()
        return np.asarray(group_means(values[:, None], problem)[problem, 0])

    @property
    def _ei(self) -> Int[np.ndarray, " C"]:
        return self.rows[:, self.methods.index(EI)]

    @cached_property
    def families(self) -> dict[str, list[int]]:
        """The positions in `methods` of each family's."""
        found = families(self.methods, self.traces.runs)
        return {name: [self.methods.index(method) for method in members] for name, members in found.items()}

    @cached_property
    def flat(self) -> list[str]:
        """The data sets among the cells that are flat."""
        return sorted(set(flat_datasets(self.traces)) & set(self.cells["dataset"]))

    def measures(self, statistic: str = MEAN) -> dict[str, tuple[Float[np.ndarray, " C"], Float[np.ndarray, " C"]]]:
        """Return (zero, unit) of each measure: its value is (error - zero) / unit.

        error_pct: 0, and a hundredth of EI's final error, its mean over the problem's seeds (a mean of ratios of single
        runs leans, as `statistics.ratios_of_sums` says), at every budget over all of them, also where some have no
        value yet; for medians that of the run. regret: the best of the table,
        and how far above it random search ends; NaN where it ends at the best, or the table is another. Without a scale
        there is no regret.
        """
        final = self.final if statistic == MEDIAN else self.over_seeds(self.final)
        found = {ERROR: (np.zeros(len(self.cells)), final / 100)}
        return found if isinstance(self.scale, str) else {**found, REGRET: scale(self.scale, self.cells)}

    def at(self, budget_s: Float[np.ndarray, "C S"], method: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return a method's error (NaN: none yet), evaluations, and whether it ended before, at each budget: (C, S)."""
        rows, traces = self.rows[:, method], self.traces
        done = finished_within(traces.cost_s, budget_s, rows)
        return at_step(traces.incumbent, done, rows), done, traces.total_s[rows, None] < budget_s

    def _seconds(self, budgets: Sequence[float]) -> Float[np.ndarray, "C S"]:
        return self.whole[:, None] * (np.asarray(budgets) / 100)

    def within(self, budgets: Sequence[float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what `at` does of every method, at budgets in percent of EI's cost: (C, B, M) each."""
        budget_s = self._seconds(budgets)
        every = [self.at(budget_s, method) for method in range(len(self.methods))]
        error, done, ended = (np.stack(parts, axis=2) for parts in zip(*every, strict=True))
        return error, done, ended

    def ei_at_spent(self, budgets: Sequence[float]) -> Float[np.ndarray, "C S M"]:
        """Return EI's error with what each method's run has spent: the budget, or all of its cost where it ended."""
        total_s, ei = self.traces.total_s[self.rows], self.methods.index(EI)
        spent_s = np.minimum(self._seconds(budgets)[:, :, None], total_s[:, None, :])
        return np.stack([self.at(spent_s[:, :, m], ei)[0] for m in range(len(self.methods))], axis=2)


def pair_runs(traces: Traces, ends: pd.DataFrame | str | None = None) -> EqualCost:
    """Return the runs whose errors at equal cost are compared, one of every method in each problem and seed.

    ends: `gains`, or why there are none; None: of the shipped tables, where they serve.
    Of a method that does not plan the longest run counts, if it has N evaluations (`selection.horizon`) or spent what
    EI's N cost; of one that plans that planned for N evaluations and no budget. Raises BadInput without runs of EI, and
    where no cell is left.
    """
    require(traces.runs, EI, "errors at equal cost")
    n = horizon(traces)
    ei = at_horizon(traces.select((traces.runs["method"] == EI).to_numpy()), n)[0]
    spent_s = pd.Series(ei.total_s, pd.MultiIndex.from_frame(ei.runs[CELL]))
    runs, short = whole_runs(traces, n, spent_s)
    few = sparse_methods(runs.runs)
    methods = [method for method in ordered(runs.runs) if method not in few]
    row = runs.runs.assign(row=np.arange(len(runs.runs))).pivot(index=CELL, columns="method", values="row")
    complete = row[methods].notna().all(axis=1)
    absent = int((~complete).sum())
    row = row.loc[complete, methods].astype(int)
    final = runs.incumbent[row[EI].to_numpy(), n - 1]
    kept = np.isfinite(final) & (final != 0)
    zero, failed = int((final == 0).sum()), int(np.isnan(final).sum())
    if not kept.any():
        raise BadInput(
            f"errors at equal cost need a problem and seed with runs of all of {', '.join(methods)} ({absent} lack "
            f"some), in which EI has a successful evaluation ({failed} have none) and an error above 0 ({zero} have 0)"
        )
    if ends is None:
        try:
            ends = gains(runs, n)
        except BadInput as error:
            ends = str(error)
    cells = row.index[kept].to_frame(index=False)
    return EqualCost(runs, cells, methods, row.to_numpy()[kept], n, ends, absent, zero, failed, short, few)


# The families' numbers.


def at_equal_cost(
    runs: EqualCost, budgets: Iterable[float] = BUDGETS, prices: Sequence[float] = PRICES
) -> pd.DataFrame:
    """Return errors at equal cost of every family, and of EI stopped by rule: a row per measure, statistic and budget.

    family; cost_pct: the budget in percent of EI's cost, of a stopping rule its mean cost; measure: error_pct (error in
    percent of EI's final one, its mean over seeds) or regret ((error - best of the table) / (random search's - best));
    statistic; method: the parameter chosen, or the rule; members: of how many; value, low, high; off, off_low,
    off_high: the paired difference to EI-n at the same cost; won: the share of problems in which the family's mean over
    seeds is the lowest of all families' (equal ones share it); evaluations: mean number; ended: share of the runs of
    the parameter chosen (beside a rule: of EI's) that ended before the budget was spent and count with their last;
    used_up: the share of all methods' runs that did not: below 0.9 (`selection.LEAST_SPENT`) the budget compares
    numbers of evaluations as well as costs; n, datasets: cells and data sets that count, those in which every method
    has a successful evaluation by then. NaN: not defined.
    The rules: each method after N evaluations, EI after n and to a price.

    statistic: mean (of the data sets' means, chosen by its own lowest), mean held out (the parameter of each data set
    chosen on the others), mean not flat (the mean's parameter, without flat data sets, where there are some), mean,
    beside EI at what was spent (the mean's parameter; off is to EI with what the method's own run has spent, which is
    less than the budget where it ended before), median (the mean's parameter, over all cells). Raises BadInput for
    budgets that are no percentages, and without a cell.
    """
    budgets = list(budgets)
    if not (budgets and all(isinstance(b, Real) and 0 < b <= 100 for b in budgets)):
        raise BadInput(f"budgets must be percentages above 0, up to 100 (of EI's cost), got {budgets}")
    rows = _fronts(runs, budgets)
    if not rows:
        raise BadInput("no problem and seed in which every method has a successful evaluation within a budget")
    return pd.DataFrame([*rows, *_rules(runs, prices)])


def _fronts(runs: EqualCost, budgets: Sequence[float]) -> list[dict[str, object]]:
    (error, done, ended), spent, rows = runs.within(budgets), runs.ei_at_spent(budgets), list[dict[str, object]]()
    single = runs.measures(MEDIAN)
    for measure, on in runs.measures().items():
        values, beside, alone = (
            (of - zero[:, None, None]) / unit[:, None, None]
            for of, (zero, unit) in ((error, on), (spent, on), (error, single[measure]))
        )
        for k, budget in enumerate(budgets):
            kept = np.isfinite(values[:, k]).all(axis=1)
            if kept.any():
                part = _Part(runs, kept, *(of_all[kept, k] for of_all in (values, beside, alone, done, ended)))
                rows += [{"cost_pct": budget, "measure": measure, **row} for row in part.rows()]
    return rows


@dataclass(frozen=True)
class _Part:
    """The cells `kept` at one budget: values of a measure, evaluations, and which runs ended before, of all methods.

    beside: of EI, with what each method's run has spent; single: the values that medians are taken of.
    """

    runs: EqualCost
    kept: Bool[np.ndarray, " C"]
    values: Float[np.ndarray, "k M"]
    beside: Float[np.ndarray, "k M"]
    single: Float[np.ndarray, "k M"]
    done: Int[np.ndarray, "k M"]
    ended: Bool[np.ndarray, "k M"]

    def rows(self) -> list[dict[str, object]]:
        """Return a row per family and statistic."""
        cells = self.runs.cells[self.kept]
        dataset = pd.factorize(cells["dataset"])[0]
        members = list(self.runs.families.values())
        means = group_means(self.values, dataset)
        chosen = np.array([own[int(means[:, own].mean(axis=0).argmin())] for own in members])
        one = np.tile(chosen, (len(cells), 1))
        plans = {statistic: (one, np.full(len(cells), True)) for statistic in (MEAN, MEDIAN, SPENT)}
        if len(means) > 1:
            others = (means.sum(axis=0) - means) / (len(means) - 1)
            held = np.stack([np.array(own)[others[:, own].argmin(axis=1)] for own in members], axis=1)
            plans[HELD_OUT] = held[dataset], np.full(len(cells), True)
        steep = ~cells["dataset"].isin(self.runs.flat).to_numpy()
        if steep.any() and not steep.all():
            plans[NOT_FLAT] = one, steep
        return [row for statistic, plan in plans.items() for row in self._rows(statistic, cells, chosen, *plan)]

    def _rows(
        self, statistic: str, cells: pd.DataFrame, chosen: np.ndarray, method: np.ndarray, rows: np.ndarray
    ) -> list[dict[str, object]]:
        """Return a row per family: method (k, F), the one taken in each cell; rows: the cells taken."""
        cells, method = cells[rows], method[rows]
        values = self.single if statistic == MEDIAN else self.values
        taken, done, ended = (np.take_along_axis(a[rows], method, axis=1) for a in (values, self.done, self.ended))
        beside = taken[:, :1]  # the first family is EI-n
        if statistic == SPENT:
            beside = np.take_along_axis(self.beside[rows], method, axis=1)
        numbers = summarise(statistic, cells, taken, beside)
        dataset = pd.factorize(cells["dataset"])[0]
        numbers |= {
            "evaluations": group_means(done, dataset).mean(axis=0),
            "ended": group_means(ended, dataset).mean(axis=0),
        }
        numbers["won"] = np.full(len(chosen), np.nan) if statistic == MEDIAN else win_shares(cells, taken)
        labels = [self.runs.methods[m] if statistic != HELD_OUT else "" for m in chosen]
        names = {"family": list(self.runs.families), "statistic": statistic, "method": labels}
        numbers["members"] = [len(own) for own in self.runs.families.values()]
        numbers["used_up"] = 1.0 - float(self.ended[rows].mean())
        found = pd.DataFrame({**names, **numbers}).to_dict("records")
        return [{str(name): value for name, value in row.items()} for row in found]


def summarise(
    statistic: str, cells: pd.DataFrame, values: Float[np.ndarray, "k F"], beside: Float[np.ndarray, "k #F"]
) -> dict[str, object]:
    """Return value and off (values - beside) with their intervals, none for the median, and the counts n, datasets."""
    dataset, found = pd.factorize(cells["dataset"])[0], dict[str, object]()
    for name, x in (("value", values), ("off", values - beside)):
        prefix = "" if name == "value" else "off_"
        if statistic == MEDIAN:
            none = np.full(x.shape[1], np.nan)
            numbers = np.median(x, axis=0), none, none
        else:
            numbers = over_datasets(x, dataset)
        found |= dict(zip((name, f"{prefix}low", f"{prefix}high"), numbers, strict=True))
    return {**found, "n": len(cells), "datasets": int(dataset.max()) + 1}


def win_shares(cells: pd.DataFrame, values: Float[np.ndarray, "k F"]) -> Float[np.ndarray, " F"]:
    """Return the share of problems in which each column's mean over seeds is the lowest; equal ones share a problem."""
    means = group_means(values, cells.groupby(PROBLEM).ngroup().to_numpy())
    best = means == means.min(axis=1, keepdims=True)
    return np.asarray((best / best.sum(axis=1, keepdims=True)).mean(axis=0))


# EI stopped by rule.


def priced(traces: Traces, prices: Sequence[float]) -> Int[np.ndarray, "R P"]:
    """Return after how many evaluations each run stops at each price: before the first choice that does not pay.

    A choice x after t evaluations pays while log EI(x) - log c(x) >= log(price sd_t / c_0): sd_t of the errors so far,
    c_0 the mean cost of the initial design, c(x) as predicted; so a price is how many sd one evaluation of the initial
    design's mean cost is worth, as in `PandorasBoxGittinsIndex`, whose default is 1e-3, and neither unit matters.
    The rule asks that no candidate pays; of candidates not chosen the records hold nothing, and EI chooses by EI alone,
    so that it stops here at the first choice of its own that does not pay, sooner or at the same time. Takes errors on
    the surrogate's scale as they are recorded (error_scale=raw). Runs that never stop have all their evaluations.
    Source: Xie, Cai, Terenin, Frazier and Scully 2025, "Cost-aware stopping for Bayesian optimization".
    """
    error, stop = traces.error, np.tile(traces.runs["evaluations"].to_numpy()[:, None], (1, len(prices)))
    # the surrogate sees the worst error so far in place of a failed one
    begin = np.where(traces.proposed.any(axis=1), traces.proposed.argmax(axis=1), 1)
    initial = np.array([costs[:t].mean() for costs, t in zip(traces.cost_s, begin, strict=True)])
    with np.errstate(divide="ignore"):
        pays = traces.log_ei - np.log(traces.predicted_cost_s) + np.log(initial)[:, None]
    for t in range(error.shape[1] - 1, 0, -1):
        seen = error[:, :t]
        worst = np.fmax.reduce(seen, axis=1)[:, None]
        sd = np.where(np.isnan(seen), np.where(np.isnan(worst), 0.0, worst), seen).std(axis=1)
        limit = np.log(np.where(sd > 0, sd, 1.0)[:, None] * np.asarray(prices))
        stop = np.where(traces.proposed[:, [t]] & (pays[:, [t]] < limit), t, stop)
    return np.asarray(stop)


def _rules(runs: EqualCost, prices: Sequence[float]) -> list[dict[str, object]]:
    """Return the rows of each method after N evaluations, and of EI after tenths of N and, where log EI is recorded, to
    each price.
    """
    each = {method: runs.traces.select(runs.rows[:, k]).first(runs.n) for k, method in enumerate(runs.methods)}
    ei, whole = each.pop(EI), np.full(len(runs.cells), runs.n)
    stops = [(WHOLE, method, run, whole) for method, run in each.items()]
    stops += [(AFTER, f"n={n}", ei, np.full_like(whole, n)) for n in tenths(runs.n)]
    if np.isfinite(ei.log_ei).any():
        at = priced(ei, prices)
        stops += [(PRICED, f"price={price:g}", ei, at[:, k]) for k, price in enumerate(prices)]
    single, rows = runs.measures(MEDIAN), []
    scales = {measure: {MEAN: on, MEDIAN: single[measure]} for measure, on in runs.measures().items()}
    for family, method, run, steps in stops:
        ended = finals(run, steps)
        error, cost = ended["final_error"].to_numpy(), ended["total_cost_s"].to_numpy()
        for measure, of_statistic in scales.items():
            for row in _stopped(runs, error, cost, steps, of_statistic):
                rows.append({"family": family, "measure": measure, "method": method, **row})
    return rows


def _stopped(
    runs: EqualCost,
    error: Float[np.ndarray, " C"],
    cost: Float[np.ndarray, " C"],
    steps: Int[np.ndarray, " C"],
    scales: Mapping[str, tuple[np.ndarray, np.ndarray]],
) -> list[dict[str, object]]:
    """Return the rows of one stopping rule beside EI cut, in every cell, at the rule's mean cost (percent of EI's).

    cost: seconds; scales: of medians and of means. The mean is over data sets of ratios of sums, so that neither has
    more to spend over all seeds.
    """
    steep, rows = ~runs.cells["dataset"].isin(runs.flat).to_numpy(), []
    plans: Mapping[str, np.ndarray] = {MEAN: np.full(len(cost), True), MEDIAN: np.full(len(cost), True)}
    if not steep.all():
        plans = {**plans, NOT_FLAT: steep}
    for statistic, taken in plans.items():
        zero, unit = scales.get(statistic, scales[MEAN])
        kept, before = taken, -1
        while kept.sum() != before and kept.any():  # cells without a value are not in the mean cost either
            before = kept.sum()
            dataset = pd.factorize(runs.cells.loc[kept, "dataset"])[0]
            problem = runs.cells[kept].groupby(PROBLEM).ngroup().to_numpy()
            relative = ratios_of_sums(cost[kept], runs.whole[kept], problem)
            percent = 100 * float(group_means(relative[:, None], dataset).mean())
            beside, _, ended = (a[:, 0] for a in runs.at(percent / 100 * runs.whole[:, None], runs.methods.index(EI)))
            values = np.stack([(e - zero) / unit for e in (error, beside)], axis=1)
            kept = kept & np.isfinite(values).all(axis=1)
        if kept.any():
            cells = runs.cells[kept]
            numbers = summarise(statistic, cells, values[kept, :1], values[kept, 1:])
            evaluations = float(group_means(steps[kept, None], pd.factorize(cells["dataset"])[0]).mean())
            flat = {name: x[0] if isinstance(x, np.ndarray) else x for name, x in numbers.items()}
            counts = {"evaluations": evaluations, "ended": float(ended[kept].mean())}
            rows.append({"cost_pct": percent, "statistic": statistic, **flat, **counts})
    return rows

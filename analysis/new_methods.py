"""The outcome of a registered test (NEW_METHODS.md): error at equal cost of the new methods, rivals and ablations.

Hypotheses and rules are those of the page, which was written before the runs (`analysis.registered_runs`). A family of
rivals counts at every budget with its best parameter there, found on the runs that it is judged on, which flatters it.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from analysis.captions import markdown_table, plural, sentence, write_csv, write_page
from analysis.equal_cost import EI_N
from analysis.methods import EI, by_method, name_in_figures
from analysis.plotting import BLACK, BLUE, ORANGE, SKY, Drawn, colour_of, new_figure, save, style
from analysis.registered_runs import BUDGETS, METHOD, RUNS, Half, both, write_runs
from analysis.selection import LEAST_SPENT
from analysis.statistics import holm, over_datasets
from analysis.traces import Judge
from datasets.errors import BadInput

BELOW_EI = 70.0  # percent of EI's cost at which the error is to be below EI's own
PAPER = ("EI^alpha", "CEI", "EI-cool", "carbo")
OTHERS = ("random", "sobol", "heated", "tpe", "cmaes", "cfo", "blendsearch")


def errors(half: Half) -> pd.DataFrame:
    """Return a row per method and budget: the mean error, and its differences to EI-n and to the method itself.

    error_pct, off_ei, off_method, each with the ends of its 95 % t interval over data sets; evaluations: their mean
    number; ended: the share of runs that ended before the budget was spent; ms: own time per step; n, datasets: cells
    and data sets that count, those in which every method has a successful evaluation by then.
    """
    names, rows = half.methods, []
    ms = pd.DataFrame(half.ms).median(axis=0).to_numpy()
    for k, budget in enumerate(BUDGETS):
        values = half.error[:, k]
        there = np.isfinite(values).all(axis=1)
        if not there.any():
            continue
        parts = {"error_pct": values, "off_ei": values - values[:, [names.index(EI)]]}
        parts["off_method"] = values - values[:, [names.index(half.method)]]
        row: dict[str, object] = {"half": half.name, "method": names, "cost_pct": budget}
        for name, numbers in parts.items():
            ends = over_datasets(numbers[there], pd.factorize(half.cells["dataset"][there])[0])
            row |= dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))
        row |= {"evaluations": half.done[there, k].mean(axis=0), "ended": half.ended[there, k].mean(axis=0), "ms": ms}
        sets = half.cells["dataset"][there].nunique()
        rows.append(pd.DataFrame({**row, "n": int(there.sum()), "datasets": sets}))
    return pd.concat(rows, ignore_index=True)


def hypotheses(half: Half) -> pd.DataFrame:
    """Return a row per test: hypothesis, against, cost_pct; off, low, high, p, holm; used_up, datasets, absent.

    off: the method's error less the other's, in percentage points of EI's final error, mean over data sets with its
    95 % t interval, NaN where no data set counts, and for rivals of the page that have no runs; p: of the two-sided
    paired t test over data sets, holm: corrected over all rows; used_up: the share of runs that had not ended before
    the budget was spent, of the one of the two with fewer of them. A hypothesis holds where every `high` of its rows is
    below 0: each alone says that there is a difference, so that together no correction is needed (an
    intersection-union test); for one row taken alone, holm is to be read.
    """
    mine, tests = half.methods.index(half.method), list[tuple[str, str, float, np.ndarray, float]]()
    for budget in BUDGETS:
        for name, against in _rivals(half).items():
            hypothesis = "H1" if name == EI_N else "H2" if name in PAPER else "H3"
            other, error = half.best(budget, against)
            off = half.best(budget, [mine])[1] - error
            tests.append((hypothesis, name, budget, off, half.used_up(budget, [mine, other])))
    off = half.best(BELOW_EI, [mine])[1] - 100.0
    tests.append(("H4", "EI's final error", BELOW_EI, off, half.used_up(BELOW_EI, [mine])))
    nothing = np.empty(0)
    tests += [
        ("H2", name, budget, nothing, np.nan) for name in PAPER if name not in half.families for budget in BUDGETS
    ]
    tests += [("H3", name, BUDGETS[-1], nothing, np.nan) for name in OTHERS if name not in half.methods]
    rows = []
    for hypothesis, name, budget, off, used_up in tests:
        off = off[np.isfinite(off)]
        some = over_datasets(off[:, None], np.arange(len(off))) if len(off) else np.full((3, 1), np.nan)
        value, low, high = (float(v[0]) for v in some)
        p = float(stats.ttest_1samp(off, 0.0).pvalue) if len(off) > 1 and off.std() > 0 else np.nan
        rows.append((half.name, hypothesis, name, budget, value, low, high, p, used_up, len(off), half.absent))
    columns = ["half", "hypothesis", "against", "cost_pct", "off", "low", "high", "p", "used_up", "datasets", "absent"]
    found = pd.DataFrame(rows, columns=columns).sort_values(["hypothesis", "against", "cost_pct"], ignore_index=True)
    found.insert(8, "holm", holm(found["p"].to_numpy()))
    return found


def _rivals(half: Half) -> dict[str, list[int]]:
    """Return the positions of the methods of each rival: EI-n, the paper's families, and the others, one family.

    The method itself is none, whatever family it is of.
    """
    own, mine = _own(half), half.methods.index(half.method)
    rest = {name: [k for k in members if k != mine] for name, members in half.families.items() if name not in own}
    found = {name: members for name, members in rest.items() if members}
    others = [member for name, members in found.items() if name not in (EI_N, *PAPER) for member in members]
    rivals = {name: found[name] for name in (EI_N, *PAPER) if name in found}
    return {**rivals, **({"best of the others": others} if others else {})}


def _own(half: Half) -> list[str]:
    """Return the families that are no rivals: new methods, parts left out of them, and each alone on another."""
    variants = f"{half.method}(", f"{METHOD}(", f"{EI}(", "eialpha("
    return [name for name in half.families if name in (half.method, METHOD) or name.startswith(variants)]


def _variants(half: Half) -> list[str]:
    """Return the methods beside the tested one that are no rivals."""
    return [half.methods[k] for name in _own(half) for k in half.families[name] if half.methods[k] != half.method]


# The figure.

_SHOWN = 40.0  # percent of EI's cost, of the ablations beside those at 100
_RIGHT = "Right: {0} without a part, and a part of it alone, minus {0} at equal cost: above 0 they are worse."
_STYLES = {EI_N: "-", "EI^alpha": "-", "CEI": "-", "EI-cool": "-.", "carbo": ":", "best of the others": "--"}


def draw(found: Sequence[Half], numbers: pd.DataFrame, tests: pd.DataFrame, judge: Judge, out: Path) -> Drawn:
    """Draw the figure `registered`, a row per half; numbers, tests: all rows of `errors` and of `hypotheses`."""
    method, variants = name_in_figures(found[0].method), max(len(_variants(half)) for half in found)
    caption = sentence(
        f"The registered test. Left: {judge} error when so much is spent, in percent of EI's final one; of a family",
        f"the parameter that is best at that budget. Middle: {method} minus the others, in percentage points: below 0",
        "it is better.",
        _RIGHT.format(method) if variants else "",
        "Means over data sets of means over problems and seeds; bars: 95 % t intervals over data sets, uncorrected.",
        *(
            f"{half.title}: {plural(half.cells['dataset'].nunique(), 'data set')}, "
            f"{plural(len(half.cells), 'problem-seed pair')}, {half.absent} left out without runs of every "
            f"method, {half.uncounted} in which EI's error is 0 or missing."
            for half in found
        ),
    )
    lines = pd.concat([_lines(half) for half in found], ignore_index=True)
    widths = (1.0, 1.2, 1.0) if variants else (1.0, 1.2)
    with style():
        figure, plots = new_figure(4.5 * len(widths), len(found) * max(3.2, 0.34 * variants + 1.6), caption)
        panels = plots.subplots(len(found), len(widths), squeeze=False, width_ratios=widths)
        for row, half in zip(panels, found, strict=True):
            _draw_errors(row[0], lines[lines["half"] == half.name], half.method)
            row[0].set_title(f"{half.title}: error at equal cost", fontsize=9)
            _draw_tests(row[1], tests[tests["half"] == half.name], half.method)
            if variants:
                _draw_parts(row[2], half, numbers[numbers["half"] == half.name])
        return save(figure, "registered", caption, lines, out)


def _lines(half: Half) -> pd.DataFrame:
    """Return the mean error of the method and of each rival at each budget: half, against, cost_pct, error_pct."""
    every = {half.method: [half.methods.index(half.method)], **_rivals(half)}
    rows = []
    for name, members in every.items():
        for budget in BUDGETS:
            if np.isfinite(half.error[:, BUDGETS.index(budget), members]).any():
                rows.append((half.name, name, budget, float(np.nanmean(half.best(budget, members)[1]))))
    return pd.DataFrame(rows, columns=["half", "against", "cost_pct", "error_pct"])


def _colour(name: str) -> str:
    return SKY if name == "best of the others" else BLACK if name.startswith("EI's") else colour_of(name)


def _draw_errors(axes: Axes, lines: pd.DataFrame, method: str) -> None:
    for name, own in lines.groupby("against", sort=False):
        axes.plot(own["cost_pct"], own["error_pct"], marker="o", markersize=3,
                  label=name_in_figures(str(name)), linestyle=_STYLES.get(str(name), "-"),
                  color=ORANGE if name == method else _colour(str(name)),
                  zorder=5 if name == method else 2, linewidth=2.2 if name == method else 1.2)  # fmt: skip
    axes.axhline(100, color="0.6", linewidth=0.8, zorder=0)
    axes.set_xlabel("cost spent (% of EI's)")
    axes.set_ylabel("best error (% of EI's final)")
    axes.legend(fontsize=7)


def _draw_tests(axes: Axes, tests: pd.DataFrame, method: str) -> None:
    """Draw the difference to each rival at each budget, and that to EI's final error."""
    tests = tests[tests["off"].notna()]
    names = list(tests["against"].unique())
    for k, (name, own) in enumerate(tests.groupby("against", sort=False)):
        x = own["cost_pct"] + 1.1 * (k - (len(names) - 1) / 2)
        arms = [own["off"] - own["low"], own["high"] - own["off"]]
        colour = _colour(str(name))
        axes.errorbar(x, own["off"], arms, fmt="o" if len(own) > 1 else "D", color=colour,
                      label=name_in_figures(str(name)), markersize=3.5, elinewidth=1.0)  # fmt: skip
    axes.axhline(0, color="0.4", linewidth=0.8, zorder=0)
    axes.set_xlabel("cost spent (% of EI's)")
    axes.set_ylabel("difference (points)")
    axes.set_title(f"{name_in_figures(method)} minus the other; below 0: better", fontsize=9)
    axes.legend(fontsize=7, ncols=2, loc="lower right")


def _draw_parts(axes: Axes, half: Half, numbers: pd.DataFrame) -> None:
    """Draw the variants' differences to the method at two budgets."""
    variants, method = _variants(half), name_in_figures(half.method)
    for budget, mark, lift in ((_SHOWN, "s", -0.14), (BUDGETS[-1], "o", 0.14)):
        own = numbers[numbers["cost_pct"] == budget].set_index("method").reindex(variants)
        arms = [own["off_method"] - own["off_method_low"], own["off_method_high"] - own["off_method"]]
        axes.errorbar(own["off_method"], np.arange(len(variants)) + lift, xerr=arms, fmt=mark, markersize=3.5,
                      color=BLACK if mark == "o" else BLUE, elinewidth=1.0,
                      label=f"at {budget:g} % of EI's cost")  # fmt: skip
    axes.axvline(0, color="0.4", linewidth=0.8, zorder=0)
    axes.set_yticks(range(len(variants)), [name_in_figures(name) for name in variants], fontsize=7.5)
    axes.set_ylim(len(variants) - 0.4, -1.4)  # room for the legend
    axes.set_xlabel(f"variant minus {method} (points)")
    axes.set_title(f"above 0: worse than {method}", fontsize=9)
    if variants:
        axes.legend(fontsize=7, loc="upper right")


# The page.


def verdicts(tests: pd.DataFrame) -> pd.DataFrame:
    """Return a row per half and hypothesis: holds (every interval below 0), fails (one above 0), or undecided.

    Incomplete: a test cannot be made (`off` is NaN), or cells lack runs of some method (`absent`). spent: the same of
    the tests alone in which nine of ten runs had used the budget up; below, tests: how many of the intervals lie below
    0.
    """
    rows = []
    for (half, hypothesis), part in tests.groupby(["half", "hypothesis"]):
        spent = part[part["used_up"] >= LEAST_SPENT]
        counts = int((part["high"] < 0).sum()), len(part), int((spent["high"] < 0).sum()), len(spent)
        of_spent = _verdict(part[~(part["used_up"] < LEAST_SPENT)])  # a test without runs leaves it incomplete, too
        rows.append((half, hypothesis, _verdict(part), *counts[:2], of_spent, *counts[2:]))
    columns = ["half", "hypothesis", "verdict", "below", "tests", "spent", "spent_below", "spent_tests"]
    return pd.DataFrame(rows, columns=columns)


def _verdict(tests: pd.DataFrame) -> str:
    if tests.empty or tests["off"].isna().any() or tests["absent"].any():
        return "incomplete"
    return "holds" if (tests["high"] < 0).all() else "fails" if (tests["low"] > 0).any() else "undecided"


def report(found: Sequence[Half], out: Path, judge: Judge) -> str:
    """Write new_methods.md, its two CSVs, its figure and the runs' numbers to `out`, and return the page."""
    write_runs(found, out / f"{RUNS}.parquet")
    alone = ""
    try:
        found = [*found, both(found)]
    except BadInput as error:
        alone = f"Both halves together were left out: {error}."
    numbers = pd.concat([errors(half) for half in found], ignore_index=True)
    tests = pd.concat([hypotheses(half) for half in found], ignore_index=True)
    parts = [
        "# Outcome of the registered test",
        f"Of {found[0].method}. Hypotheses, halves and rules: analysis/NEW_METHODS.md. Errors in percent of EI's final "
        f"error ({judge} error), mean over data sets [95 % t interval].",
    ]
    for half in found:
        own = numbers[numbers["half"] == half.name]
        cells = f"{half.cells['dataset'].nunique()} data sets, {len(half.cells)} problem-seed pairs"
        parts += [f"## {half.title}: {cells}, N = {half.n}"]
        for title, column in (
            ("Error at equal cost", "error_pct"),
            (f"Difference to {half.method} at equal cost (above 0: worse)", "off_method"),
        ):
            parts += [f"{title}\n\n{_pivot(own, column)}"]
        parts += ["Tests\n\n" + markdown_table(tests[tests["half"] == half.name].drop(columns="half"))]
        absent = f"{half.absent} problem-seed pairs without runs of every method"
        sparse = f"; for want of runs: {half.sparse}" if half.sparse else ""
        parts += [f"Left out: {absent}; {half.uncounted} in which EI's error is 0 or missing{sparse}."]
    parts += [alone, "## Verdicts\n\n" + markdown_table(verdicts(tests))]
    parts += [f"spent: of the tests in which {LEAST_SPENT:.0%} of the runs of both had not ended before the budget was "
              "spent, so that they compare the same money."]  # fmt: skip
    for name, table in (("new_methods", numbers), ("new_methods_tests", tests)):
        write_csv(table, out / f"{name}.csv", digits=None)
    draw(found, numbers, tests, judge, out)
    return write_page(out / "new_methods.md", parts).read_text(encoding="utf-8")


def _pivot(rows: pd.DataFrame, column: str) -> str:
    """Return methods by budgets, each number with its interval, and the own time per step."""
    texts = rows.assign(
        text=[f"{v:.2f} [{a:.2f}, {b:.2f}]" for v, a, b in rows[[column, f"{column}_low", f"{column}_high"]].to_numpy()]
    )
    table = texts.pivot(index="method", columns="cost_pct", values="text")
    table = table.reindex(list(dict.fromkeys(rows["method"])))
    table.columns = pd.Index([f"{budget:g} %" for budget in table.columns])
    table["ms per step"] = by_method(rows)["ms"].map("{:.1f}".format)
    return markdown_table(table.reset_index())

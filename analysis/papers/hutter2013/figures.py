"""C2 (treatments over slack factors), C3 (box plots of configured solvers) and the tables of both."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis import captions
from analysis.captions import footnote, intervals, markdown_table, plural, scope, sentence
from analysis.papers.hutter2013.records import (
    COST_TREATMENTS,
    SIGNIFICANT,
    TREATMENTS,
    by_model,
    by_slack,
    medians,
    read_censored,
    read_runs,
    solver_slack_rows,
    test_times,
)
from analysis.plotting import BLUE, Drawn, new_figure, save, style
from datasets.errors import BadInput
from harness.problem import SLACKS
from harness.streams import stream

# The two sections of the page: a figure and tables, from the records in a folder.

Section = tuple[Drawn | None, list[str]]


def of_censored(results_dir: Path, out_dir: Path) -> Section:
    """Return C2 and the tables of what was learned from censored costs; raises BadInput where there are no records."""
    found = read_censored(results_dir)
    slack, models = by_slack(found), by_model(found)
    drawn, parts = None, list[str]()
    if not slack.empty:
        drawn = c2(found, slack, out_dir)
        parts.append(slack_table(slack, found[found["experiment"] == "slack"]))
    if not models.empty:
        parts.append(model_table(models, found[found["experiment"] == "timeout"]))
    return drawn, parts


def of_configured(results_dir: Path, out_dir: Path) -> Section:
    """Return C3 and the tables of the configurator's runs; raises BadInput where there are none."""
    records = read_runs(results_dir)
    times = test_times(records)
    drawn = c3(times, out_dir)
    solvers = solver_slack_rows(records, SLACKS)
    parts = [] if solvers.empty else [solver_table(solvers)]
    return drawn, [*parts, configured_table(medians(times)), published_table(times)]


# Figures about censored costs: C2 (treatments over slack factors) and C3 (box plots of configured solvers).


def factor(slack: object) -> str:
    """Return a slack factor as figures and tables write it."""
    return "none" if np.isinf(value := float(str(slack))) else f"{value:g}"


def c2(found: pd.DataFrame, numbers: pd.DataFrame, out_dir: Path) -> Drawn:
    """Draw C2: RMSE and log-likelihood of the four treatments over slack factors, at the largest n."""
    if numbers.empty:
        raise BadInput("C2 needs records of the experiment slack")
    n = int(numbers["n"].max())
    part = numbers[numbers["n"] == n]
    cells = found[(found["experiment"] == "slack") & (found["n"] == n)]
    caption = sentence(
        f"C2. A random forest on log cost learned from {n} evaluations, each stopped at the slack factor times the",
        "lowest cost so far: RMSE (mean) and mean log-likelihood (median over cells), on configurations held out:",
        f"{scope(cells, 'tables')}.",
        f"Bars, of the RMSE: {intervals(cells, medians=False)}",
        "Above each factor: the share of evaluations that was stopped.",
        footnote(cells["dataset"]),
    )
    slacks = sorted(part["slack"].unique())
    with style():
        figure, plots = new_figure(9.6, 3.6, caption)
        axes: Any = plots.subplots(1, 2)
        for k, (treatment, (label, colour, marker)) in enumerate(TREATMENTS.items()):
            own = part[part["treatment"] == treatment].sort_values("slack")
            x = np.arange(len(own)) + 0.12 * (k - 1.5)
            bars = np.array([own["rmse"] - own["low"], own["high"] - own["rmse"]]).clip(0)
            look: Any = {"color": colour, "marker": marker, "linestyle": "", "markersize": 5, "label": label}
            axes[0].errorbar(x, own["rmse"], bars, **look)
            axes[1].plot(x, own["log_likelihood"], **look)
        for axis, name in zip(axes, ("RMSE of log cost", "log-likelihood (median over cells)"), strict=True):
            axis.set_xticks(range(len(slacks)), [factor(s) for s in slacks])
            axis.set_xlabel("slack factor")
            axis.set_ylabel(name)
        axes[0].set_ylim(bottom=0)
        axes[1].set_yscale("symlog", linthresh=1.0)
        axes[1].set_ylim(min(-1.0, 2.0 * part["log_likelihood"].min()), max(0.0, 2.0 * part["log_likelihood"].max()))
        for k, s in enumerate(slacks):
            share = part.loc[part["slack"] == s, "censored"].iloc[0]
            axes[0].annotate(f"{100 * share:.0f} %", (k, axes[0].get_ylim()[1]), ha="center", fontsize=7, color="0.35")
        axes[0].legend(fontsize=7.5, loc="lower left")
        return save(figure, "c2", caption, part, out_dir)


def c3(times: pd.DataFrame, out_dir: Path) -> Drawn:
    """Draw C3: box plots of mean test runtime per slack factor, one panel per scenario; the best group is filled."""
    table = medians(times)
    if table.empty:
        raise BadInput("C3 needs configuration runs: python -m harness.configurator")
    names = list(dict.fromkeys(table["scenario"]))
    one = times.dropna(subset="budget_s").iloc[0]
    least, most = int(table["runs"].min()), int(table["runs"].max())
    runs = plural(most, "run") if least == most else f"{least} to {plural(most, 'run')}"
    caption = sentence(
        "C3. Mean CPU seconds on test instances of what was configured under each slack factor;",
        f"{runs} per group (dots), {one['budget_s']:g} s of configuration each, the",
        f"configurator's own time included; a run of a solver may take {one['kappa_max_s']:g} s, and counts for that",
        "if it does or fails. Dashed: the solver's defaults. Filled: the lowest median and the groups not",
        f"significantly different from it (Mann-Whitney U, p >= {SIGNIFICANT:g}).",
    )
    with style():
        figure, plots = new_figure(9.6, 3.4, caption)
        axes: Any = plots.subplots(1, len(names), squeeze=False)[0]
        for axis, name in zip(axes, names, strict=True):
            own = table[table["scenario"] == name].sort_values("slack")
            of_it = times[times["scenario"] == name]
            data = [of_it.loc[of_it["slack"] == slack, "test_s"].to_numpy() for slack in own["slack"]]
            labels = [factor(s) for s in own["slack"]]
            drawn = axis.boxplot(data, widths=0.6, patch_artist=True, tick_labels=labels, showfliers=False)
            for box, best in zip(drawn["boxes"], own["best"], strict=True):
                box.set(facecolor=BLUE if best else "white", alpha=0.45 if best else 1.0)
            for median in drawn["medians"]:
                median.set(color="black")
            for place, seconds in enumerate(data):
                axis.plot(place + 1 + np.linspace(-0.15, 0.15, len(seconds) + 2)[1:-1], seconds, ".", color="0.3")
            axis.axhline(own["default_s"].iloc[0], color="0.4", linestyle="--", linewidth=1)
            axis.set_ylim(bottom=0)
            axis.set_title(name.replace("_", " "), fontsize=10)
            axis.set_xlabel("slack factor")
        axes[0].set_ylabel("mean test runtime (CPU s)")
        return save(figure, "c3", caption, times, out_dir)


# Tables about censored costs: treatments, cost models with time-outs, configured solvers.


def write(parts: list[str], out_dir: Path) -> Path:
    """Write `censored.md` of these parts and return its path."""
    return captions.write_page(out_dir / "censored.md", ["# Censored costs", *parts])


def slack_table(numbers: pd.DataFrame, cells: pd.DataFrame) -> str:
    """Return the table of treatments over slack factors."""
    rows = []
    for (n, slack), part in numbers.groupby(["n", "slack"]):
        own = part.set_index("treatment")
        row = {"n": n, "slack": factor(slack), "stopped, %": f"{100 * own['censored'].iloc[0]:.0f}"}
        shown = captions.format_intervals(own.loc[list(TREATMENTS), ["rmse", "low", "high"]], 2)
        row |= {f"RMSE {t}": text for t, text in zip(TREATMENTS, shown, strict=True)}
        rows.append(row | {f"LL {t}": captions.format_number(own["log_likelihood"][t]) for t in TREATMENTS})
    return (
        f"## Capped evaluations, on the tables\n\n{scope(cells, 'tables')}. RMSE of log cost (natural log): mean "
        f"over cells. {intervals(cells, medians=False)} LL: mean log-likelihood of a true log cost, median over cells, "
        f"sd at least 0.01.\n\n{markdown_table(pd.DataFrame(rows))}"
    )


def solver_table(found: pd.DataFrame) -> str:
    """Return the table of treatments over slack factors on solver runtimes: means and medians over runs."""
    rows = []
    for (scenario, slack), part in found.groupby(["scenario", found["slack"].fillna(np.inf)]):
        own = part.groupby("treatment")
        row = {"scenario": scenario, "slack": factor(slack), "runs": part["run"].nunique()}
        row["stopped, %"] = f"{100 * part['censored'].mean():.0f}"
        rmse, density = own["rmse"].mean(), own["log_likelihood"].median()
        row |= {f"RMSE {t}": f"{rmse[t]:.2f}" for t in TREATMENTS}
        rows.append(row | {f"LL {t}": captions.format_number(density[t]) for t in TREATMENTS})
    return (
        "## Capped evaluations, on solver runtimes\n\nThe runs of configurators without capping; a random half "
        "of the configurations learned from, capped per instance, the others asked about, every run counting.\n\n"
        f"{markdown_table(pd.DataFrame(rows))}"
    )


def model_table(numbers: pd.DataFrame, cells: pd.DataFrame) -> str:
    """Return the table of cost models where a share of the trainings timed out."""
    shown = numbers[["n", "model"]].rename(columns={"model": "cost model"})
    shown[list(COST_TREATMENTS)] = numbers[list(COST_TREATMENTS)].map("{:.3f}".format)
    for t in COST_TREATMENTS:
        shown[f"{t}, long ones"] = numbers[f"{t}_beyond"].map("{:.3f}".format)
    shown["gain over bound"] = captions.format_intervals(numbers[["gain", "gain_low", "gain_high"]], 3)
    share = 100 * float(cells["share"].dropna().iloc[0])
    return (
        f"## Cost models when {share:.0f} % of the trainings time out\n\n{scope(cells, 'tables')}. RMSE of log cost on "
        "configurations not learned from, of all and of those beyond the time limit. imputed: the default; bound: a "
        "time-out's cost taken as it is; known: without a limit. gain: paired, 95 % interval.\n\n"
        f"{markdown_table(shown)}"
    )


def configured_table(medians: pd.DataFrame) -> str:
    """Return the medians of test runtime; the best group is bold."""
    rows = []
    for (scenario, default), part in medians.groupby(["scenario", "default_s"], dropna=False):
        row = {"scenario": scenario, "default": captions.format_number(float(str(default)))}
        for one in part.sort_values("slack").to_dict("records"):
            value = captions.format_number(one["median_s"])
            row[factor(one["slack"])] = f"**{value}**" if one["best"] else value
        row["runs"] = f"{part['runs'].min()}-{part['runs'].max()}"
        tried = part[["target_runs", "configurations"]].median()
        row["solver runs / configurations"] = f"{tried['target_runs']:.0f} / {tried['configurations']:.0f}"
        row["unsolved tests"] = f"{part['unsolved'].mean():.2f}"
        row["own time, %"] = f"{100 * part['own_share'].mean():.0f}"
        rows.append(row)
    return (
        "## Configured solvers\n\nMedian over runs of the mean CPU seconds on test instances, per slack factor; bold: "
        "the lowest, and those that a Mann-Whitney U test does not tell from it (p >= 0.05). unsolved "
        "tests: test instances per run that took kappa_max or crashed, which counts for that.\n\n"
        f"{markdown_table(pd.DataFrame(rows))}"
    )


# The paper's table 1, and ours in its form.

PUBLISHED_SLACKS = (1.0, 1.1, 1.3, 1.5, 2.0, np.inf)
PUBLISHED = {  # median over 10 runs of the mean test runtime in seconds, by slack factor (Hutter et al. 2013, table 1)
    "CPLEX12-CLS": (5.27, 6.21, 6.47, 8.3, 6.66, 21.4),
    "CPLEX12-MASS": (639.0, 194.0, 202.0, 194.0, 197.0, 233.0),
    "CPLEX12-CORLAT": (17.6, 9.52, 20.5, 15.4, 16.9, 826.0),
    "CPLEX12-MIK": (0.888, 0.93, 0.954, 0.945, 0.986, 2.39),
    "CPLEX12-Regions200": (6.93, 6.65, 6.85, 7.21, 8.07, 12.0),
    "SPEAR-SWV": (67.2, 521.0, 8.15, 7.78, 290.0, 1030.0),
    "SPEAR-IBM": (13600.0,) * 6,
}
_RESAMPLES = 2000


def gain(times: pd.DataFrame, slack: float) -> tuple[float, float, float]:
    """Return the median test time without capping over that under `slack`, with its 95 % bootstrap interval over runs.

    times: of one scenario, as `test_times` returns them. Raises BadInput where either group has no run.
    """
    groups = [times.loc[times["slack"] == s, "test_s"].to_numpy() for s in (np.inf, slack)]
    if not all(map(len, groups)):
        raise BadInput(f"no runs under slack factor {factor(slack)} and without, to compare")
    rng = stream(0, "capping gain", str(slack))
    drawn = [np.median(g[rng.integers(len(g), size=(_RESAMPLES, len(g)))], axis=1) for g in groups]
    low, high = np.quantile(drawn[0] / drawn[1], [0.025, 0.975])
    return float(np.median(groups[0]) / np.median(groups[1])), float(low), float(high)


def published_table(times: pd.DataFrame) -> str:
    """Return the paper's table 1 and our scenarios in its form, with what capping at 1.3 gains."""
    rows = []
    for name, seconds in PUBLISHED.items():
        row = {"scenario": f"{name} (paper)"}
        row |= {factor(s): captions.format_number(v) for s, v in zip(PUBLISHED_SLACKS, seconds, strict=True)}
        rows.append(row | {"none / 1.3": captions.format_number(seconds[-1] / seconds[2])})
    for scenario, part in times.dropna(subset="slack").groupby("scenario"):
        own = part.groupby("slack")["test_s"].median()
        row = {"scenario": f"{scenario} (ours)"}
        row |= {factor(s): captions.format_number(own[s]) if s in own else "" for s in PUBLISHED_SLACKS}
        both = {1.3, np.inf} <= set(own.index)
        rows.append(row | {"none / 1.3": captions.format_interval(*gain(part, 1.3), 2) if both else ""})
    return (
        "## The paper's table 1 beside ours\n\nMedian over runs of the mean test runtime in CPU seconds, per slack "
        "factor; none / 1.3: what capping at 1.3 gains, as a factor, ours with its 95 % interval over runs.\n\n"
        f"{markdown_table(pd.DataFrame(rows))}"
    )

"""Censored costs: numbers, a one-dimensional example (C1), the figures C2 and C3, and tables.

Read are the records of `python -m tabular_cache censored` and of `python -m harness.configurator`. Source: Hutter, Hoos
and Leyton-Brown 2013, "Bayesian optimization with censored response data".
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float
from scipy.stats import mannwhitneyu, qmc

from analysis import captions
from analysis.captions import footnote, intervals, markdown_table, plural, scope, sentence
from analysis.plotting import BLUE, GREEN, ORANGE, RED, Drawn, new_figure, save, style
from analysis.statistics import bootstrap
from analysis.traces import CELL
from datasets.errors import BadInput
from datasets.files import write_atomically
from harness.acquisitions.ei import log_ei
from harness.configurator.experiment import read
from harness.problem import threshold
from harness.records import check_same, read_all, read_record
from harness.streams import seed_sequence, stream
from harness.surrogates.forest import CensoredForest, RandomForest
from tabular_cache.cost_study import CensoringData, slack_rows

# Numbers about censored costs, from the records of `python -m tabular_cache censored`.

TREATMENTS = {
    "sampled": ("Algorithm 1", BLUE, "o"),
    "mean": ("mean imputation", GREEN, "s"),
    "dropped": ("dropped", ORANGE, "v"),
    "bound": ("bound as value", RED, "^"),
}
COST_TREATMENTS = ("imputed", "dropped", "bound", "known")


def read_censored(results_dir: Path) -> pd.DataFrame:
    """Return one row per problem, seed, n, model, treatment and slack factor; raises BadInput where there is none.

    Records of one experiment on a problem share out its seeds (one in several counts once); under two settings they
    are refused.
    """
    parts = []
    folder, command = results_dir / "censored", "python -m tabular_cache censored"
    found = read_all(folder, read_record, lambda s: f"{s['experiment']} on {s['problem']}", command, "seeds")
    for experiment in ("slack", "timeout"):
        specs = [spec for spec, _ in found if spec["experiment"] == experiment]
        check_same(specs, ("sizes", "slacks", "trees", "models", "share", "version"), folder)
    for spec, table in found:
        dataset, _, pipeline = spec["problem"].partition("/")
        words = {"dataset": dataset, "pipeline": pipeline, "share": spec.get("share", np.nan)}
        parts.append(table.to_pandas().assign(experiment=spec["experiment"], **words))
    keys = [*CELL, "experiment", "n", "model", "treatment", "slack"]
    return pd.concat(parts, ignore_index=True).drop_duplicates(keys, ignore_index=True)


def by_slack(found: pd.DataFrame) -> pd.DataFrame:
    """Return, per n, slack factor (infinite: none) and treatment: the share censored, RMSE with its interval, and LL.

    rmse: mean over cells of the RMSE of log cost; off_*: its paired difference from ``sampled``; log_likelihood: the
    median over cells of the mean log density of a true log cost (a mean would show only the worst cells).
    """
    rows = []
    part = found[found["experiment"] == "slack"]
    for (n, slack), group in part.groupby(["n", part["slack"].fillna(np.inf)]):
        wide = group.pivot(index=CELL, columns="treatment", values="rmse")[list(TREATMENTS)]
        rmse = bootstrap(wide).rename(columns={"value": "rmse", "n": "cells"})
        off = bootstrap(wide.sub(wide["sampled"], axis=0)).add_prefix("off_").drop(columns="off_n")
        density = group.groupby("treatment")["log_likelihood"].median()
        joined = rmse.join(off).join(density).rename_axis("treatment").reset_index()
        rows.append(joined.assign(n=int(str(n)), slack=float(str(slack)), censored=group["censored"].mean()))
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame()


def by_model(found: pd.DataFrame) -> pd.DataFrame:
    """Return, per n and cost model, the mean RMSE under each treatment of timed-out costs, and of all and long costs.

    gain_*: RMSE of ``bound`` minus that of ``imputed``, paired, with its interval.
    """
    rows = []
    part = found[found["experiment"] == "timeout"]
    for (n, model), group in part.groupby(["n", "model"], sort=False):
        wide = group.pivot(index=CELL, columns="treatment", values="rmse")[list(COST_TREATMENTS)]
        beyond = group.groupby("treatment")["rmse_beyond"].mean().add_suffix("_beyond")
        gain = bootstrap((wide["bound"] - wide["imputed"]).to_frame("gain")).iloc[0]
        row = {"n": n, "model": model, "cells": len(wide), "censored": group["censored"].mean()}
        row |= {"gain": gain["value"], "gain_low": gain["low"], "gain_high": gain["high"]}
        rows.append(row | wide.mean().to_dict() | beyond.to_dict())
    return pd.DataFrame(rows)


# The one-dimensional example: a forest on capped evaluations before and after one step of Bayesian optimization.
#
# Source: Hutter, Hoos and Leyton-Brown 2013, figure 1, with another function.

SLACK, START, KAPPA_MAX, TREES, SEED = 1.2, 8, 3.0, 1000, 0
GRID = np.linspace(0.0, 1.0, 801)


def cost(x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return the runtime to be minimised: two valleys, the lower one narrow, between costly points."""
    return np.asarray(1.7 - 1.2 * np.exp(-(((x - 0.68) / 0.09) ** 2)) - 0.75 * np.exp(-(((x - 0.22) / 0.13) ** 2)))


@dataclass(frozen=True)
class State:
    """What is known at a step: points, costs as observed, which are bounds; the model and EI on GRID."""

    x: Float[np.ndarray, " n"]
    y: Float[np.ndarray, " n"]
    censored: Bool[np.ndarray, " n"]
    mean: Float[np.ndarray, " g"]
    sd: Float[np.ndarray, " g"]
    ei: Float[np.ndarray, " g"]


def state(x: list[float]) -> State:
    """Evaluate `x` in that order, each stopped at SLACK times the best so far, and fit the forest (Algorithm 1)."""
    true, best, y = cost(np.array(x)), None, np.empty(len(x))
    for k, value in enumerate(true):
        y[k] = min(value, threshold(SLACK, best, KAPPA_MAX))
        best = float(y[: k + 1].min())
    censored = y < true
    forest = CensoredForest(RandomForest(trees=TREES, seed=SEED))
    mean, sd = forest.fit(np.array(x)[:, None], y, censored, KAPPA_MAX).posterior.mean_sd(GRID[:, None])
    return State(np.array(x), y, censored, mean, sd, np.exp(log_ei(y[~censored].min() - mean, sd)))


def steps() -> tuple[State, State]:
    """Return the states after a Latin hypercube design and after the point of highest EI."""
    rng = np.random.Generator(np.random.PCG64(seed_sequence(SEED, "censored example")))
    x = qmc.LatinHypercube(1, rng=rng).random(START)[:, 0].tolist()
    before = state(x)
    return before, state([*x, float(GRID[np.argmax(before.ei)])])


def draw(out_dir: Path) -> Drawn:
    """Draw the two states: costs known and capped, mean and band of one sd either way, and EI below."""
    both = steps()
    known, capped = int((~both[0].censored).sum()), int(both[0].censored.sum())
    caption = sentence(
        f"C1. Minimising a runtime on [0, 1] whose evaluations are stopped at {SLACK:g} times the best so far. Left:",
        f"after a Latin hypercube design of {START} points ({known} known, {capped} stopped); right: one step later,",
        f"at the point of highest EI. Mean and band (one sd either way) over {TREES:,} trees by Algorithm 1 of",
        "Hutter et al. 2013: at a stopped point the mean lies above the bound, and the band does not close. After its",
        "figure 1, with another function.",
    )
    numbers = []
    with style():
        figure, plots = new_figure(9.6, 4.4, caption)
        axes: Any = plots.subplots(2, 2, sharex=True, sharey="row", height_ratios=(3, 1))
        for column, one in enumerate(both):
            _model(axes[0, column], one, newest=column == 1)
            chosen = GRID[np.argmax(one.ei)]
            axes[1, column].fill_between(GRID, one.ei, color=GREEN, alpha=0.5, linewidth=0)
            axes[1, column].axvline(chosen, color=GREEN, linestyle=":")
            axes[1, column].set_xlabel("x")
            title = "before the step" if column == 0 else "after the step"
            axes[0, column].set_title(title, fontsize=10)
            columns = {"x": GRID, "cost": cost(GRID), "mean": one.mean, "sd": one.sd, "ei": one.ei}
            numbers.append(pd.DataFrame({"step": title, **columns}))
        axes[0, 0].set_ylabel("runtime")
        axes[1, 0].set_ylabel("EI")
        axes[0, 0].legend(fontsize=7.5, loc="lower left", bbox_to_anchor=(0.28, 0.02))
        return save(figure, "c1", caption, pd.concat(numbers), out_dir)


def _model(axis: Any, one: State, newest: bool) -> None:
    axis.plot(GRID, cost(GRID), color="0.45", linestyle="--", linewidth=1, label="true runtime")
    axis.fill_between(GRID, one.mean - one.sd, one.mean + one.sd, color=BLUE, alpha=0.2, linewidth=0)
    axis.plot(GRID, one.mean, color=BLUE, label="mean, band: one sd")
    axis.plot(one.x[~one.censored], one.y[~one.censored], "o", color=RED, markersize=6, label="known")
    axis.plot(one.x[one.censored], one.y[one.censored], "^", color=ORANGE, markersize=7, label="stopped (bound)")
    if newest:
        axis.plot(one.x[-1:], one.y[-1:], "o", markersize=12, fillstyle="none", color="black", label="new")
        axis.annotate("new", (one.x[-1], one.y[-1]), textcoords="offset points", xytext=(9, -11), fontsize=8)
    axis.set_ylim(bottom=0)


# Numbers about the configuration experiment, from the records of `python -m harness.configurator`.

SIGNIFICANT = 0.05
SETTINGS = ("budget_s", "kappa_max_s", "train", "test", "treatment", "version")  # the same in all runs compared
_FEWEST = 20  # runs on either side, to score treatments on solver runtimes
_TREES = 30


def read_runs(results_dir: Path) -> list[dict[str, Any]]:
    """Return every record; raises BadInput where there is none, for a damaged one, and for a mix of settings."""

    def name(spec: dict[str, Any]) -> str:
        return f"{spec['scenario']}, slack {spec.get('slack', 'default')}, run {spec.get('run')},"

    folder = results_dir / "configurator"
    found = read_all(folder, read, name, "python -m harness.configurator")
    check_same([spec for spec, _ in found], SETTINGS, folder)
    records = [record for _, record in found]
    for scenario in {record["spec"]["scenario"] for record in records}:
        of_it = [record for record in records if record["spec"]["scenario"] == scenario]
        check_same([{"release": record.get("release")} for record in of_it], ("release",), folder / scenario)
    return records


def test_times(records: list[dict[str, Any]]) -> pd.DataFrame:
    """Return one row per record: scenario, slack (inf: none, NaN: the solver's defaults), run, mean test seconds."""
    rows = []
    for record in records:
        spec, made = record["spec"], "runs" in record  # a record of the defaults has no runs
        slack = spec.get("slack", np.nan)
        rows.append({
            "scenario": spec["scenario"], "slack": np.inf if slack is None else float(slack),
            "run": spec.get("run", -1),
            "test_s": float(np.mean([t["seconds"] for t in record["test"]])),
            "unsolved": sum(t["status"] != "solved" for t in record["test"]),
            "target_runs": len(record.get("runs", [])), "configurations": len(record.get("rows", [])),
            "own_share": record["model_s"] / (record["model_s"] + record["target_s"]) if made else np.nan,
            "kappa_max_s": spec["kappa_max_s"], "budget_s": spec.get("budget_s", np.nan),
        })  # fmt: skip
    return pd.DataFrame(rows).sort_values(["scenario", "slack", "run"], ignore_index=True)


def medians(times: pd.DataFrame) -> pd.DataFrame:
    """Return, per scenario and slack factor, the median test time over runs, and whether it is among the best.

    The best group has the lowest median; another is among the best unless a two-sided Mann-Whitney U test against it
    has p < 0.05, as in the paper. p: that test's, NaN for the best group itself.
    """
    rows = []
    for scenario, part in times.dropna(subset="slack").groupby("scenario"):
        groups = dict(iter(part.groupby("slack")))
        best = min(groups, key=lambda slack: float(groups[slack]["test_s"].median()))
        default = times.loc[(times["scenario"] == scenario) & times["slack"].isna(), "test_s"]
        for slack, own in groups.items():
            p = np.nan if slack == best else float(mannwhitneyu(own["test_s"], groups[best]["test_s"]).pvalue)
            rows.append({
                "scenario": scenario, "slack": slack, "runs": len(own), "median_s": own["test_s"].median(),
                "best": slack == best or p >= SIGNIFICANT, "p": p,
                "default_s": default.iloc[0] if len(default) else np.nan,
                **own[["target_runs", "configurations"]].median(), **own[["own_share", "unsolved"]].mean(),
            })  # fmt: skip
    return pd.DataFrame(rows)


def solver_slack_rows(records: list[dict[str, Any]], slacks: tuple[float | None, ...]) -> pd.DataFrame:
    """Return the scores of the four treatments on solver runtimes, as `tabular_cache.cost_study` does on tables.

    Data: the runs of configurators that stopped nothing before kappa_max (slack none). A random half of the
    configurations is learned from, in the order of their runs, stopped at a slack factor times the lowest time so far
    on the same instance; the others are asked about, every run counting. Runs that crashed are left out.
    """
    rows = []
    for record in records:
        if "runs" not in record or record["spec"]["slack"] is not None:
            continue
        features = np.array(record["features"])
        spread = features.std(axis=0)
        features = (features - features.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        runs = [run for run in record["runs"] if run["status"] != "crashed"]
        row, instance = (np.array([run[name] for run in runs], np.int64) for name in ("row", "instance"))
        X = np.hstack([np.array(record["rows"])[row], features[instance]])
        y = np.log([run["cpu_s"] for run in runs])
        spec = record["spec"]
        configurations = stream(spec["run"], "solver halves", spec["scenario"]).permutation(np.unique(row))
        mine = np.isin(row, configurations[: (len(configurations) + 1) // 2])
        if min(mine.sum(), (~mine).sum()) < _FEWEST:
            continue
        forest = RandomForest(_TREES, categories=[*record["categories"], *[0] * features.shape[1]])
        data = CensoringData(X[mine], y[mine], X[~mine], y[~mine])
        own = slack_rows(data, slacks, forest, float(np.log(spec["kappa_max_s"])), instance[mine])
        rows += [{"scenario": spec["scenario"], "run": spec["run"], "n": int(mine.sum()), **found} for found in own]
    return pd.DataFrame(rows)


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
        f"Bars: {intervals(cells)}",
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
    path = out_dir / "censored.md"
    write_atomically(path, ("\n\n".join(["# Censored costs", *parts]) + "\n").encode())
    return path


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
        f"## Capped evaluations, on the tables\n\n{scope(cells, 'tables')}. RMSE of log cost (natural log; mean "
        "and 95 % interval over cells), LL: mean log-likelihood of a true log cost, median over cells, sd at least "
        f"0.01.\n\n{markdown_table(pd.DataFrame(rows))}"
    )


def solver_table(found: pd.DataFrame) -> str:
    """Return the same on solver runtimes, means and medians over configuration runs."""
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
